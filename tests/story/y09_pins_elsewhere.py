"""Pins at an origin, or of a bucket, that is no longer in the settings: they are listed, marked so, and can be ended."""
from harness import *

SIZE = 1000

with Story("y09 pins of what is no longer configured", seconds=60) as story:
    origin, old = (story.origin("objects=pool/a/%d 3 1000", "objects=pool/b/%d 3 1000", "objects=gone/%d 3 1000") for _ in range(2))
    before = dict(origin=origin.url, origins={"old": {"url": old.url}}, buckets={"pool/a/": {"origin": "old"}, "gone": {"origin": "old"}})
    after = dict(origin=None, origins={name: {"url": origin.url} for name in ("main", "spare")}, buckets={"pool": {"origin": "main"}},
                 keys=[{"access_key": "KEEPER", "secret_key": "keeper", "policy": [{"allow": ["cache"], "on": ["pool/a/"]}]}])
    server = story.penstock(freshness="immutable", **before)

    def ask(method, what, bucket="pool", client=None, **query):
        reply = (client or server.client).ask(method, bucket, [(f"penstock-{what}", "")] + list(query.items()))
        return [json.loads(line) for line in reply.body.splitlines()] if reply.status == 200 else (reply.status, reply.code)

    def listed(bucket="pool", **query):
        """Each row as prefix, objects, and origin if it is not configured."""
        return [(row["prefix"], row["objects"], row.get("origin"), row.get("configured")) for row in ask("GET", "pin", bucket, **query)[:-1]]

    for key in (f"{prefix}{number}" for prefix in ("pool/a/", "pool/b/", "gone/") for number in range(3)):
        server.get(key)
        wait_for("it is stored", lambda: server.get(key).cache == "hit")
    for bucket, prefix in (("pool", "a/"), ("pool", "b/"), ("pool", ""), ("gone", "")):
        story.same(f"pin {bucket}/{prefix}", ask("POST", "pin", bucket, prefix=prefix)[0]["pinned"], True)
    story.same("the pins", (listed(), listed("gone")), ([("", 0, None, None), ("b/", 3, None, None), ("a/", 3, None, None)], [("", 3, None, None)]))
    story.same("... in number", server.metric("penstock_pins"), 5)    # pool/ lies at two origins

    server.stop()
    server = story.penstock(freshness="immutable", **after)
    story.same("pins at the other origin are marked", listed(),
               [("", 0, None, None), ("b/", 3, None, None), ("", 0, old.url, False), ("a/", 3, old.url, False)])
    story.same("... those of a prefix", listed(prefix="a/"), [("a/", 3, old.url, False)])
    story.same("... and of a bucket", listed("gone"), [("", 3, old.url, False)])
    env = {**server.client_env(), "PENSTOCK_CONFIG": "/nonexistent"}
    said = run([PENSTOCK, "pin", "--list", "s3://pool"], env)
    story.fact("... by the command, too", said[0] == 0 and f"s3://pool/a/  (pinned for origin {old.url}; in the settings now, no key of this prefix belongs to that origin)" in said[1], said)
    story.same("a bucket that was never there", (ask("GET", "pin", "none"), ask("POST", "unpin", "none", prefix="")), ((404, "NoSuchBucket"),) * 2)
    story.same("no new pin at what is not configured", ask("POST", "pin", "gone", prefix=""), (404, "NoSuchBucket"))
    keeper = Client(server.port, "KEEPER", "keeper")
    story.same("the right cache is needed", (ask("GET", "pin", "gone", client=keeper)[0], ask("POST", "unpin", "gone", client=keeper, prefix="")[0]), (403, 403))
    story.same("... and enough", ask("POST", "unpin", client=keeper, prefix="a/")[0]["was_pinned"], True)
    story.same("unpin", ask("POST", "unpin", "gone", prefix="")[0]["was_pinned"], True)
    story.same("... ends both pins of a prefix", ask("POST", "unpin", prefix="")[0]["was_pinned"], True)
    story.same("what is left", (listed(), ask("GET", "pin", "gone"), server.metric("penstock_pins")), ([("b/", 3, None, None)], (404, "NoSuchBucket"), 1))
    server = server.restart()
    story.same("... also after a restart", server.metric("penstock_pins"), 1)
