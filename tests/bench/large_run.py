"""large_run.py - one large object that is not cached (B7). SPDX-License-Identifier: Apache-2.0

One client GETs an object through the subject, from an origin that takes 30 ms to the first byte and gives 20 MB/s a
connection. The baselines are clients straight at the origin: eight that GET an eighth of the object each (throughput),
and one that GETs all of it (first byte). `stored`: the cache has room for the object; `unstored`: the store takes
none of it. origin_bytes: bytes that the origin sent, as a ratio to the object's size.

`ranges`: one client GETs the object in ranges of 8 MiB, one after the other over one connection, as model streamers do
at concurrency 1. The baseline is the same client straight at the origin (epoch).
"""

import http.client
import shutil
import subprocess
import time

from harness import presign
from stage import ACCESS_KEY, MIB, SECRET_KEY, Failed, Stage

SLOW = ("first_byte_ms=30", "bandwidth=20000000")
CONNECTIONS = 8
FORMAT = "%{time_starttransfer} %{time_total} %{size_download} %{http_code}"


def begin(url, first=None, last=None):
    span = ["-r", f"{first}-{last}"] if first is not None else []
    return subprocess.Popen(["curl", "-sS", "-o", "/dev/null", "-w", FORMAT, *span, url],
                            stdout=subprocess.PIPE, text=True)


def ended(reader, size):
    """The times to the first and the last byte, in seconds."""
    first, total, got, status = reader.communicate(timeout=240)[0].split()
    if int(got) != size or status not in ("200", "206"):
        raise Failed(f"a client got {got} of {size} bytes, status {status}")
    return float(first), float(total)


def split(url, size):
    """All bytes over CONNECTIONS connections: the time until the last ends."""
    part = size // CONNECTIONS
    readers = [begin(url, i * part, (i + 1) * part - 1) for i in range(CONNECTIONS)]
    return max(ended(reader, part)[1] for reader in readers)


def pair(stage, origin, key, size, **settings):
    """One read through a subject that is new, between its baselines."""
    subject = stage.subject(origin, 3 * size, **settings)
    direct = f"http://127.0.0.1:{origin.port}/{key}"
    target = presign("GET", f"127.0.0.1:{subject.port}", f"/{key}", ACCESS_KEY, SECRET_KEY)
    eight = split(direct, size)
    alone = ended(begin(direct), size)[0] if size <= 64 * MIB else ended(begin(direct, 0, MIB - 1), MIB)[0]
    before = origin.totals()["bytes"]
    first, total = ended(begin(f"http://127.0.0.1:{subject.port}{target}"), size)
    subject.stop()    # what is on its way has been counted then
    sent = origin.totals()["bytes"] - before
    shutil.rmtree(subject.settings["cache_dir"], ignore_errors=True)
    return {"mbs": size / 1e6 / total, "eight_mbs": size / 1e6 / eight, "ttfb_ms": first * 1e3, "alone_ms": alone * 1e3,
            "sent": sent / size}


def in_ranges(port, target, size):
    """Seconds to read all of it in ranges of 8 MiB."""
    link = http.client.HTTPConnection("127.0.0.1", port)
    buffer, began = bytearray(8 * MIB), time.monotonic()
    for first in range(0, size, 8 * MIB):
        link.request("GET", target, headers={"Range": f"bytes={first}-{min(first + 8 * MIB, size) - 1}"})
        answer = link.getresponse()
        want = min(8 * MIB, size - first)
        got = sum(iter(lambda: answer.readinto(memoryview(buffer)), 0))
        if answer.status != 206 or got != want:
            raise Failed(f"a range got {got} of {want} bytes, status {answer.status}")
    link.close()
    return time.monotonic() - began


def ranges(stage, origin, key, size):
    subject = stage.subject(origin, 3 * size)
    target = presign("GET", f"127.0.0.1:{subject.port}", f"/{key}", ACCESS_KEY, SECRET_KEY)
    direct = in_ranges(origin.port, f"/{key}", size)
    before = origin.totals()["bytes"]
    ours = in_ranges(subject.port, target, size)
    subject.stop()
    sent = origin.totals()["bytes"] - before
    shutil.rmtree(subject.settings["cache_dir"], ignore_errors=True)
    return {"ours": ours, "direct": direct, "sent": sent / size}


def run(figures, quick, subject):
    size, pairs = (128 * MIB, 3) if quick else (1024 * MIB, 9)
    name = "128m" if quick else "1g"
    with Stage(quick, subject) as stage:
        origin = stage.origin(f"objects=bench/%d 100 {size}", *SLOW)
        cases = {"stored": {}, "unstored": {"buckets": {"bench": {"admit": "never"}}}}
        for case, settings in cases.items() if subject == "penstock" else [("stored", {})]:
            all_of = [pair(stage, origin, f"bench/{n}", size, **settings) for n in range(pairs)]
            label = f"{name} {case}"
            figures.put("large", label, "throughput", "MB/s", [one["mbs"] for one in all_of], "eight connections",
                        [one["eight_mbs"] for one in all_of])
            figures.put("large", label, "ttfb", "ms", [one["ttfb_ms"] for one in all_of], "one connection",
                        [one["alone_ms"] for one in all_of])
            figures.put("large", label, "origin_bytes", "of size", [one["sent"] for one in all_of])
        part = size // (4 if quick else 8)
        origin.tell(f"objects=bench/part-%d {pairs} {part}")
        all_of = [ranges(stage, origin, f"bench/part-{n}", part) for n in range(pairs)]
        label = f"{part // MIB}m ranges"
        figures.put("large", label, "epoch", "s", [one["ours"] for one in all_of], "direct",
                    [one["direct"] for one in all_of])
        figures.put("large", label, "origin_bytes", "of size", [one["sent"] for one in all_of])
