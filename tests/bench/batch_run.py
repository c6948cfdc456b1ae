"""batch_run.py - many small objects in one answer (B4). SPDX-License-Identifier: Apache-2.0

K objects by K GETs, one after another on one connection, and by one batch GET in frames on the
same: what an object takes, warm. break_even: the fewest items, of those measured, at which the
batch is the faster. """

import statistics

from harness import KIB
from stage import GIB, MIB, SIGN, Stage, facts, note, tool

SIZES = (("4k", 4 * KIB, 2000), ("16k", 16 * KIB, 2000), ("128k", 128 * KIB, 1000), ("1m", MIB, 256))
COUNTS = (1, 2, 4, 8, 64, 256, 1000)


def rounds_of(port, name, size, objects, items, rounds):
    lines = tool("batch", *SIGN, port=port, bucket="bench", prefix=f"{name}-", bytes=size,
                 objects=objects, items=items, rounds=rounds).splitlines()
    return [facts(line) for line in lines[1:]]    # the first warms what it needs


def run(figures, quick, subject):
    if subject != "penstock":
        note("batch: there is nothing like it in nginx")
        return
    counts = (1, 8, 256) if quick else COUNTS
    with Stage(quick, subject) as stage:
        origin = stage.origin(*(f"objects=bench/{name}-%06d {objects} {size}"
                                for name, size, objects in SIZES))
        server = stage.subject(origin, 4 * GIB)
        for name, size, objects in SIZES:
            rounds_of(server.port, name, size, objects, objects // 4, 5)    # fills the cache
            origin.quiet()
            even = None
            for items in counts:
                if items > objects:
                    continue
                rounds = 1 + min(40 if quick else 100, max(6, (64 * MIB if quick else 512 * MIB) // (size * items)))
                got = rounds_of(server.port, name, size, objects, items, rounds)
                ours, gets = [r["batch_us"] for r in got], [r["gets_us"] for r in got]
                figures.put("batch", f"{name} x {items}", "time", "us/object", ours, "GETs", gets)
                if even is None and statistics.median(ours) < statistics.median(gets):
                    even = items
            figures.put("batch", name, "break_even", "items", [even or float("nan")])
