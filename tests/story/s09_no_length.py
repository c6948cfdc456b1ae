"""A PutObject or UploadPart that says no length is refused with 411 and changes nothing: taken as
empty, it would empty the object. A length of 0 that is said is one. What needs no body needs none."""
from harness import *

KEPT = b"what is there"


def bare(head):
    return re.sub(rb"\r\ncontent-length: [^\r]*", b"", head, count=1)


def tell(client, method, key, change=bare, behind=b"", **how):
    wire = Wire(client.port)
    head = client.head_of(method, key, **how)
    wire.send(change(head) + behind)
    reply = wire.read(method)
    reply.gone = wire.gone() if reply.status == 411 else False
    wire.close()
    return reply


def changed(old, new):
    return lambda head: bare(head).replace(old, new, 1)


with Story("s09 a body without a length empties nothing") as story:
    origin = story.versity()
    server = story.penstock(origin=origin.url, freshness="always")
    client = server.client
    story.same("a bucket is made without a length", tell(client, "PUT", "bkt").status, 200)
    story.same("an object is there", client.put("bkt/k", KEPT).status, 200)
    upload = re.search(rb"<UploadId>([^<]*)", client.ask(
        "POST", "bkt/parts", query=[("uploads", "")]).body).group(1).decode()
    part = [("partNumber", "1"), ("uploadId", upload)]
    story.same("a part is there", client.ask("PUT", "bkt/parts", query=part, body=KEPT).status, 200)
    before = server.metric("penstock_origin_requests_total")

    unsigned = {"payload": "UNSIGNED-PAYLOAD"}
    rows = {"PutObject": ("bkt/k", {}),
            "PutObject, unsigned": ("bkt/k", unsigned),
            "PutObject of HTTP/1.0": ("bkt/k", {"change": changed(b"HTTP/1.1", b"HTTP/1.0")}),
            "PutObject of HTTP/1.0 that stays": ("bkt/k", {"change": changed(
                b"HTTP/1.1\r\n", b"HTTP/1.0\r\nConnection: keep-alive\r\n")}),
            "PutObject that waits for a 100": ("bkt/k", {"change": changed(
                b"HTTP/1.1\r\n", b"HTTP/1.1\r\nExpect: 100-continue\r\n")}),
            "PutObject of a body nobody announced": ("bkt/k", {**unsigned, "behind": b"the body"}),
            "PutObject in S3's chunks": ("bkt/k", {
                "payload": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
                "headers": {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": "0"},
                "behind": b"0\r\n\r\n"}),
            "PutObject of a new object": ("bkt/new", {}),
            "UploadPart": ("bkt/parts", {"query": part})}
    for name, (key, how) in rows.items():
        reply = tell(client, "PUT", key, **how)
        story.same(f"{name}: 411, and the connection is over",
                   (reply.status, reply.code, reply.gone), (411, "MissingContentLength", True))
    target = presign("PUT", client.host, "/bkt/k", client.key, client.secret)
    wire = Wire(client.port)
    wire.send(f"PUT {target} HTTP/1.1\r\nhost: {client.host}\r\n\r\n".encode())
    story.same("a presigned one", wire.read("PUT").status, 411)
    wire.close()
    stranger = Client(client.port, "NOBODYSKEY", "wrong")
    story.same("without rights it is 403", tell(stranger, "PUT", "bkt/k").status, 403)
    story.same("the origin was asked nothing", server.metric("penstock_origin_requests_total"),
               before)
    story.same("the object is there", client.get("bkt/k").body, KEPT)
    story.fact("the part is there", b"<Size>13</Size>" in client.ask(
        "GET", "bkt/parts", query=[("uploadId", upload)]).body)
    story.same("no new object is", client.get("bkt/new").status, 404)

    story.same("a copy needs none", tell(client, "PUT", "bkt/copied", headers={
        "x-amz-copy-source": "/bkt/k"}).status, 200)
    story.same("nor does a part that is copied", tell(client, "PUT", "bkt/parts", query=[
        ("partNumber", "2"), ("uploadId", upload)], headers={"x-amz-copy-source": "/bkt/k"}).status,
        200)
    story.same("keys to delete that are not said are none",
               tell(client, "POST", "bkt", query=[("delete", "")]).status, 400)
    story.same("nor is a list of parts",
               tell(client, "POST", "bkt/parts", query=[("uploadId", upload)]).status, 400)
    story.same("all is there", (client.get("bkt/k").body, client.get("bkt/copied").body),
               (KEPT, KEPT))
    story.same("a length of 0 that is said is one", client.put("bkt/k", b"").status, 200)
    story.same("and empties the object", client.get("bkt/k").body, b"")
    story.same("so does an empty body in chunks", tell(
        client, "PUT", "bkt/copied", headers={"x-amz-decoded-content-length": "0"},
        change=changed(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"),
        behind=b"0\r\n\r\n").status, 200)
    story.same("that, too", client.get("bkt/copied").body, b"")
