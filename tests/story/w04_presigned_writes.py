"""Presigned writes: S3 reads x-amz- parameters of the query as headers, and so do we."""
import base64

from harness import *

with Story("w04 what a presigned write says in its query is done or refused") as story:
    origin = story.origin("object=bucket/k 1000")
    server = story.penstock(origin=origin.url)
    body, other = b"what is sent", b"what was meant"

    def write(query, key="bucket/new", headers=()):
        said = [value for name, value in query if name.lower() == "x-amz-content-sha256"]
        target = presign("PUT", server.client.host, "/" + key, ACCESS_KEY, SECRET_KEY, query=query,
                         payload=said[0] if said else "UNSIGNED-PAYLOAD")
        return plain(server.port, "PUT", target, body, headers=headers)

    def refused(text, query, status, code, names=None):
        reply = write(query)
        story.same(text, (reply.status, reply.code), (status, code))
        if names:
            story.fact("... the message names it", names in reply.body, reply.body)
        story.same("... nothing was written", server.head("bucket/new").status, 404)

    for name in ("X-Amz-Content-Sha256", "x-amz-content-sha256", "X-AMZ-Content-SHA256"):
        refused(f"another body than {name} says", [(name, hashlib.sha256(other).hexdigest())], 400, "XAmzContentSHA256Mismatch")
        story.same(f"the body that {name} says", write([(name, hashlib.sha256(body).hexdigest())], "bucket/right").status, 200)
        story.same(f"{name}: UNSIGNED-PAYLOAD", write([(name, "UNSIGNED-PAYLOAD")], "bucket/right").status, 200)
    refused("a digest that is none", [("x-amz-content-sha256", "abc")], 400, "InvalidArgument")
    refused("a body signed in chunks, of no length", [("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")], 411, "MissingContentLength")

    refused("one thing said twice", [("x-amz-meta-a", "1"), ("X-Amz-Meta-A", "2")], 400, "InvalidArgument")
    story.same("twice in query and headers", write([("x-amz-content-sha256", "UNSIGNED-PAYLOAD")], headers=["x-amz-content-sha256: " + "0" * 64]).status in (400, 403), True)

    reply = write([("X-Amz-Meta-Colour", "light blue"), ("x-amz-meta-empty", "")], "bucket/meta")
    story.same("metadata", reply.status, 200)
    story.same("... goes with the object", (server.head("bucket/meta").headers.get("x-amz-meta-colour"),
                                            Client(origin.port).head("bucket/meta").headers.get("x-amz-meta-colour")), ("light blue",) * 2)

    # what it can't be told by: a real S3 server checks checksums
    gateway = story.versity()
    gateway.client.put("bucket", b"")
    server = story.penstock(origin=gateway.url, cache_dir=story.path("cache2"))
    for name, value in (("x-amz-checksum-sha256", base64.b64encode(hashlib.sha256(other).digest()).decode()),
                        ("X-Amz-Checksum-Crc32", "AAAAAA==")):
        reply = write([(name, value), ("x-amz-sdk-checksum-algorithm", name.rsplit("-", 1)[1].upper())])
        story.fact(f"{name} of another body is refused by the origin", reply.status == 400, (reply, reply.body))
        story.same("... nothing was written", gateway.client.head("bucket/new").status, 404)
    story.same("a right checksum", write([("x-amz-checksum-sha256", base64.b64encode(hashlib.sha256(body).digest()).decode())]).status, 200)
    story.same("reads take such parameters as before", plain(server.port, "GET", presign("GET", server.client.host, "/bucket/new", ACCESS_KEY, SECRET_KEY, query=[("x-amz-checksum-mode", "ENABLED"), ("x-amz-user-agent", "x")])).body, body)
