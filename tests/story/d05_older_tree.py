"""One bit of the index's meta pages flips while Penstock is stopped: no older answer, and no body to
who was refused. Argument: how many bits (30); 0: each of both pages."""
from damage import flip, meta_bits, unnoticed
from harness import *

BITS = int(sys.argv[1]) if len(sys.argv) > 1 else 30
NEWEST = {"cache-control": "no-cache"}

with Story(f"d05 {BITS or 'all'} bits of the meta pages flip at rest", seconds=120 + 2 * (BITS or 3000)) as story:
    origin = story.origin("objects=bucket/%05d 3000 3000")
    server = story.penstock(origin=origin.url, missing_time="0", log_level="warn")
    older, shown, odd, hits = [], [], [], 0

    def cache(key):
        """Read, and committed."""
        server.get(key)
        wait_for(f"{key} is committed", lambda: server.get(key).cache == "hit")

    def restart_with(flipped):
        global server
        page, at, bit = flipped
        check(server.stop() == 0, "it stops cleanly")
        flip(server.cache_dir, page * 4096 + at, bit)
        unnoticed(server.cache_dir)
        server = server.again()

    for number, flipped in enumerate(meta_bits(BITS, story.random)):
        key = f"bucket/{number:05d}"
        cache(key)
        if number % 2:    # the last transaction removes it: v2 is at the origin
            server.put(key, b"version 2 of " + key.encode())
            restart_with(flipped)
            reply = server.get(key)
            if reply.body != b"version 2 of " + key.encode():
                (older if reply.status == 200 else odd).append((flipped, repr(reply)))
        else:             # the last transaction says that it was refused
            origin.tell(f"match={key}", "status=403")
            check(server.head(key, headers=NEWEST).status == 403, "it is refused")
            restart_with(flipped)
            reply = server.get(key)
            if reply.status != 403:
                (shown if reply.status == 200 else odd).append((flipped, repr(reply)))
            origin.calm()
    story.same("0 older answers", older[:3], [])
    story.same("0 bodies to the refused", shown[:3], [])
    story.same("nothing else went wrong", odd[:3], [])
    story.note(f"{number + 1} bits: {len(older)} older answers, {len(shown)} bodies to the refused, {len(odd)} other")
    cache("bucket/02999")
    check(server.stop() == 0, "it stops cleanly")
    flip(server.cache_dir, 200, 1)    # behind what LMDB reads: only the file's time is another
    unnoticed(server.cache_dir)
    server = server.again()
    origin.reset()
    story.same("a bit without a meaning: it is warm", server.get("bucket/02999").cache, "hit")
    story.same("... without a word from the origin", origin.counts()["requests"], 0)
