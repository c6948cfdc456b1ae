"""The disk fails under a body that lies on it: its client has a clear failure, and nobody else is hurt."""
from forms import *

SIZE = 192 * MIB


class Slow(Listener):
    """An origin that takes the head of a PUT, and its body when it is told to."""

    def __init__(self):
        self.begun, self.go = threading.Event(), threading.Event()
        super().__init__()

    def serve(self, wire):
        while got := wire.recv(65536):
            self.begun.set()
            self.go.wait(30)
            if got.startswith((b"GET", b"HEAD")):
                wire.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")


def body_file(server):
    for fd in os.listdir(f"/proc/{server.pid}/fd"):
        path = f"/proc/{server.pid}/fd/{fd}"
        try:
            if "/body." in os.readlink(path):
                return path
        except OSError:
            pass
    return None


def lose(server):
    """What a disk that fails does to a map: its bytes are not there any more."""
    os.truncate(wait_for("the body lies in a file", lambda: body_file(server)), 0)


def read_out(wire):
    """Waits until the daemon has read what was sent: what it reads into a file that was cut is zeroes,
    but there, and no disk that fails."""
    wire.wait_taken()


def begun(server, data, payload):
    wire = Wire(server.port, 60)
    wire.send(server.client.head_of("PUT", "bkt/k", payload=payload,
                                    headers={"content-length": str(len(data))}))
    return wire


with Story("w12 a disk that fails under a body is a failure of that request alone") as story:
    origin, data = Slow(), story.random.randbytes(MIB) * (SIZE // MIB)
    digest = hashlib.sha256(data).hexdigest()
    server = story.penstock(origin=origin.url, browser_uploads="1GiB", body_memory="64KiB", bodies_memory="8MiB")

    def lives(text):
        check(server.alive(), f"{text}: {server.log()[-500:]}")
        wait_for("its body is let go of", lambda: not body_file(server))    # or the next is taken for it
        story.fact(text, True)

    wire = begun(server, data, digest)
    wire.send(data[:SIZE // 2])
    lose(server)
    wire.send(data[SIZE // 2:])
    story.same("lost while it is received", wire.read().status, 400)
    lives("which is that request's failure")
    wire = begun(server, data, digest)
    wire.send(data[:-1000])
    time.sleep(0.5)
    wire.send(data[-1000:])
    read_out(wire)    # to verify takes some hundred times as long as that
    lose(server)
    story.same("lost while it is verified", wire.read().status, 503)
    lives("... too")
    origin.begun.clear()
    wire = begun(server, data, "UNSIGNED-PAYLOAD")
    wire.send(data)
    origin.begun.wait(20)
    lose(server)
    origin.go.set()
    reply = wire.read()
    story.same("lost while it is sent", (reply.status, b"disk" in reply.body), (503, True))
    lives("... too")

    origin.go.clear()    # however late the disk fails, the form has not all been sent
    body = form_of(signed("bkt", "k", (ACCESS_KEY, SECRET_KEY)), data)
    head = f"POST /bkt HTTP/1.1\r\nHost: h\r\n{FORM_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    wire = Wire(server.port, 60)
    wire.send(head + body[:-1000])
    time.sleep(0.5)
    wire.send(body[-1000:])
    read_out(wire)
    lose(server)
    origin.go.set()
    reply = wire.read()
    story.same("a form, lost while it is read", (reply.status, b"disk" in reply.body), (503, True))
    lives("... too")
    origin.go.clear()
    before = origin.connections
    wire = Wire(server.port, 60)
    wire.send(head + body)
    wait_for("the form goes on", lambda: origin.connections > before)
    lose(server)
    origin.go.set()
    reply = wire.read()
    story.same("... lost while it is sent", (reply.status, b"disk" in reply.body), (503, True))
    lives("... too")
    files = glob.glob(os.path.join(server.cache_dir, "**"), recursive=True)
    story.fact("nobody blames the index", not any("suspect" in name for name in files), files)
    story.same("SIGTERM ends it cleanly", server.stop(), 0)
