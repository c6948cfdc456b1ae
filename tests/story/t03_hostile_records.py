"""What a stranger can do to the records of TLS: none of it keeps a connection, or a loop."""
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


RECORD = b"\x17\x03\x03\x40\x00" + bytes(1000)

with Story("t03 records that never end keep nothing") as story:
    if shutil.which("openssl") is None:
        raise Skip("openssl is not installed")
    probe = Probe(story, tls=True, head_ms=1000, idle_ms=1500, connections_max=20)
    took = drip(probe.wire(), RECORD, 6)
    story.fact("a record that never ends is a head that is too slow", took < 3, took)
    wire = probe.wire()
    wire.send(get("/a"))
    wire.read()
    took = drip(wire, RECORD, 6)
    story.fact("behind an answer it is a connection without a request", took < 3, took)

    crowd = [probe.wire() for _ in range(20)]
    for wire in crowd:
        wire.send(get("/a"))
        wire.read()
    for wire in crowd:
        os.write(wire.socket.fileno(), RECORD[:6])
    time.sleep(0.2)
    began = time.monotonic()
    story.same("at the cap it makes room like any that is idle", probe.ask(get("/b")).body, b"/b\n")
    story.fact("at once", time.monotonic() - began < 0.6, time.monotonic() - began)
    for wire in crowd:
        wire.close()
    probe.ends_cleanly()
