"""Connections are spread evenly over the loops, whichever loop the kernel gave them to."""
import contextlib

from harness import *

LOOPS, EACH = 4, 4

with Story("h12 connections are spread over the loops") as story:
    origin = story.origin("object=bucket/key 1000")
    server = story.penstock(origin=origin.url, loops=LOOPS, freshness="immutable")
    ask = server.client.head_of("GET", "bucket/key")

    def watched():
        """Number of descriptors that each epoll descriptor of the daemon watches."""
        folder, counts = f"/proc/{server.process.pid}", {}
        for fd in os.listdir(f"{folder}/fd"):
            with contextlib.suppress(FileNotFoundError):    # closed meanwhile
                if os.readlink(f"{folder}/fd/{fd}") == "anon_inode:[eventpoll]":
                    with open(f"{folder}/fdinfo/{fd}") as f:
                        counts[fd] = sum(line.startswith("tfd:") for line in f)
        return counts

    def spread():
        """Number of connections that each loop got since the start."""
        return sorted(count - before[fd] for fd, count in watched().items() if count != before[fd])

    def connect(count):
        wires, statuses = [], set()
        for _ in range(count):    # one after the other: two loops might choose the same third one
            wires.append(wire := Wire(server.port))
            wire.send(ask)
            statuses.add(wire.read().status)
        story.same(f"{count} clients have their answers", statuses, {200})
        return wires

    wait_for("no connection is open", lambda: (now := watched()) == (time.sleep(0.1), watched())[1] and now)
    before = watched()
    wires = connect(LOOPS * EACH)
    story.same("each loop has as many", spread(), [EACH] * LOOPS)
    for wire in wires[::2]:
        wire.close()
    wait_for("half of them have ended", lambda: sum(spread()) == LOOPS * EACH // 2)
    wires = wires[1::2] + connect(LOOPS * EACH // 2)
    story.same("those that come fill the gaps", spread(), [EACH] * LOOPS)
    replies = together(*[lambda: Client(server.port).get("bucket/key").status for _ in range(64)])
    story.same("64 at once have their answers", set(replies), {200})
    for wire in wires:
        wire.close()
    wait_for("all have ended", lambda: spread() == [])
    story.same("the daemon ends cleanly", server.stop(), 0)
