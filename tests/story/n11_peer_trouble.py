"""What trouble with a peer costs: late once, late twice, dead, a black hole, slow drips, silence, too many questions.
The peer is scripted, and owns nearly all segments. In each case all clients get right bytes, without an error."""
from scripted_peer import *

SIZE, UNIT, KEPT = 200_000, 128 * KIB, 192 * KIB    # of an object; stored before; with one frame more
LOOPS = 8
UNDER_WAY = 32    # CIRCUIT_QUESTIONS_MAX


class Trouble:
    def __init__(self, story):
        self.story, self.origin = story, story.origin("first_byte_ms=5")
        fleet = Fleet(story)
        self.peer = ScriptedPeer(story, fleet, "scripted", self.origin.url, 0x5c)
        _, settings = fleet.settings("asker", peer_weight=1, peers=f"127.0.0.1:{self.peer.port}")
        self.server = story.penstock(origin=self.origin.url, **settings)
        self.wait_back()
        self.keys = iter(self.owned(240))

    def count(self, name):
        return int(self.server.metric(f"penstock_peers_{name}_total"))

    def wait_back(self):
        wait_for("the peer is asked", lambda: self.server.metric("penstock_peers") == 1)

    def owned(self, count):
        """Keys of which the peer owns the only segment. Their first unit is stored, by way of the origin; the answer
        for the rest is made before any question, because that takes long here."""
        self.peer.act = lambda question: question.refuse(404, "not now")
        keys = [f"bkt/size-{SIZE}-{n}" for n in range(count)]
        together(*[lambda some=keys[i::LOOPS]: [self.server.get(key, 0, 0) for key in some] for i in range(LOOPS)])
        mine = {question.key for question in self.peer.questions}
        for key in keys:
            self.peer.frames_of(key, UNIT, SIZE, synthetic_etag(key, 1))
        self.story.fact("the peer owns nearly all segments", len(mine) >= 0.97 * count, f"{len(mine)} of {count}")
        self.story.in_time("a decline is no failure", not self.count("failed"), self.count("failed"))
        return [key for key in keys if key in mine]

    def take(self, count):
        return [next(self.keys) for _ in range(count)]

    def case(self, text, act, loops=1, reads=1):
        """Reads keys, one after the other in each loop, while the peer acts so. Returns what it cost."""
        keys = self.take(loops * reads)
        self.peer.act, self.peer.most_under_way = act, 0
        before = {name: self.count(name) for name in ("asked", "failed", "passed", "bad")}
        asked, slowest, wrong = len(self.peer.questions), [0.0], []
        was = {key: self.origin.counts(key)["bytes"] for key in keys}
        sources = Sources(self.server)

        def loop(some):
            for key in some:
                start = time.monotonic()
                reply = self.server.get(key)
                slowest.append(time.monotonic() - start)
                why = reply.error or same_bytes(reply.body, expect(key, 1, 0, SIZE), key)
                if reply.status != 200 or why:
                    wrong.append((key, reply, why))
        together(*[lambda some=keys[i::loops]: loop(some) for i in range(loops)])
        self.story.same(f"{text}: all bytes are right", wrong[:2], [])
        cost = {name: self.count(name) - count for name, count in before.items()}
        cost.update(questions=len(self.peer.questions) - asked, slowest=max(slowest), away=self.server.metric("penstock_peers") == 0,
                    origin=[self.origin.counts(key)["bytes"] - was[key] for key in keys])
        self.story.note(f"{text}: {cost}")
        came, at_origin = sources.since(SIZE * len(keys)), sum(cost["origin"])
        self.story.same(f"{text}: each byte counts where it came from", [came.get(name, 0) for name in ("cache", "origin", "peers")],
                        [UNIT * len(keys), at_origin, (SIZE - UNIT) * len(keys) - at_origin])
        return cost


def well(trouble, story):
    cost = trouble.case("a peer that answers", Question.answer, reads=5)
    story.in_time("... is asked, and the origin is not", (cost["questions"], cost["failed"], sum(cost["origin"])) == (5, 0, 0), cost)


def late_once(trouble, story):
    late = threading.Event()

    def act(question):
        if late.is_set():
            question.answer()
        late.set()
        question.until_gone()
    cost = trouble.case("late once", act, reads=8)
    story.in_time("... costs that question alone: the next ones go to the peer again",
                  (cost["questions"], cost["failed"], cost["passed"], cost["away"]) == (8, 1, 0, False)
                  and cost["origin"] == [SIZE - UNIT] + 7 * [0], cost)


def late_twice(trouble, story):
    """Its hellos are answered until two questions were not; so the third read finds it out."""
    heard = []
    trouble.peer.greet = lambda: 503 if len(heard) >= 2 else 200

    def act(question):
        heard.append(question)
        question.until_gone()
    cost = trouble.case("late twice", act, reads=10)
    story.fact("... takes the peer out after two questions at most", cost["questions"] <= 2 and cost["away"], cost)
    story.in_time("... and not after one", cost["failed"] == 2, cost)
    story.fact("... which the log says", "peer_away" in trouble.server.log())
    trouble.peer.greet = lambda: 200
    trouble.wait_back()
    cost = trouble.case("after a hello", Question.answer, reads=3)
    story.in_time("... it is asked again", (cost["questions"], cost["failed"]) == (3, 0), cost)


