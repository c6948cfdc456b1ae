"""Real clients write through Penstock: each size that a body lies in another way for, by each
client's own call, with the "Expect: 100-continue" that most of them send; over http, where boto3
signs a digest, and over https, where it sends chunks with a trailer and no length."""
from authority import *
from clients import *

sys.path.insert(0, os.path.join(ROOT, "tests", "clients"))
from forkserver import ForkServer  # noqa: E402
from rows import AWS_IMPORTS  # noqa: E402

SIZES = (0, 100, 5_000, 20_000, 300_000, 3_000_000, 12_000_000)

with Story("w05 boto3, the aws cli, s5cmd and curl write", seconds=240) as story:
    pythons = {"new": tool("python3"), "debian": "/usr/bin/python3"}
    s5cmd, aws = tool("s5cmd"), tool("aws")
    origin = story.versity()
    story.same("a bucket is made at the origin", origin.client.put("bucket", b"").status, 200)
    ours, tls_port = Authority(story, "ours"), free_port()
    cert, key = ours.sign("server")
    server = story.penstock(origin=origin.url, tls_listen=f"127.0.0.1:{tls_port}", tls_cert_file=cert, tls_key_file=key)
    secure = f"https://127.0.0.1:{tls_port}"
    over = {"http": server.client_env(),
            "https": {**server.client_env(), "AWS_ENDPOINT_URL": secure, "S3_ENDPOINT_URL": secure,
                      "AWS_CA_BUNDLE": ours.file, "SSL_CERT_FILE": ours.file}}
    sums, written = {}, []
    for size in SIZES:
        path = story.path(f"{size}.bin")
        with open(path, "wb") as f:
            f.write(story.random.randbytes(size))
        with open(path, "rb") as f:
            sums[path] = hashlib.sha256(f.read()).hexdigest()

    def by_boto3(name, scheme):
        status, out, err = run([pythons[name], os.path.join(HERE, "boto3_writes.py"), "bucket",
                                f"{name}-{scheme}/", *sums], over[scheme], 200)
        for line in out.splitlines():
            story.fact(line.partition(" ")[2], line.startswith("ok "), line)
        story.same(f"{name} boto3 came to its end", (status, err[-300:]), (0, ""))
        written.extend((f"{name}-{scheme}/{how}/", path) for how in ("put", "upload") for path in sums)

    def by(client, path, *argv, scheme="http"):
        status, out, err = aws_over[scheme].run(argv[1:], 30) if argv[0] == aws else run(argv, over[scheme], 30)
        story.same(f"{client} writes {os.path.basename(path)}", (status, err[-300:]), (0, ""))
        written.append((f"{client}/", path))

    for name in pythons:
        for scheme in over:
            by_boto3(name, scheme)
    aws_over = {scheme: ForkServer(aws, AWS_IMPORTS.split(), env={**own_env(), **env}) for scheme, env in over.items()}
    for path in sums:
        name = os.path.basename(path)
        by("aws", path, aws, "s3", "cp", "--only-show-errors", path, f"s3://bucket/aws/{name}")
        by("aws-https", path, aws, "--endpoint-url", secure, "s3", "cp", "--only-show-errors", path,
           f"s3://bucket/aws-https/{name}", scheme="https")
        by("s5cmd", path, s5cmd, "cp", path, f"s3://bucket/s5cmd/{name}")
        by("curl", path, "curl", "-sS", "-f", "--max-time", "20", "--aws-sigv4",
           "aws:amz:us-east-1:s3", "--user", f"{server.client.key}:{server.client.secret}",
           "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-H", "Expect: 100-continue",
           "-T", path, f"{server.endpoint}/bucket/curl/{name}")
    for forks in aws_over.values():
        forks.end()
    bad = [f"{prefix}{os.path.basename(path)}" for prefix, path in written
           if hashlib.sha256(origin.client.get(f"bucket/{prefix}{os.path.basename(path)}").body)
           .hexdigest() != sums[path]]
    story.same(f"the origin has every byte of {len(written)} objects", bad, [])
    bad = [f"{prefix}{os.path.basename(path)}" for prefix, path in written
           if hashlib.sha256(server.get(f"bucket/{prefix}{os.path.basename(path)}").body)
           .hexdigest() != sums[path]]
    story.same("and so has who reads them back", bad, [])
    wait_for("no body is held", lambda: server.metric("penstock_http_body_memory_bytes") == 0)
