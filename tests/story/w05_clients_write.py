"""Real clients write through Penstock: each size that a body lies in another way for, by each
client's own call, with the "Expect: 100-continue" that most of them send."""
from clients import *

SIZES = (0, 100, 5_000, 20_000, 300_000, 3_000_000, 12_000_000)

with Story("w05 boto3, the aws cli, s5cmd and curl write", seconds=240) as story:
    pythons = {"new": tool("python3"), "debian": "/usr/bin/python3"}
    s5cmd, aws = tool("s5cmd"), tool("aws")
    origin = story.versity()
    story.same("a bucket is made at the origin", origin.client.put("bucket", b"").status, 200)
    server = story.penstock(origin=origin.url)
    env, sums, written = server.client_env(), {}, []
    for size in SIZES:
        path = story.path(f"{size}.bin")
        with open(path, "wb") as f:
            f.write(story.random.randbytes(size))
        with open(path, "rb") as f:
            sums[path] = hashlib.sha256(f.read()).hexdigest()

    def by_boto3(name):
        status, out, err = run([pythons[name], os.path.join(HERE, "boto3_writes.py"), "bucket",
                                f"{name}/", *sums], env, 200)
        for line in out.splitlines():
            story.fact(line.partition(" ")[2], line.startswith("ok "), line)
        story.same(f"{name} boto3 came to its end", (status, err[-300:]), (0, ""))
        written.extend((f"{name}/{how}/", path) for how in ("put", "upload") for path in sums)

    def by(client, path, *argv):
        status, out, err = run(argv, env, 30)
        story.same(f"{client} writes {os.path.basename(path)}", (status, err[-300:]), (0, ""))
        written.append((f"{client}/", path))

    for name in pythons:
        by_boto3(name)
    for path in sums:
        name = os.path.basename(path)
        by("aws", path, aws, "s3", "cp", "--only-show-errors", path, f"s3://bucket/aws/{name}")
        by("s5cmd", path, s5cmd, "cp", path, f"s3://bucket/s5cmd/{name}")
        by("curl", path, "curl", "-sS", "-f", "--max-time", "20", "--aws-sigv4",
           "aws:amz:us-east-1:s3", "--user", f"{server.client.key}:{server.client.secret}",
           "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-H", "Expect: 100-continue",
           "-T", path, f"{server.endpoint}/bucket/curl/{name}")
    bad = [f"{prefix}{os.path.basename(path)}" for prefix, path in written
           if hashlib.sha256(origin.client.get(f"bucket/{prefix}{os.path.basename(path)}").body)
           .hexdigest() != sums[path]]
    story.same(f"the origin has every byte of {len(written)} objects", bad, [])
    bad = [f"{prefix}{os.path.basename(path)}" for prefix, path in written
           if hashlib.sha256(server.get(f"bucket/{prefix}{os.path.basename(path)}").body)
           .hexdigest() != sums[path]]
    story.same("and so has who reads them back", bad, [])
    wait_for("no body is held", lambda: server.metric("penstock_http_body_memory_bytes") == 0)
