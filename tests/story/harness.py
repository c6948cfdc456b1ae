"""harness.py - a stage for stories: real daemons, real sockets, bounded time.
SPDX-License-Identifier: Apache-2.0

A story is a program: it opens a Story, starts what it needs (penstock, the scripted origin,
versitygw), states facts, and exits 0, 77 with a reason, or 1 with what differed; 75 if only facts
about time were wrong, which a machine that is busy with others' work may be. Everything lives
in a temporary folder, has a time limit, and is ended by pid. Only the standard library is needed.

    with Story("c01 a cold read, then a warm one") as story:
        origin = story.origin("object=bucket/a 1000")
        server = story.penstock(origin=origin.url)
        story.fact("a cold read is right", server.get("bucket/a").body == expect("bucket/a", 1, 0, 1000))

Environment: PENSTOCK (the binary; the tests' daemon is found below its folder), PENSTOCK_IO (uring or threads), SCRIPTED_ORIGIN, PENSTOCK_TOOLS
(folder of tools, see scripts/tools), STORY_SECONDS (time limit), STORY_KEEP=1 (keeps the folder).
"""

import atexit
import faulthandler
import glob
import hashlib
import hmac
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from urllib.parse import quote

from synthetic import etag as synthetic_etag, expect, whose  # noqa: F401 (for stories)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KIB, MIB, GIB = 1024, 1 << 20, 1 << 30
ACCESS_KEY, SECRET_KEY = "PENSTOCKTESTKEY", "penstock/test+secret"
ORIGIN_KEY, ORIGIN_SECRET = "ORIGINTESTKEY", "origin/test+secret"
REPORTS = re.compile(r"(?:Address|Thread|Leak|Memory)Sanitizer|runtime error:|check failed|Assertion")


def find_binary(variable, *places):
    if os.environ.get(variable):
        return os.path.abspath(os.environ[variable])
    found = [p for place in places for p in glob.glob(os.path.join(ROOT, place))
             if os.access(p, os.X_OK)]
    return max(found, key=os.path.getmtime) if found else None


os.environ["AWS_EC2_METADATA_DISABLED"] = "true"    # a test asks no instance for its role
PENSTOCK = find_binary("PENSTOCK", "penstock", "build/penstock", "build/src/penstock")
SCRIPTED = find_binary("SCRIPTED_ORIGIN", "tests/origin/scripted-origin",
                       "build*/tests/origin/scripted-origin")
