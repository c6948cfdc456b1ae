"""penstock-explain says what a GET would do, and why, and asks the origin for no byte of the object."""
from harness import *

SMALL, LARGE, UNIT = 100_000, 3 * MIB, 128 * 1024
UNITS = 1000    # of an object whose records are units

with Story("y05 what explain says is what happens next", seconds=90) as story:
    clock = story.clock()
    origin = story.origin(f"object=pile/small {SMALL}", f"object=pile/large {LARGE}", "object=pile/empty 0",
                          *(f"object=pile/{name} {UNITS * UNIT}" for name in ("row", "gaps")), f"objects=fill/%d 700 {UNIT}")
    keys = [{"access_key": "LISTKEY", "secret_key": "list", "policy": [{"allow": ["list"], "on": ["pile/"]}]},
            {"access_key": "READKEY", "secret_key": "read", "policy": [{"allow": ["read"], "on": ["pile/"]}]}]
    server = story.penstock(origin=origin.url, cache_size="64MiB", extent_size="4MiB", freshness="ttl", ttl="60s", grace="60s", keys=keys)

    def explain(path, client=None, **query):
        reply = (client or server.client).ask("GET", path, query=[("penstock-explain", "")] + list(query.items()))
        return json.loads(reply.body) if reply.status == 200 else reply.status

    def both(path, **headers):
        """What explain says, then X-Cache of a GET."""
        said = explain(path, **({"range": headers["range"][6:]} if headers else {}))["now"]
        return said.upper().replace("REVALIDATE", "REVALIDATED"), server.get(path, headers=headers).headers["x-cache"]

    first = explain("pile/small")
    story.same("nothing is cached", (first["now"], first["metadata"]["stored"], first["bytes"]["cached"]), ("miss", False, 0))
    story.same("... and a key that is not there is told alike", explain("pile/none")["now"], "miss")
    story.same("explain asked the origin for a list alone", (origin.totals()["get"], origin.totals()["head"]), (0, 0))

    server.get("pile/small")
    wait_for("it is stored", lambda: explain("pile/small")["metadata"]["stored"])
    found = explain("pile/small")
    story.same("a hit", (found["now"], found["bytes"]), ("hit", {"first": 0, "end": SMALL, "cached": SMALL, "records": found["bytes"]["records"]}))
    story.same("its record", [(r["first"], r["end"], r["stored"], r["folder"]) for r in found["bytes"]["records"]], [(0, SMALL, True, 1)])
    story.fact("... with times", found["metadata"]["fresh_until"] > found["metadata"]["confirmed"], found["metadata"])
    story.same("... and so it is", both("pile/small"), ("HIT", "HIT"))

    server.get("pile/large", headers={"range": f"bytes=0-{MIB - 1}"})
    wait_for("a part is stored", lambda: explain("pile/large")["bytes"]["cached"] == MIB)
    found = explain("pile/large")
    story.same("the rest of the object is missing", (found["now"], [(r["first"], r["end"], r["stored"]) for r in found["bytes"]["records"]]),
               ("partial", [(0, MIB, True), (MIB, LARGE, False)]))
    story.same("a range that is there", explain("pile/large", range=f"0-{UNIT - 1}")["now"], "hit")
    story.same("a range that is not", explain("pile/large", range=f"{2 * MIB}-{2 * MIB + 9}")["now"], "miss")
    found = explain("pile/large", range=f"{LARGE}-")
    story.fact("a range beyond the end", "416" in found["why"] and found["bytes"]["cached"] == 0 and
               server.ask("GET", "pile/large", headers={"range": f"bytes={LARGE}-"}).status == 416, found)
    story.same("... and so it is", both("pile/large", range=f"bytes={2 * MIB}-{2 * MIB + 9}"), ("MISS", "MISS"))

    clock.ahead(90)
    story.same("after ttl, within grace", both("pile/small"), ("STALE", "STALE"))
    clock.ahead(200)
    story.same("after both", both("pile/small"), ("REVALIDATED", "REVALIDATED"))

    story.same("PUT", server.ask("PUT", "pile/small", body=b"new").status, 200)
    found = explain("pile/small")
    story.same("a write removed it", (found["now"], found["metadata"]["left"]["event"]), ("miss", "removed"))

    # ---- after a kill: not proved is not refused, and the answer does not contradict itself ----
    facts = lambda key: {name: explain(key)["metadata"].get(name) for name in ("proved", "refused", "unshared")}
    for number in range(4):
        server.get(f"fill/{number}")
    wait_for("they are stored", lambda: all(explain(f"fill/{n}")["metadata"]["stored"] for n in range(4)))
    story.same("before it", facts("fill/0"), {"proved": True, "refused": False, "unshared": False})
    server.kill()
    server = server.again()
    story.same("after a kill, nothing is proved, and nothing was refused", (explain("fill/0")["now"], facts("fill/0")),
               ("revalidate", {"proved": False, "refused": False, "unshared": True}))
    story.same("... the origin confirms it", server.get("fill/0").headers["x-cache"], "REVALIDATED")
    story.same("... and so it is", (explain("fill/0")["now"], facts("fill/0")), ("hit", {"proved": True, "refused": False, "unshared": False}))
    for number in range(1, 4):
        found = explain(f"fill/{number}")
        story.fact("a neighbour that a list confirmed is proved", found["metadata"]["proved"] == bool(found["metadata"].get("confirmed")), found)
    out = run([PENSTOCK, "explain", "s3://fill/3"], server.client_env())[1]
    story.fact("... the command says the same", "refused" not in out and "nothing proves that the shared identity" in out, out)
    origin.tell("match=fill/0", "status=403")
    story.same("a refusal", server.ask("GET", "fill/0", headers={"cache-control": "no-cache"}).status, 403)
    story.same("... is said", facts("fill/0"), {"proved": True, "refused": True, "unshared": False})
    out = run([PENSTOCK, "explain", "s3://fill/0"], server.client_env())[1]
    story.fact("... by the command, too", "the origin refused the object to the shared identity" in out, out)
    origin.tell("reset=rules")

    # ---- ranges beyond the end, empty and huge objects ----
    huge = f"pile/huge/size-{1 << 48}-x"
    origin.tell("match=pile/huge/* GET", "bandwidth=1000000")
    for key in ("pile/empty", "pile/small"):
        server.get(key)
        wait_for("the metadata is there", lambda: explain(key)["now"] == "hit")
    stream = Client(server.port, keep=True)
    stream.get(huge, stop_after=1000, leave="stay")    # its metadata is known while the fetch is in progress
    for key, size in (("pile/empty", 0), (huge, 1 << 48), ("pile/small", 3)):
        for last in (size, size + 9):
            found = explain(key, range=f"{size}-{last}")
            story.fact(f"{key}: bytes {size}-{last}", "416" in found["why"] and found["bytes"]["first"] == found["bytes"]["end"] and
                       server.ask("GET", key, headers={"range": f"bytes={size}-{last}"}).status == 416, found)
    for query in ({}, {"range": "-5"}):
        found = explain("pile/empty", **query)
        story.fact(f"an empty object {query}", found["now"] == "hit" and "416" not in found["why"] and
                   server.ask("GET", "pile/empty", headers={"range": "bytes=-5"} if query else {}).cache == "hit", found)
    found = explain(huge, range="0-99")
    story.fact("an object that is too large to be stored", (found["now"], found["bytes"]["end"]) == ("miss", 100) and
               "128 TiB" in found["why"] and "records" not in found["bytes"], found)
    stream.wire.abort()
    origin.tell("reset=rules")

    # ---- more records than rows ----
    wide = story.penstock(origin=origin.url, cache_size="256MiB", cache_dir=story.path("wide"), freshness="immutable")
    units = lambda first, end, step=1: [wide.get(key, unit * UNIT, unit * UNIT + 9).cache for unit in range(first, end, step)]
    key = "pile/row"
    for unit in range(300):
        units(unit, unit + 1)
        wait_for("the unit is stored", lambda: units(unit, unit + 1) == ["hit"])
    found = explain(key, wide.client)
    bytes_ = found["bytes"]
    story.same("300 records of 1,000 units: all are counted", (found["now"], bytes_["end"], bytes_["cached"], len(bytes_["records"]),
               bytes_["more_records"], "examined" in bytes_), ("partial", UNITS * UNIT, 300 * UNIT, 256, True, False))
    found = explain(key, wide.client, range=f"0-{300 * UNIT - 1}")
    story.same("... all of a range", (found["now"], found["bytes"]["cached"]), ("hit", 300 * UNIT))
    key = "pile/gaps"
    wait_for("every other unit is stored", lambda: set(units(0, 700, 2)) == {"hit"})
    found = explain(key, wide.client)
    bytes_ = found["bytes"]
    story.same("with too many gaps, explain says how far it looked", (found["now"], bytes_["end"], bytes_.get("examined"), bytes_["cached"]),
               ("partial", UNITS * UNIT, 512 * UNIT, 256 * UNIT))
    story.fact("... also in words", f"first {512 * UNIT} bytes" in found["why"], found["why"])
    env = {**wide.client_env(), "PENSTOCK_CONFIG": "/nonexistent"}
    story.fact("... by the command, too", "32.0 MiB of the first 64.0 MiB (50" in run([PENSTOCK, "explain", f"s3://{key}"], env)[1],
               run([PENSTOCK, "explain", f"s3://{key}"], env)[1][:900])
    wide.stop()

    # ---- what the rule keeps out ----
    for number in range(700):
        server.get(f"fill/{number}")
    def kept_out(number):
        server.get(f"fill/{number}")
        return explain(f"fill/{number}")["metadata"].get("not_stored", {}).get("event")

    wait_for("what comes last is not admitted", lambda: "not_admitted" in map(kept_out, range(690, 700)))

    # ---- the right ----
    lister, reader = Client(server.port, "LISTKEY", "list"), Client(server.port, "READKEY", "read")
    story.same("a client that may list", explain("pile/large", lister)["bytes"]["cached"], MIB + UNIT)
    story.same("one that may only read", explain("pile/large", reader), 403)
    story.same("another bucket", explain("fill/1", lister), 403)
    origin.tell("match=pile/ LIST", "status=403")
    story.same("the origin refuses the list", explain("pile/large"), 403)
    origin.tell("reset=rules")
    story.same("no range", [explain("pile/large", range=r) for r in ("x", "9-1", "", "0-1,3-4")], [400] * 4)
    story.same("a parameter that explain does not have", [explain("pile/large", **q) for q in ({"Range": "0-1"}, {"prefix": "a"}, {"versionId": "1"})], [400] * 3)
    for method, path in (("PUT", "pile/x"), ("POST", "pile/x"), ("HEAD", "pile/x"), ("GET", "pile")):
        story.same(f"{method} {path}", server.ask(method, path, [("penstock-explain", "")]).status, 405)
    story.same("a key that is not UTF-8", explain(b"pile/\xff")["key_url"], "%FF")
