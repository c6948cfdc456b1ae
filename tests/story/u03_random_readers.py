"""Several users read at random what changing ACLs and bucket policies of radosgw let them read, most of
it from the cache: nobody whom the origin refuses gets a body beyond grant_time after it began to
refuse, nobody whom it allows is refused.

    u03_random_readers.py [REQUESTS]

One controller changes who may read what, mostly at radosgw itself, sometimes through Penstock, which
takes effect at once. Workers note when each request began and ended and what came of it; then every
one is judged against the times of the changes. Everything runs on one clock."""
import struct as packing

from radosgw import *

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
WORKERS, PREFIXES, OBJECTS = 4, 4, 6
TTL, SLACK = 2.0, 1.0    # for how long a busy machine may keep back a request or an answer
FORMAT = packing.Struct("<ddHHH?")
USERS_HERE = {name: User(name, f"{name.upper()}TESTKEY", f"{name}/test+secret",
                         ["--email", f"{name}@example.com"]) for name in ("owner", "anna", "ben")}
READERS = ("owner", "anna", "ben", "pia", "nobody")
PIA = ("PIATESTKEY", "pia/secret")
KEYS = [f"{bucket}/p{p}/{o}" for bucket in ("acls", "policies") for p in range(PREFIXES)
        for o in range(OBJECTS)]


def body_of(key):
    return sha256(key.encode()).digest() * (20 + sum(key.encode()) % 400)


# ---- a worker ----

class Reader:
    """Sends what was signed beforehand, over one connection."""

    def __init__(self, port):
        self.port, self.socket = port, None

    def ask(self, request, head_only):
        """(status, body), or None if the connection broke."""
        try:
            if self.socket is None:
                self.socket = socket.create_connection(("127.0.0.1", self.port), 60)
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.sendall(request)
            return self._answer(head_only)
        except OSError:
            self.socket = None
            return None

    def _answer(self, head_only):
        data = b""
        while b"\r\n\r\n" not in data:
            more = self.socket.recv(262144)
            if not more:
                raise ConnectionError
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        want = int(found.group(1)) if found and not head_only else 0
        while len(body) < want:
            more = self.socket.recv(262144)
            if not more:
                raise ConnectionError
            body += more
        if b"connection: close" in head.lower():
            self.socket.close()
            self.socket = None
        return int(head[9:12]), body


def requests_of(port):
    """What each reader sends for each key: GET, a range, HEAD."""
    clients = {name: Client(port, user.key, user.secret) for name, user in USERS_HERE.items()}
    clients["pia"], clients["nobody"] = Client(port, *PIA), Client(port)
    return {(r, k): [clients[name].head_of(method, key, headers=headers, sign_it=name != "nobody")
                     for method, headers in (("GET", {}), ("GET", {"range": "bytes=7-70"}),
                                             ("HEAD", {}))]
            for r, name in enumerate(READERS) for k, key in enumerate(KEYS)}


def work(port, seed, count, path):
    chance, reader, broken = random.Random(seed), Reader(port), 0
    requests, bodies = requests_of(port), [body_of(key) for key in KEYS]
    with open(path, "wb") as notes:
        while count > 0:
            r, k, how = chance.randrange(len(READERS)), chance.randrange(len(KEYS)), \
                chance.choice((0, 0, 0, 1, 2))
            began = time.monotonic()
            answer = reader.ask(requests[r, k][how], how == 2)
            if answer is None:
                broken += 1
                check(broken < 50, "connections break all the time")
                continue
            status, body = answer
            want = (bodies[k], bodies[k][7:71], b"")[how]
            right = body == want if status in (200, 206) else len(body) < 2000 and want[:64] not in body
            notes.write(FORMAT.pack(began, time.monotonic(), r, k, status, right or not want))
            count -= 1


# ---- the controller ----

