"""upload_run.py - what an upload costs when all of it is verified before the origin sees a byte.
SPDX-License-Identifier: Apache-2.0

The origin takes 100 MB/s a connection, which is where its clients wait: directly, and through
Penstock, in turn. multipart: parts of 8 MiB over 4 connections; part: one UploadPart; single: one
PutObject. Each body is zeroes of a sparse file, with its CRC32. rss_anon: the most memory that
Penstock had beyond what it had idle."""

import base64
import os
import re
import socket
import struct
import threading
import time
import zlib

from harness import Client, free_port
from stage import Failed, GIB, MIB, Stage

RATE, PART_BYTES, CONNECTIONS = 100_000_000, 8 * MIB, 4
PIECE = MIB


class Origin:
    """Reads bodies at its pace and keeps nothing of them."""

    def __init__(self):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.taken = {}
        listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            threading.Thread(target=self.serve, args=(listener.accept()[0],), daemon=True).start()

    def serve(self, wire):
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        room, rest = memoryview(bytearray(PIECE)), b""
        while True:
            while b"\r\n\r\n" not in rest:
                more = wire.recv(65536)
                if not more:
                    return
                rest += more
            head, _, rest = rest.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            length = int(length.group(1)) if length else 0
            if b"100-continue" in head:
                wire.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            got, rest, begun = min(len(rest), length), rest[length:], time.monotonic()
            while got < length:
                now = wire.recv_into(room[:min(PIECE, length - got)])
                if not now:
                    return
                got += now
                ahead = begun + got / RATE - time.monotonic()
                if ahead > 0.002:
                    time.sleep(ahead)
            target = head.split(b" ")[1].decode()
            self.taken[target] = got
            answer = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>" if target.endswith("uploads=") or target.endswith("uploads") else b"<CompleteMultipartUploadResult/>" if head.startswith(b"POST") else b""
            wire.sendall(b"HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)


def crc_of_zeroes(size):
    block, total = bytes(16 * MIB), 0
    while size:
        take = min(size, len(block))
        total = zlib.crc32(block[:take] if take < len(block) else block, total)
        size -= take
    return base64.b64encode(struct.pack(">I", total)).decode()


def send(port, key, file, size, crc, query=()):
    """One PUT of the first `size` bytes of the file."""
    client = Client(port, timeout=300)
    head = client.head_of("PUT", key, query, {"content-length": str(size), "x-amz-checksum-crc32": crc}, payload="UNSIGNED-PAYLOAD")
    with socket.create_connection(("127.0.0.1", port), timeout=300) as wire:
        wire.sendall(head)
        wire.settimeout(None)    # sendfile() knows no other
        at = 0
        while at < size:
            at += os.sendfile(wire.fileno(), file.fileno(), at, min(size - at, 4 * MIB))
        answer = wire.recv(65536)
    if not answer.startswith(b"HTTP/1.1 200"):
        raise Failed(f"an upload was answered {answer[:300]}")


def multipart(port, key, file, size, crcs):
    client = Client(port)
    if client.ask("POST", key, query=[("uploads", "")]).status != 200:
        raise Failed("no upload was begun")
    numbers, lock, failures = iter(range(1, size // PART_BYTES + 1)), threading.Lock(), []

    def one():
        while not failures:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            try:
                send(port, key, file, PART_BYTES, crcs[PART_BYTES], [("partNumber", str(number)), ("uploadId", "u")])
            except (OSError, Failed) as failure:
                failures.append(failure)
    threads = [threading.Thread(target=one) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise Failed(f"a part failed: {failures[0]}")
    if client.ask("POST", key, query=[("uploadId", "u")], body=b"<CompleteMultipartUpload/>").status != 200:
        raise Failed("the upload was not completed")


def part(port, key, file, size, crcs):
    send(port, key, file, size, crcs[size], [("partNumber", "1"), ("uploadId", "u")])


def single(port, key, file, size, crcs):
    send(port, key, file, size, crcs[size])


class Memory:
    """The most RssAnon of a process, in MiB, while it is watched."""

    def __init__(self, pid):
        self.pid, self.most, self.over = pid, 0, False
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.idle = self.now()
        self.thread.start()

    def now(self):
        with open(f"/proc/{self.pid}/status") as f:
            return int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1)) / 1024

    def watch(self):
        while not self.over:
            self.most = max(self.most, self.now())
            time.sleep(0.02)

    def end(self):
        self.over = True
        self.thread.join()
        return self.most - self.idle


def run(figures, quick, subject):
    cases = [("multipart", multipart, 5 * GIB, 3), ("part", part, 5 * GIB, 1), ("single", single, GIB, 3)]
    if quick:
        cases = [(name, how, size // 16, 1) for name, how, size, _ in cases]
    with Stage(quick, subject) as stage, open(stage.path("zeroes"), "wb+") as file:
        file.truncate(5 * GIB)
        crcs = {size: crc_of_zeroes(size) for size in {PART_BYTES, *(case[2] for case in cases)}}
        origin = Origin()
        server = stage.subject(origin, 1024 * MIB)
        for name, how, size, pairs in cases:
            taken, direct, anon = [], [], []
            for pair in range(pairs):
                for port, into in ((origin.port, direct), (server.port, taken)):
                    memory = Memory(server.pid) if into is taken else None
                    begun = time.monotonic()
                    how(port, f"bench/{name}-{pair}", file, size, crcs)
                    into.append(time.monotonic() - begun)
                    if memory:
                        anon.append(memory.end())
            figures.put("upload", name, "wall", "s", taken, "direct", direct)
            figures.put("upload", name, "rss_anon", "MiB", anon)
