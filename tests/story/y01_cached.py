"""penstock-ls and penstock-du say which keys are cached: those that answer without the origin."""
import collections

from harness import *

KEYS = [f"pile/{d}/{e}/{i}" for d in "abc" for e in "xy" for i in range(7)] + ["pile/top", "pile/d \"q\"é"]
SIZE = 150_000

with Story("y01 what ls and du list is what is cached", seconds=60) as story:
    origin = story.origin(*("object=" + quote(key) + f" {SIZE}" for key in KEYS[:-1]), "object=other/one 10")
    for name in "ab":
        os.mkdir(story.path(name))

    def dirs(*names):
        return [{"path": story.path(name) + "/cache", "size": "256MiB"} for name in names]

    keys = [{"access_key": name, "secret_key": name.lower(), "policy": [{"allow": allow, "on": on}]}
            for name, allow, on in (("LISTERKEY", ["list"], ["pile/a/"]), ("READERKEY", ["read"], ["pile/"]))]
    server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, cache_dirs=dirs("a", "b"),
                            freshness="immutable", keys=keys)

    def ask(what, bucket="pile", client=None, **query):
        query = [(f"penstock-{what}", "")] + [(n.replace("_", "-"), str(v)) for n, v in query.items()]
        reply = (client or server.client).ask("GET", bucket, query=query)
        if reply.status != 200:
            return reply.status, None
        rows = [json.loads(line) for line in reply.body.splitlines()]
        return rows[:-1], rows[-1]

    def keys_of(**query):
        rows, end = ask("ls", **query)
        return [row["key"] for row in rows]

    story.same("nothing is cached at first", (ask("ls")[0], ask("du")[0]), ([], []))
    rng = random.Random(5)
    cached = set()
    for _ in range(120):
        key = rng.choice(KEYS[:-1])
        if rng.random() < 0.25 and key in cached:
            story.same("DELETE", server.ask("DELETE", key).status, 204)
            origin.tell("object=" + quote(key) + f" {SIZE}")
            cached.discard(key)
        else:
            story.same("GET", server.get(key).status, 200)
            cached.add(key)
    want = sorted(key[5:] for key in cached)
    wait_for("all is stored", lambda: keys_of() == want)
    rows, end = ask("ls")
    story.same("each is whole", {(r["bytes"], r["cached_bytes"], r["objects"]) for r in rows}, {(SIZE, SIZE, 1)})
    story.same("nothing is missing", end, {"rows": len(want), "complete": True, "folders_out": [], "extents_unread": 0})
    story.same("a prefix", keys_of(prefix="a/x"), [k for k in want if k.startswith("a/x")])
    story.same("no other bucket's", keys_of(bucket="other"), [])

    got, marker = [], ""
    while marker is not None:
        rows, end = ask("ls", max_keys=5, marker=marker)
        got += [row["key"] for row in rows]
        marker = end.get("next")
    story.same("page by page", got, want)

    def sums(depth, prefix=""):
        return {r["prefix"]: (r["objects"], r["bytes"], r["cached_bytes"]) for r in ask("du", depth=depth, prefix=prefix)[0]}

    def expected(depth, prefix=""):
        groups = collections.Counter()
        for key in want:
            if key.startswith(prefix):
                parts = key[len(prefix):].split("/")
                groups[prefix + "".join(p + "/" for p in parts[:-1][:depth])] += 1
        return {name: (n, n * SIZE, n * SIZE) for name, n in groups.items()}

    for depth, prefix in ((0, ""), (1, ""), (2, ""), (9, ""), (1, "a/"), (1, "a/x/1"), (1024, "b")):
        story.same(f"du to depth {depth} below '{prefix}'", sums(depth, prefix), expected(depth, prefix))

    # ---- ages ----
    def ages():
        return {row["key"]: row.get("age") for row in ask("ls")[0]}

    some = want[::2]    # of both folders: time passes in a folder with its reads
    def read_all():
        for key in want:
            server.get("pile/" + key)
        return None not in ages().values()

    wait_for("each folder knows the mean interval between two reads", read_all, 20)    # counted each second

    def has_low_age():
        for _ in range(10):
            for key in some:
                server.get("pile/" + key)
        found = ages()
        return max(found[key] for key in some) < min(found[key] for key in want[1::2])

    wait_for("what is read again has a low age", has_low_age, 20)
    story.fact("du has no age", "age" not in ask("du")[0][0])

    # ---- the right ----
    lister, reader = Client(server.port, "LISTERKEY", "listerkey"), Client(server.port, "READERKEY", "readerkey")
    story.same("a client may see what it may list", [r["key"] for r in ask("ls", client=lister, prefix="a/")[0]],
               [k for k in want if k.startswith("a/")])
    story.same("... and nothing else", [ask(w, client=lister, prefix=p)[0] for w in ("ls", "du") for p in ("", "b/", "a")], [403] * 6)
    story.same("a client that may read may not list", ask("ls", client=reader)[0], 403)
    origin.tell("match=pile/ LIST", "status=403")
    reply = server.ask("GET", "pile", [("penstock-ls", "")])
    story.fact("the origin refuses the list: no name is sent", reply.status == 403 and b"a/x" not in reply.body, reply)
    origin.tell("reset=rules")

    # ---- queries ----
    for query in ({"max_keys": 0}, {"max_keys": 100_001}, {"max_keys": "x"}, {"depth": 1025}, {"depth": -1}, {"depth": "9" * 30}):
        story.same(f"a wrong number: {query}", ask("du", **query)[0], 400)
    for what, query in (("ls", {"depth": 1}), ("ls", {"prefx": "a"}), ("du", {"max_key": 1}), ("ls", {"delimiter": "/"})):
        story.same(f"a parameter that {what} does not have: {query}", ask(what, **query)[0], 400)
    story.same("a NUL in a prefix is refused, and a strange marker finds nothing",
               (ask("ls", prefix="a\0b")[0], ask("ls", marker="\xff\xff")[0]), (400, []))
    for method, path in (("PUT", "pile/x"), ("GET", "pile/x"), ("POST", "pile"), ("HEAD", "pile")):
        story.same(f"{method} {path}", server.ask(method, path, [("penstock-ls", "")]).status, 405)

    # ---- limits, and clients that leave ----
    origin.tell("match=pile/ LIST", "first_byte_ms=3000")
    statuses = together(*[lambda: ask("ls")[0]] * 20)
    story.same("16 at a time", (sum(s == want_rows for s in statuses), statuses.count(503)) if (want_rows := ask("ls")[0]) else 0,
               (16, 4))
    story.same("... the others are counted", server.metric("penstock_walks_limited_total"), 4)
    statuses = together(*[lambda: ask("ls", max_keys=1001)[0]] * 5)
    story.same("2 large ones at a time", (sum(s == want_rows for s in statuses), statuses.count(503)), (2, 3))
    for _ in range(16):    # they leave while the origin is asked
        wire = Wire(server.port, 5)
        wire.send(server.client.head_of("GET", "pile", [("penstock-ls", "")]))
        wire.close()
    origin.tell("reset=rules")
    wait_for("those who left make place", lambda: keys_of() == want)
    for _ in range(30):    # ... or while the store is read
        wire = Wire(server.port, 5)
        wire.send(server.client.head_of("GET", "pile", [("penstock-du", "")]))
        time.sleep(0.001 * rng.random())
        wire.close()
    wait_for("... those, too", lambda: keys_of() == want)

    # ---- a restart; then the origin stops ----
    server = server.restart()
    story.same("a restart changes nothing", keys_of(), want)
    listed = set(keys_of())
    origin.stop()
    answers = {key[5:] for key in KEYS[:-1] if server.get(key).status == 200}
    story.same("without the origin, exactly the listed keys answer", answers, listed)
    story.same("without the origin nobody proves a right to list", ask("ls")[0] in (502, 503, 504), True)
