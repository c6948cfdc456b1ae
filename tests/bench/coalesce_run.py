"""coalesce_run.py - many clients of one cold object (B5). SPDX-License-Identifier: Apache-2.0

The origin's first byte comes after 1 s. gets_per_run: how many origin GETs asked for the same run
of units (1 MiB), the worst one; 1 means no byte was asked for twice. ttfb_ms: the slowest client's
first byte, from its own request, against a client that asks the origin itself. lag_ms: the same,
from the later of its own request and the first client's first byte. Sums of the bytes are compared
in a run of their own, so that the clients' work is not measured. """

from harness import twice
from stage import Failed, MIB, SIGN, Stage, tool

OBJECT_BYTES = 8 * MIB
RUN_BYTES = MIB    # 8 units, the most a record holds


class Client:
    def __init__(self, line):
        words = line.split()
        self.asked, self.head, self.first, self.last = map(float, words[1:5])
        self.status, self.bytes, self.sum = int(words[5]), int(words[6]), words[7]


def clients(port, path, count, stagger_ms, signed, summed=0):
    text = tool("coalesce", *(SIGN if signed else []), port=port, path=path, clients=count,
                stagger_ms=stagger_ms, sum=summed)
    return [Client(line) for line in text.splitlines()]


def asked_for(spans):
    """How often the most wanted run of units was asked for."""
    runs = [0] * (OBJECT_BYTES // RUN_BYTES)
    for first, last in spans:
        for run in range(first // RUN_BYTES, min(last, OBJECT_BYTES - 1) // RUN_BYTES + 1):
            runs[run] += 1
    return max(runs)


def one(origin, subject, key, count, stagger_ms, summed=0):
    """One cold object: worst figures over the clients."""
    direct = clients(origin.port, f"/{key}", 1, 0, False, summed)[0]
    origin.reset()
    got = clients(subject.port, f"/{key}", count, stagger_ms, True, summed)
    wrong = [c for c in got if (c.bytes, c.sum) != (OBJECT_BYTES, direct.sum)]
    if wrong:
        raise Failed(f"{len(wrong)} of {count} clients got other bytes than the origin's")
    counts = origin.counts(key)
    begun = min(c.first for c in got)
    return {"gets_per_run": asked_for(counts["spans"]), "gets": counts["get"],
            "twice": twice(counts["spans"]),
            "ttfb_ms": max(c.first - c.asked for c in got),
            "direct_ttfb_ms": direct.first - direct.asked,
            "lag_ms": max(c.first - max(c.asked, begun) for c in got),
            "last_ms": max(c.last for c in got), "direct_last_ms": direct.last}


def case(figures, name, origin, subject, pairs, count, stagger_ms):
    if not stagger_ms:
        one(origin, subject, f"bench/size-{OBJECT_BYTES}-{name}-sums", count, 0, summed=1)
    runs = [one(origin, subject, f"bench/size-{OBJECT_BYTES}-{name}-{pair}", count, stagger_ms)
            for pair in range(pairs)]

    def values(metric):
        return [float(run[metric]) for run in runs]
    figures.put("coalesce", name, "gets_per_run", "gets", values("gets_per_run"))
    figures.put("coalesce", name, "gets", "gets", values("gets"))
    figures.put("coalesce", name, "bytes_twice", "bytes", values("twice"))
    figures.put("coalesce", name, "ttfb_ms", "ms", values("ttfb_ms"), "direct",
                values("direct_ttfb_ms"))
    figures.put("coalesce", name, "lag_ms", "ms", values("lag_ms"))
    figures.put("coalesce", name, "last_ms", "ms", values("last_ms"), "direct",
                values("direct_last_ms"))


def run(figures, quick, subject):
    pairs = 2 if quick else 5
    with Stage(quick, subject) as stage:
        origin = stage.origin("first_byte_ms=1000")
        server = stage.subject(origin, 1024 * MIB)
        case(figures, "64", origin, server, pairs, 64, 0)
        case(figures, "24-8ms", origin, server, pairs, 24, 8)
