"""Our test client's signatures hold for a server that is not ours."""
from harness import *

with Story("a02 versitygw and our raw client understand each other") as story:
    server = story.versity()
    client = server.client
    story.same("a bucket is made", client.put("photos", b"").status, 200)
    for name in ("plain", "a b+c", "umlaut-ä", "deep/er/one"):
        body = story.random.randbytes(100_000)
        story.same(f"PUT {name}", client.put("photos/" + name, body).status, 200)
        story.same(f"GET {name}", client.get("photos/" + name).body == body, True)
        story.same(f"range of {name}", client.get("photos/" + name, 10, 99).body == body[10:100],
                   True)
    story.same("all of them are listed", client.list("photos").body.count(b"<Key>"), 4)
    story.same("a wrong secret is refused", Client(server.port, ORIGIN_KEY,
                                                   "wrong").get("photos/plain").code,
               "SignatureDoesNotMatch")
    target = presign("GET", client.host, "/photos/plain", ORIGIN_KEY, ORIGIN_SECRET)
    story.same("a presigned URL works", plain(server.port, "GET", target).status, 200)
