"""Keys that changed at the origin do not end revalidation by listing."""
from harness import *

with Story("c11 many keys change at once, listings go on") as story:
    origin = story.origin("objects=bucket/set/%03d 40 1000")
    clock = story.clock()
    server = story.penstock(origin=origin.url, freshness="ttl", ttl="0s", grace="0s")
    keys = [f"bucket/set/{i:03d}" for i in range(40)]
    for key in keys:
        server.get(key)
    wait_for("all are stored", lambda: server.metric("penstock_bucket_cached_objects") == len(keys))    # a listing renews those
    origin.tell(*[f"flip=bucket/set/{i:03d}" for i in range(8)])
    clock.ahead(1.6)   # freshness counts in whole seconds
    for key in keys[:8]:
        story.bytes(f"{key} is the new one", server.get(key), key, 0, 1000, version=2)
    clock.ahead(1.6)   # freshness counts in whole seconds
    origin.reset()
    story.same("all are right", [k for k in keys[8:]
                                 if server.get(k).body != expect(k, 1, 0, 1000)], [])
    counts = origin.counts()
    story.fact("by listing", counts["list"] >= 1 and counts["head"] <= 2,
               {m: counts[m] for m in ("list", "head", "get")})
