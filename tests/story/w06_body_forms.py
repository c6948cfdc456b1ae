"""Bodies in all their forms: what holds reaches the origin bare, what does not never reaches it."""
import base64
import zlib

from harness import *

PLAIN, SIGNED = "UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
CRC = "x-amz-checksum-crc32"
EMPTY = hashlib.sha256(b"").hexdigest()


def crc32(data):
    return base64.b64encode(struct.pack(">I", zlib.crc32(data))).decode()


def outer(body, size):
    """As HTTP's own chunks."""
    return b"".join(b"%x\r\n%s\r\n" % (len(body[at:at + size]), body[at:at + size])
                    for at in range(0, len(body), size)) + b"0\r\n\r\n"


def inner(body, sizes, signer=None, trailer=None, lf=b""):
    """As S3's chunks. trailer: the line to end with; None: none. lf: what minio-go puts behind it."""
    said = b""
    for size in [*sizes, 0]:
        data, body = body[:size], body[size:]
        said += b"%x" % size + (b";chunk-signature=" + signer("PAYLOAD", data) if signer else b"")
        said += b"\r\n" + (data + b"\r\n" if size else b"")
    if trailer is not None:
        said += trailer + lf + b"\r\n"
        if signer:
            said += b"x-amz-trailer-signature:" + signer("TRAILER", trailer + b"\n") + b"\r\n"
    return said + b"\r\n"


class Chain:
    """Signs chunks behind a head that has been signed."""

    def __init__(self, headers, secret=SECRET_KEY):
        self.stamp, self.last = headers["x-amz-date"], headers["authorization"][-64:]
        self.key, self.scope = signing_key(secret, self.stamp[:8], "us-east-1"), f"{self.stamp[:8]}/us-east-1/s3/aws4_request"

    def __call__(self, what, data):
        lines = [f"AWS4-HMAC-SHA256-{what}", self.stamp, self.scope, self.last]
        lines += ([EMPTY] if what == "PAYLOAD" else []) + [hashlib.sha256(data).hexdigest()]
        self.last = hmac.new(self.key, "\n".join(lines).encode(), hashlib.sha256).hexdigest()
        return self.last.encode()


