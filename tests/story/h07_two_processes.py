"""A new process is started while the old one drains: it serves at once, without the cache folder,
and takes that when the old one has gone; nobody who reads is disturbed."""
from harness import *

SIZE = 24 * MIB

with Story("h07 a new process beside one that drains") as story:
    origin = story.origin()
    settings = dict(origin=origin.url, drain_time="30s")
    old = story.penstock(**settings)
    keys = [f"bucket/size-{300_000 + i}-k{i}" for i in range(8)]
    for i, key in enumerate(keys):
        story.bytes(f"{key} is read", old.get(key), key, 0, 300_000 + i)
    wait_for("all is committed", lambda: all(old.get(key).cache == "hit" for key in keys))
    long_key = f"bucket/size-{SIZE}-long"
    reading = []
    reader = threading.Thread(target=lambda: reading.append(old.get(long_key, pace=2 * MIB)), daemon=True)
    reader.start()
    wait_for("a long read is under way", lambda: origin.totals()["get"] > len(keys))
    old.process.terminate()
    wait_for("the old one drains", lambda: "draining" in old.log())
    new = Penstock(story, old.settings)
    story.note(f"the new one was ready after {new.ready_s:.2f} s")
    story.fact("the old one is still at work", old.alive() and not reading)
    story.fact("the new one says why it has no folder yet", "another process" in new.log(), new.log()[-800:])
    story.bytes("it serves without it", new.get(keys[0]), keys[0], 0, 300_000)
    body = story.random.randbytes(10_000)
    story.same("a write goes through it", new.put(keys[1], body).status, 200)
    story.same("and is read", new.get(keys[1]).body, body)
    reader.join(30)
    story.bytes("the long read through the old one is whole", reading[0], long_key, 0, SIZE)
    story.same("the old one ends cleanly", old.process.wait(20), 0)
    wait_for("the new one has the folder", lambda: b'"serving"' in plain(new.port, "GET", "/_/health/ready").body)
    story.same("what was written meanwhile is not read old", new.get(keys[1]).body, body)
    again = new.get(keys[2])
    story.bytes("what the old one kept is served", again, keys[2], 0, 300_002)
    origin.reset()
    story.bytes("from the cache", new.get(keys[2]), keys[2], 0, 300_002)
    story.same("with no request to the origin", origin.counts()["requests"], 0)
