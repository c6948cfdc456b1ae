"""A target may be a whole URL of the same host (RFC 9112 section 3.2.2; AWS's C++ client sends them):
it is its path and query, for every method, on both listeners, signed in a header or in the query,
with the bucket in the path or in the Host, cold and warm."""
from authority import *

DOMAIN = "s3.test"


def as_url(scheme, head):
    sent = re.search(rb"host: ([^\r]*)", head).group(1)
    return head.replace(b" /", b" %s://%s/" % (scheme, sent), 1)


def sent(story, client, name, scheme, method, key, status=200, tls=None, **how):
    wire = Wire(client.port, 20, tls=tls)
    wire.send(as_url(scheme, client.head_of(method, key, **how)))
    reply = wire.read(method)
    story.same(f"{name}: {method} of {scheme.decode()}://.../{key}", reply.status, status)
    wire.close()
    return reply


def tried(story, client, name, tls):
    def ask(*args, **how):
        return sent(story, client, name, *args, tls=tls, **how)
    for scheme in (b"http", b"HTTPS"):
        for temperature in ("cold or warm", "warm"):
            story.bytes(f"{name}, {temperature}: the bytes", ask(scheme, "GET", "bkt/k"), "bkt/k", 0,
                        1000)
        part = ask(scheme, "GET", "bkt/k", 206, headers={"range": "bytes=100-299"})
        story.bytes(f"{name}: a range", part, "bkt/k", 100, 200)
        ask(scheme, "HEAD", "bkt/k")
        story.fact(f"{name}: a listing", b"<Key>k</Key>" in ask(
            scheme, "GET", "bkt", query=[("list-type", "2")]).body)
        host = f"bkt.{DOMAIN}:{client.port}"
        wire = Wire(client.port, 20, tls=tls)
        wire.send(as_url(scheme, client.head_of("GET", "k", headers={"host": host})))
        story.bytes(f"{name}: the bucket in the Host", wire.read(), "bkt/k", 0, 1000)
        wire.close()
        wire = Wire(client.port, 20, tls=tls)
        path = presign("GET", client.host, "/bkt/k", client.key, client.secret)
        wire.send(as_url(scheme, b"GET %s HTTP/1.1\r\nhost: %s\r\n\r\n"
                         % (path.encode(), client.host.encode())))
        story.bytes(f"{name}: presigned", wire.read(), "bkt/k", 0, 1000)
        wire.close()
        ask(scheme, "GET", "_/health/live", sign_it=False)
        ask(scheme, "PUT", "bkt/new", body=b"new")
        story.same(f"{name}: what was written", ask(scheme, "GET", "bkt/new").body, b"new")
        ask(scheme, "DELETE", "bkt/new", 204)
        ask(scheme, "GET", "bkt/new", 404)
        ask(scheme, "OPTIONS", "bkt/k", 400, sign_it=False)    # the origin's own answer


with Story("s08 a target may be a whole URL") as story:
    if shutil.which("openssl") is None:
        raise Skip("openssl is not installed")
    ours = Authority(story, "ours")
    cert, key = ours.sign("here")
    origin = story.origin("object=bkt/k 1000")
    port = free_port()
    server = story.penstock(origin=origin.url, tls_listen=f"127.0.0.1:{port}", tls_cert_file=cert,
                            tls_key_file=key, domains=DOMAIN)
    tried(story, server.client, "plain", None)
    tried(story, Client(port, tls=ours.client()), "TLS", ours.client())
    story.same("the origin saw paths", sorted({line[2] for line in origin.log_lines()}),
               ["bkt/", "bkt/k", "bkt/new"])
    story.same("and read the object once", len([line for line in origin.log_lines()
                                                if line[1:3] == ["GET", "bkt/k"]]), 1)
    wire = Wire(server.port)
    wire.send(b"GET http://other/bkt/k HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    heard = wire.hears() or b""
    story.fact("another host is told as that", heard.startswith(b"HTTP/1.1 400 ")
               and b"the Host header, 127.0.0.1, differs from the host of the URL in the request line, other:" in heard + server.log().encode(), heard)
    wire = Wire(server.admin_port)
    wire.send(b"GET http://127.0.0.1:%d/metrics HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"
              % (server.admin_port, server.admin_port))
    story.same("the admin listener takes one, too", wire.read().status, 200)