class Sender:
    def __init__(self, server):
        self.server, self.wire = server, None

    def put(self, key, headers, payload, make, chunked=False, method="PUT", query=()):
        """make(headers) gives the body once the head is signed."""
        headers = {"host": self.server.client.host, **headers}
        path = "/" + uri(key, "/-._~")
        sign(method, path, query, headers, payload, ACCESS_KEY, SECRET_KEY)
        body = make(headers)
        if chunked:
            headers["transfer-encoding"], body = "chunked", outer(body, chunked)
        else:
            headers["content-length"] = str(len(body))
        target = path + ("?" + canonical_query(query) if query else "")
        lines = [f"{method} {target} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]
        wire = Wire(self.server.port)
        try:
            wire.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        except OSError:
            pass    # refused before its end: the answer is there
        reply = wire.read()
        wire.close()
        return reply


def framed(data, sizes=None, trailer=True, length=None, lf=b"", **more):
    """The fields of a body in S3's chunks, and what makes it."""
    headers = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": str(len(data) if length is None else length)}
    if trailer:
        headers["x-amz-trailer"] = CRC
    line = f"{CRC}:{crc32(data)}".encode() if trailer else None
    return {**headers, **more}, lambda head, signer=None: inner(data, sizes or ([len(data)] if data else []), signer, line, lf)


def good(origin, sender, random):
    small, large = random.randbytes(1000), random.randbytes(300_000)
    number = 0
    for data in (b"", b"x", small, large):
        for payload in (TRAILER, SIGNED, SIGNED + "-TRAILER"):
            for chunked in (0, 7000, 131072):
                sizes = [65536] * (len(data) // 65536) + [len(data) % 65536] * (len(data) % 65536 > 0)
                headers, make = framed(data, sizes, payload.endswith("TRAILER"))
                signer = Chain if "AWS4" in payload else lambda head: None
                number += 1
                key = f"bkt/good/{number}"
                reply = sender.put(key, headers, payload, lambda head: make(head, signer(head)), chunked)
                story.same(f"{payload} of {len(data)} bytes, outer chunks of {chunked}", (reply.status, origin.counts(key).get("sha256") if data else None),
                           (200, hashlib.sha256(data).hexdigest() if data else None))
            if payload.endswith("TRAILER"):
                headers, make = framed(data, lf=b"\n")
                reply = sender.put(f"bkt/good/lf-{number}", headers, payload, lambda head: make(head, signer(head)), 9)
                story.same(f"{payload} of {len(data)} bytes, its trailer with an LF too many", (reply.status, origin.counts(f"bkt/good/lf-{number}").get("sha256") if data else None),
                           (200, hashlib.sha256(data).hexdigest() if data else None))
    reply = sender.put("bkt/good/plain-chunks", {"x-amz-decoded-content-length": str(len(large))}, PLAIN, lambda head: large, 5000)
    story.same("HTTP's chunks alone, with a length", (reply.status, origin.counts("bkt/good/plain-chunks")["sha256"]), (200, hashlib.sha256(large).hexdigest()))


def wrong(origin, sender, server):
    data = b"the object data"
    md5 = base64.b64encode(hashlib.md5(data).digest()).decode()
    headers, make = framed(data)
    bare, plain = framed(data, trailer=False)
    bad = {CRC: "AAAAAA=="}

    def swap(old, new):
        return lambda head, signer=None: make(head, signer).replace(old, new, 1)

    def signed(maker, change=lambda body: body):
        return lambda head: change(maker(head, Chain(head)))
    many, small_chunks = framed(b"x" * 20000, [10, 10000, 9990])
    rows = [
        ("a wrong trailer", headers, TRAILER, swap(crc32(data).encode(), b"AAAAAA=="), "BadDigest"),
        ("a trailer that is no checksum", headers, TRAILER, swap(crc32(data).encode(), b"invalid"), "InvalidRequest"),
        ("one byte of the data changed", headers, TRAILER, swap(b"object", b"abject"), "BadDigest"),
        ("no trailer", headers, TRAILER, plain, "MalformedTrailerError"),
        ("a trailer nobody announced", bare, TRAILER, make, "MalformedTrailerError"),
        ("another trailer", headers, TRAILER, swap(b"checksum-crc32", b"checksum-sha1"), "MalformedTrailerError"),
        ("a trailer of no kind we know", {**headers, "x-amz-trailer": "x-amz-meta-a"}, TRAILER, make, "InvalidRequest"),
        ("a checksum in front, too", {**headers, CRC: crc32(data)}, TRAILER, make, "InvalidRequest"),
        ("another algorithm said", {**headers, "x-amz-sdk-checksum-algorithm": "SHA1"}, TRAILER, make, "InvalidRequest"),
        ("less than announced", {**headers, "x-amz-decoded-content-length": "16"}, TRAILER, make, "IncompleteBody"),
        ("more than announced", {**headers, "x-amz-decoded-content-length": "5"}, TRAILER, make, "IncompleteBody"),
        ("no end", headers, TRAILER, lambda head: make(head)[:-2], "IncompleteBody"),
        ("something behind its end", headers, TRAILER, lambda head: make(head) + b"x", "IncompleteBody"),
        ("a chunk's size in no hex", headers, TRAILER, swap(b"f\r\n", b"g\r\n"), "IncompleteBody"),
        ("an LF behind a chunk's size", headers, TRAILER, swap(b"f\r\n", b"f\n"), "IncompleteBody"),
        ("an LF too many behind a chunk's size", headers, TRAILER, swap(b"f\r\n", b"f\n\r\n"), "IncompleteBody"),
        ("an LF behind the data", headers, TRAILER, swap(b"data\r\n", b"data\n\r\n"), "IncompleteBody"),
        ("a trailer with two LFs too many", headers, TRAILER, framed(data, lf=b"\n\n")[1], "IncompleteBody"),
        ("a trailer that ends in LF", headers, TRAILER, lambda head: make(head)[:-4] + b"\n\r\n", "IncompleteBody"),
        ("an LF in the last line", headers, TRAILER, lambda head: make(head)[:-2] + b"\n\r\n", "IncompleteBody"),
        ("an LF behind the signature of a trailer", headers, SIGNED + "-TRAILER", signed(make, lambda body: body[:-4] + b"\n\r\n\r\n"), "IncompleteBody"),
        ("small chunks that are not the last", many, TRAILER, small_chunks, "InvalidChunkSizeError"),
        ("no length", {"content-encoding": "aws-chunked"}, TRAILER, plain, "MissingContentLength"),
        ("a length that is none", {**headers, "x-amz-decoded-content-length": "15x"}, TRAILER, make, "MissingContentLength"),
        ("a length above the limit", {**headers, "x-amz-decoded-content-length": str(5 * GIB + 1)}, TRAILER, make, "EntityTooLarge"),
        ("chunks signed with another secret", bare, SIGNED, lambda head: plain(head, Chain(head, "no")), "SignatureDoesNotMatch"),
        ("one signed byte changed", bare, SIGNED, signed(plain, lambda body: body.replace(b"object", b"abject")), "SignatureDoesNotMatch"),
        ("signed chunks without signatures", bare, SIGNED, plain, "IncompleteBody"),
        ("a signed trailer changed", headers, SIGNED + "-TRAILER", signed(make, lambda body: body.replace(crc32(data).encode(), b"AAAAAA==")), "SignatureDoesNotMatch"),
        ("a signed trailer that is wrong", {**headers, "x-amz-trailer": "x-amz-checksum-crc32c"}, SIGNED + "-TRAILER", lambda head: inner(data, [15], Chain(head), b"x-amz-checksum-crc32c:AAAAAA=="), "BadDigest"),
        ("a trailer without its signature", headers, SIGNED + "-TRAILER", make, "IncompleteBody"),
        ("ECDSA", bare, "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", plain, "NotImplemented"),
        ("another digest", {}, hashlib.sha256(b"other").hexdigest(), lambda head: data, "XAmzContentSHA256Mismatch"),
        ("another MD5", {"content-md5": base64.b64encode(bytes(16)).decode()}, PLAIN, lambda head: data, "BadDigest"),
        ("an MD5 that is none", {"content-md5": "invalid"}, PLAIN, lambda head: data, "InvalidDigest"),
        ("two checksums", {CRC: crc32(data), "x-amz-checksum-md5": md5}, PLAIN, lambda head: data, "InvalidRequest"),
        ("a checksum of no kind we know", {"x-amz-checksum-crc33": crc32(data)}, PLAIN, lambda head: data, "InvalidRequest"),
        ("a checksum that is none", {CRC: "invalid"}, PLAIN, lambda head: data, "InvalidRequest"),
        ("another algorithm than the checksum's", {CRC: crc32(data), "x-amz-sdk-checksum-algorithm": "CRC32C"}, PLAIN, lambda head: data, "InvalidRequest"),
        *((f"a wrong {name}", {f"x-amz-checksum-{name}": base64.b64encode(bytes(size)).decode()}, PLAIN, lambda head: data, "BadDigest")
          for name, size in (("crc32", 4), ("crc32c", 4), ("crc64nvme", 8), ("sha1", 20), ("sha256", 32), ("sha512", 64), ("md5", 16), ("xxhash64", 8), ("xxhash3", 8), ("xxhash128", 16))),
        ("a wrong one of a large body", bad, PLAIN, lambda head: bytes(300_000) + b"x", "BadDigest"),
    ]
    origin.reset()
    for what, fields, payload, body, code in rows:
        story.same(what, sender.put("bkt/wrong", fields, payload, body).code, code)
    reply = sender.put("bkt/wrong", headers, TRAILER, swap(b"data\r\n", b"data\n\r\n"))
    story.fact("wrong framing is told with its place", b"a line ends in LF without CR (at byte 18 of the body, in chunk 1)." in reply.body, reply.body)
    reply = sender.put("bkt/wrong", headers, TRAILER, lambda head: make(head)[:-2])
    story.fact("and what ends too early as that", b"terminated unexpectedly" in reply.body, reply.body)
    for what, chunked in (("framing of S3 in HTTP's", 3), ("in one of HTTP's", 100000)):
        reply = sender.put("bkt/wrong", headers, TRAILER, swap(b"object", b"abject"), chunked)
        story.same(f"a wrong one, {what}", reply.code, "BadDigest")
    story.same("chunks without a length", sender.put("bkt/wrong", {}, PLAIN, lambda head: data, 100).code, "MissingContentLength")
    story.same("chunks shorter than said", sender.put("bkt/wrong", {"x-amz-decoded-content-length": "16"}, PLAIN, lambda head: data, 100).code, "IncompleteBody")
    story.same("chunks for what is no object", sender.put("bkt", headers, TRAILER, make, method="POST", query=[("delete", "")]).code, "InvalidRequest")
    story.same("of all that the origin saw nothing", origin.counts()["requests"], 0)
    story.same("and who sends it right is heard", sender.put("bkt/wrong", headers, TRAILER, make).status, 200)


with Story("w06 bodies of all forms are verified before the origin sees a byte") as story:
    origin = story.origin("object=bkt/k 1000")
    server = story.penstock(origin=origin.url, body_memory="64KiB")    # above, in a file
    sender = Sender(server)
    good(origin, sender, story.random)
    wrong(origin, sender, server)

    server = story.penstock(origin=origin.url, keys=[{"anonymous": True}])
    origin.reset()
    for payload, code, puts in ((SIGNED, "InvalidRequest", 0), (SIGNED + "-TRAILER", "InvalidRequest", 0), (TRAILER, "", 1)):
        headers, make = framed(b"hello", trailer=payload.endswith("TRAILER"))
        body = make(None)
        reply = plain(server.port, "PUT", "/bkt/anonymous", body, [f"{name}: {value}" for name, value in {**headers, "x-amz-content-sha256": payload}.items()])
        story.same(f"nobody's {payload}", (reply.code, origin.counts("bkt/anonymous")["put"]), (code, puts))
