"""Whoever speaks the fill socket wrongly is told what is wrong and what to do; nobody else notices,
and nothing is left of it."""
import array
import contextlib
import fcntl
import mmap
import pwd
import struct
import termios

from filler import SEAL_GROW, SEAL_SHRINK, SEAL_WRITE, Filler, Memory
from harness import *

SIZE = 100_000

with Story("x02 hostile fills") as story:
    origin = story.origin("objects=pile/%d 20 100000")
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path, freshness="immutable",
                            fill_buffers=4, fill_user_memory="64MiB", fill_requests=3, fill_items=1000,
                            fill_user_sessions=12, fill_list="256KiB", fill_replies="1MiB",
                            head_time="2m")    # 4,000 hellos that fail take longer than 10 s on a busy machine
    good = Filler(path)
    room = Memory(1 << 20)
    mine = good.register(room)["buffer"]

    def well(what):
        reply = good.fill(mine, "pile", [["0", 0, SIZE, 0]])
        return story.fact(f"{what}: another session goes on", reply["ok"] and
                          room.map[:SIZE] == expect("pile/0", 1, 0, SIZE), reply)

    def refused(what, reply, error, status):
        story.same(what, (reply and reply.get("ok"), reply and reply.get("error"),
                          reply and reply.get("status")), (False, error, status))
        story.fact("... with a sentence", reply and len(reply.get("message", "")) > 10, reply)

    def counted(limit, times, server=server):
        def count():
            return server.metrics()[f'penstock_fill_limited_total{{limit="{limit}"}}']
        wait_for(f"{limit} is counted", lambda: count() >= times)
        story.same(f"... which is counted: {limit}", count(), times)

    def large(filler, message):
        """Sends it in a memfd."""
        text = json.dumps(message).encode()
        with os.fdopen(os.memfd_create("list"), "wb", buffering=0) as list_of:
            list_of.write(text)
            filler.send({"message_bytes": len(text)}, [list_of.fileno()])

    def session():
        return Filler(path)

    def ticks(server):
        """The CPU time of a daemon so far, in hundredths of a second."""
        with open(f"/proc/{server.pid}/stat") as stat:
            return sum(map(int, stat.read().split()[13:15]))

    well("before all this")

    # ---- before hello ----
    stranger = Filler(path, hello=False)
    refused("a fill before hello", stranger.fill(mine, "pile", [["0", 0, 1, 0]]), "no_session", 401)
    refused("a buffer before hello", stranger.register(room), "no_session", 401)
    refused("a status before hello", stranger.say("status"), "no_session", 401)
    refused("hello with a wrong secret", stranger.greet(secret="wrong"), "SignatureDoesNotMatch", 403)
    refused("hello with an unknown key", stranger.greet(key="NOBODYKNOWSME"), "InvalidAccessKeyId", 403)
    refused("hello that signs nothing", stranger.greet(key=None), "AccessDenied", 403)
    refused("hello that is good for a week", stranger.greet(expires=604800),
            "AuthorizationQueryParametersError", 400)
    late = Filler.proof(ACCESS_KEY, SECRET_KEY, 60, now=ago(seconds=120))
    refused("hello that has expired", stranger.say("hello", v=1, auth=late), "AccessDenied", 403)
    url = Filler.proof(ACCESS_KEY, SECRET_KEY)["presigned"]
    for what, wrong in (("another page", url.replace("/_/fill", "/_/full")), ("no URL", "fill"),
                        ("a line break", url.replace("?", "?a=\r\nx-a: b&")), ("nothing", "http://"),
                        ("too much", url + "&a=" + "a" * 5000)):
        reply = stranger.say("hello", v=1, auth={"presigned": wrong})
        story.fact(f"hello that is presigned for {what}", reply["ok"] is False
                   and reply["status"] in (400, 403), reply)
    refused("hello in another version", stranger.say("hello", v=2, auth=Filler.proof(ACCESS_KEY, SECRET_KEY)),
            "bad_message", 400)
    held = server.memory()
    for _ in range(4000):
        stranger.say("hello", v=1, auth={"presigned": url[:-8] + "00000000" + "&a=" + "a" * 3000})
    story.fact("thousands that fail are not kept", server.memory() - held < 30 << 20, server.memory() - held)
    story.fact("and a good one, at last", stranger.greet()["ok"])
    refused("said twice", stranger.greet(), "bad_message", 400)
    stranger.close()
    well("hellos")

    # ---- what is no message ----
    bad = session()
    for what, text in (("nothing that is JSON", b"hello"), ("no object", b"[1]"), ("half", b'{"op":"fil'),
                       ("no op", b"{}"), ("another op", b'{"op":"drop"}'), ("op twice", b'{"op":"status","op":"fill"}'),
                       ("a NUL", b'{"op":"status"}\0'), ("no UTF-8", b'{"op":"\xff"}'),
                       ("deep", b'{"op":' + b"[" * 5000 + b"]" * 5000 + b"}"),
                       ("a wrong member", b'{"op":"status","verbose":1}'),
                       ("an id that is text", b'{"op":"status","id":"7"}'),
                       ("a number too large", b'{"op":"status","id":99999999999999999999999}'),
                       ("a NUL in a key", b'{"op":"fill","buffer":"' + mine.encode() +
                        b'","bucket":"pile","items":[["a\\u0000b",0,1,0]]}')):
        bad.send(text)
        reply = bad.receive()
        story.fact(f"{what} is no message", reply["ok"] is False and reply["status"] == 400 and
                   reply["error"] in ("bad_message", "bad_item"), reply)
    bad.send(b'{"op":"status","id":1,"pad":"' + b"x" * 140_000 + b'"}')
    refused("one that is too large", bad.receive(), "message_too_large", 413)
    counted("message", 1)
    line = [line for line in server.log().splitlines() if "fill_refused" in line][-1]
    story.fact("the log names session, user and process", all(
        word in line for word in (bad.hello["session"][:8], str(os.getuid()), str(os.getpid()), "message_too_large")), line)
    reply = bad.say("fill", bufer=mine, bucket="pile", items=[])
    story.fact("a misspelt member is told the right one", "buffer" in reply["message"], reply)

    # ---- descriptors ----
    sockets = socket.socketpair()
    pipe = os.pipe()
    shrinks, plain_fd = Memory(4096, seals=0), os.open(path + ".txt", os.O_RDWR | os.O_CREAT)
    os.truncate(path + ".txt", 4096)
    sealed = Memory(4096)
    fcntl_seal = Memory(4096, seals=SEAL_SHRINK)
    holes = os.memfd_create("holes", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(holes, 1 << 20)
    import fcntl as _fcntl
    _fcntl.fcntl(holes, 1033, SEAL_SHRINK)
    readonly = os.open(f"/proc/self/fd/{sealed.fd}", os.O_RDONLY)

    def registers(fds, size=4096, **more):
        return bad.say("register", fds, kind="memfd", bytes=size, **more)

    refused("no descriptor", registers([]), "bad_descriptor", 422)
    refused("two", registers([sealed.fd, sealed.fd]), "bad_descriptor", 422)
    refused("a socket", registers([sockets[0].fileno()]), "bad_descriptor", 422)
    refused("a pipe", registers([pipe[0]]), "bad_descriptor", 422)
    refused("a file", registers([plain_fd]), "bad_descriptor", 422)
    refused("a memfd that may shrink", registers([shrinks.fd]), "unsealed_memfd", 422)
    refused("one that is smaller than is said", registers([sealed.fd], 4097), "bad_descriptor", 422)
    refused("one with holes", registers([holes], 1 << 20), "bad_descriptor", 422)
    story.fact("one that can't be written to", registers([readonly])["ok"] is False)
    refused("no bytes", registers([sealed.fd], 0), "bad_message", 400)
    refused("bytes below none", registers([sealed.fd], -1), "bad_message", 400)
    refused("2^63 bytes", registers([sealed.fd], (1 << 63) - 1), "quota", 429)
    reply = bad.say("register", [sealed.fd], kind="disk", bytes=1)
    refused("a kind that is none", reply, "bad_message", 400)
    story.fact("... told which there are", reply["message"].startswith('register: "kind" must be "memfd" or "cuda-vmm"')
               and ' or "' in reply["message"], reply)
    gpu = "GPU-00000000-0000-0000-0000-000000000000"
    refused("cuda-vmm where there is no GPU", bad.say("register", [sealed.fd], kind="cuda-vmm", bytes=4096,
                                                      chunks=[4096], gpu=gpu), "no_gpu", 503)
    refused("cuda-ipc", bad.say("register", kind="cuda-ipc", bytes=4096, gpu=gpu, handle="A" * 86 + "=="),
            "no_gpu", 503)
    story.fact("... which hello said, and why", bad.hello["kinds"]["cuda-vmm"].startswith("off: ")
               and len(bad.hello["kinds"]["cuda-ipc"]) > 20 and bad.hello["gpus"] == [], bad.hello)
    refused("cuda-vmm without chunks", bad.say("register", [sealed.fd], kind="cuda-vmm", bytes=4096, gpu=gpu),
            "bad_descriptor", 422)
    refused("cuda-ipc with a handle that is none", bad.say("register", kind="cuda-ipc", bytes=4096, gpu=gpu,
                                                           handle="AAAA"), "bad_message", 400)
    bad.send({"op": "register", "id": 5, "kind": "memfd", "bytes": 4096}, [sealed.fd] * 129)
    refused("129 descriptors", bad.receive(), "too_many_descriptors", 413)
    counted("descriptors", 1)
    bad.send({"op": "status", "id": 6}, [sealed.fd] * 100)
    story.fact("100 that nobody asked for", bad.receive()["ok"])
    bad.send({"message_bytes": 50}, [pipe[0]])
    refused("a large message in a pipe", bad.receive(), "bad_descriptor", 422)
    bad.send({"message_bytes": 5000}, [sealed.fd])
    refused("one that is not as long as that", bad.receive(), "bad_descriptor", 422)
    bad.send({"message_bytes": 1 << 40}, [sealed.fd])
    refused("one of a terabyte", bad.receive(), "message_too_large", 413)
    for size, error in ((200 << 10, "NoSuchKey"), (300 << 10, "message_too_large")):
        large(bad, {"op": "prefetch", "bucket": "pile", "items": ["nothing" * 100] * (size // 704)})
        story.same(f"{size >> 10} KiB, where fill_list is 256", bad.receive()["error"], error)
    counted("fill_list", 2)
    well("descriptors")
    wait_for("what came is closed", lambda: len(os.listdir(f"/proc/{server.pid}/fd")) < 90)

    # ---- lists ----
    memory = Memory(1 << 20)
    b = bad.register(memory)["buffer"]

    def fills(*items, **more):
        return bad.fill(b, "pile", list(items), **more)

    refused("beyond the buffer", fills(["0", 0, 10, (1 << 20) - 9]), "bad_range", 400)
    refused("2^63 - 1 there", fills(["0", 0, 10, (1 << 63) - 1]), "bad_range", 400)
    refused("2^63 - 1 long", fills(["0", 0, (1 << 63) - 1, 0]), "bad_range", 400)
    bad.ask("fill", buffer=b, bucket="pile", items=[["0", 0, 1, 1 << 63]])
    refused("2^63 there", bad.receive(), "bad_message", 400)
    refused("below nothing", fills(["0", -1, 1, 0]), "bad_item", 400)
    refused("from 2^63 - 2", fills(["0", (1 << 63) - 2, 1, 0]), "InvalidRange", 416)
    refused("half a byte", fills(["0", 0, 1.5, 0]), "bad_item", 400)
    refused("no place", fills(["0", 0, 1]), "bad_item", 400)
    refused("no key", fills(["", 0, 1, 0]), "bad_item", 400)
    refused("a key too long", fills(["k" * 1025, 0, 1, 0]), "bad_item", 400)
    refused("two on one another", fills(["0", 0, 100, 50], ["1", 0, 100, 149]), "overlap", 400)
    refused("beyond the object", fills(["0", SIZE - 5, 6, 0]), "InvalidRange", 416)
    refused("no such key", fills(["nothing", 0, 1, 0]), "NoSuchKey", 404)
    for bucket in ("", "a", "../pile", "pile/0", "x" * 64, "arn:aws:s3:x", "_"):
        refused(f"bucket {bucket!r:.20}", bad.fill(b, bucket, [["0", 0, 1, 0]]), "InvalidBucketName", 400)
    refused("1001 items", fills(*[["0", 0, 1, i] for i in range(1001)]), "too_many_items", 413)
    counted("fill_items", 1)
    refused("a buffer of somebody else", bad.fill(mine, "pile", [["0", 0, 1, 0]]), "no_buffer", 404)
    refused("... to unregister", bad.say("unregister", buffer=mine), "no_buffer", 404)
    refused("a buffer that is none", bad.fill("00" * 16, "pile", []), "no_buffer", 404)
    refused("an id that is none", bad.fill("zz" * 16, "pile", []), "bad_message", 400)
    story.fact("nothing of all that was written", memory.untouched(1000, 1 << 20))

    # ---- too much at once ----
    refused("more than fill_user_memory", registers([Memory(64 << 20).fd], 64 << 20), "quota", 429)
    counted("fill_user_memory", 2)
    line = [line for line in server.log().splitlines() if "fill_refused" in line][-1]
    story.fact("the log says which setting it was", "fill_user_memory" in line, line)
    kept = [Memory(4096) for _ in range(3)]
    story.fact("as many buffers as fill_buffers", all(bad.register(one)["ok"] for one in kept))
    refused("one more", bad.register(sealed), "quota", 429)
    counted("fill_buffers", 1)
    origin.tell("objects=pile/slow%d 10 1000", "match=pile/slow*", "first_byte_ms=800")
    asked = [bad.ask("fill", buffer=b, bucket="pile", items=[[f"slow{i}", 0, 1000, i * 1000]])
             for i in range(4)]
    replies = [bad.reply_to(number) for number in reversed(asked)]
    refused("more lists than fill_requests", replies[0], "quota", 429)
    counted("fill_requests", 1)
    story.same("and these end well", [reply["ok"] for reply in replies[1:]], [True] * 3)
    asked = [bad.ask("fill", buffer=b, bucket="pile", items=[["slow5", 0, 1000, to]]) for to in (0, 500, 1000)]
    replies = [bad.reply_to(number) for number in asked]
    story.same("a place that another list writes to is busy, one beside it is not",
               [reply.get("error") for reply in replies], [None, "buffer_busy", None])
    number = bad.ask("fill", buffer=b, bucket="pile", items=[["slow6", 0, 1000, 0]])
    leaving = bad.ask("unregister", buffer=b)
    third = bad.ask("fill", buffer=b, bucket="pile", items=[["0", 0, 1, 5000]])
    refused("a buffer that is leaving", bad.reply_to(third), "no_buffer", 404)
    order = [bad.receive()["id"] for _ in range(2)]
    story.same("it is given back when nothing is on its way into it", order, [number, leaving])
    refused("a deadline", bad.say("prefetch", bucket="pile", items=["slow7"], deadline_ms=100), "deadline", 504)
    others = []
    while len(others) < 30:
        other = Filler(path, hello=False)
        reply = other.greet()
        if not reply or not reply["ok"]:
            break
        others.append(other)
    refused("more sessions than fill_user_sessions", reply, "quota", 429)
    counted("fill_user_sessions", 1)
    story.same("... which counts them all", len(others), 10)
    for other in others:
        other.close()
    well("too much")

    # ---- who does not take replies is cut ----
    deaf = session()
    deaf.socket.setblocking(False)
    cut = 'penstock_fill_limited_total{limit="fill_replies"}'
    sent = 0
    while sent < 200_000 and (sent % 1000 or server.metric(cut) == 0):
        try:
            deaf.socket.send(b'{"op":"status"}')
        except BlockingIOError:
            time.sleep(0.001)
        except (BrokenPipeError, ConnectionResetError):
            break
        sent += 1
    well("a deaf one")
    counted("fill_replies", 1)
    wait_for("it is logged", lambda: '"limit":"fill_replies"' in server.log().split('"fill_cut"')[-1])
    story.fact("... and logged", True)
    deaf.close()

    # ---- who changes its memory under us hurts itself ----
    holey = session()
    memory = Memory(1 << 20)
    b2 = holey.register(memory)["buffer"]
    PUNCH = 1 | 2
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    stop = time.monotonic() + 1.5
    rounds = 0

    def punch():
        while time.monotonic() < stop:
            libc.fallocate(memory.fd, PUNCH, 0, 1 << 20)
    thread = threading.Thread(target=punch)
    thread.start()
    bad_before = server.metric("penstock_store_bad_blocks_total")
    while time.monotonic() < stop:
        reply = holey.fill(b2, "pile", [[str(i % 20), 0, SIZE, i * SIZE] for i in range(10)])
        rounds += 1
    thread.join()
    story.fact("holes under a fill", rounds > 5, rounds)
    story.same("... are no bad blocks of ours", server.metric("penstock_store_bad_blocks_total"), bad_before)
    well("holes")

    # ---- long replies that nobody reads, long lists that are wrong ----
    wide = story.penstock(origin=origin.url, fill_socket=path + "wide", freshness="immutable", fill_threads="1",
                          head_time="1s")
    deaf = Filler(path + "wide")
    deaf.say("prefetch", bucket="pile", items=["0"])
    wrong = [{"key": "0", "if_match": "nothing of the kind"}] * 5000
    asked = []
    for n in range(30):
        large(deaf, {"op": "prefetch", "id": 100 + n, "bucket": "pile", "items": wrong, "on_error": "skip"})
        wait_for("it was answered", lambda: wide.metric('penstock_fill_items_total{result="failed"}') == 5000 * (n + 1))
    queued = struct.unpack("i", fcntl.ioctl(deaf.socket, termios.FIONREAD, b"1234"))[0]
    longest = len(deaf.socket.recv(1 << 18, socket.MSG_PEEK))
    story.fact("few of the long replies that nobody reads lie with the kernel", queued < 10 * longest, (queued, longest))
    story.same("all of them come", [deaf.receive()["id"] for _ in range(30)], list(range(100, 130)))
    memory2 = Memory(1 << 20)
    b3 = deaf.register(memory2)["buffer"]
    other = Filler(path + "wide")
    many = {"op": "fill", "buffer": b3, "bucket": "pile", "items": [["0", 0, -1, 0]] * 16384}
    for _ in range(8):
        large(deaf, many)
    used = ticks(wide)
    other.say("status")
    used = ticks(wide) - used
    for _ in range(8):
        story.same("items of any length in one place", deaf.receive()["error"], "overlap")
    story.fact("... hold nobody up for long: less than half a second of one core", used < 50, used)
    deaf.close()
    other.close()

    silent = [Filler(path + "wide", hello=False) for _ in range(3)]
    began = time.monotonic()
    story.fact("who says no hello is cut", all(one.receive() is None for one in silent)
               and time.monotonic() - began < PATIENCE)
    counted("head_time", 3, wide)
    cuts = [json.loads(line) for line in wide.log().splitlines() if '"fill_cut"' in line]
    story.same("... and the log says who, and why", [(cut["pid"], cut["limit"]) for cut in cuts
                                                     if cut["limit"] == "head_time"], [(os.getpid(), "head_time")] * 3)

    # ---- a fill that outlives fill_time ----
    origin.tell("match=pile/slow*", "first_byte_ms=6000")
    hasty = story.penstock(origin=origin.url, fill_socket=path + "hasty", freshness="immutable", fill_time="2s",
                           fill_threads="1", fill_gets="8", memory_fills="1MiB")
    filler = Filler(path + "hasty")
    b4 = filler.register(Memory(4096))["buffer"]
    story.same("hello says how long", filler.hello["limits"]["deadline_ms"], 2000)
    began = time.monotonic()
    refused("a fill longer than fill_time", filler.fill(b4, "pile", [["slow8", 0, 1000, 0]]), "deadline", 504)
    story.in_time("... ends then", 1.9 < time.monotonic() - began < 4, time.monotonic() - began)
    counted("fill_time", 1, hasty)
    began = time.monotonic()
    refused("... also where it asked for more", filler.fill(b4, "pile", [["slow9", 0, 1000, 0]], deadline_ms=60_000),
            "deadline", 504)
    counted("fill_time", 2, hasty)
    refused("its own deadline", filler.say("prefetch", bucket="pile", items=["slow0x"], deadline_ms=50), "deadline", 504)
    counted("fill_time", 2, hasty)
    story.fact("the session goes on", filler.fill(b4, "pile", [["0", 0, 1000, 0]])["ok"])

    # ---- lists that are under way, all together ----
    long = {"bucket": "pile", "items": [f"slow{i}" for i in range(5)] + ["0"] * 9000}
    asked = [filler.ask("prefetch", **long) for _ in range(2)]
    refused("more lists under way than memory_fills holds", filler.reply_to(asked[1]), "quota", 429)
    counted("memory_fills", 1, hasty)
    story.fact("... a long one alone is taken", hasty.metric("penstock_fill_lists_bytes") > 1 << 20)
    refused("... and goes its way", filler.reply_to(asked[0]), "deadline", 504)
    wait_for("... nothing is held after", lambda: hasty.metric("penstock_fill_lists_bytes") == 0)
    reply = filler.say("prefetch", bucket="pile", items=["0"] * 9000)    # 2 s may be too short for it
    story.fact("... and others begin", reply["ok"] or reply["error"] == "deadline", reply)

    # ---- one user's lists leave others room ----
    os.chmod(story.folder, 0o755)
    origin.tell("object=pile/stuck 100000", "match=pile/stuck", "first_byte_ms=60000")
    roomy = story.penstock(origin=origin.url, fill_socket=path + "roomy", freshness="immutable", fill_users="*",
                           fill_requests=64, memory_fills="8MiB")

    def held_by(length):
        with contextlib.closing(Filler(path + "roomy")) as one:
            one.ask("prefetch", bucket="pile", items=[["stuck", 0, length]] * 2000)
            one.say("status")
            held = roomy.metric("penstock_fill_lists_bytes")
        wait_for("nothing is held", lambda: roomy.metric("penstock_fill_lists_bytes") == 0)
        return held
    long, short = held_by(2 << 20), held_by(1000)
    story.fact("a list is counted with what it is cut into", long > short + 2000 * 200, (long, short))
    greedy, count = Filler(path + "roomy"), 4000
    while count:
        number = greedy.ask("prefetch", bucket="pile", items=["stuck"] * count)
        greedy.say("status")
        if any(one["id"] == number for one in greedy.waiting):
            refused("beyond its part", greedy.reply_to(number), "quota", 429)
            count //= 4
    held = roomy.metric("penstock_fill_lists_bytes")
    story.fact("one user's lists have about as much as they leave free", 3 << 20 < held < 5 << 20, held)
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    other = Filler(path + "roomy")
    os.seteuid(0)
    story.fact("... for another's", other.say("prefetch", bucket="pile", items=["0"] * 4000)["ok"])
    greedy.close()
    story.fact("a thread that is full passes over whose items are under way",
               hasty.metrics()['penstock_fill_limited_total{limit="fill_gets_thread"}'] >= 1)
    other = Filler(path + "wide")
    cold = [f"slow{i}" for i in range(10)]
    story.fact("200 items at once, of which 64 may be", other.say("prefetch", bucket="pile", items=cold * 20)["ok"])
    story.fact("... which is counted: fill_gets",
               wide.metrics()['penstock_fill_limited_total{limit="fill_gets"}'] >= 1)
    other.close()
    filler.close()

    # ---- out of descriptors ----
    few = story.penstock(origin=origin.url, fill_socket=path + "few", freshness="immutable")
    with contextlib.closing(Filler(path + "few")) as one:    # opens what is opened at the first use
        one.say("prefetch", bucket="pile", items=["0"])
    wait_for("its session is over", lambda: few.metric("penstock_fill_sessions") == 0)
    subprocess.run(["prlimit", "--pid", str(few.pid), f"--nofile={len(os.listdir(f'/proc/{few.pid}/fd')) + 3}"],
                   check=True)
    crowd = [Filler(path + "few", hello=False) for _ in range(12)]
    used = ticks(few)
    time.sleep(2)
    used = ticks(few) - used
    story.fact("newcomers that find no descriptor wait, and cost nothing", used < 60, used)
    for one in crowd[:-1]:
        one.close()
    story.fact("... until there is one", crowd[-1].greet()["ok"])
    crowd[-1].close()
    story.fact("... which is counted", few.metrics()['penstock_fill_limited_total{limit="open_files"}'] >= 1)

    # ---- all of it is gone ----
    for one in (bad, holey):
        one.close()
    good.say("unregister", buffer=mine)
    good.close()
    wait_for("no session is left", lambda: server.metric("penstock_fill_sessions") == 0)
    wait_for("no buffer is left", lambda: server.metric("penstock_fill_buffers") == 0)
    wait_for("no mapping is left", lambda: "memfd:filler" not in open(f"/proc/{server.pid}/maps").read())
    links = subprocess.run(["ls", "-l", f"/proc/{server.pid}/fd"], capture_output=True, text=True).stdout.split("\n")
    story.fact("no descriptor is left", not any("memfd" in link and "penstock-index-lock" not in link
                                                for link in links), links)
