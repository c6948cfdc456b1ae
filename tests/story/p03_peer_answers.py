"""A node answers the questions of its peers: have, fetching, no; frames whose checksums are right; no connection for
others; one GET at the origin for a client and a peer; 200 questions at once, and too many; a drain; an origin that dies
in the middle."""
from inherit import listen, spawn
from peering import *

BIG = 20 * MIB
TOLD = ("result=\"have\"", "result=\"fetching\"", "result=\"no\"", "result=\"changed\"", "result=\"busy\"",
        "result=\"failed\"")


def results(server):
    metrics = server.metrics()
    return {t.split('"')[1]: int(metrics.get(f"penstock_peer_answers_total{{{t}}}", 0)) for t in TOLD}


def counted(story, server, text, before, **more):
    want = {name: count + more.get(name, 0) for name, count in before.items()}
    wait_for(text, lambda: sum(results(server).values()) >= sum(want.values()))
    story.same(text, results(server), want)


def whole(story, text, answer, key, first=0, length=None):
    """A whole answer with exactly these bytes."""
    if not isinstance(answer, Answer):
        return story.fact(text, False, answer)
    want = expect(key, 1, first, length)
    wrong = answer.wrong or answer.reply.error or same_bytes(answer.body, want, key)
    return story.fact(text, answer.status == 200 and answer.ended and not wrong
                      and answer.first == first and answer.end == first + len(want)
                      and max(answer.sizes) <= 65536, (answer, wrong))


