"""What the origin refused to Penstock's own identity is not served in it later: neither after the cache
folder came from another process, nor after kill -9, nor under other credentials of ours."""
from harness import *

OFF = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "", "AWS_CONFIG_FILE": "/dev/null",
       "AWS_EC2_METADATA_DISABLED": "true"}
NEWEST = {"cache-control": "no-cache"}

with Story("u04 what was refused stays refused", seconds=150) as story:
    origin = story.origin("objects=bucket/%02d 60 30000", "objects=spare/%02d 9 1000")

    def warm(server, *keys):
        for key in keys:
            wait_for(f"{key} is cached", lambda: server.get(key).cache == "hit")

    def refuse(key, who=ORIGIN_KEY):
        origin.tell(f"match={key}", f"as={who}", "status=403")

    def refused(what, server, *keys):
        for key in keys:
            reply = server.get(key)
            story.fact(f"{what}: {key} is refused", reply.status == 403, reply)

    # ---- a new process has not got the folder yet ----
    def hand_over(name, key, meanwhile):
        """An old process that holds the folder and a new one that waits for it, told of something."""
        settings = dict(origin=origin.url, missing_time="0", freshness="immutable", cache_dir=story.path(name))
        old = story.penstock(**settings)
        warm(old, key)
        new = story.penstock(**settings)
        if meanwhile:
            meanwhile(new, key)
        return old, new

    def hears_a_refusal(new, key):
        refuse(key)
        refused("without the folder", new, key)

    def changes_an_acl(new, key):
        origin.tell(f"match={key} PUT", "status=200")    # and the object stays as it is
        reply = new.ask("PUT", key, [("acl", "")], headers={"x-amz-acl": "private"})
        story.same("an ACL is changed through it", reply.status, 200)
        refuse(key)

    pairs = [hand_over("heard", "bucket/00", hears_a_refusal), hand_over("acl", "bucket/01", changes_an_acl),
             hand_over("crashed", "bucket/02", hears_a_refusal), hand_over("quiet", "bucket/03", None)]
    time.sleep(4)    # half a second, and a slow disk: the note for the next one
    pairs[2][1].kill()
    for old, _ in pairs:
        story.same("the old one ends", old.stop(), 0)
    pairs[2] = None, pairs[2][1].again()
    for _, new in pairs:
        wait_for("the new one has the folder", lambda: '"serving":1' in new.log())
    refused("what it heard", pairs[0][1], "bucket/00")
    refused("what it changed", pairs[1][1], "bucket/01")
    refused("what one heard that was killed before it had the folder", pairs[2][1], "bucket/02")
    origin.reset()
    story.same("where nothing went by, it is served", pairs[3][1].get("bucket/03").cache, "hit")
    story.same("... without a word from the origin", origin.counts()["requests"], 0)
    for _, new in pairs:
        new.stop()

    # ---- killed as soon as it has said so ----
    for freshness in "immutable", "ttl":
        server = story.penstock(origin=origin.url, missing_time="0", freshness=freshness,
                                cache_dir=story.path("killed-" + freshness))
        keys = [f"bucket/{i:02}" for i in range(10, 14)]
        origin.calm()
        warm(server, *keys, "spare/00")
        for key in keys:
            refuse(key)
            story.same("asked anew, it is refused", server.head(key, headers=NEWEST).status, 403)
            server.kill()
            server = server.again()
            refused(f"{freshness}, killed then", server, key)
        story.same("what was not is served", server.get("spare/00").status, 200)
        server.stop()

    # ---- other keys of ours in between, in the file that is read anew now and then ----
    path = story.path("credentials")

    def write_keys(key):
        with open(path + ".new", "w") as f:
            f.write(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = s-{key}\n")
        os.rename(path + ".new", path)

    def keys_of(server):
        return json.loads(plain(server.admin_port, "GET", "/status").body)["origins"][0]["credentials"]["access_key"]
    write_keys("AKEY")
    server = story.penstock(True, {**OFF, "AWS_SHARED_CREDENTIALS_FILE": path}, origin=origin.url, origin_access_key="",
                            origin_secret_key=None, missing_time="0", cache_dir=story.path("keys"))
    warm(server, "bucket/20")
    refuse("bucket/20", "AKEY")
    story.same("refused to A", server.get("bucket/20", headers=NEWEST).status, 403)
    server = server.restart()    # so that it is known from the disk alone
    write_keys("BKEY")
    wait_for("its keys are B", lambda: keys_of(server) == "BKEY")
    story.same("shown to B", server.get("bucket/20").status, 200)
    time.sleep(0.5)
    write_keys("AKEY")
    server = server.restart()
    story.same("its keys are A again", keys_of(server), "AKEY")
    refused("whatever B was shown", server, "bucket/20")
    server.stop()

    # ---- another role, in the same settings ----
    server = story.penstock(origin=origin.url, missing_time="0", origin_access_key="ASIAROLEA", origin_secret_key="sa",
                            origin_session_token="ta", cache_dir=story.path("role"))
    warm(server, "bucket/30")
    server = server.restart()
    origin.reset()
    story.same("the same role, after a restart", server.get("bucket/30").cache, "hit")
    story.same("... is not asked for", origin.counts()["requests"], 0)
    refuse("bucket/30", "ASIAROLEB")
    server = server.restart(origin_access_key="ASIAROLEB", origin_secret_key="sb", origin_session_token="tb")
    refused("what another role's key of a session brought", server, "bucket/30")
