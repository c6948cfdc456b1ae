"""collector.py - what takes the spans of a story's daemons, as an OpenTelemetry collector does.
SPDX-License-Identifier: Apache-2.0"""
import ssl
from collections import namedtuple

from harness import *

SERVER, CLIENT, INTERNAL = 2, 3, 1
GOOD = (200, "application/json", b"{}", ())
Traced = namedtuple("Traced", "trace span flags")


def answer(status, body=b"", *fields):
    return (status, "application/json", body, fields)


def new_trace(sampled=True):
    """The ids of a client's span, and the header that carries them."""
    ids = Traced(os.urandom(16).hex(), os.urandom(8).hex(), "01" if sampled else "00")
    return ids, {"traceparent": "-".join(("00", *ids))}


def read_parent(header):
    version, trace, span, flags = header.split("-")
    check(version == "00" and len(header) == 55, f"a traceparent of another form: {header}")
    return Traced(trace, span, flags)


class Span:
    """One span, its attributes as a dictionary."""

    def __init__(self, raw, resource):
        self.raw, self.resource = raw, resource
        self.trace, self.id, self.parent = raw["traceId"], raw["spanId"], raw.get("parentSpanId", "")
        self.name, self.kind, self.flags = raw["name"], raw["kind"], raw["flags"]
        self.failed = raw.get("status", {}).get("code") == 2
        self.links = [(link["traceId"], link["spanId"]) for link in raw.get("links", [])]
        self.ns = int(raw["endTimeUnixNano"]) - int(raw["startTimeUnixNano"])
        self.of = {a["key"]: a["value"].get("stringValue", a["value"].get("intValue")) for a in raw["attributes"]}

    def __repr__(self):
        return f"<{self.name} kind {self.kind} {self.of}>"


class Collector(Listener):
    """Keeps the bodies that it took. `say(body)` returns what it answers: (status, type, body, fields); bytes are sent as
    they are; None: it never answers."""

    def __init__(self, tls=None):
        self.bodies, self.heads, self.asked, self.say = [], [], 0, lambda body: GOOD
        self.tls, self.leave = None, threading.Event()
        if tls:
            self.scheme = "https"
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*tls)
        super().__init__()
        self.endpoint = f"{self.url}/v1/traces"

    def serve(self, connection):
        if self.tls:
            with self.tls.wrap_socket(connection, server_side=True) as inside:
                return self.take(inside)
        self.take(connection)

    def take(self, connection):
        request = self.hear(connection)
        if request is None:
            return
        first, fields, body = request
        self.asked += 1
        said = self.say(body)
        if said is None:
            self.leave.wait(PATIENCE)
            return
        if isinstance(said, bytes):
            connection.sendall(said)
            return
        status, kind, text, more = said
        if 200 <= status < 300:
            self.heads.append((first, fields))
            self.bodies.append(body)
        connection.sendall("\r\n".join([f"HTTP/1.1 {status} Some", f"Content-Type: {kind}", f"Content-Length: {len(text)}", *more,
                                        "Connection: close", "", ""]).encode() + text)

    def spans(self, trace=None):
        """Those of one trace, or all."""
        found = []
        for body in list(self.bodies):
            for of in json.loads(body)["resourceSpans"]:
                resource = {a["key"]: a["value"]["stringValue"] for a in of["resource"]["attributes"]}
                found += [Span(raw, resource) for scope in of["scopeSpans"] for raw in scope["spans"]]
        return [span for span in found if trace in (None, span.trace)]

    def wait(self, trace, count):
        """Waits for so many spans of a trace: the server's first, then those of the origin, in the order of their begin."""
        wait_for(f"{count} spans of {trace} have come", lambda: len(self.spans(trace)) >= count)
        return sorted(self.spans(trace), key=lambda s: (s.kind != SERVER, int(s.raw["startTimeUnixNano"])))
