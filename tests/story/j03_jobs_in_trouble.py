"""Jobs when something is wrong: the origin is down for a while, the cache is full, a key is taken away, a bucket is not
there, two jobs have the same prefix, a purge comes meanwhile. And clients come first."""
from jobs import *

SIZE = 200_000


class Careless(Listener):
    """An origin that lists the same keys for every prefix."""
    def serve(self, c):
        lines = c.makefile("rb")
        while lines.readline():
            while lines.readline().strip():
                pass
            keys = "".join(f"<Contents><Key>{key}</Key><Size>5</Size><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
                           f"<ETag>&quot;e&quot;</ETag></Contents>" for key in ("a/1", "b/1"))
            body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{keys}</ListBucketResult>".encode()
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


with Story("j03 jobs in trouble", seconds=240) as story:
    origin = story.origin(f"objects=pile/%04d 200 {SIZE}", f"objects=big/%04d 700 {SIZE}", "objects=bad/%03d 60 1000", f"objects=slow/%04d 200 {SIZE}",
                          "objects=old/%02d 20 1000")
    keys = [{"access_key": "ALLKEY", "secret_key": "allkey", "policy": "all"}, {"access_key": "GONEKEY", "secret_key": "gonekey", "policy": "all"}]
    server = story.penstock(origin=origin.url, cache_size="64MiB", freshness="immutable", keys=keys,
                            buckets={"old": {"freshness": "ttl", "ttl": "0s", "grace": "0s", "stale_if_error": "1h"}})
    client = Client(server.port, "ALLKEY", "allkey")
    pile = Jobs(client)

    # ---- an origin that is down ----
    origin.tell("match=pile/* GET", "first_byte_ms=200")
    id = pile.start(prefix="0")
    wait_for("it gets on", lambda: pile.report(id)["objects"] > 40)
    origin.tell("match=pile/*", "status=503")
    waiting = wait_for("it waits", lambda: (r := pile.report(id)).get("waits") and r)
    story.same("... and still runs, without a failure", (waiting["state"], waiting["failed"]), ("running", 0))
    origin.reset()
    time.sleep(4)
    story.fact("it asks the origin seldom", origin.totals()["get"] < 60, origin.totals())
    origin.tell("reset=rules")
    report = pile.ended(id, 60)
    story.same("then it goes on, and has all", (report["state"], report["objects"], report["failed"], report["not_kept"]), ("done", 200, 0, 0))

    # ---- an expired copy is no object that the job has brought ----
    old = Jobs(client, "old")
    story.same("objects that expire at once", sums(old.run(prefix="")), (20, 0, 20, 0, 0))
    origin.tell("match=old/*", "status=503")
    story.same("a client gets the expired copy", wait_for("it is expired", lambda: (c := client.get("old/00").cache) != "hit" and c), "stale-if-error")
    id = old.start(keys=[f"{n:02d}" for n in range(20)])
    waiting = wait_for("it waits", lambda: (r := old.report(id)).get("waits") and r)
    story.same("a job does not count it", (waiting["state"], waiting["objects"]), ("running", 0))
    origin.calm()
    story.same("... and goes on when the origin works again", sums(old.ended(id, 60)), (20, 20, 0, 0, 0))

    # ---- an origin that ignores the prefix ----
    careless = story.penstock(origin=Careless().url, cache_dir=story.path("careless"), cache_size="64MiB")
    report = Jobs(careless.client, "bucket").run(prefix="a/")
    story.same("keys outside the prefix are not fetched", (report["state"], report["fetched"]), ("failed", 0))
    story.fact("... and it is said why", "ignore the parameter prefix" in report["why"], report)

    # ---- one key that always fails; the others do not wait for it ----
    bad = Jobs(client, "bad")
    origin.tell("match=bad/007 GET", "status=500")
    report = bad.run(prefix="")
    story.same("a key that always fails is a failure", (report["state"], report["objects"], report["fetched"], [f["key"] for f in report["failures"]]),
               ("done", 60, 59, ["007"]))
    origin.calm()

    # ---- two jobs over one prefix; a purge meanwhile ----
    story.same("purge", client.ask("POST", "pile", [("penstock-purge", ""), ("prefix", "")]).status, 200)
    # A full cache takes the room of purged objects only then, and admits no object that is not read before.
    wait_for("the sweep ends", lambda: server.metric("penstock_store_bans") == 0)
    origin.reset()
    origin.tell("match=pile/* GET", "first_byte_ms=10")
    ids = [pile.start(prefix=p) for p in ("0", "")]
    reports = [pile.ended(id) for id in ids]
    story.same("two jobs over one prefix", [(r["state"], r["objects"], r["failed"], r["not_kept"]) for r in reports], [("done", 200, 0, 0)] * 2)
    story.same("... fetch each object once", origin.totals()["get"], 200)
    id = pile.start(prefix="")
    story.same("a purge while a job runs", client.ask("POST", "pile", [("penstock-purge", ""), ("prefix", "01")]).status, 200)
    story.same("... the job ends", pile.ended(id)["state"], "done")

    # ---- a full cache ----
    origin.calm()
    big = Jobs(client, "big")
    before = server.metric("penstock_job_objects_not_kept_total")  # a purged object may not have been kept, either
    report = big.run(prefix="")
    story.fact("a job that the cache can't keep says so, and stops", report["state"] == "full" and "full" in report["why"] and
               64 <= report["not_kept"] < report["objects"] < 700, report)
    story.same("... it is counted", server.metric("penstock_job_objects_not_kept_total") - before, report["not_kept"])

    # ---- a bucket that is not there; a key that is taken away ----
    origin.tell("match=none/ LIST", "status=404", "code=NoSuchBucket")
    report = Jobs(client, "none").run(prefix="")
    story.same("no such bucket", (report["state"], report["why"]), ("failed", "the bucket does not exist"))
    origin.tell("match=slow/* GET", "first_byte_ms=300")
    gone, slow = Jobs(Client(server.port, "GONEKEY", "gonekey"), "slow"), Jobs(client, "slow")
    id = gone.start(prefix="")
    wait_for("it gets on", lambda: gone.report(id)["objects"] > 0)
    with open(server.config_path, "w") as f:
        json.dump({**server.settings, "keys": keys[:1]}, f)
    os.kill(server.pid, signal.SIGHUP)
    report = slow.ended(id)
    story.fact("a job ends when its client leaves the settings", report["state"] == "refused" and "access key" in report["why"] and
               report["objects"] < 200, report)
    story.same("... and its own client sees nothing", gone.ask("GET", id).status, 403)

    # ---- limits ----
    origin.tell("match=slow/* GET", "first_byte_ms=60000")
    ids = []
    while (reply := slow.ask("POST", body=b'{"prefix": "01"}')).status == 202:
        ids.append(json.loads(reply.body)["id"])
    story.same("a client may have its share of the jobs", (reply.status, len(ids), server.metric("penstock_jobs_limited_total")), (503, 16, 1))
    story.same("all end", {slow.ask("DELETE", id).status for id in ids}, {204})
