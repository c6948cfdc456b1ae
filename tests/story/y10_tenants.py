"""Two tenants of one origin have buckets of the same name. ls, du and explain tell a client with an
origin identity of its own only what the origin lists to this identity, in the version that is cached."""
from harness import *

SIZE = 20_000
SECRET = [f"secret-project/{i}" for i in range(5)]       # A's alone
MINE = [f"mine/{i}" for i in range(3)]                   # B's alone
BOTH = [f"both/{i}" for i in range(3)]                   # two objects of one name each

with Story("y10 what a tenant may know", seconds=60) as story:
    origin = story.origin(*(f"object=1:pile/{key} {SIZE}" for key in SECRET + BOTH),
                          *(f"object=2:pile/{key} {SIZE}" for key in MINE + BOTH),
                          "objects=1:many/%04d 1200 10", "match=*", "as=OAKEY", "tenant=1",
                          "match=*", "as=OBKEY", "tenant=2", "match=*", "as=-", "tenant=2")
    keys = [{"access_key": name, "secret_key": name.lower(), "origin_access_key": "O" + name, "origin_secret_key": "o"}
            for name in ("AKEY", "BKEY")] + [{"anonymous": True}]
    server = story.penstock(origin=origin.url, cache_size="64MiB", keys=keys, freshness="immutable", missing_time="0",
                            buckets={"wide": {"grant_scope": "bucket"}}, grant_time="1h")
    a, b = (Client(server.port, name, name.lower()) for name in ("AKEY", "BKEY"))
    shared = server.client

    def ask(what, client, bucket="pile", **query):
        query = [(f"penstock-{what}", "")] + [(n.replace("_", "-"), str(v)) for n, v in query.items()]
        reply = client.ask("GET", bucket, query=query)
        if reply.status != 200:
            return reply.status, None, reply.body
        rows = [json.loads(line) for line in reply.body.splitlines()]
        return rows[:-1], rows[-1], reply.body

    def keys_of(client, bucket="pile", **query):
        return [row["key"] for row in ask("ls", client, bucket, **query)[0]]

    def sums(client, **query):
        return {r["prefix"]: (r["objects"], r["bytes"], r["cached_bytes"]) for r in ask("du", client, **query)[0]}

    def explain(client, key):
        reply = client.ask("GET", f"pile/{key}", [("penstock-explain", "")])
        return json.loads(reply.body) if reply.status == 200 else reply.status

    def read(client, *keys):
        wait_for("it is cached", lambda: all([client.get(f"pile/{key}").cache == "hit" for key in keys]), 20)

    read(a, *SECRET)
    story.same("B has no such objects", {b.get(f"pile/{key}").status for key in SECRET}, {404})
    story.same("A sees its own objects", keys_of(a), SECRET)
    story.same("... and their sums", sums(a), {"secret-project/": (5, 5 * SIZE, 5 * SIZE)})
    for what in ("ls", "du"):
        rows, end, body = ask(what, b)
        story.fact(f"{what} tells B nothing of A's objects", rows == [] and b"secret" not in body, body)
        story.same("... and no more than of an empty cache", end, {"rows": 0, "complete": True, "listed_only": True, "folders_out": [], "extents_unread": 0})
    reply = plain(server.port, "GET", "/pile?penstock-ls")
    story.fact("nor does it tell unsigned clients", reply.status == 200 and b"secret" not in reply.body, reply)

    # ---- explain ----
    def facts(found):
        """All that an answer says, but for the key itself."""
        return {name: value for name, value in found.items() if name != "key"}

    story.same("explain says the same of A's object and of one that nobody has", facts(explain(b, SECRET[0])), facts(explain(b, "secret-project/none")))
    found = explain(b, SECRET[0])
    story.same("... that nothing is cached", (found["now"], found["metadata"]["stored"], found["bytes"]), ("miss", False, {"first": 0, "end": 0, "cached": 0}))
    found = explain(a, SECRET[0])
    story.same("A is told of its own copy", (found["now"], found["metadata"]["bytes"], found["bytes"]["cached"]), ("hit", SIZE, SIZE))

    # ---- the same name, another object ----
    read(a, *BOTH)
    story.same("A's copies of names that B has, too, are not B's", (keys_of(b), sums(b)), ([], {}))
    before = facts(explain(b, BOTH[0]))
    story.same("... nor does explain tell of them", (before["now"], before["metadata"]["stored"]), ("miss", False))
    read(b, *MINE, BOTH[0])
    story.same("B sees the objects that B has read", keys_of(b), [BOTH[0], *MINE])
    story.same("... their sums", sums(b), {"both/": (1, SIZE, SIZE), "mine/": (3, 3 * SIZE, 3 * SIZE)})
    story.same("... by prefix", (keys_of(b, prefix="mine/"), keys_of(b, prefix="secret")), (MINE, []))
    story.same("... and explained", (explain(b, BOTH[0])["now"], explain(b, BOTH[0])["metadata"]["bytes"]), ("hit", SIZE))
    story.same("A's copy of that name is gone for A", (keys_of(a), explain(a, BOTH[0])["now"]), ([*BOTH[1:], *SECRET], "miss"))

    for name in ("OAKEY", "OBKEY"):
        Client(origin.port, name, "o").put("same/x", b"the same bytes")
    wait_for("it is cached", lambda: a.get("same/x").cache == "hit")
    story.same("an object of B that is equal to A's copy", (keys_of(b, "same"), b.get("same/x").body), (["x"], b"the same bytes"))

    # ---- pages ----
    got, marker, pages = [], "", 0
    while marker is not None:
        rows, end, body = ask("ls", b, max_keys=2, marker=marker)
        got, marker, pages = got + [row["key"] for row in rows], end.get("next"), pages + 1
        story.fact("no page has a name of A's", b"secret" not in body, body)
    story.same("page by page", (got, pages), ([BOTH[0], *MINE], 3))
    for key in ("0000", "0999", "1000", "1199"):
        wait_for("it is cached", lambda: a.get(f"many/{key}").cache == "hit")
    rows, end, body = ask("ls", a, "many")
    story.same("a list of more than a page", ([r["key"] for r in rows], end["next"]), (["0000", "0999"], "0999"))
    story.same("... its rest", keys_of(a, "many", marker="0999"), ["1000", "1199"])
    story.same("... in one", keys_of(a, "many", max_keys=5000), ["0000", "0999", "1000", "1199"])
    story.same("... in sums", [(r["prefix"], r["objects"]) for r in ask("du", a, "many")[0]], [("", 4)])

    # ---- limits, and clients that leave ----
    long = "0" * 150
    small = story.penstock(origin=origin.url, cache_dir=story.path("small"), keys=keys, freshness="immutable", memory="64MiB")
    origin.tell(f"objects=1:long/{long}%04d 9000 10")
    mine = Client(small.port, "AKEY", "akey")
    numbers = ("0001", "2000", "8999")
    for number in numbers:
        wait_for("it is cached", lambda: mine.get(f"long/{long}{number}").cache == "hit")
    rows, end, body = ask("du", mine, "long")
    story.same("a list that is too long for du: it says so", (end["complete"], end.get("list_cut"), "next" in end), (False, True, False))
    story.same("... and counts the first keys", [row["objects"] for row in rows], [2])
    env = {**small.client_env(), "AWS_ACCESS_KEY_ID": "AKEY", "AWS_SECRET_ACCESS_KEY": "akey"}
    status, out, err = run([PENSTOCK, "du", "s3://long/"], env)
    story.fact("... the command, too", status == 3 and "longer prefixes" in err, (status, out, err))
    status, out, err = run([PENSTOCK, "ls", "--json", "s3://long/"], env)
    rows = [json.loads(line) for line in out.splitlines()]
    story.same("ls goes on with the next page", (status, [row["key"][150:] for row in rows[:-1]], rows[-1]["complete"], rows[-1]["listed_only"]), (0, list(numbers), True, True))
    origin.quiet()
    origin.tell("match=1:long/ LIST", "hang=1", "match=long/ LIST", "hang=1")
    def leave_open(query):
        wire = Wire(small.port, 5)
        wire.send(mine.head_of("GET", "long", query))
        return wire
    wires = [leave_open([("penstock-du", "")])]
    wait_for("one waits for its list", lambda: origin.totals()["requests_open"] == 1)
    story.same("one long list at a time", [ask(w, mine, "long", **q)[0] for w, q in (("du", {}), ("ls", {"max_keys": 1001}))], [503, 503])
    wires.append(leave_open([("penstock-ls", "")]))
    wires.append(leave_open([("penstock-ls", ""), ("max-keys", "2")]))
    wait_for("two more wait", lambda: origin.totals()["requests_open"] == 3)
    for wire in wires:
        wire.close()
    origin.quiet()
    origin.tell("reset=rules", "match=*", "as=OAKEY", "tenant=1", "match=*", "as=OBKEY", "tenant=2", "match=*", "as=-", "tenant=2")
    wait_for("those who left make place", lambda: ask("du", mine, "long")[0] not in (503, []), 10)
    small.stop()

    # ---- the right, and the clients for which nothing changes ----
    origin.tell("match=2:pile/ LIST", "as=OBKEY", "status=403", "match=pile/ LIST", "as=OBKEY", "status=403")
    story.same("the origin refuses B a list", [ask(w, b)[0] for w in ("ls", "du")] + [explain(b, MINE[0])], [403] * 3)
    origin.tell("reset=rules", "match=*", "as=OAKEY", "tenant=1", "match=*", "as=OBKEY", "tenant=2")
    story.same("the shared identity sees all of the cache", keys_of(shared), sorted(BOTH + MINE + SECRET))
    story.fact("... without a remark", "listed_only" not in ask("ls", shared)[1])
    origin.tell("object=1:wide/x 10")
    wait_for("it is cached", lambda: a.get("wide/x").cache == "hit")
    story.same("with grant_scope bucket, a bucket's name is one bucket", (keys_of(b, "wide"), "listed_only" in ask("ls", b, "wide")[1]), (["x"], False))

    # ---- the commands ----
    env = {**server.client_env(), "AWS_ACCESS_KEY_ID": "BKEY", "AWS_SECRET_ACCESS_KEY": "bkey"}
    for command in ("ls", "du"):
        status, out, err = run([PENSTOCK, command, "s3://pile/"], env)
        story.fact(f"penstock {command}", status == 0 and "mine/" in out and "secret" not in out and "lists to this access key" in err, (status, out, err))
    status, out, err = run([PENSTOCK, "explain", f"s3://pile/{SECRET[0]}"], env)
    story.fact("penstock explain", status == 0 and "no reason is known" not in out and "miss" in out, (status, out, err))
    calls = (("POST", "penstock-purge", []), ("POST", "penstock-purge", [("dry-run", "")]), ("GET", "penstock-purge", []),
             ("POST", "penstock-pin", []), ("GET", "penstock-pin", []), ("POST", "penstock-unpin", []))
    story.same("B may not pin, purge or count the objects of others", {b.ask(m, "pile", [(q, ""), ("prefix", ""), *dry]).status for m, q, dry in calls}, {403})
