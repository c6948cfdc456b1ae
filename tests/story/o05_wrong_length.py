"""An origin that once says a wrong length does not spoil the key: the next reader is right."""
from harness import *

SIZE = 3_000_000

with Story("o05 the origin says a wrong length once") as story:
    lies = {"of a whole one": ("match=bucket/* GET", "length_error=5"),
            "by a HEAD": ("match=bucket/* HEAD", "length_error=5"),
            "by a HEAD, too short": ("match=bucket/* HEAD", "length_error=-5"),
            "of a range": ("match=bucket/* GET", "total_error=5")}
    origin = story.origin(f"objects=bucket/o/%d {3 * len(lies)} {SIZE}")
    number = 0
    for how in ("immutable", "ttl", "always"):
        server = story.penstock(origin=origin.url, freshness=how, cache_dir=story.path(how))
        for name, lie in lies.items():
            key = f"bucket/o/{number}"
            number += 1
            origin.tell(*lie)
            if "HEAD" in lie[0]:
                first = server.head(key)
            else:
                first = server.get(key, *((10, 20) if "range" in name else ()))
            origin.calm()
            story.fact(f"{how}, {name}: no answer was right and wrong at once",
                       first.status != 200 or first.error
                       or first.headers["content-length"] != str(SIZE), first)
            if "HEAD" not in lie[0]:    # its bytes are here: a reader is sent them before it shows
                again = server.get(key)
                story.fact("the next read is right, or cut", again.error
                           or again.body == expect(key, 1, 0, SIZE), again)
                wait_for("with the next commit it is forgotten",
                         lambda: server.head(key).headers["content-length"] == str(SIZE))
            replies = [server.get(key) for _ in range(3)]
            story.same(f"{how}, {name}: then every read is right",
                       [(r.status, r.error, r.body == expect(key, 1, 0, SIZE)) for r in replies],
                       [(200, None, True)] * 3)
            story.same("and its size everywhere",
                       (server.head(key).headers["content-length"],
                        server.get(key, 10, 20).headers["content-range"]),
                       (str(SIZE), f"bytes 10-20/{SIZE}"))
