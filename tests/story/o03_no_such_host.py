"""An origin whose name does not resolve is an error to its readers, and nothing to the others."""
from harness import *

with Story("o03 a host that nobody knows") as story:
    origin = story.origin("objects=bucket/o-%d 4 1000-5000")
    server = story.penstock(origin=origin.url, origin_tries="2",
                            origins={"lost": {"url": "http://nosuch.invalid"}},
                            buckets={"lost": {"origin": "lost"}})
    for i in range(3):    # what a failed look-up leaves behind met the next one
        story.fact(f"look-up {i + 1} fails with an error that clients retry",
                   server.get("lost/key").status in (500, 502, 503, 504))
        story.same("... and another bucket is served", server.get("bucket/o-1").status, 200)
    story.same("each is tried as often as said", server.metric("penstock_origin_retries_total"), 3)
