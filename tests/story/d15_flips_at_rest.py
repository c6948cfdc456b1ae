"""Bits flip in all files of two folders while the daemon is down, after a clean stop or after kill -9: never a wrong
byte, and nearly all bytes still come from the cache, which has room for all that is fetched again. Usage: d15_flips_at_rest.py
[FLIPS], by default 100."""
import collections

from damage import flip_bit
from harness import *

FLIPS, A_ROUND = int(sys.argv[1]) if len(sys.argv) > 1 else 100, ["extents"] * 5 + ["index", "others"]
OBJECTS = {**{f"bucket/small/{n:03d}": 9_000 + 1_000 * n for n in range(120)},
           **{f"bucket/large/{n}": 5 * MIB + 123 for n in range(24)}}
TOTAL = sum(OBJECTS.values())

with Story(f"d15 {FLIPS} bits flip at rest", seconds=120 + FLIPS) as story:
    origin = story.origin(*(f"object={key} {size}" for key, size in OBJECTS.items()))
    folders = [story.path("a"), story.path("b")]
    server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, extent_size="4MiB", freshness="immutable",
                            cache_dirs=[{"path": folder, "size": size} for folder, size in zip(folders, ("20GiB", "14GiB"))],
                            pin_budget=20, keys=[{"access_key": "OPERATOR", "secret_key": "operator", "policy": [
                                {"allow": ["read", "list", "cache"], "on": ["bucket"]}]}])
    operator = Client(server.port, "OPERATOR", "operator")
    for operation, prefix in (("pin", "small/00"), ("purge", "none/")):    # so the files `pins` and `bans` have rows
        reply = operator.ask("POST", "bucket", query=[(f"penstock-{operation}", ""), ("prefix", prefix)])
        story.same(f"a {operation}", reply.status, 200)

    def read_all():
        """Reads everything; returns the keys that were wrong, and the bytes that the origin sent."""
        origin.reset()
        wrong = [key for key, size in OBJECTS.items()
                 if (reply := server.get(key)).error or reply.body != expect(key, 1, 0, size)]
        return wrong, origin.totals()["bytes"]

    def all_stored():
        return read_all() == ([], 0)

    def files(kind):
        """The files with at least a byte: of extents, of the index, or all others."""
        found = {"extents": [], "index": [], "others": []}
        for folder in folders:
            for path in glob.glob(folder + "/**", recursive=True):
                if os.path.isfile(path) and os.path.getsize(path):
                    part = os.path.relpath(path, folder).split("/")[0]
                    found[part if part in found else "others"].append(path)
        return found[kind]

    def flip(kind):
        paths = files(kind)
        sizes = [os.path.getsize(path) if kind != "others" else 5 if path.endswith("format") else 1 for path in paths]
        path = story.random.choices(paths, sizes)[0]
        at = story.random.randrange(os.path.getsize(path))
        flip_bit(path, at, story.random.randrange(8))
        flipped["ages" if "/ages/" in path else os.path.basename(path) if kind == "others" else kind] += 1

    flipped, lost, anew, rounds, all_wrong = collections.Counter(), [], [], 0, []
    story.same("the first reading fetches all", read_all(), ([], TOTAL))
    wait_for("all is stored", all_stored, every=0.3)
    while sum(flipped.values()) < FLIPS:
        if rounds % 2:
            server.kill()
        else:
            story.same("it stops cleanly", server.stop(), 0) if rounds < 2 else server.stop()
        for kind in A_ROUND:
            flip(kind)
        server = server.again(freshness=("ttl", "immutable")[rounds // 2 % 2])
        wrong, fetched = read_all()
        all_wrong += wrong
        # a folder whose index is built anew is out of service for a moment: its objects are read from the origin meanwhile
        (anew if server.metric("penstock_store_faults_total") else lost).append(fetched / TOTAL)
        rounds += 1
        if wrong:
            break
        time.sleep(0.3)    # until what was fetched again is committed
    story.same("0 wrong answers", all_wrong[:3], [])
    mean = sum(lost) / len(lost)
    limit = 0.05 if FLIPS >= 1000 else 0.2
    story.fact(f"at least {100 * (1 - limit):.0f} % of the bytes still came from the cache", mean <= limit,
               f"{mean * 100:.2f} % were fetched again")
    # Each round has a flip in an index, and about half of them lie in pages that are used.
    story.fact("an index is not built anew in each round", len(anew) <= rounds * 0.9, anew)
    story.note(f"{rounds} rounds of {len(A_ROUND)} flips ({dict(flipped)}): fetched again in a round "
               f"{mean * 100:.2f} % of all bytes, at most {max(lost) * 100:.1f} %")
    story.note(f"{len(anew)} further rounds, in which an index was built anew: {100 * sum(anew) / max(len(anew), 1):.0f} %")
