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

    def what_if():
        found = json.loads(plain(server.admin_port, "GET", "/status").body)["cache"]["what_if"]
        return [found["half"]["hit_ratio"], found["hit_ratio"], found["double"]["hit_ratio"], found["fourfold"]["hit_ratio"]]

    def stat():
        return run([PENSTOCK, "stat", "--url", f"http://127.0.0.1:{server.admin_port}"], {"PENSTOCK_CONFIG": "/nonexistent"})

    first = epoch("a")
    story.same("after one epoch, nobody knows what another size would change", what_if(), [None] * 4)
    story.fact("... and stat says so", "what if    not known yet" in stat()[1], stat())
    share = first[1]
    story.fact("the first epoch fills the cache", 0.35 < share < 0.6, f"{share:.2f} of the data set")
    live = lambda: server.metric("penstock_store_live_bytes") == server.metric("penstock_store_entries") * SIZE
    wait_for("the bytes of the cached objects are counted", live)
    epochs = [epoch("a") for _ in range(EPOCHS - 1)]
    story.fact("each later epoch hits what is cached", min(hits for hits, _ in epochs) >= 0.95 * share, f"{told(epochs)} of {share:.3f}")
    story.fact("and nothing is written", max(written for _, written in epochs[1:]) <= 0.01, told(epochs))
    for _ in range(4):
        if not what_if()[1]:
            epoch("a")
    estimates = wait_for("the estimate of the latest reads", lambda: what_if()[1] and what_if())
    bound = [min(1, factor * share) for factor in (0.5, 1, 2, 4)]
    story.fact("what if the cache had half, twice, four times the size", all(
        abs(found - wanted) <= 0.05 for found, wanted in zip(estimates, bound)), f"{estimates}, and not {bound}")
    shown, percent = stat()[1].partition("what if ")[2].partition("\n")[0], [f"{100 * ratio:.1f} %" for ratio in what_if()]
    story.fact("... stat says it", all(one in shown for one in percent), f"{shown}: {percent}")
    metrics = [server.metric(f'penstock_what_if_hit_ratio{{size="{size}"}}') for size in ("0.5", "1", "2", "4")]
    story.fact("... and the metrics do", all(abs(a - b) < 1e-4 for a, b in zip(metrics, what_if())), (metrics, what_if()))
    moved = [epoch("b") for _ in range(4)]
    story.fact("another data set takes the place of the first", moved[-1][0] >= 0.8 * share,
               told(moved))
