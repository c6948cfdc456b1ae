"""Readers of cached objects that take nothing hold little memory, and lose no byte by it."""
import resource

from harness import *

COUNT, SIZE = 1000, 3000000
HELD_MIB = 8 + COUNT / 64 + 24    # the setting, 16 KiB each, and what a connection costs otherwise

with Story(f"m02 {COUNT} readers of a cached object take nothing", seconds=150) as story:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * COUNT + 400)), hard))
    origin = story.origin(f"object=bkt/k {SIZE}")
    server = story.penstock(origin=origin.url, memory_readers="8MiB", access_log=False)

    def anon_mib():
        with open(f"/proc/{server.pid}/status") as f:
            return int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1)) / 1024
    server.get("bkt/k")
    origin.quiet()
    wait_for("it is stored", lambda: server.get("bkt/k").cache == "hit")
    before = anon_mib()
    short = server.metric("penstock_store_short_pieces_total")
    story.same("one reader gets long pieces", short, 0)
    wires = []
    for _ in range(COUNT):
        wires.append(Wire(server.port, receive_buffer=4096))
        wires[-1].send(server.client.head_of("GET", "bkt/k"))
    wait_for("their pieces are short", lambda: server.metric("penstock_store_short_pieces_total") > short)
    time.sleep(2)
    held = anon_mib() - before
    story.fact(f"they hold at most {HELD_MIB:.0f} MiB", held <= HELD_MIB, f"{held:.1f} MiB")
    story.note(f"{held:.1f} MiB")
    story.fact("which is counted", server.metric("penstock_store_short_pieces_total") > short)
    story.bytes("a reader who reads is served meanwhile", server.get("bkt/k"), "bkt/k", length=SIZE)
    for wire in wires[::50]:
        story.bytes("one of them begins to read", wire.read(), "bkt/k", length=SIZE)
    for wire in wires:
        wire.abort()
    story.bytes("when they have left", server.get("bkt/k"), "bkt/k", length=SIZE)
