"""A job goes on after a kill -9 and after a restart: no object is fetched twice, but for those that were under way, and
in the end its report counts each object once."""
from jobs import *

OBJECTS, SIZE, KILLS = 4000, 20_000, 8

with Story("j02 jobs outlive kill -9", seconds=180) as story:
    origin = story.origin(f"objects=pile/%05d {OBJECTS} {SIZE}", f"objects=list/%05d {OBJECTS} {SIZE}")
    origin.tell("match=* GET", "first_byte_ms=20")
    server = story.penstock(origin=origin.url, cache_size="512MiB", freshness="immutable", permission_time="1d")
    rng = random.Random(story.seed)

    def gets(bucket):
        """The number of whole answers to GETs of each key, by the origin's log."""
        count = {}
        for line in origin.log_lines():
            if line[1] == "GET" and line[2].startswith(bucket + "/") and line[-1] == "whole" and line[4] == "200":
                count[line[2]] = count.get(line[2], 0) + 1
        return count

    def until_done(bucket, id):
        """Kills the daemon again and again, and returns the report of the job in the end, and how often it was killed."""
        global server
        kills, seen = 0, 0
        while True:
            jobs = Jobs(server.client, bucket)
            if kills < KILLS:
                aim = seen + rng.randrange(OBJECTS // (KILLS + 2))
                report = wait_for("it gets on", lambda: (r := jobs.report(id))["objects"] >= aim and r)
            else:
                report = jobs.ended(id)
            if report["state"] != "running":
                return report, kills
            story.fact("progress is never lost", report["objects"] >= seen, (report, seen))
            totals.add(report.get("total_objects", OBJECTS))
            if kills % 4 == 3:
                server = server.restart()
            else:
                server.kill()
                server = Penstock(story, server.settings, env=server.env)
            kills += 1
            # The state on the disk may be a second old, and lacks what was not settled.
            found = wait_for("the job is found again", lambda: any(r["id"] == id for r in Jobs(server.client, bucket).list()) and
                             Jobs(server.client, bucket).report(id))
            seen = found["objects"]

    totals = set()
    for bucket, job in (("pile", {"prefix": "0"}), ("list", {"keys": [], "lines": [f"{i:05d}" for i in range(OBJECTS)]})):
        origin.reset()
        id = Jobs(server.client, bucket).start(**job)
        report, kills = until_done(bucket, id)
        story.same(f"{bucket}: done after {kills} kills", (report["state"], report["objects"], report["failures"], report["not_kept"]), ("done", OBJECTS, [], 0))
        story.same("... each object once", (report["hits"] + report["fetched"], report["bytes"]), (OBJECTS, OBJECTS * SIZE))
        count = gets(bucket)
        again = sum(n - 1 for n in count.values())
        story.same("the origin was asked for each object", len(count), OBJECTS)
        story.fact(f"... and again only for what was under way ({again} of {OBJECTS})", again <= kills * 48 * 2, again)
        before = origin.totals()["get"]
        story.same("a read of each needs no GET", ({server.get(f"{bucket}/{i:05d}").status for i in range(0, OBJECTS, 97)}, origin.totals()["get"] - before),
                   ({200}, 0))
        story.same("the size of the job was always right", totals, {OBJECTS})
        story.same("the list is gone", [name for name in os.listdir(story.path("cache/jobs")) if name.endswith(".list")], [])
