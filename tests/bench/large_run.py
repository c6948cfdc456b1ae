"""large_run.py - one large object that is not cached (B7). SPDX-License-Identifier: Apache-2.0

One client GETs an object through the subject, from an origin that takes 30 ms to the first byte and gives 20 MB/s a
connection. The baselines are clients straight at the origin: eight that GET an eighth of the object each (throughput),
and one that GETs all of it (first byte). `stored`: the cache has room for the object; `unstored`: the store takes
none of it. origin_bytes: bytes that the origin sent, as a ratio to the object's size.

`ranges`: one client GETs the object in ranges of 8 MiB, one after the other over one connection, as model streamers do
at concurrency 1. The baseline is the same client straight at the origin (epoch).

`runai-1` and `runai-16`: Run:ai Model Streamer loads a model of 2 GiB in four safetensors shards, with 1 and with 16
requests at once. Its version 0.17 has more than 20 in flight for each of its workers (RUNAI_STREAMER_CONCURRENCY); so
the cases have one worker, and limit its bytes in flight. The baseline is the same load straight from the origin,
before or after it in turn (epoch). For 16 requests, all connections of the origin together give 200 MB/s. The time of
a load begins with the first request and ends with the last byte. Each tensor is compared with the model by its
SHA-256.
"""

import http.client
import json
import os
import shutil
import subprocess
import time

import model
from harness import presign
from stage import ACCESS_KEY, MIB, ROOT, SECRET_KEY, Failed, Stage, in_turn, note

SLOW = ("first_byte_ms=30", "bandwidth=20000000")
CAPPED = (*SLOW, "bandwidth_all=200000000")
CONNECTIONS = 8
SHARDS = 4
CHUNK_MIB = 8    # of a request of Run:ai Model Streamer
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


def load(port, keys, at_once, sums):
    """Seconds in which Run:ai Model Streamer loads the shards, all of whose tensors must have these SHA-256 sums."""
    env = {**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": ACCESS_KEY,
           "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
           "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0", "RUNAI_STREAMER_CONCURRENCY": "1",
           "RUNAI_STREAMER_S3_MAX_INFLIGHT_MIB": str(at_once * CHUNK_MIB)}
    done = subprocess.run([model.streamer(), os.path.join(ROOT, "tests", "clients", "by_runai.py"), "load"], env=env,
                          input=json.dumps({"paths": [f"s3://{key}" for key in keys]}), capture_output=True, text=True,
                          timeout=600)
    if done.returncode != 0:
        raise Failed(f"Run:ai Model Streamer ended with {done.returncode}: {done.stderr[-500:]}")
    told = json.loads(done.stdout)
    if told["sums"] != sums:
        raise Failed("Run:ai Model Streamer got wrong bytes")
    return told["s"]


def loads(stage, origin, keys, sums, size, at_once, turn):
    """One load through a subject that is new, and one straight from the origin."""
    def through():
        subject = stage.subject(origin, 3 * size)
        before = origin.totals()["bytes"]
        took = load(subject.port, keys, at_once, sums)
        subject.stop()
        sent = origin.totals()["bytes"] - before
        shutil.rmtree(subject.settings["cache_dir"], ignore_errors=True)
        return took, sent / size
    direct, (ours, sent) = in_turn(turn, lambda: load(origin.port, keys, at_once, sums), through)
    return {"ours": ours, "direct": direct, "sent": sent}


def models(figures, stage, size, turns):
    """Loads of a model of `size` bytes. turns: {requests at once: number of pairs}."""
    shards = model.write(stage.path("model"), SHARDS, size // SHARDS)
    keys = [f"bench/model/{n}" for n in range(SHARDS)]
    origin = stage.origin(*(f"file={key} {path}" for key, (path, _) in zip(keys, shards)))
    for at_once, pairs in turns.items():
        origin.tell("reset=rules", *(SLOW if at_once == 1 else CAPPED))
        all_of = [loads(stage, origin, keys, [sums for _, sums in shards], size, at_once, n) for n in range(pairs)]
        put_epoch(figures, f"runai-{at_once}", all_of)


def put_epoch(figures, label, all_of):
    figures.put("large", label, "epoch", "s", [one["ours"] for one in all_of], "direct",
                [one["direct"] for one in all_of])
    figures.put("large", label, "origin_bytes", "of size", [one["sent"] for one in all_of])


def whole_objects(figures, stage, origin, size, pairs, cases):
    for case, settings in cases.items():
        all_of = [pair(stage, origin, f"bench/{n}", size, **settings) for n in range(pairs)]
        label = f"{'1g' if size == 1024 * MIB else f'{size // MIB}m'} {case}"
        figures.put("large", label, "throughput", "MB/s", [one["mbs"] for one in all_of], "eight connections",
                    [one["eight_mbs"] for one in all_of])
        figures.put("large", label, "ttfb", "ms", [one["ttfb_ms"] for one in all_of], "one connection",
                    [one["alone_ms"] for one in all_of])
        figures.put("large", label, "origin_bytes", "of size", [one["sent"] for one in all_of])


def objects_in_ranges(figures, stage, origin, size, pairs):
    origin.tell(f"objects=bench/part-%d {pairs} {size}")
    all_of = [ranges(stage, origin, f"bench/part-{n}", size) for n in range(pairs)]
    put_epoch(figures, f"{size // MIB}m ranges", all_of)


def run(figures, quick, subject, chosen=(), pairs=0):
    """pairs: how many; without it, 9, or 3 where a pair takes minutes."""
    size = 128 * MIB if quick else 1024 * MIB
    few, many = pairs or 3, pairs or (3 if quick else 9)
    cases = {"stored": {}, "unstored": {"buckets": {"bench": {"admit": "never"}}}}
    if subject != "penstock":
        del cases["unstored"]

    def wanted(case):
        return not chosen or case in chosen
    with Stage(quick, subject) as stage:
        origin = stage.origin(f"objects=bench/%d 100 {size}", *SLOW)
        whole_objects(figures, stage, origin, size, many, {case: how for case, how in cases.items() if wanted(case)})
        if wanted("ranges"):
            objects_in_ranges(figures, stage, origin, size // (4 if quick else 8), many)
        turns = {at_once: count for at_once, count in ((1, few), (16, many)) if wanted(f"runai-{at_once}")}
        if turns and model.streamer():
            models(figures, stage, 2 * size, turns)
        elif turns:
            note("Run:ai Model Streamer is not installed (scripts/tools all): no models are loaded")
