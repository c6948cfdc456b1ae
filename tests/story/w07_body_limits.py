"""Large and slow bodies: their room is taken before their first byte, and they must come along."""
from harness import *

NO_ROOM, SHARE, SLOW = ('penstock_http_refused_total{cause="%s"}' % cause for cause in ("no_room", "share", "slow_body"))
HELD = "penstock_http_body_disk_bytes"


def head_of(server, key, size, chunked=False):
    fields = {"transfer-encoding": "chunked", "x-amz-decoded-content-length": str(size)} if chunked else {"content-length": str(size)}
    head = server.client.head_of("PUT", key, headers=fields, payload="UNSIGNED-PAYLOAD").decode()
    return head.replace("content-length: 0\r\n", "").encode() if chunked else head.encode()


def refused_at_once(story, server, text, head, code, size=5 * MIB):
    """Only the head is sent, and it is answered."""
    wire = Wire(server.port)
    wire.send(head.replace("\r\n\r\n", f"\r\ncontent-length: {size}\r\n\r\n", 1).encode())
    reply = wire.read()
    story.same(text, (reply.code, server.metrics()[HELD]), (code, 0))
    wire.close()


def too_many_keys(story, server):
    fields = {"transfer-encoding": "chunked", "x-amz-decoded-content-length": str(3 * MIB)}
    head = server.client.head_of("POST", "bkt", [("delete", "")], headers=fields, payload="UNSIGNED-PAYLOAD").decode()
    wire = Wire(server.port)
    wire.send(head.replace("content-length: 0\r\n", "").encode())
    story.same("nor more than 1,000 keys can fill to be deleted, in HTTP's chunks either", wire.read().code, "MalformedXML")
    wire.close()


def begun(server, key, size, chunked=False):
    wire = Wire(server.port)
    wire.send(head_of(server, key, size, chunked))
    return wire


def crowd_of(server, count, size, held):
    """Bodies that are begun and not ended, and one more."""
    crowd = [begun(server, f"bkt/crowd-{i}", size) for i in range(count)]
    wait_for("they have their room", lambda: server.metrics()[HELD] // size == held)
    more = begun(server, "bkt/one-more", size)
    code = more.read().code
    more.close()
    return crowd, code


def pace(wire, data, piece, every):
    """Sends until the other side has enough; how long that took, and what it says."""
    start = time.monotonic()
    try:
        for at in range(0, len(data), piece):
            wire.send(data[at:at + piece])
            time.sleep(every)
    except OSError:
        pass
    reply = wire.read()
    wire.close()
    return time.monotonic() - start, reply


def rss_anon(server):
    with open(f"/proc/{server.pid}/status") as f:
        return int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1)) / 1024


