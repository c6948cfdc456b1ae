"""Bits that flip on the disk are found, fetched again and counted. Argument: flips (60).

Each flip is in a record of its own (or a unit of its own of the big object), so that none hides
behind another: whoever finds one forgets the whole record it was in."""
from damage import flip_bit
from harness import *

FLIPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
COUNT = max(100, FLIPS * 6 // 10)                       # objects that are one record each
# 8 units a MiB: twice as many as can be chosen
BIG = max(32, FLIPS // 16) * MIB
BAD = "penstock_store_bad_blocks_total"


def size_of(number):
    return (300_000, 40_000, 131_072, 700)[number % 4]


def flip(rng, path, first, length):
    """One bit of these bytes of the file; returns where."""
    at = first + rng.randrange(length)
    flip_bit(path, at, rng.randrange(8))
    return at


def find_blocks(server, objects):
    """{(key, block): (path, offset)}, by one reading of the extents."""
    wanted = {sha256(key.encode() + b"\0%d\0%d" % (1, block)).digest(): (key, block)
              for key, size in objects.items() for block in range((size + 65535) // 65536)}
    places = {}
    for path in server.extents():
        with open(path, "rb") as f:
            data = f.read()
        for offset in range(0, len(data) - 31,
                            4):    # data starts right behind a head of any length
            if (whose := wanted.get(data[offset:offset + 32])) and whose not in places:
                places[whose] = (path, offset)
    return places


def record_of(path, data_at, size):
    """Where the WHOLE record begins whose data is there, and how many bytes header and head
    have."""
    with open(path, "rb") as f:
        f.seek(max(0, data_at - 8192))
        before = f.read(min(8192, data_at))
    at = before.rfind(b"PSTR\x02")
    blocks, data_len, head_len = before[at + 5], *struct.unpack_from("<II", before, at + 24)
    check(at >= 0 and data_len == size, f"no WHOLE record of {size} bytes before {path}:{data_at}")
    return data_at - len(before) + at, 64 + 4 * blocks + head_len


with Story(f"d03 {FLIPS} bit flips in extents", seconds=120 + FLIPS // 5) as story:
    origin = story.origin(*[f"object=bucket/set/{i:04d} {size_of(i)}" for i in range(COUNT)],
                          f"object=bucket/big {BIG}")
    # These flips are writes into the files, so they would reach locked memory, too. d19 flips bits below it.
    server = story.penstock(origin=origin.url, memory_locked=1)
    keys = {f"bucket/set/{i:04d}": size_of(i) for i in range(COUNT)}
    objects = {**keys, "bucket/big": BIG}

    def wrong_ones():
        return [k for k, n in objects.items() if (r := server.get(k)).error
                or r.body != expect(k, 1, 0, n)]

    def settled():
        """What was found bad is forgotten, and what came instead committed."""
        origin.quiet()
        server.wait_cached(*objects)

    def warm(text):
        origin.reset()
        bad = server.metric(BAD)
        story.same(f"{text}: everything is right", wrong_ones(), [])
        story.same("... without the origin", origin.counts()["requests"], 0)
        story.same("... and nothing more is bad", server.metric(BAD), bad)

    story.same("cold", wrong_ones(), [])
    settled()
    warm("warm")

    places = find_blocks(server, objects)
    count = sum((n + 65535) // 65536 for n in objects.values())
    story.fact("every block of every object is found in the extents", len(places) == count,
               f"{len(places)} of {count}")
    units = {}    # what is found bad together -> its blocks
    for (key, block), place in places.items():
        units.setdefault((key, block // 2 if key == "bucket/big" else 0),
                         []).append((block, *place))
    chosen = story.random.sample(sorted(units), FLIPS)
    story.note(f"{sum(k == 'bucket/big' for k, _ in chosen)} flips in units of the big object, the others in small ones")
    origin.reset()
    uncounted, wrong = [], []
    for key, unit in chosen:
        block, path, offset = story.random.choice(units[key, unit])
        length = min(65536, objects[key] - block * 65536)
        before = server.metric(BAD)
        at = flip(story.random, path, offset, length)
        reply = server.get(key, block * 65536, block * 65536 + length - 1)
        if reply.error or reply.body != expect(key, 1, block * 65536, length):
            wrong.append((key, block, at - offset, repr(reply)))
        # more than once if it is read again before it is forgotten
        if server.metric(BAD) <= before:
            uncounted.append((key, block, at - offset, server.metric(BAD) - before))
    story.same("0 wrong answers", wrong[:3], [])
    story.same("each flip was found and counted", uncounted[:3], [])
    story.same("... and its unit was fetched again", origin.counts()["get"], FLIPS)
    settled()
    # A small object is one record: what else was in it comes again when it is asked for.
    story.same("a whole pass is right", wrong_ones(), [])
    settled()
    warm("afterwards")

    # Headers and heads of small records are read when the head is not in RAM.
    status = server.stop()
    story.same("it stops cleanly", status, 0)
    whole = [k for k in keys if k not in {key for key, _ in chosen}]
    chosen = story.random.sample(whole, min(len(whole), max(20, FLIPS // 10)))
    for key in chosen:
        path, offset = places[key, 0]
        start, length = record_of(path, offset, objects[key])
        flip(story.random, path, start, length)
    server = server.again()
    origin.reset()
    story.same("heads with a flipped bit: a whole pass is right", wrong_ones(), [])
    story.fact("... each was found and counted", server.metric(BAD) >= len(chosen),
               server.metric(BAD))
    story.same("... and fetched again", sorted(k for k in keys if origin.counts(k)["get"]),
               sorted(chosen))
    settled()
    warm("afterwards")
