"""Several cache folders: each has its share, one that is missing costs no more than what lies in it."""
from harness import *

SIZE, COUNT = 200_000, 200
LARGE = 3 * 64 * MIB + 5
NAMES = ("a", "b", "c")

with Story("d09 several cache folders are used as one", seconds=150) as story:
    keys = [f"pile/{i}" for i in range(COUNT)]
    origin = story.origin(*(f"object={key} {SIZE}" for key in keys), f"object=pile/large {LARGE}")
    for name in NAMES:
        os.mkdir(story.path(name))

    def dirs(*names, **sizes):
        return [{"path": story.path(name) + "/cache", "size": sizes.get(name, "512MiB")} for name in names]

    def cost(server, wanted):
        """Reads all, and returns the number of keys that the origin was asked for."""
        origin.reset()
        for key in wanted:
            reply = server.get(key)
            if reply.status != 200 or reply.body != expect(key, 1, 0, SIZE):
                story.fact(f"{key} is right", False, reply.status)
        return sum(origin.counts()["keys"].get(key, {"get": 0})["get"] > 0 for key in wanted)

    def check_it(text, status, *words, **settings):
        path = story.path("check.json")
        with open(path, "w") as f:
            json.dump(story.settings(origin=origin.url, cache_dir=None, cache_size=None, **settings), f)
        got, out, err = run([PENSTOCK, "check", "--offline", path])
        story.fact(text, got == status and all(word in out + err for word in words), f"status {got}: {out}{err}")

    def volumes(server, name):
        found = {n: v for n, v in server.metrics().items() if n.startswith(f"penstock_volume_{name}{{")}
        return [found[f'penstock_volume_{name}{{path="{story.path(n)}/cache"}}'] for n in NAMES]

    # ---- shares ----
    server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None,
                            cache_dirs=dirs(*NAMES, a="2GiB"))
    story.same("cold: the origin is asked for all", cost(server, keys), COUNT)
    wait_for("all is stored", lambda: server.metric("penstock_store_entries") >= 3 * COUNT - 10 or
             cost(server, keys) == 0)
    story.same("warm: for none", cost(server, keys), 0)
    server.wait_cached(*keys)
    wait_for("the figures are told", lambda: sum(volumes(server, "bytes")) == server.metric("penstock_store_bytes"))
    shared = volumes(server, "bytes")    # of objects of one stripe; the large one comes later
    story.fact("each folder has some, and the largest has most", all(shared) and shared[0] == max(shared), shared)
    story.same("the sum of the folders is what the store has", sum(volumes(server, "bytes")),
               server.metric("penstock_store_bytes"))
    wait_for("... and so are the bytes of objects in them", lambda: 0 < sum(volumes(server, "live_bytes")) ==
             server.metric("penstock_store_live_bytes") <= sum(shared) and all(volumes(server, "live_bytes")))
    story.same("all serve", (volumes(server, "serving"), server.metric("penstock_store_serving")), ([1] * 3, 3))
    story.bytes("an object of four stripes", server.get("pile/large"), "pile/large", 0, LARGE)
    wait_for("... is stored", lambda: server.get("pile/large").status == 200 and
             sum(volumes(server, "bytes")) > LARGE)
    origin.reset()
    story.bytes("... and is read as one", server.get("pile/large"), "pile/large", 0, LARGE)
    story.bytes("... also over the end of a stripe", server.get("pile/large", 64 * MIB - 100_000, 64 * MIB + 99_999),
                "pile/large", 64 * MIB - 100_000, 200_000)
    story.same("... from the cache", origin.counts()["get"], 0)
    status, out, _ = run([PENSTOCK, "stat", "--admin-listen", f"127.0.0.1:{server.admin_port}"])
    story.fact("stat has a line for each", status == 0 and "works      yes" in out and "3 folders" in out
               and len(re.findall(r"/cache: [0-9.]+ .iB of [0-9.]+ .iB \([0-9.]+ .iB of objects\)\n", out)) == 3
               and all(f"{story.path(name)}/cache: " in out for name in NAMES), out)
    server = server.restart()
    story.same("after a restart all is there", cost(server, keys), 0)
    story.same("ready says that all serve", json.loads(plain(server.port, "GET", "/_/health/ready").body)["cache"], "serving")

    # ---- one is missing at the start ----
    story.same("it stops cleanly", server.stop(), 0)
    os.rename(story.path("b"), story.path("b-away"))
    check_it("check says which one is missing", 1, story.path("b"), "run without this folder",
             cache_dirs=dirs(*NAMES, a="2GiB"))
    server = server.again()
    missed = cost(server, keys)
    story.fact("its objects are misses, no others", 0 < missed < COUNT, missed)
    story.same("... and stay so", cost(server, keys), missed)
    story.same("it is out", (volumes(server, "serving"), server.metric("penstock_store_serving")), ([1, 0, 1], 2))
    ready = json.loads(plain(server.port, "GET", "/_/health/ready").body)
    story.fact("ready says so", ready["status"] == "degraded" and "in part" in ready["cache"], ready)
    status, out, _ = run([PENSTOCK, "stat", "--admin-listen", f"127.0.0.1:{server.admin_port}"])
    story.fact("stat names it", "in part" in out and f"{story.path('b')}/cache: out of service" in out, out)
    story.fact("so does the log", f"{story.path('b')}/cache" in server.log() and "until the folder works again" in server.log(),
               server.log()[-800:])
    os.rename(story.path("b-away"), story.path("b"))
    wait_for("it comes back by itself", lambda: server.metric("penstock_store_serving") == 3)
    story.same("with all that it had", cost(server, keys), 0)
    story.same("it stops cleanly", server.stop(), 0)

    # ---- check ----
    check_it("all is fine", 0, cache_dirs=dirs(*NAMES, a="2GiB"))
    check_it("a folder listed twice", 2, "twice", cache_dirs=dirs("a", "b", "a"))
    os.symlink(story.path("a"), story.path("link"))
    check_it("... by a link", 2, "twice", cache_dirs=dirs("a", "link"))
    check_it("one inside another", 2, "inside", cache_dirs=[*dirs("a"), {"path": story.path("a") + "/cache/x"}])
    check_it("sizes that the file system has not", 0, ".0 GiB together, and their file system has", "can't grow",
             f"{story.path('a')}/cache, {story.path('b')}/cache in cache_dirs",
             cache_dirs=dirs("a", "b", a="32TiB", b="32TiB"))
    check_it("sizes that are missing", 0, "has no size", cache_dirs=[{"path": story.path("a") + "/cache"}, *dirs("b")])
    other = story.penstock(origin=origin.url, cache_dir=story.path("stranger"))
    cost(other, keys[:10])
    story.same("another installation stops", other.stop(), 0)
    strange = [*dirs("a", "b"), {"path": story.path("stranger"), "size": "512MiB"}]
    before = {path: os.stat(path).st_mtime_ns for path in glob.glob(story.path("stranger") + "/**", recursive=True)
              if os.path.isfile(path) and not path.endswith("/lock")}
    check_it("a folder of another installation", 1, story.path("stranger"), "another installation", cache_dirs=strange)
    server = server.again(cache_dirs=strange)
    story.same("it is out of service", server.metric("penstock_store_serving"), 2)
    story.fact("the log says why", "another installation" in server.log(), server.log()[-800:])
    story.bytes("all reads are right", server.get(keys[0]), keys[0], 0, SIZE)
    time.sleep(6)
    server.stop()
    story.same("it is untouched", {path: os.stat(path).st_mtime_ns for path in before}, before)
