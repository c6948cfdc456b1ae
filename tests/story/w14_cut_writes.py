"""A connection that ends under a write: what the origin may have read whole is not sent again, what
it can't have read is."""
import select

from authority import *

ANSWER = (b'HTTP/1.1 200 OK\r\nETag: "e"\r\nLast-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n'
          b"Content-Length: 2\r\n\r\n")
RESET = struct.pack("ii", 1, 0)


class Cutting(Listener):
    """Answers all, on connections that stay until the idle ones are ended; but ends that of the next
    write, if it is told how: when it has read all of it, or so many bytes of its body. Behind TLS if
    it is given who it is."""

    def __init__(self, signed=None):
        self.writes, self.how, self.after, self.upto, self.first = 0, None, 0, None, b""
        self.idle_ends, self.over, self.tls = 0, 0, None
        if signed:
            self.scheme, self.tls = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*signed)
        super().__init__()

    def serve(self, connection):
        try:
            self.answer(connection, self.idle_ends)
        finally:
            self.over += 1

    def answer(self, connection, idle_ends):
        if self.tls:
            connection = self.tls.wrap_socket(connection, server_side=True)
        with connection, connection.makefile("rb") as come:
            while self.stays(connection, idle_ends) and (line := come.readline()):
                length, reads = 0, line.split()[0] in (b"GET", b"HEAD")
                while (field := come.readline()) != b"\r\n":
                    name, value = field.lower().split(b":", 1)
                    length = int(value) if name == b"content-length" else length
                if not reads and self.how:
                    self.cut(connection, come, length)
                    return
                come.read(length)
                self.writes += not reads
                connection.sendall(ANSWER + (b"" if line.startswith(b"HEAD") else b"hi"))

    def stays(self, connection, idle_ends):
        """Until something comes, or its idle time is over: behind TLS it says so first."""
        while not select.select([connection], [], [], 0.01)[0]:
            if self.idle_ends != idle_ends:
                connection.settimeout(0)
                if self.tls:
                    connection.unwrap()    # or not: it is said, and no answer waited for
                return False
        return True

    def cut(self, connection, come, length):
        how, self.how = self.how, None
        come.read(length if self.upto is None else self.upto)
        self.writes += self.upto is None
        connection.sendall(self.first)
        time.sleep(self.after)
        if how == "RST":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def writes(server):
    deletes = b"<Delete><Object><Key>a</Key></Object></Delete>"
    return {"PUT of 4 bytes": lambda: server.put("bucket/x", b"body"),
            "PUT of 1 MiB": lambda: server.put("bucket/x", bytes(MIB)),
            "PUT of 8 MiB": lambda: server.put("bucket/x", bytes(8 * MIB)),
            "DELETE": lambda: server.delete("bucket/x"),
            "DeleteObjects": lambda: server.ask("POST", "bucket", [("delete", "")], body=deletes),
            "CopyObject": lambda: server.put("bucket/x", b"", {"x-amz-copy-source": "bucket/a"})}


def warm(server, origin):
    """One connection is kept, and served before."""
    origin.writes, origin.upto, origin.first, origin.after = 0, None, b"", 0
    server.get(f"bucket/warm-{time.monotonic_ns()}")
    before = origin.connections
    server.get(f"bucket/warm-{time.monotonic_ns()}")
    check(origin.connections == before, "the connection is kept")


def what_may_be_there(story, server, origin):
    for name, write in writes(server).items():
        for how, after, first in (("FIN", 0, b""), ("FIN", 0.3, b""), ("RST", 0, b""),
                                  ("RST", 0.3, b""), ("FIN", 0, b"HTTP/1.1 20")):
            warm(server, origin)
            origin.how, origin.after, origin.first = how, after, first
            reply = write()
            begun = ", its answer begun" if first else ""
            story.same(f"{origin.scheme}: {name}, read whole, then {how} after {after} s{begun}: it is there once, "
                       "and the client is told", (origin.writes, reply.status in (502, 503), reply.code != ""), (1, True, True))


def what_can_not(story, server, origin):
    for name, write in writes(server).items():
        warm(server, origin)
        before = origin.connections
        story.same(f"{origin.scheme}: {name} goes over a connection that was kept",
                   (write().status, origin.writes, origin.connections - before), (200, 1, 0))
        warm(server, origin)
        origin.idle_ends += 1
        wait_for("all that were kept have ended", lambda: origin.over == origin.connections)
        before = origin.connections
        reply = write()
        story.same(f"{origin.scheme}: {name} on a connection that had ended: over a new one",
                   (reply.status, origin.writes, origin.connections - before), (200, 1, 1))
    for how in ("FIN", "RST"):
        warm(server, origin)
        origin.how, origin.upto = how, MIB
        reply = server.put("bucket/x", bytes(64 * MIB))
        story.same(f"{origin.scheme}: a PUT cut by {how} before all of it was out: again", (reply.status, origin.writes), (200, 1))


with Story("w14 a write that the origin may have is not sent again", seconds=150) as story:
    if shutil.which("openssl") is None:
        raise Skip("openssl is not installed")
    ours = Authority(story, "ours")
    for origin in (Cutting(), Cutting(ours.sign("origin"))):
        server = story.penstock(origin=origin.url, origin_ca_file=ours.file, origin_threads=1,
                                cache_dir=story.path(origin.scheme))
        what_can_not(story, server, origin)
        what_may_be_there(story, server, origin)
        story.same("... and ends cleanly", server.stop(), 0)
