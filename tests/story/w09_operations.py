"""Whatever S3 does, it does through Penstock: the same calls, made directly and through it, have the same
answers, header by header; and what they change is not answered from the cache."""
import base64

from harness import *

OURS = {"date", "server", "connection", "x-amz-request-id", "x-amz-id-2", "transfer-encoding", "keep-alive",
        "last-modified", "x-cache", "age", "server-timing"}
NS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


def xml(root, inside):
    return f'<?xml version="1.0" encoding="UTF-8"?><{root} {NS}>{inside}</{root}>'.encode()


def md5(body):
    return {"content-md5": base64.b64encode(hashlib.md5(body).digest()).decode()}


class Transcript:
    """Calls to one side, and what is the same of their answers on both."""

    def __init__(self, client, bucket):
        self.client, self.bucket, self.lines, self.known = client, bucket, [], {}

    def mask(self, text):
        text = text.replace(self.bucket.encode(), b"BUCKET")
        text = re.sub(rb"127\.0\.0\.1:\d+", b"ENDPOINT", text)
        text = re.sub(rb"<(RequestId|HostId|LastModified|Initiated|Date|CreationDate|DeleteMarkerVersionId)>[^<]*</", rb"<\1>-</", text)
        for name, value in self.known.items():
            text = text.replace(value.encode(), name.encode())
        return text

    def __call__(self, method, key="", query=(), headers=None, body=b"", name=None):
        place = self.bucket + ("/" + key if key else "")
        headers = {n: v.replace("BUCKET", self.bucket) for n, v in (headers or {}).items()}
        body = body.replace(b"BUCKET", self.bucket.encode())
        reply = self.client.ask(method, place, query=list(query), headers=headers, body=body)
        version = reply.headers.get("x-amz-version-id")
        if version and version != "null":
            self.known.setdefault(f"VERSION{len(self.known)}", version)
        upload = re.search(rb"<UploadId>([^<]*)</UploadId>", reply.body)
        if upload:
            self.known.setdefault("UPLOAD", upload.group(1).decode())
        heads = {n: self.mask(v.encode()).decode() for n, v in reply.headers.items() if n.lower() not in OURS}
        if method != "HEAD" or reply.status >= 400:    # ids of other lengths; chunks that we put together
            heads["content-length"] = len(self.mask(reply.body))
        asked = f"{method} {key} {' '.join(name for name, _ in query)} {' '.join(headers)}"
        self.lines.append((" ".join(asked.split()),
                           reply.status, reply.error, dict(sorted(heads.items())), self.mask(reply.body)))
        return reply


def part_query(number, upload):
    return [("partNumber", str(number)), ("uploadId", upload)]


