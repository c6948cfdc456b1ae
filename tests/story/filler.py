"""filler.py - the fill socket, spoken by hand. SPDX-License-Identifier: Apache-2.0

So that a story can say what no client library would: the product's own client is in src/client."""

import array
import base64
import fcntl
import json
import mmap
import os
import socket
import struct

from harness import ACCESS_KEY, SECRET_KEY, presign

F_ADD_SEALS, SEAL_SEAL, SEAL_SHRINK, SEAL_GROW, SEAL_WRITE = 1033, 1, 2, 4, 8
GUARD = 0xA5


class Memory:
    """A sealed memfd, mapped here, every byte of it a guard byte."""

    def __init__(self, size, seals=SEAL_SHRINK, guard=GUARD):
        self.fd = os.memfd_create("filler", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        if size:
            os.posix_fallocate(self.fd, 0, size)
        if seals:
            fcntl.fcntl(self.fd, F_ADD_SEALS, seals)
        self.size = size
        self.map = mmap.mmap(self.fd, size) if size else None
        self.guard(0, size, guard)

    def guard(self, start, end, guard=GUARD):
        block = bytes([guard]) * min(1 << 20, max(end - start, 1))
        while start < end:
            here = min(len(block), end - start)
            self.map[start:start + here] = block[:here]
            start += here

    def untouched(self, start, end):
        return self.map[start:end] == bytes([GUARD]) * (end - start)

    def close(self):
        if self.map:
            self.map.close()
        os.close(self.fd)


class FakeGpuMemory(Memory):
    """Memory of a GPU that is not there: see tests/local/fake_cudart.c. Registered by vmm() or ipc()."""

    def __init__(self, size, device=0, guard=GUARD):
        self.fd = os.memfd_create(f"fake-gpu-{device}", os.MFD_CLOEXEC)
        self.device, self.size = device, size
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)
        self.guard(0, size, guard)

    def vmm(self, filler, **more):
        return filler.say("register", [self.fd], **{"kind": "cuda-vmm", "chunks": [self.size], "bytes": self.size,
                          "gpu": filler.hello["gpus"][self.device]["uuid"], **more})

    def ipc(self, filler, base_offset=0, **more):
        handle = struct.pack("<4i48x", 0x43504946, os.getpid(), self.fd, self.device)
        return filler.say("register", **{"kind": "cuda-ipc", "handle": base64.b64encode(handle).decode(),
                          "base_offset": base_offset, "bytes": self.size - base_offset,
                          "gpu": filler.hello["gpus"][self.device]["uuid"], **more})


class Filler:
    """A session. say() sends and returns the reply with its id; events come by event()."""

    def __init__(self, path, key=ACCESS_KEY, secret=SECRET_KEY, hello=True, timeout=60, expires=300):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.number = 0
        self.waiting = []
        self.hello = None
        if hello:
            self.hello = self.greet(key, secret, expires)

    @staticmethod
    def proof(key, secret, expires=300, **how):
        return {"presigned": "http://localhost" + presign("POST", "localhost", "/_/fill", key, secret,
                                                          expires, **how)}

    def greet(self, key=ACCESS_KEY, secret=SECRET_KEY, expires=300):
        more = {"auth": self.proof(key, secret, expires)} if key else {}
        return self.say("hello", v=1, client="story", **more)

    def send(self, message, fds=()):
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.socket.sendmsg([data], rights)
        except BrokenPipeError:    # what was said last can still be read
            pass

    def receive(self):
        """The next message; None when the other side has ended."""
        data, rights, _, _ = self.socket.recvmsg(1 << 18, socket.CMSG_SPACE(4))
        if not data:
            return None
        reply = json.loads(data)
        if "message_bytes" in reply:
            fd = array.array("i", rights[0][2])[0]
            reply = json.loads(os.pread(fd, reply["message_bytes"], 0))
            os.close(fd)
        return reply

    def ask(self, op, fds=(), **members):
        self.number += 1
        self.send({"op": op, "id": self.number, **members}, fds)
        return self.number

    def reply_to(self, number):
        for i, reply in enumerate(self.waiting):
            if reply.get("id") == number and "event" not in reply:
                return self.waiting.pop(i)
        while True:
            reply = self.receive()
            if reply is None or (reply.get("id", number) == number and "event" not in reply):
                return reply
            self.waiting.append(reply)

    def event(self):
        for i, reply in enumerate(self.waiting):
            if "event" in reply:
                return self.waiting.pop(i)
        while (reply := self.receive()) is not None and "event" not in reply:
            self.waiting.append(reply)
        return reply

    def say(self, op, fds=(), **members):
        return self.reply_to(self.ask(op, fds, **members))

    def register(self, memory, size=None, **more):
        return self.say("register", [memory.fd], kind="memfd", bytes=size or memory.size, **more)

    def fill(self, buffer, bucket, items, **more):
        return self.say("fill", buffer=buffer, bucket=bucket, items=items, **more)

    def close(self):
        self.socket.close()
