"""A data set larger than the cache: what is kept is of use in each epoch, and nothing is written for it."""
from epochs import Epochs, told
from harness import *

OBJECTS, SIZE, EPOCHS = 1024, 128 * 1024, 5

with Story("z01 epochs of more than fits into the cache") as story:
    origin = story.origin(f"objects=bucket/a/%d {OBJECTS} {SIZE}", f"objects=bucket/b/%d {OBJECTS} {SIZE}")
    server = story.penstock(origin=origin.url, cache_size="76MiB", extent_size="4MiB", freshness="immutable")
    epochs_of = Epochs(origin, OBJECTS, SIZE)

    def epoch(name):
        return epochs_of.read(server, name)

    first = epoch("a")
    share = first[1]
    story.fact("the first epoch fills the cache", 0.35 < share < 0.6, f"{share:.2f} of the data set")
    live = lambda: server.metric("penstock_store_live_bytes") == server.metric("penstock_store_entries") * SIZE
    wait_for("the bytes of the cached objects are counted", live)
    epochs = [epoch("a") for _ in range(EPOCHS - 1)]
    story.fact("each later epoch hits what is cached", min(hits for hits, _ in epochs) >= 0.95 * share, f"{told(epochs)} of {share:.3f}")
    story.fact("and nothing is written", max(written for _, written in epochs[1:]) <= 0.01, told(epochs))
    moved = [epoch("b") for _ in range(4)]
    story.fact("another data set takes the place of the first", moved[-1][0] >= 0.8 * share,
               told(moved))
