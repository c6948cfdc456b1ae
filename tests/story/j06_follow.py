"""A job of mode follow: its list says in which order a client will read. Penstock keeps a window ahead of the reads, and no
more. The report says what was read."""
from jobs import *

SIZE, COUNT, WINDOW = 256 * 1024, 600, 16 * MIB
KEYS = [{"access_key": name, "secret_key": name.lower(), "policy": [{"allow": rights, "on": ["pile"]}]}
        for name, rights in (("READER", ["read", "list", "cache"]), ("OTHER", ["read", "list"]))]

with Story("j06 a job that follows its readers", seconds=180) as story:
    origin = story.origin(f"objects=pile/%d {COUNT} {SIZE}", "objects=pile/other-%d 100 1000")
    server = story.penstock(origin=origin.url, cache_size="1GiB", freshness="immutable", keys=KEYS)
    client, other = (Client(server.port, key["access_key"], key["secret_key"]) for key in KEYS)
    jobs = Jobs(client)
    order = story.random.sample(range(COUNT), COUNT)

    def follow(items, window=WINDOW, jobs=jobs):
        return jobs.start(mode="follow", keys=[], window=window, lines=[i if isinstance(i, list) else f"{i}" for i in items])

    def read(numbers, client=client, pace=0.005):
        return read_objects(client, numbers, SIZE, pace)

    def purge():
        story.same("(purged)", client.ask("POST", "pile", [("penstock-purge", ""), ("prefix", "")]).status, 200)
        origin.reset()

    # ---- a window ahead, and no more ----
    id = follow(order)
    ahead = rests(origin)
    story.fact("it brings about the window", 0.8 * WINDOW <= ahead <= 1.5 * WINDOW, ahead / MIB)
    report = jobs.report(id)
    story.same("the report has its mode and window", (report["mode"], report["window"], report["state"], report["read"]), ("follow", WINDOW, "running", 0))
    story.fact("... and says why it waits", "readers" in report.get("waits", ""), report)
    hits = read(order[:200])
    story.fact("the objects are there before they are read", hits >= 150, hits)    # without the job: 64
    brought = rests(origin)
    story.fact("it stays ahead of the reader", 200 * SIZE + 0.8 * WINDOW <= brought <= 200 * SIZE + 1.5 * WINDOW, brought / MIB)
    read(order[200:590])
    rests(origin)
    report = jobs.report(id)
    story.same("when all is brought, it still counts what is read", (report["state"], report["objects"], report["read"]), ("running", COUNT, 590))
    story.fact("... and says that it waits for the last reads", report.get("waits", "").startswith("All objects are there"), report)
    read(order[590:])
    report = jobs.ended(id)
    story.same("it ends with the last read", (report["state"], report["objects"], report["read"], report["failed"], report["unread_bytes"]), ("done", COUNT, COUNT, 0, 0))
    story.same("each object is a hit, fetched, or was read before", report["hits"] + report["fetched"] + report["skipped"], COUNT)
    story.same("each object came once", origin.totals()["bytes"], COUNT * SIZE)

    # ---- a reader that does not wait after the answer of 202 ----
    reports = []
    for _ in range(40):
        id = follow(order[:8])
        read(order[:8], pace=0)
        reports.append((id, jobs.ended(id)["read"]))
    story.same("reads right after the answer count", [read for _, read in reports if read != 8], [])

    # ---- reads of others, of other keys, and HEADs, are none of the list ----
    purge()
    id = follow(order)
    ahead = rests(origin)
    read(order[:30], other, 0)
    for n in range(100):
        client.ask("GET", f"pile/other-{n}")
        client.ask("HEAD", f"pile/{order[n]}")
    story.fact("reads of another client and of other keys, and HEADs, move nothing", rests(origin) <= ahead + 100 * 1000, rests(origin) / MIB)
    story.same("... nor do they count", jobs.report(id)["read"], 0)
    story.same("another client does not find the job", Jobs(other).read(id).status, 404)

    # ---- two jobs of one client: one of them for items with offsets ----
    spans = follow([[f"{n}", 100_000, 5000] for n in reversed(order)], window=1 * MIB)
    rests(origin)
    read(order[:50])
    for n in order[:-21:-1]:
        client.ask("GET", f"pile/{n}", headers={"range": "bytes=100000-104999"})
    found = wait_for("both count their reads", lambda: (r := [jobs.report(one)["read"] for one in (id, spans)]) == [50, 20] and r, 10)
    story.same("each of two jobs counts the reads of its own items", found, [50, 20])
    story.same("a batch is a read, too", client.ask("POST", "pile", [("penstock-batch", "")], body=json.dumps({"items": [f"{n}" for n in order[50:60]]}).encode()).status, 200)
    wait_for("the batch's items count", lambda: jobs.report(id)["read"] == 60, 10)
    for one in (id, spans):
        story.same("a job can be canceled", (jobs.ask("DELETE", one).status, jobs.report(one)["state"]), (204, "canceled"))

    # ---- refusals ----
    for body, word in (({"mode": "follow", "prefix": ""}, "needs &quot;keys&quot;"), ({"mode": "warm", "keys": ["1"], "window": 5}, "only a job with"),
                       *(({"mode": "follow", "keys": ["1"], "window": wrong}, "whole number of bytes") for wrong in (0, -1, -2 ** 63, "2GiB", 1.5, None, [], True)),
                       (b'{"mode": "follow", "keys": ["1"], "window": 9223372036854775808}', "number is too large"),
                       ({"mode": "follow", "keys": ["1"], "ranges": ["bytes=0-5"]}, "offset and a length of its own"),
                       ({"mode": "follow", "keys": []}, "no keys"),
                       *(({"mode": wrong, "keys": ["1"]}, "warm&quot; or &quot;follow") for wrong in ("fast", "", "FOLLOW", 1, None))):
        status, code, text = jobs.refused(body)
        story.fact(f"{body} is refused, and why is said", status == 400 and word in text, (status, text))
    story.same("a huge window is none of the list's business", jobs.known("POST", body=b'{"mode": "follow", "keys": ["1"], "window": 9223372036854775807}').status, 202)
    story.same("the daemon ends cleanly", server.stop(), 0)
