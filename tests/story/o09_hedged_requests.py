"""An origin answers a few requests ten times as slowly as the rest: Penstock sends these a second time, and no more than
3 % more requests."""
from harness import *

READS, EVERY, CLIENTS, CONNECTIONS = 1000, 50, 8, 16
SLOW_FROM = 5 * EVERY    # until then, few times are known, and the budget of hedges is empty
SSEC = {"x-amz-server-side-encryption-customer-algorithm": "AES256"}
names, folders = iter(range(10**6)), iter(range(100))

with Story("o09 hedged requests", seconds=120) as story:
    use_tests_daemon()
    origin = story.origin()

    def house(hedges=True, progress="2s"):
        return story.penstock(origin=origin.url, cache_dir=story.path(f"cache-{next(folders)}"),
                              origin_connections=CONNECTIONS, origin_progress_time=progress, origin_tries=1,
                              drain_time="1s", hedged_requests=hedges)

    def fresh(place):
        return f"bucket/{place}/{next(names)}/size-20000-x"

    def is_slow(nth):
        return nth >= SLOW_FROM and nth % EVERY == 0

    def read(server, place):
        """Reads that are not cached. Of 50, the first request for one is slow. Returns the replies by key."""
        keys = [fresh(place) for _ in range(READS)]
        slow = [key for nth, key in enumerate(keys) if is_slow(nth)]
        origin.tell("reset=rules", "first_byte_ms=30",
                    *(line for key in slow for line in (f"match={key} GET", "first_byte_ms=300", "times=1")))
        origin.reset()
        turns, replies = iter(keys), {}

        def reads():
            client = Client(server.port, keep=True)
            for key in turns:
                replies[key] = client.get(key)
        together(*[reads] * CLIENTS)
        return slow, replies

    def earn(server, reads):
        """Each answer adds to the budget of hedges. They come after 30 ms: a busy machine, which delays some of them by a
        few milliseconds, hedges none."""
        origin.tell("reset=rules", "first_byte_ms=30")
        keys = iter([fresh("calm") for _ in range(reads)])

        def all_right():
            client = Client(server.port, keep=True)
            return all([client.get(key).status == 200 for key in keys])
        check(all(together(*[all_right] * CLIENTS)), "a calm read failed")

    def gets():
        """The GETs of each key at the origin."""
        return {key: counts["get"] for key, counts in origin.counts()["keys"].items() if counts["get"]}

    def wrong(replies):
        return [(key, reply) for key, reply in replies.items()
                if reply.error or reply.status != 200 or reply.body != expect(key, 1, 0, 20000)]

    def hedges(server, which=""):
        return server.metric(f"penstock_origin_hedges{which}_total")

    def try_until(happened, deed):
        """A busy machine spends what was earned on reads that it delays, and then there is no hedge. So this earns anew."""
        for _ in range(5):
            if deed() or happened():
                break
        return happened()

    def all_places_are_free(server, text):
        """As many reads as there may be connections are at the origin at the same time."""
        wait_for("no call is in progress", lambda: server.metric("penstock_origin_calls") == 0)
        story.same(f"{text}: no request is left", server.metric("penstock_origin_transfers"), 0)
        origin.quiet()
        origin.tell("reset=rules", "hang=1")
        clients = [threading.Thread(target=Client(server.port, timeout=5).get, args=(fresh("places"),))
                   for _ in range(CONNECTIONS)]
        for client in clients:
            client.start()
        wait_for(f"{text}: all {CONNECTIONS} connections are used",
                 lambda: origin.totals()["requests_open"] == CONNECTIONS)
        story.fact(f"{text}: each of {CONNECTIONS} connections can be used", True)
        for client in clients:
            client.join()
        origin.calm()
        wait_for("no call is in progress", lambda: server.metric("penstock_origin_calls") == 0)

    # ---- a few slow answers ----
    server = house()
    slow, replies = read(server, "few")
    counts = gets()
    more = sum(counts.values()) - READS
    again = [key for key in slow if counts[key] == 2]
    story.same("every byte is right", wrong(replies)[:3], [])
    story.same("each key was read once, or hedged", sorted(set(counts.values())), [1, 2])
    # At the first slow answer, 7.5 hedges are earned. A busy machine may spend them on reads that it delays itself.
    others = hedges(server) - len(again)
    story.fact(f"of {len(slow)} slow answers, at least nine in ten were hedged, unless others took the budget",
               len(again) >= 0.9 * len(slow) or others >= 6, (len(again), others))
    story.fact(f"hedges are at most 3 % more GETs: {more} beside {READS}", more <= 0.03 * READS, more)
    story.fact("the metric has them all", more <= hedges(server) <= 0.03 * READS, hedges(server))
    story.fact("... and how many brought the answer", 0 < hedges(server, "_won") <= hedges(server), hedges(server, "_won"))
    story.same("no request is counted as repeated", server.metric("penstock_origin_retries_total"), 0)
    times = sorted(reply.ended - reply.began for reply in replies.values())
    story.note(f"p50 {times[READS // 2] * 1e3:.0f} ms, p99 {times[READS * 99 // 100] * 1e3:.0f} ms")

    # ---- a reader that leaves, and one that comes later ----
    earn(server, 200)
    origin.tell("first_byte_ms=900")
    keys, before = [fresh("later") for _ in range(4)], hedges(server)
    together(*[lambda key=key: Client(server.port, timeout=0.02).get(key) for key in keys])    # sooner than a hedge
    time.sleep(0.4)    # meanwhile the answers are late, and nobody waits for them
    story.same("a request that nobody waits for is not hedged", hedges(server), before)
    replies = dict(zip(keys, together(*[lambda key=key: server.get(key) for key in keys])))
    story.same("... and a later reader gets its answer", wrong(replies), [])
    count = gets()
    story.same("... without a request of its own", sum(count[key] for key in keys), len(keys) + hedges(server) - before)
    origin.calm()

    # ---- second answers that are worth nothing ----
    for text, *lines in (("403", "status=403"), ("a redirect", "status=301", "region=eu-west-1"),
                         ("silence", "hang=1"), ("503", "status=503")):
        origin.calm()
        twice, limits = [], []

        def read_four():
            earn(server, 100)
            for key in [fresh("worthless") for _ in range(4)]:
                origin.tell("reset=rules", "first_byte_ms=30", f"match={key} GET", *lines, f"match={key} GET",
                            "first_byte_ms=600", "status=0", "hang=0", "times=1")
                replies = {key: server.get(key)}
                story.same(f"the second answer is {text}: the first one counts", wrong(replies), [])
                limits.append(server.metric("penstock_origin_connections_limit"))    # it grows again soon
                if gets()[key] == 2:
                    twice.append(key)

        story.fact("... and there was a second one", try_until(lambda: twice, read_four), twice)
    story.fact("... which lowered the limit of connections", min(limits) < CONNECTIONS, limits)
    story.same("the daemon ends cleanly", server.stop(), 0)

    # ---- clients that leave ----
    server = house()
    earn(server, 400)
    before = hedges(server)
    origin.tell("first_byte_ms=700")
    # Without the cache, a client that leaves cancels its call (customer's key: SSEC). With it, the fetch goes on.
    together(*[lambda patience=patience, headers=headers: Client(server.port, timeout=patience).get(fresh("left"), headers=headers)
               for patience in (0.02, 0.1, 0.2, 0.4, 0.8, 1.6) for headers in (SSEC, {})])
    origin.tell("reset=rules", "first_byte_ms=200", "bandwidth=10000")    # hedged, and left in the middle of the body
    together(*[lambda headers=headers: Client(server.port).get(fresh("left"), headers=headers, stop_after=1000)
               for headers in (SSEC, SSEC, SSEC, {})])
    story.fact("clients left while two requests were in progress", hedges(server) > before, hedges(server) - before)
    canceled = server.metric('penstock_origin_requests_total{result="canceled"}')
    story.fact("... which canceled the calls that had no use any more", canceled >= 4, canceled)
    all_places_are_free(server, "clients left")

    # ---- calls that come after hedges ----
    before, hanging = 0, []

    def hang():
        global server, before, hanging
        story.same("the daemon ends cleanly", server.stop(), 0)
        for client in hanging:
            client.join()
        server = house(progress="5s")    # no hedge has lost there
        origin.calm()
        earn(server, 400)
        before = hedges(server)
        origin.tell("match=bucket/hangs/* GET", "hang=1")
        hanging = [threading.Thread(target=Client(server.port, timeout=20).get, args=(fresh("hangs"),))
                   for _ in range(CONNECTIONS - 4)]
        for client in hanging:
            client.start()
        while hedges(server) < before + 4 and any(client.is_alive() for client in hanging):
            time.sleep(0.01)

    story.fact("hedges use the connections that are left", try_until(lambda: hedges(server) >= before + 4, hang))
    reply = server.get(fresh("good"))
    story.fact("a call that comes later gets the connection of a hedge", reply.status == 200 and
               origin.totals()["requests_open"] >= CONNECTIONS - 4, (reply, origin.totals()["requests_open"]))
    for client in hanging:
        client.join()
    origin.calm()

    # ---- the end ----
    for turn in range(5):    # a busy machine spends what was earned on reads that it delays
        earn(server, 400)
        before = hedges(server)
        origin.tell("hang=1")
        last = [threading.Thread(target=Client(server.port, timeout=20).get, args=(fresh("last"),)) for _ in range(4)]
        for client in last:
            client.start()
        while hedges(server) == before and any(client.is_alive() for client in last):
            time.sleep(0.01)
        if hedges(server) > before:
            break
    story.fact("two requests of a read are in progress", hedges(server) > before, turn)
    story.same("the daemon ends cleanly meanwhile", server.stop(), 0)
    for client in last:
        client.join()
    origin.calm()

    # ---- without hedges ----
    server = house(hedges=False)
    slow, replies = read(server, "plain")
    counts = gets()
    story.same("no hedges: every byte is right", wrong(replies)[:3], [])
    story.same("no hedges: no slow answer was hedged", [key for key in slow if counts[key] != 1], [])
    story.same("... and none is counted", hedges(server), 0)
    times = sorted(reply.ended - reply.began for reply in replies.values())
    story.note(f"p50 {times[READS // 2] * 1e3:.0f} ms, p99 {times[READS * 99 // 100] * 1e3:.0f} ms")
    all_places_are_free(server, "no hedges")
    story.same("the daemon ends cleanly", server.stop(), 0)
