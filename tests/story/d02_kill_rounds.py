"""kill -9 in the middle of everything, again and again, with two folders: never a wrong byte, all bytes
are had again, and nearly all that was stored is still there. Every second round runs with the
freshness the product has by default. Argument: rounds (10)."""
from harness import *

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
BIG, SMALL = 12 * MIB, 40_000
STORED = [(f"bucket/stored/{n:03d}", 700_000 if n % 10 == 0 else 60_000) for n in range(100)]
WORKERS = 6

with Story(f"d02 {ROUNDS} rounds of kill -9 under mixed load", seconds=60 + ROUNDS * 12) as story:
    origin = story.origin(f"objects=bucket/set/%03d 200 {SMALL}", "match=bucket/*/size-*",
                          f"bandwidth={25 * MIB}",
                          *(f"object={key} {size}" for key, size in STORED))
    server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, extent_size="4MiB",
                            cache_dirs=[{"path": story.path("a"), "size": "192MiB"},
                                        {"path": story.path("b"), "size": "128MiB"}])
    wrong, reads, under_way, writes = [], 0, 0, 0
    written = {}        # key -> bodies that may be there: the last sure one, and any unknown since
    sure = set()        # keys whose PUT was answered once: never gone again
    fetched = 0         # bytes of STORED that came from the origin after a kill
    guard, dying = threading.Lock(), threading.Event()

    def is_right(reply, want):
        """An answer is whole and right; one that the kill cut has right bytes as far as it goes."""
        if reply.error:
            return dying.is_set() and (reply.status == 0
                                       or any(w.startswith(reply.body) for w in want))
        return reply.status in (200, 206) and reply.body in want

    def judge(key, reply, want):
        global reads
        with guard:
            reads += 1
            if not is_right(reply, want):
                wrong.append(f"{key}: {reply} {same_bytes(reply.body, want[0], key)}")

    def work(number, port, stop):
        global writes
        rng = random.Random(f"{story.seed} {number} {time.monotonic()}")
        client = Client(port)
        while not stop.is_set():
            kind = rng.random()
            if kind < 0.5:
                key = f"bucket/set/{rng.randrange(200):03d}"
                first = rng.randrange(SMALL - 1)
                judge(key, client.get(key, first, SMALL - 1),
                      [expect(key, 1, first, SMALL - first)])
            elif kind < 0.85:
                key = f"bucket/{rng.randrange(8)}/size-{BIG}-x"
                first = rng.randrange(BIG - 1)
                length = min(BIG - first, rng.randrange(1, 4 * MIB))
                judge(key, client.get(key, first, first + length - 1),
                      [expect(key, 1, first, length)])
            else:
                key = f"bucket/mine/{number}-{rng.randrange(4)}"
                body = rng.randbytes(rng.randrange(1, 300_000))
                written.setdefault(key, [])
                written[key].append(body)
                reply = client.put(key, body)
                writes += 1
                if reply.status == 200 and not reply.error:
                    written[key] = [body]
                    sure.add(key)
                    judge(key, client.get(key), [body])
                elif not dying.is_set():
                    wrong.append(f"PUT {key}: {reply}")

    def read_stored():
        """Reads all that was stored before the first kill; returns the bytes that the origin sent."""
        origin.reset()
        for key, size in STORED:
            judge(key, server.get(key), [expect(key, 1, 0, size)])
        return origin.totals()["bytes"]

    story.same("the first reading fetches all of it", read_stored(), sum(size for _, size in STORED))
    wait_for("all of it is stored", lambda: read_stored() == 0)

    for round_number in range(ROUNDS):
        stop = threading.Event()
        threads = [threading.Thread(target=work, args=(n, server.port, stop), daemon=True)
                   for n in range(WORKERS)]
        for thread in threads:
            thread.start()
        time.sleep(0.3 + story.random.random() * 1.2)
        try:
            wait_for("a fill is under way", lambda: origin.totals()["requests_open"] > 0, every=0.002)
            under_way += 1
        except Wrong:
            pass
        if not server.alive():
            story.fact("it lived until it was killed", False, server.log()[-1500:])
            break
        dying.set()
        server.kill()
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
        dying.clear()
        server = server.again(freshness=("ttl", "immutable")[round_number % 2])
        fetched += read_stored()
        for key in [f"bucket/set/{story.random.randrange(200):03d}" for _ in range(40)]:
            judge(key, server.get(key), [expect(key, 1, 0, SMALL)])
        for number in range(8):
            key = f"bucket/{number}/size-{BIG}-x"
            first = story.random.randrange(BIG - MIB)
            judge(key, server.get(key, first, first + MIB - 1), [expect(key, 1, first, MIB)])
        for key, bodies in list(written.items()):
            reply = server.get(key)
            if reply.status == 404 and key not in sure:
                continue    # its only PUTs ended with a kill
            judge(key, reply, bodies)
            if reply.body in bodies:
                written[key] = [reply.body]
                sure.add(key)
        if wrong:
            break
    story.same("0 wrong answers", wrong[:3], [])
    stored = ROUNDS * sum(size for _, size in STORED)
    story.fact("at least 95 % of what was stored is still there after a kill", fetched <= stored / 20,
               f"{fetched} of {stored} bytes were fetched again")
    story.note(f"{fetched / stored * 100:.2f} % of what was stored was fetched again")
    story.fact("a fill was under way at every kill", under_way == ROUNDS,
               f"{under_way} of {ROUNDS}")
    story.note(f"{ROUNDS} kills, {reads} reads checked, {writes} writes")
