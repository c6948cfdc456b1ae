"""consistency.py - clients that write unique values, and whether what they read can be true.
SPDX-License-Identifier: Apache-2.0

Workers, each a process with a connection to each door (a proxy, or the origin itself), write, delete
and read keys, and note when each operation began and ended. A value is a name of 16 bytes repeated,
so that a body tells which write it is of, and whether it is of one alone; HEADs and lists tell it by
its ETag. An operation without a clear answer may have happened at any time after it began, or never.

Two judges, a key at a time. linear(): there is an order of the operations, each at one instant
between its begin and end, in which every read returns what was written last. As in Wing and Gong,
with Lowe's just-in-time order: the events are gone through in time, with every state the register
may be in, and which of the operations under way have had their instant. stale(): a read may return
what was overwritten, but not longer ago than the bound.

Keys are a window that moves on, so that each has a short history. A key has one size: versitygw looks
up a file's length and ETag, and opens it after that, so that a GET beside a PUT may have the length or
ETag of one write and the bytes of another (asked directly, 53 of 72,000). What is judged is the body."""
import multiprocessing
import pickle
from collections import defaultdict, namedtuple
from hashlib import md5

from harness import *

BUCKET = "history"
SIZES = [16] * 8 + [64] * 4 + [16 * KIB] * 3 + [200 * KIB]
DENSITY = 100    # operations a key gets, about

# value: None is "no such key"; begin, end: ns, end None: without a clear answer.
Op = namedtuple("Op", "key kind value begin end door")
Door = namedtuple("Door", "name port key secret")


