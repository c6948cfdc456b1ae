"""kill -9 while extents are recycled: never a wrong byte, and most of what was cached is still there.
Argument: rounds (3)."""
from harness import *

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
OBJECTS, SIZE = 800, 128 * 1024

with Story(f"z02 {ROUNDS} rounds of kill -9 while extents are recycled", seconds=60 + ROUNDS * 30) as story:
    origin = story.origin(*(f"objects=bucket/{n}/%d {OBJECTS} {SIZE}" for n in range(ROUNDS + 1)))
    server = story.penstock(origin=origin.url, cache_size="68MiB", extent_size="4MiB", freshness="immutable")
    order = random.Random(story.seed)
    wrong = []

    def read(keys):
        """Reads until the daemon is dead. Returns the number of answers."""
        count = 0
        for key in keys:
            reply = server.get(key)
            if reply.error:
                break
            count += 1
            if reply.status != 200 or reply.body != expect(key, 1, 0, SIZE):
                wrong.append(f"{key}: {reply}")
        return count

    def epoch(number):
        keys = [f"bucket/{number}/{i}" for i in range(OBJECTS)]
        order.shuffle(keys)
        return keys

    def hits(keys):
        origin.reset()
        read(keys)
        return len(keys) - origin.counts()["get"]

    recycled = 0
    for n in range(3):
        read(epoch(0))
    for number in range(ROUNDS):
        read(epoch(number + 1))
        before = server.metrics()["penstock_store_recycled_extents_total"]
        thread = threading.Thread(target=read, args=(epoch(number + 1),))
        thread.start()
        wait_for("extents are recycled",
                 lambda: server.metrics()["penstock_store_recycled_extents_total"] > before)
        time.sleep(order.random() * 0.3)
        recycled += server.metrics()["penstock_store_recycled_extents_total"] - before
        server.kill()
        thread.join()
        server = server.again()
        indexed = server.metrics()["penstock_store_entries"]
        kept = sum(hits(epoch(n)) for n in range(number + 2))    # of whichever set the rule kept
        story.fact("what lay in the cache is mostly there", kept >= 0.6 * 68 * MIB / SIZE,
                   f"{kept} objects of {68 * MIB // SIZE} that fit")
        story.fact("what the index has is served", kept >= 0.95 * indexed, f"{kept} of {indexed:.0f}")
        for _ in range(2):
            read(epoch(number + 1))    # the rule learns the interval again
    story.same("no byte is wrong", wrong, [])
    story.fact("extents were recycled in each round", recycled >= ROUNDS, recycled)
