"""A copy source that Penstock can't read is the origin's to judge, for a client that may read
everything; for any other client it is a 403."""
from harness import *

WRITER = ("WRITERTESTKEY", "writer/secret")
READS_MUCH = ("MUCHTESTKEY", "much/secret")
# No key; no bucket; not an escape; nothing; a version without a key.
SOURCES = ("x", "/photos/", "photos/%zz", "/", "?versionId=1")

with Story("s13 copy sources that are none") as story:
    gateway = story.versity()
    direct = gateway.client
    story.same("a bucket is made", direct.put("photos", b"").status, 200)
    direct.put("photos/kept", b"kept")
    keys = [{"access_key": WRITER[0], "secret_key": WRITER[1],
             "policy": [{"allow": ["write"], "on": ["photos"]}]},
            {"access_key": READS_MUCH[0], "secret_key": READS_MUCH[1],
             "policy": [{"allow": ["read", "write"], "on": ["photos"]}]}]
    server = story.penstock(origin=gateway.url, keys=keys)
    upload = direct.ask("POST", "photos/parts", [("uploads", "")])
    part = [("partNumber", "1"), ("uploadId", re.search(rb"<UploadId>([^<]*)", upload.body).group(1).decode())]
    for source in SOURCES:
        for what, key, query in (("CopyObject", "photos/new", []), ("UploadPartCopy", "photos/parts", part)):
            copied = {"x-amz-copy-source": source}
            was, became = (one.ask("PUT", key, query, headers=copied) for one in (direct, server.client))
            story.same(f"{what} of {source}: the origin's answer", (became.status, became.code), (was.status, was.code))
            story.fact("... which is a refusal", was.status in (400, 404), was)
            for pair in (WRITER, READS_MUCH):
                reply = Client(server.port, *pair).ask("PUT", key, query, headers=copied)
                story.same(f"... and 403 to {pair[0]}, which may not read everything", (reply.status, reply.code), (403, "AccessDenied"))
    renamed = server.ask("PUT", "photos/new", [("renameObject", "")], headers={"x-amz-rename-source": "%zz"})
    story.same("a rename of what can't be read is refused: its old name would stay in the cache", renamed.status, 403)
    story.same("nothing was written", (direct.head("photos/new").status, direct.get("photos/kept").body), (404, b"kept"))
