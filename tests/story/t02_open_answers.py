"""Answers whose length the origin does not tell go on in chunks as they come, over http and https."""
from authority import *

LONG = bytes(range(256)) * 8000    # more than is held, so that it can't be whole when it goes on


class Untold(Listener):
    """An origin that tells no length: what is long goes out in chunks, and what is slow is blanks
    for 6.5 s before the document, as S3 completes an upload."""

    def serve(self, wire):
        file = wire.makefile("rb")
        while line := file.readline():
            head = {}
            while (field := file.readline().decode().strip()):
                name, _, value = field.partition(":")
                head[name.lower()] = value.strip()
            file.read(int(head.get("content-length", 0)))
            wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n")
            for piece, wait in self.pieces(b"uploadId" in line):
                wire.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
                time.sleep(wait)
            wire.sendall(b"0\r\n\r\n")

    def pieces(self, slow):
        if slow:
            yield from [(b" ", 0.5)] * 13
            yield b"<CompleteMultipartUploadResult><Location>http://far.away/bkt", 0.1
            yield b"/k</Location></CompleteMultipartUploadResult>", 0
        else:
            yield from [(LONG[at:at + 10000], 0) for at in range(0, len(LONG), 10000)]


with Story("t02 answers of no told length, over http and https") as story:
    ours, origin = Authority(story, "ours"), Untold()
    cert, key = ours.sign("first")
    port = free_port()
    server = story.penstock(origin=origin.url, tls_listen=f"127.0.0.1:{port}", tls_cert_file=cert,
                            tls_key_file=key)
    for name, client in (("http", server.client), ("https", Client(port, tls=ours.client()))):
        reply = client.ask("GET", "bkt", query=[("policy", "")])
        story.same(f"a long one over {name}", (reply.status, reply.error, reply.body == LONG,
                                               reply.headers.get("transfer-encoding")),
                   (200, None, True, "chunked"))
        reply = client.ask("POST", "bkt/k", query=[("uploadId", "u")],
                           body=b"<CompleteMultipartUpload/>")
        here = f"{name}://{client.host}/bkt/k".encode()
        story.same("and a slow one, from its first blanks on, with our address",
                   (reply.status, reply.error, reply.body[:5], reply.body.strip()),
                   (200, None, b" " * 5, b"<CompleteMultipartUploadResult><Location>" + here +
                    b"</Location></CompleteMultipartUploadResult>"))
    for name, at, tls in (("http", server.port, None), ("https", port, ours.client())):
        for behind in (b"", b"G"):
            wire = Wire(at, 20, tls=tls)
            wire.send(server.client.head_of("GET", "bkt", [("policy", "")]).replace(b"HTTP/1.1", b"HTTP/1.0") + behind)
            reply = wire.read()
            story.same(f"HTTP/1.0 over {name} hears it until the connection ends, {behind} behind it",
                       (reply.status, reply.body == LONG, reply.headers.get("transfer-encoding")), (200, True, None))
    story.fact("and Penstock lives", server.alive(), server.log()[-2000:])
    story.same("SIGTERM ends it cleanly", server.stop(), 0)
