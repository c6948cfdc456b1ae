"""The Python client on the fill socket: what it fills is what a GET brings, wherever an item lies; what
fails says which item; threads, forks, a daemon that restarts, hangs up, or is gone."""
import logging

from harness import *
from python_client import penstock, refused

SIZES = {"objects/a": 4096, "objects/b": 300_000, "objects/c": 1, "objects/d": 3 << 20, "objects/e": 0}
MANY = 20_000


def fills(story, client):
    buffer = client.buffer(16 << 20)
    items = ["a", ("b", 10, 299_990), "c", {"key": "d", "max": 3 << 20}, "e", ("d", 1 << 20, -1), ("a", 0, 0)]
    filled = client.fill(buffer, "objects", items)
    want = [("a", 0, 4096), ("b", 10, 299_990), ("c", 0, 1), ("d", 0, 3 << 20), ("e", 0, 0),
            ("d", 1 << 20, 2 << 20), ("a", 0, 0)]
    story.same("every item has its length", filled.lengths, [n for _, _, n in want])
    story.fact("and its bytes", all(view == expect(f"objects/{key}", 1, first, n)
                                    for view, (key, first, n) in zip(filled.views, want)))
    story.same("the bytes are counted", filled.nbytes, sum(n for _, _, n in want))
    again = client.fill(buffer, "objects", [("", 5, 100, 777)], prefix="a")
    story.same("a place that is said is the place", again.offsets, [777])
    story.fact("and has the bytes", buffer.memory[777:877] == expect("objects/a", 1, 5, 100))
    buffer.close()
    story.fact("views of a closed buffer stay good", again.views[0] == expect("objects/a", 1, 5, 100))
    story.fact("a closed buffer takes nothing", refused(lambda: client.fill(buffer, "objects", ["a"]),
                                                        ValueError))


def failures(story, client):
    buffer = client.buffer(1 << 20)
    failure = refused(lambda: client.fill(buffer, "objects", ["a", "nope", ("b", 299_999, 2)]))
    story.same("the first item that fails names the failure", (failure.code, failure.status), ("NoSuchKey", 404))
    story.fact("each says index and key", (1, "nope", "NoSuchKey") in
               [(e.index, e.key, e.code) for e in failure.errors], failure.errors)
    filled = client.fill(buffer, "objects", ["a", "nope", ("b", 299_999, 2)], on_error="skip")
    story.same("others are filled, if told so", (filled.lengths, [(e.index, e.code, e.status) for e in filled.errors]),
               ([4096, 0, 0], [(1, "NoSuchKey", 404), (2, "InvalidRange", 416)]))
    failure = refused(lambda: client.fill(buffer, "objects", ["d"]))
    story.same("an object larger than its room", (failure.code, failure.status), ("too_large", 413))
    failure = refused(lambda: client.fill(buffer, "objects", [("a", 0, 10, 0), ("a", 0, 10, 9)]))
    story.same("two on one another", failure.code, "overlap")
    failure = refused(lambda: client.fill(buffer, "objects", [("d", 0, 1 << 21)]), ValueError)
    story.fact("more than fits is not even asked", failure and "the buffer has" in str(failure), failure)
    story.same("one key is no list of keys, a word no device", [
        type(refused(lambda: client.fill(buffer, "objects", "abc"), TypeError)),
        type(refused(lambda: client.prefetch("objects", {"key": "a"}), TypeError)),
        *[type(refused(lambda: client.buffer(10, device), ValueError)) for device in ("gpu", "cuda0", "cpu:0", None, 0)]],
        [TypeError] * 2 + [ValueError] * 5)
    failure = refused(lambda: client.fill(buffer, "nobucket", ["a"]))
    story.fact("a bucket that is not there", failure.status == 404, failure)


def falls_back(story, client, how):
    """Who asked for a GPU's memory and gets another is warned; this host's module has no GPU."""
    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append((record.levelname, re.search(" use ([a-z-]+)", record.getMessage())[1]))
    logging.getLogger("penstock").addHandler(handler)
    story.same("no GPU: shared memory", (client.buffer(100, "cuda:0").kind, client.way("cuda:0")), ("memfd", "memfd"))
    story.same("... is a warning, once", told, [("WARNING", "memfd")])
    with penstock.connect("", ACCESS_KEY, SECRET_KEY, **how) as other:
        story.same("no fill socket: HTTP", (other.way("cuda:0"), other.way("cuda:0")), ("batch", "batch"))
    story.same("... is a warning, too", told[1:], [("WARNING", "batch")])
    logging.getLogger("penstock").setLevel("INFO")
    client.way()
    story.same("the host's own memory is not", told[2:], [("INFO", "memfd")])
    logging.getLogger("penstock").removeHandler(handler)


