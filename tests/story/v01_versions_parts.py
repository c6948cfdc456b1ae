"""Versions and parts, asked for by name, are answered as the origin answers, and from the cache once they are warm."""
from harness import *

OURS = {"x-amz-request-id", "x-amz-id-2", "date", "server", "connection", "x-cache", "age", "server-timing",
        "accept-ranges"}    # versitygw says it, or does not; we always
ON = (b"<VersioningConfiguration xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Status>Enabled</Status>"
      b"</VersioningConfiguration>")

with Story("v01 versionId and partNumber are served from the cache, as the origin says them", seconds=180) as story:
    versity = story.versity(versioning=True)
    direct = versity.client
    server = story.penstock(origin=versity.url, freshness="ttl", ttl="60s")

    def upload(key, *sizes):
        def done(reply, pattern):
            check(reply.status == 200, f"{reply} {reply.body}")
            return re.search(pattern, reply.body).group(1).decode() if pattern else reply.headers["etag"]
        upload_id = done(direct.ask("POST", key, [("uploads", "")]), rb"<UploadId>([^<]*)")
        etags = [done(direct.ask("PUT", key, [("partNumber", str(n)), ("uploadId", upload_id)],
                                 body=story.random.randbytes(size)), None)
                 for n, size in enumerate(sizes, 1)]
        parts = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{etag}</ETag></Part>"
                        for n, etag in enumerate(etags, 1))
        reply = direct.ask("POST", key, [("uploadId", upload_id)],
                           body=f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode())
        check(b"CompleteMultipartUploadResult" in reply.body, reply.body)

    def differs(got, want, method):
        """What of an answer is not as it is directly; codes of errors, not their ids."""
        said = [{n: v for n, v in r.headers.items() if n not in OURS and not (r.status >= 400 and n == "content-length")}
                for r in (got, want)]
        if method == "HEAD" and want.status >= 400:
            for fields in said:
                fields.pop("content-type", None)
        if (got.status, got.code) != (want.status, want.code):
            return f"{got} instead of {want}"
        if want.status < 400 and got.body != want.body:
            return same_bytes(got.body, want.body)
        if said[0] != said[1]:
            return f"{sorted(said[0].items() - said[1].items())} instead of {sorted(said[1].items() - said[0].items())}"
        return None

    def compare(what, key, query, headers=None, warm=True):
        for method in ("GET", "HEAD"):
            want = direct.ask(method, key, query, headers=headers)
            for turn in ("cold", "warm"):
                got = server.ask(method, key, query, headers=headers)
                wrong = differs(got, want, method)
                story.fact(f"{method} of {what}, {turn}", wrong is None, wrong)
            if warm and method == "GET":
                settled(key, query, headers)
            if warm:
                story.same(f"{method} of {what} is a hit", server.ask(method, key, query, headers=headers).cache, "hit")

    def settled(key, query, headers):
        wait_for("it is warm", lambda: server.ask("GET", key, query, headers=headers).cache == "hit")

    direct.ask("PUT", "bucket")
    direct.put("bucket/k", b"from before there were versions")
    direct.ask("PUT", "bucket", [("versioning", "")], body=ON)
    one, two = (direct.put("bucket/k", body).headers["x-amz-version-id"] for body in (b"one", b"the second"))
    for what, version in (("the first version", one), ("the second", two), ("the one from before", "null")):
        compare(what, "bucket/k", [("versionId", version)])
    compare("what is current", "bucket/k", [])
    for what, version in (("no version", "01J0000000000000000000000A"), ("a bad id", "bogus"), ("an empty id", "")):
        compare(what, "bucket/k", [("versionId", version)], warm=False)
        compare(f"{what}, if it has changed", "bucket/k", [("versionId", version)], {"if-none-match": '"x"'}, warm=False)
    compare("no bucket's, if it has changed", "nowhere/k", [("versionId", one)], {"if-none-match": '"x"'}, warm=False)
    story.same("current is current", server.get("bucket/k").headers.get("x-amz-version-id"), two)
    ranged = server.ask("GET", "bucket/k", [("versionId", two)], headers={"range": "bytes=4-9"})
    story.same("a range of a version is a hit", (ranged.body, ranged.cache), (b"second", "hit"))

    tags = b"<Tagging><TagSet>" + b"".join(b"<Tag><Key>k%d</Key><Value>v</Value></Tag>" % n for n in range(3)) + b"</TagSet></Tagging>"
    story.same("tags, and of no version's name", server.ask("PUT", "bucket/k", [("tagging", "")], body=tags).status, 200)
    tagged = server.ask("GET", "bucket/k", [("versionId", two)])
    story.same("are told of the version that has them, at once", tagged.headers.get("x-amz-tagging-count"), "3")
    compare("it", "bucket/k", [("versionId", two)])

    marker = server.delete("bucket/k").headers["x-amz-version-id"]
    compare("a deleted key", "bucket/k", [], warm=False)
    compare("its delete marker", "bucket/k", [("versionId", marker)], warm=False)
    compare("a version of a deleted key", "bucket/k", [("versionId", one)])
    story.same("a version is deleted through us", server.ask("DELETE", "bucket/k", [("versionId", one)]).status, 204)
    compare("it", "bucket/k", [("versionId", one)], warm=False)
    story.same("the marker is deleted through us", server.ask("DELETE", "bucket/k", [("versionId", marker)]).status, 204)
    compare("the key, at once", "bucket/k", [])

    direct.put("bucket/names", b"x", {f"x-amz-meta-a{number}": "1" for number in range(200)})
    compare("an object with 200 names of metadata", "bucket/names", [])
    direct.put("bucket/single", story.random.randbytes(300_000))
    direct.put("bucket/empty", b"")
    upload("bucket/parts", 5 * MIB + 7, 5 * MIB, 100)
    checked = {"x-amz-checksum-mode": "ENABLED"}
    for number in (1, 2, 3):
        compare(f"part {number} of an upload", "bucket/parts", [("partNumber", str(number))])
    compare("the only part of a plain object", "bucket/single", [("partNumber", "1")])
    compare("a part, conditionally", "bucket/parts", [("partNumber", "2")], {"if-none-match": '"other"'})
    story.same("a part that did not change",
               server.ask("GET", "bucket/parts", [("partNumber", "2")],
                          headers={"if-none-match": direct.head("bucket/parts").headers["etag"]}).status, 304)
    for number in ("4", "0", "10001", "-1", "abc"):
        compare(f"part {number}, which is none", "bucket/parts", [("partNumber", number)], warm=False)
    compare("part 2 of a plain object", "bucket/single", [("partNumber", "2")], warm=False)
    compare("part 1 of an empty one", "bucket/empty", [("partNumber", "1")], warm=False)
    compare("a part and a range", "bucket/single", [("partNumber", "1")], {"range": "bytes=0-9"}, warm=False)
    whole = server.ask("GET", "bucket/parts", [("partNumber", "2")], headers=checked)
    story.same("no checksum of the whole comes with a part",
               [n for n in whole.headers if n.startswith("x-amz-checksum-")], [])
    story.same("the whole, read by its parts, was fetched once", server.get("bucket/parts").cache, "hit")

    # another version of the same key: where its parts lie is its own
    upload("bucket/parts", 6 * MIB, 50)
    no_cache = {"cache-control": "no-cache"}
    for number in (1, 2):
        compare(f"part {number} of a later upload", "bucket/parts", [("partNumber", str(number))], no_cache, warm=False)
    compare("part 3 of a later upload", "bucket/parts", [("partNumber", "3")], warm=False)
