"""fleet_faults.py - nodes that share what one of them fetched: real daemons on this machine, and a node that lies.
SPDX-License-Identifier: Apache-2.0

    fleet = Fleet(story, origin, 4)             # four daemons, which know each other by a static list
    fleet.wait_others(fleet.nodes, 3)
    with Load(fleet.nodes[:2], "bucket/a") as load:
        fleet.nodes[3].kill()
        load.wait(50)                           # so many objects more were read since
    story.same("no client has noticed", load.wrong, [])
"""
import itertools
import ssl
from urllib.parse import unquote

import peering
from peering import *


def size_of(key):
    """Of an object of the scripted origin, whose key has its size."""
    return int(key.rsplit("size-", 1)[1].split("-")[0])


def judge(reply, key):
    """None for a whole answer with the right bytes, else what is wrong."""
    why = reply.error or (reply.status != 200 and f"status {reply.status} {reply.code}") or \
        same_bytes(reply.body, expect(key, 1, 0, size_of(key)), key)
    return f"{key}: {why}" if why else None


def read_all(node, keys, first=0, client=Client):
    """Reads all keys over one connection, beginning with another one; returns what was wrong."""
    client = client(node.port, keep=True)
    return [why for key in keys[first:] + keys[:first] if (why := judge(client.get(key), key))]


class Fleet(peering.Fleet):
    """Daemons with one authority and one certificate. They know each other by a static list, unless `peers` is set."""

    def __init__(self, story, origin, count, start=None, host="127.0.0.1", **settings):
        super().__init__(story)
        self.story, self.ports = story, [free_port() for _ in range(count)]
        self.addresses = [f"{host}:{port}" for port in self.ports]
        cert, key = self.node("node")
        self.shared = {"origin": origin.url, "peer_name": FLEET, "peer_tls_cert_file": cert, "peer_tls_key_file": key,
                       "peer_tls_ca_file": self.authority.file, "peers": ",".join(self.addresses), **settings}
        self.nodes = [self.start(n) for n in range(count if start is None else start)]

    def start(self, n, env=None, **changes):
        return self.story.penstock(env=env, **{"cache_dir": self.story.path(f"cache-{n}"), "peer_listen": self.addresses[n],
                                               **self.shared, **changes})

    def again(self, n, **changes):
        """Node n on its folder; it may have ended before."""
        self.nodes[n].stop()
        self.nodes[n] = self.nodes[n].again(**changes)
        return self.nodes[n]

    def wait_others(self, nodes, count):
        for node in nodes:
            wait_for(f"the node at {node.port} knows {count} others",
                     lambda n=node: n.metric("penstock_peers") == count, 2 * PATIENCE)

    def sum(self, name, nodes=None):
        return int(sum(node.metric(f"penstock_peers_{name}_total") for node in nodes or self.nodes))


def rows(node):
    """What a node says of each address of its list: {address: row of /status}."""
    return {row["address"]: row for row in document(node).get("peers", [])}


def document(node):
    token = node.settings.get("admin_token")
    headers = [f"Authorization: Bearer {token}"] if token else []
    return json.loads(plain(node.admin_port, "GET", "/status", headers=headers).body)


def wait_state(node, address, state, seconds=2 * PATIENCE):
    """Waits until a node says this of an address, and returns the row."""
    return wait_for(f"{address} is {state}: {rows(node)}",
                    lambda: (row := rows(node).get(address)) and row["state"] == state and row, seconds)


class Load:
    """Clients of some nodes, one each, which read new small objects one after another until the end of the block. All
    read the same ones, each from another place on, so that each object is asked for on several nodes."""

    def __init__(self, nodes, prefix, size=20_000, each_s=0.05):
        """each_s: a pause between reads, so that a test of faults is none of speed."""
        self.nodes, self.prefix, self.size, self.each_s = nodes, prefix, size, each_s
        self.wrong, self.counts, self.over = [], [0] * len(nodes), False
        self.threads = [threading.Thread(target=self.run, args=(i, node), daemon=True) for i, node in enumerate(nodes)]

    def run(self, which, node):
        client = Client(node.port, keep=True)
        for n in itertools.count(5 * which):
            if self.over:
                return
            key = f"{self.prefix}/size-{self.size + n}-{n}"
            if why := judge(client.get(key), key):
                self.wrong.append(why)
            self.counts[which] += 1
            time.sleep(self.each_s)

    def wait(self, count):
        """Waits until each client has read so many more."""
        want = [had + count for had in self.counts]
        wait_for(f"{count} more reads", lambda: all(had >= w for had, w in zip(self.counts, want)))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        for thread in self.threads:
            thread.join(2 * PATIENCE)


