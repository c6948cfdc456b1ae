"""Limits of buckets and prefixes (quota, admit, max_object, expire), and metrics by bucket, with reloads and restarts."""
import concurrent.futures

from harness import *

SIZE = 128 * 1024
QUOTA = 16 * MIB

with Story("z03 quotas, admission and metrics by bucket", seconds=180) as story:
    origin = story.origin(f"objects=capped/%d 300 {SIZE}", f"objects=free/%d 100 {SIZE}", f"objects=free/p/%d 100 {SIZE}",
                          f"objects=other/%d 600 {SIZE}", f"objects=never/%d 20 {SIZE}", f"objects=sized/%d 20 {SIZE}", "object=sized/large 3000000",
                          *(f"object=many-{i}/a {1000 + i}" for i in range(300)))
    limits = {"capped": {"quota": "16MiB"}, "never": {"admit": "never"}, "sized": {"max_object": "1MiB"}}
    server = story.penstock(origin=origin.url, cache_size="512MiB", extent_size="4MiB", buckets=limits)
    pool = concurrent.futures.ThreadPoolExecutor(8)

    def read(bucket, count, size=SIZE):
        """Reads all objects, several at a time. Returns how many the origin sent."""
        def one(i):
            reply = server.get(f"{bucket}/{i}")
            return reply.status == 200 and reply.body == expect(f"{bucket}/{i}", 1, 0, size)
        before = origin.counts().get("get", 0)
        right = all(list(pool.map(one, range(count))))
        story.fact(f"{bucket} has the right bytes", right)
        return origin.counts().get("get", 0) - before

    def of(name, bucket):
        return int(server.metrics().get(f'penstock_bucket_{name}{{bucket="{bucket}"}}', 0))

    def appended():
        return server.metric("penstock_store_appended_bytes_total")

    def quiet():
        """No commit ends for longer than one stays open: what was on its way is stored, or was refused."""
        before = server.metric("penstock_store_commits_total")
        time.sleep(1)
        return server.metric("penstock_store_commits_total") == before

    def settled(bucket):
        wait_for("all is committed", quiet)
        return of("cached_bytes", bucket)

    def reload(**buckets):
        global limits
        limits = {**limits, **buckets}
        before = server.log().count('"reloaded"')
        with open(server.config_path, "w") as f:
            json.dump({**server.settings, "buckets": limits}, f)
        server.process.send_signal(signal.SIGHUP)
        wait_for("the settings are in force", lambda: server.log().count('"reloaded"') > before)
        return json.loads([line for line in server.log().splitlines() if '"reloaded"' in line][-1])

    # ---- a quota ----
    story.same("all of it comes from the origin once", read("capped", 300), 300)
    story.same("a bucket beside it, too", read("free", 100), 100)
    have = settled("capped")
    story.fact("the quota is used, and kept", QUOTA - MIB <= have <= QUOTA, have)
    story.fact("refusals are counted", server.metric("penstock_store_over_quota_total") > 0)
    story.same("the other bucket has all", (of("cached_bytes", "free"), of("cached_objects", "free")), (100 * SIZE, 100))
    story.same("what the quota holds is hit", read("capped", 300), 300 - have // SIZE)
    story.same("the other bucket is hit", read("free", 100), 0)
    story.same("and counted", (of("reads_total", "free"), of("hits_total", "free")), (200, 100))

    # ---- what is never stored ----
    before = appended(), server.metric("penstock_store_commits_total"), server.metric("penstock_store_entries")
    story.same("reads of a bucket that is never stored", (read("never", 20), read("never", 20)), (20, 20))
    story.same("an object that is too large", [server.get("sized/large").status for _ in range(2)], [200, 200])
    story.same("HEADs of both", [server.head(key).status for key in ("never/1", "sized/large")], [200, 200])
    wait_for("all is committed", quiet)
    story.same("cost no write", (appended(), server.metric("penstock_store_commits_total"),
                                 server.metric("penstock_store_entries")), before)
    story.same("each with its cause", int(server.metrics()['penstock_not_stored_total{cause="limits"}']), 42)
    story.same("smaller ones are stored", (read("sized", 20), read("sized", 20)), (20, 0))

    # ---- the sums ----
    for i in range(150):
        server.get(f"no-such-bucket-{i}/a")
    # A read is counted when its last byte was sent, so the client may be sooner.
    wait_for("all hits are counted", lambda: server.metric("penstock_bucket_hits_total") ==
             server.metrics()['penstock_cache_answers_total{result="hit"}'])
    found = server.metrics()
    labels = {n.split('"')[1] for n in found if n.startswith("penstock_bucket_reads_total")}
    story.same("what a client makes up is no label", labels, {"capped", "free", "never", "sized", "other"})
    story.same("reads add up", server.metric("penstock_bucket_reads_total"), server.metric("penstock_cache_answers_total"))
    story.same("bytes, too", (server.metric("penstock_bucket_bytes_total"), server.metric("penstock_bucket_cache_bytes_total")),
               (server.metric("penstock_front_cache_bytes_total") + server.metric("penstock_front_origin_bytes_total"),
                server.metric("penstock_front_cache_bytes_total")))
    story.same("a folder's figures are those of all", *(
        [server.metric(f"penstock_{of_what}_{name}") for name in
         ("appended_bytes_total", "copied_bytes_total", "recycled_extents_total", "bad_blocks_total")]
        for of_what in ("volume", "store")))

    # ---- reloads ----
    said = reload(capped={"quota": "24MiB"})
    story.same("a reload applies limits", (said["changed"], said["needs_restart"]), ("capped.quota", "nothing"))
    read("capped", 300)
    have = settled("capped")
    story.fact("a larger quota holds more", 23 * MIB <= have <= 24 * MIB, have)
    reload(capped={"quota": "4MiB"})
    read("capped", 300)
    story.same("a lower one stores nothing more, and removes nothing yet", settled("capped"), have)
    reload(never={"admit": "hot"}, sized={"max_object": "4MiB"})
    read("never", 20)
    server.get("sized/large")
    settled("never")
    story.same("what is stored now is hit", read("never", 20), 0)
    story.same("the large object, too", server.get("sized/large").headers.get("x-cache"), "HIT")
    said = reload(**{"free/p/": {"quota": "4MiB"}})
    story.same("a new entry is applied at once", said["changed"], "free/p/.quota")
    def prefix_has():
        """While what lies there is counted anew, the prefix takes nothing."""
        read("free/p", 100)
        settled("free")
        return of("cached_bytes", "free") - 100 * SIZE

    wait_for("it takes objects", lambda: prefix_has() > 3 * MIB, 20)
    held = prefix_has()
    story.fact("a prefix has a quota of its own", 3 * MIB < held <= 4 * MIB, held)
    story.same("the rest of its bucket stays", read("free", 100), 0)

    # ---- restarts ----
    def restarted(text):
        global server
        server = server.again(buckets={**limits, "capped": {"quota": "24MiB"}})
        wait_for(f"{text}: what lies there is counted", lambda: (of("cached_bytes", "capped"), of("cached_bytes", "free"))
                 == (have, 100 * SIZE + held), 20)
        story.same(f"{text}: objects, too", of("cached_objects", "capped"), have // SIZE)
        read("capped", 300)
        read("free/p", 100)
        story.fact(f"{text}: the quotas hold", settled("capped") <= 24 * MIB and
                   of("cached_bytes", "free") <= 100 * SIZE + 4 * MIB)

    server.stop()
    restarted("after a clean stop")
    have, held = settled("capped"), of("cached_bytes", "free") - 100 * SIZE
    server.kill()
    restarted("after kill -9")

    # ---- clients that read before the records are counted ----
    server.stop()
    server = server.again(cache_dir=story.path("at-once"), buckets={"capped": {"quota": "16MiB"}})
    read("other", 600)    # these lie in the extents that are counted first
    read("capped", 150)
    have = settled("capped")
    for how in ("stop", "kill"):
        getattr(server, how)()
        server = server.again()
        list(pool.map(lambda i: server.get(f"capped/{i}"), reversed(range(150, 300))))
        # Near the quota, records that are appended together may be refused together; the last bytes fill up later.
        now = settled("capped")
        story.fact(f"{how}: a quota holds at once, and nothing is lost", have <= now <= QUOTA, (have, now))
        have = now
        story.fact(f"{how}: refusals are counted", server.metric("penstock_store_over_quota_total") > 0)

    # ---- expiry ----
    server.stop()
    clock = story.clock()
    server = server.again(cache_dir=story.path("expiring"), buckets={"free": {"expire": "10m"}})
    tick = 5    # seconds; the clock of expiry is looked at each second, and later on a busy machine
    story.same("a bucket that expires, and one that does not", (read("free", 100), read("capped", 50)), (100, 50))
    story.same("a large object", server.get("sized/large").status, 200)
    settled("free")
    time.sleep(tick)
    clock.ahead(6 * 60)
    time.sleep(tick)
    story.same("half of it is read after 6 minutes", read("free", 50), 0)
    time.sleep(tick)
    clock.ahead(6 * 60)
    wait_for("after 12 minutes the other half has gone", lambda: of("cached_objects", "free") == 50)
    story.same("it counts as evicted", of("evicted_bytes_total", "free"), 50 * SIZE)
    story.same("what was read is a hit, and the other bucket, too", (read("free", 50), read("capped", 50)), (0, 0))
    story.same("the rest comes from the origin again", read("free", 100), 50)
    story.same("the large object is there", server.get("sized/large").headers.get("x-cache"), "HIT")
    limits = {"free": {"expire": "10m"}}
    said = reload(free={"expire": "0"}, sized={"expire": "1h"})
    story.same("a reload changes it", said["changed"], "free.expire, sized.expire")
    time.sleep(tick)
    clock.ahead(2 * 3600)
    wait_for("a large object expires as a whole", lambda: of("cached_objects", "sized") == 0)
    story.same("... and its bytes", of("cached_bytes", "sized"), 0)
    story.same("what does not expire any more stays", read("free", 100), 0)
    story.same("a HEAD of what has expired asks the origin", server.head("sized/large").headers.get("x-cache"), "MISS")
    server.stop()
    server = story.penstock(origin=origin.url, cache_dir=story.path("many"), cache_size="512MiB", buckets=limits)

    # ---- 300 buckets ----
    for i in range(300):
        server.get(f"many-{i}/a")
    settled("capped")
    found = server.metrics()
    for name in ("reads_total", "bytes_total", "cached_bytes", "cached_objects"):
        story.same(f"{name}: 100 buckets and other", sum(n.startswith(f"penstock_bucket_{name}{{") for n in found), 101)
    story.same("all of them are in the sum",
               (server.metric("penstock_bucket_reads_total"), server.metric("penstock_bucket_cached_bytes")),
               (server.metric("penstock_cache_answers_total"), sum(1000 + i for i in range(300))))
    small = next(f"many-{i}" for i in range(300) if f'penstock_bucket_reads_total{{bucket="many-{i}"}}' not in found)
    for _ in range(20):
        server.get(f"{small}/a")
    server.metrics()
    server.get(f"{small}/a")
    story.fact("one that grows gets a label", of("reads_total", small) > 0)
    story.same("and the sum is what it was, and more", server.metric("penstock_bucket_reads_total"),
               server.metric("penstock_cache_answers_total"))

    # ---- bad values ----
    def mistake(text, *words, **row):
        with open(story.path("bad.json"), "w") as f:
            json.dump(story.settings(origin=origin.url, buckets={"capped": row}), f)
        status, out, err = run([PENSTOCK, "config", "--config", story.path("bad.json")])
        story.fact(text, status == 2 and all(word in out + err for word in words), (status, out, err))

    mistake("a quota that is too small", "buckets.capped.quota", "4MiB", quota="1MiB")
    mistake("a quota that is no size", "buckets.capped.quota", quota="much")
    mistake("an unknown word", "buckets.capped.admit", "hot|always|never", admit="sometimes")
    mistake("a time that is too short", "buckets.capped.expire", expire="1s")
    mistake("a negative size", "buckets.capped.max_object", max_object="-1")
    mistake("an unknown member", "quotas", "did you mean", quotas="1GiB")
