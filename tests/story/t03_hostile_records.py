"""What a stranger can do to the records of TLS: none of it keeps a connection, or a loop."""
import ctypes

from probe import *


def drip(wire, data, seconds, every=0.1):
    """Sends a byte at a time beneath TLS; for how long the other side stood it."""
    began, fd = time.monotonic(), wire.socket.fileno()
    wire.socket.settimeout(0)
    for i in range(int(seconds / every)):
        try:
            os.write(fd, data[i:i + 1])
            time.sleep(every)
            if not wire.socket.recv(1):
                break
        except (ssl.SSLWantReadError, BlockingIOError):
            continue
        except OSError:
            break
    return time.monotonic() - began


class Rekeyer:
    """A client that sends records of new keys, which carry nothing, until no more fit."""

    lib = None

    def __init__(self, port):
        lib = Rekeyer.lib = Rekeyer.lib or ctypes.CDLL("libssl.so.3")
        for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
            getattr(lib, name).restype = ctypes.c_void_p
        self.wire = Wire(port, 10)
        self.wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.wire.socket.setblocking(True)
        context = ctypes.c_void_p(lib.SSL_CTX_new(ctypes.c_void_p(lib.TLS_client_method())))
        self.ssl = ctypes.c_void_p(lib.SSL_new(context))
        lib.SSL_set_fd(self.ssl, self.wire.socket.fileno())
        check(lib.SSL_connect(self.ssl) == 1, "no handshake")

    def flood(self):
        count = 0
        self.wire.socket.setblocking(False)
        while self.lib.SSL_key_update(self.ssl, 0) == 1 and self.lib.SSL_do_handshake(self.ssl) == 1:
            count += 1
        return count


RECORD = b"\x17\x03\x03\x40\x00" + bytes(1000)

with Story("t03 records that never end keep nothing") as story:
    if shutil.which("openssl") is None:
        raise Skip("openssl is not installed")
    probe = Probe(story, tls=True, head_ms=1000, idle_ms=1500, connections_max=20)
    took = drip(probe.wire(), RECORD, 6)
    story.in_time("a record that never ends is a head that is too slow", took < 3, took)
    wire = probe.wire()
    wire.send(get("/a"))
    wire.read()
    took = drip(wire, RECORD, 6)
    story.in_time("behind an answer it is a connection without a request", took < 3, took)
    probe.ends_cleanly()
    probe = Probe(story, tls=True, head_ms=60_000, idle_ms=60_000, connections_max=20)

    crowd = [probe.wire() for _ in range(20)]
    for wire in crowd:
        wire.send(get("/a"))
        wire.read()
    for wire in crowd:
        os.write(wire.socket.fileno(), RECORD[:6])
    time.sleep(0.2)
    began = time.monotonic()
    story.same("at the cap it makes room like any that is idle", probe.ask(get("/b")).body, b"/b\n")
    story.in_time("at once", time.monotonic() - began < 0.6, time.monotonic() - began)
    for wire in crowd:
        wire.close()
    probe.ends_cleanly()

    probe = Probe(story, tls=True, loops=1, head_ms=60000)
    crowd = [Rekeyer(probe.port) for _ in range(8)]
    probe.ask(get("/a"))
    probe.process.send_signal(signal.SIGSTOP)
    floods = [client.flood() for client in crowd]
    late = socket.create_connection(("127.0.0.1", probe.plain_port), 30)
    late.sendall(get("/a"))
    began = time.monotonic()
    probe.process.send_signal(signal.SIGCONT)
    late.recv(1000)
    took = time.monotonic() - began
    story.note(f"{sum(floods)} records of new keys, and an answer after {took:.3f} s")
    story.in_time("a flood of new keys has turns like anybody", took < 0.3, (took, floods))
    for client in crowd:
        client.wire.close()
    probe.ends_cleanly()
