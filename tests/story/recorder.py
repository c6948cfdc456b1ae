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
        request = self.hear(connection)
        if request is None:
            return
        first, fields, body = request
        self.heads.append((first.split(" ")[0], fields))
        self.hold.wait(PATIENCE)
        with socket.create_connection(("127.0.0.1", self.to)) as up:
            up.sendall(b"\r\n".join([first.encode("latin-1"), *(f"{n}: {v}".encode("latin-1") for n, v in fields.items() if n != "connection"),
                                     b"Connection: close"]) + b"\r\n\r\n" + body)
            while more := up.recv(65536):
                connection.sendall(more)
