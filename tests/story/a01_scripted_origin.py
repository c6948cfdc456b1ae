"""The scripted origin does what it is told, and counts exactly."""
from harness import *

with Story("a01 the scripted origin does what it is told") as story:
    origin = story.origin("objects=bucket/data/%05d 300 1000-20000", "object=bucket/odd//key 10")
    client = Client(origin.port)
    key = "bucket/size-10000000-x"
    story.bytes("a whole object", client.get(key), key, 0, 10000000, status=200)
    story.bytes("first-last", client.get(key, 123456, 999999), key, 123456, 876544, status=206)
    story.bytes("first-", client.get(key, 9999990), key, 9999990, 10, status=206)
    story.bytes("-suffix", client.get(key, suffix=100), key, 9999900, 100, status=206)
    story.same("a range outside is 416", client.get(key, 10000000).status, 416)
    story.same("If-Match that fails", client.get(key, headers={"if-match": '"x"'}).status, 412)
    story.same("If-None-Match that holds", client.get(key, headers={"if-none-match": synthetic_etag(key, 1)}).status, 304)
    story.same("what was not set is missing", client.get("bucket/nothing").status, 404)
    counts = origin.counts(key)
    story.same("requests are counted by key", (counts["get"], counts["head"]), (7, 0))
    story.same("bytes are counted exactly", counts["bytes"], 10000000 + 876544 + 10 + 100)

    page = client.list("bucket", prefix="data/", max_keys=299)
    story.same("a page of a listing", (page.body.count(b"<Key>"),
                                       b"<IsTruncated>true" in page.body), (299, True))
    token = re.search(rb"<NextContinuationToken>(.*?)<", page.body).group(1).decode()
    story.same("and the next", client.list("bucket", prefix="data/",
                                           continuation_token=token).body.count(b"<Key>"), 1)
    rolled = client.list("bucket", delimiter="/")
    story.same("a delimiter rolls up", rolled.body.count(b"<CommonPrefixes>"), 2)

    origin.tell("match=bucket/*", "status=503", "retry_after=1", "times=2")
    story.same("two answers of 503, then none", [client.head(key).status for _ in range(3)],
               [503, 503, 200])
    origin.tell("reset=rules", "first_byte_ms=200", "bandwidth=1000000")
    reply = client.get(key, 0, 299999)
    story.in_time("a slow origin is slow", 0.45 < reply.ended - reply.began < 0.8,
                  f"{reply.ended - reply.began:.3f} s")
    origin.tell("reset=rules", "bandwidth_all=2000000")
    began = time.monotonic()
    together(*(lambda: Client(origin.port).get(key, 0, 299999) for _ in range(4)))
    took = time.monotonic() - began
    story.in_time("connections share a bandwidth", 0.45 < took < 0.9, f"{took:.3f} s")
    with open(story.path("file"), "wb") as f:
        f.write(body := story.random.randbytes(200000))
    origin.tell("reset=rules", f"file=bucket/of-a-file {f.name}")
    story.same("an object with the bytes of a file", client.get("bucket/of-a-file").body, body)
    story.same("and a range of it", client.get("bucket/of-a-file", 70000, 150000).body, body[70000:150001])
    origin.tell("flip=bucket/of-a-file")
    story.bytes("its next version is synthetic", client.get("bucket/of-a-file"), "bucket/of-a-file", 0, 200000, version=2, status=200)
    for name, lines in {"cut by reset": ["cut_after=1000"],
                        "cut by FIN": ["cut_after=1000", "cut_fin=1"],
                        "too long a length": ["length_error=7", "cut_fin=1"],
                        "endless head": ["endless_head=1"]}.items():
        origin.tell("reset=rules", *lines)
        if name == "endless head":
            wire = Wire(origin.port, 5)
            wire.send(client.head_of("GET", key))
            got = 0
            while got <= 50000 and (more := wire.socket.recv(65536)):
                got += len(more)
            story.fact("a head that never ends", got > 50000, f"{got} bytes")
            wire.close()
        else:
            story.fact(name, client.get(key, 0, 65535).error)
    origin.tell("reset=rules", "flip_after=1000")
    story.bytes("a transfer keeps the version it began with", client.get(key, 0, 9999), key, 0,
                10000)
    origin.calm()
    story.bytes("and the next sees the new one", client.get(key, 0, 9999), key, 0, 10000, version=2)
    story.same("a PUT is kept", client.put("bucket/mine", b"hello").status, 200)
    story.same("and served", client.get("bucket/mine").body, b"hello")
    story.same("a DELETE removes", (client.delete("bucket/mine").status,
                                    client.head("bucket/mine").status), (204, 404))
    story.same("nothing is open", origin.counts()["requests_open"], 0)
