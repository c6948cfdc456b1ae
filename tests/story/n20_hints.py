"""A write, a purge or a change of rights through one node is seen through all others: real TLS, a real origin
(versitygw), copies that would count as fresh for an hour; nodes that stop, crash, and miss more than is kept."""
import base64
import ssl

from guards import guarded
from peering import *

NAME = FLEET
ANNA = ("usertestkey", "user-secret")
HOUR = 3600
READS = json.dumps({"Version": "2012-10-17", "Statement": [{
    "Effect": "Allow", "Principal": {"AWS": [ANNA[0]]}, "Action": ["s3:GetObject"],
    "Resource": ["arn:aws:s3:::bucket/*"]}]}).encode()
DELETES = "<Delete>%s</Delete>"
KEPT = 20


class Nodes:
    """Nodes that know each other by a static list."""

    def __init__(self, story, gateway, count, env=None, **settings):
        fleet = Fleet(story)
        self.story, self.fleet = story, fleet
        self.tls = fleet.tls(fleet.node("me", f"DNS:{NAME}"))
        cert, key = fleet.node("node", f"DNS:{NAME}")
        self.ports = [free_port() for _ in range(count)]
        self.nodes = [story.penstock(
            origin=gateway.url, cache_dir=story.path(f"cache-{n}-{port}"), peer_listen=f"127.0.0.1:{port}", peer_name=NAME,
            peers=",".join(f"127.0.0.1:{other}" for other in self.ports), peer_tls_cert_file=cert, peer_tls_key_file=key,
            peer_tls_ca_file=fleet.authority.file, freshness="ttl", ttl="1h", grace="0", grant_time="1h", missing_time="0",
            keys=[{"access_key": ANNA[0], "secret_key": ANNA[1]}], peer_hints=KEPT, env=(env or {}).get(n),
            buckets={"fixed": {"freshness": "immutable"}}, **settings) for n, port in enumerate(self.ports)]
        for n in range(count):
            self.meet(n)

    def meet(self, n, count=None):
        node = self.nodes[n]
        wait_for(f"node {n} knows the others", lambda: node.metric("penstock_peers") == (count or len(self.nodes) - 1))

    def again(self, n):
        self.nodes[n] = self.nodes[n].again()
        return self.nodes[n]

    def id(self, n):
        return json.loads(Peer(self.ports[n], self.tls, "").hello().body)["node"]


def warm(node, *keys):
    node.wait_cached(*keys)


def seen(story, text, condition):
    """Waits for what must come, and says how long that took."""
    began = time.monotonic()
    wait_for(text, condition)
    took = time.monotonic() - began
    story.in_time(f"{text} ({took:.2f} s)", took < 1, f"{took:.2f} s")


def follows(story, a, others):
    """Each kind of write through one node, as the others see it."""
    keys = [f"bucket/k{n}" for n in range(8)]
    for key in keys:
        a.put(key, b"old")
    for node in others:
        warm(node, *keys)

    def all_see(text, key, body):
        seen(story, text, lambda: all((r := node.get(key)).body == body if body else node.get(key).status == 404 for node in others))
    story.same("a PUT", a.put(keys[0], b"new").status, 200)
    all_see("... is seen", keys[0], b"new")
    story.same("a DELETE", a.delete(keys[1]).status, 204)
    all_see("... is seen", keys[1], None)
    body = DELETES % "".join(f"<Object><Key>{key[7:]}</Key></Object>" for key in keys[2:4])
    story.same("a DeleteObjects", a.ask("POST", "bucket", [("delete", "")], {"content-md5": base64.b64encode(
        hashlib.md5(body.encode()).digest()).decode()}, body.encode()).status, 200)
    for key in keys[2:4]:
        all_see("... is seen", key, None)
    story.same("a CopyObject", a.put(keys[4], b"", {"x-amz-copy-source": keys[0]}).status, 200)
    all_see("... is seen", keys[4], b"new")
    upload = re.search(b"<UploadId>(.*)</UploadId>", a.ask("POST", keys[5], [("uploads", "")]).body).group(1).decode()
    part = a.ask("PUT", keys[5], [("partNumber", "1"), ("uploadId", upload)], body=b"of parts").headers["etag"]
    done = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part}</ETag></Part></CompleteMultipartUpload>"
    story.same("a CompleteMultipartUpload", a.ask("POST", keys[5], [("uploadId", upload)], body=done.encode()).status, 200)
    all_see("... is seen", keys[5], b"of parts")
    for node in others:
        story.fact("what was not written is still a hit", node.get(keys[6]).cache == "hit")