def many(story, client):
    buffer = client.buffer(MANY * 8)
    items = [("b", i, 8) for i in range(MANY)]
    filled = client.fill(buffer, "objects", items)
    whole = expect("objects/b", 1, 0, MANY + 8)
    story.fact(f"{MANY} items, more than one message may name, are one fill",
               filled.nbytes == MANY * 8 and all(view == whole[i:i + 8] for i, view in enumerate(filled.views)))
    filled = client.fill(buffer, "objects", [*items[:MANY - 1], ("gone", 0, 8)], on_error="skip")
    story.same("and their numbers are those of the list", [e.index for e in filled.errors], [MANY - 1])
    few = [("b", i, 8) if i % 97 == 0 else ("x" * 900, 0, 8) for i in range(485)]
    filled = client.fill(buffer, "objects", few, on_error="skip")
    story.same("so are few with long keys, as many bytes as three messages",
               (filled.nbytes, [e.index for e in filled.errors]), (40, [i for i in range(485) if i % 97]))
    client.prefetch("objects", ["a", "b", "d"])
    started = [client.fill_async(buffer, "objects", [("b", i, 1000, i * 1000)]) for i in range(100)]
    story.fact("a hundred under way, more than a session may have, all end",
               all(f.result().views[0] == expect("objects/b", 1, i, 1000) for i, f in enumerate(started)))
    story.fact("what has ended says so", all(f.done() for f in started))
    lazy = client.fill_async(buffer, "objects", [("b", 0, 1000, 0)])
    wait_for("done() becomes true without a wait", lazy.done)

    def work(n):
        mine = client.buffer(1 << 20)
        for i in range(40):
            at = (i * 977 + n) % 200_000
            filled = client.fill(mine, "objects", [("b", at, 3000), "a"])
            check(filled.views[0] == expect("objects/b", 1, at, 3000), f"thread {n}, fill {i}")
        return True
    story.fact("eight threads share a connection", all(together(*[lambda n=n: work(n) for n in range(8)])))


def fork(story, client):
    buffer = client.buffer(1 << 20)
    client.fill(buffer, "objects", [("a", 0, 100, 0)])
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        good = b"0"
        try:
            filled = client.fill(buffer, "objects", [("b", 0, 5000, 50_000)])
            kept = buffer.memory[:100] == expect("objects/a", 1, 0, 100)
            good = b"1" if kept and filled.views[0] == expect("objects/b", 1, 0, 5000) else b"2"
        finally:
            os.write(writing, good)
            os._exit(0)
    os.waitpid(pid, 0)
    story.same("the child of a fork fills over a connection of its own", os.read(reading, 1), b"1")
    story.fact("into memory of its own", buffer.memory[50_000:50_010] == bytes(10))
    story.fact("the parent's stays as it was", client.fill(buffer, "objects", ["a"]).views[0] ==
               expect("objects/a", 1, 0, 4096))


def restarts(story, client, server, origin):
    buffer = client.buffer(8 << 20)
    client.fill(buffer, "objects", [("a", 0, 4096, 0)])
    view = buffer.memory[:4096]
    server = server.restart()
    filled = client.fill(buffer, "objects", [("d", 0, 3 << 20, 4096)])
    story.fact("after a restart the same buffer is filled again", filled.views[0] ==
               expect("objects/d", 1, 0, 3 << 20))
    origin.tell("match=objects/b", "first_byte_ms=2000")
    server.stop()
    shutil.rmtree(server.cache_dir)
    server = server.again()
    under_way = client.fill_async(buffer, "objects", [("b", 0, 300_000, 5 << 20)])
    time.sleep(0.3)
    server.kill()
    origin.calm()
    server = server.again()
    story.fact("what was under way when it was killed is asked again",
               under_way.result().views[0] == expect("objects/b", 1, 0, 300_000))
    story.fact("the memory that it might still have written to is not ours any more: the same bytes, "
               "at the same place", view == expect("objects/a", 1, 0, 4096))
    server.kill()
    began = time.monotonic()
    failure = refused(lambda: client.fill(buffer, "objects", ["a"]), penstock.Disconnected)
    story.fact("a daemon that stays away is an error, that says what to look at",
               failure and "No process listens there" in str(failure), failure)
    story.in_time("as soon as patience ends", 0.4 < time.monotonic() - began < 5)
    return server.again()


