"""Clients write unique values through the nodes of a fleet, and past it, and read them at any node: what they read is
explained by hints and `ttl`. Nodes are killed, stopped and frozen amid it, and the origin is killed.

A value is *dead* at a node when a write that began after it was there has been over for so long:

- through this node: at once, and
- through another one: after a second (tests/story/fleet.py says what the absence of a node changes), and
- past the fleet: when `ttl` is over, or a purge that began after the write. A purge through another node takes a second.

With `freshness` `always`, a value is dead at once. No read that begins after that may return the value. Bodies tell
which write they are of. In the end, each key is read once more at each node.

    k03_fleet_consistency.py [OPERATIONS [ROUNDS]]

scripts/soak --nodes runs it long. Rounds are of three kinds: with cache_writes; with purges, and a small cache; with a
slow way to the origin, so that answers come in another order."""
from consistency import *
from fleet import *
from guards import guarded, use_tests_daemon

OPERATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
MIX = {"get": 54, "range": 12, "head": 8, "list": 4, "put": 17, "delete": 3, "parts": 1, "leave": 1}
TTL, GRACE = 4, 1    # below 2 s, no node asks another one for a version
BRIEF_NS = (TTL + GRACE + 1) * 10**9    # ages are whole seconds
NEVER = 1 << 62
# bucket: how long a node may serve what was overwritten past the fleet
BUCKETS = {"brief": BRIEF_NS, "lasting": NEVER, "fixed": NEVER, "strict": 0}
SETTINGS = {"brief": {"freshness": "ttl", "ttl": f"{TTL}s", "grace": f"{GRACE}s"},
            "lasting": {"freshness": "ttl", "ttl": "1h", "grace": "0"},
            "fixed": {"freshness": "immutable"},
            "strict": {"freshness": "always"}}
DIRECT = "direct"
BUSY = 20    # seconds that a busy machine may make of one
SLOW_KEYS = 20    # half of the operations are on keys that live for so many times as long


class FleetWorker(Worker):
    def name(self):
        ahead = self.random.randrange(self.window.width)
        key = self.window.key(ahead) if self.random.random() < 0.5 else \
            f"s{self.window.value // (DENSITY * SLOW_KEYS) + ahead:06d}"
        return f"{self.random.choice(list(BUCKETS))}/{key}"

    def purge(self, door, key):
        if door.name == DIRECT:
            return
        begin, (bucket, _, name) = time.monotonic_ns(), key.partition("/")
        reply = self.ask(door, "POST", bucket, query=[("penstock-purge", ""), ("key", name)])
        self.note(key, "purge", None, begin, reply.status == 200 and not reply.error, door)


# ---- the judge ----

class Judge:
    """heard_ns: for how long a node may not have heard of a write through another one that it can reach."""

    def __init__(self, absences, heard_ns=HEARD_NS):
        self.absences, self.heard_ns = absences, heard_ns

    def death(self, op, writes, purges, bound_ns):
        """{door: when the value of this write is dead there}."""
        dead = {door: NEVER for door in (*map(str, EACH), DIRECT)}
        for write in writes:
            if op.end is None or not write.end or write.begin < op.end:
                continue
            for door in dead:
                dead[door] = min([dead[door], self.due(write, door, bound_ns),
                                  *(self.due(purge, door, NEVER) for purge in purges
                                    if purge.end and purge.begin >= write.end)])
        return dead

    def due(self, op, door, bound_ns):
        """When a write or purge must have been heard of there."""
        if door == DIRECT:
            return op.end if op.kind == "write" else NEVER
        due = op.end + bound_ns
        if op.door != DIRECT:
            due = min(due, heard_by(self.absences, int(op.door), int(door), op.end, self.heard_ns))
        return due

    def __call__(self, ops):
        bound_ns = BUCKETS[ops[0].key.partition("/")[0]]
        writes, purges = ([op for op in ops if op.kind == kind] for kind in ("write", "purge"))
        first = Op(ops[0].key, "write", None, -1, 0, "")
        sources = [(write, self.death(write, writes, purges, bound_ns)) for write in (first, *writes)]
        for op in ops:
            door = op.door.partition(" ")[0]
            if op.kind == "read" and not any(s.value == op.value and s.begin <= op.end and dead[door] >= op.begin
                                             for s, dead in sources):
                return tell(ops, op)
        return None


def lag_of(ops, absences):
    """The longest time for which a node returned what was overwritten through another one, while none was absent."""
    writes, worst = [op for op in ops if op.kind == "write"], 0
    source_of = {op.value: op for op in writes if op.value and op.end}
    for op in ops:
        source, door = source_of.get(op.value), op.door.partition(" ")[0]
        if op.kind != "read" or not source or door == DIRECT:
            continue
        for write in writes:
            if write.end and write.begin >= source.end and write.door not in (DIRECT, door) and \
                    heard_by(absences, int(write.door), int(door), write.end) == write.end + HEARD_NS:
                worst = max(worst, op.begin - write.end)
    return worst