def purges(story, fleet, a, others):
    for node in others:
        warm(node, "bucket/k6", "bucket/k7")
    story.same("a purge of a key", a.ask("POST", "bucket", [("penstock-purge", ""), ("key", "k6")]).status, 200)
    for node in others:
        wait_for("... is seen", lambda: explain(node, "k6") == 0)
        story.fact("... and of no other key", node.get("bucket/k7").cache == "hit")
    story.same("a purge of a prefix", a.ask("POST", "bucket", [("penstock-purge", ""), ("prefix", "k")]).status, 200)
    for node in others:
        wait_for("... is seen", lambda: explain(node, "k7") == 0)
        audit = lambda: [line for line in map(json.loads, node.log().splitlines()) if line["event"] == "audit"]
        wait_for("both purges have a line", lambda: len(audit()) >= 2)
        lines = audit()
        story.same("... and in the audit: through which node, and what",
                   [{n: line.get(n) for n in ("action", "who", "result", "bucket", "key", "prefix")} for line in lines],
                   [{"action": "penstock-purge", "who": f"peer:{fleet.id(0)}", "result": "OK", "bucket": "bucket", "key": key, "prefix": prefix}
                    for key, prefix in (("k6", None), (None, "k"))])
        story.fact("... from its address", all(re.fullmatch(r"127\.0\.0\.1:\d+", line["from"]) for line in lines), lines)


def explain(node, key):
    """The cached bytes of a key."""
    lines = node.ask("GET", "bucket", [("penstock-ls", ""), ("prefix", key)]).body.splitlines()
    return sum(json.loads(line).get("cached_bytes", 0) for line in lines if b'"key"' in line)


def revokes(story, gateway, a, b):
    made = f"<Account><Access>{ANNA[0]}</Access><Secret>{ANNA[1]}</Secret><Role>user</Role></Account>".encode()
    story.fact("the origin has a user", gateway.client.ask("PATCH", "create-user", body=made).status in (200, 201))
    anna = Client(b.port, *ANNA)
    a.put("bucket/secret", b"secret")
    story.same("who has no right, is refused", anna.get("bucket/secret").status, 403)
    story.same("a policy through another node", a.ask("PUT", "bucket", [("policy", "")], body=READS).status, 204)
    wait_for("... gives the right", lambda: anna.get("bucket/secret").status == 200)
    wait_for("... and a grant for an hour", lambda: anna.get("bucket/secret").cache == "hit")
    story.same("the policy is deleted", a.ask("DELETE", "bucket", [("policy", "")]).status, 204)
    seen(story, "the grant ends", lambda: anna.get("bucket/secret").status == 403)


def lost(node):
    return node.metric("penstock_peer_hints_lost_total")


