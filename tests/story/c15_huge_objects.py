"""An origin may announce any size: bytes of an object too large for the cache come right, from the origin."""
from harness import *

UNIT = 131072
STORED_MAX = 1 << 47        # STORE_OBJECT_BYTES_MAX in src/store/store.h
ANNOUNCED_MAX = 1 << 62     # SIZE_MAX_BYTES in src/cache/learn.c
SIZES = [STORED_MAX, STORED_MAX + 1, (1 << 48) + 77, (1 << 49) - UNIT, 1 << 49, (1 << 49) + UNIT + 77,
         (1 << 49) + 5 * (1 << 40), 1 << 60, ANNOUNCED_MAX]
LENGTH = 200_000


def places(size):
    """Offsets whose units or blocks have the same number modulo 2^32, and the edges of the object."""
    found = {0, 3 * UNIT + 5, size // 2 + 9, size - LENGTH}
    for wrap in (1 << 47, 1 << 48, 1 << 49):
        found |= {wrap - 70_000, wrap, wrap + 3 * UNIT + 5}
    return sorted(at for at in found if at + LENGTH <= size)


with Story("c15 objects above 2^32 units") as story:
    origin = story.origin()
    folders = [{"path": story.path(name), "size": "1GiB"} for name in ("one", "two")]
    server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, cache_dirs=folders)
    client = Client(server.port)
    for size in SIZES:
        key = f"bucket/{size}/size-{size}-x"
        for turn in ("cold", "again"):
            for at in places(size):
                story.bytes(f"{size} bytes, {turn}, at {at}", client.get(key, at, at + LENGTH - 1), key, at, LENGTH,
                            status=206)
            story.bytes(f"{size} bytes, {turn}, the end", client.get(key, suffix=LENGTH), key, size - LENGTH, LENGTH,
                        status=206)
            story.bytes(f"{size} bytes, {turn}, an open range", client.get(key, size - 9), key, size - 9, 9, status=206)
            reply = client.head(key)
            story.same(f"{size} bytes, {turn}, HEAD", reply.headers.get("content-length"), str(size))
            reply = client.get(key, stop_after=3 * MIB)
            story.fact(f"{size} bytes, {turn}, all of it begins right",
                       reply.headers.get("content-length") == str(size) and
                       not same_bytes(reply.body[:3 * MIB], expect(key, 1, 0, 3 * MIB), key), reply)
            reply = client.ask("GET", key, [("penstock-explain", "")])
            told = b'"too_large"' in reply.body
            story.fact(f"{size} bytes, {turn}, explain tells why it is not stored",
                       reply.status == 200 and told == (size > STORED_MAX), reply.body[:600])
        if size <= STORED_MAX:
            wait_for("it is stored", lambda: client.get(key, 0, 99).cache == "hit")
        else:
            story.same(f"{size} bytes: not stored", client.get(key, 0, 99).cache, "miss")
    for size in (ANNOUNCED_MAX + 1, (1 << 63) - 1):
        key = f"bucket/{size}/size-{size}-x"
        for reply in (client.get(key, 0, 99), client.get(key, size - 9), client.get(key, suffix=9), client.head(key),
                      client.get(key)):
            story.fact(f"{size} bytes: refused", reply.status in (502, 503) and not reply.error, reply)
