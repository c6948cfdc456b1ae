"""What is remembered of the origin's answers ends when its setting says so: each time, a little before and after."""
from harness import *

ANNA = ("ANNATESTKEY", "anna/secret")
HOUR, EARLY = 3600, 20    # seconds before the end at which it is remembered still

with Story("c14 what is remembered ends with its time") as story:
    clock = story.clock()
    origin = story.origin("objects=bucket/%02d 30 1000")

    def daemon(name, **settings):
        return story.penstock(origin=origin.url, cache_dir=story.path(name), **settings)

    def read(client, key):
        reply = client.get(key)
        return reply.status, reply.cache

    def warm(client, key):
        wait_for(f"{key} is cached", lambda: client.get(key).cache == "hit")

    def asked(method, what, at_least=0):
        """How often the origin is asked by this method while what() goes on. A question behind a
        stale answer may come later: of at_least questions, each is waited for."""
        origin.quiet()
        before = origin.counts()[method]
        what()
        if at_least:
            wait_for(f"the origin is asked by {method}", lambda: origin.counts()[method] >= before + at_least)
        return origin.counts()[method] - before

    def ends(text, seconds, method, again):
        """again() asks the origin for nothing until so many seconds have passed, then once."""
        clock.ahead(seconds - EARLY)
        story.same(f"{text}: remembered until shortly before", asked(method, again), 0)
        clock.ahead(2 * EARLY)
        story.same("... and asked for after it", asked(method, again, 1), 1)

    server = daemon("ttl", freshness="ttl", ttl="1h", grace="10m", revalidate="head", permission_time="10h")
    warm(server, "bucket/00")
    ends("ttl", HOUR, "head", lambda: story.same("it is read", server.get("bucket/00").status, 200))
    warm(server, "bucket/00")    # the answer to that question has come too
    clock.ahead(HOUR + 600 - EARLY)
    story.same("grace: a stale answer at once", read(server, "bucket/00"), (200, "stale"))
    wait_for("and a question behind it", lambda: server.get("bucket/00").cache == "hit")
    clock.ahead(HOUR + 600 + EARLY)
    story.same("beyond it: the question first", read(server, "bucket/00"), (200, "revalidated"))

    server = daemon("listing", freshness="ttl", ttl="60s", grace="0s")
    warm(server, "bucket/01")
    origin.tell("match=bucket/ LIST", "status=403")
    clock.ahead(70)
    story.same("a listing that is refused: a HEAD", asked("head", lambda: server.get("bucket/01")), 1)
    origin.calm()
    clock.ahead(70)
    story.same("... remembered", asked("list", lambda: server.get("bucket/01")), 0)
    clock.ahead(600)
    story.same("... for ten minutes", asked("list", lambda: server.get("bucket/01")), 1)

    server = daemon("missing", missing_time="10m")
    server.get("bucket/absent")
    ends("missing_time", 600, "get", lambda: story.same("it is missing", server.get("bucket/absent").status, 404))

    server = daemon("lists", list_time="10m")
    server.list("bucket", prefix="0")
    ends("list_time", 600, "list", lambda: story.same("it is listed", server.list("bucket", prefix="0").status, 200))

    # In the second half of a right's life a question goes behind a hit, so that nobody waits for one at its end.
    server = daemon("rights", permission_time="1h", grant_time="1h", missing_time="0",
                    keys=[{"access_key": ANNA[0], "secret_key": ANNA[1]}])
    for text, client, who, key in (("permission_time", server.client, ORIGIN_KEY, "bucket/02"),
                                   ("grant_time", Client(server.port, *ANNA), ANNA[0], "bucket/03")):
        warm(client, key)
        ends(f"{text}, its first half", HOUR // 2, "head", lambda: (client.get(key), time.sleep(0.3)))
        origin.tell(f"match={key}", f"as={who}", "status=403")
        clock.ahead(HOUR + EARLY)
        story.same(f"{text}: at its end, a client that is refused has no byte", client.get(key).status, 403)