def body_of(value):
    return value[0] * (value[1] // 16)


def etag_of(value, parts=False):
    sum_ = md5(body_of(value))
    return f"{md5(sum_.digest()).hexdigest()}-1" if parts else sum_.hexdigest()


class Worker:
    def __init__(self, number, doors, mix, window, seed):
        self.number, self.doors, self.window = number, doors, window
        self.random = random.Random(f"{seed} {number}")
        self.kinds, self.weights = list(mix), list(mix.values())
        self.wires, self.values, self.count, self.history, self.targets = {}, {}, 0, [], {}

    def target(self, door, method, key, query=(), **how):
        at = (door.port, door.key, method, key, tuple(query))
        if at not in self.targets:
            if len(self.targets) > 2000:
                self.targets.clear()
            self.targets[at] = presign(method, f"127.0.0.1:{door.port}", "/" + uri(key, "/-._~"), door.key,
                                       door.secret, expires=3600, query=query)
        return self.targets[at]

    def ask(self, door, method, key, body=b"", query=(), fields="", leave=False):
        """A Reply. A connection that has gone is replaced for the next request: this one's outcome is not known."""
        reply = Reply()
        try:
            wire = self.wires.get(door.port) or self.wires.setdefault(door.port, Wire(door.port, 30))
            length = f"Content-Length: {len(body)}\r\n" if method in ("PUT", "POST") else ""
            wire.send(f"{method} {self.target(door, method, key, query)} HTTP/1.1\r\nHost: 127.0.0.1:{door.port}\r\n"
                      f"{length}{fields}\r\n".encode() + body)
            if leave:
                raise ConnectionError("left")
            wire.read(method, reply)
        except OSError as failure:
            reply.error = str(failure)
        if reply.error or reply.closed:
            wire = self.wires.pop(door.port, None)
            if wire:
                wire.abort()
            if reply.error and not leave:
                time.sleep(0.02)    # whoever is gone comes back
        return reply

    def name(self):
        return f"{BUCKET}/{self.window.key(self.random.randrange(self.window.width))}"

    def new_value(self, key):
        self.count += 1
        return b"%03x-%011x\n" % (self.number, self.count), SIZES[int(key[-6:]) % len(SIZES)]

    def note(self, key, kind, value, begin, clear, door, cache=""):
        self.history.append(Op(key, kind, value, begin, time.monotonic_ns() if clear else None,
                               f"{door.name} {cache}".strip()))

    # ---- writes ----

    def put(self, door, key, leave=False):
        value, begin = self.new_value(key), time.monotonic_ns()
        reply = self.ask(door, "PUT", key, body_of(value), leave=leave)
        self.note(key, "write", value, begin, reply.status == 200 and not reply.error, door)

    def leave(self, door, key):
        self.put(door, key, leave=True)

    def parts(self, door, key):
        reply = self.ask(door, "POST", key, query=[("uploads", "")])
        found = re.search(rb"<UploadId>(.*?)<", reply.body)
        if not found:
            return
        upload, value = found.group(1).decode(), self.new_value(key)
        part = self.ask(door, "PUT", key, body_of(value), query=[("partNumber", "1"), ("uploadId", upload)])
        if part.status != 200:
            return
        begin = time.monotonic_ns()
        reply = self.ask(door, "POST", key, query=[("uploadId", upload)], body=(
            f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part.headers['etag']}</ETag></Part>"
            "</CompleteMultipartUpload>").encode())
        self.note(key, "write", value, begin, reply.status == 200 and not reply.error
                  and b"<Error>" not in reply.body, door)

    def delete(self, door, key):
        begin = time.monotonic_ns()
        reply = self.ask(door, "DELETE", key)
        self.note(key, "write", None, begin, reply.status == 204 and not reply.error, door)

    # ---- reads: only a whole, clear answer is one ----

    def got(self, door, key, begin, reply, whole):
        if reply.error or reply.status not in (200, 206, 404) or (reply.status == 404 and reply.code != "NoSuchKey"):
            return
        body, value = reply.body, None
        if reply.status != 404:
            value = (body[:16], int(whole or len(body)))
            if len(body) % 16 or body != body[:16] * (len(body) // 16):
                value = ("bytes of several writes", len(body))
        self.note(key, "read", value, begin, True, door, reply.cache)

    def get(self, door, key):
        begin = time.monotonic_ns()
        reply = self.ask(door, "GET", key)
        self.got(door, key, begin, reply, None)

    def range(self, door, key):
        begin = time.monotonic_ns()
        reply = self.ask(door, "GET", key, fields=f"Range: bytes={16 * self.random.randrange(3)}-\r\n")
        self.got(door, key, begin, reply, reply.headers.get("content-range", "/").rpartition("/")[2])

    def head(self, door, key):
        begin = time.monotonic_ns()
        reply = self.ask(door, "HEAD", key)
        if not reply.error and reply.status in (200, 404):
            self.note(key, "etag", reply.headers.get("etag", "").strip('"') or None, begin, True, door)

    def list(self, door, key):
        begin = time.monotonic_ns()
        bucket, _, name = key.partition("/")
        reply = self.ask(door, "GET", bucket, query=[("list-type", "2"), ("prefix", name)])
        if not reply.error and reply.status == 200:
            found = re.search(rb"<ETag>(?:&#34;|&quot;|\")?([0-9a-f-]+)", reply.body)
            self.note(key, "etag", found.group(1).decode() if found else None, begin, True, door)

    def run(self, count):
        for _ in range(count):
            self.window.step()
            kind = self.random.choices(self.kinds, self.weights)[0]
            getattr(self, kind)(self.random.choice(self.doors), self.name())
        return self.history


class Window:
    """Where the keys are by now, for all workers."""

    def __init__(self, width):
        self.width, self.number = width, multiprocessing.Value("q", 0, lock=False)

    @property
    def value(self):
        return self.number.value

    def key(self, ahead):
        """The key so many places after the first one."""
        return f"k{max(self.value // DENSITY + ahead, 0):06d}"

    def step(self):
        self.number.value += 1    # a lost step is no harm


def live(story, doors, mix, operations, workers=8, width=6, meanwhile=(), worker=Worker):
    """Runs the workers to their end, and calls `meanwhile` with the window, again and again; returns the history, by key."""
    window, files, running = Window(width), [], []
    for number in range(workers):
        path = story.path(f"history-{number}")

        def work(number=number, path=path):
            history = worker(number, doors, mix, window, story.seed).run(operations // workers)
            with open(path, "wb") as f:
                pickle.dump([tuple(op) for op in history], f)
        process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
        process.start()
        files.append(path)
        running.append(process)
    while any(p.is_alive() for p in running):
        for part in meanwhile:
            part(window)
        time.sleep(0.05)
    history = defaultdict(list)
    for path, process in zip(files, running):
        process.join()
        check(process.exitcode == 0, f"a worker ended with {process.exitcode}")
        with open(path, "rb") as f:
            for op in map(Op._make, pickle.load(f)):
                history[op.key].append(op)
    return {key: named(ops) for key, ops in history.items()}


def named(ops):
    """With what HEADs and lists saw as the value that has this ETag."""
    by_etag = {}
    for op in ops:
        if op.kind == "write" and op.value:
            by_etag[etag_of(op.value)] = by_etag[etag_of(op.value, True)] = op.value
    return [op._replace(kind="read", value=op.value and by_etag.get(op.value, op.value))
            if op.kind == "etag" else op for op in ops]


# ---- the judges: None, or a sentence ----

def linear(ops):
    read = {op.value for op in ops if op.kind == "read"}
    ops = [op for op in ops if op.end or op.kind == "write" and (op.value is None or op.value in read)]
    events = sorted([(op.begin, 0, i) for i, op in enumerate(ops)]
                    + [(op.end, 1, i) for i, op in enumerate(ops) if op.end])
    states, pending = {(None, frozenset())}, set()    # (value, who under way has had its instant)
    for at, ends, i in events:
        if not ends:
            pending.add(i)
            continue
        states = after(ops, states, pending, i)
        if not states:
            return tell(ops, ops[i])
        pending.discard(i)
    return None


def after(ops, states, pending, ended):
    """The states in which `ended` has had its instant."""
    seen, todo, kept = set(states), list(states), set()
    while todo:
        value, done = todo.pop()
        if ended in done:
            kept.add((value, done - {ended}))
            continue
        for i in pending - done:
            op = ops[i]
            if op.kind == "read" and op.value != value:
                continue
            state = (op.value, done | {i})
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return kept


def stale(ops, bound_ns):
    """A value is dead when a write that began after it was there has ended."""
    writes = [op for op in ops if op.kind == "write"]
    first = Op(ops[0].key, "write", None, -1, 0, "")
    dead = {}
    for source in (first, *writes):
        ended = min((w.end for w in writes if w.end and source.end is not None and w.begin >= source.end),
                    default=None)
        dead[source] = ended
    for op in ops:
        if op.kind != "read":
            continue
        if not any(s.value == op.value and s.begin <= op.end
                   and (dead[s] is None or dead[s] >= op.begin - bound_ns) for s in dead):
            return tell(ops, op)
    return None


def tell(ops, wrong):
    near = sorted((op for op in ops if op.begin < wrong.end), key=lambda op: op.begin)[-12:]
    lines = "; ".join(f"{op.kind} {op.value and op.value[0]} at {op.door or '-'} "
                      f"{(op.begin - wrong.begin) / 1e6:.1f}..{(op.end - wrong.begin) / 1e6 if op.end else '?'} ms"
                      for op in near)
    return f"{wrong.key}: a read at {wrong.door} returned {wrong.value}, which it could not: {lines}"


def verdicts(history, judge):
    return [said for ops in history.values() if (said := judge(ops))]


def share_of_hits(history):
    """Of GETs that found an object."""
    said = [op.door for ops in history.values() for op in ops if op.kind == "read" and " " in op.door]
    return sum(door.endswith(" hit") for door in said) / max(len(said), 1)


def figures(history):
    ops = [op for some in history.values() for op in some]
    kinds = [f"{sum(op.kind == kind for op in ops)} {kind}s" for kind in ("write", "read")]
    return f"{len(ops)} operations, {', '.join(kinds)}, {share_of_hits(history):.0%} of GETs hits, {sum(op.end is None for op in ops)} of unknown outcome, " \
           f"{len(history)} keys"


class SlowWay:
    """A way to an origin on which answers are delayed, each piece by another time: what was asked first may be
    heard last."""

    def __init__(self, port, delay_ms, seed):
        self.to, self.delay_ms, self.random = port, delay_ms, random.Random(seed)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            here, _ = self.listener.accept()
            try:
                there = socket.create_connection(("127.0.0.1", self.to))
            except OSError:    # the origin starts anew: the next one finds it
                here.close()
                continue
            for one in (here, there):    # before a thread can close them
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for one, other, delay_ms in ((here, there, 0), (there, here, self.delay_ms)):
                threading.Thread(target=self.carry, args=(one, other, delay_ms), daemon=True).start()

    def carry(self, one, other, delay_ms):
        try:
            while piece := one.recv(65536):
                time.sleep(self.random.random() * delay_ms / 1000)
                other.sendall(piece)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            one.close()
            other.close()
