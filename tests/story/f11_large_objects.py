"""A large object that is not cached comes over several connections, in order, and each byte once."""
from harness import *

SIZE, RATE = 96 * MIB, 20 * MIB
# The origin sends at most so many bytes in vain when a connection is cut short.
CUT = 2 * MIB

with Story("f11 large objects over several connections", seconds=300) as story:
    origin = story.origin("first_byte_ms=30", f"bandwidth={RATE}")
    server = story.penstock(origin=origin.url, cache_size="2GiB")

    def key_of(name, size=SIZE):
        return f"bucket/{name}/size-{size}-x"

    def ahead():
        return server.metric("penstock_cache_window_fetches_total")

    # ---- one reader ----
    key, before = key_of("one"), ahead()
    reply = server.get(key)
    story.bytes("one reader", reply, key, 0, SIZE)
    counts = origin.counts(key)
    story.fact("several GETs bring it", 4 <= counts["get"] <= 30, counts["get"])
    story.same("... which are counted", ahead() - before, counts["get"] - 1)
    story.fact("... and bring each byte once", SIZE <= counts["bytes"] <= SIZE + CUT, counts["bytes"] - SIZE)
    story.in_time("... in less than a third of the time of one connection", reply.ended - reply.began < SIZE / RATE / 3,
                  reply.ended - reply.began)
    story.same("none of it counts as a hit", server.metric("penstock_front_cache_bytes_total"), 0)
    server.wait_cached(key)
    origin.reset()
    hits = server.metric("penstock_front_cache_bytes_total")
    story.bytes("the next reader", server.get(key), key, 0, SIZE)
    story.same("... asks the origin for nothing", origin.totals()["bytes"], 0)
    story.same("... and is a hit", server.metric("penstock_front_cache_bytes_total") - hits, SIZE)

    # ---- many readers ----
    key = key_of("many")
    want = expect(key, 1, 0, SIZE)
    replies = together(*[lambda n=n: (time.sleep(0.05 * n), Client(server.port).get(key))[1] for n in range(12)])
    story.same("12 readers are right", [repr(r) for r in replies if r.error or r.body != want], [])
    counts = origin.counts(key)
    # Each time that a connection is cut short, some bytes were on their way: more often on a busy machine.
    story.fact("... share the connections", counts["bytes"] <= SIZE + 12 * CUT, counts["bytes"] - SIZE)
    story.fact("... and their GETs", counts["get"] <= 40, counts["get"])

    # ---- readers that do not need it ----
    key = key_of("head")
    before = ahead()
    reply = server.get(key, stop_after=MIB // 2)
    origin.quiet()
    story.fact("the head of a file costs little", origin.counts(key)["bytes"] <= 8 * MIB, origin.counts(key)["bytes"])
    story.same("... and opens no window", ahead(), before)
    key = key_of("medium", 48 * MIB)
    story.bytes("an object of 48 MiB", server.get(key), key, 0, 48 * MIB)
    story.same("... comes over one connection, each byte once", (ahead() - before, origin.counts(key)["bytes"]), (0, 48 * MIB))
    key = key_of("slow")
    story.bytes("a reader at 16 MiB/s, but for the buffers of its connection", server.get(key, pace=16 * MIB), key, 0, SIZE)
    story.fact("... moves each byte once", origin.counts(key)["bytes"] <= SIZE + CUT, origin.counts(key)["bytes"])
    key, before = key_of("ranges"), ahead()
    for first in range(0, 64 * MIB, 16 * MIB):
        story.bytes(f"4 MiB at {first}", server.get(key, first, first + 4 * MIB - 1), key, first, 4 * MIB)
    story.same("short ranges come over one connection each", (ahead() - before, origin.counts(key)["get"]), (0, 4))

    # ---- ranges in a row ----
    key, before = key_of("row"), ahead()
    hits = server.metric("penstock_front_cache_bytes_total")
    began = time.monotonic()
    for first in range(0, SIZE, 8 * MIB):
        story.bytes(f"the range at {first >> 20} MiB", server.get(key, first, first + 8 * MIB - 1), key, first, 8 * MIB)
    took = time.monotonic() - began
    story.same("each byte comes once", origin.counts(key)["bytes"], SIZE)
    early = server.metric("penstock_front_cache_bytes_total") - hits
    story.fact("... and by a window", ahead() > before, ahead() - before)
    story.in_time("... many of them before they are asked for", early > SIZE / 16, early)
    story.in_time("... in less than half of the time", took < SIZE / RATE / 2, took)

    # ---- what is there already is not fetched ----
    server.wait_cached()
    story.bytes("all of the object", server.get(key), key, 0, SIZE)
    counts = origin.counts(key)
    story.fact("... brings what was missing", counts["bytes"] <= SIZE + CUT, counts["bytes"] - SIZE)

    # ---- a reader that leaves ----
    # A window and the buffers of the connection may be 75 MiB ahead of the reader.
    key, before = key_of("leaver"), ahead()
    server.get(key, stop_after=8 * MIB)
    story.fact("a reader that leaves had a window", ahead() > before, ahead() - before)
    origin.quiet()
    bytes_left = origin.counts(key)["bytes"]
    time.sleep(1)
    story.same("when the reader has left, no more comes", origin.counts(key)["bytes"], bytes_left)
    story.fact("... so the rest was not fetched", bytes_left < SIZE, bytes_left)
    story.bytes("... and the next reader has it whole", server.get(key), key, 0, SIZE)
    story.fact("... without what was there", origin.counts(key)["bytes"] <= SIZE + 12 * CUT, origin.counts(key)["bytes"] - SIZE)

    # ---- faults ----
    key = key_of("cuts")
    origin.tell(f"match={key}", "cut_after=3000000", "times=6")
    story.bytes("answers that break off", server.get(key), key, 0, SIZE)
    key = key_of("busy")

    def refuse():
        time.sleep(0.2)
        origin.tell(f"match={key}", "status=503", "times=12")
    reply = together(lambda: server.get(key), refuse)[0]
    story.bytes("an origin that refuses some of the requests", reply, key, 0, SIZE)
    origin.calm()
    origin.tell("first_byte_ms=30", f"bandwidth={RATE}")
    story.bytes("... and then none", server.get(key), key, 0, SIZE)
    key = key_of("changes")
    origin.tell(f"match={key}", f"bandwidth={RATE // 5}")

    def change():
        time.sleep(0.5)
        origin.tell(f"flip={key}")
    reply = together(lambda: server.get(key), change)[0]
    whole = [reply.body == expect(key, version, 0, SIZE) for version in (1, 2)]
    story.fact("an object that changes midway is cut", reply.error and not any(whole), repr(reply))
    story.bytes("... and new for the next", server.get(key), key, 0, SIZE, version=2)

    # ---- nothing is stored ----
    server.stop()
    never = story.penstock(origin=origin.url, buckets={"bucket": {"admit": "never"}})
    key = key_of("unstored")
    reply = never.get(key)
    story.bytes("an object that the cache does not take", reply, key, 0, SIZE)
    counts = origin.counts(key)
    story.fact("... brings each byte once", SIZE <= counts["bytes"] <= SIZE + CUT, counts["bytes"] - SIZE)
    story.in_time("... in less than half of the time of one connection", reply.ended - reply.began < SIZE / RATE / 2,
                  reply.ended - reply.began)
    key = key_of("unstored-slow")
    reply = never.get(key, pace=40 * MIB)
    story.bytes("a reader that is sometimes faster", reply, key, 0, SIZE)
    counts = origin.counts(key)
    story.fact("... moves each byte once", counts["bytes"] <= SIZE + CUT, counts["bytes"] - SIZE)
