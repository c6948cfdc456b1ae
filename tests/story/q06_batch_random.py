"""Random batches while objects change and the cache is too small: every item is one version, whole."""
from batches import ask, document, read_frames, read_tar
from harness import *

SIZES = [0, 100, 4096, 9000, 20_000, 70_000, 131_072, 200_000, 600_000, 2_500_000]
COUNT = 60
SECONDS = 8

with Story("q06 random batches, changing objects") as story:
    keys = [f"{i:02d}-{SIZES[i % len(SIZES)]}" for i in range(COUNT)]
    sizes = {key: int(key.split("-")[1]) for key in keys}
    origin = story.origin(*(f"object=bucket/{key} {size}" for key, size in sizes.items()),
                          "match=* GET", "first_byte_ms=5", "tail_ppm=50000")
    server = story.penstock(origin=origin.url, freshness="ttl", ttl="1s", grace="0", cache_size="64MiB", extent_size="4MiB",
                            batch_gets="16", batch_ahead="1MiB", missing_time="0")
    end, wrong, counts = time.monotonic() + SECONDS, [], {"items": 0, "failed": 0, "reset": 0, "gone": 0}
    flips = dict.fromkeys(keys, 1)
    etags = {synthetic_etag(f"bucket/{key}", v): v for key in keys for v in range(1, 40)}

    def changes():
        chooser = random.Random(story.seed)
        while time.monotonic() < end:
            key = chooser.choice(keys)
            flips[key] += 1
            origin.tell(f"flip=bucket/{key}")
            time.sleep(0.1)

    def some(chooser):
        key = chooser.choice([*keys, "gone"])
        size, kind = sizes.get(key, 0), chooser.randrange(4)
        if kind < 2 or not size:
            return key
        first = chooser.randrange(size)
        return [key, first, chooser.choice([-1, 0, chooser.randrange(size - first + 1)])]

    def judge(item, asked):
        """A sentence if it is not exactly what one version has."""
        key, first, length = (asked, 0, -1) if isinstance(asked, str) else asked
        if key == "gone":
            return None if item.status == 404 else f"{item} of a key that is not there"
        if item.code:
            counts["failed"] += 1
            return None if item.status == 503 else f"{item} of {asked}"
        length = sizes[key] - first if length < 0 else length
        versions = [etags[item.etag]] if item.etag else range(1, 40)
        for version in versions:
            if item.body == expect(f"bucket/{key}", version, first, length):
                return None
        return f"{asked}: {item} are of no version" if len(item.body) == length else f"{asked}: {item} is not whole"

    def reads(number):
        chooser = random.Random(story.seed + number)
        client = Client(server.port, keep=True)
        while time.monotonic() < end and not wrong:
            items, form = [some(chooser) for _ in range(chooser.choice([1, 3, 30, 200]))], chooser.choice(["frames", "tar"])
            if chooser.random() < 0.3:    # one that leaves
                wire = Wire(server.port)
                wire.send(client.head_of("POST", "bucket", [("penstock-batch", "")], body=document(items, form=form)))
                time.sleep(chooser.random() / 50)
                wire.abort()
                counts["gone"] += 1
                continue
            reply = ask(client, "bucket", items, form=form)
            if (reply.error or "").startswith("reset"):
                counts["reset"] += 1
                continue
            got, whole = read_frames(reply.body) if form == "frames" else (read_tar(reply.body), True)
            if reply.error or not whole or len(got) != len(items):
                wrong.append(f"{reply}: {len(got)} of {len(items)} items")
            counts["items"] += len(got)
            wrong.extend(filter(None, (judge(item, asked) for item, asked in zip(got, items))))

    together(changes, *(lambda n=n: reads(n) for n in range(3)))
    story.note(str(counts))
    story.same("every item was one version, whole", wrong[:5], [])
    story.fact("there were many", counts["items"] > 300, counts)
    story.fact("... and few that failed", counts["failed"] + counts["reset"] < counts["items"] / 5, counts)
    wait_for("nothing is held after", lambda: server.metric("penstock_batch_memory_bytes") == 0)
