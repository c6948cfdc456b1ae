"""The smuggling battery: a signed request that two parsers could end at different bytes, another
behind it, and a third hidden in its body. The one behind is answered as itself or never seen, the
hidden one never, and the origin sees what was meant and nothing else. With TLS and without."""
import base64
import zlib

from authority import *

HIDDEN = b"GET /bkt/hidden HTTP/1.1\r\nHost: h\r\n\r\n"
LENGTH = b"content-length: %d\r\n" % len(HIDDEN)
N = b"%d" % len(HIDDEN)
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def lines(*more):
    """Unsigned header lines, in front of all others."""
    return lambda head: head.replace(b"\r\n", b"\r\n" + b"".join(more), 1)


def instead(old, new):
    return lambda head: head.replace(old, new, 1)


def length(value):
    return instead(LENGTH, b"Content-Length: %s\r\n" % value)


def coding(line):
    """In place of a length, so that only the coding frames the body."""
    return instead(LENGTH, line + b"\r\n")


def url(scheme, host=None):
    """A whole URL as the target, of the Host that is sent or of another."""
    def change(head):
        sent = re.search(rb"host: ([^\r]*)", head).group(1)
        return head.replace(b" /", b" %s://%s/" % (scheme, sent if host is None else host), 1)
    return change


def both(one, other):
    return lambda head: other(one(head))


def chunks(text):
    """A chunked body as it stands, of a request that S3 takes so: twice chunked, as boto3 does."""
    def change(whole):
        return whole.replace(b"\r\n" + LENGTH, b"\r\n" + CHUNKED).replace(HIDDEN, text)
    change.fields = {"x-amz-decoded-content-length": str(len(HIDDEN)),
                     "content-encoding": "aws-chunked", "x-amz-trailer": "x-amz-checksum-crc32"}
    return change


