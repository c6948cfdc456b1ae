"""New metadata under the same ETag are seen although somebody still reads the object."""
from harness import *

with Story("c10 an object is given other metadata while it is read") as story:
    origin = story.origin()
    server = story.penstock(origin=origin.url, freshness="always")
    direct, key, body = Client(origin.port, ORIGIN_KEY,
                               ORIGIN_SECRET), "bucket/m", story.random.randbytes(3 * MIB)
    direct.put(key, body, {"x-amz-meta-colour": "red"})
    time.sleep(1.1)    # Last-Modified has whole seconds
    origin.tell(f"match={key} GET", "bandwidth=1000000")
    reader = Wire(server.port, 30)
    reader.send(server.client.head_of("GET", key))
    wait_for("a read is under way", lambda: origin.totals()["requests_open"] > 0)
    time.sleep(0.2)
    direct.put(key, body, {"x-amz-meta-colour": "blue"})
    story.fact("it still is", origin.totals()["requests_open"] > 0)
    want = direct.head(key).headers
    for turn in ("a HEAD", "another one"):
        got = server.head(key).headers
        story.same(f"{turn} sees the new ones", (got.get("x-amz-meta-colour"), got["last-modified"]), ("blue", want["last-modified"]))
    story.same("a GET does", server.get(key, 0, 9).headers.get("x-amz-meta-colour"), "blue")
    story.fact("the reader has its bytes", (reply := reader.read()).body == body
               and not reply.error, reply)
