"""What is streamed at once may be larger than the cache: nothing comes twice for it."""
from harness import *

READERS, SIZE, STEP = 6, 32 * MIB, 256 * 1024

with Story("f08 slow readers of more than fits into the cache") as story:
    origin = story.origin(f"objects=bucket/shard/%d {READERS} {SIZE}")
    server = story.penstock(origin=origin.url, cache_size="64MiB", extent_size="4MiB")

    def begin(number):
        wire = Wire(server.port, 30, receive_buffer=65536)
        wire.send(server.client.head_of("GET", f"bucket/shard/{number}"))
        return wire

    # As a data loader does: a step of each in turn, at a pace that the origin is well ahead of.
    wires = [begin(number) for number in range(READERS)]
    texts = [bytearray() for _ in wires]
    while any(len(text) < SIZE for text in texts):
        for i, wire in enumerate(wires):
            until = min(len(texts[i]) + STEP, SIZE)
            while len(texts[i]) < until:
                more = wire.socket.recv(until - len(texts[i]) + 4096)
                check(more, f"reader {i} is cut after {len(texts[i])} bytes")
                texts[i] += more
                if texts[i].startswith(b"HTTP/") and b"\r\n\r\n" in texts[i][:4096]:
                    del texts[i][:texts[i].index(b"\r\n\r\n") + 4]
        time.sleep(0.04)
    story.same("every byte is right", [text == expect(f"bucket/shard/{i}", 1, 0, SIZE)
                                       for i, text in enumerate(texts)], [True] * READERS)
    counts = origin.counts()
    story.fact("what was read came once", counts["bytes"] <= 1.2 * READERS * SIZE,
               f"{counts['bytes'] / (READERS * SIZE):.2f} times, {counts['get']} GETs")
    story.fact("in not too many GETs", counts["get"] <= READERS * (SIZE // (2 * MIB) + 1), counts["get"])
    origin.reset()
    story.bytes("a fast reader", server.get("bucket/shard/0"), "bucket/shard/0", 0, SIZE)
    # The missing bytes may come over several connections, in requests of at least 4 MiB.
    story.fact("... alone needs few GETs", origin.counts()["get"] <= 2 + SIZE // (4 * MIB), origin.counts()["get"])
