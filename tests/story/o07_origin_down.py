"""An origin that is down gets one request a second. What is cached is served, misses fail at once, and when the origin
is back, all is at full speed within 5 s."""
from guards import guarded
from harness import *

READERS, SECONDS = 16, 6
WARM = [f"bucket/warm/{i:02d}" for i in range(20)]
folders = iter(range(1000))


def crowd(server, misses, seconds=SECONDS):
    """READERS clients that read for so long, half of them what is cached. Returns all replies: of hits, of misses."""
    hits, missed, end = [], [], time.monotonic() + seconds

    def reads(number):
        client = Client(server.port)
        turn = 0
        while time.monotonic() < end:
            turn += 1
            if number % 2:
                hits.append(client.get(WARM[turn % len(WARM)]))
            else:
                missed.append(client.get(misses(number * 100_000 + turn)))
            time.sleep(0.01)
    together(*[lambda number=number: reads(number) for number in range(READERS)])
    return hits, missed


def took(reply):
    return reply.ended - reply.began


with Story("o07 an origin that is down", seconds=180) as story:
    use_tests_daemon()
    port = free_port()
    origin = story.origin("objects=bucket/warm/%02d 20 20000", port=port)

    def house(off="", **settings):
        server = story.penstock(origin=origin.url, cache_dir=story.path(f"cache-{next(folders)}"), env=guarded(off),
                                **{"origin_connect_time": "500ms", "origin_progress_time": "1s", **settings})
        for key in WARM:
            server.get(key)
        server.wait_cached(*WARM)
        origin.reset()
        return server

    def cold(place):
        """Keys of two folders, so that it is not one prefix alone that fails."""
        return lambda number: f"bucket/{place}{'/-'[number // 100_000 % 4 // 2]}{number}/size-1000-x"

    def is_down(server):
        return server.metric("penstock_origin_breaker_open") == 1

    def must_recover(server, text, place):
        """The origin answers again: after 5 s, no read fails any more."""
        began = time.monotonic()
        wait_for(f"{text}: the first read", lambda: server.get(next(fresh)).status == 200, every=0.1)
        story.in_time(f"{text}: reads are served again within 5 s", time.monotonic() - began <= 5, time.monotonic() - began)
        story.same("... and the breaker is closed", server.metric("penstock_origin_breaker_open"), 0)
        hits, missed = crowd(server, cold(place), 1)
        failed = [r for r in hits + missed if r.status != 200]
        story.same("... and no read fails any more", failed[:3], [])
        story.fact("... at full speed", len(missed) > READERS, len(missed))

    fresh = (f"bucket/{i % 7}/fresh-{i}/size-1000-x" for i in range(10**6))

    # ---- 503 to everything ----
    server = house()
    origin.tell("status=503")
    crowd(server, cold("a"), 3)
    story.same("503: the breaker opens", is_down(server), True)
    origin.reset()
    began = time.monotonic()
    hits, missed = crowd(server, cold("b"))
    seconds, counts = time.monotonic() - began, origin.counts()
    story.same("503: reads of cached objects are served", [r for r in hits if r.status != 200 or r.cache != "hit"], [])
    story.fact("503: all misses are refused", missed and all(r.status == 503 and r.code for r in missed), missed[:3])
    story.in_time("... within 1 s", max(map(took, missed)) <= 1, max(map(took, missed)))
    story.fact(f"503: {len(missed)} misses cost the origin one call a second", counts["requests"] <= seconds + 2, counts["requests"])
    refused = [r for r in missed if r.headers.get("retry-after")]
    story.fact("503: a refused read says when to come again", len(refused) >= len(missed) - seconds - 2, len(refused))
    reply = refused[-1]
    story.same("... and is no fault of the client's", (reply.status, reply.code), (503, "ServiceUnavailable"))
    story.fact("... and says what happened, which origin, why, and what follows",
               all(word in reply.body for word in (b"The origin is down", b"origin default: the origin answered 503, since 2",
                                                   b"once a second")), reply.body)
    story.fact("... also to a HEAD", any("the origin answered 503" in server.head(next(fresh)).headers.get("x-penstock-error", "")
                                         for _ in range(2)))    # one of them may be the probe
    story.fact("the refused are counted", server.metric("penstock_origin_breaker_refused_total") >= len(refused))
    story.same("the breaker opened once", server.metric("penstock_origin_breaker_opened_total"), 1)
    lines = [line for line in server.log().splitlines() if "origin_down" in line]
    story.fact("one log line says so", len(lines) == 1 and "the origin answered 503" in lines[0], lines)
    origin.calm()
    must_recover(server, "503", "c")
    lines = [line for line in server.log().splitlines() if "origin_up" in line]
    story.fact("one log line says that it is over", len(lines) == 1 and "down_ms" in lines[0], lines)

    # ---- one bad prefix ----
    origin.tell("match=bucket/bad/*", "status=503")
    good, end = [], time.monotonic() + 4

    def bad_reads():
        client = Client(server.port)
        for i in range(100_000):
            if time.monotonic() > end:
                break
            client.get(f"bucket/bad/{i}/size-1000-x")

    def good_reads():
        for i in range(100_000):
            if time.monotonic() > end:
                break
            good.append(server.client.get(f"bucket/good/{i}/size-1000-x"))
            time.sleep(0.4)
    together(bad_reads, bad_reads, good_reads)
    story.fact("a bad prefix fails no other", len(good) > 5 and all(r.status == 200 for r in good), good[:3])
    story.same("... and opens no breaker", server.metric("penstock_origin_breaker_opened_total"), 1)
    origin.tell("reset=rules", "match=bucket/lost/*", "status=404", "match=bucket/mine/*", "status=403")
    for name in ("lost", "mine"):
        crowd(server, cold(name), 2)
    story.same("keys that are missing or refused open no breaker", server.metric("penstock_origin_breaker_opened_total"), 1)
    origin.calm()

    # ---- no connection ----
    origin.kill()
    crowd(server, cold("d"), 3)
    story.same("no connection: the breaker opens", is_down(server), True)
    hits, missed = crowd(server, cold("e"), 4)
    story.same("no connection: reads of cached objects are served", [r for r in hits if r.status != 200 or r.cache != "hit"], [])
    story.fact("no connection: all misses are refused", missed and all(r.status == 503 and r.code for r in missed), missed[:3])
    story.in_time("... within 1 s", max(map(took, missed)) <= 1, max(map(took, missed)))
    origin = story.origin("objects=bucket/warm/%02d 20 20000", port=port)
    must_recover(server, "no connection", "f")

    # ---- no answer ----
    origin.tell("hang=1")
    crowd(server, cold("g"), 5)
    story.same("no answer: the breaker opens", is_down(server), True)
    hits, missed = crowd(server, cold("h"), 4)
    story.same("no answer: reads of cached objects are served", [r for r in hits if r.status != 200 or r.cache != "hit"], [])
    slow = [r for r in missed if took(r) > 1]
    story.fact("no answer: misses are refused at once, but for one probe a second",
               len(missed) > 500 and len(slow) <= 6, (len(missed), len(slow)))
    origin.calm()
    must_recover(server, "no answer", "i")
    server.stop()

    # ---- without the breaker ----
    server = house("breaker")
    origin.tell("status=503")
    crowd(server, cold("j"), 3)
    origin.reset()
    hits, missed = crowd(server, cold("k"), 3)
    calls = origin.counts()["requests"]
    story.fact(f"with the breaker off, each miss is a call: {calls} for {len(missed)}", calls >= len(missed), calls)
    origin.tell("hang=1")
    hits, missed = crowd(server, cold("l"), 3)
    story.fact("... and misses wait for the origin", max(map(took, missed)) > 1, max(map(took, missed)))
