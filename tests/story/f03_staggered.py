"""Clients that come one after another, while the fill runs."""
from harness import *

CLIENTS, SIZE = 24, 24 * MIB

with Story("f03 24 clients 8 ms apart") as story:
    key = f"bucket/size-{SIZE}-x"
    origin = story.origin("first_byte_ms=30", f"bandwidth={50 * MIB}")
    server = story.penstock(origin=origin.url)
    want = expect(key, 1, 0, SIZE)

    def one(number):
        time.sleep(0.008 * number)
        return Client(server.port).get(key)
    replies = together(*[lambda n=n: one(n) for n in range(CLIENTS)])
    story.same("all 24 are right", [repr(r) for r in replies if r.error or r.body != want], [])
    counts = origin.counts(key)
    story.same("no byte left the origin twice", (counts["bytes"], twice(counts["spans"])),
               (SIZE, 0))
    story.fact("at most one GET a unit run", counts["get"] <= SIZE // MIB, counts["get"])
