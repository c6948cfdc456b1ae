"""Clients without a name of their own at the origin do there what their policy says, and nothing else;
keys come and go with a reload; local clients are lent a pair."""
import base64

from harness import *

READER, WRITER = ("READERTESTKEY", "reader/secret"), ("WRITERTESTKEY", "writer/secret")
PLUS = ("PLUSTESTKEY", "plus/secret")


def row(pair, allow, on):
    return {"access_key": pair[0], "secret_key": pair[1], "policy": [{"allow": allow, "on": on}]}


with Story("u02 policies") as story:
    origin = story.origin("objects=data/a/%d 4 1000", "objects=data/b/%d 4 1000",
                          "object=other/x 1000")
    keys = [row(READER, ["read", "list"], ["data/a/"]),
            {"access_key": WRITER[0], "secret_key": WRITER[1],
             "policy": [{"allow": ["write"], "on": ["data/b/"]}, {"allow": ["read"],
                                                                 "on": ["data/a/"]}]},
            row(PLUS, ["read", "list", "write"], ["data/team+a/", "data/both/"])]
    server = story.penstock(origin=origin.url, keys=keys)
    shared, reader, writer = server.client, Client(server.port, *READER), \
        Client(server.port, *WRITER)

    def refused(text, reply):
        story.fact(text, reply.status == 403 and reply.code in ("AccessDenied", ""), reply)

    def fine(text, reply):
        story.fact(text, reply.status in (200, 204), reply)

    # ---- reads and lists ----
    fine("all is allowed to the shared key", shared.get("data/b/1"))
    fine("what the policy names is read", reader.get("data/a/1"))
    origin.quiet()
    before = origin.counts()["requests"]
    refused("another prefix is not, though it is cached", reader.get("data/b/1"))
    refused("nor by HEAD", reader.head("data/b/1"))
    refused("nor by a version", reader.ask("GET", "data/b/1", [("versionId", "v1")]))
    refused("nor another bucket", reader.get("other/x"))
    refused("nor what an unknown operation would tell", reader.ask("GET", "data", [("newest", "")]))
    refused("nor what an unknown parameter would make of a known one",
            reader.ask("GET", "data/a/1", [("tagging", ""), ("foo", "")]))
    for operation in "acl", "torrent", "newest":
        refused(f"nor ?{operation} of what may be read",
                reader.ask("GET", "data/a/1", [(operation, "")]))
    refused("nor by HEAD", reader.ask("HEAD", "data/a/1", [("newest", "")]))
    refused("nor a key that an origin could read as a path out of the prefix", reader.get("data/a/../b/1"))
    refused("a write is not", reader.put("data/a/1", b"x"))
    refused("nor a removal", reader.delete("data/a/1"))
    refused("nor who may read what", reader.ask("PUT", "data/a/1", [("acl", "")],
                                               headers={"x-amz-acl": "public-read"}))
    refused("a list of the whole bucket is not", reader.list("data"))
    refused("nor of a part of the prefix", reader.list("data", prefix="a"))
    refused("nor all buckets", reader.ask("GET", ""))
    story.same("and the origin was asked for none of it", origin.counts()["requests"], before)
    fine("a list inside the prefix is", reader.list("data", prefix="a/"))
    fine("a client may see that the bucket is there", reader.head("data"))

    # ---- writes ----
    fine("a write inside its prefix", writer.put("data/b/new", b"new"))
    refused("outside of it", writer.put("data/c/new", b"new"))
    refused("a write-only prefix is not read", writer.get("data/b/new"))
    before = origin.counts()["requests"]
    refused("a copy needs its source", writer.put("data/b/copy", b"",
                                                  {"x-amz-copy-source": "/data/b/1"}))
    refused("however it is written", writer.put("data/b/copy", b"",
                                                {"x-amz-copy-source": "other%2Fx"}))
    for source in ("data/a/1?/../../b/1", "data/a/1?%2F..%2F..%2Fb/1", "data/a/1?versionId=/../../b/1",
                   "data/a/1+/../../b/1", "data/a/1?versionId=1&x=/../../b/1"):
        refused(f"{source}: an origin could read it as a path out of the prefix",
                writer.put("data/b/copy", b"", {"x-amz-copy-source": source}))
    target = presign("PUT", f"127.0.0.1:{server.port}", "/data/b/copy", *WRITER,
                     query=[("x-amz-copy-source", "/other/x")])
    refused("and in a presigned URL", plain(server.port, "PUT", target))
    refused("to make it public takes more", writer.put("data/b/new", b"",
                                                       {"x-amz-acl": "public-read"}))
    refused("so does a grant", writer.put("data/b/new", b"", {"x-amz-grant-read": 'id="x"'}))
    target = presign("PUT", f"127.0.0.1:{server.port}", "/data/b/new", *WRITER,
                     query=[("x-amz-acl", "public-read")])
    refused("in a presigned URL too", plain(server.port, "PUT", target))
    for name, value in (("x-amz-acl", "authenticated-read"), ("x-amz-grant-write-acp", 'id="x"'),
                        ("x-amz-object-lock-mode", "COMPLIANCE"),
                        ("x-amz-object-lock-legal-hold", "ON"),
                        ("x-amz-bypass-governance-retention", "true")):
        refused(f"{name} on a copy", writer.put("data/b/copy", b"", {
            name: value, "x-amz-copy-source": "/data/a/1"}))
        refused("... on an upload in parts", writer.ask("POST", "data/b/new", [("uploads", "")],
                                                        headers={name: value}))
    refused("of two values the worse counts", writer.ask("PUT", "data/b/new", [
        ("x-amz-grant-read", 'id="x"')], headers={"x-amz-acl": "private"}))
    for source in ("a/1", "/a/1", "data/a/1", "/data/b/1", "%zz"):
        refused(f"to rename {source} takes it away", writer.ask(
            "PUT", "data/b/new", [("renameObject", "")], headers={"x-amz-rename-source": source}))
    story.same("a form is no unknown operation", shared.ask(
        "POST", "data", [("never-heard-of", "")], body=b"--x--",
        headers={"content-type": "multipart/form-data; boundary=x"}).status, 501)
    body = b"<Delete><Object><Key>b/new</Key></Object><Object><Key>a/1</Key></Object></Delete>"
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    refused("DeleteObjects with one key that it may not", writer.ask(
        "POST", "data", [("delete", "")], headers={"content-md5": md5}, body=body))
    story.same("and the origin was asked for none of it", origin.counts()["requests"], before)
    fine("private is what an object is anyway", writer.put("data/b/new", b"new", {
        "x-amz-acl": "private"}))
    fine("and its bucket's owner may do all", writer.put("data/b/new", b"new", {
        "x-amz-acl": "bucket-owner-full-control"}))
    fine("a removal inside its prefix", writer.delete("data/b/new"))
    def lacked(reply):
        line = next(line for line in map(json.loads, server.log().splitlines())
                    if line["event"] == "policy_refused"
                    and line["id"] == reply.headers["x-amz-request-id"])
        return line.get("right"), line["bucket"], line["key"]
    acl = {"x-amz-acl": "public-read"}
    for reply, want in ((reader.get("data/b/1"), ("read", "data", "b/1")),
                        (reader.list("data", prefix="b/"), ("list", "data", "b/")),
                        (reader.put("data/a/1", b"x"), ("write", "data", "a/1")),
                        (writer.put("data/b/new", b"", acl), ("admin", "data", "b/new")),
                        (writer.put("data/b/copy", b"", {"x-amz-copy-source": "/data/b/1"}),
                         ("read", "data", "b/1"))):
        story.same("the log names the right, and where it is missing", lacked(reply), want)
    story.fact("refusals are counted, and logged by name",
               server.metric("penstock_policy_refused_total") >= 18
               and "policy_refused" in server.log())

    # ---- a raw '+' is a space in a query, as it is to origins, and may be one in a source ----
    plus = Client(server.port, *PLUS)

    def raw(escape, prefix):
        wire = Wire(server.port)
        wire.send(plus.head_of("GET", "data", [("prefix", prefix)]).decode().replace(escape, "+").encode())
        reply = wire.read("GET")
        wire.close()
        return reply

    fine("a list of what has a plus in its name", plus.list("data", prefix="team+a/"))
    refused("not of what has a space there", raw("%20", "team a/"))
    fine("unless that is allowed, too", raw("%20", "both/x y"))
    story.same("who signs it as a plus is told so, as origins do", raw("%2B", "team+a/").code, "SignatureDoesNotMatch")
    story.same("the origin finds nothing wrong with what we sign",
               server.metric('penstock_origin_requests_total{result="refused_keys"}'), 0)
    copied = {"x-amz-copy-source": "data/team+a/1"}
    refused("nor is it a source", plus.put("data/both/copy", b"", copied))
    copied = {"x-amz-copy-source": "data/team%2Ba/1"}
    fine("unless it is clear", plus.put("data/both/copy", b"", copied))

    # ---- keys come and go without a restart ----
    def reload(keys):
        with open(server.config_path, "w") as f:
            json.dump({**server.settings, "keys": keys}, f)
        before = len(re.findall(r"reload(?:ed|_refused)", server.log()))
        os.kill(server.pid, signal.SIGHUP)
        wait_for("it has reloaded", lambda: len(re.findall(r"reload(?:ed|_refused)",
                                                           server.log())) > before)

    keep = Client(server.port, *READER, keep=True)
    fine("a connection that stays", keep.get("data/a/2"))
    reload([keys[1], row(("NEWTESTKEY", "new/secret"), ["read"], ["data"])])
    reply = keep.get("data/a/2")
    story.same("a key that was taken away is refused from its next request on",
               (reply.status, reply.code), (403, "InvalidAccessKeyId"))
    fine("a new one is known", Client(server.port, "NEWTESTKEY", "new/secret").get("data/b/1"))
    reload([row(READER, ["reed"], ["data"])])
    story.fact("a mistake changes nothing", "reload_refused" in server.log()
               and Client(server.port, "NEWTESTKEY", "new/secret").get("data/b/1").status == 200)
    reload([{"access_key": READER[0], "secret_key": "rotated", "policy": "all"}])
    story.same("a secret that changed", reader.get("data/a/1").code, "SignatureDoesNotMatch")
    fine("... is the new one", Client(server.port, READER[0], "rotated").get("data/b/1"))
    story.same("the shared key stays", shared.get("data/a/1").status, 200)

    # ---- a pair on loan ----
    story.same("nothing is lent unless it is said", plain(server.port, "GET", "/_/credentials")
               .status, 404)
    lender = story.penstock(origin=origin.url, cache_dir=story.path("cache-2"), lend=True,
                            lend_token="the-word", access_key=None, secret_key=None,
                            env={n: "" for n in os.environ if n.startswith("AWS_")})
    url = f"http://127.0.0.1:{lender.port}/_/credentials"
    story.same("without the word there is none", plain(lender.port, "GET", "/_/credentials")
               .status, 403)
    wire = Wire(lender.port)
    wire.send(b"GET /_/credentials HTTP/1.1\r\nHost: evil.example\r\nAuthorization: the-word\r\n\r\n")
    story.same("nor under another name", wire.read().status, 403)
    story.same("nor to a page in a browser, also of this origin", plain(lender.port, "GET", "/_/credentials", headers=[
        "Authorization: the-word", "Sec-Fetch-Site: same-origin"]).status, 403)
    reply = plain(lender.port, "GET", "/_/credentials", headers=["Authorization: the-word"])
    pair = json.loads(reply.body)
    story.same("with it, a pair as containers get it", sorted(pair),
               ["AccessKeyId", "Expiration", "SecretAccessKey", "Token"])
    borrower = Client(lender.port, pair["AccessKeyId"], pair["SecretAccessKey"])
    fine("with it an object is read", borrower.get("data/b/2", headers={
        "x-amz-security-token": pair["Token"]}))
    reply = borrower.get("data/b/2")
    story.fact("without its token it is nobody's", reply.status == 403, reply)
    def lines(event):
        return [line for line in map(json.loads, lender.log().splitlines()) if line["event"] == event]
    story.same("who was lent a pair is in the log", [line["access_key"] for line in lines("lent")],
               [pair["AccessKeyId"]])
    story.same("and who was not, with why", [line["why"].split(": ")[0] for line in lines("lend_refused")],
               ["the Authorization header of the request is not lend_token", "the Host header of the request is neither a loopback "
                "address nor localhost", "the request came from a browser or through a proxy"])
    story.fact("with their peers", all(line["peer"].startswith("127.0.0.1:")
                                       for line in lines("lent") + lines("lend_refused")))
    story.same("both are counted", [lender.metric('penstock_lent_total{result="%s"}' % result)
                                    for result in ("ok", "refused")], [1, 3])
    story.fact("its secret is in no log", pair["SecretAccessKey"] not in lender.log()
               and pair["Token"] not in lender.log())
