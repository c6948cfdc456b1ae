"""A data set larger than the cache: what is kept is of use in each epoch, and nothing is written for it."""
import random

from harness import *

OBJECTS, SIZE, EPOCHS = 1024, 128 * 1024, 5

with Story("z01 epochs of more than fits into the cache") as story:
    origin = story.origin(f"objects=bucket/a/%d {OBJECTS} {SIZE}", f"objects=bucket/b/%d {OBJECTS} {SIZE}")
    server = story.penstock(origin=origin.url, cache_size="76MiB", extent_size="4MiB", freshness="immutable")
    order = random.Random(7)

    def epoch(name):
        """Reads each object once, in random order. Returns the share of hits, and the bytes written."""
        numbers = list(range(OBJECTS))
        order.shuffle(numbers)
        origin.reset()
        before = server.metrics()["penstock_store_appended_bytes_total"]
        for number in numbers:
            key = f"bucket/{name}/{number}"
            check(server.get(key).body == expect(key, 1, 0, SIZE), f"{key} has wrong bytes")
        time.sleep(0.3)
        written = server.metrics()["penstock_store_appended_bytes_total"] - before
        return 1 - origin.counts()["get"] / OBJECTS, written / (OBJECTS * SIZE)

    first = epoch("a")
    share = first[1]
    story.fact("the first epoch fills the cache", 0.35 < share < 0.6, f"{share:.2f} of the data set")
    live = lambda: server.metric("penstock_store_live_bytes") == server.metric("penstock_store_entries") * SIZE
    wait_for("the bytes of the cached objects are counted", live)
    epochs = [epoch("a") for _ in range(EPOCHS - 1)]
    told = ", ".join(f"{hits:.3f}" for hits, _ in epochs)
    story.fact("each later epoch hits what is cached", min(hits for hits, _ in epochs) >= 0.95 * share, f"{told} of {share:.3f}")
    story.fact("and nothing is written", max(written for _, written in epochs[1:]) <= 0.01,
               ", ".join(f"{written:.4f}" for _, written in epochs))
    moved = [epoch("b") for _ in range(4)]
    story.fact("another data set takes the place of the first", moved[-1][0] >= 0.8 * share,
               ", ".join(f"{hits:.3f} ({written:.2f} written)" for hits, written in moved))
