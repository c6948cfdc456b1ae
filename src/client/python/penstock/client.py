"""client.py - connect, buffers, fills, batches. SPDX-License-Identifier: Apache-2.0

A client has one session: a connection to the fill socket, which is the daemon's Unix socket for reads into
memory of this process. If the session is lost, the client opens a new session, and sends each fill in
progress again, once. If the new session is lost before the fill has ended, the fill fails. Without a fill
socket, the same calls read over HTTP: batches, or single objects if the endpoint is not a Penstock.
`Client.way` returns the way that is in use. In the child of a fork, the client opens a session of its own.
Threads: any.
"""
import logging
import os
import random
import re
import threading
import time
import weakref

from . import items as layout
from . import keys
from .errors import Disconnected, ItemError, MessageTooLong, PenstockError, TimedOut
from .http import Endpoint
from .memory import Buffer, Memory
from .session import Session

log = logging.getLogger("penstock")
SOCKET = "/run/penstock/fill.sock"
SILENCE_S = 30           # how long the client waits for a reply after the time limit of a fill
AGAIN_S = 0.05           # pause between two tries to connect
NO_ROOM = {("quota", 429), ("SlowDown", 503)}    # errors after which a fill is sent again
# The pause before a fill is sent again is random, up to a bound. The bound begins at FIRST_PAUSE_S, and
# doubles with each refusal. A fill is sent again at most REFUSALS times.
FIRST_PAUSE_S, REFUSALS = 0.05, 6
clients = weakref.WeakSet()


def connect(path=None, access_key=None, secret_key=None, session_token=None, endpoint_url=None, *,
            profile=None, region=None, credentials=None, patience=5.0):
    """Makes a Client. path: the path of the fill socket. If path is None, the client takes the path from the
    variable PENSTOCK_FILL_SOCKET. If that is not set, either, the path is /run/penstock/fill.sock. If path
    is "", the client uses no fill socket. Keys and endpoint come from the arguments, the AWS_* variables or
    ~/.aws. credentials: a boto3 Credentials object, or a function that returns (access key, secret key,
    session token). Without keys, requests are unsigned. patience: the longest time in seconds that the
    client waits for a daemon that restarts. Raises Disconnected if the argument or the variable gives a
    path, and the client cannot connect there."""
    return Client(path, keys.source(access_key, secret_key, session_token, profile, credentials),
                  keys.find_endpoint(endpoint_url, profile), keys.find_region(region, profile), patience)


def device_name(device):
    """Returns the name of a device. Accepts a torch.device, too."""
    device = str(device)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ValueError(f'device must be "cpu", "cuda" or "cuda:N", not {device!r}')
    return device


