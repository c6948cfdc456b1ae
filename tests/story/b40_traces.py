"""Traces: a client's traceparent reaches the origin and the log, and the spans of a recorded request come to a collector:
one of the request, and one of each call to the origin, with the right parents and links."""
from batches import ask as ask_batch
from collector import *
from recorder import Recorder

STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"


def of_origin(recorder, method="GET"):
    fields = recorder.last(method)
    return read_parent(fields["traceparent"]), fields.get("tracestate")


def lines(server, event="request"):
    found = [line for line in (json.loads(text) for text in server.log().splitlines()) if line["event"] == event]
    return {line["id"]: line for line in found}


with Story("b40 traces") as story:
    origin = story.origin("objects=bucket/k%d 60 1000", "object=bucket/large 20000000")
    recorder, collector = Recorder(origin.port), Collector()

    def daemon(**changes):
        return story.penstock(origin=recorder.url, log_format="json", loops=1, cache_dir=story.path(f"cache-{len(story.processes)}"), **changes)

    # ---- without a collector: the headers go on as they came ----
    server = daemon()
    ids, header = new_trace()
    reply = server.get("bucket/k0", headers={**header, "tracestate": STATE})
    story.same("a miss", reply.cache, "miss")
    story.same("off: the origin gets the client's context", of_origin(recorder), (ids, STATE))
    story.same("... unsigned", [name for name in ("traceparent", "tracestate") if name in recorder.last("GET")["authorization"]], [])
    story.same("... and the line has the trace", lines(server)[reply.headers["x-amz-request-id"]].get("trace_id"), ids.trace)
    reply = server.get("bucket/k1")
    story.same("without a header there is none", ("traceparent" in recorder.last("GET"), "tracestate" in recorder.last("GET")), (False, False))
    story.same("... and no trace in the line", "trace_id" in lines(server)[reply.headers["x-amz-request-id"]], False)
    for i, wrong in enumerate(("garbage", header["traceparent"].upper(), "ff" + header["traceparent"][2:], header["traceparent"] + "-x", "", "00-" + "0" * 32 + "-" + "1" * 16 + "-01")):
        reply = server.get(f"bucket/k{2 + i}", headers={"traceparent": wrong, "tracestate": STATE})
        story.same(f"{wrong!r} counts as absent", (reply.status, "traceparent" in recorder.last("GET"), "tracestate" in recorder.last("GET"),
                                                  "trace_id" in lines(server)[reply.headers["x-amz-request-id"]]), (200, False, False, False))
    wire = Wire(server.port)
    wire.send(server.client.head_of("GET", "bucket/k9")[:-2] + f"traceparent: {header['traceparent']}\r\n".encode() * 2 + b"\r\n")
    story.same("two of them count as none", (wire.read().status, "traceparent" in recorder.last("GET")), (200, False))
    reply = server.get("bucket/k10", headers={**header, "tracestate": "no state"})
    story.same("a wrong tracestate is left out alone", of_origin(recorder), (ids, None))
    wire = Wire(server.port)
    wire.send(server.client.head_of("GET", "bucket/k11", headers=header).replace(b"\r\n\r\n", b"\r\ntracestate: a=1\r\ntracestate: b=2\r\n\r\n"))
    story.same("two of tracestate are joined", (wire.read().status, of_origin(recorder)), (200, (ids, "a=1,b=2")))
    story.same("a later version is read, and sent on as ours", (server.get("bucket/k12", headers={"traceparent": "cc" + header["traceparent"][2:] + "-more"}).status,
                                                              of_origin(recorder)), (200, (ids, None)))
    for method, reply in (("PUT", server.put("bucket/p", b"x", {**header, "tracestate": STATE})), ("GET", server.ask("GET", "bucket", [("acl", "")], {**header, "tracestate": STATE}))):
        story.same(f"a {method} that passes the cache has it, too", of_origin(recorder, method), (ids, STATE))
    story.same("no thread of traces runs", "traces" in server.threads().values(), False)
    server.stop()

    # ---- with a collector ----
    server = daemon(traces_url=collector.endpoint, traces_ratio="0")
    story.fact("its thread has a name", "traces" in server.threads().values(), server.threads())
    miss, header = new_trace()
    reply = server.get("bucket/k0", headers={**header, "tracestate": STATE})
    to_origin, state = of_origin(recorder)
    hit, header = new_trace()
    server.wait_cached("bucket/k0")
    story.same("a hit", server.get("bucket/k0", headers=header).cache, "hit")
    quiet, header = new_trace(sampled=False)
    story.same("an unsampled miss", server.get("bucket/k1", headers=header).cache, "miss")
    story.same("... goes on as it came", of_origin(recorder), (quiet, None))
    story.same("a request without a header, at ratio 0", (server.get("bucket/k2").cache, "traceparent" in recorder.last("GET")), ("miss", False))
    wrong, header = new_trace()
    stranger = Client(server.port, ACCESS_KEY, "wrong")
    reply403 = stranger.get("bucket/k3", headers=header)
    story.same("a wrong signature is refused", reply403.status, 403)
    story.same("... its line has the trace", lines(server, "refused")[reply403.headers["x-amz-request-id"]]["trace_id"], wrong.trace)
    asked, header = new_trace()
    plain(server.port, "OPTIONS", "/bucket/k0", headers=["Origin: http://a.example", "Access-Control-Request-Method: GET", f"traceparent: {header['traceparent']}"])
    story.same("a preflight, which anybody may send, goes on as it came", of_origin(recorder, "OPTIONS")[0], asked)
    put, header = new_trace()
    story.same("a PUT", server.put("bucket/p", b"body", header).status, 200)
    put_origin = of_origin(recorder, "PUT")[0]
    none, header = new_trace()
    story.same("no such key", server.get("bucket/none", headers=header).status, 404)
    tried, header = new_trace()
    origin.tell("match=bucket/k4", "status=503", "times=1")
    before = len(recorder.heads)
    story.same("an origin that fails once", server.get("bucket/k4", headers=header).status, 200)
    story.same("... both tries have one context", len({fields["traceparent"] for _, fields in recorder.heads[before:]}), 1)
    batch, header = new_trace()
    story.same("a batch", ask_batch(server.client, "bucket", [{"key": f"k{i}"} for i in (0, 20, 21, 22)], headers=header).status, 200)
    listed, header = new_trace()
    story.same("a list", server.ask("GET", "bucket", [("list-type", "2"), ("prefix", "k1")], header).status, 200)

    spans = collector.wait(miss.trace, 2)
    request, call = spans
    story.same("a miss has two spans", [(s.name, s.kind) for s in spans], [("GET GetObject", SERVER), ("GET GetObject", CLIENT)])
    story.same("the request's parent is the client's span", (request.parent, request.flags), (miss.span, 0x301))
    story.same("the parent of the origin's is the request's", (call.parent, call.flags), (request.id, 0x101))
    story.same("the origin got it as the parent", (to_origin, state), (Traced(miss.trace, call.id, "01"), STATE))
    wanted = {"http.request.method": "GET", "url.path": "/bucket/REDACTED", "url.scheme": "http", "server.address": "127.0.0.1", "aws.s3.bucket": "bucket",
              "http.response.status_code": "200", "http.response.body.size": "1000", "penstock.cache": "MISS", "penstock.origin_bytes": "1000",
              "penstock.request_id": reply.headers["x-amz-request-id"]}
    story.same("what the request's says", request.of, wanted)
    first_byte = call.of.pop("penstock.first_byte_us", None)
    story.same("what the origin's says", call.of, {"http.request.method": "GET", "server.address": "127.0.0.1", "server.port": str(recorder.port), "aws.s3.bucket": "bucket",
                                                   "url.full": f"{recorder.url}/bucket/REDACTED", "http.response.status_code": "200", "http.response.body.size": "1000",
                                                   "penstock.origin": "default"})
    story.fact("... and when the first byte came", first_byte and 0 < int(first_byte) <= call.ns // 1000, (first_byte, call.ns))
    story.fact("the call begins in the request", int(request.raw["startTimeUnixNano"]) <= int(call.raw["startTimeUnixNano"]) <= int(request.raw["endTimeUnixNano"]), spans)
    story.fact("the times are those of now", abs(int(request.raw["endTimeUnixNano"]) / 1e9 - time.time()) < PATIENCE, request.raw)
    story.same("the resource", {k: v for k, v in request.resource.items() if k in ("service.name", "host.name")}, {"service.name": "penstock", "host.name": socket.gethostname()})
    story.fact("... and an instance", re.fullmatch("[0-9a-f]{32}", request.resource["service.instance.id"]), request.resource)

    spans = collector.wait(hit.trace, 1)
    story.same("a hit has one span", [(s.kind, s.parent, s.of["penstock.cache"], s.of["penstock.cache_bytes"]) for s in spans], [(SERVER, hit.span, "HIT", "1000")])
    request, call = collector.wait(put.trace, 2)
    story.same("a PUT has two", [(s.name, s.kind, s.parent) for s in (request, call)], [("PUT PutObject", SERVER, put.span), ("PUT PutObject", CLIENT, request.id)])
    story.same("... and the origin got the second", put_origin, Traced(put.trace, call.id, "01"))
    request, *calls = collector.wait(none.trace, 2)
    story.same("a missing key is the client's mistake, not Penstock's", (request.failed, request.of["http.response.status_code"]), (False, "404"))
    story.same("... and for the origin's span a failure", [(c.failed, c.of["error.type"]) for c in calls], [(True, "404")])
    request, call = collector.wait(tried.trace, 2)
    story.same("two tries are one span", (call.of["http.request.resend_count"], call.failed), ("1", False))
    request, *calls = collector.wait(batch.trace, 4)
    story.same("the calls of a batch are its children", [(c.name, c.parent) for c in calls], [("GET GetObject", request.id)] * 3)
    story.same("... which have ids of their own", len({c.id for c in calls}), 3)
    request, call = collector.wait(listed.trace, 2)
    story.same("so is that of a list", (call.name, call.parent), ("GET ListObjectsV2", request.id))
    story.same("the unsampled, the refused and the preflight have no span", [collector.spans(ids.trace) for ids in (quiet, wrong, asked)], [[], [], []])
    everything = b"".join(collector.bodies)
    story.same("no key, no access key and no address of a client left", [secret for secret in (b"k20", b"none", b"/p\"", ACCESS_KEY.encode(), ORIGIN_KEY.encode()) if secret in everything], [])

    # ---- readers that share a fetch ----
    recorder.hold.clear()
    first, header_1 = new_trace()
    second, header_2 = new_trace()
    asked = len(recorder.heads)

    def readers():
        return server.metrics()['penstock_requests_total{op="GetObject"}']

    start = readers()

    def read(header):
        return Client(server.port).get("bucket/k30", headers=header)

    def read_second():
        wait_for("the origin is asked", lambda: len(recorder.heads) > asked)
        return read(header_2)

    def let_go():
        wait_for("both readers are there", lambda: readers() - start == 2)
        recorder.hold.set()

    replies = together(lambda: read(header_1), read_second, let_go)[:2]
    story.same("two readers of one fetch", ([r.status for r in replies], len(recorder.heads) - asked), ([200, 200], 1))
    request, call = collector.wait(first.trace, 2)
    story.same("the fetch belongs to the trace of the first", (call.parent, of_origin(recorder)[0]), (request.id, Traced(first.trace, call.id, "01")))
    other, = collector.wait(second.trace, 1)
    story.same("the second has a link to it, and no span of its own for it", (other.links, len(collector.spans(second.trace))), ([(first.trace, call.id)], 1))
    story.same("the first has none", request.links, [])

    # ---- revalidation, and a large object ----
    large, header = new_trace()
    story.bytes("a large object", server.get("bucket/large", headers=header), "bucket/large", 0, 20000000)
    request, *calls = collector.wait(large.trace, 2)
    story.fact("each of its fetches is a child of the request", {c.parent for c in calls} == {request.id} and all(not c.failed for c in calls), calls)
    server.wait_cached("bucket/large")
    left, header = new_trace()
    server.get("bucket/large", headers=header, stop_after=1000)
    request = collector.wait(left.trace, 1)[0]
    story.same("a client that leaves is a failure of its request", (request.failed, request.of["error.type"]), (True, "incomplete"))
    server.stop()
    server = daemon(traces_url=collector.endpoint, traces_ratio="1", freshness="always", revalidate="head")
    server.get("bucket/k0")
    wait_for("it is cached", lambda: server.get("bucket/k0").cache in ("hit", "revalidated"))
    again, header = new_trace()
    story.same("a revalidation", server.get("bucket/k0", headers=header).cache, "revalidated")
    request, call = collector.wait(again.trace, 2)
    story.same("... is a span, too", (call.name, call.parent, request.of["penstock.cache"]), ("HEAD HeadObject", request.id, "REVALIDATED"))

    # ---- requests without a header, at ratio 1 ----
    reply = server.get("bucket/k40")
    trace = lines(server)[reply.headers["x-amz-request-id"]]["trace_id"]
    request, call = collector.wait(trace, 2)
    story.same("a trace begins here", (request.parent, request.flags, call.parent), ("", 0x101, request.id))
    story.same("... and the origin got it", of_origin(recorder)[0], Traced(trace, call.id, "01"))
    reply = server.get("bucket/k41")
    trace = lines(server)[reply.headers["x-amz-request-id"]]["trace_id"]
    story.same("at a stop the last spans are sent", (server.stop(), len(collector.spans(trace))), (0, 2))
    story.same("each body is sent as JSON", {fields["content-type"] for _, fields in collector.heads}, {"application/json"})

    # ---- a directory as the origin ----
    os.makedirs(story.path("files/bucket"))
    with open(story.path("files/bucket/a"), "w") as f:
        f.write("hello")
    server = story.penstock(origin=f"dir:{story.path('files')}", traces_url=collector.endpoint, cache_dir=story.path("cache-dir"), origin_access_key=None, origin_secret_key=None)
    ids, header = new_trace()
    story.same("a directory", server.get("bucket/a", headers=header).body, b"hello")
    server.stop()
    request, call = collector.wait(ids.trace, 2)
    story.same("its span is no client's", (call.kind, call.parent, "server.address" in call.of), (INTERNAL, request.id, False))
