"""Run:ai Model Streamer reads as vLLM loads a model: in its default chunks and in ranges of 64 KiB
in any order, by 1, 8 and 16 requests at once, over http and https, cold and warm. Each byte is the one
that it reads directly, and comes from the origin once. An argument is the object's size in MiB."""
import json

from authority import *

SIZE = (int(sys.argv[1]) if len(sys.argv) > 1 else 24) * MIB
FULL = SIZE >= 1 << 30
CHUNK, RANGE = 128 * MIB, 64 * 1024    # of a submission; of a range of it
BATCH = 64


def streamer():
    found = glob.glob(os.path.join(TOOLS, "runai-*", "bin", "python3"))
    if not found:
        raise Skip("Run:ai Model Streamer is not installed: run scripts/tools all")
    return max(found, key=os.path.getmtime)


def read(python, env, paths, ranges, batch, concurrency, chunk=None):
    """What one process of it reads of these objects, one after the other: [[SHA-256 ...] ...]."""
    env = {**env, "RUNAI_STREAMER_CONCURRENCY": str(concurrency),
           "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0", "RUNAI_STREAMER_LOG_TO_STDERR": "1",
           "AWS_EC2_METADATA_DISABLED": "true",
           **({"RUNAI_STREAMER_CHUNK_BYTESIZE": str(chunk)} if chunk else {})}
    told = json.dumps({"paths": paths, "ranges": ranges, "batch": batch})
    done = subprocess.run([python, os.path.join(ROOT, "tests", "clients", "by_runai.py"), "-"],
                          input=told, env=env, capture_output=True, text=True, timeout=300)
    check(done.returncode == 0, f"it ended with {done.returncode}: {done.stderr[-1000:]}")
    return json.loads(done.stdout)


with Story("e03 Run:ai Model Streamer", seconds=1500 if FULL else 240) as story:
    python = streamer()
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
    mine = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1", "AWS_CA_BUNDLE": ours.file}
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
