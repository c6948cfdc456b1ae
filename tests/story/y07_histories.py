"""After any history, penstock-ls and penstock-du have just the bytes that come without the origin. A history is some dozen
reads, reads of ranges, writes, deletions, purges and pins, more than the two folders can hold, now and then with a restart
or kill -9. Usage: y07_histories.py [HISTORIES], by default 8."""
from harness import *

HISTORIES = int(sys.argv[1]) if len(sys.argv) > 1 else 8
UNIT = 131072
SIZES = {f"pile/{group}/{n}": size for group in ("a", "b/c", "b/d") for n, size in
         enumerate([1, 700, 30_000, UNIT, UNIT + 1, 300_000, 900_000, 2 * MIB + 5] + [7 * MIB] * 7)}

with Story(f"y07 ls and du after {HISTORIES} histories", seconds=120 + 6 * HISTORIES) as story:
    rng = story.random
    origin = story.origin(*(f"object={key} {size}" for key, size in SIZES.items()))
    server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, freshness="immutable", extent_size="4MiB",
                            cache_dirs=[{"path": story.path(name), "size": size} for name, size in (("a", "64MiB"), ("b", "72MiB"))],
                            keys=[{"access_key": "OPERATOR", "secret_key": "operator", "policy": [
                                {"allow": ["read", "list", "cache"], "on": ["pile"]}]}])
    operator = Client(server.port, "OPERATOR", "operator")
    direct = Client(origin.port, ORIGIN_KEY, ORIGIN_SECRET)
    bodies = {}    # of the keys that were written, or deleted and made anew

    def rows(what, **query):
        reply = server.ask("GET", "pile", query=[(f"penstock-{what}", "")] + list(query.items()))
        check(reply.status == 200, f"{what}: {reply}")
        found = [json.loads(line) for line in reply.body.splitlines()]
        check(found[-1]["complete"], f"{what}: {found[-1]}")
        return found[:-1]

    def size_of(key):
        return len(bodies[key]) if key in bodies else SIZES[key]

    def content(key):
        return bodies[key] if key in bodies else expect(key, 1, 0, SIZES[key])

    def step():
        kind, key = rng.random(), rng.choice(list(SIZES))
        if kind < 0.35:
            check(server.get(key).status == 200, key)
        elif kind < 0.7:
            first = rng.randrange(size_of(key))
            check(server.get(key, first, first + rng.randrange(1, 3 * UNIT)).status == 206, key)
        elif kind < 0.8:
            body = rng.randbytes(rng.choice((10, 50_000, 400_000)))
            check(server.put(key, body).status == 200, key)
            bodies[key] = body
        elif kind < 0.85:
            check(server.delete(key).status == 204, key)
            origin.tell(f"object={key} {SIZES[key]}")
            bodies[key] = direct.get(key).body
        elif kind < 0.95:
            prefix = rng.choice(("a/", "b/", "b/c/", key[5:]))
            operation = rng.choice(("purge", "pin", "unpin"))
            check(operator.ask("POST", "pile", query=[(f"penstock-{operation}", ""), ("prefix", prefix)]).status == 200, operation)
        else:
            return rng.choice(("restart", "kill"))

    def served():
        """{key: bytes that come without the origin}, of the keys of which any do."""
        found = {}
        for key in SIZES:
            whole, got = content(key), 0
            for first in range(0, len(whole), UNIT):
                reply = server.get(key, first, first + UNIT - 1)
                if reply.status == 206 and not reply.error:
                    check(reply.body == whole[first:first + UNIT], f"wrong bytes of {key} at {first}")
                    got += len(reply.body)
            if got:
                found[key[5:]] = got
        return found

    def ends():
        """Before a process ends: the extents that it evicted."""
        global evicted
        evicted += server.metric("penstock_store_recycled_extents_total")

    differs, listed, partly, evicted = [], 0, 0, 0
    for history in range(HISTORIES):
        for _ in range(rng.randrange(10, 60)):
            how = step()
            if how:
                ends()
            if how == "kill":
                server.kill()
                server = server.again()
            elif how:
                check(server.stop() == 0, "it does not stop cleanly")
                server = server.again()
        # after a kill, or for the sake of rights, the origin must confirm some objects once
        for row in rows("ls"):
            check(server.head("pile/" + row["key"]).status == 200, row["key"])
        looks = [None]
        wait_for("nothing changes any more", lambda: looks.append(rows("ls")) or looks[-4:] == looks[-1:] * 4, every=0.4)
        last = looks[-1]
        sums = {depth: sum(row["cached_bytes"] for row in rows("du", depth=str(depth))) for depth in (0, 1, 9)}
        origin.tell("match=*", "status=503")
        without = served()
        origin.tell("reset=rules")
        # Penstock took the origin for down. One request a second is sent nevertheless, and shows that it is back.
        wait_for("the origin answers again",
                 lambda: server.get(f"pile/none-{history}").status == 404)
        names = {row["key"]: row["cached_bytes"] for row in last if row["cached_bytes"]}
        if names != without or set(sums.values()) != {sum(names.values())}:
            differs.append((history, {k: (names.get(k), without.get(k)) for k in names.keys() | without.keys()
                                      if names.get(k) != without.get(k)}, sums))
        listed += len(names)
        partly += sum(row["cached_bytes"] < row["bytes"] for row in last)
    story.same("0 histories after which they differ", differs[:3], [])
    story.fact("some keys were cached in part", partly > 0)
    ends()
    story.fact("some extents were evicted (in 20 histories or more)", evicted > 0 or HISTORIES < 20)
    story.note(f"{HISTORIES} histories, {listed} keys listed, {partly} of them cached in part, {evicted:.0f} extents evicted")
