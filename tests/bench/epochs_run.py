"""epochs_run.py - what a cache smaller than the data set is worth. SPDX-License-Identifier: Apache-2.0

A real daemon of 64 extents of 4 MiB, in front of a scripted origin whose log tells the hits. Epochs
read each object once, in random order. f is the share of the data set that is cached after the
first epoch, by the entries of the index (sizes: by the bytes appended, with headers and padding).

  f10 ... f90   cache of 10 % to 90 % of the data set: hit_ratio beside f, epochs from the second;
                written: share of the data set that is written in an epoch, epochs from the third
  sizes         the same, objects of 20 KiB to 2 MiB
  switch        after 4 epochs, another data set: hit_ratio of its third epoch beside f
  scan          after 4 epochs, objects that are read once, ten caches full: what is written of them
                (share of the cache); then the first data set again: hit_ratio beside f
  zipf08, zipf10  skewed reads: hit_ratio of the second half beside S3-FIFO on the same reads
                (simulated, tests/policy/epoch_sim.py) """

import concurrent.futures
import math
import os
import random
import sys

from stage import MIB, Stage, note

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "policy"))
import epoch_sim

EXTENT, EXTENTS = 4 * MIB, 64
EACH = 128 * 1024
WORKERS = 4


class Subject:
    """A daemon, and the reads that go through it."""

    def __init__(self, stage, origin, cache_bytes=EXTENT * EXTENTS):
        self.origin, self.cache_bytes = origin, cache_bytes
        self.server = stage.subject(origin, cache_bytes, extent_size="4MiB")
        self.pool = concurrent.futures.ThreadPoolExecutor(WORKERS)

    def entries(self):
        return self.server.metrics()["penstock_store_entries"]

    def read(self, keys):
        """Returns the share of hits, and the bytes written meanwhile."""
        def one(key):
            reply = self.server.get(key)
            if reply.error or reply.status != 200:
                raise RuntimeError(f"{key}: {reply.status} {reply.error}")
        before = self.origin.totals()["get"], self.server.metrics()["penstock_store_appended_bytes_total"]
        for _ in self.pool.map(one, keys):
            pass
        gets = self.origin.totals()["get"] - before[0]
        written = self.server.metrics()["penstock_store_appended_bytes_total"] - before[1]
        return 1 - gets / len(keys), written

    def stop(self):
        self.pool.shutdown()
        self.server.stop()


def shuffled(keys, seed):
    keys = list(keys)
    random.Random(seed).shuffle(keys)
    return keys


def permutations(figures, stage, case, keys, total, cache_bytes, epochs):
    origin = stage.origin(*keys.lines)
    subject = Subject(stage, origin, cache_bytes)
    _, filled = subject.read(shuffled(keys, 1))
    f = filled / total if isinstance(keys, Sizes) else subject.entries() / len(keys)
    told, bytes_hit = [], []
    for n in range(epochs - 1):
        before = origin.totals()["bytes"]
        told.append(subject.read(shuffled(keys, n + 2)))
        bytes_hit.append(1 - (origin.totals()["bytes"] - before) / total)
    hits = bytes_hit if isinstance(keys, Sizes) else [hits for hits, _ in told]
    figures.put("epochs", case, "hit_ratio", "of bytes" if isinstance(keys, Sizes) else "of reads",
                hits, "f", [f] * len(told))
    figures.put("epochs", case, "written", "of the data set", [written / total for _, written in told[1:]])
    subject.stop()
    origin.stop()


class Keys(list):
    """Keys of equal size, and the origin's lines that make them."""

    def __init__(self, prefix, count, size=EACH):
        super().__init__(f"bucket/{prefix}/{number}" for number in range(count))
        self.lines = [f"objects=bucket/{prefix}/%d {count} {size}"]


class Sizes(list):
    """Log-normal sizes from 20 KiB to 2 MiB."""

    def __init__(self, count):
        order = random.Random(12)
        sizes = [int(min(2 * MIB, max(20 * 1024, order.lognormvariate(math.log(160 * 1024), 1)))) for _ in range(count)]
        super().__init__(f"bucket/{number}/size-{size}-x" for number, size in enumerate(sizes))
        self.lines, self.total = [], sum(sizes)


def equal(figures, stage, share, epochs):
    count = int(EXTENT * EXTENTS / EACH / share)
    permutations(figures, stage, f"f{share * 100:.0f}", Keys("f", count), count * EACH, EXTENT * EXTENTS, epochs)


def switch(figures, stage, count):
    first, second = Keys("a", count), Keys("b", count)
    origin = stage.origin(*first.lines, *second.lines)
    subject = Subject(stage, origin, count * EACH // 2 // MIB * MIB)
    subject.read(shuffled(first, 1))
    f = subject.entries() / count
    for n in range(3):
        subject.read(shuffled(first, n + 2))
    told = [subject.read(shuffled(second, n + 9)) for n in range(4)]
    note("switch: epochs of the second data set hit " + ", ".join(f"{hits:.3f}" for hits, _ in told))
    figures.put("epochs", "switch", "hit_ratio", "third epoch", [told[2][0]], "f", [f])
    subject.stop()
    origin.stop()


def scan(figures, stage, count):
    data, once = Keys("a", count), Keys("once", 5 * count)
    origin = stage.origin(*data.lines, *once.lines)
    subject = Subject(stage, origin, count * EACH // 2 // MIB * MIB)
    subject.read(shuffled(data, 1))
    f = subject.entries() / count
    for n in range(3):
        subject.read(shuffled(data, n + 2))
    _, written = subject.read(once)
    figures.put("epochs", "scan", "written", "of the cache", [written / subject.cache_bytes])
    back = [subject.read(shuffled(data, n + 9))[0] for n in range(2)]
    figures.put("epochs", "scan", "hit_ratio", "first epoch back", [back[0]], "f", [f])
    figures.put("epochs", "scan", "hit_ratio", "second epoch back", [back[1]], "f", [f])
    subject.stop()
    origin.stop()


def zipf(figures, stage, alpha, share, reads):
    count = int(EXTENT * EXTENTS / EACH / share)
    keys, trace = Keys("z", count), epoch_sim.zipf(count, reads, alpha)
    origin = stage.origin(*keys.lines)
    subject = Subject(stage, origin)
    subject.read([keys[k] for k in trace[:reads // 2]])
    records = subject.entries()
    hits, written = subject.read([keys[k] for k in trace[reads // 2:]])
    model = epoch_sim.replay(epoch_sim.S3FIFO, records, trace, warm=reads // 2)[0]
    case = f"zipf{alpha * 10:02.0f}-f{share * 100:02.0f}"
    figures.put("epochs", case, "hit_ratio", "of reads", [hits], "s3-fifo", [model])
    figures.put("epochs", case, "written", "bytes a byte read", [written / (reads / 2 * EACH)])
    subject.stop()
    origin.stop()


def run(figures, quick, subject):
    if subject != "penstock":
        note("epochs: only penstock")
        return
    with Stage(quick, subject) as stage:
        for share in (.5,) if quick else (.1, .25, .5, .9):
            equal(figures, stage, share, 4 if quick else 6)
        sizes = Sizes(800 if quick else 2600)
        permutations(figures, stage, "sizes", sizes, sizes.total, sizes.total // 2 // MIB * MIB, 4 if quick else 6)
        switch(figures, stage, 2048 if quick else 4096)
        scan(figures, stage, 2048 if quick else 4096)
        if not quick:
            for alpha in (.8, 1.0):
                for share in (.05, .25):
                    zipf(figures, stage, alpha, share, 200000)
