"""A size that nobody set, on a disk that was nearly full at the first start: it grows when there is room."""
from harness import *

with Story("b15 a derived cache size grows with the room there is, and a small one is told", seconds=60) as story:
    if os.geteuid() != 0 or run(["mount", "-t", "tmpfs", "-o", "size=10m", "penstock-story",
                                 os.makedirs(story.path("disk")) or story.path("disk")])[0]:
        raise Skip("not root, or no mount is allowed here")
    try:
        origin = story.origin("object=bucket/a 1000")
        server = story.penstock(origin=origin.url, cache_dir=story.path("disk/cache"), cache_size=None,
                                cache_reserve="1MiB", log_format="json")

        def told(event, after=0):
            return [line for line in map(json.loads, server.log().splitlines()) if line["event"] == event][after:]

        def stat():
            return json.loads(plain(server.admin_port, "GET", "/status").body)["cache"]

        story.fact("80 % of what is free", 4 * MIB <= stat()["size_bytes"] <= 8 * MIB, stat())
        story.fact("so small a cache is a warning in the log", any(
            line["level"] == "warn" and "cache_size" in line["why"] for line in told("cache_small")), told("cache_small"))
        story.fact("... and in stat", "cache_size" in stat().get("warning", ""), stat())
        page = run([PENSTOCK, "stat", "--admin-listen", server.settings["admin_listen"]])[1]
        story.fact("... above its figures", re.search(r"^warning +the cache folder \S+ has only 8 MiB", page.split("\n\n")[0], re.M), page[:900])
        checked = run([PENSTOCK, "check", "--offline", server.config_path])
        story.fact("... and in check", checked[0] == 0 and re.search(r"warning: the cache folder \S+ has only 8 MiB", checked[1]), checked)
        story.same("there is room", run(["mount", "-o", "remount,size=2g", story.path("disk")])[0], 0)
        wait_for("it grows while it runs, as far as its files allow", lambda: stat()["size_bytes"] > GIB)
        wait_for("... and the log says so", lambda: told("cache_grown"))
        story.same("... and stat warns no more", stat().get("warning", ""), "")
        server = server.restart()
        story.fact("a restart derives it anew", 0.79 * 2 * GIB < stat()["size_bytes"] <= 0.8 * 2 * GIB, stat())
        story.same("... and it is no warning", told("cache_small"), [])
        server = server.restart(cache_size="64MiB")
        story.same("what is set is what is set", stat()["size_bytes"], 64 * MIB)
        story.same("... however small", (told("cache_small"), stat().get("warning", "")), ([], ""))
        server.stop()
    finally:
        for process in story.processes:
            if process.alive() and isinstance(process, Penstock):
                process.kill()
        run(["umount", "-l", story.path("disk")])
