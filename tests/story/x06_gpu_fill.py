"""Items into GPU memory, through pinned slabs and a GPU's own copies, with a CUDA runtime that is not
one: it copies late, in its own order, and ends the process where a GPU would write into memory that
is not there any more. What a GPU does is not shown here.

Needs a build with the CUDA headers."""
import random

from filler import FakeGpuMemory, Filler, Memory
from guards import use_fake_gpu
from harness import *

SIZE = 300_000
BIG = (9 << 20) + 12_345

with Story("x06 gpu fill", seconds=600) as story:
    module = use_fake_gpu()
    origin = story.origin("objects=pile/%d 40 300000", f"objects=pile/big%d 3 {BIG}", "objects=pile/cold%d 50 70000")
    path = story.path("fill.sock")
    want = {str(i): expect(f"pile/{i}", 1, 0, SIZE) for i in range(40)}
    want |= {f"big{i}": expect(f"pile/big{i}", 1, 0, BIG) for i in range(3)}

    def daemon(**fake):
        env = {"PENSTOCK_GPU_MODULE": module, "FAKE_CUDA_DEVICES": "2", "FAKE_CUDA_SEED": "7",
               "FAKE_CUDA_DELAY_US": "300", **{f"FAKE_CUDA_{k.upper()}": str(v) for k, v in fake.items()}}
        return story.penstock(origin=origin.url, fill_socket=path, freshness="immutable", env=env,
                              fill_ring="16MiB")

    def right(memory, items):
        at = 0
        for key, first, length, to in sorted(items, key=lambda item: item[3]):
            if not memory.untouched(at, to) or memory.map[to:to + length] != want[key][first:first + length]:
                return False
            at = to + length
        return memory.untouched(at, memory.size)

    def again(memory, items):
        for _, _, length, to in items:
            memory.guard(to, to + length)

    server = daemon()
    filler = Filler(path)
    story.fact("hello says what there is", all(filler.hello["kinds"][kind] == "on" for kind in ("memfd", "cuda-vmm", "cuda-ipc"))
               and [gpu["copy"] for gpu in filler.hello["gpus"]] == ["batch", "batch"], filler.hello)
    host = Memory(64 << 20)
    h = filler.register(host)["buffer"]
    reply = filler.fill(h, "pile", [[key, 0, -1, i * (10 << 20)] for i, key in enumerate(("big0", "big1", "big2"))])
    story.fact("the cache is filled", reply["ok"] and filler.fill(h, "pile", [[str(i), 0, -1, i * SIZE]
                                                                              for i in range(40)])["ok"])
    origin.quiet()
    time.sleep(0.5)

    # ---- random lists, by both kinds of memory, on two GPUs ----
    chance = random.Random(5)
    vmm, ipc = FakeGpuMemory(48 << 20, 0), FakeGpuMemory(48 << 20, 1)
    reply = vmm.vmm(filler)
    story.fact("VMM memory is registered", reply["ok"] and reply["path"] == "ring", reply)
    buffers = {vmm: reply["buffer"], ipc: ipc.ipc(filler)["buffer"]}
    gpus = json.loads(plain(server.admin_port, "GET", "/status").body)["fill"]["gpus"]
    story.same("/status says what each GPU does", [(g["uuid"], g["open"], g["lost"], g["buffers"], g["pinned_bytes"]) for g in gpus],
               [(g["uuid"], True, False, 1, 16 << 20) for g in filler.hello["gpus"]])
    good = 0
    for n in range(60):
        memory = chance.choice((vmm, ipc))
        items, to = [], chance.randrange(9000)
        for _ in range(chance.choice((1, 5, 70))):
            key = chance.choice(list(want)) if chance.random() < .1 else str(chance.randrange(40))
            size = len(want[key])
            length = chance.choice((0, 1, 4096, chance.randint(0, size), size))
            if to + length > memory.size:
                break
            items.append((key, chance.choice((0, size - length)), length, to))
            to += length + chance.choice((0, 1, 4097))
        reply = filler.fill(buffers[memory], "pile", [list(item) for item in items])
        if not reply["ok"] or not right(memory, items):
            story.fact(f"list {n}", False, (reply, len(items)))
            break
        again(memory, items)
        good += 1
    story.same("60 random lists lie there when their reply comes, and nothing beside them", good, 60)
    items = [(f"big{i}", 5, BIG - 5, i * (10 << 20) + 3) for i in range(3)]
    reply = filler.fill(buffers[vmm], "pile", [[k, f, -1, t] for k, f, _, t in items])
    story.fact("objects larger than a slab, open ones", reply["ok"] and right(vmm, items) and
               reply["lengths"] == [BIG - 5] * 3, reply)
    again(vmm, items)
    reply = filler.fill(buffers[vmm], "pile", [[f"cold{i}", 0, 70_000, i * 70_000] for i in range(50)])
    story.fact("what is missing", reply["ok"] and reply["misses"] == 50 and
               vmm.map[:70_000] == expect("pile/cold0", 1, 0, 70_000), reply)
    vmm.guard(0, 50 * 70_000)
    reply = filler.fill(buffers[vmm], "pile", [["0", 0, 100, 0], ["nothing", 0, 1, 500], ["1", 0, 100, 900]],
                        on_error="skip")
    story.fact("skip leaves the place of what failed alone", reply["errors"] == [[1, "NoSuchKey", 404]] and
               vmm.map[:100] == want["0"][:100] and vmm.untouched(100, 900) and vmm.map[900:1000] == want["1"][:100],
               reply)
    reply = filler.fill(buffers[vmm], "pile", [["0", 0, 100, vmm.size - 99]])
    story.same("beyond its end", (reply["error"], reply["status"]), ("bad_range", 400))

    # ---- what can't be registered ----
    for what, reply, error in (
            ("another GPU", vmm.vmm(filler, gpu="GPU-00000000-1111-2222-3333-444444444444"), "gpu_not_visible"),
            ("half a granule", vmm.vmm(filler, chunks=[1 << 20], bytes=1 << 20), "not_ipc_capable"),
            ("more than there is", vmm.vmm(filler, chunks=[64 << 20], bytes=64 << 20), "not_ipc_capable"),
            ("more than its chunks", vmm.vmm(filler, bytes=49 << 20), "not_ipc_capable"),
            ("a chunk of another GPU", vmm.vmm(filler, gpu=filler.hello["gpus"][1]["uuid"]), "not_ipc_capable"),
            ("IPC memory beyond its end", ipc.ipc(filler, base_offset=4096, bytes=ipc.size), "not_ipc_capable"),
            ("garbage for a handle", filler.say("register", kind="cuda-ipc", handle="A" * 86 + "==", bytes=4096,
                                                gpu=filler.hello["gpus"][0]["uuid"]), "not_ipc_capable"),
            ("a memfd", filler.say("register", [host.fd], kind="cuda-vmm", chunks=[host.size], bytes=host.size,
                                   gpu=filler.hello["gpus"][0]["uuid"]), "not_ipc_capable")):
        story.same(what, (reply["ok"], reply.get("error"), reply.get("status")), (False, error, 422))
        story.fact("... with a sentence", len(reply["message"]) > 15, reply)
    story.fact("and the GPUs go on", filler.fill(buffers[vmm], "pile", [["2", 0, 100, 0]])["ok"])

    # ---- clients that die in the middle ----
    story.fact("the memory is given back", filler.say("unregister", buffer=buffers[vmm])["ok"]
               and filler.say("unregister", buffer=buffers[ipc])["ok"])
    for n in range(40):
        dying = Filler(path)
        memory = FakeGpuMemory(16 << 20, n % 2)
        b = memory.vmm(dying)["buffer"]
        for part in range(3):
            dying.ask("fill", buffer=b, bucket="pile", items=[[str(i), 0, SIZE, (part * 13 + i) * SIZE] for i in range(13)])
        if n % 3:
            time.sleep(chance.random() * 0.004)
        dying.close()
        memory.close()
    wait_for("their sessions end", lambda: server.metric("penstock_fill_sessions") == 1)
    wait_for("40 that leave with copies under way: no memory of theirs is left", lambda: server.metric("penstock_fill_buffers") == 1
             and "fake-gpu" not in open(f"/proc/{server.pid}/maps").read())
    story.fact("40 that leave with copies under way: no memory of theirs is left", True)
    crowd = [Filler(path) for _ in range(6)]
    rooms = [FakeGpuMemory(32 << 20, i % 2) for i in range(6)]
    ids = [room.vmm(one)["buffer"] for room, one in zip(rooms, crowd)]
    numbers = [one.ask("fill", buffer=b, bucket="pile", items=[[str(i % 40), 0, SIZE, i * SIZE] for i in range(100)])
               for one, b in zip(crowd, ids)]
    replies = [one.reply_to(number) for one, number in zip(crowd, numbers)]
    story.fact("six at once, with four slabs for each GPU", all(reply["ok"] for reply in replies) and
               all(room.map[i * SIZE:(i + 1) * SIZE] == want[str(i % 40)] for room in rooms for i in range(100)), replies)
    server.stop()
    server = None

    # ---- a GPU that fails for good ----
    for how in ({"fail_copy": 40}, {"fail_call": 60}):
        server = daemon(**how)
        filler = Filler(path)
        vmm, other = FakeGpuMemory(16 << 20, 0), FakeGpuMemory(16 << 20, 1)
        b, c = vmm.vmm(filler)["buffer"], other.vmm(filler)["buffer"]
        host = Memory(1 << 20)
        h = filler.register(host)["buffer"]
        for n in range(300):
            reply = filler.fill(b, "pile", [["0", 0, 1000, 0]])
            if not reply["ok"]:
                break
        story.same(f"{how}: its fills fail", (reply.get("error"), reply.get("status")), ("gpu_lost", 503))
        reply = filler.fill(b, "pile", [["0", 0, 1000, 0]])
        story.same("... from then on", reply["error"], "gpu_lost")
        story.same("... and registering there", vmm.vmm(filler)["error"], "gpu_lost")
        story.fact("host memory is filled", filler.fill(h, "pile", [["0", 0, SIZE, 0]])["ok"] and
                   host.map[:SIZE] == want["0"])
        story.same("objects are served", server.get("pile/0").body, want["0"])
        story.fact("its memory is given back", filler.say("unregister", buffer=b)["ok"])
        story.fact("the log says it", "gpu_lost" in server.log())
        server.stop()
