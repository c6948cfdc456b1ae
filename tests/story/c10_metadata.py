"""New metadata under the same ETag are seen although somebody still reads the object."""
from harness import *

with Story("c10 an object is given other metadata while it is read") as story:
    origin = story.origin()
    clock = story.clock()
    server = story.penstock(origin=origin.url, freshness="always")
    direct, key, body = Client(origin.port, ORIGIN_KEY,
                               ORIGIN_SECRET), "bucket/m", story.random.randbytes(3 * MIB)
    direct.put(key, body, {"x-amz-meta-colour": "red"})
    time.sleep(1.1)    # Last-Modified has whole seconds
    origin.tell(f"match={key} GET", "bandwidth=400000")    # for 8 s
    reader = Wire(server.port)
    reader.send(server.client.head_of("GET", key))
    wait_for("a read is under way", lambda: origin.totals()["requests_open"] > 0)
    time.sleep(0.2)
    direct.put(key, body, {"x-amz-meta-colour": "blue"})
    story.fact("it still is", origin.totals()["requests_open"] > 0)
    want = direct.head(key).headers
    for turn in ("a HEAD", "another one"):
        got = server.head(key).headers
        story.same(f"{turn} sees the new ones", (got.get("x-amz-meta-colour"), got["last-modified"]), ("blue", want["last-modified"]))
    story.same("a GET does", server.get(key, 0, 9).headers.get("x-amz-meta-colour"), "blue")
    story.fact("the reader has its bytes", (reply := reader.read()).body == body
               and not reply.error, reply)

    letters = "abcdefghijklmnopqrstuvwxyz"
    names = {f"x-amz-meta-{a}{b}": "1" for a in letters for b in letters}    # 2,028 bytes: S3 takes 2 KiB
    story.same(f"{len(names)} names of metadata are put", server.put("bucket/names", b"x", names).code, "")

    # Last-Modified has whole seconds, and tags or expirations change without it: then nothing but
    # the fields themselves tells two answers apart.
    def told_anew(how, server):
        for size in (0, 1000, 2 * MIB):
            key = f"bucket/{how}{size}"
            direct.put(key, bytes(size), {"x-amz-meta-colour": "red", "content-type": "a/red"})
            was = server.get(key).headers
            while True:    # until both are of one second
                direct.put(key, bytes(size), {"x-amz-meta-colour": "blue",
                                              "content-type": "a/blue"})
                if direct.head(key).headers["last-modified"] == was["last-modified"]:
                    break
                direct.put(key, bytes(size), {"x-amz-meta-colour": "red", "content-type": "a/red"})
                was = server.get(key, headers={"cache-control": "no-cache"}).headers
            if how == "ttl":
                clock.ahead(2)
            time.sleep(0.4)    # until they are committed
            if how == "immutable":
                story.same("the old ones are a hit's", server.get(key).headers["content-type"],
                           "a/red")
            server.head(key, headers={"cache-control": "no-cache"} if how == "immutable" else {})
            story.same(f"{how}, {size} bytes: once asked for, the new ones are served from then on",
                       [server.get(key, *span).headers.get("x-amz-meta-colour")
                        for span in ((), (0, 0), ()) if size or not span],
                       ["blue"] * (3 if size else 2))
            time.sleep(0.4)    # until they are committed
            story.same("and are kept", server.head(key).headers["content-type"], "a/blue")

    hows = [(how, story.penstock(origin=origin.url, cache_dir=story.path(how), freshness=how, **settings))
            for how, settings in (("always", {}), ("ttl", {"ttl": "1s", "grace": "0s", "revalidate": "head"}),
                                  ("immutable", {}))]
    together(*(lambda one=one: told_anew(*one) for one in hows))
    for how, server in hows:
        server = server.restart()
        story.same("over a restart", {server.head(f"bucket/{how}{size}").headers["content-type"]
                                      for size in (0, 1000, 2 * MIB)}, {"a/blue"})

    # A 206 tells less than a 200: of the version that is known it changes nothing.
    key = "bucket/both"
    direct.put(key, bytes(300_000), {"x-amz-meta-colour": "red"})
    origin.tell(f"match={key} GET", "first_byte_ms=400")
    together(lambda: server.get(key), lambda: (time.sleep(0.1), server.get(key, suffix=1)))
    origin.reset()
    story.same("a HEAD for checksums is answered", server.head(
        key, headers={"x-amz-checksum-mode": "ENABLED"}).headers["x-amz-meta-colour"], "red")
    story.same("without another one to the origin", origin.counts(key)["head"], 0)
    origin.calm()

    # What the origin says is gone, nobody is told of any more, though somebody still reads it.
    key = "bucket/gone"
    direct.put(key, body)
    origin.tell(f"match={key} GET", "bandwidth=400000")
    reader = Wire(server.port)
    reader.send(server.client.head_of("GET", key))
    wait_for("a read is under way", lambda: origin.totals()["requests_open"] > 0)
    time.sleep(0.2)
    direct.delete(key)
    story.same("who asks the origin hears that it is gone",
               server.head(key, headers={"cache-control": "no-cache"}).status, 404)
    wait_for("and then who does not", lambda: server.head(key).status == 404)
    reader.close()

    # As many fields as a head may have leave room for those that say what the body is.
    key = "bucket/names"
    many = {f"x-amz-meta-{i:02d}": str(i) for i in range(80)}
    direct.put(key, b"0123456789" * 10, many)
    for turn in ("cold", "cached"):
        reply = server.get(key, 10, 19)
        story.same(f"80 fields of its own, {turn}",
                   ({n: reply.headers.get(n) for n in many} == many, reply.status, reply.headers.get("content-range"),
                    reply.headers.get("etag")), (True, 206, "bytes 10-19/100", direct.head(key).headers["etag"]))
    reply = server.get(key, 10, 19, headers={"origin": "http://a.example"})
    story.same("... and passed on", ({n: reply.headers.get(n) for n in many} == many,
                                     reply.headers.get("content-range")), (True, "bytes 10-19/100"))
    story.same("no field was left out", server.metric("penstock_front_fields_dropped_total"), 0)
