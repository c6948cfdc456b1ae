"""Clients come before jobs: a read of a client waits for one object of a job at most, even if the job may use all
connections, and while many clients read, jobs get one place in eight. And a job whose cache folder is away goes on when the folder is back."""
from jobs import *

SIZE, CONNECTIONS, READS = 50_000, 8, 40

use_tests_daemon()    # it takes the name of a constant without a warning
with Story("j05 clients come before jobs", seconds=120) as story:
    origin = story.origin(f"objects=pile/%05d 3000 {SIZE}", f"objects=read/%03d {READS} {SIZE}",
                          f"objects=crowd/%03d 320 {SIZE}")
    origin.tell("match=* GET", "first_byte_ms=100")
    for name in "ab":
        os.mkdir(story.path(name))
    folders = [{"path": story.path(name) + "/cache", "size": "256MiB"} for name in "ab"]
    server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, cache_dirs=folders, freshness="immutable",
                            permission_time="1d", origin_connections=CONNECTIONS, job_gets=64)
    jobs = Jobs(server.client)

    ids = [jobs.start(prefix=p) for p in ("", "00", "01", "02")]    # 1000 objects and more: none ends meanwhile
    wait_for("all connections are in use", lambda: server.metric("penstock_origin_transfers") >= CONNECTIONS)
    for i in range(READS):
        story.same("a read", server.get(f"read/{i:03}").status, 200)
    story.same("all jobs are in progress meanwhile", [jobs.report(id)["state"] for id in ids], ["running"] * 4)
    # While one read is served, each of the other seven connections brings an object or two. A read that waited for its
    # turn behind the 64 gets of jobs would see 56 more.
    keys = [line[2] for line in origin.log_lines() if line[1] == "GET"]
    reads = [i for i, key in enumerate(keys) if key.startswith("read/")]
    between = sorted(after - before - 1 for before, after in zip(reads, reads[1:]))
    story.same("the origin was asked for each object once", len(reads), READS)
    story.fact("a read waits for one object of a job at most", between[READS // 2] <= 2 * CONNECTIONS, between)

    # ---- many clients ----
    before = len(origin.log_lines())
    replies = together(*[lambda n=n: [Client(server.port).get(f"crowd/{20 * n + i:03}").status for i in range(20)] for n in range(16)])
    story.same("reads of 16 clients at once", {status for some in replies for status in some}, {200})
    keys = [line[2] for line in origin.log_lines()[before:] if line[1] == "GET"]
    last = max(i for i, key in enumerate(keys) if key.startswith("crowd/"))
    of_jobs = sum(not key.startswith("crowd/") for key in keys[:last])
    story.fact("jobs get one place in eight meanwhile", 0.04 < of_jobs / last < 0.25, of_jobs / last)
    story.same("all jobs are still in progress", [jobs.report(id)["state"] for id in ids], ["running"] * 4)

    # ---- a cache folder that is away ----
    for id in ids[1:]:
        story.same("DELETE", jobs.ask("DELETE", id).status, 204)
    before = jobs.report(ids[0])["objects"]
    server.stop()
    os.rename(story.path("a"), story.path("away"))
    os.mkdir(story.path("a"))
    server = Penstock(story, server.settings, env=server.env)
    jobs = Jobs(server.client)
    found = jobs.list()
    server.stop()
    shutil.rmtree(story.path("a"))
    os.rename(story.path("away"), story.path("a"))
    story.same("without its cache folder, there is no job", found, [])
    origin.calm()
    server = Penstock(story, server.settings, env=server.env)
    jobs = Jobs(server.client)
    wait_for("with its folder, the job is there", lambda: any(r["id"] == ids[0] for r in jobs.list()))
    report = jobs.ended(ids[0])
    story.same("... and goes on", (report["state"], report["objects"], report["failed"]), ("done", 3000, 0))
    story.fact("... from where it was", report["hits"] + report["fetched"] == 3000 and report["objects"] >= before)
