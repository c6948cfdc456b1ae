"""SIGTERM while reads, writes, lists and fills are under way, and the origin hangs: a clean end,
nothing left over."""
from harness import *

with Story("h04 the way down in the middle of everything") as story:
    origin = story.origin("objects=bucket/d/%02d 40 100-3000000")
    server = story.penstock(origin=origin.url, drain_time="300ms", freshness="ttl", ttl="0s",
                            grace="0s")
    server.get("bucket/d/00")
    origin.tell("match=bucket/d/1* GET", "hang=1", "match=bucket/d/2* GET", "bandwidth=100000",
                "match=bucket/w/* PUT", "hang=1",
                "match=bucket/d/3* HEAD", "hang=1", "match=bucket/ LIST", "hang=1")
    wires = []
    for i in range(10, 40):
        for asked in (("GET", f"bucket/d/{i}"), ("HEAD", f"bucket/d/{i}"),
                      ("PUT", f"bucket/w/{i}", bytes(10)),
                      ("PUT", f"bucket/d/{i}", bytes(300_000)), ("DELETE", "bucket/d/00"),
                      ("GET", "bucket", b"", [("list-type", "2")])):
            method, key, body, query = (*asked, b"", ())[:4] if len(asked) < 4 else asked
            wires.append(Wire(server.port, 20))
            wires[-1].send(server.client.head_of(method, key, query, body=body))
    wait_for("the origin is busy", lambda: origin.totals()["requests_open"] >= 20)
    began = time.monotonic()
    status, took = server.stop(20), time.monotonic() - began
    story.same("SIGTERM: it ends", status, 0)
    story.fact("... soon after the time to drain", 0.2 < took < 5, f"{took:.1f} s")
    answers = [wire.read("GET") for wire in wires]
    story.fact("nobody got a short answer that looks whole",
               not [a for a in answers if a.status == 200 and not a.error
                    and len(a.body) != int(a.headers["content-length"])])
    story.note(f"{sum(1 for a in answers if a.status)} of {len(answers)} were answered in {took:.1f} s")
