"""Who may not, learns it in S3's own terms."""
from harness import *

with Story("s02 refusals are S3's own") as story:
    origin = story.origin("object=bucket/a 1000")
    server = story.penstock(origin=origin.url)

    def refused(text, reply, status, *codes):
        story.fact(f"{text}: {status} {codes[0]}", reply.status == status and reply.code in codes,
                   repr(reply) + repr(reply.body[:300]))
        story.fact(f"{text}: XML with Message and RequestId", reply.body.startswith(b"<?xml")
                   and b"<Message>" in reply.body
                   and re.search(rb"<RequestId>[^<]+</RequestId>", reply.body)
                   and "xml" in reply.headers.get("content-type", ""), reply.body[:400])

    refused("no signature", plain(server.port, "GET", "/bucket/a"), 403, "AccessDenied")
    refused("an unknown key", Client(server.port, "NOSUCHKEY", SECRET_KEY).get("bucket/a"), 403,
            "InvalidAccessKeyId")
    refused("a wrong secret", Client(server.port, ACCESS_KEY, "wrong").get("bucket/a"), 403,
            "SignatureDoesNotMatch")
    refused("a clock 20 minutes slow", server.get("bucket/a", now=ago(minutes=20)), 403,
            "RequestTimeTooSkewed")
    refused("a clock 20 minutes fast", server.get("bucket/a", now=ago(minutes=-20)), 403,
            "RequestTimeTooSkewed")
    story.same("a clock 10 minutes slow is fine", server.get("bucket/a",
                                                             now=ago(minutes=10)).status, 200)

    host = server.client.host
    target = presign("GET", host, "/bucket/a", ACCESS_KEY, SECRET_KEY)
    story.same("a presigned URL works", plain(server.port, "GET", target).status, 200)
    refused("... not for another key", plain(server.port, "GET", target.replace("/bucket/a", "/bucket/b")), 403, "SignatureDoesNotMatch")
    refused("... not for another method", plain(server.port, "DELETE", target), 403,
            "SignatureDoesNotMatch")
    refused("... not when it has expired", plain(server.port, "GET", presign("GET", host, "/bucket/a", ACCESS_KEY, SECRET_KEY, 60, ago(seconds=100))), 403, "AccessDenied")
    refused("... not for eight days", plain(server.port, "GET", presign("GET", host, "/bucket/a", ACCESS_KEY, SECRET_KEY, 8 * 86400)), 400, "AuthorizationQueryParametersError")
    refused("SigV2 of long ago", plain(server.port, "GET", "/bucket/a", headers=[f"Authorization: AWS {ACCESS_KEY}:AAAA=", "Date: Tue, 27 Mar 2007 19:36:42 +0000"]), 403, "RequestTimeTooSkewed")
    refused("SigV2 that is none", plain(server.port, "GET", f"/bucket/a?AWSAccessKeyId={ACCESS_KEY}&Expires=9999999999&Signature=AAAA"), 403, "SignatureDoesNotMatch")
    refused("a mangled Authorization", plain(server.port, "GET", "/bucket/a", headers=["Authorization: AWS4-HMAC-SHA256 nonsense"]), 400, "AuthorizationHeaderMalformed")
    story.same("nothing that was refused reached the origin: one read did",
               origin.counts()["requests"], 1)

    refused("a missing key", server.get("bucket/none"), 404, "NoSuchKey")
    reply = server.head("bucket/none")
    story.same("HEAD of a missing key: 404 without a body", (reply.status, reply.body), (404, b""))
    refused("two operations in one request", server.ask("GET", "bucket/a", query=[("acl", ""), ("tagging", "")]),
            400, "InvalidArgument")
    reply = server.ask("PATCH", "bucket/a")
    story.fact("an unknown method is refused", reply.status in (400, 405, 501), reply)
    for status, reason in ((201, "Created"), (202, "Accepted"), (303, "See Other"), (410, "Gone"), (415, "Unsupported Media Type"),
                           (428, "Precondition Required"), (451, "Unavailable For Legal Reasons"), (507, "Insufficient Storage")):
        origin.tell("reset=rules", "match=bucket/told", f"status={status}")
        reply = server.ask("GET", "bucket/told", [("acl", "")])
        story.same(f"{status} is passed on with its words", (reply.status, reply.reason), (status, reason))
    origin.tell("reset=rules")
    origin.tell("match=bucket/hidden", "status=403", "object=bucket/hidden 10")
    refused("what the origin refuses", server.get("bucket/hidden"), 403, "AccessDenied")
    reply = server.ask("PUT", "bucket/stream", body=b"x", headers={"x-amz-decoded-content-length": "1"},
                       payload="STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD")
    refused("chunks signed in a way that is not known", reply, 501, "NotImplemented")
    story.fact("... and says that it is that", b"ECDSA-P256-SHA256-PAYLOAD is not supported" in reply.body, reply.body)
    reply = server.ask("PUT", "bucket/sum", body=b"x", payload=hashlib.sha256(b"y").hexdigest())
    refused("a body that is not what was signed", reply, 400, "XAmzContentSHA256Mismatch")
    story.same("it never reached the origin", origin.counts("bucket/sum")["put"], 0)

    wire = Wire(server.port)
    wire.send(b"GET /bucket/a HTTP/1.1\r\nHost: h\r\nX: " + b"y" * 40960 + b"\r\n\r\n")
    refused("a head of 40 KiB", wire.read(), 400, "RequestHeaderSectionTooLarge")
    small = story.penstock(origin=origin.url, body_max="1MiB", cache_dir=story.path("small"))
    head = small.client.head_of("PUT", "bucket/large", headers={"content-length": str(MIB + 1)})
    wire = Wire(small.port)
    wire.send(head)    # and no byte of the body
    refused("a body above body_max, before it is read", wire.read("PUT"), 400, "EntityTooLarge")
    story.same("one of body_max is taken", small.put("bucket/large", bytes(MIB)).status, 200)
    story.same("only that reached the origin", origin.counts("bucket/large")["put"], 1)
