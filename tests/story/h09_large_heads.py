"""Heads above 8 KiB share a budget; small ones need none of it."""
from probe import *

SMALL = 8192


def head_of(size, *fields, method="GET", path="/a"):
    bare = get(path, *fields, "x-fill: ", method=method)
    return get(path, *fields, "x-fill: " + "x" * (size - len(bare)), method=method)


with Story("h09 large heads share a budget, and small ones go on") as story:
    probe = Probe(story, heads_bytes=512 << 10, head_ms=20000)    # four of them
    whole = head_of(20000)

    def begun(size=12000):
        wire = probe.wire()
        wire.send(whole[:size])
        return wire

    def taken():
        return probe.stats()["heads"] >> 17

    def asked(data, status=200):
        return probe.ask(data).status == status
    story.fact("a large head is taken", asked(whole))
    wait_for("and what it held is given back", lambda: taken() == 0)
    crowd = [begun() for _ in range(4)]
    wait_for("four more that are begun hold all there is", lambda: taken() == 4)
    late = begun(SMALL)
    story.same("who comes then may begin", (probe.stats()["heads_refused"], late.hears(0.2)), (0, None))
    late.send(b"x")
    reply = late.read()
    story.same("and is refused at the first byte too many", (reply.status, reply.body[:9], probe.stats()["heads_refused"]),
               (503, b"ERR_LIMIT", 1))
    story.fact("small ones go on, up to the last byte", asked(head_of(SMALL)) and asked(get("/b")))
    wire = probe.wire()
    wire.send(head_of(3000) * 40)
    story.same("also many behind each other", [wire.read().status for _ in range(40)], [200] * 40)
    wire.close()
    story.fact("and with bodies", asked(put("/echo", bytes(2 << 20))) and asked(put("/echo", bytes(6000))))
    crowd[0].send(whole[12000:])
    story.same("one that is complete is answered", crowd[0].read().status, 200)
    wait_for("and makes room", lambda: taken() == 3)
    story.fact("for another", asked(whole))
    crowd[1].abort()
    wait_for("as does one that leaves", lambda: taken() == 2)
    crowd[2].send(b"\n")
    story.same("and one that is wrong", (crowd[2].read().status, crowd[2].gone()), (400, True))
    wait_for("when it is closed", lambda: taken() == 1)
    crowd[3].send(whole[12000:])
    crowd[3].read()
    wait_for("now all is given back", lambda: taken() == 0)

    wire = probe.wire()
    wire.send(head_of(20000, "Content-Length: 10000", method="PUT", path="/echo") + bytes(10000) + get("/next"))
    story.same("a body behind a large head", wire.read().body.split()[0], b"10000")
    story.same("and what comes behind that", wire.read().body, b"/next\n")
    wait_for("hold nothing after", lambda: taken() == 0 and probe.stats()["body_memory"] == 0)
    wire.send(head_of(20000, "Transfer-Encoding: chunked", "x-bytes: 3", method="PUT", path="/echo") + b"3\r\nabc\r\n0\r\n\r\n" +
              head_of(3000) * 15)
    story.same("nor much behind a chunked one", [wire.read().status for _ in range(16)], [200] * 16)
    wait_for("when it has been answered", lambda: taken() == 0 and probe.stats()["body_memory"] == 0)
    wire.close()
    story.same("nobody else was refused", probe.stats()["heads_refused"], 1)
    probe.ends_cleanly()
