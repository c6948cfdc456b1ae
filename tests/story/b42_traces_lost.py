"""A collector that is down, hangs, refuses or sends nonsense costs spans, and no request: what is lost is counted and
logged. A hostile client can't fill the queue alone."""
from urllib.parse import unquote

from authority import Authority
from collector import *

LOST = ("dropped", "failed", "rejected")


def counts(server):
    metrics = server.metrics()
    return {name: int(metrics[f'penstock_spans_total{{result="{name}"}}']) for name in ("exported", *LOST)}


def logged(server, event):
    return [line for line in (json.loads(text) for text in server.log().splitlines()) if line["event"] == event]


with Story("b42 a collector in trouble") as story:
    use_tests_daemon()    # it takes constants
    origin = story.origin("objects=bucket/k%d 60 1000")

    def daemon(**changes):
        return story.penstock(origin=origin.url, log_format="json", cache_dir=story.path(f"cache-{len(story.processes)}"), **{"traces_ratio": "1", **changes})

    def reads(server, count=1):
        """Hits after the first."""
        client = Client(server.port, keep=True)
        return [client.get("bucket/k0").status for _ in range(count)]

    # ---- nobody is there ----
    port = free_port()
    server = daemon(traces_url=f"http://127.0.0.1:{port}/v1/traces?key=secret", traces_queue=16)
    story.same("requests are answered", set(reads(server, 300)), {200})
    wait_for("the loss is logged", lambda: logged(server, "traces_lost"))
    story.same("the log says where spans go", [(line["url"], line["ratio"]) for line in logged(server, "traces")], [(f"http://127.0.0.1:{port}/v1/traces", 1)])
    line = logged(server, "traces_lost")[0]
    story.same("... with the URL and without its query", line["url"], f"http://127.0.0.1:{port}/v1/traces")
    story.fact("... the reason and what to do", "traces_url" in line["why"] and "refused" in line["why"].lower(), line)
    dropped = counts(server)["dropped"]
    story.fact("what the queue does not hold is dropped and counted", 301 - 2 * 16 - 1 <= dropped <= 301, dropped)
    story.same("... and logged once", len(logged(server, "traces_lost")), 1)
    began = time.monotonic()
    story.same("it ends cleanly", server.stop(), 0)
    story.fact("... and soon", time.monotonic() - began < PATIENCE / 2, time.monotonic() - began)

    # ---- a collector in every kind of trouble ----
    collector = Collector()
    server = daemon(traces_url=collector.endpoint, traces_headers="x-key=a%20b%2C,Authorization=Bearer%20token")

    def one(name, say, **want):
        """A request whose span meets this answer; waits until it is settled."""
        before = counts(server)
        collector.say = say
        story.same(f"{name}: the request is answered", reads(server), [200])
        wait_for(f"{name}: it is settled", lambda: all(counts(server)[n] - before[n] >= c for n, c in want.items()))
        now = counts(server)
        story.same(f"{name}: what became of the spans", {n: now[n] - before[n] for n in now if now[n] != before[n]}, want)

    reads(server)
    wait_for("the first spans have come", lambda: len(collector.spans()) == 2)
    story.same("the headers of the settings", [collector.heads[0][1].get(n) for n in ("x-key", "authorization")], ["a b,", "Bearer token"])
    said = {"asked": 0}

    def at_first(*answers):
        rest = list(answers)
        return lambda body: rest.pop(0) if rest else GOOD

    for status in (429, 502, 503, 504):
        one(f"{status} once", at_first(answer(status)), exported=1)
    one("a 503 with Retry-After", at_first(answer(503, b"", "Retry-After: 1")), exported=1)
    one("nonsense once", at_first(b"\x00\xff no HTTP\r\n\r\n"), exported=1)
    one("an answer that is cut", at_first(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), exported=1)
    one("no answer", at_first(b""), exported=1)
    asked = collector.asked
    for status in (400, 401, 404, 413, 500):
        one(f"a {status}", at_first(answer(status)), failed=1)
    one("a redirect", at_first(answer(307, b"", f"Location: {collector.url}/elsewhere")), failed=1)
    one("an endless answer", at_first(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 100000), failed=1)
    story.same("what is refused for good is sent once", collector.asked - asked, 7)
    one("a part is rejected", at_first(answer(200, b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too \\"old\\""}}')), rejected=1)
    one("a body that is no JSON", at_first(answer(200, b"<html>")), exported=1)
    story.same("this trouble had one line, and its end one for each time", (len(logged(server, "traces_lost")) >= 1, len(logged(server, "traces_exported_again")) >= 1), (True, True))

    # ---- one that hangs ----
    collector.say = lambda body: None
    asked = collector.asked
    story.same("a collector that hangs: requests are answered", set(reads(server, 50)), {200})
    wait_for("it hangs", lambda: collector.asked > asked)
    began = time.monotonic()
    story.same("the daemon ends cleanly", server.stop(), 0)
    story.fact("... after the seconds it may take", time.monotonic() - began < PATIENCE / 2, time.monotonic() - began)
    collector.leave.set()

    # ---- clients that ask for each request to be recorded ----
    collector = Collector()
    server = daemon(traces_url=collector.endpoint, traces_ratio="0", traces_rate=5)
    client = Client(server.port, keep=True)
    story.same("400 requests with the flag", {client.get("bucket/k0", headers=new_trace()[1]).status for _ in range(400)}, {200})
    limited = server.metric("penstock_traces_limited_total")
    story.fact("most of them are not recorded, and counted", 0 < limited < 400, limited)
    server.stop()
    requests = [s for s in collector.spans() if s.kind == SERVER]
    story.same("the others are", len(requests), 400 - limited)

    # ---- https ----
    ours, theirs = Authority(story, "ours"), Authority(story, "theirs")
    good, bad = Collector(ours.sign("good")), Collector(theirs.sign("bad"))
    server = daemon(traces_url=good.endpoint, origin_ca_file=ours.file)
    reads(server)
    story.same("a stop sends what is left, over https", (server.stop(), len(good.spans())), (0, 2))
    server = daemon(traces_url=bad.endpoint, origin_ca_file=ours.file)
    reads(server)
    wait_for("a wrong certificate is logged", lambda: logged(server, "traces_lost"))
    story.fact("... as that", "certificate" in logged(server, "traces_lost")[0]["why"].lower(), logged(server, "traces_lost"))
    server.stop()
    story.same("... and nothing was sent", bad.heads, [])

    # ---- settings ----
    config = story.path("wrong.json")

    def check_settings(**changes):
        with open(config, "w") as f:
            json.dump(story.settings(origin=origin.url, cache_dir=story.path("cache-none"), **changes), f)
        status, out, err = run([PENSTOCK, "check", "--offline", "--config", config])
        return status, out + err

    for changes, part in (({"traces_url": "localhost:4318"}, "must begin with http://"), ({"traces_url": "http://u:p@h/v1/traces"}, "must not have a user"),
                          ({"traces_url": "http:///v1/traces"}, "host name"), ({"traces_url": "http://h:x/"}, "port"), ({"traces_url": "http://h:99999/"}, "65535"),
                          ({"traces_url": "http://h/", "traces_ratio": "1.5"}, "from 0 to 1"), ({"traces_url": "http://h/", "traces_ratio": "1%"}, "from 0 to 1"),
                          ({"traces_headers": "a=b"}, "traces_url is not set"), ({"traces_url": "http://h/", "traces_headers": "a"}, "pair number 1"),
                          ({"traces_url": "http://h/", "traces_headers": "a=b,Host=x"}, "pair number 2"), ({"traces_url": "http://h/", "traces_headers": "a=%4"}, "pair number 1")):
        status, text = check_settings(**changes)
        story.fact(f"{changes} is a mistake", status != 0 and part in unquote(text), text)
    status, text = check_settings(traces_url="http://other.example/v1/traces", traces_headers="key=secretvalue")
    story.fact("a key on plain http is warned of", "plain http" in text and "secretvalue" not in text, text)
