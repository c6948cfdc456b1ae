"""A head that is refused, that no key vouches for, or that never ends is answered at most once, and
the connection is over. (What could smuggle a request: h01, s06.)"""
from harness import *

SECOND = b"GET /_/health/live HTTP/1.1\r\nHost: h\r\n\r\n"

with Story("s04 a refused head gets one answer and nothing else") as story:
    origin = story.origin("object=bkt/k 1000")
    server = story.penstock(origin=origin.url)
    story.bytes("a good read", server.get("bkt/k"), "bkt/k", 0, 1000)
    for text, bad in {"TLS to a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + SECOND,
                      "garbage": bytes(range(1, 256)) * 4 + b"\r\n\r\n" + SECOND}.items():
        wire = Wire(server.port)
        wire.send(bad)
        heard = wire.hears() or b""
        story.fact(f"{text}: one 400", heard.startswith(b"HTTP/1.1 400 ")
                   and heard.count(b"HTTP/1.1 ") == 1, heard[:200])
    wire = Wire(server.port)
    wire.send(Client(server.port, ACCESS_KEY, "wrong").head_of("GET", "bkt/k") + SECOND)
    heard = wire.hears() or b""
    story.same("a refused signature: one 403, then nothing",
               (heard.startswith(b"HTTP/1.1 403 "), heard.count(b"HTTP/1.1 ")), (True, 1))
    wire = Wire(server.port)
    wire.send(b"PUT /bkt/huge HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n")
    heard = wire.hears() or b""
    story.fact("a stranger's body is not waited for", heard.startswith(b"HTTP/1.1 403 "),
               heard[:100])
    wire = Wire(server.port)
    wire.send(b"GET /_/health/live HTTP/1.1\r\nHost: h\r\n\r\n" + SECOND)
    heard = wire.hears() or b""
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
    heard = wire.hears()
    story.in_time("a head that does not end is given up after head_time", heard is not None
                  and heard.count(b"HTTP/1.1 ") <= 1
                  and 0.8 < time.monotonic() - start < 3,
                  f"{time.monotonic() - start:.1f} s, {heard and heard[:80]}")
    story.same("nothing bad reached the origin: one read a daemon did",
               origin.counts()["requests"], 1)
