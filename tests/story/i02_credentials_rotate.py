"""Credentials change under load, and no read fails; when they can't be had, clients are told so."""
from harness import *
from lender import Lender

OFF = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "",
       "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
       "AWS_EC2_METADATA_DISABLED": "true"}

with Story("i02 credentials rotate") as story:
    lender = Lender(life=4)    # renewed at half of it
    server = story.penstock(True, {**OFF, "AWS_CONTAINER_CREDENTIALS_FULL_URI":
                                   lender.url + "/container"}, origin=lender.url,
                            origin_access_key="", origin_secret_key=None, access_log=False)

    def keys():
        return json.loads(plain(server.admin_port, "GET", "/status").body)["origins"][0]["credentials"]

    over, bad, good = threading.Event(), [], [0] * 4

    def read(number):
        client = Client(server.port, keep=True)
        while not over.is_set():
            key = f"bucket/{number}-{good[number]}"
            reply = client.ask("HEAD" if good[number] % 5 == 4 else "GET", key)
            want = f"/{key}".encode() * 50
            if reply.status != 200 or (reply.body and reply.body != want):
                bad.append((key, reply))
            good[number] += 1
            time.sleep(0.005)
    readers = [threading.Thread(target=read, args=(n,)) for n in range(4)]
    for reader in readers:
        reader.start()
    wait_for("keys came and went", lambda: len(lender.seen_by) >= 4)
    lender.delay = 1           # a slow source holds nobody up
    wait_for("... from a slow source, too", lambda: len(lender.seen_by) >= 6)
    lender.delay, lender.life = 0, 12

    def lent_for(seconds):
        return keys()["expires"] > time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    wait_for("some for 12 s were lent", lambda: lent_for(8))
    lender.down = 500          # one that fails, either, while those at hand are good
    wait_for("asked for new ones, it fails", lambda: "Penstock keeps using the last credentials" in server.log())
    lender.down, lender.life = 0, 3600
    wait_for("long-lived ones were lent", lambda: lent_for(1800))
    refused = lender.refused
    story.same("renewed before they expire: the origin refused none", refused, 0)
    so_far = list(good)
    story.same("the metric has the time of expiry",
               time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(server.metric("penstock_origin_credentials_expire_seconds"))),
               keys()["expires"])
    lender.revoke()            # the origin takes them no more, long before their time
    wait_for("which it finds out", lambda: lender.refused > refused)
    wait_for("... and all read on", lambda: all(now > then + 20 for now, then in zip(good, so_far)))
    over.set()
    for reader in readers:
        reader.join()
    story.same("no read failed", bad[:3], [])
    story.fact("there were many", sum(good) > 300, good)
    story.fact("what was refused was asked again, once", 0 < lender.refused - refused <= 12,
               lender.refused - refused)

    # ---- expired, and nobody to ask
    lender.life = 3
    lender.revoke()
    server.get("bucket/short")
    lender.down = 500
    time.sleep(4)
    reply = server.get("bucket/later")
    story.same("expired: clients are to try again", (reply.status, reply.code),
               (503, "ServiceUnavailable"))
    story.fact("and who runs it is told", "Penstock has no valid credentials" in server.log()
               and keys()["last_failure_why"], server.log()[-800:])
    story.same("what is cached is served", server.get("bucket/short").status, 200)
    lender.down = 0
    wait_for("it heals by itself", lambda: server.get("bucket/later").status == 200)
    lender.delay = 30
    lender.life = 1
    began = time.monotonic()
    story.same("a source that hangs holds up no end", server.stop(), 0)
    story.in_time("... for long", time.monotonic() - began < 5, time.monotonic() - began)

    # ---- files that are written anew
    path = story.path("credentials")

    def write(key):
        with open(path + ".new", "w") as f:
            f.write(f"[default]\naws_access_key_id={key}\naws_secret_access_key=s\n")
        os.rename(path + ".new", path)
    lender.static, lender.delay = {"FIRST": ""}, 0
    write("FIRST")
    server = story.penstock(True, {**OFF, "AWS_SHARED_CREDENTIALS_FILE": path}, origin=lender.url,
                            origin_access_key="", origin_secret_key=None,
                            cache_dir=story.path("files"))
    story.same("keys in a file", server.get("bucket/f1").status, 200)
    lender.static = {"SECOND": ""}
    write("SECOND")
    story.same("other keys in it: taken when the first are refused",
               server.get("bucket/f2").status, 200)
    server.stop()

    # ---- an instance's role: what it lent is used beyond its end, as long as the origin takes it
    lender.static, lender.life = {}, 3600
    lender.expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))
    role = {**OFF, "AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": lender.url}
    server = story.penstock(True, role, origin=lender.url, origin_access_key="",
                            origin_secret_key=None, freshness="always", cache_dir=story.path("role"))
    story.same("lent when they had expired already: used", server.get("bucket/r1").status, 200)
    lender.down = 500
    story.same("and while nobody can lend any", server.get("bucket/r2").status, 200)
    lender.revoke()
    for method in "GET", "HEAD":
        story.same(f"refused at last: clients are to try again ({method})",
                   server.ask(method, "bucket/r3").status, 503)
    story.fact("and who runs it is told", "credentials_failed" in server.log()
               and "origin_refused" in server.log(), server.log()[-800:])
    lender.down, lender.expires = 0, None
    wait_for("it heals by itself", lambda: server.get("bucket/r1").status == 200)
    server.stop()

    # ---- renewed while a read is under way, and then all are revoked that were ever lent
    lender.life, lender.hold = 3, threading.Event()
    server = story.penstock(True, {**OFF, "AWS_CONTAINER_CREDENTIALS_FULL_URI": lender.url + "/container"},
                            origin=lender.url, origin_access_key="", origin_secret_key=None,
                            cache_dir=story.path("twice"))

    def renew_and_revoke():
        time.sleep(0.3)        # the read is there
        lender.life = 3600
        wait_for("long-lived ones were lent", lambda: lent_for(1800))
        lender.revoke()
        lender.hold.set()
    refused = lender.refused
    story.same("its keys and those after them are refused: the source is asked", together(
        lambda: server.get("bucket/t1").status, renew_and_revoke)[0], 200)
    story.same("... when both were", lender.refused - refused, 2)
    server.stop()
