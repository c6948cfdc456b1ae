"""recorder.py - a proxy before an origin that keeps the heads of requests. SPDX-License-Identifier: Apache-2.0"""
from harness import *


class Recorder(Listener):
    """Hands requests on to an origin, and keeps their heads: (method, fields). While `hold` is not set, requests wait."""

    def __init__(self, port):
        self.heads, self.to, self.hold = [], port, threading.Event()
        self.hold.set()
        super().__init__()

    def last(self, method):
        return next(fields for m, fields in reversed(self.heads) if m == method)

    def serve(self, connection):
        heard = b""
        while b"\r\n\r\n" not in heard:
            more = connection.recv(65536)
            if not more:
                return
            heard += more
        head, _, body = heard.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        fields = dict((name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:]))
        self.heads.append((lines[0].split(" ")[0], fields))
        self.hold.wait(PATIENCE)
        while len(body) < int(fields.get("content-length", 0)):
            body += connection.recv(65536)
        with socket.create_connection(("127.0.0.1", self.to)) as up:
            up.sendall(b"\r\n".join([lines[0].encode("latin-1"), *(f"{n}: {v}".encode("latin-1") for n, v in fields.items() if n != "connection"),
                                     b"Connection: close"]) + b"\r\n\r\n" + body)
            while more := up.recv(65536):
                connection.sendall(more)
