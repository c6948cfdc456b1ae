"""A node whose peer is not what it should be: it sends wrong bytes, half a body, nothing, frames of a later version,
another object; it waits for ever; it says that it is somebody else. No client sees any of it. A client with an identity of
its own makes the node ask the origin for the version first; a client of the shared identity does not."""
from fleet_faults import *
from name_server import NameServer

SERVICE = "_penstock._tcp.fleet.test"
SIZE = 100_000
READER = "READERKEY", "reader/secret"


class Stage:
    """One real node, and one peer after another, which DNS lists."""

    def __init__(self, story, origin, dns):
        self.story, self.origin, self.dns, self.numbers = story, origin, dns, itertools.count()
        self.fleet = Fleet(story, origin, 1, 0, peers=f"dns:{SERVICE}", peer_weight=1,
                           keys=[{"access_key": READER[0], "secret_key": READER[1]}])
        self.pair = self.fleet.node("false")
        self.node = self.fleet.start(0, env={"PENSTOCK_NAME_SERVER": dns.address})
        self.peer = None
        self.named, self.unnamed = Client(self.node.port, *READER), self.node.client
        self.client = self.named

    def invite(self, answer, state="answers", falls_silent=False, **hello):
        """From now on the list has this peer alone, which owns nearly all segments. falls_silent: once it was asked, it
        answers no test any more."""
        def last(connection, question):
            peer.hello = None
            return answer(connection, question)
        peer = self.peer = FalsePeer(self.pair, self.fleet.authority, last if falls_silent else answer, **hello)
        self.list(state)

    def list(self, state):
        self.dns.records.update({SERVICE: {"SRV": [(0, self.peer.port, "peer.test")]}, "peer.test": {"A": ["127.0.0.1"]}})
        wait_state(self.node, self.peer.address, state)

    def says_hello(self):
        """The peer says hello to the node, which then says hello to it."""
        before, wire = self.peer.hellos, Wire(self.fleet.ports[0], tls=self.fleet.tls(self.pair))
        wire.send(f"GET /peer/hello HTTP/1.1\r\nHost: {FLEET}\r\nx-penstock-node: {self.peer.hello['node']}\r\n\r\n".encode())
        wire.read()
        wait_for("the node says hello to it", lambda: self.peer.hellos > before)

    def key(self, size=SIZE):
        return f"bucket/false/size-{size}-{next(self.numbers)}"

    def read(self, text):
        """A client reads an object that nobody has read, and gets it. Of a thousand segments, the node itself owns one: then,
        and if the peer is away, the peer is not asked, and the key is not returned."""
        asked, key = len(self.peer.questions), self.key()
        self.story.bytes(f"{text}: the client gets the right bytes", self.client.get(key), key, 0, size_of(key))
        return key if len(self.peer.questions) > asked else None

    def row(self):
        return rows(self.node)[self.peer.address]

    def told(self):
        """Why the log says that the peer is away: the first time."""
        lines = [line for line in self.node.log().splitlines() if '"peer_away"' in line and f'"{self.peer.address}"' in line]
        return json.loads(lines[0])["why"] if lines else None

    def provoke(self, text, answer, bad, why="", **how):
        """The peer is asked once, and answers this. Then it is counted and reported, and the next reads do not ask it.
        Returns the key. On a machine that is too busy, the story itself answers too late: then once more."""
        for _ in range(6):
            self.invite(answer, **{"falls_silent": not bad, **how})
            key = self.read(text)
            if key:    # a test that is not answered takes 2 s
                wait_for("the peer is away", lambda: self.row()["state"] == "away")
            row, told = self.row(), self.told()
            counted = (row["bad"], row["failed"]) == ((1, 0) if bad else (0, 1))
            if key and counted and told and why in told:
                break
            self.story.note(f"{text}: once more, after {told!r}")
        self.story.fact(f"{text}: the peer is counted", counted, row)
        self.story.fact(f"{text}: ... and reported: {told}", row["state"] == "away" and told and why in told, row)
        wrong = self.read_all(5)
        self.story.same(f"{text}: ... and left alone", (len(self.peer.questions), wrong), (1, []))
        return key

    def read_all(self, count):
        """Reads new objects; returns what was wrong."""
        keys = [self.key() for _ in range(count)]
        return [why for key in keys if (why := judge(self.client.get(key), key))]


def flip(payload):
    return payload[:100] + bytes([payload[100] ^ 1]) + payload[101:]


