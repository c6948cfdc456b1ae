"""The memory that a process registers is its own: Penstock makes no page of it. A memfd with holes where the
buffer lies is refused; of one whose holes were punched later, what would land in a hole fails with
buffer_fault, and no page is made. Counted by st_blocks of the memfd: every page that anybody made."""
import fcntl

from filler import F_ADD_SEALS, SEAL_SHRINK, Filler, Memory
from harness import *

KEEP_SIZE, PUNCH_HOLE = 1, 2
SIZE, SMALL, LARGE = 64 * MIB, 100_000, 1 << 20
libc = __import__("ctypes").CDLL(None, use_errno=True)


def allocate(fd, mode, first, bytes):
    libc.fallocate.argtypes = [__import__("ctypes").c_int] * 2 + [__import__("ctypes").c_long] * 2
    assert libc.fallocate(fd, mode, first, bytes) == 0, os.strerror(__import__("ctypes").get_errno())


class Holey:
    """A sealed memfd of which only [first, first + bytes) is allocated."""

    def __init__(self, first, bytes, size=SIZE, mode=0):
        self.fd, self.size = os.memfd_create("holey", os.MFD_ALLOW_SEALING), size
        os.ftruncate(self.fd, size)
        allocate(self.fd, mode, first, bytes)
        fcntl.fcntl(self.fd, F_ADD_SEALS, SEAL_SHRINK)


def pages(memory):
    return os.fstat(memory.fd).st_blocks * 512 // MIB


with Story("x16 holes in registered memory") as story:
    origin = story.origin("objects=small/%d 40 100000", "objects=large/%d 8 1048576")
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path, freshness="immutable")
    session = Filler(path)
    if '"event":"fill_holes"' in server.log():
        raise Skip("userfaultfd is forbidden here")

    def shared_kib():
        with open(f"/proc/{server.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssShmem"))

    # ---- when it is registered ----
    before = shared_kib()
    for what, memory in (("only the upper half is there", Holey(SIZE // 2, SIZE // 2)),
                         ("only the lower half is there", Holey(0, SIZE // 2)),
                         ("what is there lies beyond its end", Holey(SIZE, SIZE, mode=KEEP_SIZE)),
                         ("all but one page is there", Holey(4096, SIZE - 4096))):
        made = pages(memory)
        for bytes_ in (SIZE // 2, SIZE):
            if what == "only the lower half is there" and bytes_ < SIZE:
                continue
            reply = session.register(memory, bytes_)
            story.same(f"{what}: {bytes_ // MIB} MiB are refused", (reply["ok"], reply.get("error")), (False, "bad_descriptor"))
            story.fact("... and told what to do", "fallocate" in reply.get("message", ""), reply)
        story.same("... and nothing was made", pages(memory), made)
        os.close(memory.fd)
    story.fact("Penstock holds none of it", shared_kib() - before < 4096, f"{shared_kib() - before} KiB")
    whole = Holey(0, SIZE)
    reply = session.register(whole)
    story.fact("all of it is there, although nobody has written to it yet", reply["ok"], reply)
    session.say("unregister", buffer=reply["buffer"])

    # ---- when holes are punched later ----
    memory = Memory(SIZE)
    buffer = session.register(memory)["buffer"]
    kinds = (("small", SMALL, 40), ("large", LARGE, 8))
    for kind, size, count in kinds:
        allocate(memory.fd, PUNCH_HOLE | KEEP_SIZE, SIZE // 2, SIZE // 2)
        for how in ("from the origin", "from the cache"):
            items = [[str(i), 0, size, SIZE // 2 + i * LARGE] for i in range(count - 20 if kind == "small" else count)]
            reply = session.fill(buffer, kind, items, on_error="skip")
            story.same(f"{kind} objects {how} into a hole", ([code for _, code, _ in reply.get("errors", [])], reply["ok"]),
                       (["buffer_fault"] * len(items), True))
            story.same("... make no page", pages(memory), SIZE // 2 // MIB)
            reply = session.fill(buffer, kind, items[:1])
            story.same("... and fail the list that is to be whole", (reply["ok"], reply.get("error")), (False, "buffer_fault"))
            good = [[str(i), 0, size, i * LARGE] for i in range(4)]
            reply = session.fill(buffer, kind, [*good, items[5], items[6]], on_error="skip")
            story.same("... one beside them is filled", [index for index, _, _ in reply["errors"]], [4, 5])
            story.same("... and right", [memory.map[i * LARGE:i * LARGE + size] == expect(f"{kind}/{i}", 1, 0, size)
                                         for i in range(4)], [True] * 4)
        across = [["0", 0, size, SIZE // 2 - 50_000]]
        reply = session.fill(buffer, kind, across)
        story.same(f"a {kind} one that begins before the hole", (reply["ok"], reply.get("error")), (False, "buffer_fault"))
        story.same("... makes no page", pages(memory), SIZE // 2 // MIB)
        allocate(memory.fd, 0, SIZE // 2, SIZE // 2)
        reply = session.fill(buffer, kind, across)
        story.fact("given back, it is filled", reply["ok"] and memory.map[across[0][3]:across[0][3] + size] == expect(f"{kind}/0", 1, 0, size), reply)
    story.same("no record was blamed for it", server.metric("penstock_store_bad_blocks_total"), 0)
    story.same("... nor the disk", server.metric("penstock_disk_read_errors_total"), 0)
    reply = Filler(path).register(memory)
    story.fact("and the memory may be registered again", reply["ok"], reply)
