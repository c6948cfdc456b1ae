"""A signed GET that names registered memory: all but the bytes is as for any GET, and they lie there."""
from filler import Filler, Memory
from harness import *

ANNA, BEN = ("ANNATESTKEY", "anna/secret"), ("BENTESTKEY", "ben/secret")
SIZE = 300_000

with Story("x05 get into buffer") as story:
    origin = story.origin("objects=pile/%d 10 300000")
    path = story.path("fill.sock")
    keys = [{"access_key": k, "secret_key": s} for k, s in (ANNA, BEN)]
    server = story.penstock(origin=origin.url, fill_socket=path, freshness="ttl", ttl="1h", keys=keys)
    page = json.loads(plain(server.port, "GET", "/_/fill").body)
    story.same("the page says that it is on", (page["on"], page["sessions"]), (True, 0))
    anna, filler = Client(server.port, *ANNA), Filler(path, *ANNA)
    memory = Memory(1 << 20)
    buffer = filler.register(memory)["buffer"]

    def get(key, offset, who=anna, id=buffer, headers=None, **how):
        memory.guard(0, memory.size)
        return who.get(key, headers={"x-penstock-buffer": f"{id}:{offset}", **(headers or {})}, **how)

    def filled(reply, key, offset, first=0, length=SIZE):
        return (reply.headers.get("x-penstock-filled") == str(length) and reply.body == b""
                and memory.map[offset:offset + length] == expect(key, 1, first, length)
                and memory.untouched(0, offset) and memory.untouched(offset + length, memory.size))

    def by_body(what, reply, first=0, length=SIZE, key="pile/0"):
        story.fact(f"{what}: an ordinary answer", "x-penstock-filled" not in reply.headers
                   and reply.body == expect(key, 1, first, length) and memory.untouched(0, memory.size), reply)

    for cache in ("miss", "hit"):
        reply = get("pile/0", 777)
        story.fact(f"a {cache}", reply.status == 200 and reply.cache == cache and filled(reply, "pile/0", 777),
                   (reply, dict(reply.headers)))
        story.same("... has no length", reply.headers["content-length"], "0")
        origin.quiet()
        time.sleep(0.4)
    etag = anna.head("pile/0").headers["etag"]
    story.same("... and its ETag", reply.headers["etag"], etag)
    reply = get("pile/0", 0, first=1000, last=200_999)
    story.fact("a range", reply.status == 206 and filled(reply, "pile/0", 0, 1000, 200_000)
               and reply.headers["content-range"] == "bytes 1000-200999/300000", reply)
    reply = get("pile/0", 5, suffix=100)
    story.fact("a suffix", reply.status == 206 and filled(reply, "pile/0", 5, SIZE - 100, 100), reply)
    reply = get("pile/0", 0, headers={"x-amz-checksum-mode": "ENABLED"})
    story.fact("no checksum that an SDK would compare with an empty body", filled(reply, "pile/0", 0) and
               not any(name.startswith("x-amz-checksum") for name in reply.headers), reply)

    # ---- errors, and conditions, as ever ----
    story.same("no such key", get("pile/nothing", 0).code, "NoSuchKey")
    story.same("beyond the end", get("pile/0", 0, first=SIZE, last=SIZE + 1).status, 416)
    story.same("a condition", get("pile/0", 0, headers={"if-none-match": etag}).status, 304)
    story.same("another", get("pile/0", 0, headers={"if-match": '"x"'}).status, 412)
    story.fact("nothing was written for those", memory.untouched(0, memory.size))

    # ---- where it can't be ----
    by_body("no room", get("pile/0", (1 << 20) - SIZE + 1))
    by_body("an offset beyond", get("pile/0", 1 << 40))
    by_body("no such buffer", get("pile/0", 0, id="01" * 16))
    reply = get("pile/0", 0, id="01" * 16, headers={"x-penstock-required": "true"})
    story.same("... or 501, for who would rather have none", (reply.status, reply.code), (501, "NotImplemented"))
    for value in ("", buffer, buffer + ":", buffer + ":-1", "x" * 32 + ":0", buffer + ":99999999999999999999"):
        reply = anna.get("pile/0", headers={"x-penstock-buffer": value})
        story.same(f"nonsense {value[-12:]!r}", (reply.status, reply.code), (400, "InvalidArgument"))

    # ---- whose it is ----
    ben = Client(server.port, *BEN)
    by_body("another client's buffer", get("pile/0", 0, who=ben))
    origin.tell("match=pile/1", f"as={ANNA[0]}", "status=403")
    story.same("who may read", ben.get("pile/1").status, 200)
    reply = get("pile/1", 0)
    story.same("who may not", (reply.status, reply.code), (403, "AccessDenied"))
    story.fact("... has not a byte", memory.untouched(0, memory.size))
    filler.close()
    wait_for("the session ends", lambda: server.metric("penstock_fill_sessions") == 0)
    by_body("a buffer whose session has ended", get("pile/0", 0))

    # ---- it fails in the middle; its client leaves ----
    filler = Filler(path, *ANNA)
    buffer = filler.register(memory)["buffer"]
    origin.tell("match=pile/2", "first_byte_ms=600")
    wire = Wire(server.port)
    wire.send(anna.head_of("GET", "pile/2", headers={"x-penstock-buffer": f"{buffer}:0"}))
    time.sleep(0.2)
    wire.abort()
    wait_for("nothing is left of a client that left", lambda: json.loads(
        plain(server.port, "GET", "/_/fill").body)["fills"] == 0)
    reply = get("pile/3", 0, id=buffer)
    story.fact("and the next is filled", filled(reply, "pile/3", 0), reply)
    origin.tell("match=pile/4", "first_byte_ms=600")
    slow = []
    thread = threading.Thread(target=lambda: slow.append(anna.get("pile/4", headers={"x-penstock-buffer": f"{buffer}:0"})))
    thread.start()
    time.sleep(0.2)
    filler.close()
    thread.join()
    filler = Filler(path, *ANNA)
    buffer = filler.register(memory)["buffer"]
    origin.tell("match=pile/5", "first_byte_ms=600")
    thread = threading.Thread(target=lambda: slow.append(anna.get("pile/5", headers={
        "x-penstock-buffer": f"{buffer}:0", "x-penstock-required": "true"})))
    thread.start()
    time.sleep(0.2)
    filler.close()
    thread.join()
    story.same("... but where none is wanted", (slow[1].status, slow[1].code), (501, "NotImplemented"))
    story.fact("a session that ends under it: an ordinary answer", slow[0].status == 200 and
               slow[0].body == expect("pile/4", 1, 0, SIZE), slow)
