"""Who came first may leave: nobody else notices, and the fill goes on."""
from harness import *

SIZE = 24 * MIB

with Story("f02 a leader that disconnects changes nothing") as story:
    origin = story.origin("first_byte_ms=300", f"bandwidth={6 * MIB}")
    server = story.penstock(origin=origin.url)
    for turn, after in (("before the first byte", 0), ("in the middle", 2 * MIB)):
        key = f"bucket/{after}/size-{SIZE}-x"
        want = expect(key, 1, 0, SIZE)
        wire = Wire(server.port)
        wire.send(server.client.head_of("GET", key))
        wait_for("the origin is asked", lambda: origin.totals()["requests_open"] > 0)

        def leave():
            if after:
                wire.read(stop_after=after)
            time.sleep(0.1)
            story.fact(f"a fill is under way when the leader leaves {turn}",
                       origin.totals()["requests_open"] > 0)
            wire.abort()
        replies = together(leave, *[lambda c=c: c.get(key)
                                    for c in [Client(server.port) for _ in range(20)]])[1:]
        story.same(f"the leader leaves {turn}: 20 others are right",
                   [repr(r) for r in replies if r.error or r.body != want], [])
        counts = origin.counts(key)
        story.same("... and no byte came twice", (counts["bytes"], twice(counts["spans"])),
                   (SIZE, 0))
    key = f"bucket/alone/size-{SIZE}-x"
    reply = server.get(key, stop_after=MIB)
    story.fact("one who reads alone leaves after 1 MiB", reply.error is None)
    origin.quiet()
    counts = origin.counts(key)
    story.fact("the origin does not go on for nobody to the end", counts["bytes"] < SIZE,
               counts["bytes"])
    story.bytes("the next reader has it whole", server.get(key), key, 0, SIZE)
    story.fact("... and what had come is not fetched again (1 MiB of grace)",
               origin.counts(key)["bytes"] <= SIZE + 2 * MIB, origin.counts(key)["bytes"])
