"""Nothing gets past the gate: neither as the first request of a connection nor behind a good
one."""
from probe import *

SMUGGLED = get("/smuggled")
POST = "POST /echo HTTP/1.1\r\n"
HOST = "Host: h\r\n"
HEADS = {
    "two lengths": POST + HOST + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "two lengths, the first longer": POST + HOST + "Content-Length: 44\r\nContent-Length: 0\r\n\r\n",
    "the same length twice": POST + HOST + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "length 5, 5": POST + HOST + "Content-Length: 5, 5\r\n\r\nhello",
    "length +5": POST + HOST + "Content-Length: +5\r\n\r\nhello",
    "length -5": POST + HOST + "Content-Length: -5\r\n\r\nhello",
    "length 0x5": POST + HOST + "Content-Length: 0x5\r\n\r\nhello",
    "length 5 5": POST + HOST + "Content-Length: 5 5\r\n\r\nhello",
    "length 5a": POST + HOST + "Content-Length: 5a\r\n\r\nhello",
    "length 2^64+5": POST + HOST + "Content-Length: 18446744073709551621\r\n\r\nhello",
    "empty length": POST + HOST + "Content-Length:\r\n\r\nhello",
    "length and chunked": POST + HOST + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": POST + HOST + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "bad length and chunked": POST + HOST + "Content-Length: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + HOST + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked, then identity": POST + HOST + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "xchunked": POST + HOST + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "identity": POST + HOST + "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "gzip, chunked": POST + HOST + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked, identity": POST + HOST + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked, chunked": POST + HOST + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "quoted chunked": POST + HOST + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
    "chunked;q=1": POST + HOST + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n",
    "VT before chunked": POST + HOST + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "NUL in chunked": POST + HOST + "Transfer-Encoding: chu\0nked\r\n\r\n0\r\n\r\n",
    "space before the colon": POST + HOST + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "tab before the colon": POST + HOST + "Content-Length\t: 5\r\n\r\nhello",
    "folded encoding": POST + HOST + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "folded line": "GET /a HTTP/1.1\r\n" + HOST + "X: y\r\n z\r\n\r\n",
    "fold as the first field": "GET /a HTTP/1.1\r\n X: y\r\n" + HOST + "\r\n",
    "chunked in 1.0": "POST /echo HTTP/1.0\r\n" + HOST + "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare LF heads": "GET /a HTTP/1.1\nHost: h\n\n",
    "one bare LF": "GET /a HTTP/1.1\r\nHost: h\nX: y\r\n\r\n",
    "LF before the blank line": "GET /a HTTP/1.1\r\nHost: h\n\r\n",
    "bare CR in a value": "GET /a HTTP/1.1\r\nHost: h\r\nX: y\rz\r\n\r\n",
    "bare CR in a name": "GET /a HTTP/1.1\r\nHost: h\r\nX\r: y\r\n\r\n",
    "NUL in a value": "GET /a HTTP/1.1\r\nHost: h\r\nX: y\0z\r\n\r\n",
    "no Host": "GET /a HTTP/1.1\r\nX: y\r\n\r\n",
    "two Hosts": "GET /a HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n",
    "two Hosts in one": "GET /a HTTP/1.1\r\nHost: h, i\r\n\r\n",
    "a Host with an @": "GET /a HTTP/1.1\r\nHost: a@h\r\n\r\n",
    "absolute target": "GET http://other/a HTTP/1.1\r\nHost: h\r\n\r\n",
    "CONNECT": "CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n",
    "a tab in the request line": "GET\t/a HTTP/1.1\r\nHost: h\r\n\r\n",
    "two spaces in the request line": "GET  /a HTTP/1.1\r\nHost: h\r\n\r\n",
    "HTTP/1.1 and more": "GET /a HTTP/1.10\r\nHost: h\r\n\r\n",
    "HTTP/2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": "GET /a\r\n\r\n",
    "769 fields": "GET /a HTTP/1.1\r\nHost: h\r\n" + "X: y\r\n" * 768 + "\r\n",
    "a colon alone": "GET /a HTTP/1.1\r\nHost: h\r\n: y\r\n\r\n",
    "a line without a colon": "GET /a HTTP/1.1\r\nHost: h\r\nX\r\n\r\n",
    "40 KiB of head": "GET /a HTTP/1.1\r\nHost: h\r\nX: " + "y" * 40960 + "\r\n\r\n",
}
CHUNKED = POST + HOST + "Transfer-Encoding: chunked\r\n\r\n"
BODIES = {    # and what is heard: the request behind is answered as itself, or never seen
    "a plain chunked body": ("5\r\nhello\r\n0\r\n\r\n", [200, 200]),
    "chunk sizes with zeros in front": ("0005\r\nhello\r\n00\r\n\r\n", [200, 200]),
    "a chunk size with a word": ("5 x\r\nhello\r\n0\r\n\r\n", [400]),
    "a chunk size with a blank": ("5 \r\nhello\r\n0\r\n\r\n", [400]),
    "a chunk size in hex notation": ("0x5\r\nhello\r\n0\r\n\r\n", [400]),
    "chunk lines that end in LF": ("5\nhello\n0\n\n", [400]),
    "the last line ends in LF": ("5\r\nhello\r\n0\r\n\n", [400]),
    "chunk lines that end in CR CR LF": ("5\r\r\nhello\r\n0\r\n\r\n", [400]),
    "a chunk extension": ("5;a=b\r\nhello\r\n0\r\n\r\n", [400]),
    "a bare LF in a chunk extension": ("5;\nhello\r\n0\r\n\r\n", [400]),
    "a chunk size of 2^64+5": ("10000000000000005\r\nhello\r\n0\r\n\r\n", [400]),
    "a chunk that is too long": ("4\r\nhello\r\n0\r\n\r\n", [400]),
    "a chunk that is too short": ("6\r\nhello\r\n0\r\n\r\n", [400]),
    "a negative chunk": ("-5\r\nhello\r\n0\r\n\r\n", [400]),
    "no chunk size": ("\r\nhello\r\n0\r\n\r\n", [400]),
    "a trailer that looks like a field": ("0\r\nContent-Length: 44\r\n\r\n", [400]),
}


