"""Bits flip on the disk below a file system, under extents that are locked in memory and under others: never a wrong byte.
Then the disk fails while clients are lent bytes of it: nobody notices.
Usage: d19_flips_under_locked.py [FLIPS], by default 300."""
import fcntl
import struct

from damage import flip_bit
from harness import *

FLIPS, A_ROUND = int(sys.argv[1]) if len(sys.argv) > 1 else 300, 50
SIZE, COUNT, HOT = 1 * MIB + 777, 96, 12
LARGE, LARGE_COUNT = 12 * MIB, 4
FIEMAP, FIEMAP_EXTENTS = 0xC020660B, 64
EXT4_IOC_SHUTDOWN, NO_FLUSH = 0x8004587D, 2


def pieces(path):
    """Where the bytes of a file lie on the disk: [(offset on the disk, bytes)]."""
    with open(path, "rb") as f:
        ask = bytearray(struct.pack("=QQIIII", 0, os.path.getsize(path), 1, 0, FIEMAP_EXTENTS, 0) + bytes(56 * FIEMAP_EXTENTS))
        fcntl.ioctl(f.fileno(), FIEMAP, ask)
    count = struct.unpack_from("=I", ask, 20)[0]
    return [struct.unpack_from("=QQ", ask, 32 + 56 * i + 8) for i in range(count)]


def drop_pages(path):
    """The kernel forgets the file's pages, but for those that are locked in memory."""
    with open(path, "rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


with Story(f"d19 {FLIPS} bits flip under locked extents", seconds=120 + FLIPS) as story:
    image, mount = story.path("image"), story.path("mount")
    os.mkdir(mount)
    with open(image, "wb") as f:
        f.truncate(640 * MIB)
    if os.geteuid() != 0 or run(["mkfs.ext4", "-q", image])[0] or run(["mount", "-o", "loop", image, mount])[0]:
        raise Skip("not root, or no loop devices: a disk that loses bits can't be made here")
    try:
        origin = story.origin(f"objects=bucket/%d {COUNT} {SIZE}", f"objects=bucket/large-%d {LARGE_COUNT} {LARGE}")
        server = story.penstock(origin=origin.url, cache_dir=mount + "/cache", cache_size="400MiB", extent_size="4MiB",
                                memory_locked="64MiB", freshness="immutable")

        def read(i):
            reply = server.get(f"bucket/{i}")
            return not reply.error and reply.body == expect(f"bucket/{i}", 1, 0, SIZE)

        def lent():
            return server.metric("penstock_store_lent_reads_total")

        def all_stored():
            origin.reset()
            return all([read(i) for i in range(COUNT)]) and origin.totals()["get"] == 0

        def hot_are_lent():
            for _ in range(20):
                if not all(read(i) for i in range(HOT)):
                    raise Wrong("a hot object has wrong bytes")
            before = lent()
            for i in range(HOT):
                read(i)
            return lent() - before >= HOT

        def extents():
            return glob.glob(mount + "/cache/extents/*")

        def flip():
            path = story.random.choice(extents())
            at, length = story.random.choice(pieces(path))
            flip_bit(image, at + story.random.randrange(length), story.random.randrange(8))

        wait_for("all is stored", all_stored, every=0.3)
        flipped, wrong = 0, []
        while flipped < FLIPS and not wrong:
            wait_for("the hot extents are lent", hot_are_lent, 60, every=0.5)
            os.sync()    # so that no file moves while bits flip
            for _ in range(A_ROUND):
                flip()
            flipped += A_ROUND
            for path in extents():
                drop_pages(path)
            wrong = [i for i in list(range(COUNT)) * 2 if not read(i)]
        story.same("0 wrong answers", wrong[:3], [])
        story.fact("bytes were lent from locked extents", lent() > 0, lent())
        bad = server.metric("penstock_store_bad_blocks_total")
        story.fact("flips were found under other extents", bad > flipped / 20, bad)
        story.note(f"{flipped} flips: {bad:.0f} blocks failed their checksum, {lent():.0f} reads were lent")
        # ---- the disk fails ----
        def read_large():
            return [server.get(f"bucket/large-{i}") for i in range(LARGE_COUNT)]

        def is_right(i, reply):
            return not reply.error and reply.body == expect(f"bucket/large-{i}", 1, 0, LARGE)

        def large_are_lent():
            before = lent()
            read_large()
            return lent() - before >= LARGE_COUNT * LARGE / (2 * MIB)
        wait_for("large objects are lent", large_are_lent, 60, every=0.2)
        wires = [server.stalled(f"bucket/large-{i}") for i in range(LARGE_COUNT)]
        folder = os.open(mount, os.O_RDONLY)
        fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_FLUSH))
        os.close(folder)
        story.same("clients in the middle of lent bytes get all of them", [is_right(i, wire.read()) for i, wire in enumerate(wires)],
                   [True] * LARGE_COUNT)
        for wire in wires:
            wire.close()
        story.same("... and later readers, too", [is_right(i, reply) for i, reply in enumerate(read_large())], [True] * LARGE_COUNT)
        wait_for("nothing is locked any more", lambda: server.metric("penstock_store_locked_bytes") == 0, 60)
        story.same("the daemon ends cleanly", server.stop(), 0)
    finally:
        run(["umount", "-l", mount])
