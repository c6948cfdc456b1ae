"""Expired copies in many small folders cost no more listing pages than in one large one."""
from harness import *

FOLDERS, EACH = 150, 8

with Story("c09 1,200 expired objects in 150 folders") as story:
    keys = [f"bucket/set/{f // 15:02d}/{f % 15:02d}/{i:02d}" for f in range(FOLDERS)
            for i in range(EACH)]
    origin = story.origin(*[f"objects=bucket/set/{f // 15:02d}/{f % 15:02d}/%02d {EACH} 1000-5000"
                            for f in range(FOLDERS)])
    clock = story.clock()
    server = story.penstock(origin=origin.url, freshness="ttl", ttl="60s", grace="0s")
    client, sizes = Client(server.port, keep=True), origin.sizes(keys)

    def all_right(keys):
        return [k for k in keys if (r := client.get(k)).error or r.status != 200
                or r.body != expect(k, 1, 0, sizes[k])][:3]

    def expired(text, keys, most):
        clock.ahead(61)
        origin.reset()
        story.same(f"{text}: all right", all_right(keys), [])
        counts = origin.counts()
        story.same(f"{text}: no GET, no HEAD", (counts["get"], counts["head"]), (0, 0))
        story.fact(f"{text}: at most a page for 300 objects", counts["list"] <= most,
                   f"{counts['list']} pages for {len(keys)}")
        story.note(f"{text}: {counts['list']} pages for {len(keys)} objects")

    story.same("a cold pass", all_right(keys), [])
    server.wait_cached(*keys, client=client)    # a listing renews what is on the disk
    expired("in their order", keys, len(keys) // 300)
    mixed = story.random.sample(keys, len(keys))
    expired("in random order", mixed, len(keys) // 300)

    # Who may list only single folders is not worse off.
    origin.tell("match=bucket/ LIST", "status=403")
    clock.ahead(61)
    origin.reset()
    some = keys[:30]
    story.same("listings refused: all right", all_right(some), [])
    story.same("... by HEADs", origin.counts()["get"], 0)
