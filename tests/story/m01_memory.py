"""Memory: idle, and with many connections that each read 1 MiB at once. Argument: connections
(1,000)."""
import resource

from harness import *

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
IDLE_MIB, BUSY_MIB = 32, 512

with Story(f"m01 memory, idle and with {COUNT} readers", seconds=150) as story:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * COUNT + 200)), hard))
    origin = story.origin(f"objects=bucket/set/%04d {COUNT} {MIB}")
    server = story.penstock(origin=origin.url, cache_size="6GiB")

    def anon_mib():
        with open(f"/proc/{server.pid}/status") as f:
            return int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1)) / 1024

    time.sleep(1)
    idle = anon_mib()
    story.fact(f"idle: at most {IDLE_MIB} MiB", idle <= IDLE_MIB, f"{idle:.1f} MiB")

    def all_read(text):
        """Everybody asks, nobody takes a byte until all have asked; then all read."""
        wires, peak = [], [0.0]
        going = True

        def watch():
            while going:
                peak[0] = max(peak[0], anon_mib())
                time.sleep(0.02)
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        for number in range(COUNT):
            wire = Wire(server.port, receive_buffer=65536)
            wire.send(server.client.head_of("GET", f"bucket/set/{number:04d}"))
            wires.append(wire)
        time.sleep(2)
        held = anon_mib()
        shares = [range(share, COUNT, 8) for share in range(8)]
        wrong = []

        def read(share):
            for number in share:
                reply = wires[number].read()
                if reply.error or reply.body != expect(f"bucket/set/{number:04d}", 1, 0, MIB):
                    wrong.append(f"{number}: {reply}")
        together(*[lambda s=s: read(s) for s in shares])
        going = False
        watcher.join()
        for wire in wires:
            wire.close()
        story.same(f"{text}: all have every byte right", wrong[:3], [])
        story.fact(f"{text}: under {BUSY_MIB} MiB", peak[0] < BUSY_MIB, f"{peak[0]:.0f} MiB")
        story.note(f"{text}: {held:.0f} MiB while all wait, {peak[0]:.0f} MiB at most")

    all_read("cold")
    origin.quiet()
    time.sleep(0.5)
    all_read("warm")
    time.sleep(2)
    story.note(f"idle {idle:.1f} MiB at first, {anon_mib():.1f} MiB afterwards")
