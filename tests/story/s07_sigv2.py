"""Signature version 2, as boto3 presigns and older clients sign; and why a signature is refused."""
import base64

from forms import *

try:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import ClientError
except ImportError:
    boto3 = None

with Story("s07 signature version 2") as story:
    if boto3 is None:
        raise Skip("boto3 is not installed")
    origin = story.origin("object=bucket/a 1000")
    server = story.penstock(origin=origin.url)
    server.put("bucket/b c/ü", bytes(3000))
    whole = expect("bucket/a", 1, 0, 1000)

    def client(key=ACCESS_KEY, secret=SECRET_KEY, port=server.port, **config):
        return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                            aws_access_key_id=key, aws_secret_access_key=secret,
                            config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"},
                                          **config))

    def target(url):
        return url.split(f":{server.port}", 1)[1]

    # ---- presigned: what boto3 does in us-east-1 unless told otherwise
    url = client(signature_version="s3").generate_presigned_url(
        "get_object", {"Bucket": "bucket", "Key": "a"}, 60)
    story.fact("boto3 presigns by version 2", "AWSAccessKeyId=" in url and "Signature=" in url, url)
    reply = plain(server.port, "GET", target(url))
    story.fact("a presigned URL works", reply.status == 200 and reply.body == whole, reply)
    reply = plain(server.port, "GET", target(url), headers=["Range: bytes=10-19"])
    story.fact("... with a range", reply.status == 206 and reply.body == whole[10:20], reply)
    odd = client(signature_version="s3").generate_presigned_url(
        "get_object", {"Bucket": "bucket", "Key": "b c/ü",
                       "ResponseContentType": "text/x+y"}, 60)
    reply = plain(server.port, "GET", target(odd))
    story.same("... of an odd key, with what the answer shall say",
               (reply.status, len(reply.body), reply.headers.get("content-type")),
               (200, 3000, "text/x+y"))

    def refused(text, reply, status, code, *said):
        story.fact(f"{text}: {status} {code}", (reply.status, reply.code) == (status, code)
                   and all(s in reply.body for s in said), f"{reply} {reply.body[:500]}")
    refused("another method", plain(server.port, "DELETE", target(url)), 403,
            "SignatureDoesNotMatch")
    refused("another key", plain(server.port, "GET", target(url).replace("/a?", "/b?")), 403,
            "SignatureDoesNotMatch", b"<StringToSign>GET\n\n\n", b"\n/bucket/b</StringToSign>")
    refused("another operation", plain(server.port, "GET", target(url) + "&attributes"), 403,
            "AccessDenied")
    late = re.sub(r"Expires=\d+", f"Expires={int(time.time()) + 9999}", target(url))
    refused("a longer life", plain(server.port, "GET", late), 403, "SignatureDoesNotMatch")
    past = client(signature_version="s3").generate_presigned_url(
        "get_object", {"Bucket": "bucket", "Key": "a"}, -10)
    refused("one that has expired", plain(server.port, "GET", target(past)), 403, "AccessDenied",
            b"Request has expired.", b"<ServerTime>")
    stranger = client(key="STRANGER", signature_version="s3").generate_presigned_url(
        "get_object", {"Bucket": "bucket", "Key": "a"}, 60)
    refused("an unknown key", plain(server.port, "GET", target(stranger)), 403,
            "InvalidAccessKeyId", b"<AWSAccessKeyId>STRANGER</AWSAccessKeyId>")

    # ---- in the header
    s3 = client(signature_version="s3")
    story.same("get", s3.get_object(Bucket="bucket", Key="a")["Body"].read() == whole, True)
    story.same("head", s3.head_object(Bucket="bucket", Key="b c/ü")["ContentLength"], 3000)
    s3.put_object(Bucket="bucket", Key="new", Body=b"by version 2", Metadata={"m": "v"},
                  ContentType="text/plain")
    story.same("put", s3.get_object(Bucket="bucket", Key="new")["Body"].read(), b"by version 2")
    story.same("list", [o["Key"] for o in s3.list_objects(
        Bucket="bucket", Prefix="b c")["Contents"]], ["b c/ü"])
    s3.delete_object(Bucket="bucket", Key="new")
    try:
        client(secret="wrong", signature_version="s3").get_object(Bucket="bucket", Key="a")
        story.fact("a wrong secret is refused", False)
    except ClientError as error:
        story.same("a wrong secret is refused", error.response["Error"]["Code"],
                   "SignatureDoesNotMatch")

    # ---- minio-go sends an empty value and signs none
    def signed_as(method, target, resource):
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        text = f"{method}\n\n\n{date}\n{resource}"
        sum = base64.b64encode(hmac.new(SECRET_KEY.encode(), text.encode(), "sha1").digest())
        return plain(server.port, method, target, headers=[
            f"Date: {date}", f"Authorization: AWS {ACCESS_KEY}:{sum.decode()}"])
    for sent, signed in (("uploads=", "uploads"), ("uploads", "uploads="), ("uploads=", "uploads=")):
        reply = signed_as("POST", f"/bucket/new?{sent}", f"/bucket/new?{signed}")
        story.fact(f"?{sent} signed as ?{signed}", reply.status == 200
                   and b"<UploadId>" in reply.body, f"{reply} {reply.body[:300]}")
        reply = signed_as("GET", f"/bucket?{sent}", f"/bucket/?{signed}")
        story.same(f"?{sent} of a bucket signed as /?{signed}", reply.status, 200)
    refused("?uploads= signed as nothing", signed_as("POST", "/bucket/new?uploads=", "/bucket/new"),
            403, "SignatureDoesNotMatch", b"\n/bucket/new?uploads=</StringToSign>")
    if shutil.which("s3cmd"):
        config = story.path("s3cfg")
        with open(config, "w") as f:
            f.write(f"[default]\naccess_key = {ACCESS_KEY}\nsecret_key = {SECRET_KEY}\n"
                    f"host_base = 127.0.0.1:{server.port}\nhost_bucket = 127.0.0.1:{server.port}\n"
                    "use_https = False\nsignature_v2 = True\n")
        done = run(["s3cmd", "-c", config, "get", "s3://bucket/a", story.path("got")])
        with open(story.path("got"), "rb") as f:
            story.fact("s3cmd --signature-v2 gets", f.read() == whole, done)
        done = run(["s3cmd", "-c", config, "ls", "s3://bucket/"])
        story.fact("... and lists", "s3://bucket/a" in str(done), done)

    # ---- why a signature of version 4 is refused
    reply = Client(server.port, ACCESS_KEY, "wrong").get("bucket/a")
    refused("a wrong secret", reply, 403, "SignatureDoesNotMatch",
            b"<StringToSign>AWS4-HMAC-SHA256\n", b"<CanonicalRequest>GET\n/bucket/a\n",
            b"<SignatureProvided>", f"<AWSAccessKeyId>{ACCESS_KEY}<".encode())
    story.fact("... without what is secret", SECRET_KEY.encode() not in reply.body, reply.body)
    refused("a slow clock", server.get("bucket/a", now=ago(minutes=20)), 403, "RequestTimeTooSkewed",
            b"<RequestTime>", b"<ServerTime>",
            b"<MaxAllowedSkewMilliseconds>900000<")

    # ---- where it is not wanted
    strict = story.penstock(origin=origin.url, sigv2=False, browser_uploads="1MiB",
                            regions="eu-west-1,eu-west-2", cache_dir=story.path("strict"))
    reply = plain(strict.port, "GET", target(url))
    refused("sigv2 false", reply, 400, "InvalidRequest", b"Please use AWS4-HMAC-SHA256.")
    refused("... nor a form", post(strict.port, "bucket", signed_v2("bucket", "form", (ACCESS_KEY, SECRET_KEY))), 400,
            "InvalidRequest", b"Please use AWS4-HMAC-SHA256.")
    refused("a region that is none of ours", strict.get("bucket/a"), 400,
            "AuthorizationHeaderMalformed", b"expecting &quot;eu-west-1&quot;",
            b"<Region>eu-west-1</Region>")