with Story("w07 bodies have a budget on disk, a pace and an end") as story:
    origin = story.origin("object=bkt/k 1000")
    folder = story.path("folder")
    os.mkdir(folder)
    reader = ("READERTESTKEY", "reader/secret")
    keys = [{"access_key": reader[0], "secret_key": reader[1], "policy": [{"allow": ["read"], "on": ["bkt"]}, {"allow": ["write"], "on": ["bkt/mine"]}]}]
    server = story.penstock(origin=origin.url, keys=keys, origins={"folder": {"url": f"dir:{folder}"}},
                            buckets={"folder": {"origin": "folder"}}, bodies_disk="8MiB", body_memory="64KiB", bodies_memory="1MiB",
                            request_time="60s")
    # Only here a body must come soon: elsewhere one is held as long as the story needs it.
    paced = story.penstock(origin=origin.url, bodies_disk="8MiB", body_memory="64KiB", bodies_memory="1MiB", cache_dir=story.path("paced"),
                           body_progress="40KiB", body_progress_time="1s", request_time="3s")
    # ---- who may not have a body taken in is told so before it comes ----
    bare = {"host": f"127.0.0.1:{server.port}"}

    def signed(method, key, client=server.client):
        return client.head_of(method, key, headers=bare, payload="UNSIGNED-PAYLOAD").decode().replace("content-length: 0\r\n", "")

    target = presign("GET", bare["host"], "/bkt/k", *reader)
    refused_at_once(story, server, "a presigned GET is no way to leave a body here", f"GET {target} HTTP/1.1\r\nHost: {bare['host']}\r\n\r\n", "InvalidRequest")
    for method in ("GET", "HEAD", "DELETE", "OPTIONS"):
        refused_at_once(story, server, f"nor is any {method}", signed(method, "bkt/k"), "InvalidRequest" if method != "HEAD" else "")
    refused_at_once(story, server, "who may only read can't", signed("PUT", "bkt/k", Client(server.port, *reader)), "AccessDenied")
    refused_at_once(story, server, "nor anybody where nothing is written", signed("PUT", "folder/k"), "MethodNotAllowed")
    refused_at_once(story, server, "nor under a name that is none", signed("PUT", "b!/k"), "InvalidBucketName")
    too_many_keys(story, server)
    client = Client(server.port, *reader, keep=True)
    story.same("with a small body the connection goes on", [(client.put("bkt/k", b"x" * 1000).code, client.wire is not None) for _ in range(2)],
               [("AccessDenied", True)] * 2)
    client.wire.close()
    large = story.random.randbytes(5 * MIB)
    for chunked in (False, True):
        wire = begun(server, "bkt/huge", 20 * MIB, chunked)
        story.same("more than there is room for is refused before its body", wire.read().code, "SlowDown")
        wire.close()
    story.same("which is counted", server.metrics()[NO_ROOM], 2)
    for chunked in (False, True):
        holder = begun(server, "bkt/held", len(large), chunked)
        wait_for("all of its room is taken at once", lambda: 5 * MIB <= server.metrics()[HELD] < 6 * MIB)
        wire = begun(server, "bkt/second", len(large), chunked)
        story.same("a second one finds none", wire.read().code, "SlowDown")
        holder.abort()
        wait_for("who leaves gives it back", lambda: server.metrics()[HELD] == 0)
        wire.close()
    # ---- one client does not take the room of all, but where there is no other ----
    crowd, code = crowd_of(server, 2, 2 * MIB - 4 * KIB, 2)
    other = Client(server.port, *reader)
    story.same("one client holds half and gets no more", (code, server.metrics()[SHARE], server.metrics()[NO_ROOM]), ("SlowDown", 1, 4))
    story.same("another is served", other.put("bkt/mine/other", large[:3 * MIB]).status, 200)
    for wire in crowd:
        wire.abort()
    wait_for("who leaves gives it back", lambda: server.metrics()[HELD] == 0)
    alone = story.penstock(origin=origin.url, bodies_disk="8MiB", body_memory="64KiB", bodies_memory="1MiB", cache_dir=story.path("alone"))
    crowd, code = crowd_of(alone, 4, 2 * MIB, 4)
    story.same("a client that is the only one may hold all", (code, alone.metrics()[SHARE], alone.metrics()[NO_ROOM]), ("SlowDown", 0, 1))
    for wire in crowd:
        wire.abort()
    story.same("... and ends cleanly", alone.stop(), 0)

    origin.tell("match=bkt/again PUT", "status=503", "times=2")
    story.same("what the origin fails is sent again", server.put("bkt/again", large).status, 200)
    story.same("from where it lies", origin.counts("bkt/again")["sha256"], hashlib.sha256(large).hexdigest())

    story.same("a body's room is free again when its answer comes: the next may come at once",
               [server.put(f"bkt/next-{i}", large).status for i in range(20)], [200] * 20)

    took, reply = pace(begun(paced, "bkt/steady", 400_000), large[:400_000], 40_000, 0.2)
    story.same("a slow body that comes along is taken", (reply.status, took > 1.5), (200, True))
    took, reply = pace(begun(paced, "bkt/trickle", 400_000), large[:400_000], 1000, 0.05)
    story.fact("one that does not is refused", reply.code == "RequestTimeout", (reply, took))
    story.in_time("... soon", took < 8, took)
    took, reply = pace(begun(paced, "bkt/endless", 4_000_000), large[:4_000_000], 50_000, 0.1)
    story.fact("as is one that takes too long in all", reply.code == "RequestTimeout" and 2.9 < took, (reply, took))
    story.in_time("... when it has", took < 8, took)
    story.same("both are counted", paced.metrics()[SLOW], 2)
    story.same("no origin saw them", [origin.counts(f"bkt/{key}")["put"] for key in ("trickle", "endless", "huge", "held")], [0] * 4)
    wait_for("no room is lost", lambda: server.metrics()[HELD] == paced.metrics()[HELD] == 0)

    story.same("SIGTERM ends it cleanly", server.stop(), 0)
    there = os.statvfs(server.cache_dir)
    reserve = (there.f_bavail * there.f_frsize >> 20) - 3072
    if reserve > 0:
        server = server.again(bodies_disk="64GiB", cache_reserve=f"{reserve}MiB")
        crowd = [begun(server, f"bkt/{i}", 2 * GIB) for i in range(3)]
        wait_for("the others are refused", lambda: server.metrics()[NO_ROOM] == 2)
        story.same("of three that come at once, one gets the room above the reserve",
                   server.metrics()[HELD] // GIB, 2)
        for wire in crowd:
            wire.abort()
        story.same("... and ends cleanly", server.stop(), 0)
    server, size = server.again(bodies_disk="1GiB", body_progress_time="30s", request_time="60s"), 160 * MIB
    idle, wire, piece = rss_anon(server), begun(server, "bkt/large", size), bytes(MIB)
    for _ in range(size // MIB - 1):
        wire.send(piece)
    wait_for("its last part is awaited", lambda: server.metrics()[HELD] >= size)
    story.fact("a large body is no memory of the process", rss_anon(server) < idle + 64, (idle, rss_anon(server)))
    wire.send(piece)
    story.same("and it arrives", (wire.read().status, origin.counts("bkt/large")["sha256"]),
               (200, hashlib.sha256(bytes(size)).hexdigest()))
    story.fact("... nor when it is verified and sent", rss_anon(server) < idle + 64, (idle, rss_anon(server)))
