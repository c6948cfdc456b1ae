"""Where every client has an origin identity of its own, Penstock needs no credentials of its own: serve starts,
check is content, and the origin decides. HEAD / is answered as the origin answers it."""
from harness import *
from radosgw import *

NO_KEYS = {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}


def run(*argv):
    done = subprocess.run([PENSTOCK, *argv], env={**own_env(), **NO_KEYS}, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


with Story("u05 clients with identities of their own, and nobody else") as story:
    gateway = Radosgw(story)
    main, alt = gateway.users["main"], gateway.users["alt"]
    direct = gateway.client("main")
    direct.put("bucket", b""), direct.put("bucket/a", b"of main")
    rows = [{"access_key": user.key, "secret_key": user.secret} for user in (main, alt)]
    bare = {"access_key": None, "secret_key": None, "origin_access_key": None, "origin_secret_key": None}
    server = story.penstock(origin=gateway.url, keys=rows, freshness="ttl", cache_writes=True, env=NO_KEYS, **bare)
    mine, theirs = Client(server.port, main.key, main.secret), Client(server.port, alt.key, alt.secret)

    story.same("its owner reads it", mine.get("bucket/a").body, b"of main")
    wait_for("it is cached", lambda: mine.get("bucket/a").cache == "hit")
    story.same("nobody else does", theirs.get("bucket/a").status, 403)
    story.same("a write, which fills the cache", mine.put("bucket/b", b"new").status, 200)
    wait_for("it is there", lambda: mine.get("bucket/b").cache == "hit")
    story.same("a list", b"<Key>b</Key>" in mine.list("bucket").body, True)
    server.ask = mine.ask
    for client, there in ((mine, direct), (theirs, gateway.client("alt"))):
        ours, origins = client.ask("HEAD", ""), there.ask("HEAD", "")
        story.same("HEAD / is answered as the origin answers it", (ours.status, ours.headers.get("content-type")),
                   (origins.status, origins.headers.get("content-type")))
    story.fact("the log says that there are no credentials of Penstock's own", '"event":"credentials"' in server.log()
               and "of its own" in server.log(), server.log()[:3000])
    story.fact("and nothing failed", "credentials_failed" not in server.log(), server.log()[-2000:])
    code, text = run("check", server.config_path)
    story.same(f"check finds nothing wrong: {text}", code, 0)

    def reload_with(keys):
        with open(server.config_path, "w") as f:
            json.dump({**server.settings, "keys": keys}, f)
        before = server.log().count('"event":"reload')
        os.kill(server.pid, signal.SIGHUP)
        wait_for("the reload", lambda: server.log().count('"event":"reload') > before)
        return [json.loads(line) for line in server.log().splitlines() if '"event":"reload' in line][-1]
    line = reload_with([*rows, {"access_key": "jobs", "secret_key": "jobs/secret", "policy": "all"}])
    story.same("a client with a policy can't join", line["event"], "reload_refused")
    story.fact("... and the sentence says what to set", "origin_access_key" in line["why"] and "keys[2]" in line["why"], line)
    story.same("... and who was there still is", mine.get("bucket/a").status, 200)
    story.same("without it, it is taken", reload_with(rows)["event"], "reloaded")

    with open(story.path("shared.json"), "w") as f:
        json.dump({**server.settings, "keys": [*rows, {"access_key": "jobs", "secret_key": "jobs/secret", "policy": "all"}]}, f)
    code, text = run("serve", "--config", story.path("shared.json"))
    story.fact("serve with a policy and no credentials does not start", code == 1 and "no credentials" in text, (code, text))
    code, text = run("check", story.path("shared.json"))
    story.fact("nor does check call it fine", code != 0 and "no credentials" in text, (code, text))

    gate = story.versity()
    through = story.penstock(origin=gate.url, cache_dir=story.path("other"))
    ours, origins = through.ask("HEAD", ""), gate.client.ask("HEAD", "")
    story.same("HEAD / of versitygw", (ours.status, ours.headers.get("content-type")), (origins.status, origins.headers.get("content-type")))
    ours, origins = through.ask("HEAD", "", [("max-buckets", "1")]), gate.client.ask("HEAD", "", [("max-buckets", "1")])
    story.same("... with a parameter", ours.status, origins.status)
    ours, origins = through.ask("HEAD", "", [("unheard-of", "1")]), gate.client.ask("HEAD", "", [("unheard-of", "1")])
    story.same("... with one that nobody knows", ours.status, origins.status)
    os.makedirs(story.path("tree/bucket"))
    folder = story.penstock(origin=f"dir:{story.path('tree')}", cache_dir=story.path("third"))
    story.same("HEAD / of a directory", (folder.ask("HEAD", "").status, folder.ask("GET", "").status), (200, 200))
