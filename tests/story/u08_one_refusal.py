"""Who is refused by the origin can't tell by the answer what is cached: a cached key, one that is there and not
cached, and one that is not there are refused in one form, whatever is asked and whoever asks."""
from harness import *

STRANGER, USER, WRONG = ("STRANGERTESTKEY", "stranger/secret"), ("usertestkey", "user-secret"), ("usertestkey", "wrong-secret")
VARIES = ("date", "x-amz-request-id", "content-length")
ASKS = [("GET", [], {}), ("HEAD", [], {}), ("GET", [], {"range": "bytes=0-9"}), ("GET", [], {"range": "bytes=-5"}),
        ("GET", [], {"range": "bytes=999999-"}), ("GET", [], {"if-none-match": '"x"'}), ("GET", [], {"if-match": '"x"'}),
        ("GET", [], {"if-modified-since": "Wed, 21 Oct 2015 07:28:00 GMT"}), ("GET", [], {"cache-control": "no-cache"}),
        ("GET", [("partNumber", "1")], {}), ("HEAD", [("partNumber", "1")], {}), ("GET", [("response-expires", "x")], {}),
        ("GET", [], {"x-amz-checksum-mode": "ENABLED"})]


def form_of(reply, key):
    body = reply.body.replace(key.encode(), b"KEY").replace(reply.headers.get("x-amz-request-id", "-").encode(), b"ID")
    return reply.status, sorted((n, v) for n, v in reply.headers.items() if n not in VARIES), body


with Story("u08 one form for what the origin refuses") as story:
    gateway = story.versity(iam=True)
    gateway.client.put("bucket", b"")
    user = f"<Account><Access>{USER[0]}</Access><Secret>{USER[1]}</Secret><Role>user</Role></Account>".encode()
    made = gateway.client.ask("PATCH", "create-user", body=user)
    story.fact("the origin has a user who may do nothing", made.status in (200, 201), f"{made} {made.body}")
    for key in "cached-k", "hidden-k":
        gateway.client.put(f"bucket/{key}", b"data" * 1000)
    keys = [{"access_key": f"CLIENT{i}", "secret_key": "secret", "origin_access_key": pair[0], "origin_secret_key": pair[1]}
            for i, pair in enumerate((STRANGER, WRONG, USER))] + [{"anonymous": True}]
    server = story.penstock(origin=gateway.url, keys=keys, freshness="immutable")
    wait_for("an object is in the cache", lambda: server.get("bucket/cached-k").cache == "hit")
    for client in [*(Client(server.port, f"CLIENT{i}", "secret") for i in range(3)), Client(server.port)]:
        who = client.key if client is not None else "-"
        for method, query, headers in ASKS:
            replies = {key: (plain(server.port, method, f"/bucket/{key}" + ("?partNumber=1" if query and query[0][0] == "partNumber" else ""),
                                   headers=[f"{n}: {v}" for n, v in headers.items()]) if client.key == ACCESS_KEY
                             else client.ask(method, f"bucket/{key}", query, headers=dict(headers)))
                       for key in ("cached-k", "hidden-k", "absent-k")}
            forms = {key: form_of(reply, key) for key, reply in replies.items()}
            what = f"{who if who != ACCESS_KEY else 'nobody'}: {method} {query} {headers}"
            if client.key == ACCESS_KEY and query and query[0][0].startswith("response"):
                continue
            story.fact(f"{what}: refused", all(form[0] == 403 for form in forms.values()), forms)
            story.same("... in one form", forms["cached-k"], forms["hidden-k"])
            story.same("... for what is not there, too", forms["absent-k"], forms["hidden-k"])

    # ---- in a list, and where the origin says another status ----
    origin = story.origin("objects=pile/%d 30 1000", "objects=cold/%d 30 1000")
    server = story.penstock(origin=origin.url, cache_dir=story.path("cache-2"), freshness="immutable", ttl="1h", missing_time=0,
                            keys=[{"access_key": "CLIENT", "secret_key": "secret", "origin_access_key": "AS", "origin_secret_key": "s"}])
    client = Client(server.port, "CLIENT", "secret")
    for i in range(30):
        wait_for("an object is in the cache", lambda: server.get(f"pile/{i}").cache == "hit")
    for status in (400, 401, 403, 404, 405, 416):
        origin.calm()
        for bucket in "pile", "cold":
            origin.tell(f"match={bucket}/*", "as=AS", f"status={status}")
        for method in "GET", "HEAD":
            cached, hidden = (client.ask(method, f"{bucket}/{status % 30}") for bucket in ("pile", "cold"))
            story.same(f"{status}: {method} of a cached key is refused as that of another",
                       form_of(cached, f"pile/{status % 30}"), form_of(hidden, f"cold/{status % 30}"))
        if status not in (401, 403, 404):
            continue
        listed = [client.ask("POST", bucket, [("penstock-batch", "")], body=json.dumps(
            {"items": [str(status % 30)], "form": "frames"}).encode()) for bucket in ("pile", "cold")]
        story.same(f"{status}: ... and in a batch", listed[0].body, listed[1].body)
