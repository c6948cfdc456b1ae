"""cold_run.py - what is read from the disk, and no memory holds (B10). SPDX-License-Identifier:
Apache-2.0

Our store, verifying what it reads, beside a bare O_DIRECT reader of the same extent files with as
many reads under way, in one process and in turn; the page cache of those files is dropped before
each. `packed`: objects of 4 KiB in batches of 256 that came together, asked for at once, against
the bare reader's megabytes of the same rows; `one by one`: against the same objects read each by
itself. """

from harness import KIB
from stage import MIB, Stage, facts, note, tool

CASES = (    # name, flags; quick runs have a quarter of the objects
    ("128k", {"bytes": 128 * KIB, "objects": 8000, "reads": 6000}),
    ("1m", {"bytes": MIB, "objects": 1200, "reads": 1000}),
    ("4k packed", {"bytes": 4 * KIB, "objects": 100000, "reads": 80000, "batch": 256}),
    ("4k one by one", {"bytes": 4 * KIB, "objects": 100000, "reads": 80000, "batch": 256,
                       "each": 1}),
)


def run(figures, quick, subject):
    if subject != "penstock":
        note("cold: nginx has no such path")
        return
    with Stage(quick, subject) as stage:
        for engine in ("uring", "threads"):
            for name, flags in CASES:
                told = {**flags, "engine": engine, "pairs": 3 if quick else 7}
                if quick:
                    told.update(objects=flags["objects"] // 4, reads=flags["reads"] // 4)
                folder = f"{stage.folder}/cold-{flags['bytes']}"
                pairs = [facts(line) for line in tool("cold", folder=folder, **told).splitlines()]
                figures.put("cold", f"{name}, {engine}", "read", "MB/s",
                            [p["ours_mbs"] for p in pairs], "bare", [p["bare_mbs"] for p in pairs])