class Truth:
    """For each reader and key: [(began, ended, allowed, through Penstock)]."""

    def __init__(self):
        self.changes = {(r, k): [(0.0, 0.0, name == "owner", False)]
                        for r, name in enumerate(READERS) for k in range(len(KEYS))}

    def note(self, began, ended, through, key, names):
        k = KEYS.index(key)
        for r, name in enumerate(READERS):
            allowed = name == "owner" or name in names or (
                "nobody" in names and name in ("anna", "ben"))
            if name == "pia":    # by a policy of Penstock's, over what the owner may
                allowed = key.startswith("acls/p0/")
            before = self.changes[r, k]
            if before[-1][2] != allowed or ended < 1:
                before.append((began, ended, allowed, through))

    def judge(self, began, ended, r, k, status):
        """None, or what was wrong."""
        good, changes = status in (200, 206), self.changes[r, k]
        for i, (since, _, allowed, _) in enumerate(changes):
            last = i + 1 == len(changes)
            until = time.monotonic() + 1e6 if last else changes[i + 1][1]
            late = SLACK if last or not good or changes[i + 1][3] else TTL + SLACK
            if not good and allowed is False and since <= ended and until + SLACK >= began:
                return None
            if good and allowed and since <= ended and until + late >= began:
                return None
        return f"{READERS[r]} got {status} for {KEYS[k]} at {began:.3f}; " + \
            " ".join(f"[{b:.3f} {e:.3f} {'+' if a else '-'}{'P' if p else ''}]"
                     for b, e, a, p in changes if e > began - 4 and b < ended + 1)


def acl(names):
    grants = [("CanonicalUser", "<ID>owner</ID>", "FULL_CONTROL")]
    grants += [("CanonicalUser", f"<ID>{n}</ID>", "READ") for n in ("anna", "ben") if n in names]
    if "nobody" in names:
        grants.append(("Group", "<URI>http://acs.amazonaws.com/groups/global/AllUsers</URI>",
                       "READ"))
    return ("<AccessControlPolicy><Owner><ID>owner</ID></Owner><AccessControlList>" + "".join(
        f'<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="{kind}">'
        f"{who}</Grantee><Permission>{right}</Permission></Grant>" for kind, who, right in grants)
        + "</AccessControlList></AccessControlPolicy>").encode()


def policy(allowed):
    """allowed: {prefix: names}"""
    statements = []
    for prefix, names in allowed.items():
        for name in names:
            who = "*" if name == "nobody" else {"AWS": [f"arn:aws:iam:::user/{name}"]}
            statements.append({"Effect": "Allow", "Principal": who, "Action": ["s3:GetObject"],
                               "Resource": [f"arn:aws:s3:::policies/{prefix}/*"]})
    return json.dumps({"Version": "2012-10-17", "Statement": statements}).encode()


class Controller:
    def __init__(self, story, gateway, server):
        self.random, self.truth = story.random, Truth()
        self.direct, self.through = gateway.client("owner", keep=True), \
            Client(server.port, gateway.users["owner"].key, gateway.users["owner"].secret)
        self.allowed = {f"p{p}": set() for p in range(PREFIXES)}
        self.count, self.failed = 0, []

    def some(self):
        return {n for n in ("anna", "ben", "nobody")
                if self.random.random() < (0.15 if n == "nobody" else 0.5)}

    def put(self, key, what, body):
        """When it began and ended, and which way it went."""
        through = self.random.random() < 0.25
        for _ in range(5):
            began = time.monotonic()
            reply = (self.through if through else self.direct).ask("PUT", key, [(what, "")],
                                                                   body=body)
            if reply.status in (200, 204):
                self.count += 1
                return began, time.monotonic(), through
            time.sleep(0.2)
        self.failed.append((key, what, reply, reply.body[:200]))
        return began, time.monotonic(), through

    def change_acl(self, key):
        names = self.some()
        self.truth.note(*self.put(key, "acl", acl(names)), key, names)

    def change_policy(self):
        prefix = self.random.choice(sorted(self.allowed))
        self.allowed[prefix] = self.some()
        if not any(self.allowed.values()):
            self.allowed[prefix] = {"anna"}
        times = self.put("policies", "policy", policy(self.allowed))
        for key in KEYS:
            bucket, prefix, _ = key.split("/")
            if bucket == "policies":
                self.truth.note(*times, key, self.allowed[prefix])

    def run(self, over):
        while not over():
            if self.random.random() < 0.8:
                self.change_acl(self.random.choice([k for k in KEYS if k.startswith("acls/")]))
            else:
                self.change_policy()
            time.sleep(self.random.uniform(0.02, 0.4))


