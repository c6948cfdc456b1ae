"""What the tests' daemon may do, the shipped one does not know: no variable switches a guard off, sets its clock, or lets a
write fail.

Each scenario runs on both: on the tests' daemon it shows that the switch would be seen. That the shipped binary
does not even hold the variables' names, scripts/linkage checks."""
import harness
from guards import guarded
from harness import *

ANNA, BEN = ("ANNATESTKEY", "anna/secret"), ("BENTESTKEY", "ben/secret")

with Story("g03 the shipped daemon has no switch of the tests") as story:
    shipped = harness.PENSTOCK
    check(not shipped.endswith(TESTS_DAEMON), "PENSTOCK names the tests' daemon")
    ids = iter(range(100))
    clock = story.clock()
    of_tests = harness.PENSTOCK

    def stage(binary, *lines, **settings):
        harness.PENSTOCK = binary
        number = next(ids)
        origin = story.origin("object=bucket/a 3000", *lines)
        return origin, story.penstock(origin=origin.url, cache_dir=story.path(f"cache-{number}"), **settings)

    def older(binary):
        """What becomes of a copy once the clock is an hour ahead."""
        origin, server = stage(binary, freshness="ttl", ttl="60s", grace="0s")
        story.bytes("cold", server.get("bucket/a"), "bucket/a", 0, 3000)
        wait_for("it is committed", lambda: server.get("bucket/a").cache == "hit")
        clock.ahead(3600)
        return server.get("bucket/a").cache

    def refused(binary):
        """The status that a client is given whom the origin refuses, with the guard of grants off."""
        _, server = stage(binary, "match=bucket/a", f"as={BEN[0]}", "status=403", env=guarded("grants"),
                          keys=[{"access_key": k, "secret_key": s} for k, s in (ANNA, BEN)])
        story.same("one may read it", Client(server.port, *ANNA).get("bucket/a").status, 200)
        wait_for("it is committed", lambda: Client(server.port, *ANNA).get("bucket/a").cache == "hit")
        return Client(server.port, *BEN).get("bucket/a").status

    story.same("the clock, tests' daemon: an hour has passed", older(of_tests), "revalidated")
    story.same("... shipped: it has not", older(shipped), "hit")
    story.same("a guard, tests' daemon: the refused client has the bytes", refused(of_tests), 200)
    story.same("... shipped: it has not", refused(shipped), 403)

    def survives(binary):
        """Does a daemon outlive the step at which it is told to end?"""
        with open(story.path("failpoints"), "w") as f:
            f.write("append crash\n")
        _, server = stage(binary, env={"PENSTOCK_FAILPOINTS": story.path("failpoints")})
        server.get("bucket/a")
        wait_for("the object is stored, or the process has ended",
                 lambda: not server.alive() or server.get("bucket/a").cache == "hit")
        server.killed = not server.alive()
        return server.alive()

    story.same("a failing step, tests' daemon: the process has ended", survives(of_tests), False)
    story.same("... shipped: it goes on", survives(shipped), True)
