"""http.py - signed requests, and batches of objects over HTTP. SPDX-License-Identifier: Apache-2.0

A batch is a POST with a list of up to thousands of items. The answer has the items in order. A header of
64 bytes precedes each item (penstock-batch(7)). An answer without its end mark is incomplete, which is an
error. An Endpoint keeps connections for later requests. One caller at a time uses a connection.
"""
import concurrent.futures
import http.client
import json
import re
import struct
import threading
import xml.sax.saxutils
from urllib.parse import urlsplit

from . import items as layout
from . import keys
from .errors import Disconnected, ItemError, PenstockError

HEADER = struct.Struct("<IIHHIQQQQ16s")    # the header of a frame
MAGIC, END = 0x31425350, 0xFFFFFFFF
FRAMES = "application/vnd.penstock.frames"
BATCH_ITEMS = 4096                          # items of one POST; a longer list takes several POSTs
TIMEOUT_S = 330
THREADS = 8


def xml_text(body, name):
    found = re.search(rb"<%b>([^<]*)</%b>" % (name, name), body)
    return xml.sax.saxutils.unescape(found.group(1).decode("utf-8", "replace")) if found else ""


def refusal(status, body):
    return PenstockError(xml_text(body, b"Code") or f"HTTP{status}", status, xml_text(body, b"Message"))


class Answer:
    """The body of an answer. If the body ends too early, a read raises Disconnected."""

    def __init__(self, reply):
        self.reply = reply

    def into(self, view):
        at = 0
        while at < len(view):
            count = self.reply.readinto(view[at:])
            if not count:
                raise Disconnected("the answer was cut before its end: send the request again")
            at += count

    def bytes(self, count):
        data = bytearray(count)
        self.into(memoryview(data))
        return bytes(data)


class Frame:
    """The header of an item in an answer, with the item's etag and code. The item's bytes follow."""

    def __init__(self, answer):
        (magic, self.index, self.status, etag, code, self.length, self.first, self.size,
         self.modified, _) = HEADER.unpack(answer.bytes(HEADER.size))
        if magic != MAGIC or code > 1024:
            raise PenstockError("bad_answer", 0, "the answer to a batch is damaged: the header of an item is "
                                "not valid. Send the request again, and check proxies on the way to Penstock")
        self.etag = answer.bytes(etag).decode("latin-1")
        self.code = answer.bytes(code).decode("latin-1")


