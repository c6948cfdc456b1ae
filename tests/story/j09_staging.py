"""A full cache that admits nothing, and a job that follows its readers: what the job brings is staged, so that each object is
fetched once. The next start drops it. A wrong list costs a bounded share of the cache. And kill -9 at any step."""
from jobs import *

SIZE, COUNT, OTHERS = 100_000, 1000, 1100
CACHE, EXTENT, WINDOW = 96 * MIB, 4 * MIB, 8 * MIB
KEPT = 60

use_tests_daemon()
with Story("j09 what the cache does not admit is staged for its readers", seconds=240) as story:
    control = story.path("failpoints")
    clock = story.clock()
    origin = story.origin(f"objects=pile/%d {COUNT} {SIZE}", f"objects=pile/other-%d {OTHERS} {SIZE}",
                          f"objects=pile/wrong-%d {COUNT} {SIZE}", f"objects=pile/kept-%d {KEPT} {SIZE}", f"objects=pile/new-%d {10 * COUNT} {SIZE}")
    server = story.penstock(origin=origin.url, cache_size=f"{CACHE}", extent_size=f"{EXTENT}", freshness="immutable",
                            env={"PENSTOCK_FAILPOINTS": control})
    jobs = Jobs(server.client)

    def follow(keys, window=WINDOW):
        return jobs.start(mode="follow", keys=[], window=window, lines=[f"{k}" for k in keys])

    def extents():
        """The extents on the disk, by their kind: that in the head page of each."""
        kinds, folder = {1: 0, 2: 0, 3: 0}, os.path.join(server.cache_dir, "extents")
        for name in os.listdir(folder):
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    head = file.read(13)
                kinds[head[12]] += 1
            except (FileNotFoundError, IndexError):
                pass    # it was evicted, or has no head page yet
        return kinds

    def staging():
        return extents()[3]

    def arm(*lines):
        """From now on these steps fail."""
        with open(control + ".new", "w") as file:
            file.write("".join(line + "\n" for line in lines))
        os.rename(control + ".new", control)

    def used():
        return server.metric("penstock_store_bytes")

    numbers = iter(range(10 * COUNT))

    def new(count):
        """Keys that nobody has read yet: the cache may admit what was read before."""
        return [f"new-{next(numbers)}" for _ in range(count)]

    def fill():
        """Reads other objects until the full cache admits nothing new. Before it is full, nothing may be a hit either: a
        busy machine writes later."""
        for _ in range(10):
            for n in range(OTHERS):
                server.get(f"pile/other-{n}")
            probes = new(10)
            for key in probes:
                server.get("pile/" + key)
            if not sum(server.get("pile/" + key).cache == "hit" for key in probes) and used() > 0.8 * CACHE:
                return
        raise Wrong("the cache admits new objects after ten rounds")

    # ---- a full cache ----
    arm()
    fill()
    kept = server.metric("penstock_store_entries")
    story.fact("the cache is full", kept > 500, kept)

    # ---- a list that is larger than the room that is left ----
    origin.reset()
    order = story.random.sample(range(COUNT - 20), COUNT - 20)
    id = follow(order)
    rests(origin)
    hits, most, fullest = 0, 0, 0
    for n in range(0, len(order), 20):
        hits += read_objects(server.client, order[n:n + 20], SIZE, 0.004)
        most, fullest = max(most, staging()), max(fullest, used())
    report = jobs.ended(id)
    story.fact("nearly all objects are there when they are read", hits >= 0.8 * len(order), hits)
    story.fact("each object was fetched once", origin.totals()["get"] <= 1.02 * len(order), origin.totals())
    story.same("the job kept what it brought", (report["state"], report["not_kept"], report["failed"]), ("done", 0, 0))
    story.fact("staged objects take no more than their share", 1 <= most <= (WINDOW // EXTENT) + 4, most)
    story.fact("... and the cache not more than its size", fullest <= CACHE, fullest)

    # ---- a job that must bring what stays ----
    fill()
    id = follow([f"kept-{n}" for n in range(KEPT)])
    rests(origin)
    story.fact("objects are staged", staging() >= 1, extents())
    report = jobs.run(prefix="kept-", pin=True)
    objects, hits, fetched, failed, not_kept = sums(report)
    story.same("a job that warms brings them all", (objects, failed, not_kept), (KEPT, 0, 0))
    story.fact("... and counts staged ones as missing", fetched >= 1, report)
    jobs.ask("DELETE", id)
    clock.ahead(120)
    wait_for("they are staged no longer", lambda: staging() == 0)
    hits = read_objects(server.client, [f"kept-{n}" for n in range(KEPT)], SIZE, 0)
    story.same("... and what was warmed and pinned stays", hits, KEPT)

    # ---- a restart ----
    fill()    # the room of the staged objects is for all
    kept = server.metric("penstock_store_entries")
    id = follow(order)
    rests(origin)
    story.fact("the next job stages, too", staging() >= 1, extents())
    wait_for("... and a metric tells it", lambda: server.metric("penstock_store_staged_bytes") > 0)
    jobs.ask("DELETE", id)
    server = server.restart()
    jobs = Jobs(server.client)
    wait_for("the start drops what was staged", lambda: staging() == 0)
    wait_for("... and the metric tells that, too", lambda: server.metric("penstock_store_staged_bytes") == 0)
    entries = server.metric("penstock_store_entries")
    story.fact("... and nothing else", kept - (most + 1) * (EXTENT // SIZE + 1) <= entries <= kept + EXTENT // SIZE, (kept, entries))
    story.same("the folder is in order", server.metric("penstock_store_serving"), 1)

    # ---- the end of the last job ----
    fill()    # the room of the staged objects is for all
    id = follow(new(500))
    rests(origin)
    story.fact("a job after the restart stages", staging() >= 1, extents())
    jobs.ask("DELETE", id)
    time.sleep(1.5)
    story.fact("after its end they stay for a while, for the next job", staging() >= 1, extents())
    clock.ahead(120)
    wait_for("then they go", lambda: staging() == 0)

    # ---- a wrong list ----
    fill()
    before = server.metric("penstock_store_entries")
    origin.reset()
    id = follow([f"wrong-{n}" for n in range(COUNT)])
    read_objects(server.client, order[:100], SIZE, 0.004)
    sent = rests(origin)
    story.fact("a list that nobody reads brings one window", sent <= (100 + 1.5 * WINDOW / SIZE) * SIZE, sent / SIZE)
    story.fact("... and takes its share, no more", staging() <= (WINDOW // EXTENT) + 4, extents())
    jobs.ask("DELETE", id)
    clock.ahead(120)
    wait_for("it gives its share back", lambda: staging() == 0)
    lost = before - server.metric("penstock_store_entries")
    story.fact("little of what was cached is lost", lost <= (WINDOW // EXTENT + 4) * (EXTENT // SIZE + 1), lost)

    # ---- kill -9 ----
    for point in ("append", "appended", "seal", "index-commit", "index-committed", "drop", "dropped"):
        fill()
        keys = new(500)
        id = follow(keys)
        rests(origin)
        read_objects(server.client, keys[:60], SIZE, 0.004)
        arm(f"{point} crash")
        for key in keys[60:]:
            if server.get(f"pile/{key}").error:
                break
            time.sleep(0.004)    # a reader that does not leave the job behind
        arm()
        server.kill()
        server = server.again()
        jobs = Jobs(server.client)
        jobs.known("DELETE", id)
        story.fact(f"the process ended at the step {point}", point in open(control + ".hits").read().split())
        clock.ahead(120)
        wait_for("nothing staged is left", lambda: staging() == 0)
        read_objects(server.client, keys[:100], SIZE, 0)    # right bytes
        story.same("... and the folder is in order", server.metric("penstock_store_serving"), 1)
    story.same("the daemon ends cleanly", server.stop(), 0)
