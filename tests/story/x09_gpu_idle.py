"""A GPU that nobody uses any more is given back: its context, and the pinned memory. On a CUDA runtime
that is not one, and that ends the process if anything is left when a context goes (see x06); and with
a minute that is 300 ms long.

Needs a build with the CUDA headers."""
import random

from filler import FakeGpuMemory, Filler
from guards import use_fake_gpu
from harness import *

SIZE = 300_000

with Story("x09 idle GPUs", seconds=300) as story:
    module = use_fake_gpu()
    origin = story.origin(f"objects=pile/%d 10 {SIZE}")
    path = story.path("fill.sock")
    want = b"".join(expect(f"pile/{i}", 1, 0, SIZE) for i in range(10))
    chance = random.Random(11)

    def daemon(ring="16MiB", **fake):
        env = {"PENSTOCK_GPU_MODULE": module, "PENSTOCK_GPU_IDLE_MS": "300", "FAKE_CUDA_DELAY_US": "300",
               "FAKE_CUDA_DEVICES": "2", **{f"FAKE_CUDA_{k.upper()}": str(v) for k, v in fake.items()}}
        return story.penstock(origin=origin.url, fill_socket=path, freshness="immutable", fill_ring=ring, env=env)

    def seen(event):
        return server.log().count(f'"event":"{event}"')

    def fills(filler, memory, buffer):
        memory.guard(0, memory.size)
        reply = filler.fill(buffer, "pile", [[str(i), 0, SIZE, i * SIZE] for i in range(10)])
        return reply["ok"] and memory.map[:len(want)] == want

    server = daemon()
    filler, memory, other = Filler(path), FakeGpuMemory(4 << 20, 0), FakeGpuMemory(4 << 20, 1)
    buffer = memory.vmm(filler)["buffer"]
    story.fact("a fill", fills(filler, memory, buffer))
    time.sleep(0.8)
    story.same("a GPU with a buffer stays open, also when nothing is filled", seen("gpu_closed"), 0)
    story.fact("... and ready", fills(filler, memory, buffer))
    filler.say("unregister", buffer=buffer)
    story.in_time("not at once", seen("gpu_closed") == 0)
    wait_for("the GPU is given back", lambda: seen("gpu_closed") == 1)
    for n in range(3):
        buffer = memory.vmm(filler)["buffer"]
        story.fact("it is opened again for who comes", fills(filler, memory, buffer))
        filler.say("unregister", buffer=buffer)
        wait_for("... and given back", lambda: seen("gpu_closed") == 2 + n)
    story.same("each time", seen("gpu_opened"), 4)

    # ---- who comes while it goes ----
    crowd, good = [(Filler(path), FakeGpuMemory(4 << 20, n % 2)) for n in range(3)], 0
    for n in range(25):
        one, room = crowd[n % 3]
        time.sleep(0.28 + chance.random() * 0.04)
        b = room.vmm(one)["buffer"]
        good += fills(one, room, b)
        if n % 2:
            good += one.say("unregister", buffer=b)["ok"]
        else:
            one.close()
            good += 1
            crowd[n % 3] = Filler(path), room
    story.same("25 that come just when it is given back are served", good, 50)
    story.note(f"opened {seen('gpu_opened')} times")
    server.stop()

    # ---- a GPU that is lost stays lost ----
    server = daemon(fail_copy=5)
    filler = Filler(path)
    buffer = memory.vmm(filler)["buffer"]
    story.fact("it breaks", not fills(filler, memory, buffer))
    filler.say("unregister", buffer=buffer)
    time.sleep(0.8)
    reply = memory.vmm(filler)
    story.same("a GPU that is lost does not come back", (reply.get("error"), seen("gpu_closed")), ("gpu_lost", 0))
    server.stop()

    # ---- one that can't be had now is asked for again ----
    server = daemon(refuse_pins=3)
    filler = Filler(path)
    reply = memory.vmm(filler)
    story.same("no pinned memory", (reply.get("error"), reply.get("status")), ("SlowDown", 503))
    story.fact("... with a sentence", len(reply["message"]) > 15, reply)
    buffer = [memory.vmm(filler) for _ in range(3)][-1].get("buffer")
    story.fact("who comes later gets it", buffer and fills(filler, memory, buffer))
    server.stop()
