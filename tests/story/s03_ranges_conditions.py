"""Ranges of every form and conditions of every kind, cold and warm alike."""
from email.utils import formatdate, parsedate_to_datetime
from harness import *

with Story("s03 ranges and conditions") as story:
    size = 700_000
    origin = story.origin(f"object=bucket/a {size}", "object=bucket/empty 0", "object=bucket/one 1",
                          *(f"object=bucket/cold{i} {size}" for i in range(20)))
    server = story.penstock(origin=origin.url)
    forms = [("0-0", 0, 1), ("0-9", 0, 10), ("131071-131072", 131071, 2),
             ("131072-", 131072, size - 131072),
             (f"{size - 1}-", size - 1, 1), (f"{size - 1}-{size + 100}", size - 1, 1),
             ("-1", size - 1, 1),
             ("-131073", size - 131073, 131073), (f"-{size + 1}", 0, size),
             (f"0-{size * 10}", 0, size)]
    for i, (form, first, length) in enumerate(forms):
        for turn, key in (("cold", f"bucket/cold{i}"), ("warm", f"bucket/cold{i}")):
            reply = server.get(key, headers={"range": "bytes=" + form})
            story.bytes(f"{turn} bytes={form}", reply, key, first, length, status=206)
            story.same(f"{turn} bytes={form}: Content-Range", reply.headers.get("content-range"),
                       f"bytes {first}-{first + length - 1}/{size}")
    key = "bucket/a"
    folder = story.path("directory/bucket")
    os.makedirs(folder)
    with open(os.path.join(folder, "file"), "wb") as f:
        f.write(bytes(size))
    directory = story.penstock(origin=f"dir:{story.path('directory')}", cache_dir=story.path("directory-cache"))
    far = f"bytes={10 * size + 7}-{10 * size + 9}"
    for where, unknown in ((server, "bucket/cold19"), (directory, "bucket/file")):
        for turn in ("unknown", "known"):
            reply = where.get(unknown, headers={"range": far})
            story.same(f"{turn}, a range far beyond the end: 416 is about the range of the client, not that of Penstock",
                       (reply.status, reply.code, reply.headers.get("content-range"), *(re.findall(f"<{name}>(.*?)</{name}>", reply.body.decode())
                        for name in ("RangeRequested", "ActualObjectSize"))), (416, "InvalidRange", f"bytes */{size}", [far], [str(size)]))
            where.get(unknown)
    for turn in ("cold", "warm"):
        for form in (f"{size}-", f"{size}-{size + 5}", "-0"):
            reply = server.get(key, headers={"range": "bytes=" + form})
            story.same(f"{turn} bytes={form} is outside", (reply.status, reply.code, reply.headers.get("content-range")), (416, "InvalidRange", f"bytes */{size}"))
        for form in ("bytes=5-2", "bytes=", "bytes=a-b", "chars=0-5", "bytes=0-1,5-6", "bytes 0-1"):
            reply = server.get(key, headers={"range": form})
            story.bytes(f"{turn} \"{form}\" is no range", reply, key, 0, size, status=200)
    for name, length in (("empty", 0), ("one", 1)):
        for turn in ("cold", "warm"):
            story.bytes(f"{turn}: an object of {length} bytes", server.get("bucket/" + name),
                        "bucket/" + name, 0, length, status=200)
    story.same("a range of nothing", server.get("bucket/empty", 0, 5).status, 416)

    reply = server.head(key)
    etag, modified = reply.headers["etag"], reply.headers["last-modified"]
    story.same("ETag is the origin's", etag, synthetic_etag(key, 1))
    before = formatdate(parsedate_to_datetime(modified).timestamp() - 100, usegmt=True)
    after = formatdate(parsedate_to_datetime(modified).timestamp() + 100, usegmt=True)
    origin.reset()
    for headers, status in (({"if-match": etag}, 200), ({"if-match": '"x"'}, 412),
                            ({"if-match": "*"}, 200),
                            ({"if-match": f'"x", {etag}'}, 200), ({"if-none-match": etag}, 304),
                            ({"if-none-match": '"x"'}, 200), ({"if-none-match": "*"}, 304),
                            ({"if-modified-since": modified}, 304),
                            ({"if-modified-since": before}, 200),
                            ({"if-unmodified-since": modified}, 200),
                            ({"if-unmodified-since": before}, 412),
                            ({"if-unmodified-since": after}, 200),
                            ({"if-match": etag, "if-unmodified-since": before}, 200),
                            ({"if-none-match": '"x"', "if-modified-since": modified}, 200),
                            ({"if-modified-since": "not a date"}, 200),
                            ({"if-range": etag, "range": "bytes=0-9"}, 206),
                            ({"if-range": '"x"', "range": "bytes=0-9"}, 200),
                            ({"if-match": '"x"', "range": "bytes=0-9"}, 412)):
        for method in ("GET", "HEAD"):
            reply = server.ask(method, key, headers=headers)
            story.same(f"{method} {headers}", reply.status, status)
            if status == 304:
                story.same("... with its ETag and no body", (reply.headers.get("etag"), reply.body),
                           (etag, b""))
    story.same("all of that was decided here", origin.counts()["requests"], 0)
    reply = server.ask("GET", key, query=[("response-content-type", "text/x"),
                                          ("response-cache-control", "no-store")])
    story.same("response-* overrides", (reply.headers.get("content-type"),
                                        reply.headers.get("cache-control")), ("text/x", "no-store"))