TESTS_DAEMON = os.path.join("tests", "daemon", "penstock")
TOOLS = os.environ.get("PENSTOCK_TOOLS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "penstock-tools")


# Seconds that a story waits for what must come. A machine may be busy with other work for a while: no fact depends on
# this number, and only a story that fails waits for so long.
PATIENCE = 60


class Skip(Exception):
    pass


class Wrong(Exception):
    pass


def tests_daemon():
    """The tests' own daemon: the same objects as the shipped one, and one more that can switch guards off, let the
    ageing clock run ahead and change constants without a warning (tests/daemon/testing.c)."""
    if PENSTOCK and PENSTOCK.endswith(TESTS_DAEMON):
        return PENSTOCK
    beside = os.path.join(os.path.dirname(PENSTOCK or ""), TESTS_DAEMON)
    if not os.access(beside, os.X_OK):
        raise Skip(f"there is no {TESTS_DAEMON} beside penstock: run make")
    return beside


def use_tests_daemon():
    """From here on all daemons are the tests' own."""
    global PENSTOCK
    PENSTOCK = tests_daemon()


def pinned(name):
    """The version that scripts/tools pins; others may lie beside it."""
    with open(os.path.join(ROOT, "scripts", "tools")) as f:
        return re.search(rf"^{name.upper().replace('-', '_')}_VERSION=(\S+)", f.read(), re.M).group(1)


def tool(name):
    """A client or server that scripts/tools installed; skips the story if it is absent."""
    if name == "versitygw":
        found = glob.glob(os.path.join(TOOLS, f"versitygw-{pinned(name)}", "bin", "versitygw"))
    elif name == "radosgw":    # the folder that Debian's packages are unpacked in
        found = [p for p in glob.glob(os.path.join(TOOLS, "radosgw"))
                 if os.path.exists(os.path.join(p, ".whole"))]
    else:
        found = sorted(glob.glob(os.path.join(TOOLS, "venv-*", "bin", name)), key=os.path.getmtime)
    if not found:
        raise Skip(f"{name} is not installed: run scripts/tools all")
    return found[-1]


class Ports:
    """Ports of this process alone, each given out once. Stories run beside each other, and a port has no listener before
    its daemon starts, nor while that restarts. So a process takes whole blocks of ports: the abstract socket of a block's
    name is its lock, and goes with the process. All lie below the range of outgoing connections."""
    FIRST, EACH, BLOCKS = 10240, 40, 500

    def __init__(self):
        self.guard, self.locks, self.next, self.end = threading.Lock(), [], 0, 0

    def take_block(self):
        for block in random.SystemRandom().sample(range(self.BLOCKS), self.BLOCKS):
            lock = socket.socket(socket.AF_UNIX)
            try:
                lock.bind(f"\0penstock-story-ports-{block}")
            except OSError:
                lock.close()
                continue
            self.locks.append(lock)
            self.next = self.FIRST + block * self.EACH
            self.end = self.next + self.EACH
            return
        raise Wrong("other stories have all blocks of ports")

    @staticmethod
    def is_free(port):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return True
            except OSError:    # a process that is no story has it
                return False

    def take(self, count=1):
        """The first of so many ports in a row."""
        with self.guard:
            while True:
                if self.next + count > self.end:
                    self.take_block()
                first, self.next = self.next, self.next + count
                if all(map(self.is_free, range(first, first + count))):
                    return first


free_port = Ports().take


def wait_for(what, condition, seconds=PATIENCE, every=0.02):
    """Returns the first true value of condition()."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Wrong(f"waited {seconds} s in vain: {what}")
        time.sleep(every)


def same_bytes(got, want, key="", keys=()):
    """None if equal, else a sentence that says where and, if it can, whose bytes were there."""
    if got == want:
        return None
    if len(got) != len(want):
        start = f"{len(got)} bytes instead of {len(want)}; "
    else:
        start = ""
    at = next((i for i in range(min(len(got), len(want))) if got[i] != want[i]), None) \
        if got[:len(want)] != want[:len(got)] else None
    if at is None:
        return start + "equal as far as they go"
    page = at // 4096 * 4096
    return f"{start}{key} differs first at byte {at}; there: {whose(got[page:page + 32], [key, *keys]) if key else ''}"


# ---- HTTP and signatures ----

class Reply:
    """What came back. `error` is None only if the answer was whole."""

    def __init__(self):
        self.status, self.reason, self.headers, self.body = 0, "", {}, b""
        self.error, self.began, self.first_byte, self.ended = None, 0.0, None, 0.0
        self.closed = False

    @property
    def code(self):
        found = re.search(rb"<Code>([^<]*)</Code>", self.body)
        return found.group(1).decode() if found else ""

    @property
    def cache(self):
        return self.headers.get("x-cache", "").lower()

    def __repr__(self):
        return f"<{self.status} {self.code or self.error or ''} {len(self.body)} bytes, x-cache {self.cache or '-'}>"


def uri(text, safe="-._~"):
    return quote(text if isinstance(text, bytes) else text.encode(), safe=safe)


def canonical_query(query):
    return "&".join(f"{uri(n)}={uri(v)}" for n, v in sorted((k, v) for k, v in query))


def signing_key(secret, day, region, service="s3"):
    key = ("AWS4" + secret).encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def sign(method, path, query, headers, payload, key, secret, now=None, region="us-east-1"):
    """Adds what a SigV4 request needs to `headers` (a dict, lower-case names). path is encoded."""
    now = now or datetime.now(timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers["x-amz-date"] = stamp
    headers["x-amz-content-sha256"] = payload
    signed = sorted(n for n in headers if n in ("host", "content-md5", "content-type", "range")
                    or n.startswith("x-amz-"))
    canonical = "\n".join([method, path, canonical_query(query),
                           "".join(f"{n}:{headers[n].strip()}\n" for n in signed), ";".join(signed),
                           payload])
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    signature = hmac.new(signing_key(secret, day, region), text.encode(),
                         hashlib.sha256).hexdigest()
    headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={';'.join(signed)}, "
                                f"Signature={signature}")


def presign(method, host, path, key, secret, expires=300, now=None, query=(), region="us-east-1",
            payload="UNSIGNED-PAYLOAD"):
    """The target (path and query) of a presigned request."""
    now = now or datetime.now(timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    scope = f"{day}/{region}/s3/aws4_request"
    query = [*query, ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
             ("X-Amz-Credential", f"{key}/{scope}"),
             ("X-Amz-Date", stamp), ("X-Amz-Expires", str(expires)),
             ("X-Amz-SignedHeaders", "host")]
    canonical = "\n".join([method, path, canonical_query(query), f"host:{host}\n", "host",
                           payload])
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    signature = hmac.new(signing_key(secret, day, region), text.encode(),
                         hashlib.sha256).hexdigest()
    return f"{path}?{canonical_query(query)}&X-Amz-Signature={signature}"


class Wire:
    """A socket that reads HTTP/1.1 answers and notices when they end early."""

    def __init__(self, port, timeout=60, host="127.0.0.1", receive_buffer=None, tls=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:    # an end without close_notify is an error
            self.socket = tls.wrap_socket(self.socket, server_hostname=host,
                                          suppress_ragged_eofs=False)
        self.rest = b""

    def close(self):
        self.socket.close()

    def abort(self):
        """Leaves with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def wait_taken(self):
        """Waits until the other side has read all that was sent: a reset takes along what has not been read."""
        ours, theirs = (f"{end[1]:04X}" for end in (self.socket.getsockname(), self.socket.getpeername()))

        def taken():
            left = 0
            with open("/proc/net/tcp") as f:
                for _, local, remote, _, queues, *_ in (line.split() for line in f.readlines()[1:]):
                    pair, (unsent, unread) = (local[-4:], remote[-4:]), queues.split(":")
                    left += int(unsent, 16) if pair == (ours, theirs) else int(unread, 16) if pair == (theirs, ours) else 0
            return left == 0
        wait_for("the other side has read all", taken)

    def gone(self, seconds=PATIENCE):
        """True if the other side closes without another byte."""
        self.socket.settimeout(seconds)
        try:
            return not self.rest and self.socket.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    def hears(self, seconds=PATIENCE):
        """Everything until the other side closes; None if it does not close."""
        self.socket.settimeout(seconds)
        heard = self.rest
        try:
            while more := self.socket.recv(65536):
                heard += more
        except TimeoutError:
            return None
        except OSError:
            pass
        return heard

    def read(self, method="GET", reply=None, pace=None, stop_after=None):
        """One answer. pace: at most so many bytes a second. stop_after: returns early."""
        reply = reply or Reply()
        try:
            self._read(method, reply, pace, stop_after)
        except TimeoutError:
            reply.error = "timeout"
        except OSError as failure:
            reply.error = f"reset ({failure.__class__.__name__})"
        reply.ended = time.monotonic()
        return reply

    def _read(self, method, reply, pace, stop_after):
        head = self.rest
        while b"\r\n\r\n" not in head:
            more = self.socket.recv(65536)
            if not more:
                reply.error = "closed before a whole head" if head else "closed without an answer"
                return
            head += more
        head, _, self.rest = head.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        _, status, reply.reason = lines[0].split(" ", 2)
        reply.status = int(status)
        if reply.status == 100:
            return self._read(method, reply, pace, stop_after)
        for line in lines[1:]:
            name, _, value = line.partition(":")
            reply.headers[name.strip().lower()] = value.strip()
        reply.closed = reply.headers.get("connection", "").lower() == "close"
        if method == "HEAD" or reply.status in (204, 304):
            reply.first_byte = time.monotonic()
            return
        if reply.headers.get("transfer-encoding", "").lower() == "chunked":
            return self._read_chunked(reply)
        want = int(reply.headers["content-length"]) if "content-length" in reply.headers else None
        self._read_sized(reply, want, pace, stop_after)

    def _read_sized(self, reply, want, pace, stop_after):
        pieces, got, start = [], 0, time.monotonic()
        while want is None or got < want:
            piece, self.rest = self.rest, b""
            if not piece:
                piece = self.socket.recv(262144 if not pace else max(4096, pace // 100))
            if not piece:
                if want is not None:
                    reply.error = f"closed after {got} of {want} bytes"
                break
            if reply.first_byte is None:
                reply.first_byte = time.monotonic()
            if want is not None and got + len(piece) > want:
                self.rest = piece[want - got:]
                piece = piece[:want - got]
            pieces.append(piece)
            got += len(piece)
            reply.body = b""
            if stop_after is not None and got >= stop_after:
                break
            if pace:
                ahead = start + got / pace - time.monotonic()
                if ahead > 0:
                    time.sleep(ahead)
        if reply.first_byte is None:
            reply.first_byte = time.monotonic()
        reply.body = b"".join(pieces)

    def _read_chunked(self, reply):
        pieces = []
        try:
            while piece := self._read_chunk():
                pieces.append(piece)
        finally:
            reply.body = b"".join(pieces)

    def _read_chunk(self):
        """The next one; empty: it was the last."""
        while b"\r\n" not in self.rest:
            self._more()
        line, _, self.rest = self.rest.partition(b"\r\n")
        size = int(line.split(b";")[0], 16)
        while len(self.rest) < size + 2:
            self._more()
        chunk, self.rest = self.rest[:size], self.rest[size + 2:]
        return chunk

    def _more(self):
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("closed inside a chunk")
        self.rest += more


class Client:
    """Signs and sends. One connection a request unless told to keep one."""

    def __init__(self, port, key=ACCESS_KEY, secret=SECRET_KEY, keep=False, timeout=60, tls=None):
        self.tls = tls
        self.port, self.key, self.secret, self.keep, self.timeout = port, key, secret, keep, timeout
        self.host = f"127.0.0.1:{port}"
        self.wire = None

    def head_of(self, method, key, query=(), headers=None, body=b"", sign_it=True, payload=None,
                now=None):
        """The bytes of a signed request, body included. key: "bucket/key", text or bytes."""
        headers = {n.lower(): v for n, v in (headers or {}).items()}
        headers.setdefault("host", self.host)
        path = "/" + uri(key, "/-._~")
        if body or method in ("PUT", "POST"):
            headers.setdefault("content-length", str(len(body)))
        if sign_it:
            sign(method, path, query, headers, payload or hashlib.sha256(body).hexdigest(),
                 self.key, self.secret, now)
        target = path + ("?" + canonical_query(query) if query else "")
        lines = [f"{method} {target} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body

    def ask(self, method, key, query=(), headers=None, body=b"", pace=None, stop_after=None,
            leave=None,
            receive_buffer=None, **how):
        reply = Reply()
        wire = self.wire
        reply.began = time.monotonic()
        try:
            if wire is None:
                wire = Wire(self.port, self.timeout, receive_buffer=receive_buffer, tls=self.tls)
            wire.send(self.head_of(method, key, query, headers, body, **how))
        except OSError as failure:
            reply.error = f"can't send ({failure.__class__.__name__})"
        else:
            wire.read(method, reply, pace, stop_after)
        if stop_after is not None and leave != "stay":
            wire.abort()
            wire = None
        if wire is not None and (not self.keep or reply.error or reply.closed):
            wire.close()
            wire = None
        self.wire = wire
        return reply

    def get(self, key, first=None, last=None, suffix=None, headers=None, **how):
        headers = dict(headers or {})
        if suffix is not None:
            headers["range"] = f"bytes=-{suffix}"
        elif first is not None:
            headers["range"] = f"bytes={first}-{'' if last is None else last}"
        return self.ask("GET", key, headers=headers, **how)

    def head(self, key, headers=None, **how):
        return self.ask("HEAD", key, headers=headers, **how)

    def put(self, key, body, headers=None, **how):
        return self.ask("PUT", key, headers=headers, body=body, **how)

    def delete(self, key, **how):
        return self.ask("DELETE", key, **how)

    def list(self, bucket, **query):
        query = [(n.replace("_", "-"), str(v)) for n, v in query.items()]
        return self.ask("GET", bucket, query=[("list-type", "2"), *query])


def plain(port, method, target, body=b"", headers=(), timeout=PATIENCE, host=None):
    """An unsigned request as it stands."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{port}'}", "Connection: close",
             *headers]
    if body or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body)}")
    try:
        wire = Wire(port, timeout)
        wire.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        reply = wire.read(method)
        wire.close()
    except OSError as failure:
        reply = Reply()
        reply.error = f"no connection ({failure.__class__.__name__})"
    return reply


# ---- the cast ----

class Listener:
    """An origin of the story's own: gives each connection to serve() on a thread, and counts them."""
    scheme = "http"

    def __init__(self):
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"{self.scheme}://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            connection, _ = self.listener.accept()
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            with connection:
                self.serve(connection)
        except OSError:
            pass    # who leaves is what some stories are about

    @staticmethod
    def hear(connection):
        """One request, for serve(): (its first line, its fields, its body), or None if the client has left."""
        heard = b""
        while b"\r\n\r\n" not in heard:
            more = connection.recv(65536)
            if not more:
                return None
            heard += more
        head, _, body = heard.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        fields = dict((n.lower(), v.strip()) for n, _, v in (line.partition(":") for line in lines[1:]))
        while len(body) < int(fields.get("content-length", 0)):
            body += connection.recv(65536)
        return lines[0], fields, body


def own_env(*also):
    """The environment without the variables of the tests, which a daemon would take for settings, and without those
    whose names begin with one of `also`."""
    return {n: v for n, v in os.environ.items() if not n.startswith(("PENSTOCK", *also))}


class Clock:
    """The ageing clock of a story's daemons (base/clock.h): how old answers of the origin are. It goes with real
    time, and ahead of it when told. Signatures, timers, timeouts and logs keep real time."""

    def __init__(self, path):
        self.path, self.ms = path, 0
        self.ahead(0)

    def ahead(self, seconds):
        """Each answer of the origin is older by so much, at once, in every daemon of the story."""
        self.ms += round(seconds * 1000)
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(fd, struct.pack("<Q", self.ms), 0)    # in place: daemons have it mapped
        os.close(fd)


class Process:
    """Something that runs until it is told not to."""

    def __init__(self, story, name, argv, env=None, stdout=None):
        self.story, self.name = story, name
        self.log_path = os.path.join(story.folder, f"{name}-{len(story.processes)}.log")
        self.log_file = open(self.log_path, "wb")
        with story.starting:
            check(not story.over, f"{name} is not started: the story ends")
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=stdout
                                            or self.log_file,
                                            stderr=self.log_file, env={**own_env(), **(env or {})})
            story.processes.append(self)

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process.poll() is None

    def log(self):
        with open(self.log_path, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def kill(self):
        if self.alive():
            self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self, seconds=PATIENCE):
        """SIGTERM; returns the exit status, or None if it had to be killed."""
        if self.alive():
            self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None


class Origin(Process):
    """The scripted origin: see tests/origin/control.c for what it can be told."""

    def __init__(self, story, *lines, port=0):
        if SCRIPTED is None:
            raise Skip("scripted-origin is not built: run make")
        super().__init__(story, "origin", [SCRIPTED, "--port", str(port), *lines],
                         stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[1])
        self.process.stdout.close()
        self.url = f"http://127.0.0.1:{self.port}"

    def tell(self, *lines):
        reply = plain(self.port, "POST", "/_/control", "\n".join(lines).encode())
        if reply.status != 200:
            raise Wrong(f"the origin does not take {lines}: {reply.body.decode()}")

    def calm(self):
        self.tell("reset=rules")

    def reset(self):
        """Counts and log start from nothing."""
        self.quiet()
        plain(self.port, "POST", "/_/counts/reset")

    def totals(self):
        return json.loads(plain(self.port, "GET", "/_/counts?totals").body)

    def quiet(self, seconds=PATIENCE):
        """Waits until no request is under way."""
        wait_for("the origin has no open request", lambda: self.totals()["requests_open"] == 0,
                 seconds)

    def counts(self, key=None, settle=True):
        """All counts, or those of one key (zeroes if it was never asked for)."""
        if settle:
            self.quiet()
        whole = json.loads(plain(self.port, "GET", "/_/counts").body.decode("utf-8", "replace"))
        if key is None:
            whole["requests"] = sum(whole[m] for m in ("get", "head", "put", "delete", "post",
                                                       "list"))
            return whole
        none = {m: 0 for m in ("get", "head", "put", "delete", "post", "list", "errors", "aborted",
                               "bytes")}
        return whole["keys"].get(key, {**none, "spans": []})

    def sizes(self, keys):
        """What it has, asked directly: {key: bytes}. Not counted for stories that reset afterwards."""
        direct = Client(self.port, ORIGIN_KEY, ORIGIN_SECRET, keep=True)
        return {key: int(direct.head(key).headers["content-length"]) for key in keys}

    def log_lines(self):
        return [line.split(" ") for line in plain(self.port, "GET",
                                                  "/_/log").body.decode().splitlines()]


def twice(spans):
    """How many bytes of these spans were asked for more than once."""
    end, doubled = -1, 0
    for first, last in sorted(map(tuple, spans)):
        if first <= end:
            doubled += min(end, last) - first + 1
        end = max(end, last)
    return doubled


def constants():
    """The names in base/config.def that are no settings: the tests' daemon takes them from the file."""
    text = ""
    for name in ("config.def", "budget.def"):
        with open(os.path.join(ROOT, "src", "base", name)) as f:
            text += f.read()
    return set(re.findall(r'^(?:CONSTANT\(\w+, \w+|BUDGET\(\w+), "(\w+)"', text, re.M))


class Penstock(Process):
    """A daemon with a cache folder of its own, and a client that knows its keys."""

    def __init__(self, story, settings, wait=True, env=None):
        if PENSTOCK is None or not os.access(PENSTOCK, os.X_OK):
            raise Skip("penstock is not built: run make")
        self.settings, self.env = settings, {**story.daemon_env, **(env or {})}
        self.port = int(settings["listen"].rsplit(":", 1)[1])
        self.admin_port = int(settings["admin_listen"].rsplit(":", 1)[1])
        self.cache_dir = settings.get("cache_dir") or settings["cache_dirs"][0]["path"]
        self.config_path = os.path.join(story.folder, f"penstock-{len(story.processes)}.json")
        with open(self.config_path, "w") as f:
            json.dump(settings, f, indent=1)
        program = tests_daemon() if constants() & settings.keys() else PENSTOCK
        super().__init__(story, "penstock", [program, "serve", "--config", self.config_path],
                         self.env)
        self.killed = False
        self.client = Client(self.port, settings.get("access_key", ACCESS_KEY),
                             settings.get("secret_key", SECRET_KEY))
        self.get, self.head, self.put = self.client.get, self.client.head, self.client.put
        self.delete, self.list, self.ask = self.client.delete, self.client.list, self.client.ask
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.ready_s = None
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds=PATIENCE):
        start = time.monotonic()

        def ready():
            if not self.alive():
                raise Wrong(f"penstock ended with {self.process.returncode}: {self.log()[-2000:]}")
            return plain(self.port, "GET", "/_/health/ready", timeout=10).status == 200
        wait_for("penstock is ready", ready, seconds)
        self.ready_s = time.monotonic() - start

    def stalled(self, key):
        """A client that has asked for an object, and does not read the answer, of which the first bytes have come."""
        wire = Wire(self.port, receive_buffer=4096)
        wire.send(self.client.head_of("GET", key))
        select.select([wire.socket], [], [], PATIENCE)
        return wire

    def kill(self):
        self.killed = True
        super().kill()

    def again(self, **changes):
        """A new process on the same cache folder and ports."""
        check(not self.alive(), "the daemon still runs")
        return Penstock(self.story, {**self.settings, **changes}, env=self.env)

    def restart(self, **changes):
        status = self.stop()
        self.story.fact("SIGTERM ends it cleanly", status == 0, f"exit status {status}")
        return self.again(**changes)

    def log(self):
        """All that it has said. Access lines are written a little later than requests are answered:
        waits for those of all answers so far."""
        wanted, end = None, time.monotonic() + PATIENCE
        while self.alive() and time.monotonic() < end:
            if (wanted := self._lines_that_wait(wanted)) is None:
                break
            time.sleep(0.02)
        return super().log()

    def _lines_that_wait(self, wanted):
        """None: as many are written or dropped as had been said at the first look."""
        try:
            page = plain(self.admin_port, "GET", "/metrics", timeout=10).body.decode()
            said, written, dropped = (int(re.search(rf"^penstock_access_lines{part}_total (\d+)$", page, re.M).group(1))
                                      for part in ("", "_written", "_dropped"))
        except (AttributeError, OSError):    # it answers nobody, or not us
            return None
        wanted = said if wanted is None else wanted
        return None if written + dropped >= wanted else wanted

    def metrics(self):
        found = {}
        for line in plain(self.admin_port, "GET", "/metrics").body.decode().splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
        return found

    def wait_cached(self, *keys, client=None):
        """Waits until these objects are stored: a read of them is a hit. What was read is stored a moment after its
        answer, and until then a further read is a miss that costs the origin nothing."""
        wait_for(f"{', '.join(keys[:3])} are stored",
                 lambda: all((client or self).get(key).cache == "hit" for key in keys))

    def metric(self, name):
        """The sum over the labels of a name."""
        return sum(v for n, v in self.metrics().items() if n == name or n.startswith(name + "{"))

    def threads(self):
        """{thread: name}, without those that end meanwhile: a worker of the kernel's, a pass at the start."""
        names = {}
        for path in glob.glob(f"/proc/{self.pid}/task/*/comm"):
            try:
                with open(path) as f:
                    names[int(path.split("/")[-2])] = f.read().strip()
            except OSError:
                pass
        return names

    def memory(self):
        """Resident bytes."""
        return int(open(f"/proc/{self.pid}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def extents(self):
        """The files that hold object bytes."""
        return sorted(p for p in glob.glob(os.path.join(self.cache_dir, "**", "*"), recursive=True)
                      if os.path.isfile(p) and not p.endswith(".mdb")
                      and os.path.getsize(p) >= 4096)

    def find_page(self, key, version, block):
        """Where the first page of a block of a synthetic object lies: [(path, offset)]."""
        want = sha256(key.encode() + b"\0%d\0%d" % (version, block)).digest()
        found = []
        for path in self.extents():
            with open(path, "rb") as f:
                data = f.read()
            at = data.find(want)
            while at >= 0:
                found.append((path, at))
                at = data.find(want, at + 65536)
        return found

    def client_env(self):
        """What a stranger's shell would have."""
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": self.client.key,
                "AWS_SECRET_ACCESS_KEY": self.client.secret, "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_CONFIG_FILE": "/dev/null",
                "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "S3_ENDPOINT_URL": self.endpoint}


class Versity(Process):
    """versitygw over a folder: an S3 origin that is not ours. tls: its certificate and key; then
    our client, which speaks no TLS, can't ask it. iam: it has users; versioning: and versions."""

    def __init__(self, story, folder=None, tls=None, port=None, iam=False, versioning=False):
        self.folder = folder or story.path("versity")
        iam_dir, versions_dir = self.folder + "-iam", self.folder + "-versions"
        for path in (self.folder, iam_dir, versions_dir):
            os.makedirs(path, exist_ok=True)
        self.port = port or free_port()
        self.access_log = self.folder + "-access.log"
        super().__init__(story, "versitygw", [tool("versitygw"), "--quiet", "--access", ORIGIN_KEY,
                                              "--secret", ORIGIN_SECRET,
                                              "--access-log", self.access_log,
                                              "--port", f"127.0.0.1:{self.port}",
                                              *(["--cert", tls[0], "--key", tls[1], "--keep-alive"] if tls else []),
                                              *(["--iam-dir", iam_dir] if iam else []),
                                              "posix",
                                              *(["--versioning-dir", versions_dir]
                                                if versioning else []),
                                              self.folder])
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.client = Client(self.port, ORIGIN_KEY, ORIGIN_SECRET)
        wait_for("versitygw answers", lambda: self.hangs_up() if tls
                 else self.client.ask("GET", "").status == 200)

    def again(self):
        """Killed, if it still runs; then a new one on the same folder and port."""
        self.kill()
        return Versity(self.story, folder=self.folder, port=self.port)

    def hangs_up(self):
        """It is there, and takes us for what we are: no TLS."""
        return not (self.client.ask("GET", "").error or "").startswith("can't send")

    def env(self):
        return {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": ORIGIN_KEY,
                "AWS_SECRET_ACCESS_KEY": ORIGIN_SECRET,
                "AWS_DEFAULT_REGION": "us-east-1", "AWS_REGION": "us-east-1",
                "S3_ENDPOINT_URL": self.url}


class Minio(Process):
    """MinIO over one folder, without KMS. binary: what scripts/tools minio prints."""

    def __init__(self, story, binary):
        self.port = free_port()
        super().__init__(story, "minio", [binary, "server", "--quiet", "--address", f"127.0.0.1:{self.port}",
                                          story.path("minio")],
                         {"MINIO_ROOT_USER": ORIGIN_KEY, "MINIO_ROOT_PASSWORD": ORIGIN_SECRET, "MINIO_BROWSER": "off",
                          "MINIO_UPDATE": "off", "MINIO_CI_CD": "on", "HOME": story.path("home")})
        self.url = f"http://127.0.0.1:{self.port}"
        client = Client(self.port, ORIGIN_KEY, ORIGIN_SECRET)
        wait_for("MinIO answers", lambda: client.ask("GET", "").status == 200)


# ---- the story ----

def check(condition, why):
    if not condition:
        raise Wrong(why)


class Story:
    def __init__(self, title, seconds=None):
        self.title, self.facts, self.wrong, self.late, self.processes = title, 0, [], 0, []
        self.daemon_env = {}
        self.starting, self.over = threading.RLock(), False    # nothing starts once it ends
        # A story that hangs ends then; one on a busy machine must not.
        self.seconds = int(os.environ.get("STORY_SECONDS") or max(seconds or 0, 300))
        self.io = os.environ.get("PENSTOCK_IO", "")
        self.folder = tempfile.mkdtemp(prefix="penstock-story-")
        self.seed = int(os.environ.get("STORY_SEED") or random.SystemRandom().randrange(1 << 32))
        self.random = random.Random(self.seed)

    def path(self, name):
        return os.path.join(self.folder, name)

    def fact(self, text, holds, detail=""):
        """States what was checked. A false one is remembered, printed, and fails the story."""
        self.facts += 1
        if holds:
            print(f"ok    {text}", flush=True)
        else:
            self.wrong.append(text)
            print(f"WRONG {text}: {detail}", flush=True)
        return bool(holds)

    def in_time(self, text, holds, detail=""):
        """A fact that is wrong, too, where the machine was too busy to be as fast as promised."""
        self.late += not holds
        return self.fact(text, holds, detail)

    def same(self, text, got, want):
        return self.fact(text, got == want, f"{got!r} instead of {want!r}")

    def bytes(self, text, reply, key, first=0, length=None, version=1, status=None):
        """The answer is whole and has exactly these synthetic bytes."""
        want = expect(key, version, first, length)
        detail = reply.error or (status and reply.status != status
                                 and f"status {reply.status} {reply.code}") \
            or (reply.status not in (200, 206) and f"status {reply.status} {reply.code}") \
            or same_bytes(reply.body, want, key)
        return self.fact(text, not detail, detail)

    def note(self, text):
        print(f"      {text}", flush=True)

    def origin(self, *lines, **how):
        return Origin(self, *lines, **how)

    def versity(self, **how):
        return Versity(self, **how)

    def settings(self, **changes):
        """What a test daemon is given; a value of None leaves a setting to its default. Requests are not hedged,
        because many stories count the origin's requests; story o09 is about hedged ones, and k01 has them, too."""
        settings = {"listen": f"127.0.0.1:{free_port()}",
                    "admin_listen": f"127.0.0.1:{free_port()}",
                    "cache_dir": self.path("cache"), "cache_size": "2GiB", "access_key": ACCESS_KEY,
                    "secret_key": SECRET_KEY, "origin_access_key": ORIGIN_KEY,
                    "origin_secret_key": ORIGIN_SECRET,
                    "freshness": "immutable", "log_level": "info", "hedged_requests": False,
                    **({"io": self.io} if self.io else {}), **changes}
        return {name: value for name, value in settings.items() if value is not None}

    def clock(self):
        """Daemons that are started from here on are the tests' own, with a clock that can run ahead."""
        use_tests_daemon()
        clock = Clock(self.path("clock"))
        self.daemon_env["PENSTOCK_TEST_CLOCK"] = clock.path
        return clock

    def penstock(self, wait=True, env=None, **changes):
        return Penstock(self, self.settings(**changes), wait, env)

    def __enter__(self):
        print(f"# {self.title}{f' (io={self.io})' if self.io else ''}, seed {self.seed}",
              flush=True)
        faulthandler.enable()
        atexit.register(self._end_all)
        signal.signal(signal.SIGALRM, self._too_long)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        signal.alarm(self.seconds)
        return self

    def _too_long(self, *_):
        print(f"WRONG the story took longer than {self.seconds} s; it was here:", flush=True)
        traceback.print_stack(file=sys.stdout)
        self._tell_logs()
        sys.stdout.flush()
        self._end_all()
        os._exit(1)

    def _end_all(self):
        with self.starting:
            self.over = True
        for process in self.processes:
            if process.process.poll() is None:
                process.process.kill()
                process.process.wait()
        if not os.environ.get("STORY_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _tell_logs(self):
        for process in self.processes:
            text = process.log().strip().splitlines()
            if text:
                print(f"--- the last lines of {os.path.basename(process.log_path)}")
                print("\n".join(text[-25:]))

    def _clean_end(self):
        for process in self.processes:
            if not isinstance(process, Penstock):
                continue
            if process.alive():
                status = process.stop()
                self.fact("the daemon ends cleanly", status == 0, f"exit status {status}")
            found = REPORTS.search(process.log())
            if found:
                self.fact("no report in the daemon's log", False,
                          process.log()[found.start():][:3000])

    def __exit__(self, kind, failure, trace):
        status = 0
        if kind is Skip:
            print(f"skip  {failure}")
            status = 77
        elif kind is Wrong:
            self.fact("the story could be told", False, failure)
        elif kind is not None and kind is not SystemExit:
            traceback.print_exception(kind, failure, trace, file=sys.stdout)
            self.fact("the story went to its end", False, f"{kind.__name__}: {failure}")
        elif kind is SystemExit:
            return False
        if status == 0:
            self._clean_end()
            if self.wrong or not self.facts:
                self._tell_logs()
                print(f"# {len(self.wrong)} of {self.facts} facts are wrong")
                status = 75 if self.wrong and len(self.wrong) == self.late else 1
        signal.alarm(0)
        self._end_all()
        sys.stdout.flush()
        os._exit(status)    # threads of clients that still wait must not keep us


def together(*works, seconds=200):
    """Runs functions at once, each in a thread; returns their results, or raises the first
    failure."""
    results, failures = [None] * len(works), []

    def run(i, work):
        try:
            results[i] = work()
        except BaseException as failure:    # noqa: BLE001 (handed on below)
            failures.append(failure)
    threads = [threading.Thread(target=run, args=(i, work), daemon=True) for i,
               work in enumerate(works)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    if failures:
        raise failures[0]
    check(not any(t.is_alive() for t in threads),
          f"not all of {len(works)} works ended in {seconds} s")
    return results


def run(argv, env=None, seconds=2 * PATIENCE, input=None):
    """A command to its end: (status, stdout, stderr) as text."""
    outer = own_env() if PENSTOCK in argv else os.environ
    try:
        done = subprocess.run(argv, env={**outer, **(env or {})}, capture_output=True,
                              timeout=seconds, input=input)
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode("utf-8",
                                                 "replace"), f"took longer than {seconds} s"
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8",
                                                                                       "replace")


def ago(**how):
    return datetime.now(timezone.utc) - timedelta(**how)
