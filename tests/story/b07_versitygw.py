"""The newest boto3 and s5cmd read through Penstock from a real S3 origin; the second pass costs it
nothing."""
from clients import *

with Story("b07 a real S3 origin, boto3 and s5cmd") as story:
    python, s5cmd = tool("python3"), tool("s5cmd")
    origin = story.versity()
    sums = make_tree(story)
    story.same("a bucket is made at the origin", origin.client.put("photos", b"").status, 200)
    status, out, err = run([s5cmd, "cp", story.path("tree/photos/set/") + "*", "s3://photos/set/"],
                           origin.env())
    story.same("s5cmd uploads to the origin", (status, err[-300:]), (0, ""))
    server = story.penstock(origin=origin.url)
    boto3_reads(story, server, python, "photos", "set/", sums)
    status, out, err = run([s5cmd, "cp", "s3://photos/set/*", story.path("copy") + "/"],
                           server.client_env())
    story.same("s5cmd copies", (status, err[-300:]), (0, ""))
    files_right(story, "every SHA-256 is right", story.path("copy"), sums, "set/")

    def plus(client, escape, prefix):
        """What a list finds whose query says `escape` as a plus."""
        wire = Wire(client.port)
        wire.send(client.head_of("GET", "photos", [("prefix", prefix)]).decode().replace(escape, "+").encode())
        reply = wire.read()
        wire.close()
        return reply.status, reply.code, re.findall(rb"<Key>([^<]*)", reply.body)

    for key in ("photos/a b", "photos/a+b"):
        origin.client.put(key, b"x")
    for escape, prefix, found in (("%20", "a b", [b"a b"]), ("%2B", "a+b", [])):
        story.same(f"a plus for {escape} is read as the origin reads it", plus(server.client, escape, prefix), plus(origin.client, escape, prefix))
        story.same("... as a space", plus(server.client, escape, prefix)[2], found)
    story.same("nobody says that Penstock's own keys are wrong", server.metrics()['penstock_origin_requests_total{result="refused_keys"}'], 0)
    wrong = story.penstock(origin=origin.url, origin_secret_key="wrong",
                           cache_dir=story.path("cache2"))
    story.same("a HEAD, refused without a word", wrong.head("photos/" + min(sums)).status, 403)
    reply = wrong.get("photos/" + min(sums))
    story.same("refused keys of Penstock's are not taken for the client's",
               (reply.status, reply.code, b"not yours" in reply.body), (403, "AccessDenied", True))
    story.same("both are in the log", wrong.log().count("origin_refused"), 2)
    origin.kill()
    bad = [k for k, want in sums.items()
           if hashlib.sha256(server.get("photos/" + k).body).hexdigest() != want]
    story.same("with the origin gone, every object still comes, and right", bad, [])
