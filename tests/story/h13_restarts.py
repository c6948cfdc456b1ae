"""Restarts under load, with sockets that another process keeps open: no connection is refused, and no request is cut.
Arguments: how many requests over how many restarts. With them, the longest wait of a request is judged, too."""
from authority import *
from inherit import Keeper

REQUESTS, RESTARTS = (int(n) for n in (sys.argv[1:3] or (4000, 3)))
PAUSE_S = 2.0
SMALL, LARGE = 10_000, 2_000_000


class Callers:
    """Threads that send requests, each in its own way, and count how they end. `refused`: no connection. `cut`: the
    request was sent on a connection of its own, or the answer had begun. `raced`: the connection had been idle, and
    closed when the request came; then it is sent again."""

    def __init__(self, keeper, keys, large, tls_port, tls):
        self.keeper, self.lock, self.over = keeper, threading.Lock(), False
        self.tls_port, self.tls = tls_port, tls
        self.counts = {"good": 0, "refused": 0, "cut": 0, "raced": 0, "wrong": 0}
        self.failures, self.longest_s = [], 0.0
        host = f"127.0.0.1:{keeper.port}"
        self.gets = [(self.head("GET", host, key), expect(key, 1, 0, SMALL)) for key in keys]
        self.large = self.head("GET", host, large), expect(large, 1, 0, LARGE)
        self.threads = [threading.Thread(target=work, args=(number,), daemon=True)
                        for number, work in enumerate([self.kept, self.kept, self.fresh, self.fresh, self.slow_reader,
                                                       self.slow_writer, self.rarely, self.secure])]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def head(method, host, key, more=""):
        target = presign(method, host, "/" + key, ACCESS_KEY, SECRET_KEY, expires=3600)
        return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()

    def note(self, what, detail=None, took_s=0.0):
        with self.lock:
            self.counts[what] += 1
            self.longest_s = max(self.longest_s, took_s)
            if what not in ("good", "raced"):
                self.failures.append(detail)

    def once(self, wire, sent, want, method="GET", pieces=(), timed=True, secure=False, **how):
        """One request to its good end, on this connection or a new one. Returns the connection, if it stays."""
        began = time.monotonic()
        while not self.over:
            reused = wire is not None
            try:
                wire = wire or (Wire(self.tls_port, tls=self.tls) if secure else
                                Wire(self.keeper.port, receive_buffer=65536 if how else None))
            except OSError as failure:
                self.note("refused", repr(failure))
                wire = None
                time.sleep(0.01)
                continue
            reply = Reply()
            try:
                wire.send(sent)
                for piece in pieces:
                    time.sleep(0.05)
                    wire.send(piece)
                wire.read(method, reply, **how)
            except OSError as failure:
                reply.error = repr(failure)
            if not reply.error and reply.status == 200 and reply.body == want:
                self.note("good", took_s=time.monotonic() - began if timed else 0.0)
                if not reply.closed:
                    return wire
                wire.close()
                return None
            kind = "wrong" if not reply.error else "raced" if reused and not reply.status else "cut"
            self.note(kind, f"{sent[:60]} {reply!r} {reply.error}")
            wire.close()
            wire = None
        return None

    def kept(self, number):
        """One connection for as long as it lasts."""
        wire = None
        while not self.over:
            wire = self.once(wire, *self.gets[number])

    def fresh(self, number):
        """A connection for each request."""
        while not self.over:
            wire = self.once(None, *self.gets[number])
            if wire:
                wire.close()

    def rarely(self, number):
        """A connection that is idle now and then, for longer than a drain waits."""
        wire, pauses = None, random.Random(number)
        while not self.over:
            wire = self.once(wire, *self.gets[number])
            time.sleep(pauses.uniform(0, 0.6))

    def secure(self, number):
        """Over https: a few requests on each connection."""
        while not self.over:
            wire = None
            for _ in range(4):
                wire = self.once(wire, *self.gets[number], secure=True)
            if wire:
                wire.close()

    def slow_reader(self, _):
        """Takes half a second for an answer."""
        while not self.over:
            wire = self.once(None, *self.large, timed=False, pace=2 * LARGE)
            if wire:
                wire.close()

    def slow_writer(self, number):
        """Sends a body in pieces."""
        body = bytes(4 * SMALL)
        pieces = body[:SMALL], body[SMALL:2 * SMALL], body[2 * SMALL:]
        sent = self.head("PUT", f"127.0.0.1:{self.keeper.port}", f"bucket/w/{number}",
                         f"Content-Length: {len(body)}\r\n")
        while not self.over:
            wire = self.once(None, sent, b"", "PUT", pieces, timed=False)
            if wire:
                wire.close()

    def good(self):
        return self.counts["good"]

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join(PATIENCE)


