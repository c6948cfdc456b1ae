"""What a call on a bucket says of its objects is told at once: x-amz-expiration after PutBucketLifecycle and
DeleteBucketLifecycle, x-amz-version-id after PutBucketVersioning; also after a restart, and a kill."""
import base64

from radosgw import *

RULE = (b"<LifecycleConfiguration><Rule><ID>%s</ID><Prefix></Prefix><Status>Enabled</Status><Expiration><Days>%d</Days></Expiration></Rule>"
        b"</LifecycleConfiguration>")
ON = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
SAID = ("x-amz-expiration", "x-amz-version-id", "etag", "content-length")
KEYS = [f"bucket/in/{number}" for number in range(3)]


def md5(body):
    return {"content-md5": base64.b64encode(hashlib.md5(body).digest()).decode()}


def said(reply):
    return {name: reply.headers[name] for name in SAID if name in reply.headers}


with Story("w19 what a bucket's rules say of its objects") as story:
    gateway = Radosgw(story)
    direct, me = gateway.client("main"), gateway.users["main"]
    for bucket in ("bucket", "other"):
        direct.put(bucket, b"")
    for key in (*KEYS, "other/a"):
        direct.put(key, b"x" * 1000)

    def lifecycle(server, name, days):
        body = RULE % (name, days)
        return server.ask("PUT", "bucket", [("lifecycle", "")], md5(body), body).status

    def warm(server):
        for key in (*KEYS, "other/a"):
            wait_for("it is cached", lambda: server.get(key).cache in ("hit", "stale", "revalidated") and server.get(key).cache == "hit")

    def heads(server):
        return server.metric("penstock_origin_requests_total")

    def as_the_origin_says(server, text, keys=KEYS):
        for key in keys:
            want = said(direct.head(key))
            for method in ("GET", "HEAD"):
                story.same(f"{text}: {method} {key}", said(server.ask(method, key)), want)

    for freshness, how in (("immutable", {}), ("ttl", {"ttl": "0", "grace": "0"})):
        server = story.penstock(origin=gateway.url, origin_access_key=me.key, origin_secret_key=me.secret, freshness=freshness,
                                cache_dir=story.path(freshness), missing_time="0", **how)
        warm(server) if freshness == "immutable" else [server.get(key) for key in KEYS]
        story.same("a rule", lifecycle(server, b"first", 10), 200)
        story.fact("the origin tells of it", "first" in direct.head(KEYS[0]).headers.get("x-amz-expiration", ""), direct.head(KEYS[0]).headers)
        as_the_origin_says(server, f"{freshness}, a rule")
        if freshness == "immutable":
            warm(server)    # what is asked for in the second of the change is asked for again
            asked = heads(server)
            story.same("then they are hits again", [server.get(key).cache for key in KEYS], ["hit"] * len(KEYS))
            story.same("... and no other bucket was asked about", (server.get("other/a").cache, heads(server) - asked), ("hit", 0))
        story.same("another", lifecycle(server, b"second", 20), 200)
        as_the_origin_says(server, f"{freshness}, another rule", KEYS[:2])

        # ---- with nothing read between the change and the end of the process ----
        server = server.restart()
        as_the_origin_says(server, f"{freshness}, after a restart", KEYS)
        warm(server) if freshness == "immutable" else None
        story.same("none any more", server.ask("DELETE", "bucket", [("lifecycle", "")]).status, 204)
        story.same("... the origin says", "x-amz-expiration" in direct.head(KEYS[0]).headers, False)
        server.kill()
        server = server.again()
        as_the_origin_says(server, f"{freshness}, after a kill")
        server = server.restart()
        as_the_origin_says(server, f"{freshness}, and one more restart", KEYS[:2])
        server.stop()

    server = story.penstock(origin=gateway.url, origin_access_key=me.key, origin_secret_key=me.secret, freshness="immutable",
                            cache_dir=story.path("versions"), missing_time="0")
    warm(server)
    story.same("versions", server.ask("PUT", "bucket", [("versioning", "")], md5(ON), ON).status, 200)
    as_the_origin_says(server, "versioning is on", KEYS[:2])
