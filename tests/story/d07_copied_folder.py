"""An older copy of the cache folder is put back, cold or under the running process: it is worth its
bytes, and no more. No older answer, and no body to a client that was refused meanwhile."""
from harness import *

NEWEST = {"cache-control": "no-cache"}


def cp(*paths):
    subprocess.run(["cp", "-a", *paths], check=True)


with Story("d07 an older copy of the cache folder is put back", seconds=150) as story:
    origin = story.origin("objects=bucket/%03d 60 3000")
    keys = iter(f"bucket/{i:03d}" for i in range(60))
    OLD, NEW = 3000, b"version 2"

    def cache(server, *names):
        for key in names:
            server.get(key)
            wait_for(f"{key} is committed", lambda: server.get(key).cache == "hit")

    def house(name):
        return story.penstock(origin=origin.url, missing_time="0", cache_dir=story.path(name))

    def stop(server):
        check(server.stop() == 0, "it stops cleanly")

    def overtaken(server, key, refused):
        """Something goes by that the copy has not seen."""
        server.put(key, NEW)
        origin.tell(f"match={refused}", "status=403")
        check(server.head(refused, headers=NEWEST).status == 403, "it is refused")

    def judge(text, server, key, refused, kept=None):
        reply = server.get(key)
        story.fact(f"{text}: no older answer", reply.body == NEW, reply)
        reply = server.get(refused)
        story.same(f"{text}: no body to the refused", reply.status, 403)
        if kept:
            origin.reset()
            reply = server.get(kept)
            story.bytes(f"{text}: what did not change is right", reply, kept, 0, OLD)
            counts = origin.counts(kept)
            story.same(f"{text}: ... of the cache's bytes, by one question",
                       (counts["bytes"], counts["get"], counts["head"]), (0, 0, 1))

    def swap(name, copy):
        """The folder goes, the copy takes its place."""
        os.rename(name, name + ".gone")
        os.rename(copy, name)

    # ---- of a folder that was closed cleanly ----
    def cold(text, put_back):
        key, refused, kept = next(keys), next(keys), next(keys)
        name = story.path(f"cold-{key[-3:]}")
        server = house(name)
        cache(server, key, refused, kept)
        stop(server)
        cp(name, name + ".copy")
        server = server.again()
        overtaken(server, key, refused)
        stop(server)
        put_back(name, name + ".copy")
        server = server.again()
        judge(text, server, key, refused, kept)
        stop(server)
        server = server.again()
        origin.reset()
        story.bytes(f"{text}: and after a restart", server.get(kept), kept, 0, OLD)
        story.same(f"{text}: ... without a question", origin.counts()["requests"], 0)
        stop(server)
        origin.calm()

    cold("a clean copy", swap)
    cold("a clean copy, written over the folder", lambda name, copy: cp(copy + "/.", name))
    cold("a clean copy, copied back", lambda name, copy: (shutil.rmtree(name), cp(copy, name)))

    # ---- moved away, and back ----
    key, refused = next(keys), next(keys)
    name = story.path("away")
    server = house(name)
    cache(server, key, refused)
    stop(server)
    os.rename(name, name + ".away")
    server = server.again()
    overtaken(server, key, refused)
    stop(server)
    swap(name, name + ".away")
    server = server.again()
    judge("moved away and back", server, key, refused)
    stop(server)
    origin.calm()

    # ---- of a folder in use ----
    key, refused, kept = next(keys), next(keys), next(keys)
    server = house(story.path("live"))
    cache(server, key, refused, kept)
    cp(server.cache_dir, server.cache_dir + ".copy")
    overtaken(server, key, refused)
    server.kill()
    swap(server.cache_dir, server.cache_dir + ".copy")
    server = server.again()
    judge("a live copy", server, key, refused, kept)
    stop(server)
    origin.calm()

    # ---- under the running process ----
    def under(text, exchange):
        key, refused, kept = next(keys), next(keys), next(keys)
        server = house(story.path(f"under-{key[-3:]}"))
        cache(server, key, refused, kept)
        stop(server)
        cp(server.cache_dir, server.cache_dir + ".copy")
        server = server.again()
        overtaken(server, key, refused)
        faults = server.metric("penstock_store_faults_total")
        exchange(server.cache_dir, server.cache_dir + ".copy")
        reply = server.get(key)
        story.fact(f"{text}, at once: no older answer", reply.body == NEW, reply)
        wait_for("it is noticed", lambda: server.metric("penstock_store_faults_total") > faults)
        wait_for("it is in service", lambda: server.metric("penstock_store_serving") == 1)
        judge(text, server, key, refused, kept)
        stop(server)
        origin.calm()
    under("swapped while running", swap)
    under("the format file alone", lambda name, copy: os.rename(copy + "/format", name + "/format"))
