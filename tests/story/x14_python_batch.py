"""The Python client over HTTP: a batch yields what GETs bring, in order, and says what failed; a cut
answer is an error; buffers are filled where there is no fill socket."""
from harness import *
from python_client import penstock, refused

SIZES = {"objects/a": 4096, "objects/b": 300_000, "objects/c d+é": 10, "objects/e": 0}
MANY = 9000


def batches(story, client):
    items = ["a", ("b", 10, 1000), "nope", {"key": "c d+é"}, ("a", 5000, 1), "e", ("b", 299_000, -1)]
    got = list(client.batch("objects", items))
    story.same("each item comes in its turn", [i for i, _ in got], list(range(len(items))))
    want = [expect("objects/a", 1, 0, 4096), expect("objects/b", 1, 10, 1000), "NoSuchKey",
            expect("objects/c d+é", 1, 0, 10), "InvalidRange", b"", expect("objects/b", 1, 299_000, 1000)]
    story.same("with its bytes, or what went wrong", [getattr(item, "code", item) for _, item in got], want)
    story.same("which says index, key and status", [(e.index, e.key, e.status) for _, e in got
                                                    if not isinstance(e, bytes)], [(2, "nope", 404), (4, "a", 416)])
    story.same("the first that fails ends it, if told so",
               [i for i, _ in client.batch("objects", items, on_error="end")], [0, 1, 2])
    whole = expect("objects/b", 1, 0, MANY + 8)
    story.fact(f"{MANY} items take several requests",
               [body for _, body in client.batch("objects", [("b", i, 8) for i in range(MANY)])] ==
               [whole[i:i + 8] for i in range(MANY)])
    some = client.batch("objects", ["b"] * 20)
    next(some)
    some.close()
    story.same("an answer that was left does not get in the way of the next",
               [len(body) for _, body in client.batch("objects", ["b"])], [300_000])
    failure = refused(lambda: list(client.batch("objects", [("a", 0, -2)])))
    story.fact("a list that is wrong is refused with the place", failure.status == 400 and "items[0]" in
               failure.message, failure)
    failure = refused(lambda: list(client.batch("nobucket", ["a"])))
    story.fact("a bucket that is not there", failure is None or failure.status == 404, failure)
    story.same("a single object", client.get("objects", "a", 10, 20), expect("objects/a", 1, 10, 20))
    status, headers, body = client.request("GET", "/objects/a", headers={"Range": "bytes=0-9"})
    story.same("any signed request", (status, body), (206, expect("objects/a", 1, 0, 10)))


def fills(story, client):
    buffer = client.buffer(1 << 20)
    story.same("without a fill socket a buffer is plain memory", (buffer.kind, client.way()), ("memory", "batch"))
    filled = client.fill(buffer, "objects", ["a", ("b", 10, 1000), "c d+é"])
    story.fact("that a batch fills", [bytes(view) for view in filled.views] ==
               [expect("objects/a", 1, 0, 4096), expect("objects/b", 1, 10, 1000), expect("objects/c d+é", 1, 0, 10)])
    failure = refused(lambda: client.fill(buffer, "objects", ["a", "nope"]))
    story.same("what fails names the item", [(e.index, e.code) for e in failure.errors], [(1, "NoSuchKey")])
    filled = client.fill(buffer, "objects", [{"key": "b", "max": 1000}, "a"], on_error="skip")
    story.same("and what is too large for its room", [e.code for e in filled.errors], ["too_large"])
    failure = refused(lambda: client.prefetch("objects", ["a"]))
    story.same("the cache alone is not filled over HTTP", failure.code, "no_fill_socket")


def cuts(story):
    class Cut(Listener):
        """Promises two items, and closes after the first."""
        def serve(self, connection):
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            body = struct.pack("<IIHHIQQQQ16s", 0x31425350, 0, 200, 0, 0, 3, 0, 3, 0, b"") + b"abc"
            if b"/_/health/live" in head:
                connection.sendall(b"HTTP/1.1 200 OK\r\nServer: penstock\r\nConnection: close\r\n"
                                   b"Content-Length: 0\r\n\r\n")
            else:
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/"
                                   b"vnd.penstock.frames\r\n\r\n%x\r\n%b\r\n" % (len(body), body))
    client = penstock.connect("", ACCESS_KEY, SECRET_KEY, endpoint_url=Cut().url)
    got = []
    failure = refused(lambda: got.extend(client.batch("objects", ["a", "b"])), penstock.Disconnected)
    story.fact("an answer without its end is an error, not the end", failure and "cut" in str(failure), failure)


with Story("x14 batches from Python") as story:
    origin = story.origin(*[f"object={key} {size}" for key, size in SIZES.items()])
    server = story.penstock(origin=origin.url)
    client = penstock.connect("", ACCESS_KEY, SECRET_KEY, endpoint_url=server.endpoint)
    batches(story, client)
    fills(story, client)
    cuts(story)
    wrong = penstock.connect("", ACCESS_KEY, "wrong", endpoint_url=server.endpoint)
    failure = refused(lambda: list(wrong.batch("objects", ["a"])))
    story.same("a wrong secret", (failure.code, failure.status), ("SignatureDoesNotMatch", 403))
    client.close()
