"""What eviction has learned outlives a restart: epochs hit as before, and another data set takes the place of the
first one as fast as without a restart."""
from epochs import Epochs, told
from harness import *

OBJECTS, SIZE = 1024, 128 * 1024

with Story("z04 eviction goes on after a restart", seconds=120) as story:
    origin = story.origin(*(f"objects=bucket/{name}/%d {OBJECTS} {SIZE}" for name in "abc"))
    server = story.penstock(origin=origin.url, cache_size="76MiB", extent_size="4MiB", freshness="immutable")
    epochs_of = Epochs(origin, OBJECTS, SIZE)

    def epoch(name):
        return epochs_of.read(server, name)

    first = [epoch("a") for _ in range(3)]
    share = first[-1][0]
    story.fact("epochs of the first set hit a part of it", 0.4 < share < 0.7, told(first))

    server.stop()
    server = server.again()
    same = [epoch("a") for _ in range(2)]
    story.fact("after a restart, epochs hit as before", min(hits for hits, _ in same) >= 0.97 * share, told(same))
    story.fact("and nothing is written", max(written for _, written in same) <= 0.01, told(same))

    server.stop()
    server = server.again()
    moved = [epoch("b") for _ in range(3)]
    story.fact("after a restart, a second set takes the place of the first by its third epoch",
               moved[2][0] >= 0.85 * share, told(moved))

    server.kill()
    server = server.again()
    moved = [epoch("c") for _ in range(4)]
    story.fact("after kill -9, which loses up to a quarter of an epoch, it takes an epoch more",
               moved[3][0] >= 0.85 * share, told(moved))
