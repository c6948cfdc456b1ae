"""A batch brings what as many GETs would, byte for byte and in order, in frames and in tar."""
from batches import frames, tar
from harness import *

SIZES = [0, 1, 511, 512, 513, 4096, 65535, 65536, 65537, 131072, 200_000, 262_145, 1 << 20, 3_000_000]
ODD = ["with space", "a+b%2Fc", "\u00e4/\u6f22\u5b57/\U0001f600", "quote\"s\\", "x" * 100, "y" * 101,
       "deep/" * 200 + "end", "ends/", "new\nline", "=", "__penstock__/mine"]

with Story("q01 a batch is as many GETs") as story:
    versity = story.versity(versioning=True)
    versity.client.put("bucket", b"")
    origin = story.origin(*(f"object=bucket/size-{size} {size}" for size in SIZES), "objects=bucket/%04d 600 5000")
    server = story.penstock(origin=origin.url)
    client = server.client
    keys = [f"size-{size}" for size in SIZES]

    def same(text, got, wanted, bucket="bucket", through=client):
        """Each item is what its own GET brings."""
        wrong = []
        for item, (key, first, last) in zip(got, wanted):
            reply = through.get(f"{bucket}/{key}", first, last)
            right = (item.status in (200, 206) and item.body == reply.body and
                     (item.key is not None or (item.status, item.etag) == (reply.status, reply.headers["etag"])))
            if not right or (item.key is not None and item.key != key):
                wrong.append((item, reply))
        story.fact(text, len(got) == len(wanted) and not wrong, (len(got), wrong[:3]))

    whole = [(key, None, None) for key in keys]
    for how in ("misses", "hits"):
        same(f"frames of {how}", frames(client, "bucket", keys), whole)
        origin.quiet()
        time.sleep(0.3)
    same("tar of hits", tar(client, "bucket", keys), whole)
    many = [f"{i:04d}" for i in range(600)]
    same("tar of misses", tar(client, "bucket", many), [(key, None, None) for key in many])
    story.same("each was asked for once", {k: v["get"] for k, v in origin.counts()["keys"].items() if v["get"] != 1}, {})
    story.random.shuffle(many)
    same("in the list's order", frames(client, "bucket", many), [(key, None, None) for key in many])

    # ---- pieces ----
    big = "size-3000000"
    spans = [(0, 1), (7, 100), (131_000, 144), (131_072, 131_072), (2_999_999, 1), (1_000_000, 1_500_000)]
    got = frames(client, "bucket", [[big, first, length] for first, length in spans])
    same("spans", got, [(big, first, first + length - 1) for first, length in spans])
    story.same("... say where they begin", [(i.first, i.size) for i in got], [(first, 3_000_000) for first, _ in spans])
    same("spans in tar", tar(client, "bucket", [[big, first, length] for first, length in spans]),
         [(big, first, first + length - 1) for first, length in spans])
    got = frames(client, "bucket", [{"key": big, "range": r} for r in ("bytes=5-9", "bytes=2999990-9999999", "bytes=-7")]
                 + [[big, 2_999_000, -1], [big, 0, -1], {"key": big, "offset": 2_999_999}])
    story.same("ranges of HTTP, and what is open", [(i.status, i.first, len(i.body)) for i in got],
               [(206, 5, 5), (206, 2_999_990, 10), (206, 2_999_993, 7), (206, 2_999_000, 1000), (200, 0, 3_000_000),
                (206, 2_999_999, 1)])
    story.fact("... have those bytes", all(i.body == expect(f"bucket/{big}", 1, i.first, len(i.body)) for i in got))
    got = frames(client, "bucket", [[big, 2_999_999, 2], [big, 3_000_000, 1], ["size-0", 0, -1], [big, 3_000_000, 0],
                                    [big, 3_000_001, 0], {"key": "size-0", "range": "bytes=0-0"}])
    story.same("a span is all there or InvalidRange", [(i.status, i.code, len(i.body)) for i in got],
               [(416, "InvalidRange", 0), (416, "InvalidRange", 0), (200, "", 0), (206, "", 0), (416, "InvalidRange", 0),
                (416, "InvalidRange", 0)])

    # ---- conditions ----
    etag = synthetic_etag("bucket/size-4096", 1)
    got = frames(client, "bucket", [{"key": "size-4096", "if_match": e} for e in (etag, etag.strip('"'), '"other"')])
    story.same("if_match", [(i.status, i.code) for i in got], [(200, ""), (200, ""), (412, "PreconditionFailed")])

    # ---- what failed, and how tar tells ----
    items = ["size-1", "gone-1", "size-512", "gone-2"]
    story.same("errors in their places", [(i.status, i.code) for i in frames(client, "bucket", items)],
               [(200, ""), (404, "NoSuchKey"), (200, ""), (404, "NoSuchKey")])
    got = tar(client, "bucket", items)
    story.same("... and in tar", [(i.key, i.status, i.code) for i in got],
               [("size-1", 200, ""), ("gone-1", 404, "NoSuchKey"), ("size-512", 200, ""), ("gone-2", 404, "NoSuchKey")])
    story.same("the first failure may end it", [(i.status, i.code) for i in frames(client, "bucket", items, on_error="end")],
               [(200, ""), (404, "NoSuchKey")])
    story.same("... in tar", [i.key for i in tar(client, "bucket", items, on_error="end")], ["size-1", "gone-1"])
    got = tar(client, "bucket", [f"gone-\u00e9\"\x1f{i}" for i in range(3000)])
    story.same("thousands of errors are told", (len(got), got[2999].key, got[2999].code),
               (3000, "gone-\u00e9\"\x1f2999", "NoSuchKey"))
    story.same("an empty list", (frames(client, "bucket", []), tar(client, "bucket", [])), ([], []))

    # ---- twice the same, prefix, HTTP/1.0 ----
    twice = ["size-200000", "0001", "size-200000", "0001", "0001"]
    same("duplicates", frames(client, "bucket", twice), [(key, None, None) for key in twice])
    got = frames(client, "bucket", ["1", "4096"], prefix="size-")
    same("a prefix", got, [("size-1", None, None), ("size-4096", None, None)])
    story.same("an object's time", got[0].modified > 0, True)

    # ---- an origin that is not ours: odd keys, versions ----
    real = story.penstock(origin=versity.url, cache_dir=story.path("real"))
    for i, key in enumerate(ODD):
        versity.client.put(f"bucket/{key}", f"object {i}".encode())
    names = [key for key in ODD if versity.client.get(f"bucket/{key}").status == 200]
    story.fact("most odd keys can be had", len(names) >= 8, names)
    for how in ("misses", "hits"):
        got = tar(real.client, "bucket", names)
        story.same(f"odd keys, {how}", [(i.key, i.body) for i in got],
                   [(key, f"object {ODD.index(key)}".encode()) for key in names])
    story.same("no such bucket", [(i.status, i.code) for i in frames(real.client, "nowhere", ["k"])],
               [(404, "NoSuchBucket")])
    versity.client.ask("PUT", "bucket", query=[("versioning", "")], body=b"<VersioningConfiguration><Status>Enabled"
                       b"</Status></VersioningConfiguration>")
    versions = [versity.client.put("bucket/v", body).headers.get("x-amz-version-id") for body in (b"one", b"second")]
    got = frames(real.client, "bucket", ["v", *({"key": "v", "version_id": v} for v in versions),
                                         {"key": "v", "version_id": "never"}])
    story.same("versions", [i.body for i in got[:3]], [b"second", b"one", b"second"])
    story.fact("... and one that never was", got[3].code in ("NoSuchVersion", "NoSuchKey", "InvalidArgument"), got[3])

    # ---- what is told of it ----
    story.fact("items are counted", server.metric("penstock_batch_items_total") > 1000)
    line = [json.loads(l) for l in server.log().splitlines() if '"penstock-batch"' in l][0]
    story.same("the access line", (line["op"], line["items"], line["failed"], line["complete"]),
               ("penstock-batch", len(keys), 0, 1))
