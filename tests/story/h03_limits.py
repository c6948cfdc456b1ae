"""Slow heads, idle connections, the connection cap, and the way down."""
from probe import *

with Story("h03 slow heads, idle connections, the cap, and the way down") as story:
    probe = Probe(story, head_ms=600, idle_ms=1500, request_ms=2500, connections_max=300,
                  body_bytes_max=4000000)
    slow = probe.wire()
    began = time.monotonic()
    for byte in b"GET /a HTTP/1.1\r\nHost":
        slow.send(bytes([byte]))
        time.sleep(0.02)
    reply = slow.read()
    took = time.monotonic() - began
    story.in_time("a slow head is cut at head_ms", reply.status == 408 and 0.5 < took < 1.2,
                  (reply, took))
    silent = probe.wire()
    began = time.monotonic()
    story.in_time("silence is closed", silent.gone() and 0.5 < time.monotonic() - began < 1.2,
                  time.monotonic() - began)
    idle = probe.wire()
    idle.send(get("/a"))
    idle.read()
    began = time.monotonic()
    story.in_time("an idle connection is closed at idle_ms", idle.gone()
                  and 1.3 < time.monotonic() - began < 2.2, time.monotonic() - began)
    idle = probe.wire()
    idle.send(get("/a"))
    idle.read()
    time.sleep(0.9)    # longer than head_ms
    idle.send(get("/b"))
    story.in_time("but not before", idle.read().body == b"/b\n")

    slow = probe.wire()
    slow.send(get("/echo", "Content-Length: 100", method="PUT") + b"half")
    began = time.monotonic()
    reply = slow.read()
    took = time.monotonic() - began
    story.in_time("a slow body is refused at request_ms", reply.body[:11] == b"ERR_TIMEOUT"
                  and 2.3 < took < 3.2, (reply, took))
    chunk = b"10000\r\n" + bytes(65536) + b"\r\n"
    chunked = get("/echo", "Transfer-Encoding: chunked", method="PUT")
    story.same("a chunked body over the limit is refused in the app's words",
               probe.ask(chunked + chunk * 64 + b"0\r\n\r\n").body[:13], b"ERR_TOO_LARGE")
    story.same("one below it is not",
               probe.ask(chunked + chunk * 50 + b"0\r\n\r\n").body.split()[0], b"3276800")

    for path in ("/hold", "/echo"):
        stuck = probe.wire()
        stuck.send(get(path, "Content-Length: 100", method="PUT") + b"half")
        stuck.close()

    probe.ends_cleanly()

    # ---- many heads that end at the same moment ----
    for waits in ({"head_ms": 600}, {"head_ms": 60_000, "request_ms": 600}):
        probe = Probe(story, **{"idle_ms": 60_000, "connections_max": 1000, **waits})
        half = b"GET /a HTTP/1.1\r\nHo" if "request_ms" not in waits else get("/echo", "Content-Length: 9", method="PUT") + b"h"
        crowd = [probe.wire() for _ in range(900)]
        for wire in crowd:
            wire.send(half)
        wait_for("the loops have read them", lambda: probe.stats()["connections"] >= 901)
        probe.process.send_signal(signal.SIGSTOP)
        time.sleep(1)    # then all are late in one turn of their loop
        probe.process.send_signal(signal.SIGCONT)
        story.same(f"900 at once are late ({waits}): all hear it", [w.read().status in (408, 503) for w in crowd], [True] * 900)
        story.same("... and the next one is served", probe.ask(get("/a")).body, b"/a\n")
        for wire in crowd:
            wire.close()
        probe.ends_cleanly()

    # ---- a crowd: silent ones stay for 3 s, and idle ones for as long as this takes ----
    probe = Probe(story, head_ms=3000, idle_ms=120_000, connections_max=300)

    def gather():
        """Opens 300 silent connections. Returns None if the first of them were closed before the last one came."""
        wires = [probe.wire() for _ in range(300)]
        if probe.stats()["connections"] >= 301:
            return wires
        for wire in wires:
            wire.close()
        wait_for("they are gone", lambda: probe.stats()["connections"] == 1)
        return None

    crowd = wait_for("300 connections are open", gather)
    late = probe.wire()
    late.send(get("/late"))
    story.same("the admin address answers at the cap", plain(probe.admin, "GET", "/x").body,
               b"/x\n")
    began = time.monotonic()
    story.same("a newcomer is served when slow ones have gone", late.read().body, b"/late\n")
    story.in_time("it had to wait", time.monotonic() - began > 0.2, time.monotonic() - began)
    late.close()
    for wire in crowd:
        wire.close()
    wait_for("the crowd is gone", lambda: probe.stats()["connections"] == 1)

    crowd = [probe.wire() for _ in range(300)]
    for wire in crowd:
        wire.send(get("/a"))
    for wire in crowd:
        wire.read()
    began = time.monotonic()
    story.same("at the cap an idle connection makes room", probe.ask(get("/new")).body, b"/new\n")
    story.in_time("at once", time.monotonic() - began < 0.5, time.monotonic() - began)
    for wire in crowd:
        wire.close()
    wait_for("the crowd is gone again", lambda: probe.stats()["connections"] == 1)

    def load(count):
        wire = probe.wire()
        for i in range(count):
            wire.send(get(f"/stream?n={i * 997 % 300000}&piece=65536"))
            if wire.read().body != pattern(i * 997 % 300000):
                return False
        return True
    story.same("40 clients at once", together(*[lambda: load(25)] * 40), [True] * 40)

    second = subprocess.run([PROBE, str(probe.port), str(free_port()), probe.spill],
                            capture_output=True, text=True)
    story.fact("a taken port is noticed", second.returncode == 2
               and "another process listens there" in second.stdout, second.stdout)
    idle = probe.wire()
    idle.send(get("/a"))
    idle.read()
    running = probe.wire()
    running.send(get("/later?ms=2000"))
    running.wait_taken()
    probe.process.send_signal(signal.SIGTERM)
    story.in_time("draining closes idle connections before the running answers are sent", idle.gone(1.5))
    reply = running.read()
    story.same("running answers are finished, and say close", (reply.body, reply.closed),
               (b"later\n", True))
    try:
        probe.wire()
        refused = False
    except OSError:
        refused = True
    story.fact("nobody is accepted any more", refused)
    probe.ends_cleanly()
