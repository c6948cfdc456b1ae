"""Where request bodies lie: never a reason to fail while there is memory for them."""
from probe import *

GONE = 'penstock_http_refused_total{cause="no_room"}'


def half_of(wire, body):
    wire.send(put("/echo", body)[:-1000])
    return wire


def just_too_large(story):
    """Bodies of which a byte does not fit in a socket's first buffer, 8 KiB with the head."""
    probe = Probe(story, body_memory_bytes=4096)
    head = get("/echo", "Content-Length: 8000", method="PUT")
    head = get("/echo", f"Content-Length: {8193 - len(head)}", method="PUT")
    for turn in range(40):
        wire = probe.wire()
        wire.send(get("/a") + head + bytes(1000))
        wait_for("it is to lie in a file", probe.on_disk)
        wire.abort()
        wait_for("which nobody needs when the client has gone", lambda: probe.on_disk() == 0)
    wires = [probe.wire() for _ in range(40)]
    for wire in wires:
        wire.send(get("/a") + put("/echo", bytes(5000)))
    story.same("and others are taken as ever", {wire.read().status for wire in wires}, {200})
    probe.ends_cleanly()


def announced_and_not_sent(story):
    """Chunked bodies that are not what their heads say."""
    probe = Probe(story, body_memory_bytes=4096)
    big = get("/echo", "Transfer-Encoding: chunked", "x-bytes: 5000000", method="PUT")
    for name, body, sum_ in (("nothing", b"", 0), ("a byte", b"1\r\nx\r\n", 1)):
        wire = probe.wire()
        wire.send(big)
        wait_for("there is room for it", probe.on_disk)
        wire.send(body + b"0\r\n\r\nG")
        reply = wire.read()
        story.same(f"{name} instead of 5 MB is taken", (reply.status, reply.body.split()[0]),
                   (200, b"%d" % sum_))
        wait_for("and its room given back, with the next request begun",
                 lambda: probe.on_disk() == 0)
        wire.send(b"ET /next HTTP/1.1\r\nHost: h\r\n\r\n")
        story.same("which is answered", wire.read().body, b"/next\n")
        wire.close()
    wire, chunk = probe.wire(), b"4000\r\n" + bytes(0x4000) + b"\r\n"
    wire.send(get("/echo", "Transfer-Encoding: chunked", "x-bytes: 100000", method="PUT"))
    try:
        for _ in range(1000):
            wire.send(chunk)
    except OSError:
        pass
    story.same("one that brings more than its head says is refused",
               (probe.stats()["body_size"], probe.stats()["handled"] > 0), (1, True))
    probe.ends_cleanly()


