"""Whatever the origin does, a client has right bytes or a clear failure."""
from harness import *

SIZE = 5 * MIB
ids = iter(range(1000))

with Story("o02 faults of the origin", seconds=180) as story:
    port = free_port()    # none that the kernel gives to connections while the origin is down
    origin = story.origin(port=port)
    clock = story.clock()
    server = story.penstock(origin=origin.url, freshness="always", origin_progress_time="2s",
                            origin_connect_time="1s",
                            buckets={"kept": {"freshness": "ttl", "ttl": "60s", "grace": "10m"},
                                     "over": {"freshness": "ttl", "ttl": "0s", "grace": "0s"},
                                     "still": {"freshness": "immutable"}})

    def fresh():
        return f"bucket/{next(ids)}/size-{SIZE}-x"

    def clear(reply, key, first=0, length=SIZE, versions=(1,)):
        """None if the answer is right or fails clearly; else what is wrong with it."""
        whole = [expect(key, v, first, length) for v in versions]
        if reply.error is None and reply.status in (200, 206):
            return None if reply.body in whole else same_bytes(reply.body, whole[0], key)
        if reply.status in (200, 206):
            return None if any(w.startswith(reply.body) for w in whole) else f"wrong bytes before the cut ({len(reply.body)})"
        if reply.error is None and reply.status >= 400 and reply.code:
            return None
        return f"neither bytes nor a clear failure: {reply}"

    def must(text, reply, key, first=0, length=SIZE, **how):
        story.bytes(f"{text}: right bytes", reply, key, first, length, **how)

    def may(text, reply, key, **how):
        wrong = clear(reply, key, **how)
        story.fact(f"{text}: right bytes or a clear failure ({'whole' if reply.error is None and reply.status < 300 else reply.code or reply.error})", wrong is None, wrong)

    def told(*lines):
        origin.tell("reset=rules", *lines)

    server.get("bucket/calm/size-1000-x")

    def saved_up():
        """Each call earns a tenth of a retry: the faults of one case don't use up the retries of
        the next."""
        told()
        for _ in range(100):
            server.head("bucket/calm/size-1000-x")    # freshness is always: a call each

    for range_text, args in (("whole", {}), ("a range", {"first": 1000, "last": 2 * MIB})):
        window = {} if not args else {"first": 1000, "length": 2 * MIB - 999}

        def get(key):
            return server.get(key, **args)

        saved_up()
        told("first_byte_ms=1500")
        key = fresh()
        must(f"{range_text}, slow", get(key), key, **window)
        for how in ("cut_fin=0", "cut_fin=1"):
            told("match=bucket/* GET", "cut_after=700000", how, "times=1")
            key = fresh()
            must(f"{range_text}, cut once ({how})", get(key), key, **window)
            told("cut_after=700000", how)
            key = fresh()
            may(f"{range_text}, each answer cut ({how})", get(key), key, **window)
        saved_up()
        told("match=bucket/* GET", "cut_after=0", "times=1")
        key = fresh()
        must(f"{range_text}, cut once before a byte", get(key), key, **window)
        told("match=bucket/* GET", "status=503", "times=2")
        key = fresh()
        must(f"{range_text}, 503 twice", get(key), key, **window)
        told("match=bucket/* GET", "status=503", "retry_after=1", "times=1")
        key = fresh()
        reply = get(key)
        must(f"{range_text}, 503 with Retry-After", reply, key, **window)
        story.fact("... which was obeyed", reply.ended - reply.began >= 0.95,
                   f"{reply.ended - reply.began:.2f} s")
        for name, lines in {"a length too long": ["length_error=1000"],
                            "a length too short": ["length_error=-1000"],
                            "a shifted Content-Range": ["range_error=131072"],
                            "a Content-Range one off": ["range_error=1"],
                            "200 for a range": ["ignore_range=1"],
                            "500 for ever": ["status=500"], "503 for ever": ["status=503"]}.items():
            key = fresh()
            if name == "a length too short" and not args:
                told()
                server.get(key, 0, 99)    # the size is known now, so that a whole answer can't lie about it
                origin.quiet()
            saved_up()
            told("match=bucket/* GET", *lines)
            may(f"{range_text}, {name}", get(key), key, **window)
            told()
            must(f"{range_text}, {name}, over: nothing wrong was kept", get(key), key, **window)
        saved_up()
        told("match=bucket/* GET", "stall_after=800000", "times=1")
        key = fresh()
        must(f"{range_text}, stalls once", get(key), key, **window)
        told("match=bucket/* GET", "hang=1", "times=1")
        key = fresh()
        reply = get(key)
        may(f"{range_text}, hangs once", reply, key, **window)
        story.fact("... which is no fault of the client's", not 400 <= reply.status < 500, reply)

    told("status=503")
    reply = server.get(fresh())
    story.same("503 for ever is SlowDown", (reply.status, reply.code), (503, "SlowDown"))
    told("endless_head=1", "times=4")
    key = fresh()
    may("a head that never ends", server.get(key), key)

    for range_half in ("first", "second"):
        told()
        key = fresh()
        half = (0, SIZE // 2 - 1) if range_half == "first" else (SIZE // 2, SIZE - 1)
        must(f"the {range_half} half is warm", server.get(key, *half), key, half[0],
             half[1] - half[0] + 1)
        origin.quiet()
        origin.tell(f"flip={key}")
        reply = server.get(key)
        may("... the object changes: the whole is of one version", reply, key, versions=(1, 2))
        must("... and the next read is the new one", server.get(key), key, version=2)
    key = fresh()
    told("match=bucket/* GET", "flip_after=1000000", "cut_after=1000000", "times=1")
    may("it changes and is cut in the middle of a fill", server.get(key), key, versions=(1, 2))
    told()
    must("... and the next read is the new one", server.get(key), key, version=2)
    told("ignore_if_match=1")
    key = fresh()
    server.get(key, 0, 131071)
    origin.quiet()
    origin.tell(f"flip={key}")
    may("an origin that ignores If-Match changes an object", server.get(key), key, versions=(1, 2))
    told()
    warm = {bucket: f"{bucket}/size-{SIZE}-x" for bucket in ("kept", "over", "still", "bucket")}
    for key in warm.values():
        must("something is read before the origin dies", server.get(key), key)
    server.wait_cached(warm["kept"], warm["still"])
    must("... and once more", server.get(warm["kept"]), warm["kept"])
    origin.kill()
    start = time.monotonic()
    reply = server.get(fresh())
    story.fact("origin down: a clear 5xx in S3 XML", reply.status in (500, 502, 503, 504)
               and reply.code, reply)
    story.in_time("... soon", time.monotonic() - start < 15, f"{time.monotonic() - start:.1f} s")
    for bucket, turn in (("still", "immutable"), ("kept", "in its ttl or grace")):
        must(f"origin down: {turn}", server.get(warm[bucket]), warm[bucket])
    clock.ahead(61)
    for turn in ("first", "second"):
        reply = server.get(warm["kept"])
        must(f"origin down, in its grace, {turn} read", reply, warm["kept"])
        story.same("... called stale", reply.cache, "stale")
    for bucket, turn in (("over", "past its grace"), ("bucket", "always")):
        reply = server.get(warm[bucket])
        story.fact(f"origin down, {turn}: a clear 5xx", reply.status in (500, 502, 503, 504)
                   and reply.code, reply)
    origin = story.origin(port=port)
    key = fresh()
    wait_for("after it came back, all is well", lambda: server.get(key).body == expect(key, 1, 0,
                                                                                       SIZE))
