"""A newer version that may not be stored (max_object, admit, no-store, a weak ETag), or whose record finds no room, takes the
place of the stored one: later reads get it from the origin, and never the older one again, also after a restart."""
from harness import *


class Two(Listener):
    """An origin whose objects have two versions. The path says how version 2 differs. Version 0: there is no object.
    While `held` is an event, GETs of version 1 wait for it: with "late" in their path, before the answer; with "stream",
    in the middle of the bytes. While `heads_held` is an event, HEADs wait for it, and then find the version of that
    time."""
    version, gets, held, waiting, heads_held = 1, 0, None, 0, None

    def body(self, path):
        sizes = (3_000_000, 5_000_000) if "large" in path else (900_000, 1_200_000 if "grown" in path else 800_000)
        return (f"{path} version {self.version} ".encode() * 200_000)[:sizes[self.version - 1]]

    def serve(self, c):
        lines = c.makefile("rb")
        while line := lines.readline():
            method, target, _ = line.decode().split(" ", 2)
            head = {}
            while field := lines.readline().strip():
                name, _, value = field.partition(b":")
                head[name.lower()] = value.strip().decode()
            path, held = target.split("?")[0], self.held
            if method == "HEAD" and self.heads_held:
                self.waiting += 1
                self.heads_held.wait(20)
            answer = self.answer(method, path, "list-type" in target, head)
            if held and method == "GET" and self.version < 2:
                sent = len(answer) // 2 if "stream" in path else 0
                c.sendall(answer[:sent])
                self.waiting += 1
                held.wait(20)
                answer = answer[sent:]
            c.sendall(answer)

    def answer(self, method, path, is_list, head):
        if is_list:
            return b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
        if not self.version:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        weak, no_store = self.version == 2 and "weak" in path, self.version == 2 and "no-store" in path
        etag = f'{"W/" if weak else ""}"v{self.version}"'
        if head.get(b"if-match", etag) != etag:
            return b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n"
        body, status = self.body(path), "200 OK"
        self.gets += method == "GET"
        fields = "Cache-Control: no-store\r\n" if no_store else ""
        if "range" in head:
            first, end = head["range"].removeprefix("bytes=").split("-")
            end, status = int(end or len(body) - 1), "206 Partial Content"
            fields += f"Content-Range: bytes {first}-{end}/{len(body)}\r\n"
            body = body[int(first):end + 1]
        return (f"HTTP/1.1 {status}\r\nETag: {etag}\r\n{fields}Last-Modified: Mon, 01 Jan 2024 00:00:0{self.version} GMT\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + (body if method == "GET" else b"")


def version(reply):
    """The version that the bytes are of; the status of an answer without an object."""
    found = set(re.findall(rb"version (\d)", reply.body[:1000]))
    return found.pop().decode() if len(found) == 1 and reply.status in (200, 206) else str(reply.status)


with Story("c16 a newer version that may not be stored", seconds=60) as story:
    origin = Two()
    buckets = {"sized": {"max_object": "1MiB"}, "never": {}}
    server = story.penstock(origin=origin.url, cache_size="512MiB", freshness="immutable", buckets=buckets)
    keys = ["sized/grown", "plain/no-store", "plain/weak", "never/a"]
    kept = ["sized/a", "plain/a"]
    server.wait_cached(*keys, *kept)
    reloads = server.log().count('"reloaded"')
    with open(server.config_path, "w") as f:
        json.dump({**server.settings, "buckets": {**buckets, "never": {"admit": "never"}}}, f)
    server.process.send_signal(signal.SIGHUP)
    wait_for("the settings are in force", lambda: server.log().count('"reloaded"') > reloads)
    story.same("a reload removes nothing", server.get("never/a").cache, "hit")
    for key in keys + kept:
        server.get(key, headers={"cache-control": "no-cache"})
        time.sleep(0.2)    # a removal would be committed by then
        story.same(f"{key}: no-cache removes no copy of the present version", server.get(key).cache, "hit")
    server.get("plain/part", 0, 99_999)
    wait_for("plain/part: a part of version 1 is stored", lambda: server.get("plain/part", 0, 99_999).cache == "hit")
    origin.version = 2
    story.fact("plain/part: a read of the whole begins with version 1, and is cut", server.get("plain/part").error)
    wait_for("plain/part: a read of the whole gets version 2", lambda: version(server.get("plain/part")) == "2", 5)
    story.same("plain/part: and so does a read of the part", version(server.get("plain/part", 0, 999)), "2")
    for key in keys + kept:
        story.same(f"{key}: a plain read is a hit of version 1", version(server.get(key)), "1")
        story.same(f"{key}: no-cache gets version 2", version(server.get(key, headers={"cache-control": "no-cache"})), "2")
        wait_for(f"{key}: plain reads get version 2", lambda: version(server.get(key)) == "2", 5)
    server.wait_cached(*kept)
    for text in ("from then on", "after a clean stop"):
        gets = origin.gets
        story.same(f"{text}: version 2", [version(server.get(key)) for key in keys + kept], ["2"] * 6)
        story.same(f"{text}: only what may be stored comes from the cache", origin.gets - gets, len(keys))
        if text == "from then on":
            server.stop()
            server = server.again()

    # ---- the older version is on its way into the index ----
    full, control = Two(), story.path("failpoints")
    use_tests_daemon()
    server = story.penstock(origin=full.url, cache_dir=story.path("full"), cache_size="512MiB", freshness="immutable",
                            buckets=buckets, env={"PENSTOCK_FAILPOINTS": control})
    for step in ("appended", "index-commit"):
        key = f"sized/{step}/grown"
        with open(control, "w") as f:
            f.write(f"{step} stop\n")
        open(control + ".hits", "w").close()
        story.same(f"{step}: version 1 comes from the origin", version(server.get(key)), "1")
        wait_for(f"{step}: its commit is held up", lambda: os.path.getsize(control + ".hits"))
        full.version = 2
        story.same(f"{step}: no-cache gets version 2", version(server.get(key, headers={"cache-control": "no-cache"})), "2")
        os.unlink(control)
        time.sleep(0.5)    # version 1 would be in the index by then
        story.same(f"{step}: plain reads get version 2", [version(server.get(key)) for _ in range(3)], ["2"] * 3)
        full.version = 1

    # ---- the older version is still on its way from the origin ----
    late = story.penstock(origin=full.url, cache_dir=story.path("late"), cache_size="512MiB", freshness="immutable",
                          buckets={"sized": {"max_object": "1MiB"}, "large": {"max_object": "4MiB"}}, missing_time="0")
    for key, then, has in (("sized/stream/grown", 2, 0), ("plain/stream/a", 2, 0), ("plain/stream/gone", 0, 0),
                           ("plain/late/a", 2, 0), ("plain/late/gone", 0, 0),
                           ("large/stream", 2, 0), ("large/stream/gone", 0, 0),
                           ("large/stream/part", 2, 100_000), ("large/stream/part/gone", 0, 100_000),
                           ("large/late/part", 2, 100_000), ("large/late/part/gone", 0, 100_000)):
        full.version, full.held, full.waiting, older = 1, None, 0, []
        size, want = len(full.body(key)), str(then or 404)
        if has:    # the first read goes on where the cache has no more bytes
            late.get(key, 0, has)
            wait_for(f"{key}: a part is stored", lambda: late.get(key, 0, has).cache == "hit")
        full.held = threading.Event()
        reader = threading.Thread(target=lambda: older.append(Client(late.port).get(key)))
        reader.start()
        wait_for(f"{key}: the origin has the first read", lambda: full.waiting == 1)
        full.version = then
        newest = late.head(key, headers={"cache-control": "no-cache"})
        story.same(f"{key}: a HEAD with no-cache learns of the change", newest.status, 200 if then else 404)
        full.held.set()
        reader.join(20)
        story.same(f"{key}: the first read gets all of version 1", (version(older[0]), len(older[0].body)), ("1", size))
        time.sleep(0.5)    # version 1 would be in the index by then
        story.same(f"{key}: no later read gets version 1",
                   [version(late.get(key, *of)) for of in ((size - 200_100, size - 200_001), (), (0, 999), ())], [want] * 4)
    full.version, full.held = 1, None

    # ---- the older version was asked for later, and answered before ----
    for key, then in (("plain/late/b", 2), ("plain/late/b/gone", 0), ("plain/stream/b", 2), ("large/late/b", 2)):
        full.version, full.waiting, full.held, full.heads_held, replies = 1, 0, threading.Event(), threading.Event(), {}
        ask = lambda method, **more: replies.update({method: Client(late.port).ask(method, key, **more)})
        head = threading.Thread(target=ask, args=("HEAD",), kwargs={"headers": {"cache-control": "no-cache"}})
        head.start()
        wait_for(f"{key}: the origin has the HEAD", lambda: full.waiting == 1)
        reader = threading.Thread(target=ask, args=("GET",))
        reader.start()
        wait_for(f"{key}: the origin has answered the GET with version 1", lambda: full.waiting == 2)
        full.version = then
        full.heads_held.set()
        head.join(20)
        story.same(f"{key}: the HEAD learns of the change", replies["HEAD"].status, 200 if then else 404)
        full.held.set()
        reader.join(20)
        story.same(f"{key}: the GET gets version 1", version(replies["GET"]), "1")
        story.same(f"{key}: no later read gets version 1", [version(late.get(key)) for _ in range(3)], [str(then or 404)] * 3)
        full.heads_held = None
        time.sleep(0.5)    # version 1 would be in the index by then
        story.same(f"{key}: nor later on", [version(late.get(key, *of)) for of in ((), (0, 999))], [str(then or 404)] * 2)
    full.version, full.held = 1, None

    # ---- a key that was missing ----
    gone = story.penstock(origin=full.url, cache_dir=story.path("gone"), cache_size="512MiB", missing_time="60s")
    for key in ("plain/no-store", "plain/weak", "plain/late/no-store", "plain/late/weak"):
        full.version, full.waiting, full.held, first = 0, 0, threading.Event(), []
        reader = threading.Thread(target=lambda: first.append(version(Client(gone.port).get(key))))
        reader.start()
        wait_for(f"{key}: the origin has the GET", lambda: full.waiting == 1)
        if "late" not in key:
            full.held.set()
            reader.join(20)
            story.same(f"{key}: it counts as missing", (version(gone.get(key)), full.waiting), ("404", 1))
        full.version = 2
        story.same(f"{key}: a HEAD learns of version 2", gone.head(key).status, 200)
        full.held.set()
        reader.join(20)
        story.same(f"{key}: the first read got the answer of its time", first, ["404"])
        story.same(f"{key}: it counts as missing no longer", version(gone.get(key)), "2")
    full.version, full.held = 1, None

    # ---- without a strong ETag, an answer can't be continued by another ----
    full.version = 2
    replies, gets = [], full.gets
    for number in range(100):
        key = f"plain/weak/large/{number}"
        late.get(key, 100, 199)
        replies.append(late.get(key))    # at once: what the first read brought may still be in memory
    story.same("a read of the whole right after a read of a part is not cut",
               [(reply.status, len(reply.body), reply.error) for reply in replies
                if (reply.status, len(reply.body)) != (200, 5_000_000)][:3], [])
    story.same("... and each has a GET of its own", full.gets - gets, 200)
    reply = late.get(key, 100, 199, headers={"if-range": '"v1"'})
    story.same("another version for If-Range: the whole object", (reply.status, len(reply.body)), (200, 5_000_000))
    full.version = 1

    # ---- no room for the record ----
    keys = ["full/a", "full/grown"]    # the metadata comes with the bytes, and alone
    server.wait_cached(*keys)
    full.version = 2
    with open(control, "w") as f:
        f.write("append enospc 0 1000000\n")
    for key in keys:
        before = server.metric("penstock_cache_unpublished_total")
        story.same(f"{key}: no-cache gets version 2", version(server.get(key, headers={"cache-control": "no-cache"})), "2")
        wait_for(f"{key}: the record found no room", lambda: server.metric("penstock_cache_unpublished_total") > before, 5)
        wait_for(f"{key}: plain reads get version 2", lambda: version(server.get(key)) == "2", 5)
    os.unlink(control)
    server.stop()
    server = server.again()
    story.same("after a clean stop: version 2", [version(server.get(key)) for key in keys], ["2", "2"])
