"""Slow readers of answers that pass by the cache do not keep others from the origin."""
from harness import *

SIZE, CONNECTIONS, READERS = 8 * MIB, 4, 6
PASSED = {"origin": "http://a.example"}    # CORS: only the origin can answer


def begins(server, key, query=()):
    wire = Wire(server.port, 60, receive_buffer=64 * KIB)
    wire.send(Client(server.port).head_of("GET", key, list(query), headers=PASSED))
    return wire


def beside(story, server, number, what):
    client = Client(server.port)
    for name, ask in (("a cold GET", lambda: client.get(f"bucket/beside-{number}")),
                      ("a PUT", lambda: client.put("bucket/new", b"new")),
                      ("a list", lambda: client.list("bucket"))):
        reply = ask()
        story.fact(f"{name} is answered beside {what} readers", reply.status == 200 and not reply.error,
                   f"{reply}, {reply.ended - reply.began:.1f} s")


with Story("f09 slow readers of answers that pass by the cache, beside others") as story:
    origin = story.origin(f"objects=bucket/big-%02d {READERS} {SIZE}", "objects=bucket/beside-%d 3 1000")
    server = story.penstock(origin=origin.url, origin_connections=CONNECTIONS, origin_wait_time="15s")
    keys = [f"bucket/big-{i:02d}" for i in range(READERS)]
    wires = [begins(server, key) for key in keys]
    time.sleep(1)    # until their answers wait for them
    beside(story, server, 0, "slow")
    replies = together(*(lambda wire=wire: wire.read(pace=4 * MIB) for wire in wires))
    for key, reply in zip(keys, replies):
        story.bytes(f"{key} came whole", reply, key, 0, SIZE, status=200)
    story.fact("some gave up their connections and went on later",
               server.metric("penstock_origin_yields_total") > 0, server.metric("penstock_origin_yields_total"))
    story.same("... and none was cut", server.metric("penstock_front_passed_cut_total"), 0)

    fetched = sum(origin.counts(key)["bytes"] for key in keys)
    story.fact("little was fetched in vain", fetched < 1.6 * READERS * SIZE, f"{fetched / READERS / SIZE:.2f}")

    # ---- more of them than there is memory for ----
    few = story.penstock(origin=origin.url, cache_dir=story.path("few"), origin_connections=1, memory_relays="512KiB")
    wires = [begins(few, key) for key in keys]
    wait_for("some are cut", lambda: few.metric("penstock_front_passed_cut_total") >= READERS - 3)
    replies = together(*(lambda wire=wire: wire.read(pace=4 * MIB) for wire in wires))
    whole = [(key, reply) for key, reply in zip(keys, replies) if not reply.error]
    story.same("two wait, one may have the connection, the others are cut",
               (len(whole) in (2, 3), len(whole)), (True, READERS - few.metric("penstock_front_passed_cut_total")))
    for key, reply in whole:
        story.bytes(f"{key} came whole", reply, key, 0, SIZE, status=200)
    story.same("... and it ends cleanly", few.stop(), 0)

    # ---- a range, and a version that is gone meanwhile ----
    part = Wire(server.port, 60, receive_buffer=64 * KIB)
    part.send(Client(server.port).head_of("GET", keys[0], headers={**PASSED, "range": f"bytes=1000-{SIZE - 1001}"}))
    changing = begins(server, keys[1])
    wires = [begins(server, key) for key in keys[2:]]
    time.sleep(1)
    origin.tell(f"flip={keys[1]}")
    beside(story, server, 1, "more slow")
    replies = together(*(lambda wire=wire: wire.read(pace=4 * MIB) for wire in (part, changing, *wires)))
    story.bytes("a range came whole", replies[0], keys[0], 1000, SIZE - 2000, status=206)
    story.fact("H10: of a version that is gone nothing else is put behind",
               bool(replies[1].error) or len(replies[1].body) == SIZE, replies[1])

    # ---- what no range can go on with ----
    stalled = [begins(server, key, [("partNumber", "1")]) for key in keys]
    time.sleep(1)
    beside(story, server, 2, "stalled")
    story.fact("who took nothing was cut", server.metric("penstock_front_passed_cut_total") > 0,
               server.metric("penstock_front_passed_cut_total"))
    for wire in stalled:
        wire.abort()
