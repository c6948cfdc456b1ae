"""penstock-explain says what a GET would do, and why, and asks the origin for no byte of the object."""
from harness import *

SMALL, LARGE, UNIT = 100_000, 3 * MIB, 128 * 1024

with Story("y05 what explain says is what happens next", seconds=90) as story:
    clock = story.clock()
    origin = story.origin(f"object=pile/small {SMALL}", f"object=pile/large {LARGE}", f"objects=fill/%d 700 {UNIT}")
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
    wait_for("it is stored", lambda: explain("pile/small")["metadata"]["stored"], 10)
    found = explain("pile/small")
    story.same("a hit", (found["now"], found["bytes"]), ("hit", {"first": 0, "end": SMALL, "cached": SMALL, "records": found["bytes"]["records"]}))
    story.same("its record", [(r["first"], r["end"], r["stored"], r["folder"]) for r in found["bytes"]["records"]], [(0, SMALL, True, 1)])
    story.fact("... with times", found["metadata"]["fresh_until"] > found["metadata"]["confirmed"], found["metadata"])
    story.same("... and so it is", both("pile/small"), ("HIT", "HIT"))

    server.get("pile/large", headers={"range": f"bytes=0-{MIB - 1}"})
    wait_for("a part is stored", lambda: explain("pile/large")["bytes"]["cached"] == MIB, 10)
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

    # ---- what the rule keeps out ----
    for number in range(700):
        server.get(f"fill/{number}")
    def kept_out(number):
        server.get(f"fill/{number}")
        return explain(f"fill/{number}")["metadata"].get("not_stored", {}).get("event")

    wait_for("what comes last is not admitted", lambda: "not_admitted" in map(kept_out, range(690, 700)), 20)

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