def dead(trouble, story):
    trouble.peer.die()
    cost = trouble.case("a peer that is dead (connections are refused)", Question.answer, LOOPS, 4)
    story.fact("... costs at most one question a loop", cost["failed"] <= LOOPS and not cost["questions"] and cost["away"], cost)
    story.in_time("... and no deadline", cost["slowest"] < 0.5, cost)
    trouble.peer.listen()
    trouble.wait_back()
    well(trouble, story)


def black_hole(trouble, story):
    trouble.peer.mute.set()
    cost = trouble.case("a peer that says nothing at all (SIGSTOP)", Question.answer, LOOPS, 4)
    story.fact("... costs at most one question a loop", cost["failed"] <= LOOPS, cost)
    story.in_time("... for one deadline", cost["slowest"] < 0.6, cost)
    wait_for("the peer is left alone", lambda: trouble.server.metric("penstock_peers") == 0)
    trouble.peer.mute.clear()
    trouble.wait_back()
    well(trouble, story)


def silent(trouble, story):
    def before_head(question):
        question.start("fetching")
        for _ in range(3):
            question.wait()
        question.until_gone()

    def after_some(question):
        question.start()
        question.head()
        question.data(1)
        question.until_gone()
    cost = trouble.case("acknowledged, then silence", before_head)
    story.in_time("... the bytes come from elsewhere", (cost["questions"], cost["failed"], cost["origin"]) == (1, 1, [SIZE - UNIT]), cost)
    well(trouble, story)
    cost = trouble.case("silence after 64 KiB", after_some)
    story.in_time("... keeps them, and the origin gives the rest alone",
                  (cost["questions"], cost["failed"], cost["origin"]) == (1, 1, [SIZE - KEPT]), cost)
    well(trouble, story)


def drips(trouble, story):
    def act(question):
        question.start()
        question.head()
        question.data(1)
        rest = question.frames[1]
        question.wire.sendall(f"{len(rest):x}\r\n".encode())
        for byte in rest:
            question.wire.sendall(bytes([byte]))
            time.sleep(0.05)
    cost = trouble.case("a slow drip: a byte each 50 ms, after 64 KiB", act)
    story.in_time("... keeps them, and the origin gives the rest alone",
                  (cost["questions"], cost["failed"], cost["origin"]) == (1, 1, [SIZE - KEPT]), cost)
    story.in_time("... after a second", cost["slowest"] < 3, cost)
    well(trouble, story)


def slow_but_alive(trouble, story):
    def act(question):
        question.start("fetching")
        for _ in range(15):
            question.wait()
            time.sleep(0.1)
        question.head()
        question.data()
        question.finish()
    cost = trouble.case("slow, but alive: WAIT for 1.5 s", act)
    story.in_time("... is waited for", (cost["questions"], cost["failed"], cost["origin"]) == (1, 0, [0]), cost)


def busy(trouble, story):
    cost = trouble.case("a peer that has too much to do (503)", lambda question: question.refuse(503, "busy"), LOOPS, 2)
    story.in_time("... is passed by at once, and asked again", (cost["questions"], cost["failed"], cost["away"]) == (2 * LOOPS, 0, False), cost)


def queue_full(trouble, story):
    """The peer keeps its questions until the others have passed it by."""
    many, over = 60, threading.Event()

    def elsewhere():    # on a busy machine, some are late in place of passing it by
        return trouble.count("passed") + trouble.count("failed")
    before = elsewhere()

    def act(question):
        question.start("fetching")
        question.head()
        while not over.wait(0.1):
            question.wait()
        question.data()
        question.finish()

    def watch():
        wait_for("the others have passed it by", lambda: elsewhere() - before >= many - UNDER_WAY)
        over.set()
    threading.Thread(target=watch, daemon=True).start()
    trouble.peer.most = open_before = trouble.peer.open
    cost = trouble.case(f"{many} questions at once", act, loops=many)
    story.fact("... are never more at a time than they may be", trouble.peer.most_under_way <= UNDER_WAY
               and trouble.peer.most - open_before <= UNDER_WAY, (trouble.peer.most_under_way, open_before, trouble.peer.most))
    story.in_time("... the others pass it by, and nothing fails", (cost["questions"], cost["passed"], cost["failed"])
                  == (UNDER_WAY, many - UNDER_WAY, 0), cost)


def wrong_bytes(trouble, story):
    def act(question):
        question.start()
        question.head()
        question.send(frame(DATA, bytes(65536)))
        question.until_gone()
    cost = trouble.case("wrong bytes", act, reads=3)
    story.fact("... are noticed", cost["bad"] <= 1 and cost["questions"] <= 1, cost)
    story.in_time("... and the peer is left alone", (cost["bad"], cost["away"]) == (1, True), cost)


with Story("n11 trouble with a peer") as story:
    trouble = Trouble(story)
    for phase in (well, late_once, late_twice, dead, black_hole, silent, drips, slow_but_alive, busy, queue_full, wrong_bytes):
        phase(trouble, story)
