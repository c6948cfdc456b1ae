"""Forms that browsers post: the signature is in the form. Proven here, judged by the origin, and what
was uploaded is what is read next."""
from forms import *

WRITER = ("WRITERTESTKEY", "writer/secret")


def memory_kib(server):
    """The most it ever had."""
    with open(f"/proc/{server.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


with Story("w10 forms that browsers post") as story:
    gateway = story.versity()
    gateway.client.put("bucket", b"")
    shared = (ACCESS_KEY, SECRET_KEY)
    keys = [{"access_key": WRITER[0], "secret_key": WRITER[1],
             "policy": [{"allow": ["write"], "on": ["bucket/in/"]}]}]
    server = story.penstock(origin=gateway.url, browser_uploads="1MiB", keys=keys)
    closed = story.penstock(origin=gateway.url, cache_dir=story.path("closed"))

    def refused(text, reply, status, code):
        story.same(text, (reply.status, reply.code), (status, code))

    # ---- what is good ----
    gateway.client.put("bucket/in/a", b"old")
    wait_for("an object is in the cache", lambda: server.get("bucket/in/a").cache == "hit")
    data = story.random.randbytes(300000) + b"\r\n--" + BOUNDARY.encode() + b"x\r\n"
    reply = post(server.port, "bucket", signed("bucket", "in/a", shared), data)
    story.fact("a form is taken", reply.status == 204, f"{reply} {reply.body}")
    story.fact("... with the origin's answer", reply.headers.get("etag") and "x-amz-request-id" in reply.headers, reply.headers)
    story.same("H7: what it put is what is read", server.get("bucket/in/a").body == data, True)
    reply = post(server.port, "bucket", signed("bucket", "in/${filename}", shared), b"named", filename="C:\\photos\\me.jpg")
    story.same("${filename} is the file's name without its path", (reply.status, server.get("bucket/in/me.jpg").body), (204, b"named"))
    reply = post(server.port, "bucket", signed("bucket", "in/b", shared, [("success_action_status", "201"), ("x-amz-meta-who", "me")]))
    story.fact("it says what the answer shall be", reply.status == 201 and b"<Key>in/b</Key>" in reply.body, f"{reply} {reply.body}")
    story.same("... and what is said of the object", server.head("bucket/in/b").headers.get("x-amz-meta-who"), "me")
    story.same("a policy may write / as \\/", post(server.port, "bucket", signed("bucket", "in/c", shared, slash="\\/")).status, 204)
    story.same("a client with a policy, where it may write", post(server.port, "bucket", signed("bucket", "in/d", WRITER)).status, 204)
    reply = post(server.port, "bucket", signed_v2("bucket", "in/e", shared, [("x-amz-meta-who", "you")]), b"by version 2")
    story.same("a form signed by version 2 goes on signed by version 4", (reply.status, server.get("bucket/in/e").body), (204, b"by version 2"))
    story.same("... with all its fields", server.head("bucket/in/e").headers.get("x-amz-meta-who"), "you")

    # ---- what is not ----
    before = len(gateway.client.list("bucket").body)
    refused("a wrong secret", post(server.port, "bucket", signed("bucket", "in/x", (ACCESS_KEY, "wrong"))), 403, "SignatureDoesNotMatch")
    refused("... or by version 2", post(server.port, "bucket", signed_v2("bucket", "in/x", (ACCESS_KEY, "wrong"))), 403, "SignatureDoesNotMatch")
    refused("... or a policy that has ended", post(server.port, "bucket", signed_v2("bucket", "in/x", shared, seconds=-5)), 403, "AccessDenied")
    refused("... or where its client may not write", post(server.port, "bucket", signed_v2("bucket", "out/x", WRITER)), 403, "AccessDenied")
    refused("an unknown key", post(server.port, "bucket", signed("bucket", "in/x", ("STRANGER", "wrong"))), 403, "InvalidAccessKeyId")
    refused("a policy that has ended", post(server.port, "bucket", signed("bucket", "in/x", shared, seconds=-5)), 403, "AccessDenied")
    refused("a key that its policy does not name", post(server.port, "bucket", signed("bucket", "in/x", shared, conditions=[
        {"bucket": "bucket"}, {"key": "in/y"}, ["starts-with", "$x-amz-credential", ""], ["starts-with", "$x-amz-date", ""],
        ["starts-with", "$x-amz-algorithm", ""]])), 403, "AccessDenied")
    refused("another bucket", post(server.port, "bucket-b", signed("bucket", "in/x", shared)), 404, "NoSuchBucket")
    fields = signed("bucket", "in/x", shared)
    refused("a field that was added", post(server.port, "bucket", [("x-amz-meta-x", "1"), *fields]), 403, "AccessDenied")
    refused("a key that comes twice", post(server.port, "bucket", [("key", "in/y"), *fields]), 400, "MalformedPOSTRequest")
    before_kib = memory_kib(server)
    refused("names that grow beyond what a form may say", post(server.port, "bucket", [
        ("key", "in/y"), ("x-amz-meta-a", "${filename}" * 2900)], filename="f" * 1000), 400, "MalformedPOSTRequest")
    refused("or are longer than any key", post(server.port, "bucket", [("key", "${filename}")], filename="f" * 32000), 400, "MalformedPOSTRequest")
    more_kib = memory_kib(server) - before_kib
    story.fact("... cost no memory", more_kib < 8 * KIB, f"{more_kib} KiB")
    refused("too much in it", post(server.port, "bucket", signed("bucket", "in/x", shared), bytes(2 * MIB)), 400, "EntityTooLarge")
    refused("nobody's", post(server.port, "bucket", [("key", "in/x")]), 403, "AccessDenied")
    refused("a name that makes another name of itself", post(server.port, "bucket", signed("bucket", "in/${filename}", shared),
                                                             filename="${filename}"), 400, "MalformedPOSTRequest")
    refused("where its policy at Penstock lets it not", post(server.port, "bucket", signed("bucket", "out/x", WRITER)), 403, "AccessDenied")
    deletion = b"<Delete><Object><Key>out/y</Key></Object></Delete>"
    Client(server.port, *WRITER).ask("POST", "bucket", [("delete", "")], body=deletion)
    for op, key in (("PostObject", "out/x"), ("DeleteObjects", "out/y")):
        line = f'"event":"(request|policy_refused)".*"op":"{op}".*"key":"{key}"'
        wait_for(f"{op}: both lines name the key that the body names",    # one comes behind the answer
                 lambda: set(re.findall(line, server.log())) == {"policy_refused", "request"})
        story.fact(f"{op}: the log names the key that the body names", True)
    refused("nor what others may read", post(server.port, "bucket", signed("bucket", "in/x", WRITER, [("acl", "public-read")])), 403, "AccessDenied")
    for target in ("/bucket?delete", "/bucket/in/x?uploads", "/bucket/in/x?select", "/"):
        reply = plain(server.port, "POST", target, form_of(fields, b"x"), headers=[FORM_TYPE])
        story.fact(f"POST {target}: a form's type is no signature", reply.status in (403, 405), reply)
    story.same("nothing of it was put", len(gateway.client.list("bucket").body), before)
    refused("unless it is said no form is taken", post(closed.port, "bucket", fields), 501, "NotImplemented")
