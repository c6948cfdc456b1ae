"""Each safety guard is shown to matter: the same scenario passes with it on, and goes red with it
off.

A scenario is given a daemon (the tests' own) with some guards off and says whether a client saw wrong bytes."""
from damage import crc32c, previous_root
from guards import guarded, on_and_off
from harness import *


class Record:
    """A record that holds a whole small object: where it lies, its header's fields, its head and
    its data."""

    def __init__(self, server, key, size):
        found = server.find_page(key, 1, 0)
        check(len(found) == 1, f"{key} lies in the extents {len(found)} times")
        self.path, data_at = found[0]
        with open(self.path, "rb") as f:
            all_bytes = f.read()
        self.at = all_bytes.rfind(b"PSTR\x02", 0, data_at)
        self.blocks = all_bytes[self.at + 5]
        self.start = 64 + 4 * self.blocks
        self.bytes = all_bytes[self.at:data_at + size]
        self.head_len, = struct.unpack_from("<I", self.bytes, 28)
        self.data_at = data_at - self.at

    def write(self, content):
        check(len(content) == len(self.bytes), "a record of another length")
        with open(self.path, "r+b") as f:
            f.seek(self.at)
            f.write(content)

    def as_if_of(self, other):
        """This record with the name and the data of the other; each checksum is right: two names
        with one hash."""
        mine, theirs = self.bytes, other.bytes
        etag_and_rest = self.start + 32 + struct.unpack_from("<I", mine, self.start + 20)[0]
        name_end = other.start + 32 + struct.unpack_from("<I", theirs, other.start + 20)[0]
        head = mine[self.start:self.start + 32] + theirs[other.start + 32:name_end] + \
            mine[etag_and_rest:self.start + self.head_len]
        data = theirs[other.data_at:]
        whose = mine[8:20] + mine[32:40]    # id, ETag hash
        front = bytearray(mine[:60])
        struct.pack_into("<I", front, 56, crc32c(head, crc32c(whose + b"\xff\xff\xff\xff")))
        sums = struct.pack("<I", crc32c(data, crc32c(whose + bytes(4))))
        return bytes(front) + struct.pack("<I", crc32c(sums,
                                                       crc32c(bytes(front)))) + sums + head + data


