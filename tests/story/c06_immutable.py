"""`immutable` never asks again unless a client does, and can be set for a prefix."""
from harness import *

with Story("c06 immutable never asks again") as story:
    origin = story.origin("object=bucket/fixed/a 100000", "object=bucket/moving/a 100000")
    server = story.penstock(origin=origin.url, freshness="always",
                            buckets={"bucket/fixed/": {"freshness": "immutable"}})
    for key in ("bucket/fixed/a", "bucket/moving/a"):
        story.bytes(f"cold {key}", server.get(key), key, 0, 100000)
    origin.tell("flip=bucket/*/a")
    origin.reset()
    story.bytes("the fixed one stays", server.get("bucket/fixed/a"), "bucket/fixed/a", 0, 100000,
                version=1)
    story.same("... without a question",
               origin.counts("bucket/fixed/a")["head"] + origin.counts("bucket/fixed/a")["get"], 0)
    story.bytes("the moving one moves", server.get("bucket/moving/a"), "bucket/moving/a", 0, 100000,
                version=2)
    for word in ("no-cache", "max-age=0"):
        origin.reset()
        reply = server.get("bucket/fixed/a", headers={"cache-control": word})
        story.bytes(f"a client that says {word} gets what is there now", reply, "bucket/fixed/a", 0,
                    100000, version=2)
        counts = origin.counts("bucket/fixed/a")
        story.fact("... by a question", counts["head"] + counts["get"] > 0, counts)
    origin.kill()
    story.bytes("the origin gone, it still comes", server.get("bucket/fixed/a"), "bucket/fixed/a",
                0, 100000, version=2)
