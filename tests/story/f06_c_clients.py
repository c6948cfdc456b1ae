"""Many clients of one cold object, with clients that cost nothing: first bytes come together.
Argument: runs of each kind (4)."""
from harness import *

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 4
SIZE = 24 * MIB
# A follower's first byte after the later of its own request and the leader's first byte. If it had a request of its
# own to the origin, it would be 1,000 ms late.
LAG_MS = 250


class Seen:
    def __init__(self, line):
        words = line.split()
        self.asked, self.head, self.first, self.last = map(float, words[1:5])
        self.status, self.bytes, self.sum = int(words[5]), int(words[6]), words[7]


with Story(f"f06 C clients of one cold object, {RUNS} runs", seconds=100 + RUNS * 20) as story:
    binary = find_binary("COALESCE", "tests/bench/coalesce", "build*/tests/bench/coalesce")
    if not binary or not os.access(binary, os.X_OK):
        raise Skip("tests/bench/coalesce is not built: run make")
    origin = story.origin("first_byte_ms=1000")
    server = story.penstock(origin=origin.url, cache_size="4GiB")
    ids = iter(range(1000))

    def clients(port, key, count, signed=True, **more):
        flags = [f for name, value in {"port": port, "path": f"/{key}", "clients": count,
                                       **more}.items()
                 for f in (f"--{name.replace('_', '-')}", str(value))]
        status, out, err = run([binary, *flags, *(["--sign", f"{ACCESS_KEY}:{SECRET_KEY}"]
                                                  if signed else [])])
        check(status == 0, f"coalesce ends with {status}: {err}")
        return [Seen(line) for line in out.splitlines()]

    def cold(text, count, summed, leaver=False, **more):
        """One cold object: returns the worst lag."""
        key = f"bucket/{next(ids)}/size-{SIZE}-x"
        want = clients(origin.port, key, 1, signed=False)[0].sum if summed else "0" * 16
        origin.reset()
        seen = clients(server.port, key, count, sum=int(summed), **more)[1 if leaver else 0:]
        story.same(f"{text}: all have every byte right" if summed else f"{text}: all have it whole",
                   [(s.status, s.bytes, s.sum) for s in seen
                    if (s.status, s.bytes, s.sum) != (200, SIZE, want)][:3], [])
        counts = origin.counts(key)
        story.same(f"{text}: no byte left the origin twice",
                   (counts["bytes"], twice(counts["spans"])), (SIZE, 0))
        story.fact(f"{text}: at most one GET a unit run", counts["get"] <= SIZE // MIB,
                   counts["get"])
        begun = min(s.first for s in seen)
        return max(s.first - max(s.asked, begun) for s in seen), counts["get"]

    cold("64 at once", 64, True)
    cold("the leader leaves after 2 MiB", 64, True, leaver=True, first_leaves=2 * MIB)
    for text, count, more in (("64 at once", 64, {}), ("24, 8 ms apart", 24, {"stagger_ms": 8})):
        lags = [cold(text, count, False, **more) for _ in range(RUNS)]
        story.note(f"{text}: a follower's first byte at most {', '.join(f'{lag:.1f}' for lag, _ in lags)} ms late; "
                   f"GETs: {[gets for _, gets in lags]}")
        best = min(lag for lag, _ in lags)    # a machine with other work may be late once
        story.in_time(f"{text}: followers' first bytes within {LAG_MS} ms", best <= LAG_MS,
                      f"{best:.1f} ms")
    # The first of 24 that come 8 ms apart is alone with its request when the others come.
    origin.calm()
    origin.tell("first_byte_ms=30", f"bandwidth={50 * MIB}")
    lag, gets = cold("24, 8 ms apart, while it flows", 24, True, stagger_ms=8)
    story.note(f"24, 8 ms apart, while it flows: {lag:.1f} ms late, {gets} GETs")
