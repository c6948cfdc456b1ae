"""Lists that are alike are one call to the origin, and never older than a write through us."""
from harness import *

with Story("l01 lists are shared while they are alike and nothing is written") as story:
    origin = story.origin("objects=bucket/a/%03d 20 100", "objects=other/a/%d 3 100")
    server = story.penstock(origin=origin.url, memory_lists="1MiB")
    direct = Client(origin.port, ORIGIN_KEY, ORIGIN_SECRET)

    def lists():
        return origin.counts()["list"]

    def names(reply):
        return re.findall(rb"<Key>([^<]*)</Key>", reply.body)

    want = direct.list("bucket", prefix="a/")
    origin.tell("match=bucket/ LIST", "first_byte_ms=700")
    origin.reset()
    crowd = together(*[lambda: server.list("bucket", prefix="a/")] * 50)
    story.fact("50 clients list at once: each gets what the origin says, byte for byte",
               all(r.status == 200 and r.body == want.body for r in crowd), crowd[0])
    ours = {"x-amz-request-id", "x-amz-id-2", "date", "server", "connection"}
    story.same("... with its headers", {n: v for n, v in crowd[0].headers.items() if n not in ours},
               {n: v for n, v in want.headers.items() if n not in ours})
    story.same("... which was asked once", lists(), 1)
    story.same("... and again when that is over",
               (server.list("bucket", prefix="a/").status, lists()), (200, 2))
    origin.reset()
    together(lambda: server.list("bucket", prefix="a/"), lambda: server.list("bucket"),
             lambda: server.list("bucket", prefix="a/", max_keys=3), lambda: server.list("other"))
    story.same("four lists that differ are four", lists(), 4)

    origin.tell("reset=rules", "match=bucket/ LIST", "status=404", "times=1")
    gone = server.list("bucket", prefix="gone/")
    story.same("a refusal names the request as its header does", (gone.status, re.findall(rb"<RequestId>([^<]*)<", gone.body)),
               (404, [gone.headers["x-amz-request-id"].encode()]))

    # a list that began before a PUT was over, and comes after it
    origin.tell("reset=rules", "match=bucket/ LIST", "late_ms=4000", "times=1")
    early = []

    def writes():
        wait_for("a list is under way", lambda: origin.totals()["requests_open"] > 0)
        story.same("amid it a PUT is acknowledged", server.put("bucket/a/new", b"x").status, 200)
        story.fact("... and a list that comes after shows it, asked anew",
                   b"a/new" in names(server.list("bucket", prefix="a/")))
        story.fact("... before the first is over", not early)
    together(lambda: early.append(server.list("bucket", prefix="a/")), writes)
    story.fact("the first shows what was there when it was asked", b"a/new" not in names(early[0]))

    # answers used again
    server = server.restart(list_time="60s")
    origin.reset()
    replies = [server.list("bucket", prefix="a/") for _ in range(5)]
    story.same("with list_time, five lists are one", (lists(), [r.cache for r in replies]), (1, [""] + ["hit"] * 4))
    story.fact("... all the same", all(r.body == replies[0].body for r in replies))
    for what, write in (("PUT", lambda: server.put("bucket/a/2", b"x")), ("DELETE", lambda: server.delete("bucket/a/2")),
                        ("creation of an upload", lambda: server.ask("POST", "bucket/a/3", [("uploads", "")])),
                        ("change of the bucket", lambda: server.ask("PUT", "bucket", [("versioning", "")], body=b"<x/>"))):
        before = lists()
        server.list("bucket", prefix="a/")
        write()
        after = server.list("bucket", prefix="a/")
        story.same(f"a {what} through us ends that", (after.cache, lists() - before >= 1), ("", True))
        story.same("... for what it shows", b"a/2" in names(after), what == "PUT")
    before = lists()
    server.list("bucket", prefix="a/")
    server.ask("GET", "bucket", [("list-type", "2"), ("prefix", "a/")], headers={"cache-control": "no-cache"})
    story.same("no-cache asks the origin", lists() - before, 1)
    story.fact("it is counted", server.metrics()['penstock_cache_lists_total{result="reused"}'] >= 5)

    # who asks in a name of their own shares with nobody else
    teams = {"TEAMA": "a/secret", "TEAMB": "b/secret"}
    own = story.penstock(origin=origin.url, cache_dir=story.path("own"), list_time="60s", access_key=None, secret_key=None,
                         keys=[{"access_key": key, "secret_key": secret} for key, secret in teams.items()])
    clients = [Client(own.port, *team) for team in teams.items() for _ in range(5)]
    origin.tell("reset=rules", "match=bucket/ LIST", "first_byte_ms=500")
    before = lists()
    story.same("ten lists of two identities", [r.status for r in together(*[lambda c=c: c.list("bucket") for c in clients])],
               [200] * 10)
    story.same("... are two calls", lists() - before, 2)
    origin.calm()

    # what is larger than there is memory for comes all the same
    origin.tell("objects=bucket/long/" + "k" * 900 + "%04d 1000 1")
    large = server.list("bucket", prefix="long/")
    story.same("a list that memory_lists has no room for is passed", (large.status, len(names(large))), (200, 1000))
    story.fact("... and counted", server.metric("penstock_cache_lists_unshared_total") >= 1)

    # many who are slow at one list cost its bytes once; what the kernel holds of eight is not ours
    crowded = story.penstock(origin=origin.url, cache_dir=story.path("crowded"), list_time="60s")

    def anon_mib():
        with open(f"/proc/{crowded.pid}/status") as f:
            return int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1)) / 1024
    crowded.list("bucket", prefix="long/")
    before, wires = anon_mib(), []
    for _ in range(100):
        wires.append(Wire(crowded.port, 60, receive_buffer=4096))
        wires[-1].send(8 * crowded.client.head_of("GET", "bucket", [("list-type", "2"), ("prefix", "long/")]))
    time.sleep(1)
    story.fact("100 who do not read a list of 1 MiB: at most 30 MiB", anon_mib() - before <= 30, f"{anon_mib() - before:.1f} MiB")
    replies = together(*(wire.read for wire in wires[50:]))
    for wire in wires:
        wire.abort()
    story.fact("... those who do get it whole", all(r.status == 200 and r.body == large.body for r in replies), replies[0])
