"""A body that names what to delete, however it is written, keeps nobody else waiting."""
from harness import *

HEAD, TAIL = b"<Delete><Object><Key>in/a</Key></Object>", b"</Delete>"
LARGE = 2 * MIB


def filled(piece, size=LARGE, head=HEAD, tail=TAIL):
    return head + piece * ((size - len(head) - len(tail)) // len(piece)) + tail


def attributes(count):
    return HEAD + b"<x " + b" ".join(b"a%d=''" % i for i in range(count)) + b"/>" + TAIL


with Story("w13 the keys to delete are read beside the loops") as story:
    origin = story.origin("object=bucket/a 1000")
    server = story.penstock(origin=origin.url, loops=1, keys=[{"anonymous": True}])
    server.get("bucket/a")
    waits, stop = [], threading.Event()

    def hits():
        client = Client(server.port, keep=True)
        while not stop.is_set():
            begun = time.monotonic()
            check(client.get("bucket/a").status == 200, "a hit")
            waits.append(time.monotonic() - begun)
            time.sleep(0.002)

    reader = threading.Thread(target=hits, daemon=True)
    reader.start()
    for what, body, codes in (
            ("elements", filled(b"<x/>"), {""}), ("pieces of text", filled(b"&amp;", head=HEAD + b"<Q>", tail=b"</Q>" + TAIL), {""}),
            ("attributes", attributes(190_000), {"MalformedXML"}),
            ("keys", b"<Delete>" + b"".join(b"<Object><Key>in/%s%d</Key></Object>" % (b"&#97;" * 380, i) for i in range(1000)) + TAIL, {""})):
        waits.clear()
        replies = together(*[lambda: plain(server.port, "POST", "/bucket?delete", body)] * 4)
        story.same(f"{what}, {len(body) >> 10} KiB", {reply.code for reply in replies}, codes)
        story.in_time("... and hits go on", max(waits) < 0.5, f"{max(waits) * 1000:.0f} ms")
    stop.set()
    reader.join()
