"""With cache_writes, what was put is a hit: its body fills the cache behind the answer."""
from harness import *

with Story("w08 what a PUT brought is served from the cache") as story:
    origin = story.origin()
    server = story.penstock(origin=origin.url, buckets={"kept": {"cache_writes": True}},
                            origin_connections=512)    # with fewer, HEADs that wait hold up the PUTs after them
    direct = Client(origin.port)

    def kept():
        return server.metrics()['penstock_cache_writes_total{result="kept"}']

    def dropped():
        return server.metrics()['penstock_cache_writes_total{result="dropped"}']

    for size in (0, 1, 100_000, MIB, MIB + 1, 9 * MIB + 77):
        key, body, before = f"kept/{size}", story.random.randbytes(size), kept()
        story.same(f"{size} bytes are put", server.put(key, body).status, 200)
        wait_for("the cache is filled", lambda: kept() > before)
        reply = server.get(key)
        story.fact("... and read: every byte, from the cache", reply.body == body and reply.cache == "hit", reply)
        story.same("... the origin was asked for none", origin.counts(key)["get"], 0)
        story.same("... its headers are the origin's", (reply.headers["etag"], reply.headers["content-type"]),
                   (direct.head(key).headers["etag"], direct.head(key).headers["content-type"]))
    small = server.get("kept/1", headers={"x-amz-checksum-mode": "ENABLED"})
    story.same("a restart finds it", (server := server.restart()).get("kept/1").body, small.body)

    story.same("elsewhere nothing is kept", server.put("bucket/a", b"x").status, 200)
    story.same("... by default", (server.get("bucket/a").cache, origin.counts("bucket/a")["get"], kept()), ("miss", 1, 0))
    server.put("kept/no", b"x", headers={"cache-control": "no-store"})
    wait_for("what says no-store is not", lambda: dropped() == 1)

    # the HEAD that is to confirm it comes late
    origin.tell("match=kept/late HEAD", "first_byte_ms=3000", "times=1")
    server.put("kept/late", b"first, through us")
    story.same("amid it, another PUT through us", server.put("kept/late", b"second, through us").status, 200)
    wait_for("the first is dropped, the second kept", lambda: dropped() == 2 and kept() == 1)
    story.same("... which is what is read", server.get("kept/late").body, b"second, through us")
    origin.tell("match=kept/elsewhere HEAD", "first_byte_ms=3000", "times=1")
    server.put("kept/elsewhere", b"through us")
    direct.put("kept/elsewhere", b"by others.")
    wait_for("one that others wrote over is dropped", lambda: dropped() == 3)
    story.same("... and theirs is read", server.get("kept/elsewhere").body, b"by others.")
    origin.tell("match=kept/refused HEAD", "status=403")
    server.put("kept/refused", b"x")
    wait_for("one that may not be asked for is dropped", lambda: dropped() == 4)

    # more at once than are worth holding
    origin.tell("match=kept/many/* HEAD", "first_byte_ms=15000")
    before = dropped()
    loops = 2
    client = [Client(server.port, keep=True) for _ in range(8)]
    together(*[lambda c=c, n=n: [c.put(f"kept/many/{n}/{i}", b"x") for i in range(20 * loops)] for n, c in enumerate(client)])
    story.fact("what is more than 64 a loop is not held on to", dropped() > before, (before, dropped()))