class Client:
    def __init__(self, path, find_keys, endpoint_url, region, patience):
        given = path if path is not None else os.environ.get("PENSTOCK_FILL_SOCKET")
        self.path = SOCKET if given is None else given
        self.patience, self.region, self.endpoint_url = patience, region, endpoint_url
        self.hello = None            # the daemon's reply to hello
        self._find_keys = find_keys
        self._lock = threading.RLock()
        self._session = None
        self._endpoint = Endpoint(endpoint_url, region, find_keys)
        self._buffers = weakref.WeakSet()
        self._logged = set()
        self.closed = False
        clients.add(self)
        self.no_socket = None        # text: why the client could not connect to a fill socket
        self.has_socket = bool(self.path)
        if self.has_socket:
            self._look(given is not None)

    # ---- the session ----

    def _look(self, given):
        try:
            self._usable()
        except Disconnected as nobody:
            if given:
                raise
            self.has_socket, self.no_socket = False, nobody.message

    def _greet(self):
        session = Session(self.path, SILENCE_S)
        who = self._find_keys()
        members = {"v": 1, "client": "python/0.2"}
        if who:
            members["auth"] = {"presigned": keys.presign(who, self.region, "POST", "localhost",
                                                         "/_/fill")}
        try:
            reply = session.say("hello", members)
        except BaseException:
            session.close()
            raise
        if not reply["ok"]:
            session.close()
            raise PenstockError(reply["error"], reply["status"], reply.get("message", ""))
        limits = reply.get("limits", {})
        session.message_bytes = limits.get("message_bytes", session.message_bytes)
        session.list_bytes = limits.get("list_bytes", session.list_bytes)
        session.patience_s = limits.get("deadline_ms", 60000) / 1000 + SILENCE_S
        self.hello = reply
        return session

    def _usable(self):
        """Returns the session, and opens it if necessary. After the loss of a session, waits for a daemon
        that restarts."""
        session = self._session
        if session is not None and not session.lost:
            return session
        with self._lock:
            if self.closed:
                raise ValueError("the client was closed: make a new one with penstock.connect()")
            until = time.monotonic() + (self.patience if self._session else 0)
            while self._session is None or self._session.lost:
                try:
                    self._session = self._greet()
                except Disconnected:
                    if time.monotonic() >= until:
                        raise
                    time.sleep(AGAIN_S)
            return self._session

    def _forked(self):
        self._lock = threading.RLock()
        if self._session:
            self._session.forget()
        self._endpoint.forget()
        for buffer in self._buffers:
            buffer.forked()

    def status(self):
        """Returns what the daemon knows of this session, as a dict: buffers, bytes, fills, kinds, limits."""
        return self._say("status", {})

    def _say(self, op, members):
        for last in (False, True):
            try:
                reply = self._usable().say(op, members)
            except Disconnected:
                if last:
                    raise
                continue
            if not reply["ok"]:
                raise PenstockError(reply["error"], reply["status"], reply.get("message", ""))
            return reply

    # ---- buffers ----

    def way(self, device="cpu"):
        """Returns how bytes get into memory of this device: "cuda-vmm" or "cuda-ipc" (straight into GPU
        memory), "memfd" (into shared memory), "batch" or "get" (over HTTP). Logs the way once for each
        device. The log message is a warning if the device is a GPU and the bytes do not go straight into
        its memory."""
        device = device_name(device)
        way, why = self._choose(device)
        if device not in self._logged:
            self._logged.add(device)
            falls_back = device.startswith("cuda") and not way.startswith("cuda")
            log.log(logging.WARNING if falls_back else logging.INFO, "fills of the device %s use %s%s", device, way,
                    f": {why}" if why else "")
        return way

    def _choose(self, device):
        why = []
        if device.startswith("cuda") and self.has_socket:
            from . import cuda
            self._usable()
            for kind in ("cuda-vmm", "cuda-ipc"):
                reason = cuda.refusal(self.hello, kind, device)
                if not reason:
                    return kind, ""
                why.append(f"{kind} {reason}")
        if self.has_socket:
            return "memfd", "; ".join(why)
        why.append(self.no_socket or "the client was made without a fill socket")
        return self._endpoint.way(), "; ".join(why)

    def buffer(self, nbytes, device="cpu"):
        """Allocates memory for fills, and returns it as a Buffer. For the device "cuda:0" this is GPU memory,
        if client and daemon support it. Otherwise the buffer is in memory of the host."""
        if nbytes < 1:
            raise ValueError(f"a buffer must have at least 1 byte, not {nbytes}")
        device = device_name(device)
        kind = self.way(device)
        if kind.startswith("cuda"):
            from . import cuda
            buffer = cuda.buffer(self, kind, nbytes, device)
        else:
            shared = kind == "memfd"
            buffer = Buffer(self, "memfd" if shared else "memory", Memory(nbytes, shared), nbytes)
        return self._keep(buffer)

    def register(self, tensor):
        """Makes a Buffer of the memory of a contiguous CUDA tensor of torch. The caller must not free or
        resize this memory before the close() of the buffer."""
        from . import cuda
        return self._keep(cuda.of_tensor(self, tensor))

    def _keep(self, buffer):
        self._buffers.add(buffer)
        if buffer.kind != "memory":
            self._registered(buffer)
        return buffer

    def _registered(self, buffer):
        for last in (False, True):
            try:
                return buffer.id_in(self._usable())
            except Disconnected:
                if last:
                    raise

    # ---- fills ----

    def fill(self, buffer, bucket, items, prefix="", on_error="fail", deadline=None, start=0):
        """Reads objects, or parts of them, into the buffer. Returns a Filled when all bytes are there. items:
        see items.py. prefix: text before each key. With on_error "fail", the first item that fails raises
        PenstockError, and the bytes of all items are undefined. With "skip", Filled.errors has the items
        that failed, and the bytes of these items are undefined. deadline: in seconds; ignored over HTTP,
        where only the limits of the daemon apply. start: an offset in the buffer. Items without the member
        `to` are put one after another from this offset on."""
        return self.fill_async(buffer, bucket, items, prefix, on_error, deadline, start).result()

    def fill_async(self, buffer, bucket, items, prefix="", on_error="fail", deadline=None, start=0):
        """Begins a fill and returns a Fill. Its result() waits for the end of the fill; its done() says at
        once whether the fill has ended."""
        items = layout.listed(items)
        words, offsets, lengths = layout.lay_out(items, buffer.nbytes, start)
        filled = Filled(buffer, items, offsets, lengths)
        if buffer.kind == "memory":
            return self._endpoint.fill(filled, words, bucket, prefix, on_error, deadline)
        members = {"bucket": bucket, "prefix": prefix, "on_error": on_error}
        if deadline is not None:
            members["deadline_ms"] = max(1, int(deadline * 1000))
        return Fill(self, "fill", buffer, members, words, filled)

    def prefetch(self, bucket, items, prefix="", on_error="skip", deadline=None):
        """Reads objects, or parts of them, into Penstock's cache only. The arguments are as for fill. With
        on_error "skip", `errors` of the result has the items that failed. With "fail", the first item that
        fails raises PenstockError."""
        return self.prefetch_async(bucket, items, prefix, on_error, deadline).result()

    def prefetch_async(self, bucket, items, prefix="", on_error="skip", deadline=None):
        if not self.has_socket:
            raise PenstockError("no_fill_socket", 0, "prefetch needs a fill socket: set fill_socket in "
                                "Penstock's settings, and give its path to connect() or in "
                                "PENSTOCK_FILL_SOCKET")
        items = layout.listed(items)
        rows = [layout.read(item) for item in items]
        words = [layout.word(*row) for row in rows]
        members = {"bucket": bucket, "prefix": prefix, "on_error": on_error}
        if deadline is not None:
            members["deadline_ms"] = max(1, int(deadline * 1000))
        filled = Filled(None, items, [None] * len(items), [row[2] for row in rows])
        return Fill(self, "prefetch", None, members, words, filled)

    # ---- HTTP ----

    def batch(self, bucket, items, prefix="", on_error="continue"):
        """Reads over HTTP, and yields (index, bytes) for each item in order, while Penstock still reads later
        items. For an item that failed, yields an ItemError in place of the bytes. With on_error "end", the
        batch ends with the first item that fails. Needs no fill socket."""
        return self._endpoint.batch(bucket, layout.listed(items), prefix, on_error)

    def get(self, bucket, key, offset=0, length=None):
        """Reads an object, or a part of it, with one signed GET. Returns bytes."""
        return self._endpoint.get(bucket, key, offset, length)

    def follow(self, bucket, items, prefix="", window=None):
        """Tells Penstock in which order these items will be read. Penstock brings them into its cache ahead of
        the reads, up to `window` bytes (2 GiB if not given). Returns a Follow (follow.py): close it after the
        reads. Needs no fill socket."""
        from .follow import Follow
        return Follow(self, bucket, items, prefix, window)

    def request(self, method, path, query=(), headers=(), body=b""):
        """Sends a signed HTTP request. path: "/BUCKET/KEY", not encoded. Returns (status, headers, body)."""
        return self._endpoint.request(method, path, query, headers, body)

    # ---- rings, and the end ----

    def ring(self, device="cpu", slots=3, slot_bytes=64 << 20):
        """Makes a ring of buffers; see ring.py."""
        from .ring import Ring
        return Ring(self, device, slots, slot_bytes)

    def close(self):
        """Ends the session, with its fills and buffers. Views of buffers stay valid."""
        with self._lock:
            self.closed = True
            if self._session:
                self._session.close()
        self._endpoint.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Filled:
    """The result of a fill. offsets and lengths have an element for each item: its offset in the buffer,
    and the number of its bytes there. An item that failed has length 0."""

    def __init__(self, buffer, items, offsets, lengths):
        self.buffer, self.items, self.offsets, self.lengths = buffer, items, offsets, lengths
        self.nbytes = self.hits = self.misses = 0
        self.errors = []
        self.stale = False    # True: the slot was given back to its ring, which may fill it again

    def add(self, first, count, reply):
        """Adds the reply that answers items [first, first + count)."""
        self.nbytes += reply["bytes"]
        self.hits += reply["hits"]
        self.misses += reply["misses"]
        if "lengths" in reply:
            self.lengths[first:first + count] = reply["lengths"]
        self.take_errors(first, reply)
        for error in self.errors:
            self.lengths[error.index] = 0

    def take_errors(self, first, reply):
        self.errors += [ItemError(first + i, layout.key_of(self.items[first + i]), code, status)
                        for i, code, status in reply.get("errors", ())]

    def check(self):
        if self.stale:
            raise ValueError("the slot was given back to its ring, and may hold another batch now: use a slot "
                             "only inside its `with`, or clone the data that you keep")

    @property
    def views(self):
        """A list with a memoryview of each item. These views share the buffer's memory."""
        self.check()
        memory = self.buffer.memory
        return [memory[at:at + n] for at, n in zip(self.offsets, self.lengths)]

    def tensors(self, dtype="uint8"):
        """Returns a list with a one-dimensional torch tensor for each item. These tensors share the buffer's
        memory."""
        import torch
        self.check()
        dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        return [self.buffer.tensor(dtype, (n // dtype.itemsize,), at)
                for at, n in zip(self.offsets, self.lengths)]


class Part:
    """The items of one message. A long list takes several messages."""
    __slots__ = ("first", "words", "session", "question", "tries", "refusals", "again_at")

    def __init__(self, first, words):
        self.first, self.words, self.tries, self.refusals = first, words, 0, 0
        self.session = self.question = None
        self.again_at = None    # after an error of NO_ROOM: when to send the part again (time.monotonic())


class Fill:
    """A fill in progress. If its connection is lost, the client sends the fill again once, on a new
    connection. After an error of NO_ROOM, the client sends the fill again a few times, for about three
    seconds."""

    def __init__(self, client, op, buffer, members, words, filled):
        self._client, self._op, self._buffer, self._members = client, op, buffer, members
        self._filled, self._over = filled, None
        self._lock = threading.Lock()
        self._parts = []
        most = (client.hello or {}).get("limits", {}).get("items", 16384)
        for first in range(0, len(words) or 1, most):
            self._begin(first, words[first:first + most])

    def _begin(self, first, words):
        """Sends the items as one message, or in halves if one message would be too long."""
        part = Part(first, words)
        try:
            self._send(part)
        except MessageTooLong:
            if len(words) < 2:
                raise
            middle = len(words) // 2
            self._begin(first, words[:middle])
            self._begin(first + middle, words[middle:])
        else:
            self._parts.append(part)

    def _send(self, part):
        """Sends the message of a part. If the connection is lost, tries once more: the connection may have
        ended while it was idle."""
        part.tries += 1
        for last in (False, True):
            try:
                session = self._client._usable()
                members = {**self._members, "items": part.words}
                ended = None
                if self._buffer is not None:
                    members["buffer"] = self._buffer.id_in(session)
                    ended = self._buffer.ended
                self._wait_for_room(session)
                part.session = session
                part.question = session.ask(self._op, members, keep=self, ended=ended)
                return
            except Disconnected:
                if last:
                    raise

    def _has_room(self, session):
        return session.open_count() < self._client.hello.get("limits", {}).get("fills", 16)

    def _wait_for_room(self, session):
        if not self._has_room(session):
            session.wait_until(lambda: self._has_room(session))

    def _pause(self, part):
        """Returns None if the reply is final. If the reply is an error of NO_ROOM, and the part has not been
        refused too often, returns the seconds until the part is to be sent again."""
        reply = part.question.reply
        if reply["ok"] or (reply["error"], reply["status"]) not in NO_ROOM or part.refusals == REFUSALS:
            return None
        if part.again_at is None:
            longest = FIRST_PAUSE_S * 2 ** part.refusals
            part.again_at = time.monotonic() + random.uniform(longest / 2, longest)
        return max(0.0, part.again_at - time.monotonic())

    def _ask_again(self, part):
        part.refusals += 1
        part.again_at, part.tries = None, 0
        self._send(part)

    def done(self):
        """Returns True if result() would return at once."""
        if self._over:
            return True
        if not self._lock.acquire(blocking=False):
            return False    # another thread is in result()
        try:
            return all(self._has_ended(part) for part in self._parts)
        except Disconnected:
            return True
        finally:
            self._lock.release()

    def _has_ended(self, part):
        try:
            part.session.wait_until(lambda: part.question.reply is not None, 0)
        except TimeoutError:
            return False
        pause = self._pause(part)
        if pause == 0 and self._has_room(part.session):
            self._ask_again(part)
        return pause is None

    def result(self, timeout=None):
        """Returns a Filled, or raises PenstockError. timeout: in seconds. After this time result raises
        TimedOut, and the fill goes on: the caller may call result again."""
        with self._lock:
            if self._over is None:
                self._over = self._end(timeout)
        if isinstance(self._over, Exception):
            raise self._over
        return self._over

    def _end(self, timeout):
        try:
            replies = [self._reply(part, timeout) for part in self._parts]
        except Disconnected as gone:
            return gone
        for part, reply in zip(self._parts, replies):
            if not reply["ok"]:
                self._filled.take_errors(part.first, reply)
                return PenstockError(reply["error"], reply["status"], reply.get("message", ""),
                                     self._filled.errors)
            self._filled.add(part.first, len(part.words), reply)
        return self._filled

    def _reply(self, part, timeout):
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            try:
                reply = part.session.wait(part.question, left)
            except Disconnected:
                if part.tries > 1:
                    raise
                self._send(part)
                continue
            pause = self._pause(part)
            if pause is None:
                return reply
            if left is not None and pause > left:
                time.sleep(left)
                raise TimedOut(f"Penstock had no room for the fill within {timeout:g} s: {reply['error']}: "
                               f"{reply.get('message', '')}. To try longer, call result() again")
            time.sleep(pause)
            self._ask_again(part)


def forked():
    for client in list(clients):
        client._forked()


os.register_at_fork(after_in_child=forked)