def bytes_of_objects(story, server, peer, origin):
    before = results(server)
    origin.tell("match=bkt/slow", "first_byte_ms=900")
    answer = peer.ask("bkt/slow")
    whole(story, "a slow object comes whole", answer, "bkt/slow", 0, 300_000)
    story.same("the peer was told at once that it is being fetched", answer.said, "fetching")
    story.in_time("a WAIT each 100 ms: at least one in 150 ms", answer.waits >= 900 // 150, answer)
    story.fact("HEAD has the fields of the origin, and ours", answer.fields["etag"] == synthetic_etag("bkt/slow", 1)
               and answer.size == 300_000 and "last-modified" in answer.fields
               and int(answer.fields["x-penstock-age"]) < 60_000, answer.fields)
    wait_for("it is stored", lambda: server.get("bkt/slow", 0, 9).cache == "hit")
    again = peer.ask("bkt/slow")
    whole(story, "then it comes from the cache", again, "bkt/slow", 0, 300_000)
    story.in_time("which the peer is told", again.said == "have" and not again.waits, again)
    counted(story, server, "both are counted", before, have=1, fetching=1)
    whole(story, "a part of a segment", peer.ask("bkt/slow", 1000, 70_001), "bkt/slow", 1000, 69_001)
    tail = peer.ask("bkt/big", 2 * SEGMENT, 3 * SEGMENT)
    whole(story, "the last segment of a large object ends with the object", tail, "bkt/big", 2 * SEGMENT,
          BIG - 2 * SEGMENT)
    story.fact("nothing beyond the segment was fetched", origin.counts("bkt/big")["bytes"] == BIG - 2 * SEGMENT,
               origin.counts("bkt/big"))
    story.same("the bytes are counted", server.metric("penstock_peer_sent_bytes_total"),
               2 * 300_000 + 69_001 + BIG - 2 * SEGMENT)
    plain = peer.ask("bkt/small", if_match=None, x_penstock_max_age="60000", x_penstock_all_fields="1")
    whole(story, "an object for a plain GET", plain, "bkt/small", 0, 1000)
    story.same("... comes as a whole, and has all its fields", plain.fields["x-penstock-full"], "1")
    ages(story, peer, origin)
    whole(story, "a key of odd bytes", peer.ask("bkt/a b/ä?%2F"), "bkt/a b/ä?%2F", 0, 5000)


def ages(story, peer, origin):
    """Questions that name no version, and say how old the origin's answer may be."""
    def ask(max_age_ms):
        return peer.ask("bkt/slow", if_match=None, x_penstock_max_age=max_age_ms)

    origin.tell("match=bkt/slow")
    time.sleep(1.1)
    before = origin.counts("bkt/slow")
    old = ask(60_000)
    whole(story, "a version that the question does not name", old, "bkt/slow", 0, 300_000)
    story.same("... costs the origin nothing if it is young enough", origin.counts("bkt/slow"), before)
    story.fact("... and has its age", 1100 <= int(old.fields["x-penstock-age"]) < 60_000, old.fields)
    young = ask(1000)
    whole(story, "one that is too old is confirmed", young, "bkt/slow", 0, 300_000)
    story.same("... by one HEAD", origin.counts("bkt/slow")["head"], before["head"] + 1)
    story.fact("... and is young then", int(young.fields["x-penstock-age"]) < int(old.fields["x-penstock-age"]), young.fields)


def noes(story, server, peer, origin):
    before = results(server)
    origin.tell("match=bkt/secret", "status=403", "code=AccessDenied")
    other = synthetic_etag("bkt/slow", 2)
    cases = {"another endpoint": (peer.ask("bkt/slow", x_penstock_endpoint="http://127.0.0.1:1"), "endpoint"),
             "credentials of another owner": (peer.ask("bkt/slow", x_penstock_identity="OTHER"), "identity"),
             "no credentials": (peer.ask("bkt/slow", x_penstock_identity=""), "identity"),
             "a directory": (peer.ask("folder/a"), "directory"),
             "a bucket without rules": (peer.ask("nobody/a"), "bucket"),
             "a missing key": (peer.ask("bkt/missing"), "not_found"),
             "a key that the origin refuses": (peer.ask("bkt/secret"), "refused"),
             "a segment behind the end": (peer.ask("bkt/slow", SEGMENT, 2 * SEGMENT), "range"),
             "another protocol": (peer.ask("bkt/slow", target="/peer/2/bkt/slow"), "protocol"),
             "another path": (peer.ask("bkt/slow", target="/bkt/slow"), "protocol")}
    for text, (answer, why) in cases.items():
        said = answer.why if answer.status == 200 else answer.reply.body.decode().strip()
        story.fact(f"{text}: no, {why}", said == why and not answer.body and not answer.wrong
                   and (answer.status == 200 or (answer.status, answer.said) == (404, "no")), answer)
    origin.tell("match=bkt/late-missing", "first_byte_ms=400")
    late = peer.ask("bkt/late-missing")
    story.fact("a no that comes late is a frame", late.status == 200 and late.why == "not_found" and late.waits >= 2
               and late.kinds[-1] == NO and not late.reply.error, late)
    changed = peer.ask("bkt/slow", if_match=other)
    story.fact("another version: 412, changed", changed.status == 412 or changed.why == "changed", changed)
    counted(story, server, "each is counted", before, no=len(cases) + 1, changed=1)
    story.fact("wrong settings are logged, with what to do",
               server.log().count("peer_question_refused") >= 1 and "set the same origins" in server.log(),
               server.log()[-2000:])


def malformed(story, server, peer):
    bad = {"no ETag and no age": {"if_match": None}, "an age that is none": {"if_match": None, "x_penstock_max_age": "-1"}, "a weak ETag": {"if_match": 'W/"x"'}, "no node": {"x_penstock_node": None},
           "a short node": {"x_penstock_node": "ab"}, "no endpoint": {"x_penstock_endpoint": None},
           "no identity": {"x_penstock_identity": None}, "no range": {"range": None},
           "two segments": {"range": f"bytes=0-{SEGMENT}"}, "an open range": {"range": "bytes=0-"},
           "no key": {"target": "/peer/1/bkt/"}, "a bucket that is none": {"target": "/peer/1/../k"},
           "a key that is too long": {"target": "/peer/1/bkt/" + "k" * 1025},
           "an escape that is none": {"target": "/peer/1/bkt/%zz"}}
    before = results(server)
    wire = peer.wire()
    got = []
    for fields in bad.values():
        wire.send(peer.head_of("bkt/slow", **fields))
        got.append(wire.read().status)
    story.same("malformed questions: 400 each, over one connection", got, [400] * len(bad))
    counted(story, server, "and a no each", before, no=len(bad))
    for text, head in {"a PUT": peer.head_of("bkt/slow", method="PUT"),
                       "a body": peer.head_of("bkt/slow", content_length="5") + b"12345"}.items():
        wire = peer.wire()
        wire.send(head)
        reply = wire.read()
        story.fact(f"{text} is refused, and the connection ends", reply.status in (405, 413) and reply.closed, reply)


def strangers(story, server, fleet, peer, others):
    hosts = {"without a certificate": fleet.tls(None),
             "with a certificate of another CA": fleet.tls(others.node("stranger")),
             "with another name": fleet.tls(fleet.node("other", "DNS:other.internal")),
             "with the address as its name": fleet.tls(fleet.node("address", "IP:127.0.0.1"))}
    for text, tls in hosts.items():
        got = Peer(peer.port, tls, peer.endpoint).ask("bkt/slow")
        story.fact(f"{text}: no connection", isinstance(got, str) or (not got.status and got.reply.error), got)
    heard = Wire(peer.port)
    heard.send(peer.head_of("bkt/slow"))
    story.fact("nor over http", b"penstock-peer: have" not in (heard.hears() or b""))


def one_fetch(story, server, peer, origin):
    key, size = "bkt/shared", 6 * MIB
    origin.tell(f"match={key}", "first_byte_ms=500", "bandwidth=20000000")
    got = []
    client = threading.Thread(target=lambda: got.append(server.get(key)))
    client.start()
    wait_for("the origin has the client's GET", lambda: origin.counts(key, settle=False)["get"] >= 1
             or origin.totals()["requests_open"] > 0)
    answer = peer.ask(key)
    client.join()
    whole(story, "a peer that asks for what a client fetches", answer, key, 0, size)
    story.bytes("the client", got[0], key, 0, size)
    counts = origin.counts(key)
    story.fact("the origin gave each byte once", counts["bytes"] == size and not twice(counts["spans"]), counts)


def many(story, server, peer, origin):
    origin.tell("match=bkt/many", "first_byte_ms=300")
    answers, before = [], results(server)
    threads = [threading.Thread(target=lambda: answers.append(peer.ask("bkt/many"))) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    want = expect("bkt/many", 1, 0, 20_000)
    wrong = [a for a in answers if not isinstance(a, Answer) or not a.ended or a.wrong or a.body != want]
    story.fact("200 questions at once are answered", len(answers) == 200 and not wrong, wrong[:3])
    story.same("by one GET at the origin", origin.counts("bkt/many")["get"], 1)
    counted(story, server, "and counted", before, have=results(server)["have"] - before["have"],
            fetching=200 - results(server)["have"] + before["have"])


def limits(story, fleet, origin, tls):
    """A daemon with room for four questions."""
    port, settings = fleet.settings("small", peer_requests=4)
    server = story.penstock(origin=origin.url, cache_dir=story.path("small"), **settings)
    peer = Peer(port, tls, origin.url)
    origin.tell("reset=rules", "match=bkt/held?", "hang=1")
    held = [peer.wire() for _ in range(4)]
    for i, wire in enumerate(held):
        wire.send(peer.head_of(f"bkt/held{i}"))
    wait_for("four are in progress", lambda: origin.totals()["requests_open"] == 4)
    busy = peer.ask("bkt/small")
    story.fact("the fifth hears 503 at once", busy.status == 503 and "retry-after" in busy.reply.headers
               and busy.reply.body == b"busy\n", busy)
    for wire in held:
        wire.abort()
    answer = wait_for("there is room again", lambda: (a := peer.ask("bkt/small")).status == 200 and a)
    whole(story, "peers that left make room", answer, "bkt/small", 0, 1000)
    wait_for("those that left are counted", lambda: results(server)["failed"] == 4)
    origin.tell("reset=rules")
    drain(story, server, peer, origin)


def dead_origin(story, fleet, tls):
    origin = story.origin(f"object=bkt/cut {3 * MIB}", "match=bkt/cut", "bandwidth=1000000")
    port, settings = fleet.settings("cut", origin_tries=1)
    server = story.penstock(origin=origin.url, cache_dir=story.path("cut"), **settings)
    peer = Peer(port, tls, origin.url)
    wire = peer.wire()
    wire.send(peer.head_of("bkt/cut"))
    wait_for("the peer gets bytes", lambda: server.metric("penstock_peer_sent_bytes_total") > 0)
    origin.kill()
    cut = peer.read(wire, "bkt/cut")
    story.fact("the origin dies in the middle: the connection is cut, without END",
               cut.reply.error and not cut.ended and HEAD in cut.kinds and 0 < len(cut.body) < 3 * MIB
               and cut.body == expect("bkt/cut", 1, 0, len(cut.body)), cut)
    wait_for("the answer is over", lambda: sum(results(server).values()))
    story.same("which is counted", results(server)["failed"], 1)
    dead = peer.ask("bkt/other")
    story.fact("an origin that is not there: no", (dead.why or dead.reply.body.decode().strip()) == "origin", dead)


def drain(story, server, peer, origin):
    origin.tell("match=bkt/drained", "first_byte_ms=1000")
    running, asks, greets = peer.wire(), peer.wire(), peer.wire()
    running.send(peer.head_of("bkt/drained"))
    question, hello = peer.head_of("bkt/small"), b"GET /peer/hello HTTP/1.1\r\nHost: h\r\n\r\n"
    asks.send(question[:20])
    greets.send(hello[:20])
    wait_for("the question is at the origin", lambda: origin.counts("bkt/drained", settle=False)["get"] == 1)
    server.process.send_signal(signal.SIGTERM)
    wait_for("the daemon drains", lambda: "draining" in server.log())
    wait_for("and refuses connections", lambda: refuses(peer))
    asks.send(question[20:])
    greets.send(hello[20:])
    refused, told = asks.read(), json.loads(greets.read().body)
    story.fact("a new question hears 503", refused.status == 503 and refused.closed, refused)
    story.same("hello says so", told["draining"], True)
    whole(story, "the question in progress gets its bytes", peer.read(running, "bkt/drained"), "bkt/drained", 0, 50_000)
    story.same("and the daemon ends", server.process.wait(PATIENCE), 0)


def inherited(story, fleet, others, origin, tls):
    """The parent process opens the socket of peer_listen; then the fleet changes its CA."""
    held = listen("127.0.0.1:0")
    port = held.getsockname()[1]
    _, settings = fleet.settings("held", peer_listen=f"127.0.0.1:{port}")
    for name in ("peer_tls_cert_file", "peer_tls_key_file", "peer_tls_ca_file"):
        settings[name] = shutil.copy(settings[name], story.path(name))
    path, log_path = story.path("held.json"), story.path("held.log")
    with open(path, "w") as f:
        json.dump(story.settings(origin=origin.url, cache_dir=story.path("held-cache"), **settings), f)
    with open(log_path, "wb") as log:
        pid = spawn([PENSTOCK, "serve", "--config", path], [held.fileno()], "peer_listen", log.fileno(), env=own_env())
    held.close()
    story.same("a socket of the parent process is served", Peer(port, tls, origin.url).hello().status, 200)
    new = others.tls(others.node("new"))
    new_pair = others.node("held")
    story.fact("a node of the next CA is refused", not hears(Peer(port, new, origin.url)))
    for name, file in zip(("peer_tls_ca_file", "peer_tls_key_file", "peer_tls_cert_file"),
                          (others.authority.file, new_pair[1], new_pair[0])):
        shutil.copy(file, settings[name] + ".new")
        os.rename(settings[name] + ".new", settings[name])
    wait_for("the new files are in use, without a restart", lambda: hears(Peer(port, new, origin.url)))
    story.fact("and the CA of before no longer counts", not hears(Peer(port, others_of(tls, others), origin.url)))
    os.kill(pid, signal.SIGTERM)
    story.same("it stops", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


def others_of(tls, others):
    """The certificate of `tls`, for a server of the other authority."""
    tls.context.load_verify_locations(others.authority.file)
    return tls


def hears(peer):
    try:
        return peer.hello().status == 200
    except OSError:
        return False


def refuses(peer):
    try:
        peer.wire().close()
        return False
    except OSError:
        return True


with Story("p03 a node answers its peers") as story:
    origin = story.origin("object=bkt/slow 300000", f"object=bkt/big {BIG}", "object=bkt/a b/ä?%2F 5000",
                          "object=bkt/secret 1000", f"object=bkt/shared {6 * MIB}", "object=bkt/many 20000",
                          "object=bkt/small 1000", "object=bkt/drained 50000",
                          *(f"object=bkt/held{i} 1000" for i in range(4)))
    fleet, others = Fleet(story), Fleet(story, "others-ca")
    port, settings = fleet.settings("one", peer_weight=250)
    os.makedirs(story.path("tree/folder"))
    rows = {"origins": {"s3": {"url": origin.url}, "tree": {"url": "dir:" + story.path("tree")}},
            "buckets": {"bkt": {"origin": "s3"}, "folder": {"origin": "tree"}}}
    server = story.penstock(**rows, **settings)
    mine = fleet.tls(fleet.node("me"))
    peer = Peer(port, mine, origin.url)
    hello = json.loads(peer.hello().body)
    story.fact("hello says who it is", hello["protocol"] == [1] and re.fullmatch("[0-9a-f]{32}", hello["node"])
               and hello["weight"] == 250 and not hello["draining"] and hello["version"], hello)
    bytes_of_objects(story, server, peer, origin)
    noes(story, server, peer, origin)
    malformed(story, server, peer)
    strangers(story, server, fleet, peer, others)
    one_fetch(story, server, peer, origin)
    many(story, server, peer, origin)
    story.same("it stops", server.stop(), 0)
    server = story.penstock(**rows, **settings)
    story.same("after a restart it has the same id", json.loads(peer.hello().body)["node"], hello["node"])
    whole(story, "and the bytes", peer.ask("bkt/slow"), "bkt/slow", 0, 300_000)
    limits(story, fleet, origin, mine)
    dead_origin(story, fleet, mine)
    inherited(story, fleet, others, origin, mine)
    cert, key = fleet.node("old", ends="20240101000000Z")
    status, out, err = run([PENSTOCK, "check", "--offline", "--config", server.config_path,
                            "--peer-tls-cert-file", cert, "--peer-tls-key-file", key])
    story.fact("check names a certificate that has expired", "peer_tls_cert_file has expired" in out + err, out + err)
    status, out, err = run([PENSTOCK, "check", "--offline", "--origin", origin.url, "--peer-listen", "127.0.0.1:9002"])
    story.fact("and says what peer_listen needs", status and "set peer_tls_cert_file" in out + err, out + err)
