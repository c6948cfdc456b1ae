"""Lists that are late, wrong or abandoned: a job that follows jumps to its readers, and a list that nobody reads costs
bandwidth only, and not much. And kill -9, restarts, and a window larger than the cache."""
from jobs import *

SIZE, COUNT = 20_000, 8000
WINDOW = 100 * SIZE

with Story("j07 lists that are late, wrong or abandoned", seconds=240) as story:
    clock = story.clock()
    origin = story.origin(f"objects=pile/%d {COUNT} {SIZE}")
    server = story.penstock(origin=origin.url, cache_size="256MiB", freshness="immutable")
    jobs = Jobs(server.client)

    def follow(numbers, window=WINDOW):
        return jobs.start(mode="follow", keys=[], window=window, lines=[f"{n}" for n in numbers])

    def read(numbers):
        return read_objects(server.client, numbers, SIZE, 0.002)

    def purge():
        server.client.ask("POST", "pile", [("penstock-purge", ""), ("prefix", "")])
        origin.reset()

    def warnings(id):
        return [line for line in server.log().splitlines() if "job_follow_wasted" in line and id in line]

    # ---- a job that is late ----
    id = follow(range(COUNT))
    rests(origin)
    read(range(6000, 6100))
    rests(origin)
    hits = read(range(6100, 6300))
    story.fact("a job that is late jumps to its readers", hits >= 150, hits)
    sent = rests(origin)
    story.fact("... and does not bring what is behind them", sent <= (300 + 2 * 100 + 150) * SIZE, sent / SIZE)
    read([10, 7900, 3000])
    hits = read(range(6300, 6400))
    story.fact("single reads of other items do not move it", hits >= 70, hits)
    report = wait_for("the reads count", lambda: (r := jobs.report(id))["read"] >= 401 and r)
    story.fact("what it did not bring is in the report", report["skipped"] >= 5800 and report["read"] == 401, report)
    jobs.ask("DELETE", id)

    # ---- a list of which the readers leave out two of three items ----
    purge()
    id = follow(range(COUNT))
    rests(origin)
    for n in range(0, COUNT, 3):
        server.get(f"pile/{n}")
        if n % 150 == 0 and jobs.report(id)["state"] != "running":
            break
        time.sleep(0.002)
    report = jobs.report(id)
    story.same("a list that is read by less than half ends", (report["state"], "order in which they read" in report["why"]), ("unread", True))
    story.fact("... soon", report["bytes"] <= (1024 + 6 * 100) * SIZE, report)
    story.fact("what was not read is counted", WINDOW <= report["unread_bytes"] <= 4 * WINDOW and
               server.metric("penstock_job_unread_bytes_total") >= report["unread_bytes"], report)
    story.fact("one line of the log says so", len(warnings(id)) == 1, warnings(id))

    # ---- the right keys in another order ----
    purge()
    mixed = story.random.sample(range(COUNT), COUNT)
    id = follow(range(COUNT))
    rests(origin)
    reads = 0
    for n in mixed[:3000]:
        reads += server.get(f"pile/{n}").cache != "hit"
        if reads % 100 == 0 and jobs.report(id)["state"] != "running":
            break
    sent = rests(origin)
    story.fact("a list in a wrong order costs three windows and 1,024 items at most", sent <= (reads + 1500) * SIZE, (sent / SIZE, reads))
    jobs.ask("DELETE", id)

    # ---- a list that nobody reads ----
    purge()
    id = follow(range(COUNT))
    ahead = rests(origin)
    story.fact("a list that nobody reads costs a window", ahead <= 1.5 * WINDOW, ahead / SIZE)
    story.same("... and waits for its readers", jobs.report(id)["state"], "running")
    clock.ahead(3500)
    read([0])
    wait_for("the read counts", lambda: jobs.report(id)["read"] == 1)
    clock.ahead(3500)
    time.sleep(0.5)
    story.same("an hour is counted from the latest read", jobs.report(id)["state"], "running")
    clock.ahead(200)
    report = jobs.ended(id)
    story.same("after an hour without a read it ends", (report["state"], len(warnings(id))), ("unread", 1))
    id = follow(range(50))
    rests(origin)
    read(range(40))
    wait_for("the reads count", lambda: jobs.report(id)["read"] == 40)
    clock.ahead(601)
    report = jobs.ended(id)
    story.same("if all is brought, and most was read, it is done after ten minutes", (report["state"], report["read"], len(warnings(id))), ("done", 40, 0))

    # ---- a window larger than the cache ----
    purge()
    id = follow(range(COUNT), window=1 << 40)
    story.fact("a window is at most half of the cache, and the report says so", 64 * MIB <= jobs.report(id)["window"] <= 128 * MIB, jobs.report(id))
    ahead = rests(origin)
    story.fact("... and it brings no more", ahead <= 140 * MIB, ahead / MIB)

    # ---- kill -9, and a restart ----
    purge()
    jobs.ask("DELETE", id)
    order = story.random.sample(range(2000), 2000)
    id = follow(order)
    rests(origin)
    hits, kept = 0, 0
    for turn in range(4):
        hits += read(order[turn * 300:turn * 300 + 300])
        if turn % 2:
            server = server.restart()
        else:
            server.kill()
            server = server.again()
        jobs = Jobs(server.client)
        story.same("the job goes on", jobs.report(id)["state"], "running")
        rests(origin)
    story.fact("it is ahead of its readers all the time", hits >= 1000, hits)
    read(order[1200:])
    time.sleep(0.5)
    clock.ahead(601)
    report = jobs.ended(id)
    story.same("it ends, and has all", (report["state"], report["objects"], report["failed"]), ("done", 2000, 0))
    total = origin.totals()["bytes"]
    story.fact("few objects came twice", total <= (2000 + 4 * 48 * 2) * SIZE, total / SIZE)
    story.same("the daemon ends cleanly", server.stop(), 0)
