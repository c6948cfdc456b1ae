"""A question to another node is a part of the trace: client, node, its peer, origin, with the right parents. A call that no
peer answered has a span of its own at the origin."""
from authority import Authority
from collector import *
from recorder import Recorder

NAME, STATE = "fleet.penstock", "rojo=00f067aa0ba902b7"


def seen(recorder, method, start):
    """The contexts that the origin got since then, by this method."""
    return [read_parent(fields["traceparent"]) for m, fields in recorder.heads[start:] if m == method]


with Story("b44 traces go through peers") as story:
    origin, collector = story.origin("objects=bucket/k%d 60 1000"), Collector()
    recorder, authority = Recorder(origin.port), Authority(story, "fleet-ca")
    cert, key = authority.sign("node", host=f"DNS:{NAME}")
    ports = [free_port(), free_port()]
    here, there = (story.penstock(origin=recorder.url, cache_dir=story.path(f"cache-{i}"), loops=1, traces_url=collector.endpoint, traces_ratio="0",
                                  peers=",".join(f"127.0.0.1:{p}" for p in ports), peer_listen=f"127.0.0.1:{port}", peer_name=NAME,
                                  peer_tls_cert_file=cert, peer_tls_key_file=key, peer_tls_ca_file=authority.file) for i, port in enumerate(ports))
    for node in (here, there):
        wait_for("the nodes know each other", lambda: node.metric("penstock_peers") == 1)

    def owner(name):
        reply = here.ask("GET", f"bucket/{name}", query=[("penstock-explain", "")])
        return json.loads(reply.body)["peers"]["segments"][0]["owner"]

    theirs = [f"k{i}" for i in range(60) if owner(f"k{i}") == f"127.0.0.1:{ports[1]}"]
    story.fact("the other node owns some", len(theirs) > 5, theirs)

    # ---- client, node, peer, origin ----
    start = len(recorder.heads)
    ids, header = new_trace()
    story.same("an object of the other node", here.get(f"bucket/{theirs[0]}", headers={**header, "tracestate": STATE}).status, 200)
    spans = collector.wait(ids.trace, 4)
    story.same("four spans", sorted((s.kind, s.name) for s in spans),
               [(SERVER, "GET GetObject"), (SERVER, "GET Segment"), (CLIENT, "GET GetObject"), (CLIENT, "GET Segment")])
    of = {(s.kind, s.name): s for s in spans}
    request, answer = of[SERVER, "GET GetObject"], of[SERVER, "GET Segment"]
    question, call = of[CLIENT, "GET Segment"], of[CLIENT, "GET GetObject"]
    story.same("the request's parent is the client's span", request.parent, ids.span)
    story.same("... and it says that the bytes are the other node's", [request.of.get(f"penstock.{what}") for what in ("cache", "cache_bytes", "peers_bytes", "origin_bytes")],
               ["MISS", None, "1000", None])
    story.same("the question is a child of the request", question.parent, request.id)
    story.same("the parent of the peer's answer is the question", answer.parent, question.id)
    story.same("the parent of its call to the origin is that answer", call.parent, answer.id)
    story.same("the origin got it as parent", (seen(recorder, "HEAD", start), seen(recorder, "GET", start)), ([], [Traced(ids.trace, call.id, "01")]))
    story.same("... and the client's tracestate, over both nodes", [fields.get("tracestate") for _, fields in recorder.heads[start:]], [STATE])
    instances = {s.resource["service.instance.id"] for s in (request, question)}, {s.resource["service.instance.id"] for s in (answer, call)}
    story.fact("each node sent its own spans", len(instances[0]) == len(instances[1]) == 1 and instances[0] != instances[1], instances)
    story.same("the question says whom, and what came", (question.of["server.address"], question.of["server.port"], question.of["http.response.status_code"],
                                                        question.of["http.response.body.size"], question.failed), ("127.0.0.1", str(ports[1]), "200", "1000", False))
    story.same("the answer says where from", (answer.of["penstock.answer"], answer.of["url.path"], answer.failed), ("fetching", "/peer/1/bucket/REDACTED", False))
    there.wait_cached(f"bucket/{theirs[0]}")
    quiet, header = new_trace(sampled=False)
    start = len(recorder.heads)
    story.same("an unsampled request", here.get(f"bucket/{theirs[1]}", headers=header).status, 200)
    story.same("... goes through both nodes as it came", (seen(recorder, "HEAD", start), seen(recorder, "GET", start), collector.spans(quiet.trace)),
               ([], [quiet], []))
    start = len(recorder.heads)
    story.same("without a trace, there is none", (here.get(f"bucket/{theirs[2]}").status, [m for m, fields in recorder.heads[start:] if "traceparent" in fields]),
               (200, []))

    # ---- readers that share a question ----
    recorder.hold.clear()
    first, header_1 = new_trace()
    second, header_2 = new_trace()
    start, before = len(recorder.heads), here.metrics()['penstock_requests_total{op="GetObject"}']

    def let_go():
        wait_for("both readers are there", lambda: here.metrics()['penstock_requests_total{op="GetObject"}'] - before == 2)
        recorder.hold.set()

    replies = together(*[lambda h=h: Client(here.port).get(f"bucket/{theirs[3]}", headers=h) for h in (header_1, header_2)], let_go)[:2]
    story.same("two readers of one object", [r.status for r in replies], [200, 200])
    story.same("... by one GET", len(seen(recorder, "GET", start)), 1)
    wait_for("their spans have come", lambda: len(collector.spans(first.trace)) + len(collector.spans(second.trace)) >= 5)
    both = collector.spans(first.trace) + collector.spans(second.trace)
    story.same("there is one question", [s.name for s in both if (s.kind, s.name) == (CLIENT, "GET Segment")], ["GET Segment"])
    links = {link for s in both for link in s.links}
    story.fact("the other reader has a link to what worked for it", links and links <= {(s.trace, s.id) for s in both}, (links, both))

    # ---- nobody answers: the call goes on to the origin ----
    there.kill()
    start = len(recorder.heads)
    ids, header = new_trace()
    story.same("the owner is gone", here.get(f"bucket/{theirs[4]}", headers=header).status, 200)
    spans = collector.wait(ids.trace, 3)
    of = {(s.kind, s.name): s for s in spans}
    request, question, call = of[SERVER, "GET GetObject"], of[CLIENT, "GET Segment"], of[CLIENT, "GET GetObject"]
    story.same("question and call are children of the request", (question.parent, call.parent, request.parent), (request.id, request.id, ids.span))
    story.fact("... and two spans", question.id != call.id, spans)
    story.same("the question failed, the call did not", (question.failed, question.of.get("error.type"), call.failed), (True, "ERR_ORIGIN_CONNECT", False))
    story.same("the origin got the call's span", seen(recorder, "GET", start), [Traced(ids.trace, call.id, "01")])
    story.same("no key left", [name for name in theirs[:5] if name.encode() + b'"' in b"".join(collector.bodies)], [])
    here.stop()
