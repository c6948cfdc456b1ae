"""What was read once comes from here the second time."""
from harness import *

with Story("c01 cold, then warm") as story:
    origin = story.origin("objects=bucket/set/%04d 200 1-300000", f"object=bucket/big {40 * MIB}")
    server = story.penstock(origin=origin.url)
    sizes = {f"bucket/set/{i:04d}": int(server.head(f"bucket/set/{i:04d}").headers["content-length"]) for i in range(200)}
    sizes["bucket/big"] = 40 * MIB
    client = Client(server.port, keep=True)
    origin.reset()

    def wrong_of(keys):
        return [k for k in keys if (r := client.get(k)).error or r.body != expect(k, 1, 0, sizes[k])]
    small = [k for k in sizes if k != "bucket/big"]
    wrong = wrong_of(small)
    # Objects that are still on their way to the disk share the room for a fetch that is ahead of its reader.
    server.wait_cached(*small, client=client)
    wrong += wrong_of(["bucket/big"])
    story.same("cold: 200 small objects and one of 40 MiB, all right", wrong, [])
    cold = origin.counts()
    more = {k: (n["bytes"], n["get"], n["spans"]) for k, n in cold["keys"].items() if n["bytes"] != sizes.get(k)}
    story.fact("each byte left the origin once", cold["bytes"] == sum(sizes.values()), more)
    reply = client.get("bucket/never-seen/size-1000-x")
    story.fact("X-Cache of a cold one says miss", "miss" in reply.cache, reply.cache)
    wait_for("what was read is committed", lambda: "hit" in client.get("bucket/big", 39 * MIB,
                                                                       40 * MIB - 1).cache)
    origin.reset()
    replies = {k: client.get(k) for k in sizes}
    story.same("warm: all right", [k for k, r in replies.items() if r.error
                                   or r.body != expect(k, 1, 0, sizes[k])], [])
    story.same("warm: X-Cache says hit", [k for k, r in replies.items() if "hit" not in r.cache],
               [])
    story.fact("warm: there is an Age", all(r.headers.get("age", "").isdigit()
                                            for r in replies.values()))
    for _ in range(100):
        first = story.random.randrange(40 * MIB)
        last = min(40 * MIB - 1, first + story.random.randrange(2 * MIB))
        reply = client.get("bucket/big", first, last)
        if reply.body != expect("bucket/big", 1, first, last - first + 1):
            story.fact(f"warm: range {first}-{last}", False, reply)
    story.same("warm: 0 origin requests", origin.counts()["requests"], 0)