CRC = base64.b64encode(zlib.crc32(HIDDEN).to_bytes(4, "big"))
CODED = b"25\r\n" + HIDDEN + b"\r\n0\r\nx-amz-checksum-crc32:" + CRC + b"\r\n\r\n"
# A PUT with HIDDEN as its body, and what is done to it: 400, and the end.
REFUSED = {
    "a second length, of nothing": lines(b"Content-Length: 0\r\n"),
    "a second length, behind": instead(LENGTH, LENGTH + b"Content-Length: 0\r\n"),
    "the same length twice": lines(LENGTH),
    "a length of two": length(N + b", " + N),
    "a length with a plus": length(b"+" + N),
    "a length with a minus": length(b"-" + N),
    "a length in hex": length(b"0x25"),
    "a length of two words": length(N + b" 0"),
    "a length with a zero in front": length(b"0" + N),
    "a length with a letter": length(N + b"a"),
    "no number for a length": length(b""),
    "a length of 2^64 and more": length(b"18446744073709551654"),
    "a length and a coding": lines(CHUNKED),
    "a coding behind the length": instead(LENGTH, LENGTH + CHUNKED),
    "a length and a coding nobody knows": lines(b"Transfer-Encoding: xchunked\r\n"),
    "a length and a coding of nothing": lines(b"Transfer-Encoding:\r\n"),
    "a length and a coding with a blank in its name": lines(b"Transfer-Encoding : chunked\r\n"),
    "a length and a coding with a tab in its name": lines(b"Transfer-Encoding\t: chunked\r\n"),
    "a length and a folded coding": lines(b"Transfer-Encoding:\r\n chunked\r\n"),
    "a coding twice": coding(CHUNKED + CHUNKED[:-2]),
    "chunked with a capital": coding(b"Transfer-Encoding: Chunked"),
    "chunked, identity": coding(b"Transfer-Encoding: chunked, identity"),
    "gzip, chunked": coding(b"Transfer-Encoding: gzip, chunked"),
    "identity": coding(b"Transfer-Encoding: identity"),
    "chunked with a parameter": coding(b"Transfer-Encoding: chunked;q=1"),
    "chunked in quotes": coding(b'Transfer-Encoding: "chunked"'),
    "chunked behind a VT": coding(b"Transfer-Encoding: \x0bchunked"),
    "chunked behind a tab": coding(b"Transfer-Encoding:\tchunked"),
    "chunked and a blank": coding(b"Transfer-Encoding: chunked "),
    "chunked and a NUL": coding(b"Transfer-Encoding: chunked\0"),
    "chunked in HTTP/1.0": lambda head: coding(CHUNKED[:-2])(head).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a coding behind a bare CR": lines(b"X: y\rTransfer-Encoding: chunked\r\n"),
    "a coding behind a bare LF": lines(b"X: y\nTransfer-Encoding: chunked\r\n"),
    "a NUL in a value": lines(b"X: a\0b\r\n"),
    "a folded line": lines(b"X: a\r\n b\r\n"),
    "a head that ends in LF LF": instead(b"\r\n\r\n", b"\n\n"),
    "a line without a colon": lines(b"nonsense\r\n"),
    "no Host": lambda head: re.sub(rb"host: [^\r]*\r\n", b"", head, count=1),
    "two Hosts": lines(b"Host: other\r\n"),
    "a Host of two": lambda head: re.sub(rb"host: ([^\r]*)", rb"host: \1, other", head, count=1),
    "an absolute target": instead(b"PUT /", b"PUT http://other/"),
    "a URL of a user": url(b"http", b"user@127.0.0.1"),
    "a URL of a user with a password": lambda head: url(b"http")(head).replace(b"://", b"://u:p@", 1),
    "a URL without the port": url(b"http", b"127.0.0.1"),
    "a URL of another port": url(b"https", b"127.0.0.1:1"),
    "a URL of the Host and more": lambda head: url(b"http")(head).replace(b"1:", b"1.other:", 1),
    "a URL without a host": url(b"http", b""),
    "a URL of a host with a backslash": url(b"http", b"other\\@127.0.0.1"),
    "a URL of another scheme": url(b"ftp"),
    "a URL with one slash": instead(b"PUT /", b"PUT http:/"),
    "a URL with a fragment": both(url(b"http"), instead(b" HTTP/1.1", b"#a HTTP/1.1")),
    "a URL with a control byte": both(url(b"http"), instead(b" HTTP/1.1", b"\x01 HTTP/1.1")),
    "a URL with a NUL in its host": both(url(b"http"), instead(b"127.0", b"127\0.0")),
    "a URL and no Host": lambda head: re.sub(rb"host: [^\r]*\r\n", b"", url(b"http")(head), count=1),
    "a URL and an empty Host": lambda head: re.sub(rb"host: [^\r]*", b"host:", url(b"http")(head),
                                                   count=1),
    "a URL and two Hosts": both(url(b"http"), lines(b"Host: other\r\n")),
    "a URL and its Host, then another": both(url(b"http"), instead(LENGTH, b"Host: other\r\n")),
    "a URL to connect to": both(url(b"http"), instead(b"PUT ", b"CONNECT ")),
    "a star": lambda head: re.sub(rb"PUT \S+", b"OPTIONS *", head, count=1),
    "a target that is a host": lambda head: re.sub(rb"PUT \S+", b"CONNECT other:443", head, count=1),
    "HTTP/1.10": instead(b"HTTP/1.1", b"HTTP/1.10"),
    "HTTP/2.0": instead(b"HTTP/1.1", b"HTTP/2.0"),
    "the preface of HTTP/2": lambda head: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + head,
    "an empty line in front": lambda head: b"\r\n" + head,
    "a blank in front": lambda head: b" " + head,
    "two blanks in the request line": instead(b"PUT ", b"PUT  "),
    "two Expects": lines(b"Expect: 100-continue\r\n" * 2),
    "a chunk size in hex notation": chunks(b"0x25\r\n" + HIDDEN + b"\r\n0\r\n\r\n"),
    "a chunk size with a word": chunks(b"25 x\r\n" + HIDDEN + b"\r\n0\r\n\r\n"),
    "a chunk extension": chunks(b"25;a=b\r\n" + HIDDEN + b"\r\n0\r\n\r\n"),
    "a chunk extension with a bare LF": chunks(b"2;\nxx\r\n25\r\n0\r\n\r\n" + HIDDEN),
    "chunk lines of LF": chunks(b"25\n" + HIDDEN + b"\n0\n\n"),
    "a chunk that is longer than it says": chunks(b"1\r\nxx\r\n0\r\n\r\n" + HIDDEN),
    "a chunk size of 2^64 and more": chunks(b"10000000000000002\r\nxx\r\n0\r\n\r\n" + HIDDEN),
    "a negative chunk": chunks(b"-1\r\n" + HIDDEN),
    "trailers": chunks(b"0\r\nContent-Length: 38\r\n\r\n" + HIDDEN),
    "an end of LF": chunks(b"0\r\n\n" + HIDDEN),
}
GET, HEAD, PUT = "GET", "HEAD", "PUT"
BOTH, ALONE = 2, 1    # how many answers there are
ANSWERED = {    # method, the body, what is done, status, answers
    "a GET": (GET, b"", None, 200, BOTH),
    "a GET with a body": (GET, HIDDEN, None, 200, BOTH),
    "a HEAD with a body": (HEAD, HIDDEN, None, 200, BOTH),
    "a PUT": (PUT, HIDDEN, None, 200, BOTH),
    "a PUT in chunks": (PUT, HIDDEN, chunks(b"%x\r\n%s\r\n0\r\n\r\n" % (len(CODED), CODED)), 200,
                        BOTH),
    "a body that its Connection names": (PUT, HIDDEN, lines(b"Connection: content-length\r\n"), 200,
                                         BOTH),
    "a coding with an underscore": (PUT, HIDDEN, lines(b"Transfer_Encoding: chunked\r\n"), 200,
                                    BOTH),
    "an Expect nobody knows": (PUT, HIDDEN, lines(b"Expect: 200-ok\r\n"), 200, BOTH),
    "a coding with a letter in front": (PUT, HIDDEN, lines(b"X-Transfer-Encoding: chunked\r\n"),
                                        200, BOTH),
    "another method in a header": (GET, b"", lines(b"X-HTTP-Method-Override: DELETE\r\n"), 200,
                                   BOTH),
    "an upgrade to HTTP/2": (GET, b"", lines(
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"),
        200, BOTH),
    "an upgrade to a web socket": (GET, b"", lines(b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
                                   200, BOTH),
    "trailers that are offered": (GET, b"", lines(b"TE: trailers\r\n"), 200, BOTH),
    "a proxy's connection": (GET, b"", lines(b"Proxy-Connection: close\r\n"), 200, BOTH),
    "HTTP/1.0 that stays": (GET, b"", lambda head: lines(b"Connection: keep-alive\r\n")(
        head.replace(b"HTTP/1.1", b"HTTP/1.0")), 200, BOTH),
    "HTTP/1.0 that ends": (GET, b"", instead(b"HTTP/1.1", b"HTTP/1.0"), 200, ALONE),
    "a connection that ends": (GET, b"", lines(b"Connection: close\r\n"), 200, ALONE),
    "a URL of http": (GET, b"", url(b"http"), 200, BOTH),
    "a URL of https, and a body": (GET, HIDDEN, url(b"https"), 200, BOTH),
    "a URL in capitals": (HEAD, b"", url(b"HTTP"), 200, BOTH),
    "a URL of HTTP/1.0 that stays": (GET, b"", lambda head: lines(b"Connection: keep-alive\r\n")(
        url(b"http")(head).replace(b"HTTP/1.1", b"HTTP/1.0")), 200, BOTH),
    "a PUT to a URL": (PUT, HIDDEN, url(b"http"), 200, BOTH),
    "a URL whose path begins with two slashes": (
        GET, HIDDEN, both(url(b"http"), instead(b"/bkt/", b"//bkt/")), 403, ALONE),
    "a URL in a URL": (GET, HIDDEN, lambda head: url(b"http")(url(b"http")(head).replace(
        b" http", b" /http", 1)), 403, ALONE),
    "a URL without a path": (GET, HIDDEN, both(url(b"http"), instead(b"/bkt/key", b"")), 403, ALONE),
    "a URL of a query alone": (GET, HIDDEN, both(url(b"http"), instead(b"/bkt/", b"?bkt/")), 403,
                               ALONE),
    "a signature that is wrong": (GET, HIDDEN, instead(b"GET /bkt/", b"GET /bkt/hidden-"), 403,
                                  ALONE),
    "a method in small letters": (GET, b"", instead(b"GET ", b"get "), 403, ALONE),
}


def battery(story, origin, server, client, tls):
    def told(method, key, body, change, behind, first=b""):
        fields = getattr(change, "fields", None)
        whole = client.head_of(method, key, body=body, headers=fields,
                               payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER" if fields else None)
        wire = Wire(client.port, 20, tls=tls)
        try:
            wire.send(first + (change(whole) if change else whole) + behind)
        except OSError:
            pass    # it was refused while more was on its way
        return wire

    def codes(heard):
        return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d+) ", heard or b"open")]

    wrong, second = [], client.head_of("GET", "bkt/second")
    for name, change in REFUSED.items():
        for first in (b"", second):
            wire = told(PUT, "bkt/refused", HIDDEN, change, second, first)
            heard = wire.hears()
            got = codes(heard)
            if heard is None or got[bool(first and got):] != [400]:
                wrong.append((name, bool(first), got, heard and heard[-200:]))
            wire.close()
    story.fact(f"{len(REFUSED)} requests that can be read in two ways: 400 and the end, alone and "
               "behind a good one", not wrong, wrong[:4])
    wrong = []
    for name, (method, body, change, status, answers) in ANSWERED.items():
        key = f"bkt/{'put' if method == PUT else 'key'}"
        wire = told(method, key, body, change, second)
        reply = wire.read(method)
        behind = wire.read() if answers == BOTH else None
        fine = reply.status == status and not reply.error
        if behind:
            fine = fine and behind.status == 200 and behind.body == expect("bkt/second", 1, 0, 500)
        elif not wire.gone():
            fine = False
        if not fine:
            wrong.append((name, reply, behind))
        wire.close()
    story.fact(f"{len(ANSWERED)} that can be read in one: what is behind is answered as itself, or "
               "not at all", not wrong, wrong[:4])


with Story("s06 nothing is smuggled") as story:
    if shutil.which("openssl") is None:
        raise Skip("openssl is not installed")
    ours = Authority(story, "ours")
    cert, key = ours.sign("here")
    origin = story.origin("object=bkt/key 300", "object=bkt/second 500", "object=bkt/hidden 100")
    port = free_port()
    server = story.penstock(origin=origin.url, tls_listen=f"127.0.0.1:{port}", tls_cert_file=cert,
                            tls_key_file=key)
    battery(story, origin, server, server.client, None)
    battery(story, origin, server, Client(port, tls=ours.client()), ours.client())
    seen = sorted({(line[1], line[2]) for line in origin.log_lines()})
    story.same("the origin saw what was meant", seen,
               [("GET", "bkt/key"), ("GET", "bkt/second"), ("PUT", "bkt/put")])
    puts = [line for line in origin.log_lines() if line[1] == "PUT"]
    story.same("and each write once", len(puts), 14)
