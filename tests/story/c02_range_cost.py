"""A cold range costs what it is, whatever the object's size."""
from harness import *

with Story("c02 a 128 KiB range of a cold 1 GiB object moves at most 256 KiB") as story:
    origin = story.origin()
    server = story.penstock(origin=origin.url)
    firsts = [0, 1, 131072, 131073, 512 * MIB, 512 * MIB + 77, GIB - 131072, GIB - 131073,
              MIB - 65536, 8 * MIB - 1]
    firsts += [story.random.randrange(GIB - 131072) for _ in range(10)]
    for number, first in enumerate(firsts):
        key = f"bucket/{number}/size-{GIB}-x"
        story.bytes(f"at {first}: bytes are right", server.get(key, first, first + 131071), key,
                    first, 131072, status=206)
        counts = origin.counts(key)
        story.fact("... for at most 256 KiB", counts["bytes"] <= 256 * KIB,
                   f"{counts['bytes']} bytes, {counts['get']} GETs of {counts['spans']}")
        story.fact("... by at most 2 requests", counts["get"] + counts["head"] <= 2, counts)
    key = f"bucket/suffix/size-{GIB}-x"
    story.bytes("a suffix of an unknown object", server.get(key, suffix=131072), key, GIB - 131072,
                131072, status=206)
    story.fact("... for at most 256 KiB", origin.counts(key)["bytes"] <= 256 * KIB,
               origin.counts(key))
    key = f"bucket/same/size-{GIB}-x"
    for first in [story.random.randrange(GIB - 131072) for _ in range(30)]:
        before = origin.counts(key)["bytes"]
        story.bytes(f"30 places of one object: {first}", server.get(key, first, first + 131071),
                    key, first, 131072)
        moved = origin.counts(key)["bytes"] - before
        story.fact("... for at most 256 KiB", moved <= 256 * KIB, moved)

    # ---- an origin that ignores ranges ----
    origin.tell("match=bucket/whole* GET", "ignore_range=1")
    size = 64 * MIB
    for name, status, span in (("beyond the end", 416, {"first": 1 << 40}), ("just beyond it", 416, {"first": size}),
                               ("at the beginning", 206, {"first": 5, "last": 99})):
        key = f"bucket/whole-{name.replace(' ', '-')}/size-{size}-x"
        reply = server.get(key, **span)
        story.same(f"no range at the origin, {name}", reply.status, status)
        if status == 206:
            story.bytes("... bytes are right", reply, key, 5, 95)
        origin.quiet()
        story.fact("... for at most 8 MiB", origin.counts(key)["bytes"] <= 8 * MIB, origin.counts(key))
    key = f"bucket/whole/size-{100_000}-x"
    story.same("a small object, beyond the end", server.get(key, 1 << 40).status, 416)
    story.same("... is read to its end, so the connection stays", origin.counts(key)["bytes"], 100_000)
