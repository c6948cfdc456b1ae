"""Expired copies are renewed a listing page at a time."""
from harness import *

with Story("c04 300 expired objects cost one listing page") as story:
    origin = story.origin("objects=bucket/set/%04d 300 1000-20000")
    clock = story.clock()
    server = story.penstock(origin=origin.url, freshness="ttl", ttl="60s", grace="30s")
    keys = [f"bucket/set/{i:04d}" for i in range(300)]
    client, sizes = Client(server.port, keep=True), origin.sizes(keys)

    def all_right(keys=keys):
        return [k for k in keys if (r := client.get(k)).error or r.status != 200
                or r.body != expect(k, 1, 0, sizes[k])]

    story.same("a cold pass", all_right(), [])
    # A listing renews what is on the disk; on a busy machine the last copies get there later.
    wait_for("all copies are written", lambda: all(client.get(key).cache == "hit" for key in keys))
    origin.reset()
    story.same("a fresh pass", all_right(), [])
    story.same("... costs nothing", origin.counts()["requests"], 0)
    clock.ahead(100)
    origin.reset()
    story.same("an expired pass", all_right(), [])
    counts = origin.counts()
    story.same("... costs one list, no GET, no HEAD",
               (counts["list"], counts["get"], counts["head"]), (1, 0, 0))
    origin.tell("flip=bucket/set/0123", "flip=bucket/set/0200")
    clock.ahead(100)
    origin.reset()
    both = ["bucket/set/0123", "bucket/set/0200"]
    story.same("two changed at the origin: both are found, the others are as they were",
               all_right(), both)
    counts = origin.counts()
    asked = {m: counts[m] for m in ("list", "head", "get")}
    story.fact("... for a page more and two requests each at most", counts["list"] <= 3
               and counts["get"] <= 2 and counts["head"] <= 2, asked)
    for key in both:
        story.bytes("the new version is whole", client.get(key), key, 0, sizes[key], version=2,
                    status=200)
    origin.tell("match=bucket/ LIST", "status=403")
    clock.ahead(100)
    origin.reset()
    story.same("a listing that is refused: HEADs do it", all_right(keys[:20]), [])
    counts = origin.counts()
    story.fact("... and the refusal is remembered", counts["get"] == 0 and counts["head"] >= 19
               and counts["list"] <= 2,
               {m: counts[m] for m in ("list", "head", "get")})
    origin.calm()
    clock.ahead(70)
    origin.tell("first_byte_ms=700")
    start = time.monotonic()
    reply = client.get("bucket/set/0005")
    story.in_time("within the grace nobody waits for the origin", time.monotonic() - start < 0.4,
                  f"{time.monotonic() - start:.2f} s")
    story.bytes("... and has the copy", reply, "bucket/set/0005", 0, sizes["bucket/set/0005"],
                status=200)
