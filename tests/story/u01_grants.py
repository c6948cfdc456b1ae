"""Who may read what, against an origin that says so: a cached object, a place beside a fill and a
stale answer need the origin's word to who asks, and nobody's word is another's."""
from harness import *

ANNA, BEN = ("ANNATESTKEY", "anna/secret"), ("BENTESTKEY", "ben/secret")
KEYS = [{"access_key": k, "secret_key": s} for k, s in (ANNA, BEN)]
TOKEN = {"access_key": "TEMPTESTKEY", "secret_key": "temp/secret", "session_token": "the-token"}
SIZE = 300_000

with Story("u01 grants") as story:
    origin = story.origin("objects=bucket/%02d 30 300000", "objects=team/%02d 9 1000")
    # an hour of grant: what expires, expires in the second daemon below
    server = story.penstock(origin=origin.url, freshness="ttl", ttl="1h", missing_time="0",
                            keys=[*KEYS, TOKEN, {"anonymous": True}], grant_time="1h",
                            buckets={"team": {"grant_scope": "bucket"}})
    anna, ben, shared = Client(server.port, *ANNA), Client(server.port, *BEN), server.client
    nobody = Client(server.port)

    def refuse(key, who=BEN[0], method="", status=403):
        origin.tell(f"match={key}{method}", f"as={who}", f"status={status}")

    def settle(who, *keys):
        """What was read is in the cache folder."""
        origin.quiet()
        server.wait_cached(*keys, client=who)

    def asked(key):
        counts = origin.counts(key)
        return counts["get"], counts["head"]

    # ---- a hit needs a grant of one's own ----
    refuse("bucket/00")
    story.bytes("who may, reads it", anna.get("bucket/00"), "bucket/00", 0, SIZE)
    settle(anna, "bucket/00")
    reply = ben.get("bucket/00")
    story.fact("who may not, gets no byte of what is cached for another",
               reply.status == 403 and reply.code == "AccessDenied" and len(reply.body) < 1000, reply)
    for headers in ({"range": "bytes=0-9"}, {"if-none-match": '"x"'},
                    {"if-none-match": anna.head("bucket/00").headers["etag"]}):
        reply = ben.get("bucket/00", headers=headers)
        story.fact(f"nor by {headers}", reply.status == 403, reply)
    story.same("nor is told of it", ben.head("bucket/00").status, 403)
    story.fact("who may, still reads it from here", anna.get("bucket/00").cache == "hit")
    reply = plain(server.port, "GET", "/bucket/00")
    story.fact("who signs nothing is asked for unsigned", reply.status == 200
               and reply.body == expect("bucket/00", 1, 0, SIZE), reply)
    refuse("bucket/01", "-")
    story.bytes("and what others may", anna.get("bucket/01"), "bucket/01", 0, SIZE)
    reply = plain(server.port, "GET", "/bucket/01")
    story.fact("... is refused to nobody when the origin refuses it", reply.status == 403, reply)

    # ---- each asks once, in its own name ----
    origin.calm()
    origin.reset()
    for who in (anna, ben, shared, anna, ben, shared):
        story.bytes("each reads it", who.get("bucket/02"), "bucket/02", 0, SIZE)
        origin.quiet()
    story.same("one GET, and a HEAD in each other name", asked("bucket/02"), (1, 2))

    # ---- a refusal ends a grant at once ----
    settle(anna, "bucket/02")
    refuse("bucket/02")
    story.same("no question, no news", ben.get("bucket/02").status, 200)
    story.same("a question that is refused", ben.get("bucket/02", headers={"cache-control":
                                                                          "no-cache"}).status, 403)
    story.same("... ends the grant", ben.get("bucket/02").status, 403)
    story.same("... and no other's", anna.get("bucket/02").cache, "hit")

    # ---- joining a fill ----
    refuse("bucket/03")
    origin.tell("match=bucket/03 GET", "first_byte_ms=3000")
    leader = []
    thread = threading.Thread(target=lambda: leader.append(anna.get("bucket/03")))
    thread.start()
    wait_for("the fill is under way", lambda: origin.totals()["requests_open"] > 0)
    reply = ben.get("bucket/03")
    story.fact("who joins a fill is refused before it brings a byte", reply.status == 403
               and len(reply.body) < 1000 and not leader, reply)
    thread.join()
    story.bytes("the fill goes on", leader[0], "bucket/03", 0, SIZE)
    story.same("the object came once", origin.counts("bucket/03")["get"], 1)

    # ---- joining one's own question, after what ends a grant ----
    origin.calm()
    origin.tell("objects=rules/%02d 4 300000")
    slow, ahead = ("first_byte_ms=12000", "times=1"), []    # longer than all until they are joined

    def first(method, who, key, **query):
        """Asks while nothing is refused; the origin takes its time to answer."""
        origin.tell(f"match={key} {method}", *slow)
        ask = (lambda: who.list(key[:-1], **query)) if query else (lambda: who.ask(method, key))
        ahead.append((f"{method} {key}", threading.Thread(target=lambda: early.append(ask())), ask))
        ahead[-1][1].start()
        wait_for("it is asked", lambda: origin.totals()["requests_open"] == len(ahead))

    early = []
    for i, who in enumerate((anna, shared)):
        first("GET", who, f"bucket/2{i}")
        first("HEAD", who, f"bucket/2{i + 2}")
        first("LIST", who, "bucket/", prefix=f"2{i}")
        first("GET", who, f"rules/0{i}")
        first("HEAD", who, f"rules/0{i + 2}")
        first("LIST", who, "rules/", prefix=f"0{i}")
    story.same("the bucket's policy is changed", shared.ask("PUT", "rules", [("policy", "")],
                                                            body=b"{}").status, 200)
    for who in (ANNA[0], ORIGIN_KEY):
        origin.tell("match=bucket/2*", f"as={who}", "status=403", "match=bucket/ LIST",
                    f"as={who}", "status=403", "match=rules/*", f"as={who}", "status=403")
    for i, who in enumerate((anna, shared)):
        story.same("a refusal, of each kind", (who.head(f"bucket/2{i}").status, who.get(
            f"bucket/2{i + 2}").status, who.list("bucket", prefix="1").status), (403, 403, 403))
    for what, _, ask in ahead:
        reply = ask()
        story.fact(f"{what}: who asks after that is refused, too", reply.status == 403, reply)
    story.same("... though the question from before was under way", early, [])
    for _, thread, _ in ahead:
        thread.join()
    story.same("... and answers who asked before", [r.status for r in early], [200] * len(ahead))

    # ---- a leader's refusal is not the follower's ----
    story.same("a grant for all of a bucket", ben.get("team/00").status, 200)
    origin.tell("match=team/01 GET", "first_byte_ms=500", "match=team/01", f"as={ANNA[0]}",
                "status=403")
    thread = threading.Thread(target=lambda: leader.append(anna.get("team/01")))
    thread.start()
    wait_for("the leader is under way", lambda: origin.totals()["requests_open"] > 0)
    story.bytes("the follower reads in its own name", ben.get("team/01"), "team/01", 0, 1000)
    thread.join()
    story.same("the leader is refused", leader[1].status, 403)
    origin.reset()
    for i in range(2, 9):
        shared.get(f"team/{i:02}")
    settle(shared, *(f"team/{i:02}" for i in range(2, 9)))
    for i in range(2, 9):
        story.same("one grant reads the bucket from here", ben.get(f"team/{i:02}").cache, "hit")

    # ---- session tokens ----
    temp = Client(server.port, TOKEN["access_key"], TOKEN["secret_key"])
    reply = temp.get("bucket/04")
    story.same("a key that needs a token, without", (reply.status, reply.code),
               (403, "InvalidAccessKeyId"))
    reply = temp.get("bucket/04", headers={"x-amz-security-token": "another"})
    story.same("with a wrong one", (reply.status, reply.code), (400, "InvalidToken"))
    reply = anna.get("bucket/04", headers={"x-amz-security-token": "one"})
    story.same("one where none belongs", (reply.status, reply.code), (400, "InvalidToken"))
    reply = temp.get("bucket/04", headers={"x-amz-security-token": "the-token"})
    story.bytes("with its own", reply, "bucket/04", 0, SIZE)
    target = presign("GET", f"127.0.0.1:{server.port}", "/bucket/04", temp.key, temp.secret,
                     query=[("X-Amz-Security-Token", "the-token")])
    reply = plain(server.port, "GET", target)
    story.bytes("in a presigned URL", reply, "bucket/04", 0, SIZE)

    # ---- an outage is bridged for who has a grant, a write ends it ----
    origin.calm()
    story.same("a write", anna.put("bucket/05", b"new").status, 200)
    refuse("bucket/05")
    story.same("what another wrote is asked for anew", ben.get("bucket/05").status, 403)
    story.same("... and read by who may", anna.get("bucket/05").body, b"new")
    counted = [server.metric(f"penstock_grant{name}_total")
               for name in ("s_given", "s_revoked", "_checks")]
    story.fact("grants, refusals and questions are counted",
               counted[0] >= 10 and counted[1] >= 1 and counted[2] >= 5, counted)

    # ---- time ----
    quick = story.penstock(origin=origin.url, freshness="ttl", ttl="1h", keys=KEYS,
                           grant_time="2s", cache_dir=story.path("cache-2"), missing_time="0",
                           buckets={"team": {"grant_time": "0"}})
    ben = Client(quick.port, *BEN)
    origin.calm()
    story.same("a read", ben.get("bucket/10").status, 200)
    read = time.monotonic()    # the grant is from before this
    refuse("bucket/10")
    last_good, first_bad = read, None
    while time.monotonic() < read + PATIENCE and not first_bad:
        now = time.monotonic()
        if ben.get("bucket/10").status == 200:
            last_good = now
        else:
            first_bad = time.monotonic()
        time.sleep(0.05)
    story.fact("what was taken is served no longer than grant_time",
               first_bad and last_good - read <= 2.1, f"{last_good - read:.2f} s")
    story.same("with grant_time 0", ben.get("team/00").status, 200)
    origin.quiet()
    before = origin.counts("team/00")["head"]
    for _ in range(3):
        story.same("... each read", ben.get("team/00").status, 200)
    story.same("... is a question", origin.counts("team/00")["head"] - before, 3)
    refuse("team/00")
    story.same("... and ends at once", ben.get("team/00").status, 403)

    ben.get("bucket/11")
    origin.quiet()
    origin.tell("match=bucket/11", "status=503")
    time.sleep(2.1)
    reply = ben.get("bucket/11")
    story.fact("without a live grant an outage is an outage", reply.status == 503, reply)
