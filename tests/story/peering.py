"""peering.py - another node of the fleet, as a node hears it (peers/question.h, peers/frame.h).
SPDX-License-Identifier: Apache-2.0"""
from authority import *
from damage import crc32c

SEGMENT = 8 * MIB
FLEET = "fleet.internal"
WAIT, HEAD, DATA, END, NO = range(1, 6)


class Fleet:
    """The authority of a fleet, and the certificates of its nodes."""

    def __init__(self, story, name="fleet-ca"):
        self.authority = Authority(story, name)

    def node(self, name, host=f"DNS:{FLEET}", **how):
        return self.authority.sign(name, host, **how)

    def settings(self, node, **changes):
        """What a daemon needs so that it answers peers, and the port."""
        cert, key = self.node(node)
        port = free_port()
        return port, {"peer_listen": f"127.0.0.1:{port}", "peer_tls_cert_file": cert, "peer_tls_key_file": key,
                      "peer_tls_ca_file": self.authority.file, "peer_name": FLEET, **changes}

    def tls(self, pair):
        """What a node with this certificate speaks TLS with; pair None: it has none."""
        return Named(self.authority.client(), pair)


class Sources:
    """Where the bytes came from that a node's clients have got since now, by the metrics of the node."""
    NAMES = {"cache": "front_cache_bytes", "peers": "front_peers_bytes", "origin": "front_origin_bytes",
             "peers sent": "peers_bytes", "origin sent": "origin_received_bytes", "fetched": "cache_origin_bytes",
             "fills": "fill_peers_bytes"}

    def __init__(self, node):
        self.node, self.before = node, self.counts(node)

    @classmethod
    def counts(cls, node):
        found = node.metrics()
        return {name: int(found[f"penstock_{metric}_total"]) for name, metric in cls.NAMES.items()}

    def moved(self):
        return {name: count - self.before[name] for name, count in self.counts(self.node).items() if count != self.before[name]}

    def since(self, clients=0, sent=0):
        """{name: bytes}, of the names whose counters have moved: when clients have got so many bytes, and peers and origins
        have sent so many. The counters rise a moment after a client has the bytes."""
        def of(found, *names):
            return sum(found.get(name, 0) for name in names)
        return wait_for(f"{clients} bytes to clients and {sent} from others are counted: {self.moved()}", lambda: (
            of(found := self.moved(), "cache", "peers", "origin") >= clients and of(found, "peers sent", "origin sent") >= sent and found))


class Named:
    """Asks for the name of the fleet, not for an address."""

    def __init__(self, context, pair):
        self.context = context
        if pair:
            context.load_cert_chain(*pair)

    def wrap_socket(self, plain_socket, server_hostname=None, **how):
        return self.context.wrap_socket(plain_socket, server_hostname=FLEET, **how)


class Answer:
    """The frames of an answer, whose checksums were verified."""

    def __init__(self, reply, seed):
        self.reply, self.status, self.said = reply, reply.status, reply.headers.get("x-penstock-peer")
        self.waits, self.fields, self.body, self.why, self.ended, self.wrong = 0, {}, b"", None, False, None
        self.kinds, self.sizes = [], []
        rest = reply.body if self.status == 200 else b""
        self.wrong = self.read(rest, seed)

    def read(self, rest, seed):
        at = 0
        while rest and not self.ended and self.why is None:
            if len(rest) < 16:
                return "a cut frame"
            magic, kind, zero, size, crc = struct.unpack("<4sB3sII", rest[:16])
            payload, rest = rest[16:16 + size], rest[16 + size:]
            if len(payload) < size:
                return "a cut payload"
            if kind == DATA:
                start = crc32c(struct.pack("<Q", self.first + at), crc32c_of(seed, self.fields["etag"]))
                at += size
            else:
                start = kind
            if magic != b"PSP1" or zero != bytes(3) or crc != crc32c(payload, start):
                return f"frame {len(self.kinds)} is damaged: {magic} {kind} {size} {crc:08x}"
            self.take(kind, payload)
        return f"{len(rest)} bytes behind the end" if rest else None

    def take(self, kind, payload):
        self.kinds.append(kind)
        self.sizes.append(len(payload))
        self.waits += kind == WAIT
        if kind == HEAD:
            lines = payload.decode("latin-1").split("\r\n")[:-1]
            self.fields = dict(line.split(": ", 1) for line in lines)
            self.first, self.end, self.size = (int(self.fields[f"x-penstock-{n}"]) for n in ("first", "end", "size"))
        elif kind == DATA:
            self.body += payload
        elif kind == NO:
            self.why = payload.decode()
        self.ended |= kind == END

    def __repr__(self):
        text = self.reply.body[:60] if self.status != 200 else ""
        return (f"<{self.status} {self.said} {self.reply.error or ''} {text} "
                f"waits {self.waits} kinds {self.kinds[-4:]} no {self.why} {self.wrong or ''}>")


def crc32c_of(seed, etag):
    """The checksum's seed: each text with its length, the ETag last."""
    crc = 0
    for text in (*seed, etag):
        text = text.encode()
        crc = crc32c(text, crc32c(struct.pack("<Q", len(text)), crc))
    return crc


class Peer:
    """Asks as another node does. One connection a question, unless told to keep one."""

    def __init__(self, port, tls, endpoint, identity=ORIGIN_KEY):
        self.port, self.tls, self.endpoint, self.identity = port, tls, endpoint, identity

    def head_of(self, key, first=0, end=None, target=None, method="GET", **fields):
        """The bytes of a question. A field of None is left out; its name has '_' for '-'."""
        bucket, _, rest = key.partition("/")
        headers = {"x-penstock-node": "ab" * 16, "x-penstock-endpoint": self.endpoint,
                   "x-penstock-identity": self.identity, "range": f"bytes={first}-{(end or SEGMENT) - 1}",
                   "if-match": synthetic_etag(key, 1), **{n.replace("_", "-"): v for n, v in fields.items()}}
        lines = [f"{method} {target or f'/peer/1/{bucket}/{uri(rest)}'} HTTP/1.1", f"Host: {FLEET}",
                 *(f"{n}: {v}" for n, v in headers.items() if v is not None)]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def wire(self):
        return Wire(self.port, tls=self.tls)

    def ask(self, key, *where, **fields):
        """The answer; or the failure of the connection, as text."""
        try:
            wire = self.wire()
            wire.send(self.head_of(key, *where, **fields))
        except OSError as failure:
            return str(failure)
        answer = self.read(wire, key)
        wire.close()
        return answer

    def read(self, wire, key):
        bucket, _, rest = key.partition("/")
        return Answer(wire.read(), (self.endpoint, bucket, rest, ""))

    def hello(self):
        wire = self.wire()
        wire.send(b"GET /peer/hello HTTP/1.1\r\nHost: h\r\n\r\n")
        return wire.read()