def nothing_gets_past(story, tls):
    probe = Probe(story, tls=tls)

    wrong = []
    for name, text in HEADS.items():
        for where in ("first", "second", "pipelined"):
            wire = probe.wire()
            bad = text.encode("latin-1") + SMUGGLED
            if where == "second":
                wire.send(get("/good"))
                if wire.read().status != 200:
                    wrong.append((name, where, "the good one"))
            wire.send(get("/good") + bad if where == "pipelined" else bad)
            heard = wire.hears()
            got = re.findall(rb"HTTP/1\.1 (\d+) ", heard or b"")
            want = [b"200", b"400"] if where == "pipelined" else [b"400"]
            if got != want or b"smuggled" in heard:
                wrong.append((name, where, heard and heard[:300]))
            wire.close()
    story.fact(f"{len(HEADS)} heads that can be read in two ways get 400 and the end, first, second and pipelined", not wrong, wrong[:4])

    wrong = []
    for name, (text, want) in BODIES.items():
        for cut in (0, 1, 3, len(text) - 1):
            wire = probe.wire()
            wire.send((CHUNKED + text[:cut]).encode())
            time.sleep(0.002)
            wire.send(text[cut:].encode() + get("/smuggled", "Connection: close"))
            heard = wire.hears() or b""
            got = [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+) ", heard)]
            if got != want or (len(want) == 1) == (b"smuggled" in heard):
                wrong.append((name, cut, got, heard[:300]))
            wire.close()
    story.fact(f"{len(BODIES)} chunked bodies: what comes behind one is answered as itself or never seen",
               not wrong, wrong[:3])
    story.same("a good chunked body is taken",
               probe.ask((CHUNKED + BODIES["a plain chunked body"][0]).encode()).body,
               f"5 {sum_of(b'hello')}\n".encode())

    head = get("/a%20b//c?x=y&z", "X-Field: some value", "User-Agent: a story")
    before = probe.stats()["judged"]
    for at in range(1, len(head)):
        wire = probe.wire()
        wire.send(head[:at])
        time.sleep(0.0005)
        wire.send(head[at:])
        reply = wire.read()
        if (reply.status, reply.body) != (200, b"/a%20b//c?x=y&z\n"):
            wrong.append((at, reply))
        wire.close()
    story.fact("a head may come in two pieces, cut anywhere", not wrong, wrong[:3])
    story.same("and is judged once", probe.stats()["judged"] - before, len(head) - 1 + 1)
    wire = probe.wire()
    for byte in head:
        wire.send(bytes([byte]))
    story.same("or byte by byte", wire.read().body, b"/a%20b//c?x=y&z\n")

    before = probe.stats()["handled"]
    reply = probe.ask(put("/echo", b"x" * 100000, "x-deny: 1"))
    story.same("the judge refuses before the body is taken in",
               (reply.status, reply.body, reply.closed), (403, b"denied /echo\n", True))
    big = probe.wire()
    big.send(get("/echo", "Content-Length: 3000000", "x-deny: 1", method="PUT"))
    try:
        for _ in range(30):
            big.send(b"y" * 100000)
        sent = None
    except OSError as failure:
        sent = failure
    story.same("a client that sends its body anyway hears the answer", (sent, big.read().status),
               (None, 403))
    wire.send(put("/echo", b"", "x-deny: 1"))
    story.same("later requests are judged too, and end the connection",
               (wire.read().status, wire.gone()), (403, True))
    story.same("none of these was handled", probe.stats()["handled"] - before, 1)
    wire = probe.wire()
    wire.send(get("/a", "x-deny: 1", method="HEAD"))
    story.fact("a refused HEAD has no body", wire.hears().endswith(b"\r\n\r\n"))
    story.same("a body over the limit is refused by its head",
               probe.ask(get("/echo", f"Content-Length: {(64 << 20) + 1}", method="PUT")).body[:13],
               b"ERR_TOO_LARGE")
    probe.ends_cleanly()


with Story("h01 nothing gets past the gate, with TLS or without") as story:
    for tls in (False, True):
        story.note("over TLS" if tls else "over plain TCP")
        nothing_gets_past(story, tls)
