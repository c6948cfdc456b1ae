"""Metadata by any legal name: written, copied and uploaded in parts, it comes back as the origin has it,
from the origin and from the cache."""
from harness import *

NAMES = [f"x-amz-meta-{name}" for name in ("a.b", "!#$&'*+^|~", "%`", "a_b.c", ".", "x-amz-acl", "9")]
SAID = {name: f"value of {number}" for number, name in enumerate(NAMES)}


def told(reply):
    return {name: value for name, value in reply.headers.items() if name.startswith("x-amz-meta-")}


def upload_of(client, key, headers):
    reply = client.ask("POST", key, [("uploads", "")], headers)
    check(reply.status == 200, f"{key}: {reply} {reply.body}")
    upload = re.search(rb"<UploadId>([^<]*)<", reply.body).group(1).decode()
    part = client.ask("PUT", key, [("partNumber", "1"), ("uploadId", upload)], body=b"part")
    return client.ask("POST", key, [("uploadId", upload)], body=b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
                      b"<ETag>" + part.headers["etag"].encode() + b"</ETag></Part></CompleteMultipartUpload>")


def presigned_put(server, key, headers):
    """Said in the query of a presigned URL, as SDKs presign them."""
    target = presign("PUT", server.client.host, f"/{key}", server.client.key, server.client.secret, query=list(headers.items()))
    return plain(server.port, "PUT", target, b"by a URL")


with Story("w15 metadata may have any legal name") as story:
    gateway = story.versity()
    direct = gateway.client
    server = story.penstock(origin=gateway.url)
    direct.put("bucket", b"")

    for who, client in (("direct", direct), ("through", server.client)):
        story.same(f"{who}: PutObject", client.put(f"bucket/{who}-put", b"data", SAID).status, 200)
        story.same(f"{who}: CopyObject", client.put(f"bucket/{who}-copy", b"", {
            **SAID, "x-amz-copy-source": f"/bucket/{who}-put", "x-amz-metadata-directive": "REPLACE"}).status, 200)
        story.same(f"{who}: a copy that keeps them", client.put(f"bucket/{who}-kept", b"", {"x-amz-copy-source": f"/bucket/{who}-put"}).status, 200)
        story.same(f"{who}: an upload in parts", upload_of(client, f"bucket/{who}-parts", SAID).status, 200)
    for how in ("put", "copy", "kept", "parts"):
        key = f"bucket/through-{how}"
        want = told(direct.head(f"bucket/direct-{how}"))
        story.same(f"{how}: the origin has what it was told directly", told(direct.head(key)), want)
        story.same("... all of it", sorted(want), sorted(SAID))
        reply = server.get(key)
        story.same("... a miss brings it", (reply.cache, told(reply)), ("miss", want))
        reply = wait_for("it is in the cache", lambda: (found := server.get(key)).cache == "hit" and found)
        story.same("... a hit has it", told(reply), want)
        reply = server.head(key)
        story.same("... and a HEAD of it", (reply.cache, told(reply)), ("hit", want))
    url = {name: value for name, value in SAID.items() if name != "x-amz-meta-%`"}
    story.same("in the query of a presigned PUT", presigned_put(server, "bucket/url", url).status, 200)
    story.same("... it is the same metadata", told(direct.head("bucket/url")), {n: v for n, v in want.items() if n in url})

    for name in ("x-amz-acl.", "x-amz-copy.source", "x-amz-met!a-x", "x-amz-storage+class"):
        story.same(f"any other name with such characters stays refused: {name}",
                   server.put("bucket/other", b"x", {name: "public-read"}).status, 400)
    for name in ("x-amz_acl", "x_amz-copy-source"):
        story.same(f"and so does what may be read as another: {name}", server.put("bucket/other", b"x", {name: "x"}).status, 400)
    story.same("none of it was written", direct.head("bucket/other").status, 404)
