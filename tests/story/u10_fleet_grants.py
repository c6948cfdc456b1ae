"""Several users read at random, at any node of a fleet, what changing bucket policies of versitygw let them read. Each
change goes through a random node. No user whom the origin refuses gets a body: at the node of the change at once, at
the others after a second. `grant_time` is an hour, so nothing but a hint can end a grant. Nodes are killed, stopped and
frozen amid it (tests/story/fleet.py says what their absence changes).

    u10_fleet_grants.py [REQUESTS]"""
from consistency import *
from fleet import *
from guards import guarded, use_tests_daemon

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
USERS = {name: (f"{name.upper()}TESTKEY", f"{name}/test+secret") for name in ("anna", "ben", "cleo")}
READERS = ("owner", *USERS)
PLACES = [(bucket, f"p{p}") for bucket in ("secret", "shared") for p in range(3)]
KEYS = [f"{bucket}/{prefix}/{n}" for bucket, prefix in PLACES for n in range(4)]
BUSY = 20    # seconds that a busy machine may make of one


def bytes_of(key):
    return sha256(key.encode()).digest() * (20 + sum(key.encode()) % 400)


class Reader(Worker):
    """Its operations: the key has the reader and the key, the kind is body or refused, the value says if it was right."""

    def run(self, count):
        while len(self.history) < count:
            door, key = self.random.choice(self.doors), self.random.choice(KEYS)
            method, first = self.random.choice((("GET", 0), ("GET", 0), ("GET", 7), ("HEAD", None)))
            begin = time.monotonic_ns()
            reply = self.ask(door, method, key, fields=f"Range: bytes={first}-\r\n" if first else "")
            if reply.error or reply.status in (500, 503):    # a node is gone, or goes
                continue
            who, n = door.name.split()
            want = bytes_of(key)[first:] if method == "GET" else b""
            good = reply.status in (200, 206)
            right = reply.body == want if good else len(reply.body) < 2000 and bytes_of(key)[:32] not in reply.body
            kind = "body" if good else "refused" if reply.status == 403 else f"status {reply.status}"
            self.history.append(Op(f"{who} {key}", kind, right, begin, time.monotonic_ns(), f"{n} {reply.cache}"))
        return self.history


class Controller:
    """Changes policies through random nodes, on a thread. changes: {reader and key: [(begin, end, node, allowed)]}."""

    def __init__(self, story, fleet):
        self.random, self.fleet = random.Random(f"{story.seed} controller"), fleet
        self.allowed, self.changes, self.count, self.over = {place: set() for place in PLACES}, {}, 0, False
        for name in READERS:
            for key in KEYS:
                self.changes[f"{name} {key}"] = [(-1, 0, 0, name == "owner")]

    def policy(self, bucket):
        statements = [{"Effect": "Allow", "Principal": {"AWS": [USERS[name][0] for name in sorted(names)]},
                       "Action": ["s3:GetObject"], "Resource": [f"arn:aws:s3:::{bucket}/{prefix}/*"]}
                      for (of, prefix), names in self.allowed.items() if of == bucket and names]
        return json.dumps({"Version": "2012-10-17", "Statement": statements}).encode() if statements else None

    def change(self):
        place = self.random.choice(PLACES)
        self.allowed[place] = {name for name in USERS if self.random.random() < 0.5}
        body, begin = self.policy(place[0]), time.monotonic_ns()
        while not self.over:
            n = self.random.randrange(len(EACH))
            client = self.fleet.nodes[n].client
            reply = Client(client.port, client.key, client.secret, timeout=5).ask(
                "PUT" if body else "DELETE", place[0], [("policy", "")], body=body or b"")
            if not reply.error and reply.status in (200, 204):
                self.note(place, begin, time.monotonic_ns(), n)
                return
            time.sleep(0.05)
        self.note(place, begin, NEVER, 0)    # nobody knows

    def note(self, place, begin, end, n):
        self.count += 1
        for name in USERS:
            for key in KEYS:
                changes = self.changes[f"{name} {key}"]
                allowed = name in self.allowed[place]
                if key.startswith("/".join(place) + "/") and changes[-1][3] != allowed:
                    changes.append((begin, end, n, allowed))

    def run(self):
        while not self.over:
            self.change()
            time.sleep(self.random.uniform(0.02, 0.2))


NEVER = 1 << 62


def judge(op, changes, absences, heard_ns):
    """None, or what was wrong."""
    n = int(op.door.partition(" ")[0])
    for i, (begin, _, _, allowed) in enumerate(changes):
        due = heard_by(absences, changes[i + 1][2], n, changes[i + 1][1], heard_ns) if i + 1 < len(changes) else NEVER
        if allowed == (op.kind == "body") and begin <= op.end and due >= op.begin:
            return None
    near = [c for c in changes if op.begin - 5 * 10**9 < c[1] and c[0] < op.end]
    return f"{op.key} at node {op.door}: {op.kind}, begun at 0; " + ", ".join(
        f"{'allowed' if c[3] else 'refused'} through {c[2]} {(c[0] - op.begin) / 1e6:.0f}..{(c[1] - op.begin) / 1e6:.0f} ms"
        for c in near)


