"""Items larger than a slab go to a GPU through two of them, one read while the other is copied out, or
through one where no second is to be had. On a CUDA runtime that is not one (see x06).

Needs a build with the CUDA headers."""
import random

from filler import FakeGpuMemory, Filler
from guards import use_fake_gpu
from harness import *

BIG = (36 << 20) + 12_345

with Story("x08 large items for a GPU", seconds=600) as story:
    module = use_fake_gpu()
    origin = story.origin(f"object=pile/big {BIG}", "objects=pile/slow%d 10 300000", f"objects=pile/cut%d 20 {BIG}")
    origin.tell("match=pile/slow*", "first_byte_ms=120000")
    path = story.path("fill.sock")
    want = expect("pile/big", 1, 0, BIG)
    chance = random.Random(3)

    def daemon(**fake):
        env = {"PENSTOCK_GPU_MODULE": module, **{f"FAKE_CUDA_{k.upper()}": str(v) for k, v in fake.items()}}
        return story.penstock(origin=origin.url, fill_socket=path, freshness="immutable", env=env,
                              cache_dir=story.path("cache"), fill_ring="16MiB")

    class Trainer:
        def __init__(self, size=40 << 20):
            self.filler, self.memory = Filler(path), FakeGpuMemory(size)
            self.buffer = self.memory.vmm(self.filler)["buffer"]

        def ask(self, key, first=0, length=-1, to=0, **more):
            return self.filler.ask("fill", buffer=self.buffer, bucket="pile", items=[[key, first, length, to]], **more)

        def right(self, first, length, to):
            reply = self.filler.reply_to(self.ask("big", first, length, to))
            good = reply["ok"] and self.memory.map[to:to + length] == want[first:first + length] and (
                self.memory.untouched(0, to) and self.memory.untouched(to + length, self.memory.size))
            self.memory.guard(to, to + length)
            return good

    # ---- the right bytes, whatever the copies' order ----
    for seed in (1, 2, 3):
        server = daemon(seed=seed, delay_us=3000)
        one = Trainer()
        good = 0
        for n in range(8):
            first = chance.choice((0, 1, 4095, chance.randrange(1 << 20)))
            length = chance.choice((BIG - first, 8 << 20, (4 << 20) + 1, chance.randrange(4 << 20, 12 << 20)))
            good += one.right(first, length, chance.choice((0, 5, 4096)))
        story.same(f"8 items larger than a slab, seed {seed}", good, 8)
        server.stop()

    # ---- it reads and copies at the same time, if there is a second slab ----
    server = daemon(seed=5, delay_us=50_000)
    one = Trainer()
    one.right(0, BIG, 0)

    def took():
        began = time.monotonic()
        reply = one.filler.reply_to(one.ask("big"))
        spent = time.monotonic() - began
        story.fact("all of it", reply["ok"] and one.memory.map[:BIG] == want)
        one.memory.guard(0, BIG)
        return spent

    with_two = sum(took() for _ in range(5))
    holders = [Trainer() for _ in range(3)]
    for n, holder in enumerate(holders):
        holder.ask(f"slow{n}")
    time.sleep(0.3)
    with_one = sum(took() for _ in range(5))
    story.in_time(f"two slabs take less time ({with_two:.2f} s) than one ({with_one:.2f} s)", with_two < 0.8 * with_one)

    # ---- ends in the middle ----
    reply = one.filler.reply_to(one.ask("big", deadline_ms=60))
    story.same("a deadline amid an item", reply.get("error"), "deadline")
    story.fact("... and on", one.right(0, BIG, 0))
    for holder in holders:
        holder.filler.close()
    for n in range(30):
        dying = Trainer()
        dying.ask("big")
        time.sleep(chance.random() * 0.2)
        dying.filler.close()
        dying.memory.close()
    wait_for("their sessions end", lambda: server.metric("penstock_fill_sessions") == 1)
    wait_for("30 that leave amid an item: no memory of theirs is left",
             lambda: open(f"/proc/{server.pid}/maps").read().count("fake-gpu") == 1)
    story.fact("30 that leave amid an item: no memory of theirs is left", True)
    origin.tell("match=pile/cut*", "stall_after=20000000")
    reply = one.filler.reply_to(one.ask("cut0", deadline_ms=800))
    story.same("an origin that stalls amid an item", reply.get("error"), "deadline")
    origin.tell("match=pile/cut*", "flip_after=20000000", "cut_after=20000000", "stall_after=-1")
    for n in range(1, 4):
        reply = one.filler.reply_to(one.ask(f"cut{n}"))
        story.fact("an object that changes amid an item", not reply["ok"] and reply["status"] != 499, reply)
    crowd = [Trainer() for _ in range(4)]
    story.fact("all slabs are there for others", all(other.filler.reply_to(n)["ok"] for other, n in
                                                     [(other, other.ask("big")) for other in crowd])
               and all(other.memory.map[:BIG] == want for other in crowd))
    server.stop()

    # ---- a GPU that breaks ----
    for n in (2, 7):
        server = daemon(seed=n, delay_us=2000, fail_copy=n)
        one = Trainer()
        reply = one.filler.reply_to(one.ask("big"))
        story.same(f"copy {n} breaks the GPU", reply.get("error"), "gpu_lost")
        story.fact("its memory is given back", one.filler.say("unregister", buffer=one.buffer)["ok"])
        server.stop()
