"""A preflight of a presigned URL is answered as the origin answers it, also where the URL's key says in whose
tenant the bucket lies (radosgw); no signature goes along."""
import base64

from radosgw import *

RULES = (b"<CORSConfiguration><CORSRule><AllowedOrigin>http://a.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"
         b"</CORSRule></CORSConfiguration>")


def preflight(port, target, origin="http://a.example"):
    reply = plain(port, "OPTIONS", target, headers=[f"Origin: {origin}", "Access-Control-Request-Method: GET"])
    return reply.status, reply.code, {n: v for n, v in reply.headers.items() if n.startswith("access-control")}


def target_of(client, key, secret, path, method="GET"):
    return presign(method, client.host, path, key, secret)


class Verifier(Listener):
    """An origin that verifies the signature of a preflight, as later radosgws do: ours is none."""

    def __init__(self):
        self.targets = []
        super().__init__()

    def serve(self, connection):
        request = self.hear(connection)
        if request is None:
            return
        first, fields, _ = request
        self.targets.append(first.split(" ")[1])
        body = b"<Error><Code>SignatureDoesNotMatch</Code></Error>" if "X-Amz-Signature" in f"{first} {fields}" else b""
        status = b"403 Forbidden" if body else b"200 OK\r\nAccess-Control-Allow-Origin: http://a.example"
        connection.sendall(b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))


with Story("w17 preflights of presigned URLs") as story:
    gateway = Radosgw(story)
    tenant, direct = gateway.client("tenant"), gateway.client("main")
    md5 = {"content-md5": base64.b64encode(hashlib.md5(RULES).digest()).decode()}
    for client, bucket in ((tenant, "theirs"), (direct, "ours")):
        client.put(bucket, b""), client.put(f"{bucket}/a", b"x")
        story.same(f"the rules of {bucket}", client.ask("PUT", bucket, [("cors", "")], md5, RULES).status, 200)
    shared, own = gateway.users["main"], gateway.users["tenant"]
    server = story.penstock(origin=gateway.url, origin_access_key=shared.key, origin_secret_key=shared.secret, keys=[
        {"access_key": "SHARED", "secret_key": "shared/secret", "policy": "all"},
        {"access_key": "OWN", "secret_key": "own/secret", "origin_access_key": own.key, "origin_secret_key": own.secret}])

    for bucket, key, secret, whose in (("theirs", "OWN", "own/secret", own), ("ours", "SHARED", "shared/secret", shared)):
        there = Client(gateway.port, whose.key, whose.secret)
        for origin in ("http://a.example", "http://b.example"):
            want = preflight(gateway.port, target_of(there, whose.key, whose.secret, f"/{bucket}/a"), origin)
            got = preflight(server.port, target_of(server.client, key, secret, f"/{bucket}/a"), origin)
            story.same(f"{bucket}, from {origin}: as the origin itself answers", got, want)
        story.same("... which lets one of them", preflight(server.port, target_of(server.client, key, secret, f"/{bucket}/a"))[0], 200)
    for bucket in ("ours", "theirs", "no-such-bucket"):
        known = preflight(server.port, target_of(server.client, "SHARED", "shared/secret", f"/{bucket}/a"))
        for what, key, secret in (("an unknown key", "NOBODY", "none"), ("a wrong secret", "SHARED", "wrong")):
            story.same(f"{bucket}: {what} is answered as a known one is",
                       preflight(server.port, target_of(server.client, key, secret, f"/{bucket}/a")), known)

    origin = Verifier()
    other = story.penstock(origin=origin.url, origin_access_key="ORIGINKEY", cache_dir=story.path("other"))
    story.same("where signatures of preflights are verified, it is answered without one", preflight(
        other.port, target_of(other.client, other.client.key, other.client.secret, "/bucket/a"))[0], 200)
    story.same("... after two questions", len(origin.targets), 2)
    said = dict(pair.split("=") for pair in origin.targets[0].split("?")[1].split("&"))
    story.fact("the first names the origin's key", said["X-Amz-Credential"].startswith("ORIGINKEY%2F"), said)
    story.same("... and has a signature of nothing", said["X-Amz-Signature"], "0" * 64)
    story.same("the second says nothing of a key", origin.targets[1], "/bucket/a")
    story.fact("neither says whose key it was here", ACCESS_KEY not in "".join(origin.targets), origin.targets)
    story.fact("nor is that logged as a fault of Penstock's keys", "origin_refused" not in other.log(), other.log()[-2000:])
    origin.targets.clear()
    story.same("one without a presigned URL is asked as it came", preflight(other.port, "/bucket/a?x=y")[0], 200)
    story.same("... once", origin.targets, ["/bucket/a?x=y"])