def lag_of(op, changes, absences):
    """How long after a revocation through another node a body was asked for and given."""
    n, ended = int(op.door.partition(" ")[0]), None
    for begin, end, via, allowed in changes:
        if allowed and begin <= op.end:
            ended = None
        elif not allowed and end < op.begin:
            ended = end if via != n and heard_by(absences, via, n, end) == end + HEARD_NS else None
    return op.begin - ended if ended else 0


def read_at_random(story, name, requests, env=None, faulty=True):
    """(fleet, controller, history)"""
    origin = story.versity(folder=story.path(f"origin-{name}"), iam=True)
    for user, (key, secret) in USERS.items():
        made = f"<Account><Access>{key}</Access><Secret>{secret}</Secret><Role>user</Role></Account>".encode()
        check(origin.client.ask("PATCH", "create-user", body=made).status in (200, 201), f"no user {user}")
    fleet = Nodes(story, origin, name, env=env, buckets={bucket: {} for bucket, _ in PLACES}, ttl="1h", grant_time="1h",
                  keys=[{"access_key": key, "secret_key": secret} for key, secret in USERS.values()])
    for key in KEYS:
        check(origin.client.put(key, bytes_of(key)).status == 200, f"no object {key}")
    pairs = {"owner": (fleet.nodes[0].client.key, fleet.nodes[0].client.secret), **USERS}
    doors = [Door(f"{who} {n}", node.port, *pairs[who]) for n, node in enumerate(fleet.nodes) for who in READERS]
    controller = Controller(story, fleet)
    thread = threading.Thread(target=controller.run)
    thread.start()
    faults = Faults(fleet, story.random, "killed", "stopped", "frozen")
    began = time.monotonic()
    try:
        history = live(story, doors, {}, requests, workers=4, meanwhile=(faults,) if faulty else (), worker=Reader)
    finally:
        controller.over = True
        thread.join()
    ops = [op for some in history.values() for op in some]
    story.note(f"{len(ops)} requests had an answer, in {time.monotonic() - began:.0f} s: "
               f"{sum(op.kind == 'body' for op in ops)} bodies, {sum(op.door.endswith(' hit') for op in ops)} hits, "
               f"{sum(op.kind == 'refused' for op in ops)} refusals; {controller.count} changes; {dict(faults.done)}")
    return fleet, controller, ops


def wrong_of(ops, controller, absences, heard_ns, kind):
    found = (judge(op, controller.changes[op.key], absences, heard_ns) for op in ops if op.kind == kind)
    return [text for text in found if text]


def brief(wrong):
    return f"{len(wrong)}: " + "\n      ".join(wrong[:5])


def fleet_grants(story):
    fleet, controller, ops = read_at_random(story, "fleet", REQUESTS)
    absences = fleet.absences
    story.same("each answer is a body or a refusal", sorted({op.kind for op in ops}), ["body", "refused"])
    story.fact("each body is the object's, and no refusal has any of it", all(op.value for op in ops),
               [op for op in ops if not op.value][:3])
    wrong = wrong_of(ops, controller, absences, BUSY * HEARD_NS, "body")
    story.fact("no body went to a user who was refused", not wrong, brief(wrong))
    wrong = wrong_of(ops, controller, absences, HEARD_NS, "body")
    story.in_time("... and a revocation through a node reaches each other one within a second", not wrong, brief(wrong))
    wrong = wrong_of(ops, controller, absences, HEARD_NS, "refused")
    story.fact("no user who was allowed was refused", not wrong, brief(wrong))
    counts = {kind: sum(op.kind == kind for op in ops) for kind in ("body", "refused")}
    hits = sum(op.door.endswith(" hit") for op in ops)
    story.fact("hits, bodies and refusals were common", hits > 0.02 * len(ops) and min(counts.values()) > 0.1 * len(ops), counts)
    lag = max(lag_of(op, controller.changes[op.key], absences) for op in ops if op.kind == "body")
    story.note(f"after a revocation through another node, a body was last given {lag / 1e6:.0f} ms later")
    fleet.stop()
    fleet.origin.stop()


def red(story):
    """Without the guard, nodes follow no hint."""
    use_tests_daemon()
    fleet, controller, ops = read_at_random(story, "red", 6000, env=guarded("hints"), faulty=False)
    wrong = wrong_of(ops, controller, [], HEARD_NS // 5, "body")
    story.fact("hints OFF: bodies to the refused are found", wrong)
    story.note(f"seen: {len(wrong)}, as {wrong[0] if wrong else '-'}")
    fleet.stop()
    fleet.origin.stop()


with Story("u10 grants in a fleet", seconds=240 + REQUESTS // 50) as story:
    fleet_grants(story)
    red(story)