with Story("u03 random readers", seconds=int(120 + REQUESTS / 300)) as story:
    gateway = Radosgw(story, USERS_HERE)
    owner = gateway.client("owner")
    for bucket in ("acls", "policies"):
        check(owner.put(bucket, b"").status == 200, f"no bucket {bucket}")
    for key in KEYS:
        check(owner.put(key, body_of(key)).status == 200, f"no object {key}")
    rows = [{"access_key": u.key, "secret_key": u.secret} for n, u in USERS_HERE.items()
            if n != "owner"]
    main = USERS_HERE["owner"]
    server = story.penstock(
        origin=gateway.url, origin_access_key=main.key, origin_secret_key=main.secret,
        access_key=main.key, secret_key=main.secret, grant_time=f"{TTL:.0f}s", access_log=False,
        keys=[*rows, {"anonymous": True}, {"access_key": PIA[0], "secret_key": PIA[1], "policy": [
            {"allow": ["read"], "on": ["acls/p0/"]}]}])
    controller = Controller(story, gateway, server)
    for key in KEYS:
        if key.startswith("acls/"):
            controller.change_acl(key)
    controller.change_policy()
    time.sleep(TTL + SLACK)
    children = {}
    for i in range(WORKERS):
        path, seed = story.path(f"notes-{i}"), story.random.random()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                signal.alarm(0)
                work(server.port, seed, REQUESTS // WORKERS, path)
                status = 0
            finally:
                os._exit(status)
        children[pid] = path
    began, statuses = time.monotonic(), {}

    def over():
        pid, status = os.waitpid(-1, os.WNOHANG) if len(statuses) < WORKERS else (0, 0)
        if pid in children:
            statuses[pid] = status
        return len(statuses) == WORKERS
    controller.run(over)
    took = time.monotonic() - began
    story.fact("every worker went to its end", not any(statuses.values()), statuses)
    story.fact("radosgw took every change", not controller.failed, controller.failed[:3])
    count, bad, wrong_bytes, bodies, refusals = 0, [], [], 0, 0
    for path in children.values():
        with open(path, "rb") as f:
            for t0, t1, r, k, status, right in FORMAT.iter_unpack(f.read()):
                count += 1
                good = status in (200, 206)
                bodies, refusals = bodies + good, refusals + (status == 403)
                if not right:
                    wrong_bytes.append((READERS[r], KEYS[k], status))
                if status not in (200, 206, 403):
                    bad.append(f"{READERS[r]} got {status} for {KEYS[k]}")
                    continue
                verdict = controller.truth.judge(t0, t1, r, k, status)
                if verdict:
                    bad.append(verdict)
    to_refused = [b for b in bad if " got 20" in b]
    to_allowed = [b for b in bad if " got 20" not in b]
    story.fact(f"of {count} requests, no body went to one who was refused", not to_refused,
               f"{len(to_refused)}: " + "\n      ".join(to_refused[:5]))
    story.fact("nobody who was allowed was refused", not to_allowed,
               f"{len(to_allowed)}: " + "\n      ".join(to_allowed[:5]))
    story.fact("every body was the object's, and no refusal held any of it", not wrong_bytes,
               wrong_bytes[:5])
    hits = server.metrics().get('penstock_cache_answers_total{result="hit"}', 0)
    story.fact("most were hits, and both answers were common",
               hits > count * 0.2 and bodies > count * 0.2 and refusals > count * 0.1,
               f"{hits} hits, {bodies} bodies, {refusals} refusals")
    story.note(f"{count} requests in {took:.0f} s, {controller.count} changes, {bodies} bodies, "
               f"{refusals} refusals, {hits:.0f} hits, radosgw fell {gateway.falls} times; "
               f"{server.metric('penstock_cache_heads_total'):.0f} HEADs to the origin")
