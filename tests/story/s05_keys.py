"""A key is bytes: nothing is normalised, nothing is decoded twice."""
from harness import *

with Story("s05 odd keys") as story:
    origin = story.origin()
    server = story.penstock(origin=origin.url)
    direct = Client(origin.port, ORIGIN_KEY, ORIGIN_SECRET)
    keys = ["a//b", "a/./b", "a/../b", "../b", ".", "..", "/a", "//", "a/", "a%2Fb", "a%20b", "a%b",
            "%", "a+b", "a b",
            "a&b=c", "a?b", "a#b", "a;b", "a=b", "a:b@c", "a'b", 'a"b', "a<b>c", "a\\b",
            "a|b^c`d{e}", "tab\there",
            "größe", "日本語/ファイル", "e\u0301 and \u00e9", "🚰", "x" * 1024, "ü" * 512, "~-_.!*'()",
            "a,b", "penstock-batch", "_", "_/x"]
    for number, key in enumerate(keys):
        body = f"body of number {number}".encode()
        placed = direct.put("bucket/" + key, body)
        if placed.status != 200:
            story.fact(f"the origin takes {key[:30]!r}", False, placed)
    for turn in ("cold", "warm"):
        for number, key in enumerate(keys):
            reply = server.get("bucket/" + key)
            story.fact(f"{turn} {key[:30]!r}", reply.status == 200 and reply.body == f"body of number {number}".encode(), f"{reply} {reply.body[:80]!r}")
    listed = server.list("bucket", encoding_type="url")
    story.same("a listing with encoding-type=url shows them all", listed.body.count(b"<Key>"),
               len(keys))
    reply = server.get("bucket/" + "x" * 1025)
    story.same("1,025 bytes are too many", (reply.status, reply.code), (400, "KeyTooLongError"))
    reply = server.get("bucket/" + "ü" * 513)
    story.same("1,026 bytes in 513 characters too", (reply.status, reply.code),
               (400, "KeyTooLongError"))
    for target in ("/bucket/a%zz", "/bucket/a%", "/bucket/a%00b"):
        reply = plain(server.port, "GET", target)
        story.fact(f"{target} is refused", reply.status in (400, 403), reply)
    for bucket in ("ab", "A-Upper", "-start", "a..b", "x" * 64):
        reply = server.get(bucket + "/k")
        story.fact(f"bucket {bucket[:10]!r} is refused or not there", reply.status in (400, 404),
                   reply)
