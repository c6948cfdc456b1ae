"""Clients come before jobs: a read of a client waits for one object of a job at most, even if the job may use all
connections. And a job whose cache folder is away goes on when the folder is back."""
from jobs import *

SIZE = 50_000

use_tests_daemon()    # it takes the name of a constant without a warning
with Story("j05 clients come before jobs", seconds=120) as story:
    origin = story.origin(f"objects=pile/%05d 3000 {SIZE}", f"objects=read/%03d 60 {SIZE}")
    origin.tell("match=* GET", "first_byte_ms=100")
    for name in "ab":
        os.mkdir(story.path(name))
    folders = [{"path": story.path(name) + "/cache", "size": "256MiB"} for name in "ab"]
    server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, cache_dirs=folders, freshness="immutable",
                            permission_time="1d", origin_connections=8, job_gets=64)
    jobs = Jobs(server.client)

    def read(keys):
        """The median time of a miss, and of the longest one."""
        took = []
        for key in keys:
            began = time.monotonic()
            story.same("a read", server.get(key).status, 200)
            took.append(time.monotonic() - began)
        return sorted(took)[len(took) // 2], max(took)

    alone, _ = read(f"read/{i:03}" for i in range(20))
    ids = [jobs.start(prefix=p) for p in ("", "0", "00", "000")]
    wait_for("all connections are in use", lambda: server.metric("penstock_origin_transfers") >= 8)
    beside, longest = read(f"read/{i:03}" for i in range(20, 60))
    story.fact("all jobs are in progress meanwhile", {jobs.report(id)["state"] for id in ids} == {"running"})
    print(f"#    a miss: {alone:.3f} s alone, {beside:.3f} s beside jobs, {longest:.3f} s the longest")
    story.fact("a read waits for one object of a job at most", beside <= 2.5 * alone, (alone, beside))

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
