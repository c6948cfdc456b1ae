"""Misses of a batch are fetched once and together; clients that leave or are slow, origins that cut."""
from batches import ask, document, frames, read_frames, tar
from harness import *

with Story("q04 batches that wait, end early, or leave") as story:
    origin = story.origin("objects=cold/%03d 200 4000", "objects=dup/%02d 20 4000", "objects=big/%02d 20 1500000",
                          "objects=cut/%02d 20 200000", "objects=small/%02d 20 30000", "objects=large/%02d 8 1500000")
    server = story.penstock(origin=origin.url, missing_time="0", origin_tries="1")
    client = server.client

    def gone(text):
        wait_for(text, lambda: server.metric("penstock_batch_memory_bytes") == 0 and
                 server.metric("penstock_origin_calls") == 0)
        story.fact(text, True)

    # ---- together, and once ----
    origin.tell("match=cold/* GET", "first_byte_ms=200")
    began = time.monotonic()
    got = frames(client, "cold", [f"{i:03d}" for i in range(200)])
    took = time.monotonic() - began
    story.fact("misses are right", all(i.body == expect(f"cold/{i.index:03d}", 1, 0, 4000) for i in got))
    story.in_time("200 misses of 0.2 s take about four turns of 64", took < 3, took)
    story.same("... each was asked for once", origin.counts()["get"], 200)
    origin.reset()
    origin.tell("match=dup/* GET", "first_byte_ms=200")
    keys = [f"{i % 20:02d}" for i in range(1000)]
    story.random.shuffle(keys)
    pieces = [[key, story.random.randrange(3000), 1000] for key in keys]
    first, second = together(lambda: frames(client, "dup", keys), lambda: frames(client, "dup", pieces))
    story.fact("duplicates are right", all(i.body == expect(f"dup/{keys[i.index]}", 1, 0, 4000) for i in first))
    story.fact("... their pieces too", all(i.body == expect(f"dup/{p[0]}", 1, p[1], 1000) for i, p in zip(second, pieces)))
    story.same("... of two batches at once, one GET an object", (origin.counts()["get"], origin.counts()["head"]), (20, 0))

    # ---- from the disk: reads are asked for together ----
    origin.quiet()
    server = server.restart()
    client = server.client
    for _ in range(5):    # if the first read is alone, the kernel's read-ahead may bring all others
        for path in server.extents():
            with open(path, "rb") as f:
                os.fsync(f.fileno())
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        got = frames(client, "cold", [f"{i:03d}" for i in range(200)])
        story.fact("what lies on the disk is right", all(i.body == expect(f"cold/{i.index:03d}", 1, 0, 4000) for i in got))
        gathered = server.metric("penstock_store_gathered_reads_total")
        if gathered > 1:
            break
    if server.metric("penstock_disk_reads_total"):    # else the file system keeps what it was told to forget
        story.fact("... and is read together", gathered > 1, gathered)

    # ---- an origin that cuts ----
    origin.tell("match=cut/05 GET", "cut_after=1000", "match=cut/07 GET", "status=500", "match=cut/09 GET", "hang=1", "times=1")
    origin.tell("match=small/05 GET", "cut_after=20000", "flip_after=10000")
    got = frames(client, "small", [f"{i:02d}" for i in range(10)])
    story.fact("a small item that breaks off is an item", [i.index for i in got if i.code] == [5], got)
    story.fact("... the others are whole", all(i.body == expect(f"small/{i.index:02d}", 1, 0, 30000) for i in got if not i.code))
    story.fact("... in tar too", [i.index for i in tar(client, "small", [f"{i:02d}" for i in range(10)]) if i.code] == [5])
    origin.tell("match=large/05 GET", "cut_after=900000", "flip_after=500000")
    reply = ask(client, "large", [f"{i:02d}" for i in range(8)])
    story.fact("a large one that breaks off, is reset", reply.status == 200 and (reply.error or "").startswith("reset"), reply)
    reply = ask(client, "large", [f"{i:02d}" for i in range(8)], form="tar")
    story.fact("... in tar too", reply.status == 200 and (reply.error or "").startswith("reset"), reply)
    story.fact("... which is counted", server.metric('penstock_http_cut_total') >= 2)
    got = frames(client, "cut", ["06", "07", "08"])
    story.same("an error of the origin is an item", [i.status for i in got], [200, 500, 200])
    origin.calm()

    # ---- a slow reader, and others beside it ----
    wire = Wire(server.port, receive_buffer=4096)
    wire.send(client.head_of("POST", "big", [("penstock-batch", "")], body=document([f"{i:02d}" for i in range(20)], form="frames")))
    time.sleep(0.5)
    story.fact("a reader that takes nothing keeps nobody", all(
        i.body == expect(f"cold/{i.index:03d}", 1, 0, 4000) for i in frames(client, "cold", [f"{i:03d}" for i in range(100)])))
    reply = wire.read("POST")
    got, whole = read_frames(reply.body)
    story.fact("... and has it all when it does", whole and all(
        i.body == expect(f"big/{i.index:02d}", 1, 0, 1_500_000) for i in got), reply)
    wire.close()

    # ---- a client that leaves ----
    origin.tell("objects=later/%03d 300 50000", "match=later/* GET", "first_byte_ms=400")
    for when in ("at once", "amid misses", "amid bytes"):
        wire = Wire(server.port)
        bucket = "big" if when == "amid bytes" else "later"
        wire.send(client.head_of("POST", bucket, [("penstock-batch", "")],
                                 body=document([f"{i:03d}" if bucket == "later" else f"{i % 20:02d}" for i in range(300)], form="frames")))
        if when != "at once":
            time.sleep(0.6)
        wire.abort()
        gone(f"nothing is held of a client that left {when}")
    wire = Wire(server.port)
    head = client.head_of("POST", "big", [("penstock-batch", "")], body=document(["00"] * 10 + [f"k{i}" for i in range(12000)]))
    wire.send(head)
    wire.abort()
    gone("nor of one that left while a long list was read")
    story.same("the daemon goes on", len(frames(client, "later", [f"{i:03d}" for i in range(300)])), 300)

    # ---- the way down: what is under way ends ----
    origin.tell("objects=last/%03d 100 50000", "match=last/* GET", "first_byte_ms=300")
    ends = []
    thread = threading.Thread(target=lambda: ends.append(frames(client, "last", [f"{i:03d}" for i in range(100)])))
    thread.start()
    wait_for("the batch has begun", lambda: origin.totals()["requests_open"] > 0)
    story.same("SIGTERM lets it end", server.stop(), 0)
    thread.join()
    story.fact("... whole", len(ends) == 1 and all(i.status == 200 for i in ends[0]), ends)

    # ---- little memory: one at a time, and still right ----
    tight = story.penstock(origin=origin.url, memory_readers="8MiB", memory_slots="8MiB", cache_dir=story.path("tight"),
                           batch_ahead="64MiB")
    origin.calm()
    keys = [f"{i % 20:02d}" for i in range(60)]
    wires = []
    for _ in range(4):    # readers that hold what they have
        wire = Wire(tight.port, receive_buffer=4096)
        wire.send(tight.client.head_of("POST", "big", [("penstock-batch", "")], body=document(keys, form="frames")))
        wires.append(wire)
    replies = together(*(lambda: frames(tight.client, "big", keys) for _ in range(3)))
    story.fact("with little memory it is right", all(
        i.body == expect(f"big/{keys[i.index]}", 1, 0, 1_500_000) for reply in replies for i in reply))
    for wire in wires:
        wire.abort()
    narrow = tight.metrics()['penstock_batch_limited_total{limit="ahead"}']
    story.note(f"one at a time: {narrow:.0f} batches")
