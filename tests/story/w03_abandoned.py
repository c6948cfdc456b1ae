"""A write whose client has left, or that a later one has overtaken, is not sent afterwards."""
from harness import *

with Story("w03 a write that was given up does not overwrite a later one") as story:
    origin = story.origin("object=bucket/k 1000", "objects=bucket/held/%d 10 100")
    server = story.penstock(origin=origin.url, origin_connections=2)
    direct = Client(origin.port)

    def leave(method, key, body=b"", wait_s=0.5, **how):
        wire = Wire(server.port)
        wire.send(server.client.head_of(method, key, body=body, **how))
        time.sleep(wait_s)
        wire.abort()
        time.sleep(0.3)

    for method in ("PUT", "DELETE"):
        key = f"bucket/{method.lower()}"
        origin.tell("reset=rules", f"match={key}", "status=503", "retry_after=2", "times=1")
        leave(method, key, b"old" if method == "PUT" else b"")
        story.same(f"{method} was refused once by the origin, its client left; a later PUT is acknowledged",
                   server.put(key, b"new").status, 200)
        time.sleep(3)
        story.same("... and stays", (direct.get(key).body, server.get(key).body), (b"new", b"new"))

    # the same while the client still waits: an overtaken try is not repeated, the client decides
    key = "bucket/overtaken"
    origin.tell("reset=rules", f"match={key}", "status=503", "retry_after=4", "times=1")

    def overtakes():
        wait_for("the first was refused once", lambda: origin.counts(key, settle=False)["put"] == 1)
        origin.quiet()
        return server.put(key, b"new")
    first, second = together(lambda: server.put(key, b"old"), overtakes)
    story.same("of two PUTs, the later one is acknowledged", second.status, 200)
    story.same("... the first one gets what SDKs retry", (first.status, first.code), (503, "ServiceUnavailable"))
    story.same("... the origin has the later one", (direct.get(key).body, server.get(key).body), (b"new", b"new"))

    # its turn for a connection comes after its client has left
    wait_for("both connections are allowed again after the 503s",
             lambda: server.get(f"bucket/none-{time.monotonic()}").status == 404 and
             server.metric("penstock_origin_connections_limit") == 2)
    origin.tell("reset=rules", "match=bucket/held/*", "first_byte_ms=5000")
    held = [threading.Thread(target=lambda i=i: server.get(f"bucket/held/{i}")) for i in range(2)]
    for thread in held:
        thread.start()
    wait_for("both connections are taken", lambda: origin.totals()["requests_open"] == 2)
    leave("PUT", "bucket/queued", b"old", 0.3)
    story.same("a PUT elsewhere while one waits in vain", direct.put("bucket/queued", b"new").status, 200)
    for thread in held:
        thread.join()
    time.sleep(0.5)
    story.same("... is not overwritten", direct.get("bucket/queued").body, b"new")
    story.fact("... readers through us see it", server.get("bucket/queued").body == b"new")

    # one that is under way ends as it would have, and counts as written
    key = "bucket/sent"
    server.put(key, b"before")
    wait_for("it is warm", lambda: server.get(key).cache == "hit")
    origin.tell("reset=rules", f"match={key} PUT", "first_byte_ms=1500")
    wire = Wire(server.port)
    wire.send(server.client.head_of("PUT", key, body=b"after"))
    wait_for("it is under way", lambda: origin.totals()["requests_open"] > 0)
    wire.abort()
    origin.quiet()
    story.same("a write that was under way when its client left is seen", server.get(key).body, b"after")
