"""The daemon starts over a directory, says it is ready, and gives an object."""
from harness import *

with Story("b01 an object of a directory is served") as story:
    os.makedirs(story.path("tree/photos"))
    body = story.random.randbytes(300_000)
    with open(story.path("tree/photos/one.bin"), "wb") as f:
        f.write(body)
    os.utime(story.path("tree/photos/one.bin"), (1700000000, 1700000000))
    server = story.penstock(origin="dir:" + story.path("tree"))
    story.same("health/live", plain(server.port, "GET", "/_/health/live").status, 200)
    story.same("health/ready", plain(server.port, "GET", "/_/health/ready").status, 200)
    reply = server.get("photos/one.bin")
    story.same("GET", (reply.status, reply.error, reply.body == body), (200, None, True))
    reply = server.get("photos/one.bin", 1000, 1999)
    story.same("a range", (reply.status, reply.body == body[1000:2000]), (206, True))
    reply = server.head("photos/one.bin")
    story.same("HEAD", (reply.status, reply.headers.get("content-length")), (200, "300000"))
    story.same("no key, no object", plain(server.port, "GET", "/photos/one.bin").status, 403)
    story.same("a missing one", server.get("photos/two.bin").code, "NoSuchKey")
    story.same("a missing bucket", server.get("nobucket/two.bin").code, "NoSuchBucket")
    page = server.list("photos")
    story.same("the listing", (page.status, page.body.count(b"<Key>one.bin</Key>")), (200, 1))
    story.same("a directory can't be written to", server.put("photos/new", b"x").status >= 400,
               True)
    story.fact("/metrics has our names", any(n.startswith("penstock_") for n in server.metrics()))