def waits_for_room(story, server, origin):
    """Lists that find no room beside another's are asked again until they do, or have waited enough."""
    path, long = server.settings["fill_socket"], ["a"] * 9000
    turned_away = 'penstock_fill_limited_total{limit="memory_fills"}'
    origin.tell("object=objects/slow 100", "object=objects/stuck 100", "match=objects/slow", "first_byte_ms=1000")
    with penstock.connect(path, endpoint_url=server.endpoint) as first, \
            penstock.connect(path, endpoint_url=server.endpoint) as second:
        second.prefetch("objects", ["a"])
        slow = first.prefetch_async("objects", ["slow", *long])
        wait_for("its list is under way", lambda: server.metric("penstock_fill_lists_bytes") > 1 << 20)
        asked = second.prefetch_async("objects", long)
        wait_for("another's finds no room", lambda: server.metric(turned_away) >= 1)
        story.fact("... and is not done", not asked.done() or slow.done())
        story.same("... but waits and is read", len(asked.result().errors), 0)
        story.fact("... after the first", slow.done() and server.metric(turned_away) > 1)
        origin.tell("match=objects/stuck", "first_byte_ms=60000")
        stuck = first.prefetch_async("objects", ["stuck", *long])
        wait_for("a list that stays", lambda: server.metric("penstock_fill_lists_bytes") > 1 << 20)
        polled = second.prefetch_async("objects", long)
        wait_for("done() alone asks again, and comes to an end", polled.done)
        failure = refused(polled.result)
        story.same("who has waited enough is told", (failure.code, failure.status), ("quota", 429))
        failure = refused(lambda: second.prefetch_async("objects", long).result(timeout=0.2), penstock.TimedOut)
        story.fact("or has no more time", failure)
        story.fact("the first is still under way", not stuck.done())


with Story("x10 the Python client") as story:
    origin = story.origin(*[f"object={key} {size}" for key, size in SIZES.items()])
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path, fill_list="128KiB")
    how = {"endpoint_url": server.endpoint, "patience": 1.0}
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(AWS_CONFIG_FILE="/dev/null", AWS_SHARED_CREDENTIALS_FILE="/dev/null")
    with penstock.connect(path, ACCESS_KEY, SECRET_KEY, **how) as client:
        falls_back(story, client, how)
        fills(story, client)
        failures(story, client)
        many(story, client)
        fork(story, client)
        server = restarts(story, client, server, origin)
        status = client.status()
        story.fact("the daemon says what it keeps for us", status["buffers"] <= 3, status)
    os.environ.update(AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY, PENSTOCK_FILL_SOCKET=path)
    with penstock.connect(**how) as client:
        story.same("path and keys come from the environment, too", client.fill(client.buffer(9000), "objects",
                                                                               ["a"]).lengths, [4096])
    narrow = story.penstock(origin=origin.url, fill_socket=path + "narrow", freshness="immutable",
                            memory_fills="1MiB")
    waits_for_room(story, narrow, origin)
    failure = refused(lambda: penstock.connect(path, ACCESS_KEY, "wrong", **how))
    story.same("a wrong secret", (failure.code, failure.status), ("SignatureDoesNotMatch", 403))
    failure = refused(lambda: penstock.connect(path, "nobody", "x", **how))
    story.same("a key that nobody has", failure.code, "InvalidAccessKeyId")
    failure = refused(lambda: penstock.connect(story.path("none.sock"), **how), penstock.Disconnected)
    story.fact("no socket there", failure and "none.sock" in str(failure) and "fill_socket" in str(failure), failure)
    failure = refused(lambda: penstock.connect("/" + "x" * 200, **how), penstock.Disconnected)
    story.fact("a path that is too long", failure and "too long" in str(failure), failure)
