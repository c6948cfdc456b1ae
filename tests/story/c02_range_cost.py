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
