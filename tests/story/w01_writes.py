"""A write through us removes what it touches, before it is answered."""
import base64

from harness import *


def tell(freshness):
    origin = story.origin("objects=bucket/set/%02d 10 50000")
    server = story.penstock(origin=origin.url, freshness=freshness,
                            cache_dir=story.path(f"cache-{freshness}"))
    body = story.random.randbytes(200_000)
    key = "bucket/set/00"
    story.bytes("cold", server.get(key), key, 0, 50000)
    story.bytes("warm", server.get(key), key, 0, 50000)
    reply = server.put(key, body, {"content-type": "text/plain", "x-amz-meta-colour": "blue"})
    story.same("PUT is answered with the origin's ETag", (reply.status, reply.headers.get("etag")),
               (200, origin.counts(key)["etag"]))
    story.same("the origin has every byte", origin.counts(key)["sha256"],
               hashlib.sha256(body).hexdigest())
    for turn in ("first", "second"):
        reply = server.get(key)
        story.same(f"{turn} read after it", (reply.body == body, reply.headers.get("content-type"), reply.headers.get("x-amz-meta-colour")), (True, "text/plain", "blue"))
    story.same("DELETE", server.delete(key).status, 204)
    story.same("gone for readers", (server.get(key).status, server.head(key).status), (404, 404))

    for i in (1, 2, 3):
        server.get(f"bucket/set/0{i}")
    doc = b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Object><Key>set/01</Key></Object><Object><Key>set/02</Key></Object></Delete>'
    md5 = base64.b64encode(hashlib.md5(doc).digest()).decode()
    reply = server.ask("POST", "bucket", query=[("delete", "")], body=doc,
                       headers={"content-md5": md5})
    story.same("DeleteObjects", (reply.status, reply.body.count(b"<Deleted>")), (200, 2))
    story.same("both are gone, the third is not", [server.get(f"bucket/set/0{i}").status
                                                   for i in (1, 2, 3)], [404, 404, 200])

    key = "bucket/set/04"
    story.bytes("another one is warm", server.get(key), key, 0, 50000)
    reply = server.ask("POST", key, query=[("uploads", "")])
    upload = re.search(rb"<UploadId>(.*?)<", reply.body).group(1).decode()
    parts = [story.random.randbytes(5 * MIB), story.random.randbytes(1000)]
    etags = [server.ask("PUT", key, query=[("partNumber", str(n)), ("uploadId", upload)],
                        body=part).headers.get("etag") for n, part in enumerate(parts, 1)]
    story.fact("two parts go up", all(etags), etags)
    story.bytes("readers still have the old one", server.get(key), key, 0, 50000)
    document = "<CompleteMultipartUpload>" + "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{e}</ETag></Part>" for n, e in enumerate(etags, 1)) + "</CompleteMultipartUpload>"
    reply = server.ask("POST", key, query=[("uploadId", upload)], body=document.encode())
    story.same("Complete", (reply.status, b"CompleteMultipartUploadResult" in reply.body),
               (200, True))
    story.same("readers have the new one", server.get(key).body == b"".join(parts), True)

    key = "bucket/set/05"
    story.bytes("one more is warm", server.get(key), key, 0, 50000)
    origin.tell("match=bucket/* PUT", "status=500")
    reply = server.put(key, body)
    story.fact("a PUT that the origin fails is a failure", reply.status >= 500 and reply.code,
               reply)
    origin.calm()
    origin.reset()
    story.bytes("... an unknown outcome counts as written: it is fetched anew", server.get(key),
                key, 0, 50000)
    story.fact("... from the origin", origin.counts(key)["get"] + origin.counts(key)["head"] >= 1)

    key = "bucket/race/size-8388608-x"
    origin.tell("match=bucket/race/* GET", f"bandwidth={2 * MIB}")
    fill, _ = together(lambda: server.get(key), lambda: (wait_for("the fill begins", lambda: origin.totals()["requests_open"] > 0), time.sleep(0.2), story.fact("a fill is under way", origin.totals()["requests_open"] > 0), server.put(key, body)))
    origin.calm()
    story.fact("a reader during a PUT has one version or fails clearly", fill.body in (expect(key, 1, 0, 8388608), body) or (fill.error and expect(key, 1, 0, 8388608).startswith(fill.body)), fill)
    story.same("whoever reads after the PUT has the new one",
               [server.get(key).body == body for _ in range(3)], [True] * 3)
    server = server.restart()
    story.same("after a restart too", (server.get(key).body == body,
                                       server.get("bucket/set/00").status), (True, 404))
    server.stop()


with Story("w01 PUT, DELETE and multipart go through and leave nothing old") as story:
    tell("immutable")    # nothing but the write itself can renew
    tell(None)           # as the product comes