class Endpoint:
    def __init__(self, url, region, find_keys):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the URL of an endpoint: it must be http://HOST:PORT or "
                             "https://HOST:PORT")
        self._https, self._host = parts.scheme == "https", parts.netloc
        self._name, self._port = parts.hostname, parts.port
        self._path, self._region, self._find_keys = parts.path.rstrip("/"), region, find_keys
        self._idle = []
        self._lock = threading.Lock()
        self._pool = self._way = None

    # ---- connections ----

    def _connection(self):
        with self._lock:
            if self._idle:
                return self._idle.pop()
        if self._https:
            return http.client.HTTPSConnection(self._name, self._port, timeout=TIMEOUT_S)
        return http.client.HTTPConnection(self._name, self._port, timeout=TIMEOUT_S)

    def _give_back(self, connection, reply):
        if reply.will_close or not reply.isclosed():    # not closed: the answer was not read to its end
            connection.close()
            return
        with self._lock:
            self._idle.append(connection)

    def forget(self):
        """Called in the child of a fork. Closes the child's copies of the parent's connections."""
        self._lock, self._pool, idle, self._idle = threading.Lock(), None, self._idle, []
        for connection in idle:
            connection.close()

    def close(self):
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self._pool:
            self._pool.shutdown(wait=False)

    def _open(self, method, path, query, headers, body):
        """Sends a request, and returns its connection and the answer's head. If a kept connection has ended,
        sends the request on another connection."""
        path = self._path + keys.encode(path, "/-._~")
        while True:
            connection = self._connection()
            kept = connection.sock is not None
            signed = keys.sign(self._find_keys(), self._region, method, self._host, path, query,
                               headers, body)
            target = path + ("?" + keys.join_query(query) if query else "")
            try:
                connection.request(method, target, body or None, signed)
                if connection.sock is not None and not kept:
                    no_delay(connection.sock)
                return connection, connection.getresponse()
            except (OSError, http.client.HTTPException) as failure:
                connection.close()
                if not kept:
                    raise Disconnected(f"the request to {self._host} failed: "
                                       f"{failure or type(failure).__name__}. Check that a server runs there, "
                                       "and that endpoint_url is right") from None

    def request(self, method, path, query=(), headers=(), body=b""):
        connection, reply = self._open(method, path, query, headers, body)
        try:
            return reply.status, dict(reply.headers), reply.read()
        except (OSError, http.client.HTTPException) as failure:
            raise Disconnected(f"the answer of {self._host} was cut before its end: {failure}. Send the "
                               "request again") from None
        finally:
            self._give_back(connection, reply)

    # ---- single objects ----

    def get(self, bucket, key, offset=0, length=None, more=None):
        headers, query = {}, []
        if offset or length is not None:
            if length == 0:
                return b""
            end = "" if length is None else offset + length - 1
            headers["range"] = f"bytes={offset}-{end}"
        if more and "if_match" in more:
            headers["if-match"] = more["if_match"]
        if more and "version_id" in more:
            query.append(("versionId", more["version_id"]))
        status, _, body = self.request("GET", f"/{bucket}/{key}", query, headers)
        if status not in (200, 206):
            raise refusal(status, body)
        if length is not None and len(body) != length:
            raise PenstockError("InvalidRange", 416, "the object ends before the end of the range: ask for "
                                "fewer bytes, or give no length")
        return body

    # ---- batches ----

    def frames(self, bucket, words, prefix, on_error):
        """Yields (frame, answer) for each item in order. The caller must then read the item's bytes from the
        answer."""
        body = json.dumps({"items": words, "prefix": prefix, "form": "frames",
                           "on_error": on_error}, separators=(",", ":")).encode()
        connection, reply = self._open("POST", f"/{bucket}", [("penstock-batch", "")], {
            "content-type": "application/json"}, body)
        try:
            if reply.status != 200:
                raise refusal(reply.status, reply.read())
            if reply.headers.get("content-type") != FRAMES:
                raise PenstockError("NotImplemented", 501, f"{self._host} does not answer a batch as Penstock "
                                    "does. Check that endpoint_url is the address of a Penstock")
            answer = Answer(reply)
            while (frame := Frame(answer)).index != END:
                yield frame, answer
            reply.read()    # the last chunk
        except (OSError, http.client.HTTPException) as failure:
            raise failure if isinstance(failure, PenstockError) else Disconnected(
                f"the answer of {self._host} was cut before its end: {failure}. Send the request "
                "again") from None
        finally:
            self._give_back(connection, reply)

    def batch(self, bucket, items, prefix, on_error):
        words = [layout.word(*layout.read(item)) for item in items]
        if self.way() == "get":
            yield from self._one_by_one(bucket, items, prefix, on_error)
            return
        for start in range(0, len(words), BATCH_ITEMS):
            failed = None
            for frame, answer in self.frames(bucket, words[start:start + BATCH_ITEMS], prefix, on_error):
                index = start + frame.index
                if frame.code:
                    failed = ItemError(index, layout.key_of(items[index]), frame.code, frame.status)
                    yield index, failed
                else:
                    yield index, answer.bytes(frame.length)
            if failed and on_error == "end":
                return

    def _one_by_one(self, bucket, items, prefix, on_error):
        for index, item in enumerate(items):
            key, offset, length, _, more = layout.read(item)
            try:
                body = self.get(bucket, prefix + key, offset or 0, length, more)
            except Disconnected:
                raise
            except PenstockError as failure:
                body = ItemError(index, layout.key_of(item), failure.code, failure.status)
            yield index, body
            if on_error == "end" and isinstance(body, ItemError):
                return

    def way(self):
        """Returns "batch" if the endpoint is a Penstock, otherwise "get"."""
        if self._way is None:
            status, headers, _ = self.request("GET", "/_/health/live")
            ours = status == 200 and headers.get("Server", "").startswith("penstock")
            self._way = "batch" if ours else "get"
        return self._way

    # ---- fills without a fill socket ----

    def fill(self, filled, words, bucket, prefix, on_error, deadline):
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(THREADS, "penstock")
        job = self.fill_by_batch if self.way() == "batch" else self.fill_by_get
        return Handle(self._pool.submit(job, filled, words, bucket, prefix, on_error))

    def fill_by_batch(self, filled, words, bucket, prefix, on_error):
        bare = [layout.word(*unplaced(word)) for word in words]
        for start in range(0, len(bare), BATCH_ITEMS):
            for frame, answer in self.frames(bucket, bare[start:start + BATCH_ITEMS], prefix, "continue"):
                index = start + frame.index
                if frame.code:
                    fail(filled, index, frame.code, frame.status)
                elif frame.length > room(filled, words[index], index):
                    fail(filled, index, "too_large", 413)
                    answer.bytes(frame.length)
                else:
                    at = filled.offsets[index]
                    answer.into(filled.buffer.memory[at:at + frame.length])
                    count(filled, index, frame.length)
        return whole(filled, on_error)

    def fill_by_get(self, filled, words, bucket, prefix, on_error):
        for index, word in enumerate(words):
            key, offset, length, _, more = unplaced(word)
            try:
                body = self.get(bucket, prefix + key, offset or 0, length, more)
            except Disconnected:
                raise
            except PenstockError as failure:
                fail(filled, index, failure.code, failure.status)
                continue
            if len(body) > room(filled, word, index):
                fail(filled, index, "too_large", 413)
                continue
            at = filled.offsets[index]
            filled.buffer.memory[at:at + len(body)] = body
            count(filled, index, len(body))
        return whole(filled, on_error)


def no_delay(sock):
    import socket
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def unplaced(word):
    """Reads an item of a fill, in the form that items.word makes. Returns what items.read returns, but with `to`
    None and without `max`, because a batch has neither."""
    key, offset, length, _, more = layout.read(word)
    return key, offset, length, None, {n: v for n, v in (more or {}).items() if n != "max"}


def room(filled, word, index):
    most = word.get("max") if isinstance(word, dict) else None
    if most is None:
        most = filled.lengths[index] if filled.lengths[index] is not None else 1 << 63
    return min(most, filled.buffer.nbytes - filled.offsets[index])


def count(filled, index, length):
    filled.lengths[index] = length
    filled.nbytes += length


def fail(filled, index, code, status):
    filled.errors.append(ItemError(index, layout.key_of(filled.items[index]), code, status))
    filled.lengths[index] = 0


def whole(filled, on_error):
    if filled.errors and on_error == "fail":
        first = filled.errors[0]
        raise PenstockError(first.code, first.status, "", filled.errors)
    return filled


class Handle:
    """A fill over HTTP, with the methods of client.Fill."""

    def __init__(self, future):
        self._future = future

    def done(self):
        return self._future.done()

    def result(self, timeout=None):
        try:
            return self._future.result(timeout)
        except concurrent.futures.TimeoutError:
            from .errors import TimedOut
            raise TimedOut(f"the fill has not ended within {timeout:g} s, and goes on. To wait longer, call "
                           "result() again") from None
