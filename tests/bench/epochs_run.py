"""epochs_run.py - what a cache smaller than the data set is worth. SPDX-License-Identifier: Apache-2.0

A real daemon with a cache of 64 extents or more, in front of a scripted origin whose counts tell the hits. An epoch
reads each part of the data set once, in random order. f is the share of the data set that is cached after the first
epoch: live bytes of the cache (penstock_store_live_bytes) over bytes of the data set. A disk that is slower than the
reads does not store all that it could; so f is measured again before each later epoch. hit_ratio is the share of the
bytes that the cache had, over f.

  f10 f25 f50 f90   objects of 128 KiB, cache of 10 % to 90 % of the data set. hit_ratio: epochs from the second.
                    written: share of the data set that is written in an epoch, epochs from the third
  sizes             the same at 50 %, objects of 20 KiB to 2 MiB, log-normal
  ranges            the same at 50 %, objects of 32 MiB that are read in ranges of 1 MiB; extents of 16 MiB
  switch            after 4 epochs, another data set of the same size. third: hit_ratio of its third epoch
  scan              after 4 epochs, objects that are read once, ten caches full. written: share of the cache that is
                    written meanwhile. Then the first data set again. back, back_second: hit_ratio of two epochs
  zipf08-f05 ...    skewed reads, alpha 0.8 and 1.0, cache of 5 % and 25 %. hit_ratio: that of the second half of
                    the reads, beside S3-FIFO on the same reads (simulated, tests/policy/epoch_sim.py)
  sizes-f10 ranges-switch ...    each case of epochs with each data set

A note says what the rule's model (tests/policy/mean_age.py) hits on the same zipf reads, and how many records were
admitted and then not stored. """

import math
import os
import random
import subprocess
import sys
import time

from stage import MIB, SIGN, Failed, Stage, facts, find_tool, note

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "policy"))
import epoch_sim  # noqa: E402
import mean_age  # noqa: E402

KIB = 1024
EXTENTS = 64
READ_SECONDS = 1800
ZIPF_READS = 25         # for each object, so that the second half has forgotten the fill


class Data:
    """A data set: the reads of an epoch, as lines of a trace; what the origin must be told; its bytes."""

    def __init__(self, reads, lines, total, extent=4 * MIB):
        self.reads, self.lines, self.total, self.extent = reads, lines, total, extent

    def epoch(self, seed):
        reads = list(self.reads)
        random.Random(seed).shuffle(reads)
        return reads


def equal(prefix, total):
    each = 128 * KIB
    count = total // each
    return Data([f"/bucket/{prefix}/{n}" for n in range(count)], [f"objects=bucket/{prefix}/%d {count} {each}"],
                count * each)


def sizes(prefix, total):
    """Log-normal sizes from 20 KiB to 2 MiB."""
    order, reads = random.Random(12), []
    while total > 0:
        size = int(min(2 * MIB, max(20 * KIB, order.lognormvariate(math.log(160 * KIB), 1))))
        reads.append((f"/bucket/{prefix}/{len(reads)}/size-{size}-x", size))
        total -= size
    return Data([read for read, _ in reads], [], sum(size for _, size in reads))


def ranges(prefix, total):
    """Large objects, in ranges of 1 MiB. An extent of 4 MiB would hold three of these."""
    each, read = 32 * MIB, MIB
    count = total // each
    reads = [f"/bucket/{prefix}/{n} {at} {at + read - 1}" for n in range(count) for at in range(0, each, read)]
    return Data(reads, [f"objects=bucket/{prefix}/%d {count} {each}"], count * each, 16 * MIB)


KINDS = {"": equal, "sizes": sizes, "ranges": ranges}


class Subject:
    """A daemon, its origin, and the reads that go through it."""

    def __init__(self, stage, share, *data):
        self.data = data[0]
        self.cache_bytes = int(self.data.total * share) // MIB * MIB
        self.origin = stage.origin(*(line for each in data for line in each.lines))
        self.server = stage.subject(self.origin, self.cache_bytes, extent_size=f"{self.data.extent // MIB}MiB")

    def fill(self):
        """The first epoch. Returns f."""
        self.read(self.data.epoch(1))
        return self.f()

    def f(self):
        time.sleep(1.5)    # the last commit, and the count of live bytes
        return self.server.metrics()["penstock_store_live_bytes"] / self.data.total

    def read(self, reads):
        """Returns the share of the bytes that the cache had, and the bytes that were written meanwhile."""
        before = self.origin.totals()["bytes"], self.written()
        trace = "\n".join(reads).encode() + b"\n"
        argv = [find_tool("replay"), *SIGN, "--port", str(self.server.port)]
        try:
            done = subprocess.run(argv, input=trace, capture_output=True, timeout=READ_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"{len(reads)} reads took longer than {READ_SECONDS} s") from None
        if done.returncode != 0:
            raise Failed(f"replay: {done.stderr.decode().strip()}")
        got = facts(done.stdout.decode())["bytes"]
        return 1 - (self.origin.totals()["bytes"] - before[0]) / got, self.written() - before[1]

    def written(self):
        return self.server.metrics()["penstock_store_appended_bytes_total"]

    def stop(self, case):
        lost = self.server.metrics()["penstock_cache_unpublished_total"]
        if lost:
            note(f"{case}: {lost:.0f} records were admitted and then not stored")
        self.server.stop()
        self.origin.stop()