def returns(story, fleet, a):
    """Node 1 is away, and comes back, three times."""
    b = fleet.nodes[1]
    a.put("fixed/stopped", b"old"), a.put("fixed/left", b"old")
    warm(b, "fixed/stopped", "fixed/left")
    story.same("a node stops", b.stop(), 0)
    a.put("fixed/stopped", b"new")
    b = fleet.again(1)
    wait_for("what it missed is seen after its start", lambda: b.get("fixed/stopped").body == b"new")
    wait_for("nothing is left for it", lambda: a.metric("penstock_peers_hints_kept") == 0)
    story.fact("... and no more than that is revalidated", b.get("fixed/left").cache == "hit" and lost(b) == 0, (b.get("fixed/left"), lost(b)))

    b.wait_cached("fixed/stopped")
    os.kill(b.pid, signal.SIGSTOP)
    a.put("fixed/stopped", b"newer")
    wait_for("a hint is kept", lambda: a.metric("penstock_peers_hints_kept") == 1)
    os.kill(b.pid, signal.SIGCONT)
    wait_for("a node that was stopped by SIGSTOP goes on, and hears of it", lambda: b.get("fixed/stopped").body == b"newer")

    a.put("fixed/unread", b"old")
    b.wait_cached("fixed/stopped", "fixed/left", "fixed/unread")
    wait_for("nothing is left for it", lambda: a.metric("penstock_peers_hints_kept") == 0)
    b.stop()
    a.put("fixed/stopped", b"newest")
    for n in range(KEPT):
        a.put(f"fixed/other-{n}", b"x")
    story.fact("no more hints are kept than the limit", a.metric("penstock_peers_hints_kept") <= KEPT)
    b = fleet.again(1)
    wait_for("a node that missed more than was kept is told so", lambda: lost(b) == 1)
    story.fact("... and serves nothing from before", (r := b.get("fixed/stopped")).body == b"newest", r)
    story.fact("... without a proof", (r := b.get("fixed/left")).cache == "revalidated", r)
    wait_for("... once", lambda: b.get("fixed/left").cache == "hit")    # a proof of the second of the loss does not count
    story.fact("... and logs it", "peer_hints_lost" in b.log())
    story.fact("the hints that were lost are counted", 1 <= a.metrics()['penstock_peers_hints_total{result="lost"}'] <= KEPT + 1)
    b = fleet.nodes[1] = b.restart()
    fleet.meet(1)
    story.same("after one more restart, what was not proved since is not served without a proof", b.get("fixed/unread").cache, "revalidated")


def replaced(story, fleet, a):
    """A node with a new folder, so with another id, at the same address."""
    b = fleet.nodes[2]
    b.stop()
    shutil.rmtree(b.cache_dir)
    a.put("fixed/fresh", b"old")
    b = fleet.again(2)
    b.wait_cached("fixed/fresh")
    fleet.meet(0)
    a.put("fixed/fresh", b"new")
    seen(story, "a write is seen by a node that replaced another one", lambda: b.get("fixed/fresh").body == b"new")
    story.same("... which need not revalidate what it has fetched itself", lost(b), 0)


def crashes(story, fleet, clock):
    """The writer dies before it could tell a node that is away; and hints grow too old."""
    a, b = fleet.nodes[:2]
    a.put("fixed/crash", b"old"), a.put("fixed/late", b"old")
    warm(b, "fixed/crash", "fixed/late")
    before = lost(b)
    a = fleet.nodes[0] = a.restart()
    fleet.meet(0)
    wait_for("after a clean restart of the writer", lambda: a.metric("penstock_peers_hints_kept") == 0)
    a.put("fixed/next", b"x")
    wait_for("... hints arrive", lambda: a.metrics()['penstock_peers_hints_total{result="delivered"}'] >= 2)
    story.same("... and nothing was lost", (lost(b) - before, b.get("fixed/crash").cache), (0, "hit"))
    b.stop()
    a.put("fixed/crash", b"new")
    a.kill()
    fleet.again(0)
    b = fleet.again(1)
    wait_for("after a crash of the writer, a node that had missed something hears so", lambda: lost(b) >= 1)
    story.fact("... and serves no old copy", (r := b.get("fixed/crash")).body == b"new", r)

    a = fleet.nodes[0]
    fleet.meet(0), fleet.meet(1)
    warm(b, "fixed/late")
    b.stop()
    a.put("fixed/late", b"new")
    clock.ahead(HOUR + 60)
    b = fleet.again(1)
    wait_for("after an hour, a hint is no longer kept", lambda: lost(b) >= 1)
    story.fact("... and the node serves no old copy", (r := b.get("fixed/late")).body == b"new", r)


def batch_of(*hints, age=(1 << 64) - 1):
    payload = struct.pack("<Q", age)
    for what, *texts in hints:
        texts = [text.encode() for text in texts]
        payload += struct.pack("<BBHHHH", what, 0, *map(len, texts)) + b"".join(texts)
    return payload