def went_back(ops):
    """How often a GET returned an older value than an earlier GET at the same node, which was written through the fleet."""
    writes = {op.value: op for op in ops if op.kind == "write" and op.value and op.end}
    newest, count = {}, 0
    gets = (op for op in ops if op.kind == "read" and op.value in writes and " " in op.door)    # lists are the origin's
    for op in sorted(gets, key=lambda op: op.begin):
        door, source = op.door.partition(" ")[0], writes[op.value]
        count += any(end <= op.begin and source.end <= newer.begin for end, newer in newest.get(door, ()))
        if source.door != DIRECT:
            newest.setdefault(door, []).append((op.end, source))
    return count


def read_all(fleet, history, seed):
    """Each key at each node, after all is over: adds these reads to the history."""
    fleet.wait_whole()
    time.sleep(HEARD_NS / 10**9)

    def read(n, node):
        door, worker = Door(str(n), node.port, node.client.key, node.client.secret), FleetWorker(100 + n, [], MIX, None, seed)
        for key in history:
            worker.get(door, key)
        return worker.history
    found = sum(together(*(lambda n=n, node=node: read(n, node) for n, node in enumerate(fleet.nodes)), seconds=3000), [])
    for op in found:
        history[op.key].append(op)
    return len(found)


# ---- rounds ----

def run_round(story, name, kind, operations, env=None, faulty=True):
    """(fleet, history). kind: 0 to 2."""
    origin = story.versity(folder=story.path(f"origin-{name}"))
    url = SlowWay(origin.port, 20, story.seed).url if kind == 2 else origin.url
    fleet = Nodes(story, origin, name, url=url, env=env, buckets=SETTINGS, list_time=f"{TTL}s", missing_time=f"{TTL}s",
                  cache_size="64MiB" if kind == 1 else "1GiB", cache_writes=kind == 0, hedged_requests=True)
    doors = [Door(str(n), node.port, node.client.key, node.client.secret) for n, node in enumerate(fleet.nodes)] * 4
    doors.append(Door(DIRECT, origin.port, origin.client.key, origin.client.secret))
    faults = Faults(fleet, story.random, "killed", "stopped", "frozen", "origin killed")
    began = time.monotonic()
    history = live(story, doors, {**MIX, "purge": kind == 1}, operations, workers=6,
                   meanwhile=(faults,) if faulty else (), worker=FleetWorker)
    took = time.monotonic() - began
    if faulty:
        last = read_all(fleet, history, story.seed)
        story.note(f"{figures(history)}; {took:.0f} s, {last} reads after it; {dict(faults.done)}, a fleet was whole again "
                   f"{faults.whole_s:.1f} s after a fault at most; {fleet.sum('penstock_peers_bytes_total')} bytes from peers, "
                   f"{fleet.sum('penstock_peer_hints_total')} hints, {fleet.sum('penstock_peer_hints_lost_total')} times lost")
    return fleet, history


def one_round(story, number, operations):
    fleet, history = run_round(story, str(number), number % 3, operations)
    story.same("no peer sent wrong bytes", fleet.sum("penstock_peers_bad_total"), 0)
    story.fact("bytes came from peers", fleet.sum("penstock_peers_bytes_total") > 0)
    wrong = verdicts(history, Judge(fleet.absences, BUSY * HEARD_NS))
    story.fact("each read is explained by hints and ttl", not wrong, "\n".join(wrong[:5]))
    wrong = verdicts(history, Judge(fleet.absences))
    story.in_time("... and a write through a node is seen at each other one within a second", not wrong, "\n".join(wrong[:5]))
    lag = max((lag_of(ops, fleet.absences) for ops in history.values()), default=0)
    back = Counter()
    for key, ops in history.items():
        back[key.partition("/")[0]] += went_back(ops)
    story.note(f"what was overwritten through another node was read {lag / 1e9:.2f} s later at most; GETs with an older value after "
               f"a newer one: {dict(back)}")
    fleet.stop()
    fleet.origin.stop()


def red(story):
    """Without the guard, nodes follow no hint."""
    use_tests_daemon()
    fleet, history = run_round(story, "red", 0, 3000, env=guarded("hints"), faulty=False)
    wrong = verdicts(history, Judge([], HEARD_NS // 10))
    story.fact("hints OFF: reads are found that are not explained", wrong)
    story.note(f"seen: {len(wrong)}, as {wrong[0][:300] if wrong else '-'}")
    fleet.stop()
    fleet.origin.stop()


with Story("k03 what is read in a fleet can be true", seconds=240 + OPERATIONS // 20) as story:
    for number in range(ROUNDS):
        one_round(story, number, OPERATIONS // ROUNDS)
    red(story)
