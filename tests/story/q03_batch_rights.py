"""Nobody reads by a batch what they can't read by a GET: policy, grants, the origin's refusals."""
from batches import ask, frames, tar
from harness import *

ANNA, BEN, PREFIX, NOBODY = (("ANNATESTKEY", "anna/secret"), ("BENTESTKEY", "ben/secret"), ("PREFIXTESTKEY", "prefix/secret"),
                             ("LISTTESTKEY", "list/secret"))

with Story("q03 a batch reads what its client may") as story:
    origin = story.origin("objects=bucket/mine/%02d 20 5000", "objects=bucket/theirs/%02d 20 5000", "object=other/key 10")
    server = story.penstock(origin=origin.url, missing_time="0", freshness="ttl", ttl="1h", grant_time="1h", keys=[
        *({"access_key": k, "secret_key": s} for k, s in (ANNA, BEN)),
        {"access_key": PREFIX[0], "secret_key": PREFIX[1], "policy": [{"allow": ["read"], "on": ["bucket/mine/"]}]},
        {"access_key": NOBODY[0], "secret_key": NOBODY[1], "policy": [{"allow": ["list", "write"], "on": ["bucket"]}]}])
    shared = server.client
    anna, ben, prefix, nobody = (Client(server.port, *who) for who in (ANNA, BEN, PREFIX, NOBODY))

    def codes(items):
        return [(i.status, i.code) for i in items]
    DENIED = (403, "AccessDenied")

    # ---- a policy by prefix ----
    story.same("the shared identity may", codes(frames(shared, "bucket", ["mine/00", "theirs/00"])), [(200, "")] * 2)
    got = frames(prefix, "bucket", ["mine/00", "theirs/00", "mine/01", "mine/../theirs/00", "theirs/none"])
    story.same("who may read a prefix", codes(got), [(200, ""), DENIED, (200, ""), DENIED, DENIED])
    story.fact("... sees nothing of the rest", all(not i.body and not i.size and not i.etag for i in got if i.code), got)
    story.same("... in tar", codes(tar(prefix, "bucket", ["theirs/00", "mine/00"])), [DENIED, (200, "")])
    story.same("... nor by a prefix of the list", codes(frames(prefix, "bucket", ["heirs/00"], prefix="t")), [DENIED])
    story.same("the batch ends there if asked so", codes(frames(prefix, "bucket", ["mine/00", "theirs/00", "mine/01"],
                                                                on_error="end")), [(200, ""), DENIED])
    reply = ask(prefix, "other", ["key"])
    story.same("a bucket of which it may read nothing", (reply.status, reply.code), (403, "AccessDenied"))
    reply = ask(nobody, "bucket", ["mine/00"])
    story.same("who may not read at all", (reply.status, reply.code), (403, "AccessDenied"))
    reply = ask(Client(server.port, ANNA[0], "wrong"), "bucket", ["mine/00"])
    story.same("a wrong signature", (reply.status, reply.code), (403, "SignatureDoesNotMatch"))
    reply = ask(shared, "bucket", ["mine/00"], sign_it=False)
    story.same("no signature", reply.status, 403)
    before = len([line for line in server.log().splitlines() if '"policy_refused"' in line])
    frames(prefix, "bucket", [f"theirs/{i}" for i in range(5000)])
    after = len([line for line in server.log().splitlines() if '"policy_refused"' in line])
    story.fact("thousands of refusals are counted, and a few logged", 0 < after - before <= 20
               and server.metric("penstock_policy_refused_total") >= 5000, after - before)

    # ---- identities of their own ----
    origin.quiet()
    time.sleep(0.3)
    origin.tell("match=bucket/theirs/*", f"as={BEN[0]}", "status=403")
    items = ["mine/00", "theirs/00", "mine/05", "theirs/05"]
    story.same("who may read all", codes(frames(anna, "bucket", items)), [(200, "")] * 4)
    for what in ("asked for the first time", "again"):
        story.same(f"who may not, {what}", codes(frames(ben, "bucket", items)), [(200, ""), DENIED, (200, ""), DENIED])
    story.same("... as by GET", [ben.get(f"bucket/{key}").status for key in items], [200, 403, 200, 403])
    origin.reset()
    story.same("with grants", codes(frames(anna, "bucket", items)), [(200, "")] * 4)
    story.same("... nobody is asked", origin.counts()["requests"], 0)

    # ---- joined fills: a refusal to one is not another's ----
    origin.tell("objects=bucket/theirs/n%02d 10 5000", "match=bucket/theirs/n* GET", "first_byte_ms=300")
    new = [f"theirs/n{i:02d}" for i in range(10)]
    got = together(lambda: codes(frames(anna, "bucket", new)), lambda: codes(frames(ben, "bucket", new)),
                   lambda: codes(frames(anna, "bucket", new)))
    story.same("two at once, and one who may not", got, [[(200, "")] * 10, [DENIED] * 10, [(200, "")] * 10])

    # ---- what the origin says ----
    origin.calm()
    origin.tell("objects=bucket/odd%d 5 5000", "match=bucket/odd1", "status=403", "match=bucket/odd2", "status=418", "code=Teapot",
                "match=bucket/odd3", "status=404")
    got = codes(frames(shared, "bucket", [f"odd{i}" for i in range(5)]))
    story.same("its refusals are items", got, [(200, ""), DENIED, (418, "Teapot"), (404, "NoSuchKey"), (200, "")])
