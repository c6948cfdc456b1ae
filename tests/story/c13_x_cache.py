"""X-Cache, Age and Server-Timing say what became of a request."""
from harness import *

SIZE = 4 * MIB

with Story("c13 each answer says where its bytes came from") as story:
    key = f"bucket/size-{SIZE}-x"
    origin = story.origin("match=bucket/* HEAD", "first_byte_ms=300")
    clock = story.clock()
    server = story.penstock(origin=origin.url, freshness="ttl", ttl="60s", grace="30s",
                            revalidate="head", buckets={"asks": {"freshness": "always"}})

    def timing(reply):
        found = re.fullmatch(r"decide;dur=([0-9.]+), first;dur=([0-9.]+)",
                             reply.headers.get("server-timing", ""))
        return tuple(map(float, found.groups())) if found else None

    def read(text, want, first, last, key=key):
        reply = server.get(key, first, last)
        story.bytes(text, reply, key, first, last - first + 1, status=206)
        story.same(f"{text}: {want}", reply.headers.get("x-cache"), want)
        decide, began = timing(reply) or (None, None)
        story.fact(f"{text}: Server-Timing, in its order and no longer than it took",
                   decide is not None and 0 <= decide <= began
                   <= (reply.ended - reply.began) * 1000, reply.headers)
        story.same(f"{text}: Age, but for a miss", "age" in reply.headers, want != "MISS")
        return decide

    def wait_until_committed(first, last):
        wait_for("it is committed", lambda: server.get(key, first, last).cache == "hit")

    read("cold", "MISS", 0, MIB - 1)
    wait_until_committed(0, MIB - 1)
    read("warm", "HIT", 0, MIB - 1)
    read("its front is here, its end is not", "PARTIAL", 0, 2 * MIB - 1)
    wait_until_committed(0, 2 * MIB - 1)
    read("its end is here, its front is not", "MISS", 2 * MIB, 3 * MIB - 1)
    wait_until_committed(2 * MIB, 3 * MIB - 1)
    clock.ahead(70)
    read("older than its ttl", "STALE", 0, 99)
    wait_for("it is checked behind its back", lambda: server.get(key, 0, 99).cache == "hit")
    read("checked behind its back", "HIT", 0, 99)
    clock.ahead(100)
    took = read("older than ttl and grace", "REVALIDATED", 0, 99)
    story.fact("... whose time to decide has the question in it", took >= 300, took)
    asks = f"asks/size-{MIB}-x"
    read("always: cold", "MISS", 0, 99, asks)
    wait_for("always: warm", lambda: server.get(asks, 0, 99).cache == "revalidated")
    reply = server.get(key, 0, 99, headers={"cache-control": "no-cache"})
    story.same("no-cache: checked first, however fresh", reply.cache, "revalidated")
