"""tail_run.py - slow answers of an origin, and hedged requests (B7). SPDX-License-Identifier: Apache-2.0

An origin takes 30 ms to the first byte, and 300 ms for 2 % of its answers. Clients read objects that are not cached,
through a daemon that sends late requests a second time, and through the same daemon with `hedged_requests` off, in
turn. hedged p99: the 99th percentile of the clients' times to the last byte.
hedged gets: the GETs at the origin. hedged p50: the median.
"""

import shutil
import threading
import time

from harness import Client, expect
from stage import MIB, Failed, Stage, note

SLOW = ("first_byte_ms=30", "tail_ppm=20000", "tail_factor=10")
CLIENTS, SIZE, WARM = 8, 20000, 200    # WARM: reads before the measured ones, so that the times are known


def read(server, place, count):
    """The times of so many reads, in seconds."""
    turns, times = iter(range(count)), []

    def reads():
        client = Client(server.port, keep=True)
        for turn in turns:
            key, began = f"bench/{place}-{turn}/size-{SIZE}-x", time.monotonic()
            reply = client.get(key)
            times.append(time.monotonic() - began)
            if reply.error or reply.body != expect(key, 1, 0, SIZE):
                raise Failed(f"{key}: {reply}")
    readers = [threading.Thread(target=reads) for _ in range(CLIENTS)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    if len(times) != count:
        raise Failed(f"{len(times)} of {count} reads ended")
    return sorted(times)


def one(stage, origin, number, reads, hedges):
    server = stage.subject(origin, 256 * MIB, hedged_requests=hedges)
    place = f"{number}-{hedges}"
    read(server, f"warm-{place}", WARM)
    origin.reset()
    times = read(server, place, reads)
    gets = origin.counts()["get"]
    server.stop()
    shutil.rmtree(server.settings["cache_dir"], ignore_errors=True)
    return {"p50": times[reads // 2] * 1e3, "p99": times[reads * 99 // 100] * 1e3, "gets": gets / reads}


def run(figures, quick, subject):
    if subject != "penstock":
        note("tail: nginx has no hedged requests")
        return
    reads, pairs = (1000, 3) if quick else (3000, 9)
    with Stage(quick, subject) as stage:
        origin = stage.origin(*SLOW)
        both = [(one(stage, origin, n, reads, True), one(stage, origin, n, reads, False)) for n in range(pairs)]
        for metric, unit in (("p99", "ms"), ("p50", "ms"), ("gets", "a read")):
            figures.put("tail", "20k", f"hedged {metric}", unit, [on[metric] for on, _ in both], "not hedged",
                        [off[metric] for _, off in both])
