"""Vendors' headers go on, signed; all others do not, and are counted. What nobody here knows takes admin under
a policy, passes by the cache, and makes the cache ask anew for the bucket it was written to."""
from forms import *
from recorder import Recorder

VENDORS = ("x-amz-unheard-of", "x-rgw-a", "x-minio-extract", "x-goog-b", "x-oss-c", "x-cos-d", "x-obs-e", "x-named")
NEVER = ("Connection", "Keep-Alive", "TE", "Trailer", "Upgrade", "Proxy-Authorization", "Authorization", "Cookie", "X-Auth-Token", "Forwarded",
         "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via", "Accept-Encoding", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override",
         "X-Original-URL", "X-Rewrite-URL", "X-Amz-Security-Token", "X-Oss-Security-Token", "X_Forwarded_For", "X-Original_URL", "Host")


with Story("w18 vendors' headers") as story:
    origin = story.origin("object=bucket/a 1000", "object=bucket/b 1000", "object=other/b 1000")
    recorder = Recorder(origin.port)
    jobs = ("jobs", "jobs/secret")
    server = story.penstock(origin=recorder.url, freshness="immutable", forward_headers="X-Named, x-named-too", revalidate="head", browser_uploads="1MiB", keys=[
        {"access_key": jobs[0], "secret_key": jobs[1], "policy": [{"allow": ["read", "list", "write"], "on": ["bucket"]},
                                                                  {"allow": ["admin"], "on": ["bucket/in/"]}]}])
    worker = Client(server.port, *jobs)

    last = recorder.last

    def signed_names(fields):
        return fields["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")

    # ---- what goes on ----
    everything = {name: f"of {name}" for name in VENDORS}
    story.same("a PUT with vendors' headers", server.put("bucket/p", b"x", everything).status, 200)
    fields = last("PUT")
    for name in VENDORS:
        story.same(f"{name} goes on as it came", fields.get(name), f"of {name}")
        story.fact("... signed", name in signed_names(fields), fields["authorization"])
    before = server.metric("penstock_front_headers_unsent_total")
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    others = {"x-unheard-of": "1", "x-minio": "1", "xx-amz-a": "1", "traceparent": trace, "accept": "*/*", "user-agent": "me"}
    story.same("a PUT with others", server.put("bucket/p", b"x", others).status, 200)
    fields = last("PUT")
    story.same("none of them goes on", [name for name in ("x-unheard-of", "x-minio", "xx-amz-a", "accept") if name in fields], [])
    story.same("... but where it came from", fields.get("traceparent"), trace)
    story.fact("... which is not signed", "traceparent" not in signed_names(fields), fields["authorization"])
    story.same("those that nobody knows are counted", server.metric("penstock_front_headers_unsent_total") - before, 3)
    never = {name.lower(): "x-minio-hop, close" if name == "Connection" else "zzz" for name in NEVER
             if name not in ("Authorization", "Host", "X-Amz-Security-Token", "Trailer", "Upgrade", "TE", "X_Forwarded_For", "X-Original_URL")}
    story.same("a PUT with what never goes on", server.put("bucket/p", b"x", {**never, "x-minio-hop": "1"}).status, 200)
    fields = last("PUT")
    story.same("none of it went on", [name for name in [*never, "x-minio-hop"] if fields.get(name, "") in ("zzz", "1", "x-minio-hop, close")], [])
    for name in ("x-amz-acl", "if-match", "Range"):
        reply = server.put("bucket/p", b"x", {"connection": name, name: '"x"'})
        story.same(f"what Penstock acts by can't be the connection's: {name}", (reply.status, reply.code), (400, "InvalidArgument"))

    # ---- reads pass by the cache ----
    story.same("cold", server.get("bucket/a").cache, "miss")
    wait_for("it is cached", lambda: server.get("bucket/a").cache == "hit")
    asked = len(recorder.heads)
    story.same("a hit with a header that changes nothing", [server.get("bucket/a", headers={name: "1"}).cache for name in
                                                            ("traceparent", "x-unheard-of", "accept-encoding")], ["hit"] * 3)
    for name in ("x-minio-extract", "x-named", "x-goog-b"):
        story.same(f"a GET with {name} is the origin's", server.get("bucket/a", headers={name: "true"}).cache, "")
        story.same("... who was told it", last("GET").get(name), "true")
        story.same("so is a HEAD", server.head("bucket/a", headers={name: "true"}).cache, "")
        story.same("... who was told it, too", last("HEAD").get(name), "true")
        story.same("and a list", (server.ask("GET", "bucket", [("list-type", "2")], {name: "true"}).status, last("GET").get(name)), (200, "true"))
    story.same("each asked the origin", len(recorder.heads) - asked, 9)
    story.same("a batch knows none of them", server.ask("POST", "bucket", [("penstock-batch", "")], {"x-minio-a": "1"}, b'{"items": ["a"]}').status, 501)
    origin.tell("match=bucket/b GET", "first_byte_ms=500")
    story.same("nor do they join a fetch", sorted(fields.get("x-minio-a", "-") for fields in
               (together(lambda: server.get("bucket/b"), lambda: server.get("bucket/b", headers={"x-minio-a": "1"})),
                [fields for method, fields in recorder.heads[-2:]])[1]), ["-", "1"])
    origin.calm()

    # ---- a write may have changed anything in its bucket ----
    for key in ("bucket/a", "bucket/b", "other/b"):
        wait_for(f"{key} is cached", lambda: server.get(key).cache == "hit")
    story.same("what is not there is remembered", [server.get("bucket/none").status, server.get("bucket/none").cache], [404, "negative-hit"])
    origin.tell("flip=bucket/b")    # behind our back: as the write below would
    story.same("an ordinary write says nothing of others", (server.put("bucket/p", b"y").status, server.get("bucket/b").cache), (200, "hit"))
    story.same("a write with a header that nobody knows", server.delete("bucket/in/x", headers={"x-minio-force-delete": "true"}).status in (200, 204), True)
    asked = len(recorder.heads)
    story.same("then what is here is asked for", (server.get("bucket/a").cache, recorder.heads[-1][0]), ("revalidated", "HEAD"))
    reply = server.get("bucket/b")
    story.bytes("... and what changed is new", reply, "bucket/b", 0, 1000, version=2)
    story.same("what was not there, too", (server.get("bucket/none").cache, server.get("bucket/none").cache), ("", "negative-hit"))
    asked = len(recorder.heads)
    story.same("no other bucket is", (server.get("other/b").cache, len(recorder.heads) - asked), ("hit", 0))
    wait_for("once is enough", lambda: server.get("bucket/a").cache == "hit")

    # ---- rights ----
    for method, key, text in (("GET", "bucket/a", "read"), ("HEAD", "bucket/a", "read"), ("PUT", "bucket/w", "write"), ("DELETE", "bucket/in/w", "write"),
                              ("GET", "bucket", "list")):
        story.same(f"{method} {key}: the right to {text} is enough", worker.ask(method, key).status < 300, True)
        asked = len(recorder.heads)
        reply = worker.ask(method, key, headers={"x-minio-force-delete": "true"})
        story.same("... but not with what nobody knows", (reply.status, len(recorder.heads) - asked), (403, 0))
    for name in ("x-amz-meta-snowball-auto-extract", "x-amz-meta-minio-snowball-prefix"):
        story.same(f"nor with {name}, which unpacks an archive", worker.put("bucket/w", b"x", {name: "true"}).status, 403)
    story.same("metadata is only that", worker.put("bucket/w", b"x", {"x-amz-meta-snowball": "true"}).status, 200)
    target = presign("DELETE", server.client.host, "/bucket/w", server.client.key, server.client.secret)
    reply = plain(server.port, "DELETE", target, headers=["x-minio-force-delete: true"])
    story.same("a presigned URL can't be widened", (reply.status, reply.code), (403, "AccessDenied"))
    story.fact("... and says by what", b"x-minio-force-delete" in reply.body, reply.body)
    story.same("without it, it is good", plain(server.port, "DELETE", target).status, 204)
    story.same("a name that may be read as a vendor's", server.put("bucket/w", b"x", {"x-minio-force_delete": "1"}).status, 400)

    field = [("x-minio-fanout-list", "a b")]
    asked = len(recorder.heads)
    reply = post(server.port, "bucket", signed("bucket", "in/f", jobs, field))
    story.same("nor may a form say what nobody knows", (reply.status, len(recorder.heads) - asked), (403, 0))
    for key in ("bucket/a", "bucket/b"):
        wait_for(f"{key} is cached", lambda: server.get(key).cache == "hit")
    asked = len(recorder.heads)
    reply = post(server.port, "bucket", signed("bucket", "f", (server.client.key, server.client.secret), field))
    story.same("with the right to it, it goes on", (len(recorder.heads) - asked, recorder.heads[-1][0]), (1, "POST"))
    story.same("... and the bucket is asked about", (server.get("bucket/a").cache, recorder.heads[-1][0]), ("revalidated", "HEAD"))

    # ---- the setting ----
    for name in NEVER:
        path = story.path("never.json")
        with open(path, "w") as f:
            json.dump({**server.settings, "forward_headers": f"x-good, {name}"}, f)
        done = subprocess.run([PENSTOCK, "check", path], capture_output=True, text=True, timeout=PATIENCE, env=own_env())
        story.fact(f"forward_headers can't name {name}", done.returncode == 2 and f'"{name}"' in done.stdout and "never forwards it" in done.stdout,
                   done.stdout)