# ---- cases: each puts its figures ----

def permutations(figures, stage, case, make, share, size, epochs):
    subject = Subject(stage, share, make("a", int(size / share)))
    shares, told = [subject.fill()], []
    for n in range(epochs - 1):
        told.append(subject.read(subject.data.epoch(n + 2)))
        shares.append(subject.f())
    figures.put("epochs", case, "f", "of bytes", shares[:-1])
    figures.put("epochs", case, "hit_ratio", "of f", [hits / f for (hits, _), f in zip(told, shares)])
    figures.put("epochs", case, "written", "of the data set", [written / subject.data.total for _, written in told[1:]])
    subject.stop(case)


def switch(figures, stage, case, make, share, size, _):
    first, second = make("a", int(size / share)), make("b", int(size / share))
    subject = Subject(stage, share, first, second)
    subject.fill()
    for n in range(3):
        subject.read(first.epoch(n + 2))
    f = subject.f()
    told = [subject.read(second.epoch(n + 9)) for n in range(5)]
    note(f"{case}: epochs of the second data set hit " + ", ".join(f"{hits / f:.3f} f" for hits, _ in told)
         + "; written " + ", ".join(f"{written / second.total:.3f}" for _, written in told))
    figures.put("epochs", case, "third", "of f", [told[2][0] / f])
    subject.stop(case)


def scan(figures, stage, case, make, share, size, _):
    data, once = make("a", int(size / share)), make("once", 10 * size)
    subject = Subject(stage, share, data, once)
    subject.fill()
    for n in range(3):
        subject.read(data.epoch(n + 2))
    f = subject.f()
    _, written = subject.read(once.epoch(1))
    figures.put("epochs", case, "written", "of the cache", [written / subject.cache_bytes])
    for name in ("back", "back_second"):
        figures.put("epochs", case, name, "of f", [subject.read(data.epoch(len(name)))[0] / f])
    subject.stop(case)


def model(records, data, trace, warm):
    """Hits of the rule's model on the same trace."""
    log = mean_age.Log(records, records // EXTENTS, mean_age.MeanAge(records))
    hits = [log.get(k) for k in trace]
    return sum(hits[warm:]) / (len(trace) - warm)


def zipf(figures, stage, case, alpha, share, size):
    data = equal("z", int(size / share))
    reads = ZIPF_READS * len(data.reads)
    trace = epoch_sim.zipf(len(data.reads), reads, alpha)
    subject, warm = Subject(stage, share, data), reads // 2
    subject.read([data.reads[k] for k in trace[:warm]])
    records = round(subject.f() * len(data.reads))
    hits, written = subject.read([data.reads[k] for k in trace[warm:]])
    beside = epoch_sim.replay(epoch_sim.S3FIFO, records, trace, warm=warm)[0]
    note(f"{case}: mean_age.py hits {model(records, data, trace, warm):.4f} with {records} records")
    figures.put("epochs", case, "hit_ratio", "of bytes", [hits], "s3-fifo", [beside])
    figures.put("epochs", case, "written", "bytes a byte read", [written / (warm * 128 * KIB)])
    subject.stop(case)


def cases(quick):
    """{name: function of figures and stage}"""
    size, epochs = (EXTENTS * 4 * MIB // 2, 4) if quick else (EXTENTS * 4 * MIB, 6)
    found = {}

    def add(name, case, *rest):
        found[name] = lambda figures, stage: case(figures, stage, name, *rest)

    for kind, make in KINDS.items():
        own = 4 * size if kind == "ranges" else size
        for share in (.1, .25, .5, .9):
            name = f"f{share * 100:.0f}"
            add(kind if kind and share == .5 else "-".join(filter(None, (kind, name))), permutations, make, share, own,
                epochs)
        add("-".join(filter(None, (kind, "switch"))), switch, make, .5, own, epochs)
        add("-".join(filter(None, (kind, "scan"))), scan, make, .5, own, epochs)
    for alpha in (.8, 1.0):
        for share in (.05, .25):
            add(f"zipf{alpha * 10:02.0f}-f{share * 100:02.0f}", zipf, alpha, share, size)
    return found


USUAL = ("f10", "f25", "f50", "f90", "sizes", "ranges", "switch", "scan", "zipf08-f05", "zipf08-f25", "zipf10-f05",
         "zipf10-f25")
QUICK = ("f50", "sizes", "ranges", "switch", "scan")


def run(figures, quick, subject, chosen=()):
    if subject != "penstock":
        note("epochs: only penstock")
        return
    known = cases(quick)
    for name in chosen or (QUICK if quick else USUAL):
        if name not in known:
            raise Failed(f"there is no case {name}; there are {' '.join(known)}")
        with Stage(quick, subject) as stage:
            known[name](figures, stage)
