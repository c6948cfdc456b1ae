"""Metrics that page somebody for an origin's failure rise by failures alone: an origin that says 501
to an operation it lacks works. And the line of a refused request names the sub-resource."""
from harness import *

with Story("b21 what an origin lacks is no failure of it") as story:
    origin = story.origin("object=bucket/a 1000")
    server = story.penstock(origin=origin.url, log_format="json")

    def figures():
        now = server.metrics()
        return {name: int(now.get(full, 0)) for name, full in (
            ("ok", 'penstock_origin_requests_total{result="ok"}'),
            ("error", 'penstock_origin_requests_total{result="error"}'),
            ("5xx", 'penstock_responses_total{class="5xx"}'), ("501", 'penstock_responses_total{class="501"}'))}

    def gained(method, key, query=(), **how):
        before = figures()
        reply = server.ask(method, key, query=query, **how)
        now, end = figures(), time.monotonic() + PATIENCE
        pairs = [("ok", "error")] + [("501", "5xx")] * (reply.status >= 500)    # one of each pair rises
        while any(all(now[name] == before[name] for name in pair) for pair in pairs) and time.monotonic() < end:
            time.sleep(0.02)    # a call of the origin, and a reply, are counted behind their last byte
            now = figures()
        return reply.status, {name: now[name] - before[name] for name in now if now[name] != before[name]}

    # ---- what it lacks ----
    story.same("a read that works", gained("GET", "bucket/a"), (200, {"ok": 1}))
    for status in (501, 405, 400, 404):
        origin.tell("reset=rules", "match=*", f"status={status}", "code=NotImplemented")
        want = {"ok": 1, "501": 1} if status == 501 else {"ok": 1}
        for method, query in (("GET", [("accelerate", "")]), ("GET", [("metrics", ""), ("id", "x")]),
                              ("DELETE", [("website", "")])):
            story.same(f"{method} of ?{query[0][0]} answered {status}", gained(method, "bucket", query), (status, want))
    page = json.loads(plain(server.admin_port, "GET", "/status").body)["origins"][0]
    story.same("the origin has not failed", (page["state"], page["last_failure"]), ("answers", "never"))
    origin.tell("reset=rules", "match=*", "status=500")
    status, more = gained("DELETE", "bucket", [("website", "")])
    story.same("a failure is one", (status, more["error"], more["5xx"]), (500, 1, 1))
    origin.calm()

    # ---- the line of a refusal ----
    def refused(reply):
        request_id = reply.headers["x-amz-request-id"]
        return wait_for("the line", lambda: next((line for line in map(json.loads, server.log().splitlines())
                                                  if line["event"] == "refused" and line["id"] == request_id), None))

    wrong = Client(server.port, ACCESS_KEY, "wrong")
    line = refused(wrong.ask("PUT", "bucket/a", query=[("tagging", ""), ("versionId", "v 1")], body=b"x"))
    story.same("the line of a refusal has the sub-resource", (line["path"], line["query"]),
               ("/bucket/a", "tagging=&versionId=v%25201"))
    line = refused(wrong.ask("GET", "bucket"))
    story.same("none is none", line["query"], "-")
    target = presign("GET", server.client.host, "/bucket/a", ACCESS_KEY, "wrong",
                     query=[("X-Amz-Security-Token", "TOKENTOKEN"), ("acl", ""), ("x-id", "GetObjectAcl")])
    line = refused(plain(server.port, "GET", target))
    story.same("of a presigned one, what proves it is left out", line["query"].replace("=&", "&"),
               "X-Amz-Algorithm=AWS4-HMAC-SHA256&" + re.search("X-Amz-Date=[^&]*", target).group() +
               "&X-Amz-Expires=300&X-Amz-SignedHeaders=host&acl&x-id=GetObjectAcl")
    signature = re.search("X-Amz-Signature=([0-9a-f]+)", target).group(1)
    hidden = target.replace("X-Amz-Signature=", "X-Amz-Sign%61ture=")
    plain(server.port, "GET", hidden)
    plain(server.port, "GET", f"/bucket/a?AWSAccessKeyId={ACCESS_KEY}&Signature=SIGSIGSIG&Expires=1")
    line = refused(wrong.ask("GET", "bucket", query=[("prefix", "p" * 1000)]))
    story.fact("a long one is cut", len(line["query"]) < 220 and line["query"].endswith("..."), line["query"])
    log = server.log()
    story.same("no signature, token or credential is in the log",
               [word for word in (signature, "TOKENTOKEN", "SIGSIGSIG", f"Credential={ACCESS_KEY}") if word in log], [])