def frame_of(payload, kind=6, crc=None):
    return struct.pack("<4sB3sII", b"PSP1", kind, bytes(3), len(payload), crc32c(payload, kind) if crc is None else crc) + payload


def hostile(story, fleet, gateway, node, n):
    """A peer that sends what it likes."""
    a, me, wire = fleet.nodes[0], fleet.id(n), None
    write = (1, gateway.url, "bucket", "hostile", "")

    def send(body, to=me, method="POST", length=None):
        wire = Wire(fleet.ports[n], tls=fleet.tls)
        wire.send((f"{method} /peer/1/hints HTTP/1.1\r\nHost: {NAME}\r\nx-penstock-node: {'ab' * 16}\r\nx-penstock-to: {to}\r\n"
                   f"Content-Length: {len(body) if length is None else length}\r\n\r\n").encode() + body)
        status = wire.read().status
        wire.close()
        return status
    a.put("bucket/hostile", b"x")
    warm(node, "bucket/hostile")
    before = node.metrics()
    bad = {"a wrong checksum": frame_of(batch_of(write), crc=7), "another kind": frame_of(batch_of(write), kind=5),
           "a cut hint": frame_of(batch_of(write)[:-1]), "no age": frame_of(b"1234567"), "no hint at all": frame_of(batch_of((0, gateway.url, "bucket", "k", ""))),
           "a key with a NUL": frame_of(batch_of((1, gateway.url, "bucket", "k\0", ""))), "a bucket that is none": frame_of(batch_of((1, gateway.url, "../x", "k", ""))),
           "1,001 hints": frame_of(batch_of(*[(1, "e", "bucket", "k", "")] * 1001)), "noise": os.urandom(500)}
    for text, body in bad.items():
        story.same(f"{text} is refused", send(body), 400)
    story.same("a batch for another node is refused", send(frame_of(batch_of(write)), to="cd" * 16), 404)
    story.same("a batch that is too long is refused", send(b"", length=70_000), 405)
    story.same("a PUT is refused", send(frame_of(batch_of(write)), method="PUT"), 405)
    story.same("each is counted", node.metric("penstock_peer_hint_batches_refused_total") - before["penstock_peer_hint_batches_refused_total"], len(bad) + 1)
    story.same("what no origin here has is skipped", send(frame_of(batch_of((1, "http://elsewhere", "bucket", "hostile", ""), (16, "http://elsewhere", "bucket", "", "")))), 200)
    story.same("... and counted", node.metrics()['penstock_peer_hints_total{result="other_endpoint"}'] - before['penstock_peer_hints_total{result="other_endpoint"}'], 2)
    story.fact("none of it changed anything", node.get("bucket/hostile").cache == "hit")
    story.same("a good one is followed", send(frame_of(batch_of(write))), 200)
    story.fact("... so the origin is asked", node.get("bucket/hostile").cache != "hit")
    node.wait_cached("bucket/hostile")
    story.same("a peer that has lost hints", send(frame_of(batch_of(age=0))), 200)
    story.same("... makes this node revalidate", node.get("bucket/hostile").cache, "revalidated")
    wire = Wire(fleet.ports[n], tls=fleet.tls)    # it leaves in the middle
    wire.send(f"POST /peer/1/hints HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\n".encode() + b"PSP1")
    wire.abort()


class Other(Listener):
    """A node that says of itself what it is told to, and keeps the batches that it gets."""

    def __init__(self, pair):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*pair)
        self.says, self.status, self.batches, self.heads = {}, 200, [], []
        super().__init__()

    def serve(self, connection):
        with self.context.wrap_socket(connection, server_side=True) as wire:
            while heard := self.hear(wire):
                line, fields, body = heard
                status, answer = 200, b""
                if line.startswith("GET /peer/hello "):
                    answer = json.dumps({"protocol": [1], "node": "cd" * 16, "weight": 100, "version": "0.2", "draining": False, **self.says}).encode()
                elif line.startswith("POST /peer/1/hints "):
                    status = self.status
                    self.heads.append(fields)
                    self.batches.append(body)
                else:
                    status = 404
                wire.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(answer)) + answer)


