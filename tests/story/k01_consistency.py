"""Consistency (H7): clients write unique values and read them, with faults and restarts amid it.

Through one proxy every key is linearizable, as at the origin itself; through two proxies, with writes
past them, nothing older than the freshness bound is read. Meanwhile, jobs bring the same keys.
`k01_consistency.py [OPERATIONS [ROUNDS]]`: scripts/soak runs it long."""
from collections import Counter

from consistency import *
from jobs import *

OPERATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 1
ALL = {"get": 50, "range": 12, "head": 8, "list": 4, "put": 20, "delete": 3, "parts": 1, "leave": 1}
TTL, GRACE = 1, 1
BOUND_NS = (TTL + GRACE + 1) * 10**9    # ages are whole seconds


class Faults:
    """One after the other, a while apart: a proxy killed, a proxy stopped, the origin killed."""

    def __init__(self, servers, origin):
        self.servers, self.origin, self.next = servers, origin, time.monotonic() + 2
        self.done = []

    def __call__(self, _):
        if time.monotonic() < self.next:
            return
        number = len(self.done)
        if number % 3 == 2:
            self.origin = self.origin.again()
            self.done.append("origin killed")
        else:
            i = number % len(self.servers)
            server = self.servers[i]
            if number % 3 == 0:
                server.kill()
            else:
                server.stop()
            self.servers[i] = server.again()
            self.done.append("proxy killed" if number % 3 == 0 else "proxy stopped")
        self.next = time.monotonic() + 4


class PostedJobs:
    """Jobs for the keys that are written and read now, and for those that come next: of a prefix, of a list, and for
    programs that read in the order of a list. Those that are still running when the next one comes are canceled."""

    accepted, reports = Counter(), Counter()    # of all rounds

    def __init__(self, servers, random):
        self.servers, self.random, self.next = servers, random, time.monotonic()
        self.posts, self.last = 0, None

    def ask(self, method, id="", **job):
        """What a proxy answers; None if it is gone, or not ready."""
        server = self.servers[self.random.randrange(len(self.servers))] if method == "POST" else self.last[0]
        reply = Jobs(server.client, BUCKET).ask(method, id, json.dumps(job).encode() if job else b"")
        return server, json.loads(reply.body) if not reply.error and reply.status in (200, 202) and reply.body else None

    def __call__(self, window):
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + 0.2
        if self.last:
            report = self.ask("GET", self.last[1])[1]
            self.reports[report["state"] if report else "not known"] += 1
            self.ask("DELETE", self.last[1])
            self.last = None
        keys = [window.key(ahead) for ahead in range(-4, 12)]
        kind, job = [("prefix", {"prefix": keys[8][:-1]}), ("list", {"keys": keys}),
                     ("follow", {"keys": keys, "mode": "follow"})][self.posts % 3]
        self.posts += 1
        server, answer = self.ask("POST", **job)
        if answer:
            self.accepted[kind] += 1
            self.last = server, answer["id"]


def door(name, server):
    client = server.client
    return Door(name, server.port, client.key, client.secret)


def one_proxy(story, number, operations, delay_ms=0, **settings):
    name = f"one{'-slow' if delay_ms else ''}-{number}"
    origin = story.versity(folder=story.path(name))
    url = SlowWay(origin.port, delay_ms, story.seed).url if delay_ms else origin.url
    server = story.penstock(origin=url, hedged_requests=True, cache_dir=story.path(f"cache-{name}"),
                            cache_size="64MiB" if number % 2 else "1GiB", access_log=False, **settings)
    story.same("the bucket is there", origin.client.ask("PUT", BUCKET).status, 200)
    faults = Faults([server], origin)
    history = live(story, [door("one", server)], ALL, operations,
                   meanwhile=(faults, PostedJobs(faults.servers, story.random)))
    wrong = verdicts(history, linear)
    story.note(f"one proxy{', a slow way to the origin' if delay_ms else ''}: {figures(history)}; {', '.join(faults.done) or 'no fault'}")
    story.fact("through one proxy every key is linearizable", not wrong, "\n".join(wrong[:3]))
    story.fact("and much of it came from the cache", share_of_hits(history) > 0.1, figures(history))
    faults.servers[0].stop()
    faults.origin.stop()


def two_proxies(story, number, operations):
    origin = story.versity(folder=story.path(f"two-{number}"))
    servers = [story.penstock(origin=origin.url, hedged_requests=True, cache_dir=story.path(f"cache-two-{number}-{i}"), freshness="ttl",
                              ttl=f"{TTL}s", grace=f"{GRACE}s", access_log=False) for i in range(2)]
    story.same("the bucket is there", origin.client.ask("PUT", BUCKET).status, 200)
    doors = [door("one", servers[0]), door("two", servers[1]), door("direct", origin)]
    faults = Faults(servers, origin)
    history = live(story, doors, ALL, operations,
                   meanwhile=(faults, PostedJobs(faults.servers, story.random)))
    wrong = verdicts(history, lambda ops: stale(ops, BOUND_NS))
    story.note(f"two proxies and past them: {figures(history)}; {', '.join(faults.done) or 'no fault'}")
    story.fact(f"nothing is older than {BOUND_NS // 10**9} s", not wrong, "\n".join(wrong[:3]))
    faults.servers[0].stop()
    faults.servers[1].stop()
    faults.origin.stop()


with Story("k01 what is read can be true", seconds=120 + OPERATIONS // 100) as story:
    for number in range(ROUNDS):
        one_proxy(story, number, OPERATIONS * 60 // 100 // ROUNDS, cache_writes=number % 2 == 0)
        one_proxy(story, number, OPERATIONS * 4 // 100 // ROUNDS, delay_ms=20, cache_writes=number % 2 == 1,
                  list_time="10s")
        two_proxies(story, number, OPERATIONS * 40 // 100 // ROUNDS)
    story.note(f"jobs beside: {dict(PostedJobs.accepted)}; found as {dict(PostedJobs.reports)}")
    story.same("jobs of each kind were accepted meanwhile", sorted(PostedJobs.accepted), ["follow", "list", "prefix"])
    story.fact("... and some of them ended", PostedJobs.reports["done"] > 0, PostedJobs.reports)
