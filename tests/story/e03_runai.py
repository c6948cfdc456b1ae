"""Run:ai Model Streamer reads as vLLM loads a model. One object: in its default chunks and in ranges of 64 KiB in any
order, by 1, 8 and 16 requests at once, over http and https, cold and warm. Each byte is the one that it reads directly,
and comes from the origin once. A model of four safetensors shards: cold, half cached (only the missing half comes from
the origin), warm, and in other ranges. Arguments are the sizes in MiB of the object and of the model."""
import json

import model
from authority import *

SIZE, MODEL = (int(size) * MIB for size in [*sys.argv[1:], 24, 24][:2])
FULL = SIZE >= 1 << 30
CHUNK, RANGE = 128 * MIB, 64 * 1024    # of a submission; of a range of it
BATCH = 64
SHARDS = 4


def start(python, env, concurrency, how, told, chunk=None):
    """What a process of it prints."""
    env = {**env, "RUNAI_STREAMER_CONCURRENCY": str(concurrency),
           "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0", "RUNAI_STREAMER_LOG_TO_STDERR": "1",
           "AWS_EC2_METADATA_DISABLED": "true",
           **({"RUNAI_STREAMER_CHUNK_BYTESIZE": str(chunk)} if chunk else {})}
    done = subprocess.run([python, os.path.join(ROOT, "tests", "clients", "by_runai.py"), how],
                          input=json.dumps(told), env=env, capture_output=True, text=True, timeout=300)
    check(done.returncode == 0, f"it ended with {done.returncode}: {done.stderr[-1000:]}")
    return json.loads(done.stdout)


def read(python, env, paths, ranges, batch, concurrency, chunk=None):
    """What one process of it reads of these objects, one after the other: [[SHA-256 ...] ...]."""
    return start(python, env, concurrency, "-", {"paths": paths, "ranges": ranges, "batch": batch}, chunk)


