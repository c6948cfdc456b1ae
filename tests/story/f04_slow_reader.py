"""A reader far slower than the origin gets a cold object whole, out of bounded memory."""
from harness import *

SIZE, PACE = 240 * MIB, 20 * MIB

with Story("f04 a 20 MiB/s reader of a cold 240 MiB object") as story:
    key = f"bucket/size-{SIZE}-x"
    origin = story.origin()
    server = story.penstock(origin=origin.url, memory_slots="32MiB")
    peak, filled_at = [0], []

    def watch():
        while server.alive():
            with open(f"/proc/{server.pid}/status") as f:
                found = re.search(r"RssAnon:\s+(\d+)", f.read())
            peak[0] = max(peak[0], int(found.group(1)) if found else 0)
            totals = origin.totals()
            if not filled_at and totals["get"] and not totals["requests_open"]:
                filled_at.append(time.monotonic())
            time.sleep(0.1)
    threading.Thread(target=watch, daemon=True).start()
    start = time.monotonic()
    reply = server.get(key, pace=PACE, receive_buffer=256 * KIB)
    story.bytes("it has every byte", reply, key, 0, SIZE, status=200)
    took = filled_at[0] - start if filled_at else None
    story.note(f"the origin was done after {took} s, the reader after {reply.ended - start:.1f} s")
    story.in_time("the origin did not wait for the reader", took and took < SIZE / PACE / 2, took)
    counts = origin.counts(key)
    story.note(f"{counts['bytes'] / MIB:.1f} MiB from the origin by {counts['get']} GETs; RssAnon at most {peak[0] / 1024:.0f} MiB")
    story.fact("memory stayed bounded", peak[0] < 160 * 1024, f"{peak[0]} KiB")
    origin.quiet()
    story.bytes("and the next one too", server.get(key, 100 * MIB, 110 * MIB - 1), key, 100 * MIB,
                10 * MIB)
