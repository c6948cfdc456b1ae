"""A key has two secrets while one is rotated: each signs in every way there is, for the pair of the settings and
for a row of keys. A secret that was taken away is refused from the next request on, also in a session of the
fill socket that it opened."""
import base64

from filler import Filler, Memory
from forms import *

ROW, OLD, NEW = "ROWTESTKEY", "old/secret+1", "new/secret+2"
SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
EMPTY = hashlib.sha256(b"").hexdigest()


def by_v2(port, key, secret):
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    text = f"GET\n\n\n{date}\n/bucket/in/a"
    sum_ = base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest()).decode()
    return plain(port, "GET", "/bucket/in/a", headers=[f"Date: {date}", f"Authorization: AWS {key}:{sum_}"])


def by_v2_query(port, key, secret):
    until = int(time.time()) + 60
    text = f"GET\n\n\n{until}\n/bucket/in/a"
    sum_ = base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest())
    return plain(port, "GET", f"/bucket/in/a?AWSAccessKeyId={key}&Expires={until}&Signature={uri(sum_)}")


def by_chunks(port, key, secret, chunk_secret=None):
    """Head and chunks are signed by one secret, unless the chunks are by another."""
    data = b"in signed chunks"
    headers = {"host": f"127.0.0.1:{port}", "x-amz-decoded-content-length": str(len(data)), "content-encoding": "aws-chunked"}
    sign("PUT", "/bucket/in/chunks", [], headers, SIGNED, key, secret)
    stamp, last, body = headers["x-amz-date"], headers["authorization"][-64:], b""
    with_key, scope = signing_key(chunk_secret or secret, stamp[:8], "us-east-1"), f"{stamp[:8]}/us-east-1/s3/aws4_request"
    for part in (data, b""):
        text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", stamp, scope, last, EMPTY, hashlib.sha256(part).hexdigest()])
        last = hmac.new(with_key, text.encode(), hashlib.sha256).hexdigest()
        body += b"%x;chunk-signature=%s\r\n%s\r\n" % (len(part), last.encode(), part)
    headers["content-length"] = str(len(body))
    wire = Wire(port)
    wire.send("\r\n".join(["PUT /bucket/in/chunks HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]).encode() + b"\r\n\r\n" + body)
    return wire.read()


def ways(port, key, secret):
    """Each is (what, did it get in)."""
    presigned = presign("GET", f"127.0.0.1:{port}", "/bucket/in/a", key, secret)
    replies = {"in a header": Client(port, key, secret).get("bucket/in/a"), "presigned": plain(port, "GET", presigned),
               "by version 2": by_v2(port, key, secret), "... presigned": by_v2_query(port, key, secret),
               "in chunks": by_chunks(port, key, secret),
               "in a form": post(port, "bucket", signed("bucket", "in/form", (key, secret))),
               "in a form by version 2": post(port, "bucket", signed_v2("bucket", "in/form", (key, secret)))}
    return {what: (reply.status in (200, 204), reply.code) for what, reply in replies.items()}


def row(**secrets):
    return {"keys": [{"access_key": ROW, "policy": [{"allow": ["read", "write"], "on": ["bucket/in/"]}], **secrets}]}


with Story("u09 two secrets while one is rotated") as story:
    origin = story.versity()
    origin.client.put("bucket", b"")
    origin.client.put("bucket/in/a", b"data")
    path, old_file = story.path("fill.sock"), story.path("old")
    with open(old_file, "w") as file:
        file.write(OLD + "\n")
    server = story.penstock(origin=origin.url, fill_socket=path, browser_uploads="1MiB", secret_key=OLD, **row(secret_key=OLD))

    def reload(event="reloaded", **settings):
        before = server.log().count(event)
        with open(server.config_path, "w") as f:
            json.dump({**server.settings, **settings}, f)
        server.process.send_signal(signal.SIGHUP)
        wait_for(f"the log says {event}", lambda: server.log().count(event) > before)

    def judge(when, secret, good):
        for key in ROW, ACCESS_KEY:
            want = {what: (True, "") if good else (False, "SignatureDoesNotMatch") for what in ways_of[key]}
            story.same(f"{when}: {key}", ways(server.port, key, secret), want)
            hello = Filler(path, key, secret).hello
            story.same("... at the fill socket", (hello["ok"], hello.get("error")), (True, None) if good else (False, "SignatureDoesNotMatch"))

    ways_of = {key: ways(server.port, key, OLD) for key in (ROW, ACCESS_KEY)}
    judge("before, the old one is good", OLD, True)
    judge("... and the new one is not", NEW, False)
    sessions = [Filler(path, key, OLD) for key in (ROW, ACCESS_KEY)]
    memory = Memory(4096)
    buffers = [session.register(memory)["buffer"] for session in sessions]
    both = dict(secret_key=NEW, secret_key_previous=OLD, **row(secret_key=NEW, secret_key_previous_file=old_file))
    reload(**both)
    used = 'penstock_signed_by_previous_total'
    story.same("nobody has signed by the previous one", server.metric(used), 0)
    judge("while it is rotated, the new one is good", NEW, True)
    story.same("... none of which is by the previous one", server.metric(used), 0)
    judge("... and so is the old one", OLD, True)
    story.same("... which is counted", server.metric(used), 16)
    judge("... and no third", "third/secret", False)
    for mixed in (NEW, OLD), (OLD, NEW):
        story.same("but head and chunks are by one of them", by_chunks(server.port, ROW, *mixed).status, 403)
    for session, buffer in zip(sessions, buffers):
        story.fact("a session of the old one goes on", session.fill(buffer, "bucket", [["in/a", 0, 4, 0]])["ok"])
    # a key has the two that its settings name now, and none that they named before
    reload(secret_key=NEW, **row(secret_key=NEW))
    judge("when it is taken away, the new one is good", NEW, True)
    judge("... and the old one is refused", OLD, False)
    for session, buffer in zip(sessions, buffers):
        reply = session.fill(buffer, "bucket", [["in/a", 0, 4, 0]])
        story.same("... in a session that it opened, too", (reply["ok"], reply.get("error")), (False, "SignatureDoesNotMatch"))
        reply = session.say("prefetch", bucket="bucket", items=["in/a"])
        story.same("... whatever it says", (reply["ok"], reply.get("error")), (False, "SignatureDoesNotMatch"))
    story.fact("no secret is in the log", all(secret not in server.log() for secret in (OLD, NEW)))

    # ---- what is wrong with it ----
    def mistakes(**settings):
        with open(story.path("wrong.json"), "w") as f:
            json.dump({"origin": origin.url, "cache_dir": story.path("c"), **settings}, f)
        done = run([PENSTOCK, "check", story.path("wrong.json")])
        return done[0], (done[1] or "") + (done[2] or "")
    for what, settings, name in (("alone", {"secret_key_previous": OLD}, "secret_key_previous"),
                                 ("in a row", {"keys": [{"access_key": "A", "secret_key_previous": OLD}]}, "keys[0].secret_key_previous"),
                                 ("nobody's", {"keys": [{"anonymous": True, "secret_key_previous": OLD, "policy": "all"}]}, "keys[0].anonymous")):
        status, out = mistakes(**settings)
        story.fact(f"a previous one {what} is a mistake", status == 2 and f"{name}: " in out, (status, out))
    with open(old_file, "w") as file:
        file.write("\n")
    status, out = mistakes(access_key="A", secret_key="B", secret_key_previous_file=old_file)
    story.fact("an empty one is none", status == 2 and "secret_key_previous_file" in out and "is empty" in out, (status, out))
