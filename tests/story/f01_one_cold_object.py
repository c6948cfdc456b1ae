"""Many who want one cold object at once cost the origin one reading of it."""
from harness import *

CLIENTS, SIZE = 64, 24 * MIB

with Story("f01 64 clients, one cold object") as story:
    key = f"bucket/size-{SIZE}-x"
    origin = story.origin("first_byte_ms=1000")
    server = story.penstock(origin=origin.url)
    want = expect(key, 1, 0, SIZE)
    clients = [Client(server.port) for _ in range(CLIENTS)]
    replies = together(*[lambda c=c: c.get(key) for c in clients])
    wrong = [repr(r) for r in replies if r.error or r.status != 200 or r.body != want]
    story.same("all 64 have every byte right", wrong, [])
    counts = origin.counts(key)
    story.same("no byte left the origin twice", (counts["bytes"], twice(counts["spans"])),
               (SIZE, 0))
    story.fact("at most one GET a unit run", counts["get"] <= SIZE // MIB, counts["get"])
    story.in_time("the first byte came when the origin's did",
                  min(r.first_byte - r.began for r in replies) < 1.6)
    leader = min(r.first_byte for r in replies)
    late = sorted(r.first_byte - max(leader, r.began) for r in replies)
    story.note(f"followers' first bytes after the leader's: median {late[32] * 1000:.1f} ms, last {late[-1] * 1000:.1f} ms")
    # A follower with a request of its own to the origin would be a second late.
    story.in_time("half of the followers come with the leader", late[32] < 0.5, late[32])

    ranges = f"bucket/ranges/size-{SIZE}-x"
    spans = [(f, min(SIZE, f + story.random.randrange(1, 4 * MIB)))
             for f in (story.random.randrange(SIZE) for _ in range(CLIENTS))]
    want = expect(ranges, 1, 0, SIZE)
    replies = together(*[lambda c=c, s=s: c.get(ranges, s[0], s[1] - 1) for c,
                         s in zip(clients, spans)])
    story.same("64 overlapping ranges are right", [s for s, r in zip(spans, replies) if r.error
                                                   or r.body != want[s[0]:s[1]]], [])
    counts = origin.counts(ranges)
    union = sum(l - f + 1 for f, l in counts["spans"]) - twice(counts["spans"])
    story.note(f"{counts['get']} GETs, {counts['bytes']} bytes, {union} different ones")
    story.fact("no byte left the origin twice among them", counts["bytes"] <= union,
               f"{counts['bytes'] - union} bytes more than there are")
