"""hit.py - what a cached read costs, beside nginx sendfile (B3). SPDX-License-Identifier:
Apache-2.0

Every object is read once, in random order, each request with a signature of its own, so nothing can
be remembered instead of found. CPU is that of the server's threads, divided by the requests. A round
is nginx twice, the subject, and nginx with its open_file_cache, in random order; a ratio is the
subject against the mean of the two, the control one against the other. Penstock runs with its
defaults: as many loops as nginx has workers, an access log, freshness by ttl; nginx writes its access
log, too. `-quiet`: neither writes one. `-hot`: so few objects that they fit into the processor's
cache, each read many times. Two costs are cases of their own, each with the CPU of all threads: the access log (two loops,
beside the same build with access_log off), and the second loop (beside the same build with one loop).
With --against BINARY the subject is measured beside another build of penstock in nginx's place, with
one loop and a processor of its own. """

import os
import random
import time

from stage import Failed, GIB, MIB, SIGN, Stage, cpu_us, facts, syscalls, tool

KIB = 1024
WARM_PASSES_MAX = 20
LOOKS = 4    # of Penstock's thread `lock`, which looks once a second at what is read most


class Kind:
    def __init__(self, name, size, objects, ranges=0, range_bytes=0, requests=0):
        self.name, self.size, self.objects = name, size, objects
        self.ranges, self.range_bytes = ranges, range_bytes
        self.requests = requests      # if other than each object or range once
        self.folder = f"bench/hit-{name}"
        self.path = f"/{self.folder}/size-{size}-%05u"
        self.bytes = size * objects

    def whole(self):
        return {"path": self.path, "objects": self.objects, "bytes": self.size}

    def asked(self):
        asked = self.whole()
        if self.ranges:
            asked |= {"ranges": self.ranges, "range_bytes": self.range_bytes}
        if self.requests:
            asked |= {"requests": self.requests}
        return asked

    def make_files(self, root):
        os.makedirs(os.path.join(root, self.folder))
        block = os.urandom(min(self.size, MIB))
        for i in range(self.objects):
            with open(root + self.path % i, "wb") as f:
                for _ in range(self.size // len(block)):
                    f.write(block)


FULL = (Kind("4k", 4 * KIB, 20000), Kind("128k", 128 * KIB, 20000),
        Kind("1m", GIB, 4, ranges=6000, range_bytes=MIB),
        Kind("8m", GIB, 4, ranges=800, range_bytes=8 * MIB))
QUICK = (Kind("4k", 4 * KIB, 3000), Kind("128k", 128 * KIB, 1500),
         Kind("1m", 128 * MIB, 2, ranges=600, range_bytes=MIB),
         Kind("8m", 128 * MIB, 2, ranges=100, range_bytes=8 * MIB))
HOT = (Kind("4k-hot", 4 * KIB, 128, requests=20000), Kind("128k-hot", 128 * KIB, 128, requests=20000),
       Kind("1m-hot", MIB, 64, requests=6000), Kind("8m-hot", 8 * MIB, 64, requests=800))


def load(port, asked, seed, signed, conns=16, **more):
    flags = SIGN if signed else []
    return facts(tool("loader", *flags, cpu=1, port=port, conns=conns, shuffle=seed, **asked,
                      **more))


def measured(server, port, *how, **more):
    """One run: the loader's facts, and cpu in µs a request."""
    before = cpu_us(server.pids())
    run = load(port, *how, **more)
    run["cpu"] = (cpu_us(server.pids()) - before) / run["requests"]
    return run


def fill(kind, server, origin, pause_s):
    """Reads everything until the origin is no longer asked: what comes faster than the disk takes
    it is served, but not stored."""
    for _ in range(WARM_PASSES_MAX):
        before = origin.totals()["bytes"]
        load(server.port, kind.whole(), 0, True, conns=4 if kind.ranges else 16)
        if origin.totals()["bytes"] == before:
            break
        time.sleep(pause_s)    # what is stored goes to the disk in the background
    else:
        raise Failed(f"{kind.name}: the origin is still asked after {WARM_PASSES_MAX} passes")
    load(server.port, kind.asked(), 1, True)    # as it will be asked


def warm(kind, static, subject, origin, pause_s):
    fill(kind, subject, origin, pause_s)
    load(static.port, kind.whole(), 0, True)
    load(static.cached_port, kind.asked(), 1, True)
    for _ in range(LOOKS):    # so that all is locked that is to be locked
        load(subject.port, kind.asked(), 2, True)
        time.sleep(1)


def rounds(kind, static, subject, pairs, port=None, **more):
    """Lists of runs by who. The turns of a round come in random order: with a fixed one, 'again' and the next round's
    'nginx' are two runs of one server in a row, which finds its code and tables in the processor's cache."""
    port = port or static.port
    turns = [("nginx", static, port), ("subject", subject, subject.port), ("again", static, port)]
    if not kind.ranges and port == static.port and hasattr(static, "cached_port"):
        turns.append(("ofc", static, static.cached_port))
    runs = {name: [] for name, _, _ in [*turns, ("ofc", None, 0)]}
    for pair in range(pairs):
        for name, server, port in random.sample(turns, len(turns)):
            runs[name].append(measured(server, port, kind.asked(), pair + 2, True, **more))
    return runs


def figures_of(figures, case, runs, metric, unit, controls, baseline="nginx-sendfile"):
    def values(name):
        return [run[metric] for run in runs[name]]
    plain = [(a + b) / 2 for a, b in zip(values("nginx"), values("again"))]
    figures.put("hit", case, metric, unit, values("subject"), baseline, plain)
    if not controls:
        return
    if runs["ofc"]:
        figures.put("hit", f"{case}-ofc", metric, unit, values("subject"), "nginx-ofc",
                    values("ofc"))
    figures.put("hit", f"{case}-control", metric, unit, values("again"), baseline,
                values("nginx"))


def count_calls(figures, stage, kind, static, subject):
    requests = min(500 if kind.ranges else 2000, kind.ranges or kind.objects)
    counted = {}
    for name, server in (("nginx", static), ("subject", subject)):
        calls = syscalls(stage.folder, server.pids(),
                         lambda at=server.port: load(at, {**kind.asked(), "requests": requests},
                                                     1, True, conns=4))
        if calls is None:
            return
        counted[name] = [calls / requests]
    figures.put("hit", kind.name, "syscalls", "calls/request", counted["subject"], "nginx-sendfile",
                counted["nginx"])


def measure(figures, stage, kind, origin, static, root, pairs):
    kind.make_files(root)
    subject = stage.subject(origin, kind.bytes * 2 + 512 * MIB, freshness="ttl")
    warm(kind, static, subject, origin, 0.3 if stage.quick else 1)
    before = origin.totals()["bytes"]
    runs = rounds(kind, static, subject, pairs)
    figures_of(figures, kind.name, runs, "cpu", "us/request", True)
    figures_of(figures, kind.name, runs, "p99_us", "us", False)
    count_calls(figures, stage, kind, static, subject)
    if not kind.ranges and not kind.requests and not stage.quick:
        alone = rounds(kind, static, subject, pairs, conns=1, requests=min(2000, kind.objects))
        figures_of(figures, f"{kind.name}-1conn", alone, "cpu", "us/request", False)
        figures_of(figures, f"{kind.name}-1conn", alone, "p50_us", "us", False)
    check_origin(kind.name, origin, before)
    subject.stop()
    if kind.requests or stage.subject_name != "penstock":
        return
    quiet = stage.subject(origin, kind.bytes * 2 + 512 * MIB, folder=subject.cache_dir, freshness="ttl", access_log=False)
    warm(kind, static, quiet, origin, 0.3)
    runs = rounds(kind, static, quiet, pairs, port=static.quiet_port)
    figures_of(figures, f"{kind.name}-quiet", runs, "cpu", "us/request", True)
    check_origin(f"{kind.name}-quiet", origin, before)
    quiet.stop()


def check_origin(case, origin, before):
    if origin.totals()["bytes"] != before:
        raise Failed(f"{case}: the origin was asked for bytes while hits were measured")


def beside(figures, stage, kind, origin, pairs, case, baseline, other, subject):
    """Figures of a case: the subject, beside another penstock with a cache of its own."""
    for server in (other, subject):
        fill(kind, server, origin, 0.3 if stage.quick else 1)
    before = origin.totals()["bytes"]
    runs = rounds(kind, other, subject, pairs)
    for metric, unit in (("cpu", "us/request"), ("p50_us", "us"), ("p99_us", "us")):
        figures_of(figures, case, runs, metric, unit, metric == "cpu", baseline)
    check_origin(case, origin, before)
    return runs


def log_cost(figures, stage, kind, origin, pairs):
    """The same build twice, with and without its access log."""
    size = kind.bytes * 2 + 512 * MIB
    silent = stage.subject(origin, size, loops=2, access_log=False)
    subject = stage.subject(origin, size, loops=2)
    fill(kind, subject, origin, 0.3 if stage.quick else 1)
    before = lines_of(subject)
    runs = beside(figures, stage, kind, origin, pairs, f"{kind.name}-log", "access-log-off", silent,
                  subject)
    said, dropped = (now - then for now, then in zip(lines_of(subject), before))
    if said < sum(run["requests"] for run in runs["subject"]):
        raise Failed(f"{kind.name}: the access log has {said:.0f} lines only")
    figures.put("hit", f"{kind.name}-log", "dropped", "lines/request", [dropped / said])


def loops_cost(figures, stage, kind, origin, pairs):
    """The same build twice, with one loop and with two, on all processors."""
    size = kind.bytes * 2 + 512 * MIB
    beside(figures, stage, kind, origin, pairs, f"{kind.name}-loops", "one-loop",
           stage.subject(origin, size, loops=1), stage.subject(origin, size, loops=2))


def lines_of(server):
    figures = server.metrics()
    return figures["penstock_access_lines_total"], figures["penstock_access_lines_dropped_total"]


def against(figures, stage, kind, origin, binary, pairs):
    """Two builds of penstock."""
    size = kind.bytes * 2 + 512 * MIB
    beside(figures, stage, kind, origin, pairs, kind.name, "other-build",
           stage.subject(origin, size, cpu=0, loops=1, binary=binary),
           stage.subject(origin, size, cpu=0, loops=1))


def run(figures, quick, subject, binary=None, chosen=()):
    kinds = QUICK if quick else FULL
    if not binary and (chosen or not quick):
        kinds += HOT
    if chosen:
        kinds = [kind for kind in kinds if kind.name in chosen]
    if binary:
        for kind in kinds:
            with Stage(quick, subject) as stage:
                against(figures, stage, kind, stage.origin(), binary, 5 if quick else 15)
        return
    for cost in (log_cost, loops_cost) if subject == "penstock" and not chosen else ():
        with Stage(quick, subject) as stage:
            cost(figures, stage, (QUICK if quick else FULL)[0], stage.origin(), 5 if quick else 9)
    for kind in kinds:
        with Stage(quick, subject) as stage:
            root = stage.path("root")
            os.makedirs(root)
            origin, static = stage.origin(), stage.static(root)
            measure(figures, stage, kind, origin, static, root, 3 if quick else 9)
