"""A purge comes, and its sweep ends, while the recycler is about to copy a record that is purged: no later start of the
daemon finds the record again."""
from harness import *

OBJECTS, SIZE = 224, 512 * 1024

use_tests_daemon()
with Story("y13 a purged record is not copied", seconds=120) as story:
    control = story.path("failpoints")
    origin = story.origin(*(f"objects=bucket/{n}/%d {OBJECTS} {SIZE}" for n in range(2)))
    server = story.penstock(origin=origin.url, cache_size="64MiB", extent_size="4MiB", freshness="immutable",
                            access_log=False, env={"PENSTOCK_FAILPOINTS": control})

    def epoch(*sets):
        """Reads all objects of the first set, and half of those of the second one."""
        keys = [f"bucket/{n}/{i}" for at, n in enumerate(sets) for i in range(0, OBJECTS, at + 1)]
        story.random.shuffle(keys)
        client = Client(server.port, keep=True)
        for key in keys:
            client.get(key)

    def is_stopped():
        with open(control + ".hits") as f:
            return "copy-read" in f.read().split()

    for _ in range(3):
        epoch(0)
    with open(control, "w") as f:
        f.write("copy-read stop\n")
    open(control + ".hits", "w").close()
    for _ in range(12):    # the rule knows in the third epoch what is in use
        epoch(1, 0)
        if is_stopped():
            break
    story.fact("the recycler stops before it reads a record for a copy", is_stopped())
    story.same("all is purged", server.client.ask("POST", "bucket", [("penstock-purge", ""), ("prefix", "")]).status, 200)
    wait_for("the sweep ends", lambda: server.metric("penstock_store_bans") == 0, 60)
    recycled = server.metric("penstock_store_recycled_extents_total")
    with open(control, "w"):
        pass
    wait_for("the recycler goes on", lambda: server.metric("penstock_store_recycled_extents_total") > recycled, 60)
    server.kill()
    server = server.again()
    wait_for("the folder is in service", lambda: server.metric("penstock_store_serving") == 1)
    origin.tell("match=bucket/* GET", "status=400")    # the cache alone answers
    client = Client(server.port, keep=True)
    keys = [f"bucket/{n}/{i}" for n in range(2) for i in range(OBJECTS)]
    story.same("after a kill -9, nothing of the time before the purge is served",
               [key for key in keys if client.get(key).status == 200], [])
