"""Extents that are read most stay in memory, and clients get their bytes without a copy: over plain HTTP, in ranges, with slow
clients, after a purge, when the file is cut, and where the kernel allows no locked memory."""
import json
import random

import harness
from harness import *

SIZE, COUNT = 3 * MIB, 24

with Story("c18 locked extents", seconds=180) as story:
    origin = story.origin(f"objects=bucket/%d {COUNT} {SIZE}", "objects=bucket/small-%d 200 5000")
    server = story.penstock(origin=origin.url, cache_size="256MiB", memory_locked="1GiB")
    rng = random.Random(story.seed)

    def locked_why(server):
        return json.loads(plain(server.admin_port, "GET", "/status").body)["memory"]["locked_why"]

    def lent():
        return server.metric("penstock_store_lent_reads_total")

    def read_all():
        for i in range(COUNT):
            key = f"bucket/{i}"
            reply = server.get(key)
            if reply.status != 200 or reply.body != expect(key, 1, 0, SIZE):
                raise Wrong(f"{key}: {reply}")

    def is_lent():
        """Reads until the next reads get their bytes from locked extents."""
        read_all()
        before = lent()
        read_all()
        return lent() - before > COUNT

    def is_right(key, reply, first=0, size=SIZE):
        return reply.status in (200, 206) and not reply.error and reply.body == expect(key, 1, first, size)

    # ---- bytes ----
    read_all()
    story.same("nothing is locked at first", server.metric("penstock_store_locked_bytes"), 0)
    wait_for("the extents that are read are locked", is_lent, 60, every=0.5)
    story.fact("their bytes are counted", server.metric("penstock_store_locked_bytes") > 0)
    story.same("the status says why not more is locked", locked_why(server), "no other part of the cache is read often enough")
    gets = origin.totals()["get"]
    wrong = []
    for _ in range(300):
        key, first = f"bucket/{rng.randrange(COUNT - 2)}", rng.randrange(SIZE)
        last = min(SIZE - 1, first + rng.choice((0, 10, 65536, 70000, 300000, SIZE)))
        if not is_right(key, server.get(key, first, last), first, last - first + 1):
            wrong.append((key, first, last))
    story.same("ranges have the right bytes", wrong[:3], [])
    story.same("... and the origin is not asked", origin.totals()["get"], gets)

    def slow(i):
        return is_right(f"bucket/{i % 4}", server.get(f"bucket/{i % 4}", pace=4 * MIB))
    story.same("slow clients get all bytes", together(*[lambda i=i: slow(i) for i in range(16)]), [True] * 16)

    # ---- clients that stop reading, and a cache that turns over meanwhile ----
    stalled = [server.stalled(f"bucket/{i}") for i in range(8)]
    story.same("a purge, with clients in the middle of the bytes", server.client.ask("POST", "bucket", [("penstock-purge", ""), ("prefix", "")]).status, 200)
    read_all()
    for i, wire in enumerate(stalled):
        story.fact("a client that stopped gets what it had asked for", is_right(f"bucket/{i}", wire.read()))
        wire.close()
    wait_for("and all is locked again", is_lent, 60, every=0.5)

    # ---- small objects ----
    for _ in range(5):
        for i in range(200):
            reply = server.get(f"bucket/small-{i}")
            if reply.body != expect(f"bucket/small-{i}", 1, 0, 5000):
                raise Wrong(f"small-{i}: {reply}")
        time.sleep(0.5)

    # ---- a file that is cut while its bytes are sent ----
    wires = [server.stalled(f"bucket/{i}") for i in range(4)]
    for name in os.listdir(story.path("cache/extents")):
        os.truncate(story.path(f"cache/extents/{name}"), 0)
    for i, wire in enumerate(wires):
        reply = wire.read()
        story.fact("a client gets a reset, or what was sent before: never a short body that looks whole",
                   bool(reply.error) or is_right(f"bucket/{i}", reply), reply)
        wire.close()
    story.fact("the daemon goes on", server.alive())
    gets = origin.totals()["get"]

    def comes_again(i):
        reply = server.get(f"bucket/{i}")
        if not reply.error and not is_right(f"bucket/{i}", reply):
            raise Wrong(f"bucket/{i}: {reply}")
        return not reply.error
    for i in range(COUNT):
        wait_for("what was cut comes from the origin again", lambda: comes_again(i), every=0.2)
    story.fact("... and from nowhere else", origin.totals()["get"] >= gets + COUNT)
    story.same("the daemon ends cleanly", server.stop(), 0)

    # ---- a kernel that locks next to nothing ----
    limited = story.path("limited")
    with open(limited, "w") as f:
        f.write(f"#!/bin/sh\nulimit -l 64\nexec setpriv --inh-caps=-ipc_lock --bounding-set=-ipc_lock {PENSTOCK} \"$@\"\n")
    os.chmod(limited, 0o755)
    harness.PENSTOCK = limited
    # The kernel counts locked memory by user, so other daemons may have left nothing for io_uring.
    server = story.penstock(origin=origin.url, cache_dir=story.path("limited-cache"), cache_size="256MiB", io="auto")
    wait_for("the log says what stands in the way", lambda: read_all() or "store_lock_limit" in server.log(), 60, every=0.2)
    before = lent()
    read_all()
    story.same("nothing is locked, and all is read", (server.metric("penstock_store_locked_bytes"), lent() - before), (0, 0))
    story.same("the status says so, too", locked_why(server), "the kernel allows no more (RLIMIT_MEMLOCK)")
    story.same("it is said once", server.log().count("store_lock_limit"), 1)
    story.same("the daemon ends cleanly", server.stop(), 0)
