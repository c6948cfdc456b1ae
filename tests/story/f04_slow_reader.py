"""A reader far slower than the origin gets a cold object whole, out of bounded memory."""
from harness import *

SIZE, PACE = 240 * MIB, 20 * MIB

with Story("f04 a 20 MiB/s reader of a cold 240 MiB object") as story:
    key = f"bucket/size-{SIZE}-x"
    origin = story.origin()
    server = story.penstock(origin=origin.url, memory_slots="32MiB")
    peak = [0]

    def watch():
        while server.alive() and peak[0] >= 0:
            with open(f"/proc/{server.pid}/status") as f:
                found = re.search(r"RssAnon:\s+(\d+)", f.read())
            peak[0] = max(peak[0], int(found.group(1)) if found else 0)
            time.sleep(0.1)
    threading.Thread(target=watch, daemon=True).start()
    start = time.monotonic()
    reply = server.get(key, pace=PACE, receive_buffer=256 * KIB)
    took = time.monotonic() - start
    story.bytes("it has every byte", reply, key, 0, SIZE, status=200)
    story.fact("at its own pace", took > 0.9 * SIZE / PACE, f"{took:.1f} s")
    counts = origin.counts(key)
    story.note(f"{counts['bytes'] / MIB:.1f} MiB from the origin by {counts['get']} GETs; RssAnon at most {peak[0] / 1024:.0f} MiB")
    story.fact("memory stayed bounded", peak[0] < 160 * 1024, f"{peak[0]} KiB")
    origin.quiet()
    story.bytes("and the next one too", server.get(key, 100 * MIB, 110 * MIB - 1), key, 100 * MIB,
                10 * MIB)