# ---- a node that lies ----

class Question:
    """What a node asks a peer for."""

    def __init__(self, line, fields):
        self.line, self.fields = line, fields
        _, _, _, bucket, key = line.split(" ")[1].split("?")[0].split("/")
        self.key = f"{bucket}/{unquote(key)}"
        self.first, last = map(int, fields["range"].split("=")[1].split("-"))
        self.end = min(last + 1, size_of(self.key))
        self.etag = fields.get("if-match") or synthetic_etag(self.key, 1)    # without: the version is not known
        self.texts = (fields["x-penstock-endpoint"], bucket, unquote(key), "")

    def head(self, first=None, end=None, size=None, etag=None, more=()):
        """The frame HEAD; `more`: lines behind the numbers."""
        numbers = (("first", self.first if first is None else first), ("end", self.end if end is None else end),
                   ("size", size or size_of(self.key)), ("age", 0), ("full", 1))
        lines = [*(f"x-penstock-{name}: {n}" for name, n in numbers), *more, f"etag: {etag or self.etag}",
                 "content-type: application/octet-stream", "last-modified: Wed, 01 Jan 2025 00:00:00 GMT"]
        return frame(HEAD, "".join(f"{line}\r\n" for line in lines).encode())

    def data(self, lie=lambda payload: payload, step=16384):
        """DATA frames with the right checksums; `lie` may change the bytes that they have."""
        for at in range(self.first, self.end, step):
            payload = expect(self.key, 1, at, min(step, self.end - at))
            seed = crc32c(struct.pack("<Q", at), crc32c_of(self.texts, self.etag))
            yield frame(DATA, lie(payload), crc32c(payload, seed))


def frame(kind, payload=b"", crc=None):
    return struct.pack("<4sB3sII", b"PSP1", kind, bytes(3), len(payload),
                       crc32c(payload, kind) if crc is None else crc) + payload


class FalsePeer(Listener):
    """An address of the list where the story itself answers: `hello` (the JSON, or bytes, or None: never), and
    `answer`(connection, question), which returns true if the connection can go on."""

    def __init__(self, pair, authority, answer=None, **hello):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*pair)
        self.context.load_verify_locations(authority.file)
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.hello = {"protocol": [1], "node": os.urandom(16).hex(), "weight": 1000, "version": "9.9", "draining": False, **hello}
        self.answer, self.questions, self.hellos = answer, [], 0
        super().__init__()
        self.address = f"127.0.0.1:{self.port}"

    def serve(self, connection):
        with self.context.wrap_socket(connection, server_side=True) as secure:
            while heard := self.hear(secure):
                line, fields, _ = heard
                if line.startswith("GET /peer/hello "):
                    self.hellos += 1
                    if self.hello is None:
                        held(secure)
                        return
                    body = self.hello if isinstance(self.hello, bytes) else json.dumps(self.hello).encode()
                    secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                else:
                    self.questions.append(line)
                    if not self.answer(secure, Question(line, fields)):
                        return


def held(connection):
    """Says nothing until the other side has left."""
    connection.settimeout(PATIENCE)
    while connection.recv(4096):
        pass


def begin(connection, said="fetching", more=""):
    connection.sendall(f"HTTP/1.1 200 OK\r\nX-Penstock-Peer: {said}\r\n{more}Transfer-Encoding: chunked\r\n\r\n".encode())


def send(connection, *frames):
    for each in frames:
        connection.sendall(b"%x\r\n%b\r\n" % (len(each), each))


def end(connection):
    connection.sendall(b"0\r\n\r\n")
    return True