def play(story, origin, authority, inherits, requests, restarts):
    """Restarts a daemon while callers are at work. Returns the callers, when they have ended."""
    certificate, key = authority.sign(f"server-{inherits}")
    settings = story.settings(origin=origin.url, drain_time="20s", access_log=False,
                              cache_dir=story.path(f"cache-{inherits}"), tls_listen=f"127.0.0.1:{free_port()}",
                              tls_cert_file=certificate, tls_key_file=key)
    config = story.path(f"penstock-{inherits}.json")
    with open(config, "w") as f:
        json.dump(settings, f)
    keeper = Keeper(story, config, settings, inherits)
    wait_for("the daemon is ready", lambda: plain(keeper.port, "GET", "/_/health/ready").status == 200)
    keys = [f"bucket/size-{SMALL}-k{i}" for i in range(8)]
    large = f"bucket/size-{LARGE}-large"
    for key in [*keys, large]:
        story.same(f"{key} is read", keeper.client.get(key).status, 200)
    wait_for("all is stored", lambda: all(keeper.client.get(key).cache == "hit" for key in [*keys, large]))
    before = origin.counts()["get"]
    callers = Callers(keeper, keys, large, int(settings["tls_listen"].rpartition(":")[2]), authority.client())
    for number in range(1, restarts + 1):
        wait_for("requests before a restart", lambda: callers.good() >= number * requests // (restarts + 1), 600)
        keeper.restart()
        wait_for("the next daemon is ready", lambda: keeper.ready_count() > number)
    wait_for("the last requests", lambda: callers.good() >= requests, seconds=600)
    callers.end()
    log = keeper.log()
    story.note(f"sockets opened by {keeper.opened_by}: {restarts} restarts, {callers.counts}, the longest wait "
               f"{callers.longest_s:.2f} s")
    story.same("the last daemon ends cleanly", keeper.stop(), 0)
    story.same("each daemon but the last was ended by a restart", log.count('"event":"draining"'), restarts)
    story.same("no daemon cut a connection", re.findall(r'"event":"drained","left":([1-9]\d*)', log), [])
    story.fact("no report in the log", not REPORTS.search(log), log[-3000:])
    return callers, origin.counts()["get"] - before, log


with Story("h13 restarts refuse nobody") as story:
    origin = story.origin()
    authority = Authority(story, "authority")
    callers, fetched, log = play(story, origin, authority, True, REQUESTS, RESTARTS)
    story.same("no connection was refused", callers.counts["refused"], 0)
    story.same("no request was cut", (callers.counts["cut"], callers.failures[:3]), (0, []))
    story.same("no answer was wrong", callers.counts["wrong"], 0)
    story.fact("so many requests were answered", callers.good() >= REQUESTS, callers.counts)
    story.same("each daemon had the cache from its start: nothing was fetched again", fetched, 0)
    story.same("each daemon had all sockets", log.count('"listeners":"listen,tls_listen,admin_listen"'), RESTARTS + 1)
    if sys.argv[1:]:
        story.in_time(f"no request waited longer than {PAUSE_S} s", callers.longest_s <= PAUSE_S, callers.longest_s)

    # The same without inherited sockets shows that these callers notice what is refused.
    callers, *_ = play(story, origin, authority, False, REQUESTS // 8, 1)
    story.fact("without inherited sockets, connections are refused", callers.counts["refused"] > 0, callers.counts)
