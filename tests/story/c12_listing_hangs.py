"""A listing that hangs holds up one reader, not the next ones too."""
from harness import *

with Story("c12 listings hang") as story:
    origin = story.origin("objects=bucket/f/%03d 3 1000")
    server = story.penstock(origin=origin.url, freshness="ttl", ttl="0s", grace="0s",
                            origin_progress_time="1s")
    server.get("bucket/f/001")
    time.sleep(1.6)    # freshness counts in whole seconds
    origin.tell("match=bucket/ LIST", "hang=1")
    story.bytes("the first comes to its bytes by HEAD", server.get("bucket/f/001"), "bucket/f/001",
                0, 1000)
    time.sleep(1.6)    # freshness counts in whole seconds
    start = time.monotonic()
    story.bytes("the next one too", server.get("bucket/f/001"), "bucket/f/001", 0, 1000)
    story.in_time("without waiting for a listing", time.monotonic() - start < 0.5,
                  f"{time.monotonic() - start:.1f} s")
