"""A request that two parsers could read in two ways is answered 400 once, and the connection is
over."""
from harness import *

SECOND = b"GET /_/health/live HTTP/1.1\r\nHost: h\r\n\r\n"
TAIL = b"0\r\n\r\n" + SECOND
BAD = {
    "two Content-Lengths": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "the same Content-Length twice": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
    "Content-Length: 5, 5": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 5\r\n\r\n",
    "Content-Length: +5": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\n",
    "Content-Length: -5": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nContent-Length: -5\r\n\r\n",
    "Content-Length: 0x5": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nContent-Length: 0x5\r\n\r\n",
    "Content-Length: 5 5": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nContent-Length: 5 5\r\n\r\n",
    "Content-Length of 2^64+5": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551621\r\n\r\n",
    "an empty Content-Length": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nContent-Length: \r\n\r\n",
    "length and chunked": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "chunked and length": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
    "bad length and chunked": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    "two Transfer-Encodings": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "xchunked": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "gzip, chunked": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "identity": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n",
    "chunked after a tab and VT": b"POST /bkt/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n",
    "chunked in HTTP/1.0": b"POST /bkt/k HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n",
    "a space before the colon": b"GET /bkt/k HTTP/1.1\r\nHost: h\r\nContent-Length : 5\r\n\r\n",
    "a folded line": b"GET /bkt/k HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
    "a line without a colon": b"GET /bkt/k HTTP/1.1\r\nHost: h\r\nnonsense\r\n\r\n",
    "a bare LF in the fields": b"GET /bkt/k HTTP/1.1\r\nHost: h\nX: y\r\n\r\n",
    "only bare LFs": b"GET /bkt/k HTTP/1.1\nHost: h\n\n",
    "a bare CR": b"GET /bkt/k HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n",
    "a NUL": b"GET /bkt/k HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n",
    "a control byte": b"GET /bkt/k HTTP/1.1\r\nHost: h\r\nX: a\x01b\r\n\r\n",
    "no Host": b"GET /bkt/k HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET /bkt/k HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n",
    "an absolute target": b"GET http://h/bkt/k HTTP/1.1\r\nHost: h\r\n\r\n",
    "a target of *": b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    "a space in the target": b"GET /bkt/k k HTTP/1.1\r\nHost: h\r\n\r\n",
    "no version": b"GET /bkt/k\r\nHost: h\r\n\r\n",
    "version 2.0": b"GET /bkt/k HTTP/2.0\r\nHost: h\r\n\r\n",
    "the HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "101 fields": b"GET /bkt/k HTTP/1.1\r\nHost: h\r\n" + b"".join(b"X-%d: y\r\n" % i
                                                                   for i in range(101)) + b"\r\n",
    "a field name of a bracket": b"GET /bkt/k HTTP/1.1\r\nHost: h\r\n(X): y\r\n\r\n",
    "an empty field name": b"GET /bkt/k HTTP/1.1\r\nHost: h\r\n: y\r\n\r\n",
    "40 KiB of head": b"GET /bkt/k HTTP/1.1\r\nHost: h\r\nX: " + b"y" * 40960 + b"\r\n\r\n",
    "a target of 40 KiB": b"GET /" + b"k" * 40960 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
    "TLS to a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),
    "garbage": bytes(range(1, 256)) * 4 + b"\r\n\r\n",
}

with Story("s04 bad heads get one 400 and nothing else") as story:
    origin = story.origin("object=bkt/k 1000")
    server = story.penstock(origin=origin.url)

    def one_400(text, wire):
        heard = wire.hears(5)
        wire.close()
        story.fact(text, heard is not None and heard.count(b"HTTP/1.1 ") <= 1
                   and (heard.startswith(b"HTTP/1.1 400 ") or heard == b""),
                   heard if heard is None else heard[:200])
        return heard

    silent = 0
    for name, head in BAD.items():
        wire = Wire(server.port)
        try:
            wire.send(head + TAIL)
        except OSError:
            pass
        silent += one_400(f"first on a connection: {name}", wire) == b""
    story.fact("the 400 itself arrives (a reset may overtake it where we sent more than was read)",
               silent < 6, f"{silent} of {len(BAD)} did not")
    for name, head in BAD.items():
        wire = Wire(server.port)
        wire.send(server.client.head_of("GET", "bkt/k"))
        first = wire.read()
        if first.status != 200 or first.closed:
            story.fact("a good request comes first", False, first)
        try:
            wire.send(head + TAIL)
        except OSError:
            pass
        one_400(f"after a good one: {name}", wire)

    wire = Wire(server.port)
    wire.send(server.client.head_of("GET", "bkt/k") + BAD["two Content-Lengths"] + TAIL)
    heard = wire.hears(5) or b""
    story.same("pipelined behind a good one: one 200, one 400",
               (heard.count(b"HTTP/1.1 200"), heard.count(b"HTTP/1.1 400"),
                heard.count(b"HTTP/1.1 ")), (1, 1, 2))
    wire = Wire(server.port)
    wire.send(Client(server.port, ACCESS_KEY, "wrong").head_of("GET", "bkt/k") + SECOND)
    heard = wire.hears(5) or b""
    story.same("a refused signature: one 403, then nothing",
               (heard.startswith(b"HTTP/1.1 403 "), heard.count(b"HTTP/1.1 ")), (True, 1))
    wire = Wire(server.port)
    wire.send(b"PUT /bkt/huge HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n")
    heard = wire.hears(5) or b""
    story.fact("a stranger's body is not waited for", heard.startswith(b"HTTP/1.1 403 "),
               heard[:100])
    wire = Wire(server.port)
    wire.send(b"GET /_/health/live HTTP/1.1\r\nHost: h\r\n\r\n" + SECOND)
    heard = wire.hears(5) or b""
    story.same("health is answered once and closed",
               (heard.startswith(b"HTTP/1.1 200 "), heard.count(b"HTTP/1.1 ")), (True, 1))
    for cut in (1, 10, 40, 100):
        wire = Wire(server.port)
        wire.send(server.client.head_of("GET", "bkt/k")[:cut])
        wire.abort()
    wire = Wire(server.port)
    for byte in server.client.head_of("GET", "bkt/k"):
        wire.send(bytes([byte]))
    story.bytes("a head that comes byte by byte is fine", wire.read(), "bkt/k", 0, 1000)
    slow = story.penstock(origin=origin.url, head_time="1s", cache_dir=story.path("slow"))
    wire = Wire(slow.port)
    wire.send(b"GET /bkt/k HTTP/1.1\r\nHo")
    start = time.monotonic()
    heard = wire.hears(5)
    story.fact("a head that does not end is given up after head_time", heard is not None
               and heard.count(b"HTTP/1.1 ") <= 1
               and 0.8 < time.monotonic() - start < 3,
               f"{time.monotonic() - start:.1f} s, {heard and heard[:80]}")
    story.same("nothing bad reached the origin: one read a daemon did",
               origin.counts()["requests"], 1)
