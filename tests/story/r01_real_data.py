"""Debian's clip art and large objects, from a real S3 origin, read by boto3 and s5cmd: every byte
is right, and the origin is not asked twice. Arguments: PNG files (500), MiB of each large object
(256)."""
from harness import *

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 500
LARGE_MIB = [int(n) for n in sys.argv[2].split(",")] if len(sys.argv) > 2 else [256]
FULL = len(LARGE_MIB) > 1
PAGE_LEAST = 300    # of expired objects, a listing page renews at least so many
QUEUE_FULL = "penstock_store_queue_full_total"
CLIPART = os.path.join(TOOLS, "openclipart-png")


def make_tree(story):
    """The originals: {key: sha256}. Links in the package become files of their own, as an upload
    makes them."""
    if not os.path.exists(os.path.join(CLIPART, ".whole")):
        raise Skip("openclipart-png is not there: run scripts/tools clipart")
    sums, folder = {}, story.path("originals")
    found = sorted(glob.glob(os.path.join(CLIPART, "**", "*.png"), recursive=True))
    for path in found if COUNT >= len(found) else story.random.sample(found, COUNT):
        name = "png/" + os.path.relpath(path, CLIPART).split("/png/", 1)[1]
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        try:
            shutil.copyfile(path, os.path.join(folder, name))    # follows links
        except FileNotFoundError:
            continue    # a link to what is in another package
        with open(path, "rb") as f:
            sums[name] = hashlib.sha256(f.read()).hexdigest()
    os.makedirs(os.path.join(folder, "large"), exist_ok=True)
    for number, size in enumerate(LARGE_MIB):
        name, digest = f"large/{number:02d}-{size}MiB.bin", hashlib.sha256()
        with open(os.path.join(folder, name), "wb") as f:
            for _ in range(size):
                piece = story.random.randbytes(MIB)
                digest.update(piece)
                f.write(piece)
        sums[name] = digest.hexdigest()
    return sums, folder


def asked(versity):
    """{operation: [key ...]}, by the origin's own access log; it has a moment to write it."""
    time.sleep(0.5)
    found = {}
    with open(versity.access_log) as f:
        for operation, key in re.findall(r" s3_(\w+) (\S+) ", f.read()):
            found.setdefault(operation, []).append(key)
    return found


with Story(f"r01 {COUNT} PNG files and {len(LARGE_MIB)} large objects",
           seconds=1500 if FULL else 240) as story:
    python, s5cmd = tool("python3"), tool("s5cmd")
    sums, originals = make_tree(story)
    total = sum(os.path.getsize(os.path.join(originals, k)) for k in sums)
    story.note(f"{len(sums)} objects, {total / MIB:.0f} MiB")
    with open(story.path("sums.json"), "w") as f:
        json.dump(sums, f)
    versity = story.versity()
    story.same("a bucket is made", versity.client.put("data", b"").status, 200)
    status, out, err = run([s5cmd, "cp", originals + "/", "s3://data/"], versity.env(), 600)
    story.same("s5cmd uploads it", (status, err[-300:]), (0, ""))
    server = story.penstock(origin=versity.url, cache_size=f"{max(2 * GIB, 3 * total)}")

    def mark():
        open(versity.access_log, "w").close()    # opened for appending by its writer

    def boto3(text, ranges=0):
        began = time.monotonic()
        status, out, err = run([python, os.path.join(HERE, "boto3_pass.py"), "data",
                                story.path("sums.json"), "8", originals,
                                str(ranges)], server.client_env(), 900)
        story.same(f"{text}: boto3 comes to its end", (status, err[-500:]), (0, ""))
        told = json.loads(out)
        story.same(f"{text}: every SHA-256 is equal",
                   (told["objects"], told["bytes"], told["wrong"][:3]), (len(sums), total, []))
        story.note(f"{text}: {told['objects']} objects, {told['bytes'] / MIB:.0f} MiB, {told['ranges']} ranges in {time.monotonic() - began:.1f} s")

    def by_s5cmd(text):
        shutil.rmtree(story.path("copy"), ignore_errors=True)
        began = time.monotonic()
        status, out, err = run([s5cmd, "--numworkers", "16", "cp", "s3://data/*",
                                story.path("copy") + "/"], server.client_env(), 900)
        took = time.monotonic() - began
        story.same(f"{text}: s5cmd copies", (status, err[-300:]), (0, ""))
        bad = []
        for key, want in sums.items():
            digest = hashlib.sha256()
            try:
                with open(os.path.join(story.path("copy"), key), "rb") as f:
                    while piece := f.read(4 * MIB):
                        digest.update(piece)
            except OSError as failure:
                bad.append(str(failure))
            else:
                if digest.hexdigest() != want:
                    bad.append(key)
        shutil.rmtree(story.path("copy"), ignore_errors=True)
        story.same(f"{text}: every SHA-256 is equal", bad[:3], [])
        story.note(f"{text}: {took:.1f} s")

    def origin_was_asked(text, lists_most):
        others = asked(versity)
        lists = sum(len(others.pop(op, [])) for op in ("ListObjects", "ListObjectsV2"))
        story.fact(f"{text}: no object is asked for at the origin", not others,
                   {op: (len(keys), sorted(set(keys))[:8]) for op, keys in others.items()})
        story.fact(f"{text}: at most {lists_most} lists", lists <= lists_most, lists)
        story.note(f"{text}: {sum(map(len, others.values()))} origin requests and {lists} lists")

    own_lists = len(sums) // 1000 + 2
    boto3("first pass", ranges=5)
    check(asked(versity), "the origin's access log says nothing")
    story.note(f"first pass: {server.metric('penstock_cache_unpublished_total'):.0f} records were fetched and not stored, "
               f"{server.metric(QUEUE_FULL):.0f} times the queue of the store was full")
    time.sleep(1)
    mark()
    boto3("second pass", ranges=5)
    origin_was_asked("second pass by boto3", 0)
    mark()
    by_s5cmd("second pass")
    origin_was_asked("second pass by s5cmd", own_lists)
    server = server.restart()
    story.in_time("ready in under a second", server.ready_s < 1, f"{server.ready_s:.3f} s")
    mark()
    boto3("after SIGTERM and restart")
    origin_was_asked("after SIGTERM and restart", 0)
    # Default settings: nothing of freshness is said. At full size the two minutes are real.
    story.same("SIGTERM ends it cleanly", server.stop(), 0)
    server.settings.pop("freshness")
    clock = None if FULL else story.clock()
    server = server.again()
    if FULL:
        time.sleep(125)
    else:
        clock.ahead(125)
    mark()
    boto3("all expired")
    # 8 readers begin with pages of their own folders and then of the bucket: much among few
    # objects.
    least = (len(sums) + PAGE_LEAST - 1) // PAGE_LEAST
    origin_was_asked("all expired", least + (0 if FULL else 10))
