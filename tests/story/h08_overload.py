"""More is asked of the origin than it gives: what is here is served, what would wait too long gets
SlowDown at once or in time, nobody hangs, and what is admitted is done at the origin's full speed."""
from harness import *

CONNECTIONS, FETCHES, MISSES, HITS = 4, 24, 200, 400

with Story("h08 more misses than the origin can serve") as story:
    origin = story.origin("objects=bucket/warm/%02d 20 100000", "objects=bucket/cold/%03d 200 3000",
                          "objects=bucket/later/%03d 40 3000")
    server = story.penstock(origin=origin.url, origin_connections=CONNECTIONS, fetches_max=FETCHES, origin_tries=1)
    for i in range(20):
        server.get(f"bucket/warm/{i:02d}")
    wait_for("the warm ones are stored", lambda: all(server.get(f"bucket/warm/{i:02d}").cache == "hit" for i in range(20)))
    origin.tell("match=bucket/cold/*", "first_byte_ms=400")
    hits, misses = [], []

    def warm():
        client = Client(server.port, keep=True)
        for i in range(HITS):
            hits.append(client.get(f"bucket/warm/{i % 20:02d}"))

    def cold(i):
        misses.append(Client(server.port).get(f"bucket/cold/{i:03d}"))
    together(warm, *[lambda i=i: cold(i) for i in range(MISSES)])
    story.same("every hit was served from here", sum(r.status == 200 and r.cache == "hit" for r in hits), HITS)
    served, shed = [r for r in misses if r.status == 200], [r for r in misses if r.status == 503]
    story.same("every miss was answered", len(served) + len(shed), MISSES)
    story.fact("as many as may be asked for at once were served, at least", len(served) >= FETCHES, len(served))
    story.fact("the others were told to slow down, and when to come again",
               shed and all(r.code == "SlowDown" and r.headers.get("retry-after") == "1" for r in shed), shed[:3])
    story.same("each refused one is counted", server.metric("penstock_cache_fetches_refused_total"), len(shed))
    story.same("the origin saw no more than was served", origin.counts()["get"] - 20, len(served))
    story.bytes("what was refused can be had later", Client(server.port).get("bucket/cold/199"), "bucket/cold/199", 0, 3000)

    server = server.restart(origin_wait_time="600ms", fetches_max=4096)
    origin.calm()
    origin.tell("match=bucket/later/*", "hang=1")
    began = time.monotonic()
    wires = []
    for i in range(40):
        wires.append(Wire(server.port, 20))
        wires[-1].send(server.client.head_of("GET", f"bucket/later/{i:03d}"))
    wait_for("all but those with a connection have waited too long",
             lambda: server.metric("penstock_origin_waited_out_total") == 40 - CONNECTIONS)
    took = time.monotonic() - began
    for wire in wires:
        wire.socket.settimeout(1)
    answers = [wire.read() for wire in wires]
    story.same("they got SlowDown, the others wait for the origin",
               sorted(((r.status, r.code, r.error) for r in answers), key=str),
               sorted([(0, "", "timeout")] * CONNECTIONS + [(503, "SlowDown", None)] * (40 - CONNECTIONS), key=str))
    story.fact("... when the time was over, not before", took > 0.55, took)
    story.same("the origin is not held to have failed", "last_failure\":\"never" in
               plain(server.admin_port, "GET", "/status").body.decode().replace(" ", ""), True)
    for wire in wires:
        wire.abort()
