"""Where browser_uploads is off, a form gets the 501 that the manual promises, which names the setting."""
from forms import *

with Story("w16 forms where none are taken") as story:
    gateway = story.versity()
    server = story.penstock(origin=gateway.url)
    gateway.client.put("bucket", b"")
    me = (server.client.key, server.client.secret)

    def says_no(text, reply):
        story.same(text, (reply.status, reply.code), (501, "NotImplemented"))
        story.fact("... and names the setting", b"browser_uploads" in reply.body, reply.body)

    says_no("a signed form", post(server.port, "bucket", signed("bucket", "k", me)))
    says_no("one of somebody unknown", post(server.port, "bucket", signed("bucket", "k", ("NOBODY", "none"))))
    says_no("one that nobody signed", post(server.port, "bucket", [("key", "k")]))
    says_no("a large one", post(server.port, "bucket", signed("bucket", "k", me), b"x" * MIB))
    reply = server.ask("POST", "bucket", headers={"content-type": f"multipart/form-data; boundary={BOUNDARY}"},
                       body=form_of(signed("bucket", "k", me), b"data"))
    says_no("one in a request that is signed itself", reply)
    reply = plain(server.port, "POST", "/bucket/k", form_of([("key", "k")], b"data"), headers=[FORM_TYPE])
    story.same("a form to an object is no form, and not signed", (reply.status, reply.code), (403, "AccessDenied"))
    reply = plain(server.port, "POST", "/bucket", b"data")
    story.same("nor is a POST of another type", (reply.status, reply.code), (403, "AccessDenied"))
    story.same("nothing came to the origin", gateway.client.head("bucket/k").status, 404)
