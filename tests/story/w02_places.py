"""A prefix with another origin: what is done to the bucket goes where its keys lie."""
import base64

from harness import *


def deletion(*keys):
    return "<Delete>" + "".join(f"<Object><Key>{k}</Key></Object>" for k in keys) + "</Delete>"


def delete_all(server, *keys):
    body = deletion(*keys).encode()
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    return server.ask("POST", "bucket", query=[("delete", "")], body=body,
                      headers={"content-md5": md5})


with Story("w02 DeleteObjects and lists go to the origin of their keys") as story:
    default = story.origin("object=bucket/live/k 1000", "object=bucket/old/k 1000")
    lab = story.origin("object=bucket/live/k 2000", "object=bucket/live/l 2000")
    os.makedirs(story.path("tree/bucket/dir"))
    with open(story.path("tree/bucket/dir/k"), "wb") as f:
        f.write(b"kept")
    server = story.penstock(origin=default.url, origins={"lab": {"url": lab.url},
                                                         "tree": {"url": f"dir:{story.path('tree')}"}},
                            buckets={"bucket/live/": {"origin": "lab"},
                                     "bucket/live/fast/": {"origin": "lab", "ttl": "5s"},
                                     "bucket/dir/": {"origin": "tree"}})
    at_default, at_lab = Client(default.port), Client(lab.port)
    story.same("reads of the prefix go to its origin", len(server.get("bucket/live/k").body), 2000)
    reply = delete_all(server, "live/k", "live/fast/none")
    story.same("DeleteObjects of keys that lie there", (reply.status, reply.body.count(b"<Deleted>")), (200, 2))
    story.same("... they are gone, for readers and at their origin",
               (server.get("bucket/live/k").status, at_lab.head("bucket/live/k").status), (404, 404))
    story.same("... the namesake of the bucket's origin lives", at_default.head("bucket/live/k").status, 200)

    server.get("bucket/live/l"), server.get("bucket/old/k")
    reply = delete_all(server, "old/k", "live/l")
    story.same("keys of two origins in one request are refused", (reply.status, reply.code), (501, "NotImplemented"))
    story.fact("... the message names the key and what to do", b"live/l" in reply.body
               and b"DeleteObject" in reply.body, reply.body)
    story.same("... nothing was deleted", [at_lab.head("bucket/live/l").status,
                                           at_default.head("bucket/old/k").status,
                                           server.get("bucket/live/l").status,
                                           server.get("bucket/old/k").status], [200] * 4)
    story.same("a batch whose origin is read-only", delete_all(server, "dir/k").status, 405)
    story.same("... its object lives", server.get("bucket/dir/k").body, b"kept")
    story.same("keys of the bucket's own origin", delete_all(server, "old/k").status, 200)
    story.same("... are gone", (server.get("bucket/old/k").status, at_default.head("bucket/old/k").status), (404, 404))

    def listed(**how):
        return re.findall(r"<Key>(.*?)</Key>", server.list("bucket", **how).body.decode())
    story.same("a list inside the prefix is its origin's", listed(prefix="live/"), ["live/l"])
    story.same("... also of version 1", b"live/l" in server.ask("GET", "bucket", query=[("prefix", "live/")]).body, True)
    story.same("any other list is the bucket's origin's", (listed(prefix="li"), listed()), (["live/k"], ["live/k"]))
    server.ask("PUT", "bucket/old/p", query=[("prefix", "live/")], body=b"p")
    story.same("a prefix in the query of anything else says nothing of where it lies",
               (at_default.head("bucket/old/p").status, at_lab.head("bucket/old/p").status), (200, 404))
