"""A client with an origin identity of its own needs a list of the origin for ls, du and explain. An origin that is
slow, or that lists in an odd way, costs an answer that says so, and never the requests of others."""
from harness import *

KEYS = ["0000", "1500", "2499"]

with Story("y12 lists of an origin that is slow or odd", seconds=60) as story:
    clock = story.clock()
    origin = story.origin("objects=pile/%04d 2500 10", "objects=other/%d 3 10")
    names = [f"{letter}KEY" for letter in "ABCDE"]
    keys = [{"access_key": name, "secret_key": name.lower(), "origin_access_key": "O" + name, "origin_secret_key": "o"} for name in names]
    server = story.penstock(origin=origin.url, cache_size="64MiB", keys=keys, freshness="immutable", grant_time="1d", permission_time="1d")
    clients = [Client(server.port, name, name.lower()) for name in names]
    a, b = clients[:2]
    shared = server.client

    def ask(what, client=a, path="pile", **query):
        reply = client.ask("GET", path, query=[(f"penstock-{what}", "")] + [(n.replace("_", "-"), str(v)) for n, v in query.items()])
        if reply.status != 200:
            return reply.status, reply.body.decode()
        rows = [json.loads(line) for line in reply.body.splitlines()]
        return rows[:-1], rows[-1]

    def keys_of(**query):
        rows, end = ask("ls", **query)
        return [row["key"] for row in rows] if isinstance(rows, list) else rows

    def objects(**query):
        rows, end = ask("du", **query)
        return ([row["objects"] for row in rows], end.get("list_cut", False), end["complete"]) if isinstance(rows, list) else rows

    def refused(found, status, words):
        return found[0] == status and words in found[1]

    def page():
        rows, end = ask("ls", max_keys=2500)
        return ([row["key"] for row in rows], end["next"]) if isinstance(rows, list) else rows

    for key in KEYS:
        wait_for("it is cached", lambda: a.get(f"pile/{key}").cache == "hit")
        story.same("B may read it", b.get(f"pile/{key}").status, 200)

    # ---- pages without keys ----
    def rules(*lines):
        origin.tell("reset=rules", *lines)

    rules("match=pile/ LIST", "empty_page=1", "times=3")
    story.same("ls goes on after pages without keys", keys_of(max_keys=2500), KEYS)
    rules("match=pile/ LIST", "empty_page=1", "times=3")
    story.same("... du, too", objects(), ([3], False, True))
    rules("match=pile/ LIST", "empty_page=1", "times=3")
    story.same("... and explain", ask("explain", path="pile/1500")[-1]["now"], "hit")
    rules("match=pile/ LIST", "empty_page=1")
    origin.counts()
    for what, path in (("ls", "pile"), ("du", "pile"), ("explain", "pile/1500")):
        before = origin.totals()["list"]
        found = ask(what, path=path)
        story.fact(f"{what} ends if no key ever comes", refused(found, 504, "no key"), found)
        story.same("... after 1000 pages", origin.totals()["list"] - before, 1000)
    rules("match=pile/ LIST", "empty_page=1", "match=pile/ LIST", "empty_page=0", "times=1")
    story.same("du has the keys that came before", objects(), ([1], True, False))
    rules("match=pile/ LIST", "empty_page=1", "match=pile/ LIST", "empty_page=0", "times=1")
    story.same("... ls, too, and the next page comes after them", page(), (["0000"], "0999"))

    # ---- an origin that lists again what it has listed ----
    rules("match=pile/ LIST", "ignore_after=1")
    story.same("a first page is right", keys_of(max_keys=1000), ["0000"])
    found = ask("ls", marker="0999")
    story.fact("an origin that ignores start-after", refused(found, 502, "start-after"), found)
    found = ask("ls", marker="0000")
    story.fact("... and begins with the marker itself", refused(found, 502, "start-after"), found)
    found = ask("du")
    story.fact("an origin that ignores continuation-token", refused(found, 502, "continuation-token"), found)
    rules()
    story.same("... once it goes on, all is well", (keys_of(marker="0999", max_keys=2000), objects()), (["1500", "2499"], ([3], False, True)))

    # ---- an origin that does not answer ----
    def meanwhile(work, count, *lines):
        """Runs `work` in a thread while the origin does as told, until `count` lists wait there. Returns how to end it."""
        rules(*lines)
        results = []
        thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
        thread.start()
        wait_for("the lists wait", lambda: origin.totals()["requests_open"] == count)

        def end():
            clock.ahead(100)
            thread.join(PATIENCE)
            origin.quiet()
            return results[0] if results else None
        return end

    HANG = ("match=pile/ LIST", "hang=1")
    end = meanwhile(lambda: ask("du"), 1, *HANG)
    before = server.metric("penstock_walks_limited_total")
    for what, query in (("du", {}), ("ls", {"max_keys": 1001})):
        found = ask(what, path="other", **query)
        story.fact(f"while A waits for a long list, a second one is refused: {what}", refused(found, 503, "at most 1 for each identity"), found)
    story.same("... and counted", server.metric("penstock_walks_limited_total") - before, 2)
    story.same("B is served", ask("du", b, "other")[0], [])
    for name, client in (("B", b), ("the shared identity", shared)):    # a large page counts until its answer was sent
        wait_for(f"{name} gets a large page", lambda: ask("ls", client, "other", max_keys=5000)[0] == [])
    story.same("... and A's own short lists", ask("ls", path="other")[1]["complete"], True)
    found = end()
    story.fact("the list ends when its time is over", refused(found, 504, "ask for a longer one"), found)

    end = meanwhile(lambda: together(*[lambda client=client: ask("du", client) for client in clients[:4]]), 4, *HANG)
    found = ask("du", clients[4], "other")
    story.fact("four long lists at a time", refused(found, 503, "at most 4"), found)
    story.same("... each ends", [status for status, _ in end()], [504] * 4)
    story.same("... and makes place", ask("du", clients[4], "other")[1]["complete"], True)

    for what, client, path in (("ls", a, "pile"), ("explain", a, "pile/1500"), ("ls", shared, "pile"), ("explain", shared, "pile/1500")):
        end = meanwhile(lambda: ask(what, client, path), 1, *HANG)
        story.same(f"{what} ends, too", end()[0], 504)
    end = meanwhile(objects, 1, *HANG, "match=pile/ LIST", "hang=0", "times=1")
    story.same("du has the keys that came in time", end(), ([1], True, False))
    end = meanwhile(page, 1, *HANG, "match=pile/ LIST", "hang=0", "times=1")
    story.same("... ls, too", end(), (["0000"], "0999"))

    # ---- a client that may not list at all ----
    end = meanwhile(lambda: together(*[lambda: ask("ls")] * 16), 16, "match=pile/ LIST", "as=OAKEY", "hang=1", "match=other/ LIST", "as=OAKEY",
                    "status=403")
    story.same("A has half of the places while it waits", ask("ls", path="other")[0], 503)
    others = [shared.ask(method, "pile", [(f"penstock-{what}", ""), ("prefix", "1"), *more]).status
              for method, what, *more in (("POST", "pin"), ("POST", "unpin"), ("GET", "ls"), ("POST", "purge", ("dry-run", "")))]
    story.same("the others go on: pin, unpin, ls and a dry run", others, [200] * 4)
    story.same("... each of A's ends", [status for status, _ in end()], [504] * 16)
    rules()
    story.same("at last", (keys_of(max_keys=5000), objects()), (KEYS, ([3], False, True)))