def wrong_bytes(stage):
    def answer(connection, question):
        begin(connection)
        send(connection, question.head(), *question.data(flip), frame(END))
        return end(connection)
    before = stage.node.metric("penstock_peers_bad_total")
    stage.provoke("a flipped bit", answer, True, "its bytes fail their checksum")
    stage.story.same("... in the metric, too", stage.node.metric("penstock_peers_bad_total") - before, 1)
    asked = len(stage.peer.questions)
    stage.says_hello()
    stage.story.same("its own hello does not bring it back", (stage.read_all(3), len(stage.peer.questions) - asked, stage.row()["state"]),
                     ([], 0, "away"))

    def late(connection, question):
        begin(connection)
        send(connection, question.head(), *list(question.data())[:-2], *list(question.data(flip))[-2:], frame(END))
        return end(connection)
    key = stage.provoke("a flipped bit near the end", late, True, "its bytes fail their checksum")
    counts = stage.origin.counts(key)
    stage.story.fact("the right bytes before it were of use: the origin gave the rest", counts["get"] == 1 and
                     0 < counts["bytes"] < SIZE, counts)


def other_object(stage):
    """Right checksums of what was not asked for."""
    etag = synthetic_etag("bucket/false/other", 1)
    for text, head in (("another version", {"etag": etag}), ("another size", {"size": SIZE * 2}), ("a smaller size", {"size": SIZE - 1}),
                       ("other bytes", {"first": 4096}), ("fewer bytes", {"end": SIZE // 2})):
        def answer(connection, question, head=head):
            begin(connection)
            send(connection, question.head(**head), *question.data(), frame(END))
            return end(connection)
        key = stage.provoke(text, answer, True, "a HEAD that can't be read" if text == "a smaller size" else "other bytes than asked for")
        wait_for(f"{text}: the object is cached", lambda key=key: stage.client.get(key).cache == "hit")
        stage.story.same(f"{text}: ... by one HEAD and one GET", [stage.origin.counts(key)[m] for m in ("head", "get")], [1, 1])


def half(stage):
    def closed(connection, question):
        begin(connection)
        send(connection, question.head(), *list(question.data())[:5])
        return False

    def ended(connection, question):
        closed(connection, question)
        return end(connection)

    for text, answer in (("half a body", closed), ("an answer without END", ended)):
        counts = stage.origin.counts(stage.provoke(text, answer, False))
        stage.story.fact(f"{text}: the origin gave the rest", counts["get"] == 1 and 0 < counts["bytes"] < SIZE, counts)


def silent(stage):
    def never(connection, question):
        held(connection)

    def acknowledged(connection, question):
        begin(connection)
        held(connection)

    def amid(connection, question):
        begin(connection)
        send(connection, question.head(), *list(question.data())[:5])
        held(connection)

    def slow_head(connection, question):
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        drip(connection, b"X-A: b\r\n")

    def small(connection, question):
        begin(connection)
        send(connection, question.head())
        for data in question.data(step=1):
            send(connection, data)
            time.sleep(0.05)

    for text, answer in (("no answer", never), ("bytes one by one", small), ("a head whose lines never end", slow_head), ("silence after the first word", acknowledged), ("silence in the middle", amid)):
        began = time.monotonic()
        stage.provoke(text, answer, False)
        stage.story.in_time(f"{text}: it costs one deadline", time.monotonic() - began < 8, time.monotonic() - began)


def drip(connection, bytes):
    """Sends this again and again, until the other side has left."""
    try:
        while True:
            connection.sendall(bytes)
            time.sleep(0.05)
    except OSError:
        left.append(bytes)


left = []


def goes_on(stage):
    """A peer declines, or has given all bytes, and does not end."""
    def no(connection, question):
        begin(connection)
        send(connection, frame(NO, b"busy"))
        drip(connection, b"1\r\nx\r\n")

    def trailers(connection, question):
        begin(connection)
        send(connection, frame(NO, b"busy"))
        connection.sendall(b"0\r\n")
        drip(connection, b"X-A: b\r\n")

    def decline(connection, question):
        connection.sendall(b"HTTP/1.1 404 No\r\nContent-Length: 4000\r\n\r\n")
        drip(connection, b"x")

    def whole(connection, question):
        begin(connection)
        send(connection, question.head(), *question.data(), frame(END))
        connection.sendall(b"0\r\n")
        drip(connection, b"X-A: b\r\n")

    for text, answer in (("a NO", no), ("a NO with trailers", trailers), ("a decline", decline), ("an END", whole)):
        left.clear()
        for _ in range(6):
            stage.invite(answer)
            began = time.monotonic()
            if stage.read(f"{text} that goes on"):
                break
        stage.story.in_time(f"{text} that goes on: it is given up", time.monotonic() - began < 8, time.monotonic() - began)
        wait_for(f"{text} that goes on: the node has left", lambda: left)


def waits_for_ever(stage):
    """A peer may wait for its origin, and says so; but not for ever, not even if it has a byte now and then. It answers
    tests, until it is given up."""
    def answer(connection, question):
        began, peer, data = time.monotonic(), stage.peer, question.data(step=1)
        begin(connection)
        send(connection, question.head())
        while True:
            send(connection, next(data), *20 * [frame(WAIT)])
            time.sleep(0.05)
            if time.monotonic() - began > 25:
                peer.hello = None
    stage.provoke("a peer that waits for ever", answer, False, falls_silent=False)


def odd_answers(stage):
    def status(code, body=b""):
        def answer(connection, question):
            connection.sendall(b"HTTP/1.1 %d Odd\r\nContent-Length: %d\r\n\r\n" % (code, len(body)) + body)
            return True
        return answer

    def no(connection, question):
        begin(connection)
        send(connection, frame(WAIT), frame(NO, b"refused"))
        return end(connection)

    for text, answer in (("404", status(404, b"origin\n")), ("503", status(503, b"busy\n")), ("500", status(500, b"x" * 100_000)),
                         ("302", status(302)), ("a late NO", no)):
        for _ in range(6):
            stage.invite(answer)
            stage.read(f"an answer of {text}")
            connections, wrong = stage.peer.connections, stage.read_all(8)
            if not stage.row()["failed"]:
                break
        row, asked = stage.row(), len(stage.peer.questions)
        stage.story.same(f"{text} is no failure", (row["state"], row["bad"], row["failed"], wrong), ("answers", 0, 0, []))
        stage.story.fact(f"{text}: questions share connections", asked > 5 and (
            text == "500" or stage.peer.connections <= connections + 2), f"{stage.peer.connections} for {asked} questions")
    for text, body in (("bytes that are no frames", b"<html>" * 1000), ("an empty answer", b"")):
        stage.provoke(text, status(200, body), bool(body), "no frame" if body else "")


def other_version(stage):
    """A node of a later version, which still speaks this one: its hello and its heads have more in them."""
    def answer(connection, question):
        begin(connection, more="X-Penstock-Later: yes\r\n")
        send(connection, frame(WAIT), question.head(more=("x-penstock-later: 7",)), *question.data(), frame(END))
        return end(connection)
    for _ in range(6):
        stage.invite(answer, protocol=[1, 2], zones=["a"], version="99.0")
        first = next(stage.numbers) + 1
        before = stage.node.metric("penstock_peers_bytes_total")
        wrong = stage.read_all(10)
        if not stage.row()["failed"]:
            break
    asked = len(stage.peer.questions)
    stage.story.fact("a node of the next version: right bytes", not wrong and asked >= 8, (wrong, asked))
    wait_for("all bytes came from it", lambda: stage.node.metric("penstock_peers_bytes_total") - before == asked * SIZE)
    gets = sum(stage.origin.counts(f"bucket/false/size-{SIZE}-{first + n}")["get"] for n in range(10))
    stage.story.same("... and not from the origin", gets, 10 - asked)

    def unknown(connection, question):
        begin(connection)
        send(connection, frame(99, b"later"), question.head(), *question.data(), frame(END))
        return end(connection)
    stage.provoke("a frame of a later version in an answer of this one", unknown, True, "does not know", protocol=[1, 2])

    stage.invite(answer, "away", protocol=[2])
    stage.read("a node that speaks only a later version")
    stage.story.fact("... is not asked, and the reason says what to do", not stage.peer.questions and "run versions" in stage.row()["why"],
                     stage.row())


def odd_hellos(stage):
    own = plain_hello(stage)["node"]
    for text, hello in (("no JSON", b"hello"), ("a long one", b" " * 100_000), ("no id", b"{}"),
                        ("a weight of nothing", json.dumps({"protocol": [1], "node": "ab" * 16, "weight": 0}).encode())):
        stage.peer = FalsePeer(stage.pair, stage.fleet.authority, None)
        stage.peer.hello = hello
        stage.list("away")
        stage.read(f"a hello with {text}")
        stage.story.fact(f"a hello with {text}: the reason is there", rows(stage.node)[stage.peer.address]["why"])
    stage.invite(None, "this node", node=own)
    stage.read("a node with this node's id")
    stage.story.same("... is this node, and is not asked", stage.peer.questions, [])
    stage.invite(None, "away", draining=True)
    stage.read("a node that stops")
    stage.story.same("... is not asked", stage.peer.questions, [])


def plain_hello(stage):
    port = stage.fleet.ports[0]
    return json.loads(Peer(port, stage.fleet.tls(stage.pair), stage.origin.url).hello().body)


PLAYS = (wrong_bytes, other_object, half, silent, goes_on, odd_answers, other_version, odd_hellos, waits_for_ever)
UNNAMED = (wrong_bytes, half, silent, odd_answers, other_version)

with Story("n21 peers that are not what they should be") as story, NameServer() as dns:
    use_tests_daemon()
    origin = story.origin()
    stage = Stage(story, origin, dns)
    for play in PLAYS:
        story.note(play.__name__)
        play(stage)
    stage.client = stage.unnamed
    for play in UNNAMED:
        story.note(f"{play.__name__}, of a version that the node does not know")
        play(stage)
