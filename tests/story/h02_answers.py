"""Answers are whole, in order, or cut with a reset."""
from probe import *


def reads_next_to_nothing(story):
    """A reader that takes some bytes now and then, to keep its place."""
    probe = Probe(story, send_ms=2000, send_progress=262144)
    slow, began = probe.wire(receive_buffer=4096), time.monotonic()
    slow.send(get("/direct?n=100000000&piece=2000000"))
    try:
        while slow.socket.recv(2000):
            time.sleep(0.05)
    except OSError:
        pass
    took = time.monotonic() - began
    story.fact("a reader that takes next to nothing is cut", True)
    story.in_time("... after about send_ms", 1.8 < took < 8, took)
    slow = probe.wire(receive_buffer=65536)
    slow.send(get("/direct?n=4000000&piece=2000000"))
    reply = slow.read(pace=1500000)
    story.in_time("one that takes enough is not", reply.body == pattern(4000000), reply)
    probe.ends_cleanly()


def answers_come_whole(story, tls):
    probe = Probe(story, tls=tls, send_ms=3000, body_memory_bytes=1 << 20)
    wire = probe.wire()
    for n in (0, 1, 4096, 131072, 3000000):
        for path in ("whole", "direct", "stream", "open"):
            wire.send(get(f"/{path}?n={n}&piece=100000"))
            reply = wire.read()
            story.fact(f"/{path} of {n} bytes on one connection", not reply.error
                       and reply.body == pattern(n), (reply, same_bytes(reply.body, pattern(n))))
    wire.send(get("/direct?n=777", method="HEAD") + get("/stream?n=778", method="HEAD") + get("/whole?n=779", method="HEAD"))
    story.same("HEAD has the length and no body", [wire.read("HEAD").headers["content-length"]
                                                   for _ in range(3)], ["777", "778", "779"])
    targets = [f"/p{i}" if i % 3 else f"/stream?n={i * 1000}&piece=7000" for i in range(200)]
    wire.send(b"".join(get(t) for t in targets))
    answers = [wire.read().body for _ in targets]
    story.same("200 pipelined requests are answered in order", answers,
               [f"/p{i}\n".encode() if i % 3 else pattern(i * 1000) for i in range(200)])
    wire.send(put("/echo", b"one") + put("/echo", b"second") + get("/x"))
    story.same("pipelined bodies keep apart", [wire.read().body.split()[0] for _ in range(3)],
               [b"3", b"6", b"/x"])

    wire.send(get("/echo", "Content-Length: 5", "Expect: 100-continue", method="PUT"))
    story.fact("100-continue is sent",
               wire.socket.recv(1000).startswith(b"HTTP/1.1 100 Continue\r\n\r\n"))
    wire.send(b"hello")
    story.same("and the body taken", wire.read().body, f"5 {sum_of(b'hello')}\n".encode())
    for size in (5000, 20_000, 3_000_000):    # a buffer of its own, of another size, a file
        body = pattern(size)
        wire.send(get("/echo", f"Content-Length: {size}", "Expect: 100-continue", method="PUT"))
        invited = wire.socket.recv(1000)
        wire.send(body)
        story.same(f"once, also to one of {size} bytes", (invited, wire.read().body),
                   (b"HTTP/1.1 100 Continue\r\n\r\n", f"{size} {sum_of(body)}\n".encode()))
    reply = probe.ask(get("/echo", "Content-Length: 5", "Expect: 100-continue", "x-deny: 1",
                          method="PUT"))
    story.same("a refused one is not invited", reply.status, 403)
    reply = probe.ask(get("/echo", "Transfer-Encoding: chunked", "Expect: 100-continue",
                          method="PUT") + b"5\r\nhello\r\n0\r\n\r\n")
    story.same("one that did not wait is not told to", (reply.status, reply.body.split()[0]),
               (200, b"5"))

    old = probe.wire()
    old.send(b"PUT /echo HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n"
             b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    time.sleep(0.2)
    old.send(b"hello")
    reply = old.read()
    story.same("HTTP/1.0 is not invited, and its body taken", (reply.status, reply.body),
               (200, f"5 {sum_of(b'hello')}\n".encode()))
    old.close()

    body = random.Random(1).randbytes(6000000)
    held = probe.fd_count()
    writer = probe.wire()
    whole = put("/echo", body)
    writer.send(whole[:5000000])
    wait_for("the body is spilled", probe.spilled)
    story.same("to a file without a name", os.listdir(probe.spill), [])
    writer.send(whole[5000000:])
    story.same("a spilled body is right", writer.read().body,
               f"{len(body)} {sum_of(body)}\n".encode())
    writer.send(get("/y"))
    story.same("and the connection goes on", writer.read().body, b"/y\n")
    writer.close()
    wait_for("the file is closed", lambda: probe.fd_count() <= held)

    for _ in range(5):
        last = probe.wire(receive_buffer=4096)
        last.send(get("/direct?n=300000", "Connection: close") + bytes(200000))
        time.sleep(0.05)
        reply = last.read(pace=3000000)
        story.same("the last answer is whole, though its client still sends",
                   (reply.error, len(reply.body)), (None, 300000))
        last.close()

    before = probe.stats()
    story.same("later, by a timer", probe.ask(get("/later?ms=100")).body, b"later\n")
    hasty = [probe.wire() for _ in range(200)]
    # answered in one turn of a loop, so that the first can leave before its end
    due = time.monotonic() + 0.1
    for client in hasty:
        client.send(get(f"/later?ms={max(0, int((due - time.monotonic()) * 1000))}"))
    for client in hasty:
        client.read()
        client.close()
    story.same("a client that leaves with its answer has a whole one", probe.stats()["incomplete"],
               before["incomplete"])
    leaver = probe.wire()
    leaver.send(get("/never"))
    time.sleep(0.1)
    leaver.close()
    wait_for("a client that leaves while it waits is noticed",
             lambda: probe.stats()["incomplete"] == before["incomplete"] + 1)
    leaver = probe.wire()
    leaver.send(get("/later?ms=2000"))
    leaver.wait_taken()
    leaver.abort()
    leaver = probe.wire()
    leaver.send(get("/stream?n=100000000&piece=100000"))
    leaver.read(stop_after=500000)
    leaver.abort()
    wait_for("one that leaves mid-answer too",
             lambda: probe.stats()["incomplete"] == before["incomplete"] + 3)
    story.same("its source was stopped", probe.stats()["stops"], before["stops"] + 1)
    leaver = probe.wire()
    leaver.send(put("/hold", body))
    leaver.wait_taken()
    leaver.abort()
    wait_for("a held body outlives its client", lambda: probe.stats()["held_sum"] == sum_of(body))
    story.same("no request is left open", probe.stats()["requests"], 1)

    reply = probe.ask(get("/abort?n=5000000&after=2000000&piece=1000000"))
    story.fact("an abort is a reset, not an end", reply.error and reply.error.startswith("reset"),
               reply.error)
    reply = probe.ask(get("/abort?n=5000000&after=0"))
    story.fact("also before the first byte", reply.error and reply.error.startswith("reset"),
               reply.error)

    slow = probe.wire(receive_buffer=4096)
    slow.send(get("/direct?n=100000000&piece=200000"))
    began = time.monotonic()
    before = probe.stats()["incomplete"]
    wait_for("a reader that takes nothing is cut",
             lambda: probe.stats()["incomplete"] == before + 1)
    story.in_time("after about send_ms", 2.8 < time.monotonic() - began < 7,
                  time.monotonic() - began)
    slow.close()
    slow = probe.wire(receive_buffer=65536)
    slow.send(get("/direct?n=8000000&piece=2000000"))
    reply = slow.read(pace=1500000)
    story.in_time("one that is slow but reads is not", not reply.error
                  and reply.body == pattern(8000000), reply)
    probe.ends_cleanly()


with Story("h02 answers are whole, in order, or cut with a reset") as story:
    reads_next_to_nothing(story)
    for tls in (False, True):
        story.note("over TLS" if tls else "over plain TCP")
        answers_come_whole(story, tls)
