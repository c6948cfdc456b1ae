"""What a batch may ask for has limits, and lists that are wrong are told where."""
from batches import ask, document, frames, read_frames, tar
from harness import *


def limited(server, limit):
    return server.metrics()[f'penstock_batch_limited_total{{limit="{limit}"}}']


with Story("q02 limits of batches, and hostile lists") as story:
    origin = story.origin("objects=bucket/%04d 50 4096", "objects=large/%02d 40 300000")
    server = story.penstock(origin=origin.url, batch_items="100", batch_list="64KiB", batch_bytes="1MiB",
                            batch_time="6s", memory_batches="1MiB", missing_time="0")
    client = server.client
    frames(client, "bucket", [f"{i:04d}" for i in range(50)])

    # ---- lists that are wrong ----
    deep = b'{"items":' + b"[" * 2000
    for what, body, says in (
            ("no JSON", b"{", "read the body as JSON: line 1"), ("nothing", b"", "read the body as JSON"),
            ("not an object", b"[]", "the body must be a JSON object"), ("deep", deep, "the body"),
            ("no items", b"{}", "&quot;items&quot; must be an array"),
            ("a wrong item", document(["a", ["b", 0, "7"]]), "items[1]: &quot;length&quot; must be a whole number of bytes, or -1"),
            ("a misspelt member", document([{"key": "k", "ofset": 1}]), "did you mean &quot;offset&quot;"),
            ("a wrong form", document([], form="zip"), "&quot;form&quot; must be"),
            ("a member twice", b'{"items":[],"items":[]}', "given twice"),
            ("no UTF-8", b'{"items":["\xff"]}', "read the body as JSON"),
            ("a NUL", b'{"items":["a\\u0000"]}', "read the body as JSON"),
            ("a long key", document(["k" * 1025]), "items[0]: &quot;key&quot; must have 1 to 1024 bytes"),
            ("a place", document([["k", 0, 1, 2]]), "items[0]: &quot;to&quot; is only for a fill")):
        reply = ask(client, "bucket", None, body=body)
        story.fact(f"{what} is refused in words", (reply.status, reply.code) == (400, "InvalidArgument")
                   and says.encode() in reply.body, (reply, reply.body))
    reply = ask(client, "bucket", ["0001"], headers={"x-amz-request-payer": "requester"})
    story.fact("a header that would be lost is refused", reply.status == 501 and b"x-amz-request-payer" in reply.body, reply)
    reply = ask(client, "bucket", ["0001"], payload="0" * 64)
    story.same("a body that is not what was signed", reply.status, 400)
    reply = client.ask("POST", "bucket", query=[("penstock-batch", ""), ("delete", "")], body=document([]))
    story.same("two operations at once", reply.status, 400)
    for method, key in (("GET", "bucket"), ("POST", "bucket/key"), ("PUT", "bucket/key")):
        reply = client.ask(method, key, query=[("penstock-batch", "")], body=b"")
        story.same(f"no {method} of {key} by that name", (reply.status, reply.code), (405, "MethodNotAllowed"))
    story.same("no origin heard of any", [l for l in origin.log_lines() if "penstock" in " ".join(l)], [])

    # ---- limits ----
    story.same("100 items", len(frames(client, "bucket", ["0001"] * 100)), 100)
    reply = ask(client, "bucket", ["0001"] * 101)
    story.fact("not 101", reply.status == 400 and b"&quot;items&quot; has 101 elements, and may have at most 100" in reply.body, reply.body)
    reply = ask(client, "bucket", None, body=document([0] * 15000))
    story.fact("nor many small things", reply.status == 400 and b"the body has too many JSON values. A list may have at most 100 items: ask for fewer" in reply.body, reply.body)
    story.same("... which is counted", limited(server, "batch_items"), 2)
    reply = ask(client, "bucket", None, body=document(["0001"]) + b" " * 200_000)
    story.same("a list that is too long is refused before it is taken in", (reply.status, reply.code), (400, "EntityTooLarge"))
    story.same("... which is counted", limited(server, "batch_list"), 1)
    got = frames(client, "large", [f"{i:02d}" for i in range(6)] + [["00", 0, 1]])
    story.same("a MiB of bytes", [(i.status, i.code, len(i.body)) for i in got],
               [(200, "", 300_000)] * 3 + [(413, "EntityTooLarge", 0)] * 4)
    story.same("... and tar", [i.code for i in tar(client, "large", [f"{i:02d}" for i in range(6)])],
               [""] * 3 + ["EntityTooLarge"] * 3)
    story.same("... which is counted", limited(server, "batch_bytes"), 2)
    origin.tell("match=bucket/late GET", "first_byte_ms=12000")
    began = time.monotonic()
    got = frames(client, "bucket", ["0001", "late", *["0002"] * 80])
    story.same("after batch_time nothing is begun", [(i.status, i.code) for i in (got[0], got[1], got[-1])],
               [(200, ""), (503, "RequestTimeout"), (503, "RequestTimeout")])
    story.fact("... what was read before is told", got[2].body == expect("bucket/0002", 1, 0, 4096), got[2])
    story.in_time("... which is six seconds", 5.5 < time.monotonic() - began < 9, time.monotonic() - began)
    story.same("... which is counted", limited(server, "batch_time"), 1)

    # ---- memory, all together ----
    origin.calm()
    origin.tell("objects=bucket/hang%d 4 1000", "match=bucket/hang* GET", "first_byte_ms=3000")
    replies = together(*(lambda i=i: ask(client, "bucket", ["0001", f"hang{i}"]) for i in range(4)))
    refused = [r for r in replies if r.status == 503]
    story.fact("batches that find no room get SlowDown", 0 < len(refused) < 4 and all(r.code == "SlowDown" for r in refused),
               replies)
    story.same("... which is counted", limited(server, "memory_batches"), len(refused))
    story.fact("... the others are whole", all(read_frames(r.body)[1] for r in replies if r.status == 200), replies)
    wait_for("nothing is held after", lambda: server.metric("penstock_batch_memory_bytes") == 0)
    story.same("nothing is held after", server.metric("penstock_batch_memory_bytes"), 0)

    # ---- how far it reads ahead ----
    narrow = story.penstock(origin=origin.url, batch_gets="4", batch_ahead="64KiB", cache_dir=story.path("narrow"))
    origin.calm()
    origin.tell("objects=cold/%02d 40 4096", "match=cold/*", "first_byte_ms=60")
    began = time.monotonic()
    story.same("four at a time", len(frames(narrow.client, "cold", [f"{i:02d}" for i in range(40)])), 40)
    story.fact("... take ten turns", time.monotonic() - began > 0.55, time.monotonic() - began)
    story.same("... which is counted", limited(narrow, "batch_gets"), 1)
    got = frames(narrow.client, "large", [f"{i:02d}" for i in range(40)])
    story.fact("large ones are read one by one", all(i.body == expect(f"large/{i.index:02d}", 1, 0, 300_000) for i in got))
    story.same("... by batch_ahead", limited(narrow, "batch_ahead") > 0, True)
