"""penstock-purge: once it has answered, no byte that the cache had before is served from it, under load, across
kill -9, and whatever is on its way in. Usage: y03_purge.py [ROUNDS [KILLS]]."""
from guards import guarded
from harness import *

ROUNDS, KILLS = (int(sys.argv[i]) if len(sys.argv) > i else n for i, n in ((1, 20), (2, 2)))
SMALL, BIG = 20_000, 1_500_000    # WHOLE records; several records of units
KEYS = [f"pile/{p}/{i}" for p in ("train", "val") for i in range(6)]
SIZES = {key: BIG if key.endswith(("4", "5")) else SMALL for key in KEYS}
TRAIN = [key for key in KEYS if "/train/" in key]

with Story("y03 a purge is complete when it answers", seconds=100 + 3 * ROUNDS) as story:
    use_tests_daemon()
    origin = story.origin(*(f"object={key} {size}" for key, size in SIZES.items()), "object=other/a 100")
    keys = [{"access_key": name, "secret_key": name.lower(), "policy": [{"allow": allow, "on": on}]}
            for name, allow, on in (("PURGEKEY", ["cache"], ["pile/train/"]),
                                    ("WRITEKEY", ["read", "list", "write", "admin"], ["pile"]))]
    keys.append({"access_key": "OWNKEY", "secret_key": "ownkey"})

    def daemon(name, **changes):
        return story.penstock(origin=origin.url, cache_dir=None, cache_size=None, freshness="immutable", keys=keys,
                              cache_dirs=[{"path": story.path(f"{name}-{n}"), "size": "64MiB"} for n in "ab"], **changes)

    server = daemon("cache")
    version = dict.fromkeys(KEYS, 1)

    def purge(client=None, bucket="pile", to=None, **query):
        reply = (client or to or server.client).ask("POST", bucket, [("penstock-purge", "")] + [
            (n.replace("_", "-"), v) for n, v in query.items()])
        return reply.status, json.loads(reply.body) if reply.status == 200 else reply.code

    def flip(glob, keys):
        origin.tell(f"flip={glob}")
        for key in keys:
            version[key] += 1

    def version_of(reply, key):
        """Which version the body is; None if it is none, or not whole. The origin may be ahead of `version`."""
        for v in range(version[key] + 1, max(version[key] - 3, 0), -1):
            if reply.body == expect(key, v, 0, SIZES[key]):
                return v
        return None

    def warm(keys=KEYS):
        wait_for("all is cached", lambda: all([server.get(key).cache == "hit" for key in keys]))

    # ---- what it answers ----
    warm()
    story.same("a dry run counts", purge(prefix="train/", dry_run=""),
               (200, {"purged": False, "objects": 6, "cached_bytes": 4 * SMALL + 2 * BIG, "complete": True, "folders_out": [], "extents_unread": 0}))
    story.same("... a key, too", purge(key="train/4", dry_run="")[1]["cached_bytes"], BIG)
    story.same("... and changes nothing", {server.get(key).cache for key in KEYS}, {"hit"})
    status, answer = purge(prefix="train/")
    story.same("a purge answers", (status, answer["purged"], answer["folders_out"]), (200, True, []))
    origin.quiet()
    before = origin.counts()["requests"]
    story.same("what has another prefix stays", {server.get(key).cache for key in KEYS if key not in TRAIN}, {"hit"})
    story.same("... without the origin", origin.counts()["requests"], before)
    story.same("the rest is read from the origin", {server.get(key).cache for key in TRAIN}, {"miss"})
    warm()

    def in_force(**query):
        reply = server.client.ask("GET", "pile", [("penstock-purge", "")] + list(query.items()))
        story.same("the purges in force are listed", reply.status, 200)
        return [json.loads(line) for line in reply.body.splitlines()]
    wait_for("the sweep ends", lambda: in_force() == [])
    story.same("the sweep deleted the records", server.metric("penstock_store_swept_records_total") >= 6, True)
    story.same("... and no other", {server.get(key).cache for key in KEYS}, {"hit"})

    # ---- one key ----
    flip("pile/train/4", ["pile/train/4"])
    flip("pile/train/1", ["pile/train/1"])
    story.same("a purge of a key", purge(key="train/4")[0], 200)
    story.same("it is read anew, whole", version_of(server.get("pile/train/4"), "pile/train/4"), version["pile/train/4"])
    story.same("... but no other key", version_of(server.get("pile/train/1"), "pile/train/1"), version["pile/train/1"] - 1)

    # ---- a purge that waits for the sweep ----
    control = story.path("failpoints")
    house = daemon("waits", env={"PENSTOCK_FAILPOINTS": control})
    for key in TRAIN:
        house.get(key)
    wait_for("all is cached", lambda: all([house.get(key).cache == "hit" for key in TRAIN]))
    with open(control, "w") as f:
        f.write("sweep stop\n")
    waiting = subprocess.Popen([PENSTOCK, "purge", "--wait", "s3://pile/train/"], stdout=subprocess.PIPE,
                               env={**own_env(), **house.client_env(), "PENSTOCK_CONFIG": "/nonexistent"})
    story.same("the command says that it purged", waiting.stdout.readline(), b"purged s3://pile/train/\n")
    wait_for("the sweep has begun", lambda: os.path.exists(control + ".hits"))
    story.same("a purge of the bucket replaces this purge", purge(to=house.client, prefix="")[0], 200)
    listed = [json.loads(line) for line in house.client.ask("GET", "pile", [("penstock-purge", ""), ("prefix", "train/")]).body.splitlines()]
    story.same("... and is listed in its place, with the folders", [(row["prefix"], row["folders"], row["folders_out"]) for row in listed], [("", [1, 2], [])])

    def requests():
        return sum(int(n) for name, n in house.metrics().items() if name.startswith("penstock_requests_total"))
    before = requests()
    wait_for("the command asks again, or ends", lambda: requests() >= before + 2 or waiting.poll() is not None)
    story.same("... and does not end before the sweep", waiting.poll(), None)
    os.remove(control)
    story.same("... but after it", (waiting.wait(PATIENCE), waiting.stdout.read()), (0, b""))
    house.stop()

    # ---- the right ----
    purger, writer, own = (Client(server.port, n, n.lower()) for n in ("PURGEKEY", "WRITEKEY", "OWNKEY"))
    story.same("the right on a prefix", [purge(purger, prefix="train/")[0], purge(purger, key="train/x")[0]], [200, 200])
    story.same("... is none on others", [purge(purger, prefix=p)[0] for p in ("", "tr", "val/")] +
               [purge(purger, key="val/1")[0], purge(purger, prefix="train/../val/")[0]], [403] * 5)
    story.same("all other rights are not enough", [purge(writer, prefix="train/", **dry)[0] for dry in ({}, {"dry_run": ""})] +
               [writer.ask("GET", "pile", [("penstock-purge", "")]).status], [403] * 3)
    story.same("a client with its own identity has no right", [purge(own, prefix="")[0],
               own.ask("GET", "pile", [("penstock-purge", "")]).status], [403] * 2)
    story.fact("the log names the right", any(line["event"] == "policy_refused" and line["right"] == "cache"
                                              for line in map(json.loads, server.log().splitlines())))
    story.same("who may purge does not read by that", purger.get("pile/train/1").status, 403)

    # ---- bad input ----
    for query in ({}, {"prefix": "a", "key": "b"}, {"key": ""}, {"prefix": "x" * 1025}, {"prefix": "a\0b"}):
        story.same(f"a wrong query: {str(query)[:40]}", purge(**query)[0], 400)
    for method, path in (("PUT", "pile/x"), ("POST", "pile/x"), ("GET", "pile/x"), ("DELETE", "pile"), ("HEAD", "pile")):
        story.same(f"{method} {path}", server.ask(method, path, [("penstock-purge", "")]).status, 405)
    warm()
    for query in ([("dryrun", "")], [("dry_run", "")], [("Dry-Run", "")], [("dry-run", "false")], [("dry-run", "")] * 2, [("max-keys", "1")]):
        reply = server.client.ask("POST", "pile", [("penstock-purge", ""), ("prefix", "train/")] + query)
        story.fact(f"a purge does nothing with {query}", reply.status == 400 and reply.code == "InvalidArgument" and
                   query[0][0].encode() in reply.body, reply.body)
    story.same("... nor with a body", server.client.ask("POST", "pile", [("penstock-purge", ""), ("prefix", "train/")], body=b"dry-run").status, 400)
    story.same("... so all is there", {server.get(key).cache for key in TRAIN}, {"hit"})
    story.same("what S3 clients add is accepted", purge(**{"prefix": "none", "x-id": "Purge", "X-Amz-User-Agent": "sdk"})[0], 200)

    # ---- on its way in ----
    slow, fetched = "pile/train/5", []
    for what in ("a fetch in progress", "... that has no answer yet"):
        purge(key="train/5")
        flip(slow, [slow])
        origin.tell(f"match={slow} GET", "bandwidth=1500000" if what[0] == "a" else "first_byte_ms=800", "times=1")

        def reads():
            fetched.append(server.get(slow))

        def purges():
            wait_for("the origin sends", lambda: origin.totals()["requests_open"] > 0)
            time.sleep(0.2)    # some of it is here
            if what[0] == "a":
                flip(slow, [slow])
            story.same(f"{what}: purged", purge(prefix="train/")[0], 200)
            now = server.get(slow)    # a reader from after the purge does not share the fetch
            story.fact(f"{what}: the next reader has the new version", version_of(now, slow) == version[slow], now)
            story.same(f"{what}: from the origin", now.cache, "miss")
        together(reads, purges)
        story.fact(f"{what}: its own reader has one version, whole", version_of(fetched[-1], slow) is not None, fetched[-1])
        origin.quiet()
        story.fact(f"{what}: it is not stored", version_of(server.get(slow), slow) == version[slow])
        origin.tell("reset=rules")

    # ---- a full cache ----
    origin.tell("objects=full/a/%d 80 1048576", "objects=full/b/%d 40 1048576")
    house = story.penstock(origin=origin.url, cache_dir=story.path("full"), cache_size="64MiB", extent_size="4MiB", freshness="immutable")

    def read(name, objects):
        replies = [house.get(f"full/{name}/{i}") for i in range(objects)]
        story.same(f"{name}: all bytes are right", [i for i in range(objects) if replies[i].body != expect(f"full/{name}/{i}", 1, 0, MIB)], [])
        return sum(reply.cache == "hit" for reply in replies)
    live = lambda: house.metric("penstock_store_live_bytes") // MIB
    read("a", 80)
    wait_for("the cache is full", lambda: live() >= 48)
    story.same("a full cache stores no object that is read once", [read("b", 5), read("b", 5)], [0, 0])
    story.same("all is purged", purge(to=house.client, bucket="full", prefix="")[0], 200)
    wait_for("the sweep ends", lambda: live() == 0, 20)
    folder = json.loads(plain(house.admin_port, "GET", "/status").body)["cache"]["folders"][0]
    story.same("the folder's files stay, without live bytes", (folder["live_bytes"], folder["used_bytes"] >= 48 * MIB), (0, True))
    read("b", 40)
    wait_for("dead records are room at once, for each object of the first epoch", lambda: live() == 40, 20)
    story.same("... and each is a hit in the second", read("b", 40), 40)

    # ---- an extent that is sealed while the sweep reads it ----
    control = story.path("failpoints-seal")
    house = story.penstock(origin=origin.url, cache_dir=story.path("seal"), cache_size="256MiB", extent_size="4MiB", freshness="immutable",
                           env={"PENSTOCK_FAILPOINTS": control})
    house.get("pile/train/0")
    wait_for("it is cached", lambda: house.get("pile/train/0").cache == "hit")
    with open(control, "w") as f:
        f.write("sweep stop\n")
    story.same("a purge", purge(to=house.client, prefix="train/")[0], 200)
    wait_for("the sweep reads the open extent", lambda: os.path.exists(control + ".hits"))
    wait_for("the extent is full", lambda: all([house.get(f"full/a/{i}").cache == "hit" for i in range(8)]))
    os.remove(control)
    wait_for("the sweep ends", lambda: house.client.ask("GET", "pile", [("penstock-purge", "")]).body == b"")
    house.stop()

    # ---- keys that were missing ----
    house = daemon("negative", missing_time="10m")
    for key, query in (("pile/late/1", {"key": "late/1"}), ("pile/late/2", {"prefix": "late/"})):
        story.same("a key that is missing", [(r.status, r.cache) for r in (house.get(key), house.get(key))],
                   [(404, ""), (404, "negative-hit")])
        origin.tell(f"object={key} 100")
        story.same("... counts as missing, though it is there now", house.get(key).status, 404)
        story.same("... until it is purged", purge(to=house.client, **query)[0], 200)
        story.same("... then the origin is asked", [(r.status, r.body) for r in [house.get(key)]], [(200, expect(key, 1, 0, 100))])

    # ---- under load ----
    def one_round(n, rng, kill, everything):
        global server
        wrong, stop, purged = [], threading.Event(), threading.Event()
        prefix, hit = ("", KEYS) if everything else ("train/", TRAIN)

        def reads(seed):
            mine, client = random.Random(seed), Client(server.port, keep=True)
            while not stop.is_set():
                key = mine.choice(KEYS)
                after = purged.is_set()    # before the request is sent
                try:
                    reply = client.get(key)
                except OSError:
                    if not kill:
                        raise
                    return
                if reply.error and kill:
                    return
                if reply.error and not after:    # its rest was purged, and the origin has another version: cut
                    continue
                got = version_of(reply, key)
                if reply.status != 200 or got is None or (after and key in hit and got != version[key]):
                    wrong.append((key, reply.status, got, version[key], after, reply.cache))

        def purges():
            try:
                time.sleep(0.05 * rng.random())
                flip("pile/train/*" if not everything else "pile/*", hit)
                status, answer = purge(prefix=prefix)
                if status != 200:
                    wrong.append(("purge", status, answer))
                if kill:
                    server.kill()
                    return
                purged.set()
                time.sleep(0.05)
            finally:
                stop.set()
        together(purges, *(lambda seed=n * 10 + i: reads(seed) for i in range(3)))
        if kill:
            server = server.again()
        for key in KEYS:
            got = version_of(server.get(key), key)
            if key in hit and got != version[key]:
                wrong.append((key, "afterwards", got, version[key]))
        return wrong

    rng, wrong = random.Random(7), []
    for n in range(ROUNDS):
        kill = KILLS > 0 and n % max(ROUNDS // KILLS, 1) == 1
        wrong += one_round(n, rng, kill, n % 5 == 4)
    story.same(f"{ROUNDS} purges under load, {KILLS} with kill -9: no old byte", wrong[:5], [])
    warm()
    flip("pile/train/*", TRAIN)
    story.same("a purge", purge(prefix="train/")[0], 200)
    server = server.restart()
    story.same("... counts after a restart", [k for k in TRAIN if version_of(server.get(k), k) != version[k]], [])
    story.same("no folder went out of service", server.metric("penstock_store_faults_total"), 0)

    # ---- a guard ----
    def old_bytes(off):
        """A purge with the guard on or off; what is served after it."""
        house = daemon(f"guard-{off or 'on'}", env=guarded(off))
        for key in TRAIN[:2]:
            house.get(key)
        wait_for("it is cached", lambda: all([house.get(key).cache == "hit" for key in TRAIN[:2]]))
        flip("pile/train/*", TRAIN)
        purge(to=house.client, prefix="train/")
        got = [version_of(house.get(key), key) for key in TRAIN[:2]]
        return got != [version[key] for key in TRAIN[:2]]
    story.same("with the guard on, no old byte", old_bytes(""), False)
    story.same("with the guard off, old bytes are seen", old_bytes("bans"), True)
