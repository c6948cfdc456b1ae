"""The scrub finds a flipped bit that no client has read: it is counted, and the object is fetched anew.

With scrub_time 0 the same damage is found by the first read alone."""
from damage import flip_bit
from harness import *

COUNT, SIZE = 24, 300_000
BAD = "penstock_scrub_bad_records_total"
BLOCKS = "penstock_store_bad_blocks_total"


with Story("d13 the scrub finds damage without a read", 120) as story:
    keys = [f"bucket/set/{i:03d}" for i in range(COUNT)]
    origin = story.origin(*[f"object={key} {SIZE}" for key in keys])
    server = story.penstock(origin=origin.url, freshness="immutable", scrub_time="0")

    def wrong_ones():
        return [k for k in keys if (r := server.get(k)).error or r.body != expect(k, 1, 0, SIZE)]

    story.same("cold", wrong_ones(), [])
    origin.quiet()
    story.fact("with scrub_time 0 there is no scrub", "scrub" not in server.threads().values(), server.threads())
    story.same("it stops cleanly", server.stop(), 0)
    damaged = sorted(story.random.sample(keys, 3))
    for key in damaged:
        flip_bit(*server.find_page(key, 1, 0)[0], 2)

    server = server.again(scrub_time="1s")
    origin.reset()
    wait_for("now there is a scrub", lambda: "scrub" in server.threads().values())
    story.fact("now there is a scrub", True)
    wait_for("the scrub has found the damage", lambda: server.metric(BAD) >= len(damaged))
    wait_for("a pass has ended", lambda: server.metric("penstock_scrub_passes_total") >= 2)
    story.same("each damaged record is counted once", server.metric(BAD), len(damaged))
    story.same("... and no more bad blocks than that", server.metric(BLOCKS), len(damaged))
    story.fact("the time of the pass is told", server.metric("penstock_volume_scrubbed_timestamp_seconds") >
               time.time() - 300, server.metric("penstock_volume_scrubbed_timestamp_seconds"))
    story.same("the origin was not asked", origin.counts()["requests"], 0)
    story.same("everything is right", wrong_ones(), [])
    story.same("... the damaged objects were fetched", sorted(k for k in keys if origin.counts(k)["get"]), damaged)
    story.same("... and no read met damage", server.metric(BLOCKS), len(damaged))
    origin.quiet()
    story.same("it stops cleanly", server.stop(), 0)
    status, out, err = run([PENSTOCK, "fsck", "--cache-dir", server.cache_dir])
    story.same("fsck finds nothing wrong", status, 0)
