"""penstock-pin: what is pinned stays while 20 times the cache is read, across kill -9 and restarts, within its budget.
Argument: sets of noise (24), each as large as most of the cache."""
from harness import *

C, SIZE, KEPT = 68 * MIB, 128 * 1024, 60
SETS, OBJECTS = int(sys.argv[1]) if len(sys.argv) > 1 else 24, 450

with Story("y04 what is pinned stays", seconds=300) as story:
    origin = story.origin(f"objects=pool/keep/%d {KEPT} {SIZE}", f"object=pool/keep/large {5 * MIB}",
                          f"objects=pool/bulk/%d 400 {SIZE}", f"object=pool/keep/late {SIZE}",
                          *(f"objects=pool/noise/{n}/%d {OBJECTS} {SIZE}" for n in range(SETS)))
    keys = [{"access_key": "KEEPER", "secret_key": "keeper", "policy": [{"allow": ["cache", "read"], "on": ["pool/keep/"]}]},
            {"access_key": "READER", "secret_key": "reader", "policy": [{"allow": ["read", "list", "write", "admin"], "on": ["pool/"]}]}]
    settings = dict(origin=origin.url, cache_size=f"{C}", extent_size="4MiB", freshness="immutable", pin_budget=40, keys=keys)
    server = story.penstock(**settings)
    order = random.Random(story.seed)
    wrong = []

    def ask(method, what, client=None, bucket="pool", **query):
        query = [(f"penstock-{what}", "")] + [(n.replace("_", "-"), str(v)) for n, v in query.items()]
        reply = (client or server.client).ask(method, bucket, query=query)
        if reply.status != 200:
            return reply.status, None
        rows = [json.loads(line) for line in reply.body.splitlines()]
        return rows[:-1], rows[-1]

    def read(names):
        for name in names:
            reply = server.get("pool/" + name)
            if reply.error:
                return
            if reply.status != 200 or reply.body != expect("pool/" + name, 1, 0, len(reply.body)):
                wrong.append(f"{name}: {reply}")

    def noise(n):
        """Reads a set twice: the rule stores what is read again."""
        names = [f"noise/{n}/{i}" for i in range(OBJECTS)]
        for _ in range(2):
            order.shuffle(names)
            read(names)

    kept = [f"keep/{i}" for i in range(KEPT)]

    def misses(names):
        origin.reset()
        read(names)
        return origin.counts()["get"]

    def pinned(prefix=""):
        return {row["key"]: row.get("pinned", False) for row in ask("GET", "ls", prefix=prefix)[0]}

    # ---- what is there, and what comes ----
    read(kept[:30])
    wait_for("they are stored", lambda: len(pinned("keep/")) == 30)
    (row,), end = ask("POST", "pin", prefix="keep/")
    story.same("what is there is pinned", (row["prefix"], row["objects"], row["cached_bytes"], row["pinned_bytes"]),
               ("keep/", 30, 30 * SIZE, 30 * SIZE))
    story.fact("the answer has the budget", 30 * SIZE < end["budget_used_bytes"] < end["budget_bytes"] == C // 100 * 40 and
               end["complete"], end)
    read(kept[30:] + ["keep/large"])
    read([f"noise/0/{i}" for i in range(20)])
    wait_for("what comes is pinned, and nothing else",
             lambda: (now := pinned()) and all(now[k] == k.startswith("keep/") for k in now) and len(now) == KEPT + 21)

    # ---- 20 times the cache ----
    recycled = 0
    for n in range(SETS):
        if n % 6 == 2:
            before = server.metric("penstock_store_recycled_extents_total")
            thread = threading.Thread(target=lambda n=n: [noise(n) for _ in range(4)])    # to the kill, or to no end
            thread.start()
            wait_for("extents are recycled", lambda: server.metric("penstock_store_recycled_extents_total") > before)
            recycled += server.metric("penstock_store_recycled_extents_total")
            server.kill()
            thread.join()
            server = server.again()
        elif n % 6 == 5:
            recycled += server.metric("penstock_store_recycled_extents_total")
            server = server.restart()
        noise(n)
    recycled += server.metric("penstock_store_recycled_extents_total")
    story.fact("more than three times the cache was recycled", recycled > 3 * C / (4 * MIB) * SETS / 24, recycled)
    story.same("all that is pinned is there", misses(kept + ["keep/large"]), 0)
    (row,), end = ask("GET", "pin")
    story.same("... and is listed", (row["prefix"], row["objects"], row["pinned_bytes"]),
               ("keep/", KEPT + 1, KEPT * SIZE + 5 * MIB))
    story.same("nothing pinned was lost", server.metric("penstock_pins_lost_bytes_total"), 0)

    # ---- a write, and a fill of the same key ----
    story.same("PUT", server.ask("PUT", "pool/keep/1", body=b"new").status, 200)
    story.same("the new version", server.get("pool/keep/1").body, b"new")
    wait_for("... is pinned as it comes", lambda: server.get("pool/keep/1").body == b"new" and pinned("keep/1").get("keep/1"))
    story.same("unpin", ask("POST", "unpin", prefix="keep/")[0][0]["was_pinned"], True)
    story.same("nothing is pinned", (any(pinned("keep/").values()), ask("GET", "pin")[0],
                                     server.metric("penstock_pinned_bytes")), (False, [], 0))
    origin.tell("match=pool/keep/late", "first_byte_ms=300")
    story.same("a pin while a key of it is fetched",
               [a if isinstance(a, int) else a.status if isinstance(a, Reply) else a[0][0]["pinned"] for a in together(
                   lambda: server.get("pool/keep/late"), lambda: ask("POST", "pin", prefix="keep/"))], [200, True])
    wait_for("the key is pinned", lambda: pinned("keep/late").get("keep/late"))
    story.fact("what was unpinned and is there is pinned again", sum(pinned("keep/").values()) >= KEPT, pinned("keep/"))

    # ---- the budget ----
    ask("POST", "pin", prefix="bulk/")
    read([f"bulk/{i}" for i in range(400)])
    wait_for("the budget is used up", lambda: server.metric("penstock_pins_over_budget_bytes_total") > 0)
    (row,), end = ask("POST", "pin", prefix="bulk/")
    story.fact("a pin that is too large pins what fits", 0 < row["pinned_bytes"] and
               end["budget_bytes"] - 2 * MIB < server.metric("penstock_pinned_bytes") <= end["budget_bytes"],
               (row, end, server.metric("penstock_pinned_bytes")))
    story.fact("what was pinned first stays", sum(pinned("keep/").values()) >= KEPT, pinned("keep/"))
    story.fact("stat shows it", json.loads(plain(server.admin_port, "GET", "/status").body)["cache"]["pinned_bytes"] > 0)
    then = {key for key, is_pinned in pinned().items() if is_pinned}
    server = server.restart()
    story.same("a restart pins", ask("POST", "pin", prefix="bulk/")[0][0]["pinned"], True)
    story.same("... the same objects", {key for key, is_pinned in pinned().items() if is_pinned}, then)
    story.fact("... and the log has no word of it", "pins_unpinned" not in server.log())
    server = server.restart(pin_budget=20)
    wait_for("the log says that a smaller budget does not keep all", lambda: "pins_unpinned" in server.log(), 20)
    story.fact("... and a counter has the bytes", server.metric("penstock_pins_unpinned_bytes_total") > 0)
    story.fact("... the older pin stays", sum(pinned("keep/").values()) >= KEPT, pinned("keep/"))
    for prefix in ("bulk/", "keep/"):
        ask("POST", "unpin", prefix=prefix)
    for n in range(min(SETS, 4)):
        noise(n)
    story.fact("what is no longer pinned goes", misses(kept[2:]) > 0)

    # ---- the right ----
    keeper, reader = Client(server.port, "KEEPER", "keeper"), Client(server.port, "READER", "reader")
    story.same("the right cache on a prefix", [a if isinstance(a := ask(m, w, keeper, prefix=p)[0], int) else 200
                                               for m, w in (("POST", "pin"), ("GET", "pin"), ("POST", "unpin"))
                                               for p in ("keep/a", "bulk/", "kee", "")], [200, 403, 403, 403] * 3)
    story.same("no other right is enough", [ask(m, w, reader, prefix="keep/")[0]
                                            for m, w in (("POST", "pin"), ("GET", "pin"), ("POST", "unpin"))], [403] * 3)
    story.same("what is not pinned can be unpinned", ask("POST", "unpin", prefix="nothing/")[0][0]["was_pinned"], False)
    story.same("no other method", [server.ask(m, "pool", [(f"penstock-{w}", "")]).status for m, w in
                                   (("PUT", "pin"), ("DELETE", "pin"), ("GET", "unpin"), ("HEAD", "pin"))], [405] * 4)
    story.same("no key", server.ask("POST", "pool/keep/1", [("penstock-pin", "")]).status, 405)
    story.same("a parameter that a pin does not have", [ask(m, w, **q)[0] for m, w in (("POST", "pin"), ("GET", "pin"), ("POST", "unpin"))
                                                        for q in ({"prefx": "keep/"}, {"Prefix": "keep/"}, {"key": "keep/1"})], [400] * 9)
    story.same("... or a value, or a body", [server.ask("POST", "pool", q, body=b).status for q, b in (
        ([("penstock-pin", "keep/")], b""), ([("penstock-pin", "")], b"prefix=keep/"), ([("penstock-pin", "")] * 2, b""))], [400] * 3)
    story.same("... pins nothing", ask("GET", "pin")[0], [])
    story.same("a prefix that is too long", ask("POST", "pin", prefix="x" * 1025)[0], 400)
    story.same("no byte was wrong", wrong, [])

    # ---- without the guard ----
    server.stop()
    server = story.penstock(**settings, cache_dir=story.path("unguarded"), env={"PENSTOCK_GUARD_OFF": "pins"})
    read(kept)
    ask("POST", "pin", prefix="keep/")
    for n in range(4):
        noise(n)
    story.fact("with the guard off, pinned objects are evicted", misses(kept) > 0)
