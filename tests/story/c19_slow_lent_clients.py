"""Clients that stop reading keep evicted extents, whose bytes they were lent. The cache goes on storing: it cuts these clients off
before their extents take too much space. And a cache whose extents are smaller than before does not lend the larger ones."""

from harness import *

SIZE, HOT, COUNT, CLIENTS = 3 * MIB, 40, 160, 24

with Story("c19 slow clients that are lent bytes", seconds=200) as story:
    origin = story.origin(f"objects=bucket/%d {COUNT} {SIZE}", f"objects=bucket/new-%d 20 {SIZE}")
    server = story.penstock(origin=origin.url, cache_size="256MiB", memory_locked="1GiB", send_time="10m")

    def read(key):
        reply = server.get(f"bucket/{key}")
        if reply.status != 200 or reply.error or reply.body != expect(f"bucket/{key}", 1, 0, SIZE):
            raise Wrong(f"{key}: {reply}")
        return reply.cache

    def is_lent():
        before = server.metric("penstock_store_lent_reads_total")
        for i in range(HOT):
            read(i)
        return server.metric("penstock_store_lent_reads_total") - before >= HOT

    wait_for("the hot extents are lent", is_lent, 60, every=0.3)
    stalled = [server.stalled(f"bucket/{i}") for i in range(CLIENTS)]
    for i in range(HOT, COUNT):    # they evict what the clients were lent
        read(i)

    def all_stored():
        return [read(f"new-{i}") for i in range(20)].count("hit") == 20
    wait_for("new objects are stored, beside clients that stopped", all_stored, 90, every=1)
    story.fact("extents that nobody can read any more take little space", server.metric("penstock_store_held_bytes") <= 64 * MIB,
               server.metric("penstock_store_held_bytes"))
    replies = [wire.read() for wire in stalled]
    wrong = [i for i, reply in enumerate(replies) if not reply.error and reply.body != expect(f"bucket/{i}", 1, 0, SIZE)]
    story.same("a client that stopped gets its bytes or a reset, never a short body that looks whole", wrong, [])
    story.note(f"{sum(bool(reply.error) for reply in replies)} of {CLIENTS} clients were cut off")
    for wire in stalled:
        wire.close()

    # ---- extents that are larger than the maps of now ----
    server = server.restart(cache_size="64MiB")
    for _ in range(8):
        for i in range(20):
            read(f"new-{i}")
        time.sleep(0.4)
    story.fact("the daemon goes on", server.alive())
    story.same("... and ends cleanly", server.stop(), 0)
