"""A browser's form carries what its signature covers. A header or a query parameter that would change the
operation is refused, whoever signed the form; as a field it takes the right that a PUT takes."""
from forms import *

WRITER, OWN = ("WRITERTESTKEY", "writer/secret"), ("OWNTESTKEY", "own/secret")
HEADERS = [("x-amz-acl", "public-read"), ("X-Amz-Grant-Read", 'id="x"'), ("x-amz-grant-full-control", 'id="x"'),
           ("x-amz-object-lock-mode", "COMPLIANCE"), ("x-amz-object-lock-legal-hold", "ON"),
           ("x-amz-bypass-governance-retention", "true"), ("x-amz-copy-source", "/bucket/out/secret"),
           ("x-amz-meta-who", "me"), ("x-amz-never-heard-of", "1"), ("x-rgw-never-heard-of", "1")]
QUERIES = ["x-amz-acl=public-read", "X-Amz-Grant-Read=id%3D%22x%22", "x-amz-copy-source=%2Fbucket%2Fout%2Fsecret",
           "acl", "policy", "uploads", "metadataConfiguration", "never-heard-of=1"]


with Story("u06 what stands above a form") as story:
    gateway = story.versity()
    gateway.client.put("bucket", b"")
    keys = [{"access_key": WRITER[0], "secret_key": WRITER[1], "policy": [{"allow": ["write"], "on": ["bucket/in/"]}]},
            {"access_key": OWN[0], "secret_key": OWN[1], "origin_access_key": ACCESS_KEY, "origin_secret_key": SECRET_KEY}]
    server = story.penstock(origin=gateway.url, browser_uploads="1MiB", keys=keys)

    def sent(pair, key, target="/bucket", headers=()):
        return plain(server.port, "POST", target, form_of(signed("bucket", key, pair), b"data"), headers=[FORM_TYPE, *headers])

    before = len(gateway.client.list("bucket").body)
    for pair in (WRITER, OWN, (ACCESS_KEY, SECRET_KEY)):
        for name, value in HEADERS:
            reply = sent(pair, "in/x", headers=[f"{name}: {value}"])
            story.same(f"{pair[0]}: the header {name}", (reply.status, reply.code), (400, "InvalidArgument"))
            story.fact("... is named", name.lower().encode() in reply.body.lower(), reply.body)
        for query in QUERIES:
            reply = sent(pair, "in/x", f"/bucket?{query}")
            story.same(f"{pair[0]}: ?{query}", (reply.status, reply.code), (400, "InvalidArgument"))
            story.fact("... is named", query.split("=")[0].lower().encode() in reply.body.lower(), reply.body)
    story.same("nothing of it was put", len(gateway.client.list("bucket").body), before)
    large = form_of(signed("bucket", "in/x", WRITER), bytes(100 * KIB))
    reply = plain(server.port, "POST", "/bucket", large, headers=[FORM_TYPE, "x-amz-acl: public-read"])
    story.same("a large form is refused before it is read", (reply.status, reply.code, reply.closed), (400, "InvalidArgument", True))

    says = ["Origin: http://a.page", "Referer: http://a.page/x", "User-Agent: Mozilla/5.0", "Sec-Fetch-Mode: no-cors",
            "Cache-Control: max-age=0", "x-amz-user-agent: aws-sdk-js/3", "x-amz-sdk-request: attempt=1"]
    story.same("what browsers and SDKs say of themselves is none of it", sent(WRITER, "in/a", "/bucket?x-id=PostObject", says).status, 204)
    story.same("... and the form is put", server.get("bucket/in/a").body, b"data")
    fields = signed("bucket", "in/b", WRITER, [("acl", "public-read")])
    story.same("as a field it takes the right to it", post(server.port, "bucket", fields).status, 403)
