"""Bits that flip on the disk are found, fetched again and counted. Argument: flips (60)."""
from harness import *

FLIPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
COUNT, SIZE = 100, 300_000
BAD = "penstock_store_bad_blocks_total"

with Story(f"d03 {FLIPS} bit flips in extents") as story:
    origin = story.origin(f"objects=bucket/set/%03d {COUNT} {SIZE}", f"object=bucket/big {32 * MIB}")
    server = story.penstock(origin=origin.url)
    keys = [f"bucket/set/{i:03d}" for i in range(COUNT)]
    story.same("cold", [k for k in keys if server.get(k).body != expect(k, 1, 0, SIZE)], [])
    story.bytes("the big one", server.get("bucket/big"), "bucket/big", 0, 32 * MIB)
    origin.quiet()
    time.sleep(0.5)
    origin.reset()
    story.same("warm", [k for k in keys if server.get(k).body != expect(k, 1, 0, SIZE)], [])
    story.same("... without the origin", origin.counts()["requests"], 0)

    pages = {}    # digest of (key, block) -> where its first page lies; one reading of the extents finds all
    for path in server.extents():
        with open(path, "rb") as f:
            data = f.read()
        for offset in range(0, len(data) - 31, 64):
            pages.setdefault(data[offset:offset + 32], (path, offset))
    places = []
    for key, size in [(k, SIZE) for k in keys] + [("bucket/big", 32 * MIB)]:
        for block in range((size + 65535) // 65536):
            at = pages.get(sha256(key.encode() + b"\0%d\0%d" % (1, block)).digest())
            if at:
                places.append((key, size, block, *at))
    story.fact("every block of every object is found in the extents", len(places) == COUNT * 5 + 512, len(places))
    found = wrong = 0
    for key, size, block, path, offset in story.random.sample(places, min(FLIPS, len(places))):
        length = min(65536, size - block * 65536)
        inside = story.random.randrange(length)
        bit = 1 << story.random.randrange(8)
        before = server.metric(BAD)
        with open(path, "r+b") as f:
            f.seek(offset + inside)
            old = f.read(1)[0]
            f.seek(offset + inside)
            f.write(bytes([old ^ bit]))
        reply = server.get(key, block * 65536, block * 65536 + length - 1)
        detail = reply.error or same_bytes(reply.body, expect(key, 1, block * 65536, length), key)
        if detail:
            wrong += 1
            story.fact(f"{key} block {block}, byte {inside}", False, detail)
        found += server.metric(BAD) > before
    story.same("0 wrong answers", wrong, 0)
    story.same("each flip in a block that was read is counted", found, min(FLIPS, len(places)))
    counts = origin.counts()
    story.fact("and fetched again", counts["get"] >= min(FLIPS, len(places)) * 0.8, counts["get"])
    # A small object is one record: what else was in it comes again when it is asked for.
    story.same("a whole pass is right", [k for k in keys if server.get(k).body != expect(k, 1, 0, SIZE)], [])
    origin.quiet()
    time.sleep(0.5)
    origin.reset()
    story.same("afterwards everything is warm again", [k for k in keys if server.get(k).body != expect(k, 1, 0, SIZE)], [])
    story.same("... without the origin", origin.counts()["requests"], 0)