def play(do):
    """Every kind of operation, in an order in which each has something to do."""
    do("PUT"), do("PUT"), do("HEAD"), do("GET", query=[("location", "")])
    do("PUT", "a b/ü", body=b"first" * 1000, headers={"content-type": "text/x", "x-amz-meta-colour": "light blue",
                                                      "cache-control": "max-age=60", "x-amz-tagging": "a=1"})
    do("GET", "a b/ü"), do("HEAD", "a b/ü"), do("HEAD", "none")
    # properties
    do("GET", "a b/ü", [("tagging", "")])
    tags = xml("Tagging", "<TagSet><Tag><Key>team</Key><Value>x</Value></Tag></TagSet>")
    do("PUT", "a b/ü", [("tagging", "")], md5(tags), tags)
    do("GET", "a b/ü"), do("GET", "a b/ü", [("tagging", "")])
    do("DELETE", "a b/ü", [("tagging", "")]), do("GET", "a b/ü", [("tagging", "")])
    do("GET", "a b/ü", [("acl", "")]), do("GET", "a b/ü", [("attributes", "")], {"x-amz-object-attributes": "ETag,ObjectSize"})
    do("GET", "a b/ü", [("torrent", "")]), do("GET", "a b/ü", [("retention", "")]), do("GET", "a b/ü", [("legal-hold", "")])
    do("POST", "a b/ü", [("restore", "")], body=xml("RestoreRequest", "<Days>1</Days>"))
    do("POST", "a b/ü", [("select", ""), ("select-type", "2")], body=xml("SelectObjectContentRequest", "<Expression>SELECT * FROM S3Object</Expression>"))
    # buckets
    for name in ("acl", "policy", "cors", "tagging", "versioning", "lifecycle", "website", "encryption", "logging", "notification", "replication",
                 "requestPayment", "accelerate", "object-lock", "ownershipControls", "publicAccessBlock", "policyStatus",
                 "inventory", "analytics", "metrics", "intelligent-tiering", "uploads", "versions", "never-heard-of"):
        do("GET", query=[(name, "")])
    do("PUT", query=[("tagging", "")], headers=md5(tags), body=tags), do("GET", query=[("tagging", "")])
    do("DELETE", query=[("tagging", "")])
    policy = b'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::BUCKET/*"}]}'
    do("PUT", query=[("policy", "")], body=policy), do("GET", query=[("policy", "")]), do("DELETE", query=[("policy", "")])
    cors = xml("CORSConfiguration", "<CORSRule><AllowedOrigin>http://a.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>")
    do("PUT", query=[("cors", "")], headers=md5(cors), body=cors), do("GET", query=[("cors", "")])
    do("GET", "a b/ü", headers={"origin": "http://a.example"}), do("GET", "a b/ü", headers={"origin": "http://b.example"})
    do("DELETE", query=[("cors", "")])
    # copies
    for source in ("/BUCKET/a%20b/%C3%BC", "BUCKET/a%20b/%C3%BC"):
        do("PUT", "copy", headers={"x-amz-copy-source": source}), do("GET", "copy")
    do("PUT", "copy", headers={"x-amz-copy-source": "/BUCKET/a%20b/%C3%BC", "x-amz-metadata-directive": "REPLACE", "x-amz-meta-new": "1"})
    do("HEAD", "copy"), do("PUT", "copy", headers={"x-amz-copy-source": "/BUCKET/none"}), do("GET", "copy")
    # parts
    upload = re.search(rb"<UploadId>([^<]*)<", do("POST", "parts", [("uploads", "")], {"x-amz-meta-p": "1"}).body).group(1).decode()
    first = do("PUT", "parts", part_query(1, upload), body=b"p" * (5 * MIB)).headers.get("etag", "")
    do("PUT", "large", body=b"l" * (6 * MIB))
    second = re.search(rb"<ETag>([^<]*)<", do("PUT", "parts", part_query(2, upload), {"x-amz-copy-source": "/BUCKET/large", "x-amz-copy-source-range": f"bytes=0-{5 * MIB - 1}"}).body)
    third = do("PUT", "parts", part_query(3, upload), body=b"end").headers.get("etag", "")
    do("GET", "parts", [("uploadId", upload)]), do("GET", query=[("uploads", "")])
    etags = (first, second.group(1).decode().replace("&#34;", '"').replace("&quot;", '"'), third)
    done = xml("CompleteMultipartUpload", "".join(f"<Part><PartNumber>{i + 1}</PartNumber><ETag>{etag}</ETag></Part>" for i, etag in enumerate(etags)))
    do("POST", "parts", [("uploadId", upload)], body=done), do("HEAD", "parts")
    do("HEAD", "parts", [("partNumber", "1")]), do("GET", "parts", [("partNumber", "3")])
    do("GET", "parts", headers={"range": "bytes=5242870-5242890"}), do("GET", "parts", headers={"x-amz-expected-bucket-owner": "nobody", "range": "bytes=1-3"})
    # versions
    on = xml("VersioningConfiguration", "<Status>Enabled</Status>")
    do("PUT", query=[("versioning", "")], headers=md5(on), body=on)
    old = do("PUT", "v", body=b"one").headers.get("x-amz-version-id", "")
    do("PUT", "v", body=b"three"), do("GET", "v"), do("GET", "v", [("versionId", old)]), do("HEAD", "v", [("versionId", old)])
    mark = do("DELETE", "v").headers.get("x-amz-version-id", "")
    do("GET", "v"), do("HEAD", "v"), do("DELETE", "v", [("versionId", mark)]), do("GET", "v")
    do("DELETE", "v", [("versionId", old)]), do("GET", "v", [("versionId", old)]), do("GET", query=[("versions", ""), ("prefix", "v")])
    # conditions
    do("PUT", "once", body=b"1", headers={"if-none-match": "*"}), do("PUT", "once", body=b"2", headers={"if-none-match": "*"}), do("GET", "once")
    keys = xml("Delete", "".join(f"<Object><Key>{key}</Key></Object>" for key in ("copy", "once", "parts", "a b/ü")))
    do("POST", query=[("delete", "")], headers=md5(keys), body=keys), do("GET", "copy"), do("GET", query=[("list-type", "2")])
    do("DELETE"), do("GET", query=[("list-type", "1")])


