"""SIGTERM while reads, writes, lists and fills are under way, and the origin hangs: a clean end,
nothing left over."""
from harness import *

with Story("h04 the way down in the middle of everything") as story:
    origin = story.origin("objects=bucket/d/%02d 40 100-3000000")
    sizes = origin.sizes([f"bucket/d/{i:02d}" for i in range(40)])
    body = bytes(300_000)
    server = story.penstock(origin=origin.url, drain_time="300ms", freshness="ttl", ttl="0s",
                            grace="0s")
    server.get("bucket/d/00")
    server.get("bucket/d/01")
    wait_for("it is stored", lambda: server.get("bucket/d/01").cache in ("hit", "revalidated", "stale"))
    origin.tell("match=bucket/d/1* GET", "hang=1", "match=bucket/d/2* GET", "bandwidth=100000",
                "match=bucket/w/* PUT", "hang=1",
                "match=bucket/d/3* HEAD", "hang=1", "match=bucket/ LIST", "hang=1")
    wires = [(Wire(server.port, 20), "GET", "bucket/d/01")]    # waits for a listing page, then none comes
    wires[0][0].send(server.client.head_of("GET", "bucket/d/01"))
    for i in range(10, 40):
        for asked in (("GET", f"bucket/d/{i}"), ("HEAD", f"bucket/d/{i}"),
                      ("PUT", f"bucket/w/{i}", bytes(10)),
                      ("PUT", f"bucket/d/{i}", body), ("DELETE", "bucket/d/00"),
                      ("GET", "bucket", b"", [("list-type", "2")])):
            method, key, sent, query = (*asked, b"", ())[:4] if len(asked) < 4 else asked
            wires.append((Wire(server.port, 20), method, key))
            wires[-1][0].send(server.client.head_of(method, key, query, body=sent))
    wait_for("the origin is busy", lambda: origin.totals()["requests_open"] >= 20)
    began = time.monotonic()
    status, took = server.stop(20), time.monotonic() - began
    story.same("SIGTERM: it ends", status, 0)
    story.in_time("... soon after the time to drain", 0.2 < took < 5, f"{took:.1f} s")
    answers = [(wire.read(method), method, key) for wire, method, key in wires]

    def is_wrong(reply, method, key):
        """A read has every byte of one version, or is seen to be cut; a cut one has right bytes."""
        if method != "GET" or reply.status != 200:
            return reply.status not in (0, 200, 204, 500, 502, 503, 504)
        if key == "bucket":
            return not reply.error and not reply.body.endswith(b"</ListBucketResult>")
        want = (expect(key, 1, 0, sizes[key]), body)
        return not any(w.startswith(reply.body) if reply.error else w == reply.body for w in want)
    story.same("nobody got wrong bytes, or a short answer that looks whole",
               [a for a in answers if is_wrong(*a)], [])
    read = [reply for reply, method, key in answers if method == "GET" and reply.status == 200]
    story.fact("some reads were whole, and some were cut", any(r.error for r in read)
               and any(r.body and not r.error for r in read), read)
    story.note(f"{sum(1 for a in answers if a[0].status)} of {len(answers)} were answered in {took:.1f} s")
