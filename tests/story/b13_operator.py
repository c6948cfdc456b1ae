"""What an operator has to go by: log lines by which a request can be found, counters of what the
cache answers, and the names of threads."""
from harness import *


def lines(server, event):
    return [line for line in map(json.loads, server.log().splitlines()) if line["event"] == event]


def id_of(reply):
    return reply.headers["x-amz-request-id"]


with Story("b13 an operator can see what the service does") as story:
    os.makedirs(story.path("tree/shelf"))
    origin = story.origin("object=bucket/a 1000", "object=bucket/c 1000")
    server = story.penstock(origin=origin.url, loops=2, origin_threads=2, log_format="json",
                            head_time="300ms",
                            origins={"shelf": {"url": "dir:" + story.path("tree")}},
                            buckets={"shelf": {"origin": "shelf"}})

    def line_of(event, request_id):
        return wait_for(f"a {event} line for {request_id}", lambda: next(
            (line for line in lines(server, event) if line.get("id") == request_id), None))

    def told(text, line, **facts):
        story.same(text, {name: line.get(name) for name in facts}, facts)

    # ---- requests ----
    reply = server.get("bucket/a b")
    told("a request's line says who asked for what", line_of("request", id_of(reply)),
         access_key=ACCESS_KEY, op="GetObject", bucket="bucket", key="a%20b")
    reply = server.get("bucket/" + "k" * 300)
    told("a long key is cut", line_of("request", id_of(reply)), key="k" * 200 + "...", status=404)
    reply = server.list("bucket")
    told("a listing has no key", line_of("request", id_of(reply)), bucket="bucket", key="-")

    # ---- refusals ----
    reply = Client(server.port, "NOSUCHKEY", SECRET_KEY).get("bucket/a")
    line = line_of("refused", id_of(reply))
    told("a refused head's line has what the client was told", line, status=403,
         err="ERR_UNKNOWN_KEY", access_key="NOSUCHKEY", method="GET", path="/bucket/a",
         why="The AWS Access Key Id you provided does not exist in our records. Sign with a key "
             "of Penstock's own list (access_key and keys in the settings: "
             f"{server.config_path}:6), not with a key of the origin.")
    story.fact("... and the peer", line["peer"].startswith("127.0.0.1:"), line)
    target = presign("GET", server.client.host, "/bucket/a", ACCESS_KEY, "wrong")
    reply = plain(server.port, "GET", target)
    told("so has a presigned one", line_of("refused", id_of(reply)), access_key=ACCESS_KEY,
         path="/bucket/a")
    story.fact("no signature is in the log", "X-Amz-Signature" not in server.log()
               and SECRET_KEY not in server.log())
    reply = server.ask("PUT", "bucket/a", body=b"x", payload="STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
    told("a body in chunks of no told length is named", line_of("refused", id_of(reply)), status=411,
         err="ERR_NO_LENGTH")

    def told_why(text, data, part):
        wire = Wire(server.port)
        wire.send(data)
        why = line_of("refused", id_of(wire.read()))["why"]
        story.fact(text, part in why, why)
    large = {"content-length": str(3 << 20)}
    head = server.client.head_of("POST", "bucket", [("delete", "")], large,
                                 payload="UNSIGNED-PAYLOAD")
    told_why("a list of keys that is too large is named", head, "2 MiB")
    head = server.client.head_of("PUT", "bucket/a", headers=large, payload="UNSIGNED-PAYLOAD")
    told_why("so is a header that is not signed",
             head.replace(b"\r\n", b"\r\nx-amz-tagging: a=b\r\n", 1), "(x-amz-tagging)")
    target = presign("PUT", server.client.host, "/bucket/a", ACCESS_KEY, SECRET_KEY)
    head = f"PUT {target} HTTP/1.1\r\nHost: {server.client.host}\r\n" \
           f"Content-Length: {3 << 20}\r\nx-goog-new: 1\r\n\r\n"
    told_why("... or not by a presigned URL", head.encode(), "x-goog-new")

    def refused_raw(text, data, err, seconds=PATIENCE):
        wire = Wire(server.port)
        wire.send(data)
        began = time.monotonic()
        answer = wire.hears(seconds) or b""
        found = re.search(rb"<RequestId>([^<]+)<", answer)
        if story.fact(f"{text} is answered", found, answer[:300]):
            line = line_of("refused", found.group(1).decode())
            told(f"{text} is in the log", line, err=err, status=400)
            story.fact(f"{text}: with its peer", line["peer"].startswith("127.0.0.1:"), line)
        return time.monotonic() - began

    refused_raw("a bad head", b"GET / HTTP/1.1\r\nBad Field: x\r\n\r\n", "ERR_BAD_HEAD")
    refused_raw("a big head", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 769 + b"\r\n",
                "ERR_HEAD_TOO_LARGE")
    refused_raw("a slow head", b"GET / HTTP/1.1\r\n", "ERR_TIMEOUT")
    took = refused_raw("TLS on this port", bytes.fromhex("16030100c8010000c40303"), "ERR_BAD_HEAD")
    story.in_time("... at once", took < 3, took)
    story.fact("... with what to do", any("speaks http://" in line["why"]
                                          for line in lines(server, "refused")))

    # ---- what the cache does ----
    def answers():
        figures = server.metrics()
        return {result: int(figures['penstock_cache_answers_total{result="%s"}' % result])
                for result in ("hit", "stale", "revalidated", "partial", "miss")}

    def stat():
        out = run([PENSTOCK, "stat", "--config", server.config_path])[1]
        return dict(line.split(None, 1) for line in out.partition("\n\n")[2].splitlines())

    story.same("a first read", server.get("bucket/a").cache, "miss")
    wait_for("it is stored", lambda: server.get("bucket/a").cache == "hit")
    before, earlier = answers(), stat()
    for _ in range(3):
        story.same("a later read", server.get("bucket/a").cache, "hit")
    story.same("a read of another", server.get("bucket/c").cache, "miss")
    gained = {result: count - before[result] for result, count in answers().items()}
    story.same("answers are counted by where their bytes came from", gained,
               {"hit": 3, "stale": 0, "revalidated": 0, "partial": 0, "miss": 1})
    shown = stat()
    story.same("stat shows them", (shown["cache.answers.hit"], shown["cache.answers.miss"]),
               (str(before["hit"] + 3), str(before["miss"] + 1)))
    story.same("... with a hit ratio", float(shown["worth.all.hit_ratio"]),
               float("%.3g" % (answers()["hit"] / sum(answers().values()))))
    story.same("... and requests", int(shown["requests"]) - int(earlier["requests"]), 4)

    # ---- an origin that refuses Penstock's own keys ----
    def refused_lines():
        return lines(server, "origin_refused")

    def ours_refused(text, reply, body=True):
        story.same(f"{text}: refused", reply.status, 403)
        if body:
            story.same(f"{text}: not as if the client's key were wrong", reply.code, "AccessDenied")
            story.fact(f"{text}: says whose keys", b"own credentials, not yours" in reply.body
                       and b"told to" not in reply.body, reply.body)
        told(f"{text}: in the log", line_of("request", id_of(reply)), err="ERR_ORIGIN_KEYS",
             status=403)

    keyed = server.metric('penstock_origin_requests_total{result="refused_keys"}')
    origin.tell("match=*", "status=403", "code=SignatureDoesNotMatch")
    ours_refused("GET", server.get("bucket/refused"))
    line = refused_lines()[-1]
    told("the log warns of it", line, level="warn", origin="default", code="SignatureDoesNotMatch")
    story.fact("... and says what to check", "origin_secret_key" in line["why"], line)
    ours_refused("a list", server.list("bucket"))
    ours_refused("PUT", server.put("bucket/refused", b"x"))
    ours_refused("DELETE", server.delete("bucket/refused"))
    ours_refused("HEAD", server.head("bucket/refused2"), body=False)
    story.same("one line a second is enough", len(refused_lines()), 1)
    story.same("they are counted", server.metric(
        'penstock_origin_requests_total{result="refused_keys"}') - keyed, 5)
    origin.tell("reset=rules", "match=*", "status=400", "code=ExpiredToken")
    time.sleep(1.1)
    ours_refused("an expired token", server.get("bucket/refused"))
    told("the log warns of that, too", refused_lines()[-1], code="ExpiredToken", not_logged=4)
    origin.tell("reset=rules", "match=*", "status=403", "code=AccessDenied")
    reply = server.get("bucket/refused")
    story.same("a permission is the origin's to refuse", (reply.status, reply.code, b"own credentials" in reply.body),
               (403, "AccessDenied", False))
    story.same("... also for HEAD", line_of("request", id_of(server.head("bucket/refused")))["err"],
               "ERR_DENIED")
    origin.tell("reset=rules")

    # ---- origins ----
    origin.kill()
    story.same("the origin is gone", server.get("bucket/b").status, 503)
    why = lines(server, "origin_failed")[-1]["why"]
    story.fact("the log says why in words", " " in why and "%20" not in why, why)

    page = json.loads(plain(server.admin_port, "GET", "/status").body)["origins"]
    down = next(one for one in page if one["name"] == "default")
    story.same("stat has its last answer, and failure",
               [one[:2] for one in (down.get("last_answer", ""), down.get("last_failure", ""))],
               ["20", "20"])
    story.fact("... with why", "can't be reached: " in down.get("last_failure_why", ""), down)
    shelf = next(one for one in page if one["name"] == "shelf")
    story.same("one that was never asked has none", (shelf.get("last_answer"),
               shelf.get("last_failure"), shelf.get("calls")), ("never", "never", 0))

    # ---- threads ----
    story.same("threads are named by what they do",
               {"loop-0", "loop-1", "origin-0", "origin-1", "dir-0", "commit", "watch",
                "intake-0"} - set(server.threads().values()), set())
