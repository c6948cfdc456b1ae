"""A job brings the objects of a prefix, or of a list, into the cache. Its report has what the origin's log has."""
from jobs import *

SIZE = 300_000
KEYS = [f"{d}/{i:04d}" for d in ("a", "b") for i in range(40)] + ["odd/sp ace é", "odd/%41+b", "empty/none"]
REFUSED = {"status": 400, "code": "InvalidArgument"}

with Story("j01 a job warms a prefix or a list", seconds=120) as story:
    origin = story.origin(*(f"object=pile/{key} {0 if key.startswith('empty') else SIZE}" for key in KEYS),
                          "objects=many/%06d 2500 100", "object=pile/large/one 7000000")    # of more than 8 MiB, parts may come at once
    keys = [{"access_key": name, "secret_key": name.lower(), "policy": policy} for name, policy in (
        ("ALLKEY", "all"), ("OTHERKEY", [{"allow": ["read", "list"], "on": ["pile/a/"]}]),
        ("READKEY", [{"allow": ["read"], "on": ["pile/"]}]), ("CACHEKEY", [{"allow": ["cache"], "on": ["pile"]}]),
        ("ELSEWHEREKEY", [{"allow": ["read", "list", "cache"], "on": ["many"]}]))]
    keys.append({"access_key": "OWNKEY", "secret_key": "ownkey", "origin_access_key": "OOWN", "origin_secret_key": "o"})
    keys.append({"anonymous": True, "policy": [{"allow": ["read", "list"]}]})
    server = story.penstock(origin=origin.url, cache_size="256MiB", freshness="immutable", keys=keys)

    def jobs_of(name, bucket="pile"):
        return Jobs(Client(server.port, name, name.lower()), bucket)

    jobs, other, reader, manager, own = map(jobs_of, ("ALLKEY", "OTHERKEY", "READKEY", "CACHEKEY", "OWNKEY"))

    # ---- a prefix ----
    origin.reset()
    report = jobs.run(prefix="a/")
    story.same("a job fetches each object of its prefix", (report["state"], *sums(report)), ("done", 40, 0, 40, 0, 0))
    story.same("... and reports their bytes", (report["bytes"], report["origin_bytes"]), (40 * SIZE, 40 * SIZE))
    story.same("the origin has seen a GET of each, and one list", (lambda t: (t["get"], t["head"], t["list"], t["bytes"] >= 40 * SIZE))(origin.totals()),
               (40, 0, 1, True))
    status = json.loads(plain(server.admin_port, "GET", "/status").body)
    story.same("/status has the report, too", status["jobs"], [{n: v for n, v in report.items() if n != "failures"}])
    client = jobs.client
    story.same("then each read is a hit", {client.get("pile/" + key).cache for key in KEYS[:40]}, {"hit"})
    story.fact("... with the right bytes", all(client.get("pile/" + key).body == expect("pile/" + key, 1, 0, SIZE) for key in KEYS[:3]))
    origin.reset()
    report = jobs.run(prefix="")
    story.same("what is here is a hit", sums(report), (len(KEYS) + 1, 40, len(KEYS) + 1 - 40, 0, 0))
    large = origin.counts("pile/large/one")    # on a busy machine it may come in parts
    gets = origin.totals()["get"]
    story.same("... and costs the origin nothing", (gets - large["get"], twice(large["spans"])), (len(KEYS) - 40, 0))
    report = jobs.run(prefix="")
    story.same("a second job finds all", sums(report)[1:4], (len(KEYS) + 1, 0, 0))
    story.same("... without a request for an object", origin.totals()["get"], gets)
    story.same("a prefix without a key", (lambda r: (r["state"], *sums(r)))(jobs.run(prefix="none/")), ("done", 0, 0, 0, 0, 0))

    # ---- a list ----
    report = jobs.run(keys=["odd/sp ace é", "nope", ["a/0001", 0, 10], {"key": "a/0002", "offset": SIZE + 1, "length": 5}, "nope"], mode="warm", pin=False)
    story.same("keys, spans and missing keys", (report["state"], report["listed"], *sums(report)), ("done", 5, 5, 2, 0, 3, 0))
    story.same("... failures have key and code", [(f["key"], f["code"], f["status"]) for f in report["failures"]],
               [("nope", "NoSuchKey", 404), ("a/0002", "InvalidRange", 416), ("nope", "NoSuchKey", 404)])
    origin.reset()
    many = jobs_of("ALLKEY", "many")
    report = many.run(keys=[], lines=[f"{i:06d}" for i in range(2500)] + [["000001", 5, 5]])
    story.same("items on lines", (report["listed"], *sums(report)), (2501, 2501, 1, 2500, 0, 0))
    story.same("... each fetched once", origin.totals()["get"], 2500)
    story.same("purge", client.ask("POST", "pile", [("penstock-purge", ""), ("prefix", "")]).status, 200)
    origin.reset()
    report = jobs.run(prefix="large/", ranges=["bytes=0-9", "bytes=-10", "bytes=99999999-"])
    story.same("ranges", (*sums(report), report["bytes"]), (1, 0, 1, 0, 0, 20))
    story.fact("... bring their units alone", 0 < origin.totals()["bytes"] < 600_000, origin.totals())
    story.same("... which are hits then", client.get("pile/large/one", 6999990, 6999999).cache, "hit")

    # ---- whose jobs ----
    id = other.start(prefix="a/")
    story.same("a client may list its prefix", other.ended(id)["state"], "done")
    story.same("... and no other", [other.refused({"prefix": p})[:2] for p in ("", "b/", "a")], [(403, "AccessDenied")] * 3)
    story.same("a client that may only read has no prefix", reader.refused({"prefix": "a/"})[:2], (403, "AccessDenied"))
    story.same("... but a list", sums(reader.run(keys=["a/0001"]))[:4], (1, 1, 0, 0))
    report = other.run(keys=["a/0001", "b/0001"])
    story.same("each item is judged", (sums(report), report["failures"]), ((2, 1, 0, 1, 0), [{"key": "b/0001", "code": "AccessDenied", "status": 403}]))
    story.same("the right cache starts no job", manager.refused({"prefix": "a/"})[:2], (403, "AccessDenied"))
    story.same("another client sees nothing", (reader.ask("GET", id).status, reader.ask("DELETE", id).status), (404, 404))
    story.same("... in the list, either", [r["access_key"] for r in reader.list()], ["READKEY"])
    story.same("the right cache sees all", (manager.report(id)["access_key"], len(manager.list())), ("OTHERKEY", len(jobs.list())))
    story.same("... of its bucket", (jobs_of("ELSEWHEREKEY").ask("GET").status, jobs_of("ELSEWHEREKEY", "many").ask("GET", id).status), (403, 404))
    story.same("the anonymous client has no jobs", [(r := Client(server.port).ask(m, "pile", [("penstock-job", "")], body=b"{}" if m == "POST" else b"", sign_it=False)).status
                                                   for m in ("POST", "GET", "DELETE")], [403] * 3)
    origin.tell("match=pile/b/* GET", "as=OOWN", "status=403")
    report = own.run(prefix="b/000")
    story.same("a client with its own identity: the origin decides", (report["state"], *sums(report)), ("done", 10, 0, 0, 10, 0))
    origin.tell("match=pile/ LIST", "as=OOWN", "status=403")
    report = own.run(prefix="b/")
    story.same("... about the list, too", (report["state"], report["objects"]), ("refused", 0))
    origin.calm()

    # ---- bad requests ----
    for body, word in (({}, "prefix"), ({"prefix": "a", "keys": []}, "both"), ({"keys": []}, "no keys"), ({"prefx": "a"}, "prefx"), (b"", "JSON"),
                       (b'{"prefix": "a/"}\n"b"', "keys"), (b'{"keys": []}\n"a"\n7\n', "item 3"), ({"prefix": "a", "mode": "fast"}, "warm"),
                       (b'{"keys": []}\n"' + b"k" * 300_000 + b'"', "too long")):
        got = jobs.refused(body)
        story.fact(f"refused: {str(body)[:50]}", got[:2] == (400, "InvalidArgument") and word in got[2], got)
    story.same("a pin needs the right cache", other.refused({"prefix": "a/", "pin": True})[:2], (403, "AccessDenied"))
    story.same("... and a prefix", jobs.refused({"keys": ["a"], "pin": True})[:2], (400, "InvalidArgument"))
    story.same("a job that pins", sums(jobs.run(prefix="a/", pin=True))[:1], (40,))
    pinned = json.loads(client.ask("GET", "pile", [("penstock-pin", ""), ("prefix", "a/")]).body.splitlines()[0])
    story.same("... all of its objects", (pinned["prefix"], pinned["objects"], pinned["pinned_bytes"] >= 40 * SIZE), ("a/", 40, True))
    story.same("an unknown id", [jobs.ask(m, i).status for m in ("GET", "DELETE") for i in ("0" * 16, "x", "0" * 15)], [404] * 6)
    story.same("a body where none belongs", client.ask("GET", "pile", [("penstock-job", "")], body=b"x").status, 400)
    story.same("a parameter that it does not have", client.ask("GET", "pile", [("penstock-job", ""), ("prefix", "a")]).status, 400)
    story.same("POST takes no id", jobs.ask("POST", id, b"{}").status, 400)
    story.same("other methods and places", [client.ask(m, p, [("penstock-job", "")]).status for m, p in (("PUT", "pile"), ("GET", "pile/x"), ("HEAD", "pile"))],
               [405] * 3)
    origin.tell("match=gone/ LIST", "status=404")
    gone = jobs_of("ALLKEY", "gone").run(prefix="")
    story.same("a bucket that does not exist", (gone["state"], gone["objects"]), ("failed", 0))

    # ---- the end ----
    origin.tell("match=pile/b/* GET", "first_byte_ms=60000")
    story.same("purge", client.ask("POST", "pile", [("penstock-purge", ""), ("prefix", "b/")]).status, 200)
    id = jobs.start(prefix="b/")
    report = wait_for("its keys are counted", lambda: "total_objects" in (r := jobs.report(id)) and r)
    story.same("it runs, and knows how long it is", (report["state"], server.metric("penstock_jobs"), report["total_objects"], report["total_bytes"]),
               ("running", 1, 40, 40 * SIZE))
    story.same("DELETE ends it", (jobs.ask("DELETE", id).status, jobs.report(id)["state"]), (204, "canceled"))
    story.same("... again: nothing more", (jobs.ask("DELETE", id).status, jobs.report(id)["state"], server.metric("penstock_jobs")), (204, "canceled", 0))
    origin.calm()
    before = {r["id"]: r for r in jobs.list()}
    server = server.restart()
    jobs = jobs_of("ALLKEY")
    wait_for("reports outlive a restart", lambda: {r["id"]: r for r in jobs.list()} == before)
