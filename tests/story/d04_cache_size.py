"""cache_size at a restart, and cache_reserve: what is on disk stays below, and all bytes are right. A limit of file sizes ends
no process."""
import resource

from harness import *

EACH, COUNT = 4 * MIB, 40

with Story("d04 size and reserve of the cache folder") as story:
    origin = story.origin()
    keys = [f"bucket/{i:02d}/size-{EACH}-x" for i in range(COUNT)]

    def read_all(text, server):
        wrong = [k for k in keys if (r := server.get(k)).error or r.body != expect(k, 1, 0, EACH)]
        story.same(f"{text}: all right", wrong, [])
        origin.quiet()
        time.sleep(0.3)    # until the last record is committed

    def size_of(extent):
        try:
            return os.stat(extent).st_size
        except FileNotFoundError:    # removed since it was listed
            return 0

    def on_disk(server):
        return sum(map(size_of, glob.glob(server.cache_dir + "/extents/*")))

    def warm(server):
        """How many of the objects need no byte from the origin."""
        origin.reset()
        read_all("again", server)
        return COUNT - len({line for line in origin.counts()["keys"]
                            if origin.counts(line)["bytes"]})

    server = story.penstock(origin=origin.url, cache_size="64MiB", extent_size="4MiB")
    read_all("160 MiB through 64 MiB", server)
    story.fact("no more than its size is used", on_disk(server) <= 64 * MIB, on_disk(server))
    server = server.restart(cache_size="256MiB")
    read_all("raised to 256 MiB", server)
    wait_for("more is used now", lambda: on_disk(server) >= COUNT * EACH)
    story.fact("more is used now", True)
    story.same("... and all of it is warm", warm(server), COUNT)
    server = server.restart(cache_size="64MiB")
    wait_for("lowered again: it shrinks with no write", lambda: on_disk(server) <= 64 * MIB)
    read_all("lowered to 64 MiB", server)
    server.stop()

    if os.geteuid() != 0 or run(["mount", "-t", "tmpfs", "-o", "size=128m", "penstock-story",
                                 os.makedirs(story.path("small")) or story.path("small")])[0]:
        story.note("no mount is allowed here: cache_reserve was not tried")
    else:
        try:
            server = story.penstock(origin=origin.url, cache_dir=story.path("small/cache"),
                                    cache_size="1GiB", cache_reserve="48MiB", extent_size="4MiB")
            lowest = []

            def free():
                fs = os.statvfs(story.path("small"))
                return fs.f_bavail * fs.f_frsize
            threading.Thread(target=lambda: [lowest.append(free()) or time.sleep(0.01)
                                             for _ in iter(server.alive, False)],
                             daemon=True).start()
            read_all("a disk of 128 MiB, 48 of them reserved", server)
            story.fact("the reserve is left alone, but for the index", min(lowest) >= 46 * MIB,
                       f"{min(lowest) / MIB:.1f} MiB free")
            wait_for("... and the rest is used", lambda: min(lowest) < 60 * MIB)
            story.fact("... and the rest is used", True)
            hits = sum(server.get(key, 0, 99).cache == "hit" for key in keys)
            story.fact("what fits is warm", 10 <= hits < COUNT, f"{hits} of {COUNT} objects")
            story.same("it ends cleanly", server.stop(), 0)
        finally:
            for process in story.processes:
                if process.alive() and isinstance(process, Penstock):
                    process.kill()
            run(["umount", "-l", story.path("small")])

    # ---- a limit of file sizes ----
    limited = story.penstock(origin=origin.url, cache_dir=story.path("limited"), cache_size="64MiB", extent_size="4MiB")
    resource.prlimit(limited.process.pid, resource.RLIMIT_FSIZE, (3 * MIB, 3 * MIB))
    read_all("files of at most 3 MiB", limited)
    story.same("a larger upload finds its place in memory", limited.put("bucket/upload", b"x" * 5 * MIB).status, 200)
    story.same("the process goes on", limited.get(keys[0]).status, 200)
    story.same("... without an error of the cache", limited.metric("penstock_store_faults_total"), 0)
    story.same("... and ends cleanly", limited.stop(), 0)
