"""The disk stands still under bodies that lie on it: their clients wait, and nobody else does."""
from probe import *

SIZE, BODIES = 4 * MIB, 40    # more of them than segments a loop has at once


def disk(story):
    """A file system of its own, that fsfreeze can stop: what writes to it hangs, as on a disk that does."""
    image, folder = story.path("disk"), story.path("mounted")
    os.makedirs(folder)
    with open(image, "wb") as f:
        f.truncate(2 * GIB)
    if os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "fsfreeze"))):
        raise Skip("needs root, mkfs.ext4 and fsfreeze")
    if run(["mkfs.ext4", "-q", image])[0] or run(["mount", "-o", "loop", image, folder])[0]:
        raise Skip("no loop mount is allowed here")
    return folder


def tell(story, folder):
    probe = Probe(story, spill=folder, body_memory_bytes=65536, loops=1, body_progress_ms=1500,
                  body_progress_bytes=1)
    body = story.random.randbytes(MIB) * (SIZE // MIB)
    whole, begun = put("/echo", body), MIB
    wires = [probe.wire(60) for _ in range(BODIES)]
    for wire in wires[:3]:    # the others' files are not there yet
        wire.send(whole[:begun])
    wait_for("three have begun", lambda: probe.spilled() == 3)
    check(run(["fsfreeze", "-f", folder])[0] == 0, "it can't be frozen")
    left = [whole[begun if i < 3 else 0:] for i in range(BODIES)]
    senders = [threading.Thread(target=wire.socket.sendall, args=(data,), daemon=True)
               for wire, data in zip(wires, left)]
    for sender in senders:
        sender.start()
    wait_for("all are there", lambda: probe.stats()["body_disk"] // SIZE == BODIES)
    time.sleep(3)    # longer than a client may bring nothing
    others = [probe.ask(get("/a")) for _ in range(50)]
    story.same("others are answered", {reply.status or reply.error for reply in others}, {200})
    for wire in wires[1:3] + wires[-2:]:    # who leaves holds nobody, either
        wire.abort()
    others = [probe.ask(get("/a")) for _ in range(50)]
    story.same("... and when some have left", {reply.status or reply.error for reply in others}, {200})
    story.same("nobody was refused", probe.stats()["no_room"], 0)
    run(["fsfreeze", "-u", folder])
    stay = wires[:1] + wires[3:-2]
    story.same("when the disk goes on, all the others are taken", {wire.read().body for wire in stay},
               {f"{SIZE} {sum_of(body)}\n".encode()})
    for wire in stay:
        wire.close()
    wait_for("no room is lost", lambda: (probe.on_disk(), probe.spilled()) == (0, 0))

    probe.ends_cleanly()

    probe = Probe(story, spill=folder, body_memory_bytes=65536, request_ms=1000)
    check(run(["fsfreeze", "-f", folder])[0] == 0, "it can't be frozen")
    wire = probe.wire()
    wire.send(put("/echo", body)[:MIB])
    reply = wire.read()
    story.same("a disk that takes longer than a body may is said to be that",
               (reply.status, b"disk took too long" in reply.body), (503, True))
    run(["fsfreeze", "-u", folder])
    probe.ends_cleanly()


with Story("h10 a disk that stands still under a body holds nobody else") as story:
    folder = disk(story)
    try:
        tell(story, folder)
    finally:
        run(["fsfreeze", "-u", folder])
        run(["umount", "-l", folder])