with Story("g01 safety guards can be seen to fail", seconds=150) as story:
    use_tests_daemon()
    ids = iter(range(1000))

    def house(off, *lines):
        """An origin and a daemon of their own."""
        origin = story.origin(*lines)
        server = story.penstock(origin=origin.url, cache_dir=story.path(f"cache-{next(ids)}"),
                                cache_size="256MiB", missing_time="60s",
                                env=guarded(off))
        return origin, server

    def warm(origin, server, *keys):
        for key, size in keys:
            story.bytes(f"{key} is read", server.get(key), key, 0, size)
        origin.quiet()
        server.wait_cached(*(key for key, _ in keys))

    def one_version(reply, *bodies):
        """None, or what was wrong with an answer that said it was whole; a clear failure is not
        wrong."""
        if reply.error or reply.status not in (200, 206):
            return None
        return None if reply.body in bodies else same_bytes(reply.body, bodies[0], "it")

    def flipped_bit(off):
        key, size = "bucket/a", 300_000
        origin, server = house(off, f"object={key} {size}")
        warm(origin, server, (key, size))
        path, at = server.find_page(key, 1, 2)[0]
        with open(path, "r+b") as f:
            f.seek(at + 1000)
            old = f.read(1)[0]
            f.seek(at + 1000)
            f.write(bytes([old ^ 4]))
        return one_version(server.get(key), expect(key, 1, 0, size))

    def swapped(off):
        """Two blocks of one object lie in each other's place: each would be right there."""
        key, size = "bucket/a", 4 * MIB
        origin, server = house(off, f"object={key} {size}")
        warm(origin, server, (key, size))
        places = [server.find_page(key, 1, block)[0] for block in (10, 40)]
        blocks = [expect(key, 1, block * 65536, 65536) for block in (40, 10)]
        for (path, at), content in zip(places, blocks):
            with open(path, "r+b") as f:
                f.seek(at)
                f.write(content)
        return one_version(server.get(key), expect(key, 1, 0, size))

    def same_hash(off):
        """Another object's record under the same hash, each checksum right."""
        keys = [("bucket/a1", 3000), ("bucket/a2", 3000)]
        origin, server = house(off, *[f"object={k} {n}" for k, n in keys])
        warm(origin, server, *keys)
        story.same("it stops", server.stop(), 0)
        a, b = (Record(server, *k) for k in keys)
        a.write(a.as_if_of(b))
        server = server.again()
        return one_version(server.get("bucket/a1"), expect("bucket/a1", 1, 0, 3000))

    def overwritten(off):
        """A PUT while the old version is on its way in."""
        key, size = f"bucket/size-{MIB}-x", MIB
        origin, server = house(off, "match=bucket/* GET", f"bandwidth={256 * KIB}")
        body = story.random.randbytes(5000)

        def write():
            wait_for("the fill begins", lambda: origin.totals()["requests_open"] > 0)
            time.sleep(0.3)
            reply = server.put(key, body)
            story.fact("a fill is under way when the PUT is answered",
                       reply.status == 200 and origin.totals()["requests_open"] > 0, reply)
        together(lambda: server.get(key), write)
        origin.calm()
        origin.quiet()
        time.sleep(0.5)
        return one_version(server.get(key), body)

    def changed_half_way(off):
        """An object changes when half of it is here."""
        key, size = f"bucket/size-{6 * MIB}-x", 6 * MIB
        origin, server = house(off)
        story.bytes("the first half is read", server.get(key, 0, 3 * MIB - 1), key, 0, 3 * MIB)
        wait_for("it is stored", lambda: server.get(key, 0, 3 * MIB - 1).cache == "hit")
        origin.tell(f"flip={key}")
        return one_version(server.get(key), expect(key, 1, 0, size), expect(key, 2, 0, size))

    def late_missing(off):
        """The origin says "no such key" late: a PUT has ended meanwhile."""
        key, body = "bucket/new", b"put through us"
        origin, server = house(off, f"match={key} GET", "late_ms=3000", "times=1")

        def write():
            wait_for("the origin is asked", lambda: origin.totals()["requests_open"] > 0)
            story.same("a PUT meanwhile is acknowledged", server.put(key, body).status, 200)
        together(lambda: server.get(key), write)
        reply = server.get(key)
        return None if reply.body == body else f"{reply} instead of what was put"

    def late_list(off):
        """A list is under way: a PUT has ended meanwhile, and somebody lists again."""
        origin, server = house(off, "object=bucket/a 10", "match=bucket/ LIST", "late_ms=3000", "times=1")
        after = []

        def write():
            wait_for("the origin is asked", lambda: origin.totals()["requests_open"] > 0)
            story.same("a PUT meanwhile is acknowledged", server.put("bucket/b", b"x").status, 200)
            after.append(server.list("bucket"))
        together(lambda: server.list("bucket"), write)
        return None if b"<Key>b</Key>" in after[0].body else "a list without the key that was put before it"

    def for_another(off):
        """An object that the origin lets one client read is here, and another asks for it."""
        anna, ben = ("ANNATESTKEY", "anna/secret"), ("BENTESTKEY", "ben/secret")
        key, size = "bucket/a", 300_000
        origin = story.origin(f"object={key} {size}", f"match={key}", f"as={ben[0]}", "status=403")
        server = story.penstock(origin=origin.url, cache_dir=story.path(f"cache-{next(ids)}"),
                                keys=[{"access_key": k, "secret_key": s} for k, s in (anna, ben)],
                                env=guarded(off))
        story.bytes("one reads it", Client(server.port, *anna).get(key), key, 0, size)
        origin.quiet()
        reply = Client(server.port, *ben).get(key)
        return None if reply.status == 403 else f"{len(reply.body)} bytes for who may not"

    def warm_copy(off):
        """A daemon that has read an object, and a copy of its folder, which it has closed."""
        key = "bucket/a"
        origin, server = house(off, f"object={key} 3000")
        warm(origin, server, (key, 3000))
        story.same("it stops", server.stop(), 0)
        subprocess.run(["cp", "-a", server.cache_dir, server.cache_dir + ".copy"], check=True)
        return key, origin, server.again()

    def put_back(server):
        """The copy takes the folder's place."""
        server.kill()
        os.rename(server.cache_dir, server.cache_dir + ".gone")
        os.rename(server.cache_dir + ".copy", server.cache_dir)
        return server.again()

    def older_folder(off):
        """A folder is put back that was copied before a PUT."""
        key, origin, server = warm_copy(off)
        story.same("a PUT is acknowledged", server.put(key, b"version 2").status, 200)
        return one_version(put_back(server).get(key), b"version 2")

    def folder_before_a_refusal(off):
        key, origin, server = warm_copy(off)
        origin.tell(f"match={key}", "status=403")
        story.same("it is refused", server.head(key, headers={"cache-control": "no-cache"}).status, 403)
        os.unlink(server.cache_dir + ".copy/clean")
        reply = put_back(server).get(key)
        return None if reply.status == 403 else f"{len(reply.body)} bytes that were refused"

    def older_root(off):
        """The current meta page's root becomes the one before."""
        key = "bucket/a"
        origin, server = house(off, f"object={key} 3000")
        warm(origin, server, (key, 3000))
        story.same("a PUT is acknowledged", server.put(key, b"version 2").status, 200)
        previous_root(server.cache_dir)
        return one_version(server.get(key), b"version 2")

    def purged(off):
        """An object was purged after it had changed behind the cache's back."""
        key, size = "bucket/a", 300_000
        origin, server = house(off, f"object={key} {size}")
        warm(origin, server, (key, size))
        origin.tell(f"flip={key}")
        story.same("a purge is acknowledged", server.ask("POST", "bucket", [("penstock-purge", ""), ("prefix", "")]).status, 200)
        return one_version(server.get(key), expect(key, 2, 0, size))

    # Where a record lies is part of its checksums: a misplaced one fails them. Identity is what is
    # left.
    on_and_off(story, (("a flipped bit", flipped_bit, "crc"),
                       ("blocks in each other's place", swapped, "crc"),
                       ("two names with one hash", same_hash, "identity"),
                       ("a PUT during a fill", overwritten, "epoch"),
                       ("a PUT amid a late 404", late_missing, "missing"),
                       ("a PUT amid a list", late_list, "lists"),
                       ("a change with half of it warm", changed_half_way, "if-match"),
                       ("a client that the origin refuses", for_another, "grants"),
                       ("a purge", purged, "bans"),
                       ("a folder from before a PUT", older_folder, "mark"),
                       ("a folder from before a refusal", folder_before_a_refusal, "doubt"),
                       ("the root of the tree before", older_root, "meta,leaf")),
               "no wrong byte", "wrong bytes are seen")