def one_client_and_others(story):
    """One holds at most half of either limit, and always one body."""
    body = bytes(1000000)
    probe = Probe(story, body_memory_bytes=1 << 20, bodies_memory_bytes=8 << 20,
                  bodies_disk_bytes=8 << 20)

    def begin(client, body=body):
        wire = probe.wire()
        wire.send(get("/echo", f"Content-Length: {len(body)}", f"x-client: {client}", method="PUT"))
        return wire

    def held():
        return probe.stats()["body_memory"] // len(body), probe.on_disk(len(body))

    def refused(client):
        wire = begin(client)
        status = wire.read().status
        wire.close()
        return status
    crowd = [begin(7) for _ in range(8)]
    wait_for("one client holds half of either limit", lambda: held() == (4, 4))
    story.same("and gets no more", (refused(7), probe.stats()["share"]), (503, 1))
    crowd += [begin(client) for client in (8, 8, 9, 9, 0, 0, 0, 0)]
    wait_for("the rest is for others", lambda: held() == (8, 8))
    story.same("that it is gone is told apart", (refused(8), probe.stats()["share"], probe.stats()["no_room"]), (503, 1, 1))
    for wire in crowd:
        wire.send(body)
    story.same("all are right", {wire.read().status for wire in crowd}, {200})
    for wire in crowd:
        wire.close()
    wait_for("and give back what they held", lambda: held() == (0, 0))
    large = begin(7, bytes(7 << 20))
    wait_for("a single body may be larger than half", lambda: held() == (0, 7))
    large.abort()
    wait_for("who leaves gives it back", lambda: held() == (0, 0))
    grown, chunk = bytes(7 << 20), b"10000\r\n" + bytes(0x10000) + b"\r\n"
    wire = probe.wire()
    wire.send(get("/echo", "Transfer-Encoding: chunked", "x-client: 7", method="PUT"))
    wire.send(chunk * (len(grown) // 0x10000) + b"0\r\n\r\n")
    story.same("also one whose length is not known before its end", wire.read().body, f"{len(grown)} {sum_of(grown)}\n".encode())
    wire.close()
    wait_for("... which gives it back", lambda: held() == (0, 0))
    crowd = [begin(7) for _ in range(8)]
    wait_for("and may hold as much as before", lambda: held() == (4, 4))
    for wire in crowd:
        wire.abort()
    probe.ends_cleanly()


with Story("h05 bodies lie in memory or the cache folder, within both their limits") as story:
    just_too_large(story)
    announced_and_not_sent(story)
    one_client_and_others(story)
    probe = Probe(story, body_memory_bytes=1 << 20, bodies_memory_bytes=8 << 20,
                  body_bytes_max=16 << 20)
    small, large, huge = bytes(1000000), bytes(5 << 20), bytes(9 << 20)
    head_of_large, head_of_huge = (get("/echo", f"Content-Length: {len(body)}", method="PUT")
                                   for body in (large, huge))

    def taken(body):
        """False where it was refused, also if that came before all of it was sent."""
        try:
            reply = probe.ask(put("/echo", body))
        except ConnectionError:
            return False
        return reply.status == 200 and int(reply.body.split()[0]) == len(body)

    def in_memory(count):
        """A body's room comes back right after its answer, not with it."""
        wait_for(f"{count} large bodies lie in memory",
                 lambda: probe.stats()["body_memory"] // len(large) == count)

    crowd = [half_of(probe.wire(), small) for _ in range(20)]
    wait_for("small bodies beyond their memory are in files", lambda: probe.on_disk(len(small)) >= 12)
    story.fact("and only those", probe.on_disk(len(small)) <= 13, probe.on_disk(len(small)))
    story.fact("a large one is taken meanwhile", taken(large))
    for wire in crowd:
        wire.send(bytes(1000))
    story.same("all are right", {wire.read().body for wire in crowd},
               {f"{len(small)} {sum_of(small)}\n".encode()})
    for wire in crowd:
        wire.close()

    os.rename(probe.spill, probe.spill + "-away")
    story.fact("without a folder a large body is taken, in memory", taken(large))
    reply = probe.ask(head_of_huge)
    story.same("one that is larger than that memory is not", (reply.status, reply.body[:9]),
               (503, b"ERR_LIMIT"))
    in_memory(0)
    holder = half_of(probe.wire(), large)
    in_memory(1)
    story.same("two share it", probe.ask(head_of_large).status, 503)    # before its body is sent
    holder.abort()
    for _ in range(5):
        in_memory(0)
        story.fact("who leaves makes room, again and again", taken(large))
    os.rename(probe.spill + "-away", probe.spill)
    story.fact("with a folder the huge one is taken", taken(huge))
    story.same("nobody prints", probe.log(), "ready\n")
    probe.ends_cleanly()

    origin = story.origin("object=bkt/k 3000000")
    server = story.penstock(origin=origin.url, cache_reserve="1000GiB", bodies_memory="8MiB")
    story.same("with nothing but the reserve free a large PUT is taken",
               server.put("bkt/p", large).status, 200)
    wire = Wire(server.port)
    wire.send(server.client.head_of("PUT", "bkt/p", headers={"content-length": str(len(huge))},
                                    payload="UNSIGNED-PAYLOAD"))
    story.same("up to the memory for bodies", wire.read().code, "SlowDown")
    story.same("which is counted", server.metrics()[GONE], 1)
    story.same("and read through", server.get("bkt/k").status, 200)
    shutil.rmtree(server.cache_dir)
    with open(server.cache_dir, "w"):
        pass
    wait_for("the folder is out of service",
             lambda: server.metric("penstock_store_serving") == 0)
    story.same("with a folder that is gone too", server.put("bkt/p", large).status, 200)
    os.unlink(server.cache_dir)
