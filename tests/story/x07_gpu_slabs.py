"""Pinned slabs, through which bytes go to a GPU, are shared fairly: items that wait for the origin hold
some of them, never all. On a CUDA runtime that is not one, with four slabs (see x06).

Needs a build with the CUDA headers."""
from filler import FakeGpuMemory, Filler
from guards import use_fake_gpu
from harness import *

SIZE = 300_000

with Story("x07 gpu slabs", seconds=300) as story:
    module = use_fake_gpu()
    origin = story.origin("objects=pile/%d 40 300000", "objects=pile/slow%d 1000 300000", "match=pile/slow*",
                          "first_byte_ms=120000")
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path, freshness="immutable", fill_ring="16MiB",
                            env={"PENSTOCK_GPU_MODULE": module, "FAKE_CUDA_SEED": "7", "FAKE_CUDA_DELAY_US": "300"})
    want = {i: expect(f"pile/{i}", 1, 0, SIZE) for i in range(40)}
    everything = [[str(i), 0, SIZE, i * SIZE] for i in range(40)]

    class Trainer:
        def __init__(self, size=12 << 20):
            self.filler, self.memory = Filler(path), FakeGpuMemory(size)
            self.buffer = self.memory.vmm(self.filler)["buffer"]

        def fill(self):
            self.memory.guard(0, self.memory.size)
            reply = self.filler.fill(self.buffer, "pile", everything)
            return reply["ok"] and all(self.memory.map[i * SIZE:(i + 1) * SIZE] == want[i] for i in range(40))

        def stall(self, first, count):
            """Items whose first byte comes in two minutes."""
            return self.filler.ask("fill", buffer=self.buffer, bucket="pile", deadline_ms=100_000, items=[
                [f"slow{first + i}", 0, SIZE, i * SIZE] for i in range(count)])

    good = Trainer()
    story.fact("the cache is filled", good.fill())
    origin.quiet()
    stuck = [Trainer(288 << 20), Trainer(), Trainer()]
    numbers = [one.stall(0, count) for one, count in zip(stuck, (1000, 40, 40))]
    time.sleep(0.5)
    good.filler.socket.settimeout(PATIENCE)
    done = 0
    try:
        while done < 20 and good.fill():
            done += 1
    except TimeoutError:
        pass
    story.same("1,000 items that wait for the origin, of one session, and some of two more: the fills of another go on", done, 20)
    waiting = 0
    for one, number in zip(stuck, numbers):
        one.filler.socket.settimeout(0.01)
        try:
            one.filler.reply_to(number)
        except TimeoutError:
            waiting += 1
    story.same("... while all of those wait", waiting, 3)
    story.fact("shares that found no slab are counted", server.metric("penstock_fill_slab_waits_total") > 0)

    # ---- who goes leaves the slabs to others ----
    for one in stuck:
        one.filler.close()
    wait_for("their sessions end", lambda: server.metric("penstock_fill_sessions") == 1)
    crowd = [Trainer() for _ in range(6)]
    numbers = [one.filler.ask("fill", buffer=one.buffer, bucket="pile", items=everything) for one in crowd]
    story.fact("six at once, with four slabs", all(one.filler.reply_to(n)["ok"] for one, n in zip(crowd, numbers)))
    story.fact("... each with the right bytes", all(one.memory.map[i * SIZE:(i + 1) * SIZE] == want[i]
                                                    for one in crowd for i in range(40)))
