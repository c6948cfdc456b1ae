"""RestoreObject with an OutputLocation writes where its body says, in any bucket: that takes `admin`. A restore
of the object itself takes `write`, as before."""
from harness import *

WRITER, ADMIN = ("WRITERTESTKEY", "writer/secret"), ("ADMINTESTKEY", "admin/secret")
NS = b' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
OUTPUT = b"<OutputLocation><S3><BucketName>other</BucketName><Prefix>theirs/</Prefix></S3></OutputLocation>"
PLAIN = {"days": b"<RestoreRequest><Days>1</Days></RestoreRequest>",
         "a tier": b'<?xml version="1.0"?>\n<RestoreRequest' + NS + b"><Days>1</Days><GlacierJobParameters><Tier>Bulk</Tier>"
                   b"</GlacierJobParameters></RestoreRequest>",
         "another tier": b"<RestoreRequest><Tier>Bulk</Tier><Description>d</Description></RestoreRequest>", "no body": b""}
ELSEWHERE = {"an output": b"<RestoreRequest><Type>SELECT</Type>" + OUTPUT + b"</RestoreRequest>",
             "one in a namespace": b"<RestoreRequest" + NS + b">" + OUTPUT + b"</RestoreRequest>",
             "one behind a prefix": b'<a:RestoreRequest xmlns:a="http://s3.amazonaws.com/doc/2006-03-01/">'
                                    + OUTPUT.replace(b"<", b"<a:").replace(b"<a:/", b"</a:") + b"</a:RestoreRequest>",
             "a select": b"<RestoreRequest><SelectParameters><Expression>select *</Expression></SelectParameters></RestoreRequest>",
             "an element that is not known": b"<RestoreRequest><Days>1</Days><NeverHeardOf/></RestoreRequest>",
             "another document": b"<Restore>" + OUTPUT + b"</Restore>",
             "one that does not end": b"<RestoreRequest><Days>1</Days>",
             "entities": b'<!DOCTYPE r [<!ENTITY o "OutputLocation">]><RestoreRequest><Days>1</Days></RestoreRequest>',
             "another encoding": ("<?xml version='1.0' encoding='UTF-16'?><RestoreRequest>" + OUTPUT.decode()
                                  + "</RestoreRequest>").encode("utf-16"),
             "a large one": b"<RestoreRequest><Days>1</Days>" + b" " * 200_000 + OUTPUT + b"</RestoreRequest>"}


def row(pair, allow):
    return {"access_key": pair[0], "secret_key": pair[1], "policy": [{"allow": allow, "on": ["bucket/in/"]}]}


with Story("u07 a restore that writes elsewhere") as story:
    origin = story.origin("object=bucket/in/x 1000")
    server = story.penstock(origin=origin.url, keys=[row(WRITER, ["write"]), row(ADMIN, ["write", "admin"])])
    writer, admin = Client(server.port, *WRITER), Client(server.port, *ADMIN)

    def restored(client, body):
        before = origin.counts()["requests"]
        reply = client.ask("POST", "bucket/in/x", [("restore", "")], body=body)
        return reply.status, reply.code, origin.counts()["requests"] - before

    for what, body in PLAIN.items():
        status, _, asked = restored(writer, body)
        story.same(f"{what}: the origin is asked", (asked, status == 403), (1, False))
    for what, body in ELSEWHERE.items():
        story.same(f"{what}: refused, and the origin not asked", restored(writer, body), (403, "AccessDenied", 0))
        story.same("... but with admin it is", restored(admin, body)[2], 1)
    line = next(line for line in map(json.loads, server.log().splitlines()) if line["event"] == "policy_refused")
    story.same("the log says which right is missing", (line["op"], line["right"], line["key"]), ("RestoreObject", "admin", "in/x"))