def by_host(story, server):
    """boto3, told to put buckets into the host's name."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        story.note("boto3 is not installed: the bucket in the host's name was tried by hand alone")
        return
    resolve = socket.getaddrinfo
    socket.getaddrinfo = lambda host, *more, **how: resolve("127.0.0.1" if str(host).endswith("localhost") else host, *more, **how)

    def client(version):
        return boto3.client("s3", endpoint_url=f"http://localhost:{server.port}", region_name="us-east-1", aws_access_key_id=ACCESS_KEY,
                            aws_secret_access_key=SECRET_KEY,
                            config=Config(signature_version=version, s3={"addressing_style": "virtual"}, retries={"max_attempts": 1}))
    for version in ("s3v4", "s3"):
        s3 = client(version)
        s3.put_object(Bucket="bucket-h", Key=f"by {version}/ü", Body=version.encode())
        story.same(f"boto3, {version}, bucket in the host's name: put, get", s3.get_object(Bucket="bucket-h", Key=f"by {version}/ü")["Body"].read(), version.encode())
        story.same("... list", [o["Key"] for o in s3.list_objects(Bucket="bucket-h", Prefix=f"by {version}/")["Contents"]], [f"by {version}/ü"])
        url = s3.generate_presigned_url("get_object", {"Bucket": "bucket-h", "Key": f"by {version}/ü"}, 60)
        story.fact("... its presigned URL names the bucket as host", url.startswith(f"http://bucket-h.localhost:{server.port}/"), url)
        reply = plain(server.port, "GET", url.split(str(server.port), 1)[1], host=f"bucket-h.localhost:{server.port}")
        story.same("... and works", (reply.status, reply.body), (200, version.encode()))
        reply = plain(server.port, "GET", url.split(str(server.port), 1)[1], host=f"bucket-g.localhost:{server.port}")
        story.same("... for that bucket only", (reply.status, reply.code), (403, "SignatureDoesNotMatch"))


with Story("w09 every operation of S3 has the origin's own answer") as story:
    gateway = story.versity(versioning=True)
    server = story.penstock(origin=gateway.url)
    direct, proxied = Transcript(gateway.client, "bucket-a"), Transcript(server.client, "bucket-b")
    play(direct)
    play(proxied)
    different = [(one, two) for one, two in zip(direct.lines, proxied.lines) if one != two]
    story.note(f"{len(direct.lines)} calls, {len(different)} with another answer")
    for one, two in different:
        story.same(one[0], two[1:], one[1:])
    story.same("as many calls", len(proxied.lines), len(direct.lines))

    # ---- the bucket in the host's name ----
    host = {"host": f"bucket-h.localhost:{server.port}"}
    story.same("host style: a bucket", server.ask("PUT", "", headers=host).status, 200)
    story.same("... an object of it", server.ask("PUT", "a b/c", headers=host, body=b"by host").status, 200)
    story.same("... is the one of the path", server.get("bucket-h/a b/c").body, b"by host")
    story.same("... read", server.ask("GET", "a b/c", headers=host).body, b"by host")
    story.same("... and listed", b"<Key>a b/c</Key>" in server.ask("GET", "", [("list-type", "2")], host).body, True)

    for name in ("_/x", "_/health/live"):
        story.same(f"... {name} is a key there like any other",
                   server.ask("PUT", name, headers=host, body=b"mine").status, 200)
        story.same("... and read", server.ask("GET", name, headers=host).body, b"mine")
    story.same("... and our page elsewhere", json.loads(plain(server.port, "GET", "/_/health/live").body),
               {"status": "live"})
    by_host(story, server)

    # ---- what browsers ask first ----
    def preflight(port, method, origin="http://a.example", bucket="bucket-h", headers=()):
        reply = plain(port, "OPTIONS", f"/{bucket}/x", headers=[f"Origin: {origin}", f"Access-Control-Request-Method: {method}", *headers])
        return reply.status, reply.code, {n: v for n, v in reply.headers.items() if n.startswith("access-control")}
    rules = xml("CORSConfiguration", "<CORSRule><AllowedOrigin>http://a.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>")
    server.ask("PUT", "bucket-h", [("cors", "")], md5(rules), rules)
    for case in (("GET",), ("PUT",), ("GET", "http://b.example"), ("get",), ("GET", "http://a.example", "no-such-bucket")):
        story.same(f"OPTIONS {case}: no signature is needed, and the answer is the origin's",
                   preflight(server.port, *case), preflight(gateway.port, *case))
    story.same("one was granted", preflight(server.port, "GET")[0], 200)
    target = presign("PUT", server.client.host, "/bucket-h/x", server.client.key,
                     server.client.secret)
    asks = ["Origin: http://a.example", "Access-Control-Request-Method: GET"]
    story.same("so it is of a URL that was presigned for another method",
               plain(server.port, "OPTIONS", target, headers=asks).status, 200)
    story.same("OPTIONS with a body is no such question", plain(server.port, "OPTIONS", "/bucket-h/x", b"body").status, 403)
    story.same("nor is a GET", plain(server.port, "GET", "/bucket-h/x").status, 403)

    # ---- long answers that pass by the cache ----
    body = story.random.randbytes(40 * MIB)
    gateway.client.put("bucket-c", b"")
    gateway.client.put("bucket-c/long", body)
    by = {"x-amz-expected-bucket-owner": gateway.client.key}
    reply = server.get("bucket-c/long", headers=by)
    story.same("40 MiB that only the origin can answer", (reply.status, hashlib.sha256(reply.body).digest(), reply.headers.get("x-cache")),
               (200, hashlib.sha256(body).digest(), None))
    reply = server.get("bucket-c/long", first=MIB, last=30 * MIB - 1, headers=by)
    story.same("... and a range of it", (reply.status, reply.body == body[MIB:30 * MIB]), (206, True))
    story.same("... and its HEAD", server.head("bucket-c/long", headers=by).headers.get("content-length"), str(len(body)))
    reply = server.get("bucket-c/long", headers=by, stop_after=8 * MIB)
    story.same("a client that leaves leaves", server.get("bucket-c/long", 0, 9).status, 206)

    origin = story.origin(f"object=bucket/long {40 * MIB}", "match=bucket/long", f"cut_after={20 * MIB}")
    faulty = story.penstock(origin=origin.url, cache_dir=story.path("faulty"))
    reply = faulty.get("bucket/long", headers=by)
    story.fact("H10: cut short by the origin, it is cut short for the client, and shows it", reply.error and len(reply.body) < 40 * MIB, reply)