def hints_in(batch):
    """The age, and the hints, of a batch."""
    magic, kind, zero, size, crc = struct.unpack("<4sB3sII", batch[:16])
    payload = batch[16:]
    check(magic == b"PSP1" and kind == 6 and size == len(payload) and crc == crc32c(payload, kind), "a batch is no frame")
    hints, rest = [], payload[8:]
    while rest:
        what, _, *sizes = struct.unpack("<BBHHHH", rest[:10])
        rest, texts = rest[10:], []
        for size in sizes:
            texts.append(rest[:size].decode())
            rest = rest[size:]
        hints.append((what, *texts))
    return struct.unpack("<Q", payload[:8])[0], hints


def by_the_wire(story, gateway):
    """What a node sends: nothing to one that knows no hints, all that it kept once that one does, and again until it is taken."""
    fleet = Fleet(story, "wire-ca")
    pair = fleet.node("other")
    other, port = Other(pair), free_port()
    node = story.penstock(origin=gateway.url, cache_dir=story.path("wire"), peer_listen=f"127.0.0.1:{port}", peer_name=NAME,
                          peers=f"127.0.0.1:{port},127.0.0.1:{other.port}", peer_tls_cert_file=pair[0], peer_tls_key_file=pair[1],
                          peer_tls_ca_file=fleet.authority.file)
    wait_for("the other node is known", lambda: node.metric("penstock_peers") == 1)
    story.fact("the log says that it takes no hints", "peer_without_hints" in node.log())
    node.put("bucket/wire", b"x")
    node.ask("POST", "bucket", [("penstock-purge", ""), ("prefix", "p/")])
    story.same("it gets none", (other.batches, node.metric("penstock_peers_hints_kept")), ([], 2))
    other.says, other.status = {"hints": True}, 503
    wait_for("a newer version of it gets them, again and again", lambda: len(other.batches) >= 3)
    want = ((1 << 64) - 1, [(1, gateway.url, "bucket", "wire", ""), (16, gateway.url, "bucket", "p/", "")])
    story.same("... all of them", hints_in(other.batches[0]), want)
    story.same("... until it follows them", hints_in(other.batches[-1]), want)
    story.same("... addressed to it", other.heads[0]["x-penstock-to"], "cd" * 16)
    other.status = 200
    wait_for("... which it does", lambda: node.metric("penstock_peers_hints_kept") == 0)
    node.delete("bucket/wire")
    wait_for("the next hint comes alone", lambda: hints_in(other.batches[-1]) == ((1 << 64) - 1, [(1, gateway.url, "bucket", "wire", "")]))
    other.status = 405
    node.put("bucket/wire", b"y")
    wait_for("a refusal is logged", lambda: "peer_hints_refused" in node.log())


def red(story, gateway):
    """Without the guard, a node that follows no hint serves old bytes."""
    fleet = Nodes(story, gateway, 2, env={1: guarded("hints")})
    a, b = fleet.nodes
    a.put("bucket/red", b"old")
    warm(b, "bucket/red")
    a.put("bucket/red", b"new")
    wait_for("the hint is delivered", lambda: a.metric("penstock_peers_hints_kept") == 0 and a.metrics()['penstock_peers_hints_total{result="delivered"}'] >= 1)
    story.fact("hints OFF: the other node serves the old bytes", (r := b.get("bucket/red")).body == b"old" and r.cache == "hit", r)


with Story("n20 hints between nodes", seconds=300) as story:
    clock = story.clock()
    gateway = story.versity(iam=True)
    for bucket in "bucket", "fixed":
        gateway.client.put(bucket, b"")
    fleet = Nodes(story, gateway, 3)
    follows(story, fleet.nodes[0], fleet.nodes[1:])
    purges(story, fleet, fleet.nodes[0], fleet.nodes[1:])
    revokes(story, gateway, fleet.nodes[0], fleet.nodes[1])
    hostile(story, fleet, gateway, fleet.nodes[2], 2)
    returns(story, fleet, fleet.nodes[0])
    replaced(story, fleet, fleet.nodes[0])
    crashes(story, fleet, clock)
    by_the_wire(story, gateway)
    red(story, gateway)
