"""More purges of single keys than the list of purges has room for, beside pinned objects: the recycler keeps what is pinned
and was not purged. The list merges purges that are swept, and such a purge covers more than was purged."""
from harness import *

SIZE, PINNED, PURGES, OBJECTS = 128 * 1024, 150, 4200, 450
ENDINGS = [c for c in "abcdefghijklmnopqrstuvwxyz012" if c != "k"]

with Story("y14 more purges than the list has room for", seconds=150) as story:
    origin = story.origin(f"objects=pool/data/%d/k-keep {PINNED} {SIZE}",
                          *(f"objects=pool/noise/{n}/%d {OBJECTS} {SIZE}" for n in range(4)))
    server = story.penstock(origin=origin.url, cache_size="64MiB", extent_size="4MiB", freshness="immutable", pin_budget=60,
                            access_log=False)
    pinned = [f"pool/data/{i}/k-keep" for i in range(PINNED)]
    for i, key in enumerate(pinned):    # each extent has objects that are pinned, and others
        for name in (key, f"pool/noise/3/{2 * i}", f"pool/noise/3/{2 * i + 1}"):
            server.get(name)
    server.wait_cached(*pinned)
    story.same("a pin", server.client.ask("POST", "pool", [("penstock-pin", ""), ("prefix", "data/")]).status, 200)
    prefixes = iter([f"data/{n // len(ENDINGS)}/k-{ENDINGS[n % len(ENDINGS)]}" for n in range(PURGES)])
    lock, refused = threading.Lock(), []

    def purge_all():
        client = Client(server.port, keep=True)
        while True:
            with lock:
                prefix = next(prefixes, None)
            if prefix is None:
                return
            reply = client.ask("POST", "pool", [("penstock-purge", ""), ("prefix", prefix)])
            if reply.status != 200:
                refused.append(str(reply))

    threads = [threading.Thread(target=purge_all) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    story.same("each purge succeeds", refused[:3], [])
    wait_for("the sweeps end", lambda: server.metric("penstock_store_bans") == 0, 60)
    recycled = server.metric("penstock_store_recycled_extents_total")
    client = Client(server.port, keep=True)
    for n in range(3):
        names = [f"pool/noise/{n}/{i}" for i in range(OBJECTS)] * 2
        story.random.shuffle(names)
        for name in names:
            client.get(name)
    story.fact("extents were recycled", server.metric("penstock_store_recycled_extents_total") > recycled)
    story.same("what is pinned is a hit", [key for key in pinned if client.get(key).cache != "hit"], [])
