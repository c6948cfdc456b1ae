"""Readers who are slow at streams that are not stored do not keep others from the origin."""
from harness import *

SIZE, KEYS, READERS, CONNECTIONS = 24 * MIB, 10, 12, 4    # two keys have two readers each
PER_GET = 2 * MIB    # at least so much comes of each before its stream waits for its reader


def begins(server, key):
    wire = Wire(server.port, 60, receive_buffer=64 * KIB)
    wire.send(Client(server.port).head_of("GET", key))
    return wire


def has_begun(wire):
    try:
        return wire.socket.recv(1, socket.MSG_PEEK) != b""
    except OSError:
        return False


with Story("f07 slow readers of streams that are not stored, beside others") as story:
    origin = story.origin(f"objects=bucket/big-%02d {KEYS} {SIZE}", "object=bucket/small 1000")
    folder = story.path("cache")
    story.penstock(origin=origin.url, cache_dir=folder)    # holds the folder
    server = story.penstock(origin=origin.url, cache_dir=folder, origin_connections=CONNECTIONS)
    keys = [f"bucket/big-{i % KEYS:02d}" for i in range(READERS)]
    wires = [begins(server, key) for key in keys]
    for wire in wires:
        wire.socket.settimeout(PATIENCE)
    story.same("all slow readers are being answered", sum(map(has_begun, wires)), READERS)

    client = Client(server.port)
    for what, ask in (("a cold GET", lambda: client.get("bucket/small")),
                      ("a HEAD", lambda: client.head("bucket/big-00",
                                                     headers={"cache-control": "no-cache"})),
                      ("a PUT", lambda: client.put("bucket/new", b"new")),
                      ("a list", lambda: client.list("bucket"))):
        reply = ask()
        # Nobody reads them meanwhile, so it would wait for ever.
        story.fact(f"{what} is answered beside them", reply.status == 200 and not reply.error, reply)
        story.in_time("... soon", reply.ended - reply.began < 3, f"{reply.ended - reply.began:.1f} s")

    for wire in wires:
        wire.socket.settimeout(60)
    replies = together(*(lambda wire=wire: wire.read(pace=8 * MIB) for wire in wires))
    for key, reply in zip(keys, replies):
        story.bytes(f"{key} came whole", reply, key, 0, SIZE, status=200)
    counts = [origin.counts(key) for key in sorted(set(keys))]
    gets = sum(count["get"] for count in counts)
    sent = sum(count["bytes"] for count in counts)
    story.note(f"{gets} GETs, the origin sent {sent / SIZE / KEYS:.2f} times what there is")
    story.fact("each time a stream went on, it brought its share",
               gets <= READERS * (SIZE // PER_GET + 1), gets)
    story.same("nothing broke off", sum(server.metric(f"penstock_{name}_total") for name in
               ("origin_retries", "cache_restarts")), 0)

    stalled = begins(server, keys[0])
    story.fact("one more begins, and takes nothing", has_begun(stalled))
    time.sleep(0.5)    # until its stream waits for it
    story.bytes("who is fast does not wait for it", client.get(keys[0]), keys[0], 0, SIZE)
    stalled.abort()
