"""H7 under every name that an origin knows an object by: versitygw keeps objects as files, radosgw has
two names for a bucket and takes blanks off a form's key."""
from forms import *
from radosgw import *


def complete(server, key, data):
    upload = re.search(rb"<UploadId>([^<]*)", server.ask("POST", key, [("uploads", "")]).body).group(1).decode()
    part = server.ask("PUT", key, [("partNumber", "1"), ("uploadId", upload)], body=data)
    return server.ask("POST", key, [("uploadId", upload)], body=b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
                      b"<ETag>" + part.headers["etag"].encode() + b"</ETag></Part></CompleteMultipartUpload>")


WRITES = {
    "PUT": lambda server, key: server.put(f"bucket/{key}", b"new"),
    "DELETE": lambda server, key: server.delete(f"bucket/{key}"),
    "DeleteObjects": lambda server, key: server.ask("POST", "bucket", [("delete", "")],
                                                    body=f"<Delete><Object><Key>{key}</Key></Object></Delete>".encode()),
    "CopyObject": lambda server, key: server.put(f"bucket/{key}", b"", {"x-amz-copy-source": "bucket/new"}),
    "multipart": lambda server, key: complete(server, f"bucket/{key}", b"new"),
}


def cached(server, direct, key):
    direct.put(f"bucket/{key}", b"old")
    wait_for("it is in the cache", lambda: server.get(f"bucket/{key}").cache == "hit")


def same_as_origin(story, text, server, direct, key):
    ours, theirs = server.get(f"bucket/{key}"), direct.get(f"bucket/{key}")
    story.same(text, (ours.status, ours.status == 200 and ours.body), (theirs.status, theirs.status == 200 and theirs.body))


with Story("w11 one object under several names") as story:
    versity = story.versity()
    direct = versity.client
    direct.put("bucket", b"")
    direct.put("bucket/new", b"new")
    server = story.penstock(origin=versity.url, freshness="ttl")
    for how, write in WRITES.items():
        for number, alias in enumerate(("/in/{}", "./in/{}", "x/../in/{}", "in//{}", "in/./{}", "in/{}/.")):
            key = f"in/{how}{number}"
            cached(server, direct, key)
            write(server, alias.format(f"{how}{number}"))
            same_as_origin(story, f"{how} of {alias}: what is read is what the origin has", server, direct, key)
    for alias in ("in//k", "./in/k", "in/x/../k"):
        direct.put("bucket/in/k", b"old")
        story.same(f"{alias} is read", together(*[lambda: server.get(f"bucket/{alias}").body] * 2), [b"old"] * 2)
        server.put("bucket/in/k", b"new")
        same_as_origin(story, "... and what was written under its plain name is seen", server, direct, alias)

    # ---- radosgw ----
    gateway = Radosgw(story)
    direct, me = gateway.client("main"), gateway.users["main"]
    direct.put("bucket", b"")
    server = story.penstock(origin=gateway.url, origin_access_key=me.key, origin_secret_key=me.secret,
                            browser_uploads="1MiB", cache_dir=story.path("of-radosgw"))
    for number, (before, behind) in enumerate((("", " "), ("", "\r\n"), (" ", "\t"))):
        key = f"in/{number}"
        cached(server, direct, key)
        reply = post(server.port, "bucket", signed("bucket", before + key + behind, (ACCESS_KEY, SECRET_KEY)), b"new")
        story.same("a form whose key has blanks around it", reply.status, 204)
        same_as_origin(story, "... H7: what is read is what the origin has", server, direct, key)
    cached(server, direct, "k")
    story.same("a bucket has another name", server.get(":bucket/k").body, b"old")
    story.same("... which the cache does not know", server.get(":bucket/k").cache, "")
    server.put("bucket/k", b"new")
    story.same("... so that a write under the one is read under the other", server.get(":bucket/k").body, b"new")
    cached(server, direct, "k")
    server.put(":bucket/k", b"newer")
    story.same("... and the other way round", server.get("bucket/k").body, b"newer")
