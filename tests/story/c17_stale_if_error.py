"""stale_if_error: while the origin is down, an expired copy is served for a limited time, and never one that is purged,
changed, refused or not proved."""
from guards import guarded
from harness import *

SIZE, HOUR = 20_000, 3600
folders = iter(range(1000))
OWN = [{"access_key": name, "secret_key": f"{name}-secret"} for name in ("anna", "ben")]

with Story("c17 expired copies while the origin is down", seconds=150) as story:
    clock = story.clock()
    port = free_port()
    objects = "objects=bucket/%02d 20 20000", "objects=strict/%02d 20 20000", "objects=always/%02d 20 20000", "objects=short/%02d 20 20000"
    origin = story.origin(*objects, port=port)

    def house(off="", **settings):
        origin.calm()
        return story.penstock(origin=origin.url, cache_dir=story.path(f"cache-{next(folders)}"), freshness="ttl", ttl="60s",
                              grace="30s", stale_if_error="1h", keys=OWN, env=guarded(off), origin_connect_time="500ms",
                              permission_time="3h", buckets={"strict": {"stale_if_error": "0"}, "always": {"freshness": "always"},
                                                     "short": {"permission_time": "10m"}}, **settings)

    def warm(server, *keys, client=None):
        for key in keys:
            story.bytes(f"{key} is read", (client or server).get(key), key, 0, SIZE)
        origin.quiet()
        time.sleep(0.5)

    def stale(reply, key):
        """None if the reply is the stale copy, else what it is."""
        right = reply.status == 200 and reply.cache == "stale-if-error" and reply.body == expect(key, 1, 0, SIZE)
        return None if right else repr(reply)

    def refused(text, reply):
        story.fact(f"{text}: a clear failure", reply.status in (502, 503, 504) and (reply.code or not reply.body) and
                   reply.cache in ("", "-"), reply)

    # ---- what is served, and how long ----
    server = house()
    keys = [f"bucket/{i:02d}" for i in range(10)]
    warm(server, *keys, "strict/00", "always/00", "short/00")
    clock.ahead(100)
    origin.tell("status=503")
    story.same("the origin answers 503: all expired copies are served", [stale(server.get(key), key) for key in keys], [None] * 10)
    reply = server.get(keys[0])
    story.fact("... with an age above ttl and grace", 100 <= int(reply.headers["age"]) < 200, reply.headers)
    reply = server.head(keys[0])
    story.same("... also to a HEAD", (reply.status, reply.cache), (200, "stale-if-error"))
    reply = server.get(keys[0], 100, 199)
    story.fact("... and to a range", reply.status == 206 and reply.cache == "stale-if-error" and
               reply.body == expect(keys[0], 1, 100, 100), reply)
    story.same("... and counted", server.metric('penstock_cache_answers_total{result="stale_if_error"}'), 13)
    refused("a bucket without stale_if_error", server.get("strict/00"))
    refused("freshness always", server.get("always/00"))
    refused("no-cache", server.get(keys[0], headers={"cache-control": "no-cache"}))
    refused("what is not cached", server.get("bucket/15"))
    time.sleep(1.5)
    for key in keys * 3:    # more failures: the breaker opens
        server.get(key)
        time.sleep(0.05)
    wait_for("the breaker opens", lambda: server.get(keys[1]) and server.metric("penstock_origin_breaker_open") == 1, every=0.1)
    began = time.monotonic()
    story.same("the breaker is open: they are served", [stale(server.get(key), key) for key in keys], [None] * 10)
    story.in_time("... at once", time.monotonic() - began < 2, time.monotonic() - began)
    origin.tell("reset=rules", "hang=1")
    story.same("the origin hangs: they are served", [stale(server.get(key), key) for key in keys[:3]], [None] * 3)
    origin.kill()
    story.same("the origin is gone: they are served", [stale(server.get(key), key) for key in keys], [None] * 10)
    story.same("a copy that the shared identity may read: it is served", stale(server.get("short/00"), "short/00"), None)
    clock.ahead(HOUR - 60)
    refused("a copy whose permission_time is over", server.get("short/00"))
    story.same("near the end of stale_if_error: they are served", stale(server.get(keys[0]), keys[0]), None)
    clock.ahead(60)
    refused("after the end of stale_if_error", server.get(keys[0]))
    clock.ahead(-HOUR)
    origin = story.origin(*objects, port=port)
    wait_for("the origin is back: copies are confirmed again", lambda: server.get(keys[0]).cache == "revalidated", every=0.1)

    # ---- what the origin says counts ----
    clock.ahead(100)
    for status, key in ((404, "bucket/01"), (403, "bucket/02")):
        origin.tell(f"match={key}", f"status={status}", "match=bucket/ LIST", "status=403")
        story.same(f"the origin answers {status}: so does Penstock", server.get(key).status, status)
    origin.calm()
    origin.tell("flip=bucket/03", "match=bucket/ LIST", "status=403", "match=bucket/03 GET", "status=503")
    reply = server.get("bucket/03")
    story.fact("the origin has another version: the old one is not served", reply.status >= 500, reply)
    origin.calm()

    # ---- purged, changed, unproved ----
    def purged(off):
        server = house(off)
        warm(server, "bucket/10", "bucket/11")
        clock.ahead(100)
        reply = server.ask("POST", "bucket", [("penstock-purge", ""), ("key", "10")])
        story.same("a purge is done", reply.status, 200)
        origin.tell("status=503")
        story.same("... another key is served", stale(server.get("bucket/11"), "bucket/11"), None)
        return server.get("bucket/10")

    refused("a purged copy", purged(""))
    server = house(origin_tries=1, revalidate="head")
    warm(server, "bucket/16", "bucket/17")
    clock.ahead(100)
    origin.tell("status=503", "first_byte_ms=1500")
    replies = []

    def purge_meanwhile():
        time.sleep(0.5)
        story.same("a purge while a HEAD waits for the origin", server.ask("POST", "bucket", [("penstock-purge", ""), ("key", "16")]).status, 200)
    together(purge_meanwhile, *[lambda key=key: replies.append((key, server.head(key))) for key in ("bucket/16", "bucket/17")])
    refused("... its copy", dict(replies)["bucket/16"])
    story.same("... another one is served", dict(replies)["bucket/17"].cache, "stale-if-error")
    server = house()
    warm(server, "bucket/12", "bucket/13")
    tags = b"<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"
    story.note(f"tagging: {server.ask('PUT', 'bucket/12', [('tagging', '')], body=tags)}")
    clock.ahead(100)
    origin.tell("status=503")
    refused("a copy whose tags were changed", server.get("bucket/12"))
    story.same("... another one is served", stale(server.get("bucket/13"), "bucket/13"), None)
    server.stop()
    server = server.again()
    refused("a copy that was not confirmed since the start", server.get("bucket/13"))
    origin.calm()
    wait_for("the origin is back", lambda: server.get("bucket/13").status == 200, every=0.1)
    server.kill()
    origin.tell("status=503")
    server = server.again()
    refused("a copy that is not proved after kill -9", server.get("bucket/13"))
    server.stop()

    # ---- identities ----
    def another_identity(off):
        server = house(off, grant_time="10m")
        anna, ben = (Client(server.port, row["access_key"], row["secret_key"]) for row in OWN)
        warm(server, "bucket/14", client=anna)
        clock.ahead(100)
        origin.tell("status=503")
        story.same("a client with a grant is served", stale(anna.get("bucket/14"), "bucket/14"), None)
        reply = ben.get("bucket/14")
        if not off:
            clock.ahead(600)
            refused("a client whose grant is over", anna.get("bucket/14"))
        server.stop()
        return reply

    refused("a client without a grant", another_identity(""))
    reply = another_identity("grants")
    story.same("with the guard 'grants' off, it would be served", stale(reply, "bucket/14"), None)
    story.same("with the guard 'bans' off, the purged copy would be served", stale(purged("bans"), "bucket/10"), None)
