"""scripted_peer.py - a node of the fleet that answers as the story says (peers/question.h, peers/frame.h).
SPDX-License-Identifier: Apache-2.0"""
import urllib.parse

from peering import *


class Question:
    """A question that a daemon has sent to the scripted peer, and the parts of an answer."""

    def __init__(self, peer, wire, line, fields):
        self.peer, self.wire, self.at, self.seen = peer, wire, 0, time.monotonic()
        bucket, key = (urllib.parse.unquote(part) for part in line.split()[1].split("/")[3:5])
        self.key, self.etag = f"{bucket}/{key}", fields.get("if-match")
        self.first, last = map(int, fields["range"].removeprefix("bytes=").split("-"))
        self.size = size_of(self.key)
        self.end = min(last + 1, self.size)

    @property
    def frames(self):
        return self.peer.frames_of(self.key, self.first, self.end, self.etag)

    def start(self, said="have"):
        self.wire.sendall(f"HTTP/1.1 200 OK\r\nx-penstock-peer: {said}\r\ntransfer-encoding: chunked\r\n\r\n".encode())

    def send(self, data):
        self.wire.sendall(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def wait(self):
        self.send(frame(WAIT))

    def head(self):
        lines = {"x-penstock-first": self.first, "x-penstock-end": self.end, "x-penstock-size": self.size,
                 "x-penstock-age": 0, "x-penstock-full": 0, "etag": self.etag, "last-modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        self.send(frame(HEAD, "".join(f"{n}: {v}\r\n" for n, v in lines.items()).encode()))

    def data(self, count=None):
        """The next `count` frames, or all that are left."""
        for part in self.frames[self.at:][:count]:
            self.send(part)
            self.at += 1

    def finish(self):
        self.send(frame(END))
        self.wire.sendall(b"0\r\n\r\n")

    def answer(self):
        self.start()
        self.head()
        self.data()
        self.finish()

    def refuse(self, status, why):
        self.wire.sendall(f"HTTP/1.1 {status} No\r\nx-penstock-peer: no\r\ncontent-length: {len(why)}\r\n\r\n{why}"
                          .encode())

    def until_gone(self):
        """Says nothing more; returns when the daemon has given up."""
        self.wire.recv(1)


def size_of(key):
    return int(key.rsplit("size-", 1)[1].split("-")[0])


def frame(kind, payload=b"", start=None):
    return struct.pack("<4sB3sII", b"PSP1", kind, bytes(3), len(payload),
                       crc32c(payload, kind if start is None else start)) + payload


class ScriptedPeer:
    """A node of weight 1000. `act` answers a question, `greet` a hello: with a status. `mute`: it neither accepts nor
    answers, as a process that is stopped."""

    def __init__(self, story, fleet, name, endpoint, byte):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*fleet.node(name))
        self.context.load_verify_locations(fleet.authority.file)
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.endpoint, self.id, self.port = endpoint, f"{byte:02x}" * 16, free_port()
        self.lock, self.made = threading.Lock(), {}
        self.questions, self.hellos, self.open, self.most, self.under_way, self.most_under_way = [], 0, 0, 0, 0, 0
        self.act, self.greet, self.mute = Question.answer, lambda: 200, threading.Event()
        self.listen()

    def frames_of(self, key, first, end, etag):
        """The DATA frames; made once, because checksums take long here."""
        with self.lock:
            if (key, first, end) not in self.made:
                bucket, _, name = key.partition("/")
                seed = crc32c_of((self.endpoint, bucket, name, ""), etag)
                body = expect(key, 1, first, end - first)
                self.made[key, first, end] = [
                    frame(DATA, body[at:at + 65536], crc32c(struct.pack("<Q", first + at), seed))
                    for at in range(0, len(body), 65536)]
            return self.made[key, first, end]

    def listen(self):
        self.listener, self.sockets = socket.create_server(("127.0.0.1", self.port)), []
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def die(self):
        """Nothing listens any more, and all connections end."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for wire in self.sockets:
            try:
                socket.socket.shutdown(wire, socket.SHUT_RDWR)    # not that of TLS, which another thread uses
            except OSError:
                pass    # it has ended

    def _accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with self.lock:
            self.open += 1
            self.most = max(self.most, self.open)
        try:
            while self.mute.is_set():
                time.sleep(0.01)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.context.wrap_socket(connection, server_side=True) as wire:
                self.sockets.append(wire)
                while heard := Listener.hear(wire):
                    while self.mute.is_set():
                        time.sleep(0.01)
                    self._answer(wire, *heard[:2])
        except OSError:
            pass    # the daemon has left, which some phases are about
        with self.lock:
            self.open -= 1

    def _answer(self, wire, line, fields):
        if line.split()[1] == "/peer/hello":
            self.hellos += 1
            body = json.dumps({"protocol": [1], "node": self.id, "weight": 1000, "version": "0", "draining": False})
            wire.sendall(f"HTTP/1.1 {self.greet()} Hello\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
            return
        question = Question(self, wire, line, fields)
        with self.lock:
            self.questions.append(question)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            self.act(question)
        finally:
            with self.lock:
                self.under_way -= 1
