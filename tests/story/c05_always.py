"""`always` asks at each use, and never fetches what has not changed."""
from harness import *

with Story("c05 always means at each use") as story:
    origin = story.origin("object=bucket/a 300000")
    server = story.penstock(origin=origin.url, freshness="always")
    story.bytes("cold", server.get("bucket/a"), "bucket/a", 0, 300000)
    origin.quiet()
    for turn in range(3):
        origin.reset()
        story.bytes(f"use {turn + 2}", server.get("bucket/a"), "bucket/a", 0, 300000)
        counts = origin.counts()
        story.same("... one question, no body", (counts["head"] + counts["get"], counts["bytes"]),
                   (1, 0))
    origin.tell("flip=bucket/a")
    story.bytes("a change is seen at once", server.get("bucket/a"), "bucket/a", 0, 300000,
                version=2)
    origin.tell("flip=bucket/a")
    story.bytes("by a range too", server.get("bucket/a", 200000, 200099), "bucket/a", 200000, 100,
                version=3)
    origin.tell("object=bucket/a -1")
    story.same("a removal too", server.get("bucket/a").status, 404)
