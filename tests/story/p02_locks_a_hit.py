"""A hit takes no lock at all, so none that loops share: counted on a daemon with two loops."""
import struct
import subprocess
import tempfile
from harness import *

THREADS, ROWS = 256, 511              # as in tests/tools/count_locks.c
# The kernel gives each connection to one of two loops, by chance: that all go to one happens once in 2^23 runs.
ROUNDS, CONNECTIONS = 70, 24
SIZES = {"4k": 4096, "128k": 128 * 1024, "1m": MIB}


class Locks:
    """What the daemon's threads have locked so far."""

    def __init__(self, story):
        self.library = os.path.join(os.path.dirname(PENSTOCK or ""), "tests/tools/count_locks.so")
        if not os.access(self.library, os.R_OK):
            raise Skip("there is no tests/tools/count_locks.so beside penstock: run make")
        self.path = tempfile.mktemp(dir=story.folder)
        with open(self.path, "wb") as f:
            f.truncate(8 + THREADS * (24 + ROWS * 24))

    def env(self):
        return {"LD_PRELOAD": os.path.abspath(self.library), "COUNT_LOCKS_FILE": self.path}

    def counts(self):
        """{(thread, lock, place): calls}"""
        found = {}
        with open(self.path, "rb") as f:
            bytes_ = f.read()
        for n in range(struct.unpack_from("=Q", bytes_)[0]):
            at = 8 + n * (24 + ROWS * 24)
            thread, rows, lost = struct.unpack_from("=QQQ", bytes_, at)
            check(lost == 0, "a thread took more locks than the file has rows")
            for i in range(rows):
                lock, place, count = struct.unpack_from("=QQQ", bytes_, at + 24 + i * 24)
                found[thread, lock, place] = count
        return found


def function_at(place):
    """The function of the daemon from which a lock was taken."""
    out = subprocess.run(["addr2line", "-f", "-e", PENSTOCK, hex(place - 1)], capture_output=True,
                         text=True).stdout
    return out.split("\n")[0] or hex(place)


def runs(server, thread):
    """How often the thread was given a processor."""
    with open(f"/proc/{server.process.pid}/task/{thread}/schedstat") as f:
        return int(f.read().split()[2])


def loops_of(server):
    return {thread for thread, name in server.threads().items() if name.startswith("loop-")}


def count_hits(story, what, **settings):
    locks = Locks(story)
    server = story.penstock(loops=2, env=locks.env(), **settings)
    wait_for("both loops have their names", lambda: len(loops_of(server)) == 2)
    loops = loops_of(server)
    clients = [Client(server.port, keep=True) for _ in range(CONNECTIONS)]

    def read_all(name, rounds):
        for client in clients:
            for _ in range(rounds):
                reply = client.get(f"bucket/{name}")
                if reply.error or len(reply.body) != SIZES[name] or "hit" not in reply.cache:
                    return str(reply)

    for name in SIZES:
        wait_for(f"{name} is cached", lambda: "hit" in server.get(f"bucket/{name}").cache)
        story.same(f"{what}, {name}: all are hits, at first", read_all(name, 20), None)
        before = locks.counts()
        story.same(f"{what}, {name}: all are hits", read_all(name, ROUNDS), None)
        took = {}                      # {lock: {thread: {function: calls}}}
        for (thread, lock, place), count in locks.counts().items():
            count -= before.get((thread, lock, place), 0)
            if thread in loops and count:
                took.setdefault(lock, {}).setdefault(thread, {})[function_at(place)] = count
        hits = CONNECTIONS * ROUNDS
        for lock, threads in took.items():
            print(f"  {hits} hits, lock {lock:x}: {threads}")
        # a timer may take a lock now and then
        story.same(f"{what}, {name}: locks taken for hits",
                   {lock: threads for lock, threads in took.items()
                    if sum(sum(p.values()) for p in threads.values()) > hits / 100}, {})
    # else nothing would have been shown
    ran = {loop: runs(server, loop) for loop in loops}
    story.fact(f"{what}: both loops have served",
               len(loops) == 2 and min(ran.values()) > ROUNDS, f"times they ran: {ran}")
    story.fact(f"{what}: locks of both are counted",
               loops <= {thread for thread, _, _ in locks.counts()}, loops)
    server.stop()


with Story("p02 a hit takes no lock") as story:
    origin = story.origin(*(f"object=bucket/{name} {size}" for name, size in SIZES.items()))
    count_hits(story, "immutable", origin=origin.url, cache_dir=story.path("one"))
    count_hits(story, "fresh for a time", origin=origin.url, cache_dir=story.path("two"),
               freshness="ttl", ttl="1h")