def one_object(story, python):
    ours = Authority(story, "ours")
    cert, key = ours.sign("listener")
    origin = story.versity()
    tls_port = free_port()
    server = story.penstock(origin=origin.url, tls_listen=f"127.0.0.1:{tls_port}",
                            tls_cert_file=cert, tls_key_file=key,
                            cache_size=f"{14 * SIZE + (1 << 30)}")
    origin.client.put("models", b"")
    first = os.path.join(origin.folder, "models", "first")
    body = b"".join(story.random.randbytes(MIB) for _ in range(SIZE // MIB))
    story.same("an object is there", origin.client.put("models/first", body).status, 200)
    del body
    whole = [(at, min(CHUNK, SIZE - at)) for at in range(0, SIZE, CHUNK)]
    pieces = [(at, RANGE) for at in range(0, SIZE, RANGE)]
    story.random.shuffle(pieces)
    truth = {}
    with open(first, "rb") as f:
        for at, length in whole + pieces:
            f.seek(at)
            truth[at, length] = hashlib.sha256(f.read(length)).hexdigest()
    kinds = {"default chunks": (whole, 1, None), "64 KiB ranges": (pieces, BATCH, RANGE)}
    for text, (ranges, batch, chunk) in kinds.items():
        direct, = read(python, origin.env(), ["s3://models/first"], ranges, batch, 8, chunk)
        story.fact(f"directly, {text}: right", direct == [truth[r] for r in map(tuple, ranges)])
    mine = {**server.client_env(), "AWS_CA_BUNDLE": ours.file}
    for scheme, url in (("http", server.endpoint), ("https", f"https://127.0.0.1:{tls_port}")):
        for concurrency in (1, 8, 16) if FULL else (1, 16) if scheme == "http" else (8,):
            for text, (ranges, batch, chunk) in kinds.items():
                name = f"{scheme}-{concurrency}-{text.replace(' ', '-')}"
                os.link(first, os.path.join(origin.folder, "models", name))
                before, began = server.metrics(), time.monotonic()
                cold, warm = read(python, {**mine, "AWS_ENDPOINT_URL": url},
                                  [f"s3://models/{name}"] * 2, ranges, batch, concurrency, chunk)
                took = time.monotonic() - began
                more = {n: v - before.get(n, 0) for n, v in server.metrics().items()}
                right = [truth[r] for r in ranges]
                what = f"{scheme}, {concurrency} at once, {text}"
                story.fact(f"{what}: cold, {len(ranges)} right", cold == right)
                story.fact(f"{what}: warm, {len(ranges)} right", warm == right)
                got = more["penstock_origin_received_bytes_total"]    # it retries what is slow
                story.fact(f"{what}: each byte came from the origin once",
                           SIZE <= got <= 1.05 * SIZE, got)
                asked = more['penstock_requests_total{op="GetObject"}']
                if chunk:
                    story.fact(f"{what}: it joins neighbours only",
                               asked > 1.95 * len(ranges), asked)
                story.note(f"{what}: {took:.1f} s for both, {asked:.0f} requests")
    story.same("nothing was refused", server.metric("penstock_http_refused_total"), 0)
    server.stop()


def one_model(story, python):
    """Reads through Penstock from an origin that counts bytes. The halves of a shard meet at a border of 128 KiB, the unit
    in which Penstock fetches."""
    shards = model.write(story.path("model"), SHARDS, MODEL // SHARDS)
    origin = story.origin(*(f"file=models/{folder}/{n} {path}" for folder in ("all", "two", "ends")
                            for n, (path, _) in enumerate(shards)),
                          "bandwidth_all=200000000")
    server = story.penstock(origin=origin.url, cache_size=f"{5 * MODEL + (1 << 30)}")
    right, size = [sums for _, sums in shards], MODEL // SHARDS

    def paths(folder, numbers=range(SHARDS)):
        return [f"s3://models/{folder}/{n}" for n in numbers]

    def moved(what, want, work, most=None):
        """Does the work, and checks that the origin sends `want` bytes meanwhile, or up to `most`."""
        before, began = origin.totals()["bytes"], time.monotonic()
        got = work()
        origin.quiet()
        sent = origin.totals()["bytes"] - before
        story.note(f"{what}: {time.monotonic() - began:.1f} s")
        story.fact(f"{what}: the origin sends {want} bytes", want <= sent <= (most or want), sent)
        return got

    def load(folder, concurrency, numbers=range(SHARDS)):
        return start(python, server.client_env(), concurrency, "load", {"paths": paths(folder, numbers)})["sums"]

    def ranges(folder, numbers, spans, chunk=None):
        return read(python, server.client_env(), paths(folder, numbers), spans, 3, 8, chunk)

    def ranges_of(path, spans):
        with open(path, "rb") as f:
            return [(f.seek(at), hashlib.sha256(f.read(length)).hexdigest())[1] for at, length in spans]

    def settle(work):
        """Reads until all is stored: what comes faster than the disk takes it is not kept."""
        for _ in range(20):
            before = origin.totals()["bytes"]
            work()
            if origin.totals()["bytes"] == before:
                return
            time.sleep(0.5)
        raise Wrong("the origin is still asked after 20 loads")

    story.same("model, cold: all tensors are right",
               moved("model, cold", MODEL, lambda: load("all", 16), 1.02 * MODEL), right)
    settle(lambda: load("all", 8))
    for concurrency in (1, 16):
        story.same(f"model, warm, {concurrency} at once: all tensors are right",
                   moved(f"model, warm, {concurrency} at once", 0, lambda n=concurrency: load("all", n)), right)
    moved("model, two shards of four", MODEL // 2, lambda: load("two", 8, (1, 3)))
    settle(lambda: load("two", 8, (1, 3)))
    story.same("model, half cached by shards: all tensors are right",
               moved("model, half cached by shards", MODEL // 2, lambda: load("two", 8)), right)
    end = [(size // 2, size // 2)]
    got = moved("model, the second half of each shard", MODEL // 2, lambda: ranges("ends", range(SHARDS), end))
    story.same("model, the second halves: right", got, [ranges_of(path, end) for path, _ in shards])
    settle(lambda: ranges("ends", range(SHARDS), end))
    story.same("model, second halves cached: all tensors are right",
               moved("model, second halves cached", MODEL // 2, lambda: load("ends", 16)), right)
    settle(lambda: load("ends", 8))
    step = size // 7 // 3 * 3 + 1    # no border of a tensor, a unit or a chunk
    other = [(at, min(step, size - at)) for at in range(0, size, step)]
    story.random.shuffle(other)
    for folder in ("all", "ends"):
        order = story.random.sample(range(SHARDS), SHARDS)
        got = moved(f"model, other ranges of {folder} in another order", 0,
                    lambda f=folder, o=order: ranges(f, o, other, 5 * MIB))
        story.same(f"model, other ranges of {folder}: right", got, [ranges_of(shards[n][0], other) for n in order])
    story.same("nothing of the model was refused", server.metric("penstock_http_refused_total"), 0)


with Story("e03 Run:ai Model Streamer", seconds=1500 if max(SIZE, MODEL) >= 1 << 30 else 240) as story:
    python = model.streamer()
    if not python:
        raise Skip("Run:ai Model Streamer is not installed: run scripts/tools all")
    one_object(story, python)
    one_model(story, python)
