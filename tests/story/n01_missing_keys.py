"""A key that was not there is asked for once in missing_time; a write of it ends that at once."""
from harness import *

with Story("n01 a missing key is known to be missing, until it is written") as story:
    origin = story.origin("object=bucket/there 1000")
    server = story.penstock(origin=origin.url, missing_time="60s")
    direct = Client(origin.port)

    first = server.get("bucket/absent")
    story.same("the first read is refused by the origin", (first.status, first.code), (404, "NoSuchKey"))
    second = server.get("bucket/absent")

    def words(reply):    # each request has an id of its own
        return re.sub(rb"<RequestId>[^<]*", b"", reply.body)
    story.same("the second gets the same answer", (second.status, words(second)), (404, words(first)))
    story.same("... and says where it is from", second.cache, "negative-hit")
    story.same("... which was asked once", origin.counts("bucket/absent")["get"], 1)
    story.same("a HEAD is asked for itself", (server.head("bucket/absent").status, server.head("bucket/absent").cache,
                                              origin.counts("bucket/absent")["head"]), (404, "negative-hit", 1))
    direct.put("bucket/absent", b"put elsewhere")
    story.same("no-cache asks the origin", server.get("bucket/absent", headers={"cache-control": "no-cache"}).body,
               b"put elsewhere")
    story.fact("it is counted", server.metric("penstock_cache_negative_hits_total") >= 2)

    server.get("bucket/put")
    story.same("a missing key is put", (server.get("bucket/put").cache, server.put("bucket/put", b"new").status),
               ("negative-hit", 200))
    story.same("... and is there at once", server.get("bucket/put").body, b"new")
    server.delete("bucket/put")
    story.same("deleted, it is not", server.get("bucket/put").status, 404)

    # the origin says 404 late, to a question from before a PUT that has ended meanwhile
    origin.tell("match=bucket/race GET", "late_ms=1500", "times=1")
    late = []

    def reads():
        late.append(server.get("bucket/race"))

    def writes():
        wait_for("the origin is asked", lambda: origin.totals()["requests_open"] > 0)
        story.same("a PUT while it is asked is acknowledged", server.put("bucket/race", b"raced").status, 200)
    together(reads, writes)
    story.same("the late answer is the one from before", late[0].status, 404)
    story.same("... and nobody is told it later", server.get("bucket/race").body, b"raced")

    # nothing is remembered where each use must ask
    always = story.penstock(origin=origin.url, missing_time="60s", freshness="always", cache_dir=story.path("always"))
    always.get("bucket/always")
    direct.put("bucket/always", b"now")
    story.same("with freshness always, each read asks", always.get("bucket/always").body, b"now")
    off = story.penstock(origin=origin.url, missing_time="0", cache_dir=story.path("off"))
    off.get("bucket/off")
    direct.put("bucket/off", b"now")
    story.same("with missing_time 0 too", off.get("bucket/off").body, b"now")
