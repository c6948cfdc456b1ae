"""stall_run.py - how long a training loop waits for data (B1). SPDX-License-Identifier: Apache-2.0

The loop of tests/bench/stall.c, straight from an origin that takes 30 ms to the first byte and
gives 60 MB/s a connection, and through the subject: cold (nothing is cached), warm (everything is;
beside nginx, in turn, which serves files of the same sizes by sendfile and writes its access log; the
client signs its requests to both, as that time is the client's), and half (the cache holds half of the
data set; 24 workers, since 8 would stall on the origin either way). The case `half` has a second baseline, `ideal`: the same loop straight from an origin that
gives half of the keys without delay, as a cache that holds the right half and costs nothing. In the case
`cold-list`, a job has the list of the keys (penstock-job): it starts with the clock of the cold loop,
in the order in which the batches are read. The time includes the request that starts the job. The case
`half-follow`, the cache holds half of the data set, and each epoch has a job of mode follow with the order of that epoch; the
time includes the request that starts the job, too. The first epoch fills the cache and is not counted. The loop is that of
8 workers and batches of 16: its 8 workers read batches that lie 128 objects apart, which must be much less than the window
(32 MiB, 220 objects), and the window much less than the cache. """

import json
import os
import time

from stage import MIB, SIGN, Failed, Stage, facts, harness, in_turn, tool

BYTES_MEAN = 150000
EXTENT = 4 * MIB
WINDOW = 32 * MIB    # of half-follow
SLOW = ("first_byte_ms=30", "bandwidth=60000000")


def epoch(port, prefix, objects, seed, signed, workers=8, **loop):
    return facts(tool("stall", *(SIGN if signed else []), port=port, prefix=prefix, objects=objects,
                      shuffle=seed, workers=workers, **loop))


def put(figures, case, ours, direct):
    figures.put("stall", case, "stall", "%", [e["stall"] for e in ours], "direct",
                [e["stall"] for e in direct])
    figures.put("stall", case, "time", "ms", [e["wall_ms"] for e in ours], "direct",
                [e["wall_ms"] for e in direct])


def paths_of(prefix, objects, seed):
    """The paths of the objects that the loop reads, in its order."""
    return tool("stall", port=0, prefix=prefix, objects=objects, shuffle=seed, list=1).split()


def static_files(stage, prefix, objects):
    """nginx that has the objects as files."""
    root, block = stage.path("root"), os.urandom(MIB)
    os.makedirs(root + prefix)
    for path in paths_of(prefix, objects, 1):
        with open(root + path, "wb") as f:
            f.write(block[:int(os.path.basename(path).split("-")[1])])
    return stage.static(root)


def cold_and_warm(figures, stage, origin, objects, pairs):
    subject = stage.subject(origin, pairs * objects * BYTES_MEAN * 2 + 512 * MIB)
    files = "/bench/stall-files"
    static = static_files(stage, files, objects)
    direct, cold, warm, nginx = [], [], [], []
    for pair in range(pairs):
        prefix = f"/bench/stall-{pair}"
        straight, through = in_turn(pair,
                                    lambda p=prefix, s=pair: epoch(origin.port, p, objects, s + 1,
                                                                   False),
                                    lambda p=prefix, s=pair: epoch(subject.port, p, objects, s + 1,
                                                                   True))
        direct.append(straight)
        cold.append(through)
        time.sleep(0.5)    # the last commit
        hits, beside = in_turn(pair,
                               lambda p=prefix, s=pair: epoch(subject.port, p, objects, s + 100,
                                                              True),
                               lambda s=pair: epoch(static.port, files, objects, s + 100, True))
        warm.append(hits)
        nginx.append(beside)
    put(figures, "cold", cold, direct)
    put(figures, "warm", warm, direct)
    figures.put("stall", "warm", "stall", "%", [e["stall"] for e in warm], "nginx-sendfile", [e["stall"] for e in nginx])
    figures.put("stall", "warm-nginx", "stall", "%", [e["stall"] for e in nginx], "direct", [e["stall"] for e in direct])
    subject.stop()
    static.stop()


def start_job(port, prefix, objects, seed, **job):
    """Starts a job that brings the objects of the loop; returns how long that took, in ms."""
    paths = paths_of(prefix, objects, seed)
    bucket = prefix.split("/")[1]
    lines = "".join("\n" + json.dumps(path[len(bucket) + 2:]) for path in paths)
    began = time.monotonic()
    reply = harness.Client(port).ask("POST", bucket, query=[("penstock-job", "")], body=(json.dumps({"keys": [], **job}) + lines).encode())
    if reply.status != 202:
        raise Failed(f"no job: {reply} {reply.body.decode()}")
    return (time.monotonic() - began) * 1000


def cold_list(figures, stage, origin, objects, pairs):
    subject = stage.subject(origin, pairs * objects * BYTES_MEAN * 2 + 512 * MIB)
    direct, ours, gets = [], [], []

    def through(prefix, seed):
        before = origin.totals()["get"]
        took_ms = start_job(subject.port, prefix, objects, seed)
        done = epoch(subject.port, prefix, objects, seed, True)
        gets.append((origin.totals()["get"] - before) / objects)
        return {**done, "wall_ms": done["wall_ms"] + took_ms}

    for pair in range(pairs):
        prefix, seed = f"/bench/stall-list-{pair}", pair + 1
        straight, listed = in_turn(pair, lambda p=prefix, s=seed: epoch(origin.port, p, objects, s, False),
                                   lambda p=prefix, s=seed: through(p, s))
        direct.append(straight)
        ours.append(listed)
    put(figures, "cold-list", ours, direct)
    figures.put("stall", "cold-list", "origin_gets", "of objects", gets)
    subject.stop()


def half(figures, stage, origin, objects, pairs):
    """`ideal`: the loop straight from the origin, which gives half of the keys without delay. These are the keys with
    an even number; the loop's order is random."""
    data = objects * BYTES_MEAN
    origin.tell("match=bench/stall-ideal/*[02468]", "first_byte_ms=0", "bandwidth=0")
    subject = stage.subject(origin, data // 2 + data // 80 + 2 * EXTENT, extent_size=f"{EXTENT // MIB}MiB")
    prefix, workers = "/bench/stall-half", 24
    for seed in (1, 2):    # fills the cache, then a full cache learns who is read
        epoch(subject.port, prefix, objects, seed, True, workers)
    direct, ideal, ours, missed = [], [], [], []
    for pair in range(pairs):
        direct.append(epoch(origin.port, prefix, objects, pair + 3, False, workers))
        before = origin.totals()["get"]
        through, straight = in_turn(pair, lambda s=pair + 3: epoch(subject.port, prefix, objects, s, True, workers),
                                    lambda s=pair + 3: epoch(origin.port, "/bench/stall-ideal", objects, s, False, workers))
        ours.append(through)
        ideal.append(straight)
        missed.append((origin.totals()["get"] - before - objects) / objects)
    put(figures, "half", ours, direct)
    figures.put("stall", "half", "epoch", "ms", [e["wall_ms"] for e in ours], "ideal", [e["wall_ms"] for e in ideal])
    figures.put("stall", "half", "origin_gets", "of objects", missed)
    subject.stop()


def half_follow(figures, stage, origin, objects, pairs):
    data = objects * BYTES_MEAN
    subject = stage.subject(origin, data // 2 + data // 80 + 2 * EXTENT, extent_size=f"{EXTENT // MIB}MiB")
    prefix, loop = "/bench/stall-half-follow", {"batch": 16, "step-ms": 12}
    direct, ours, missed = [], [], []

    def through(seed):
        before = origin.totals()["get"]
        took_ms = start_job(subject.port, prefix, objects, seed, mode="follow", window=WINDOW)
        done = epoch(subject.port, prefix, objects, seed, True, **loop)
        missed.append((origin.totals()["get"] - before) / objects)
        return {**done, "wall_ms": done["wall_ms"] + took_ms}

    through(1)
    missed.clear()
    for pair in range(pairs):
        straight, followed = in_turn(pair, lambda s=pair + 3: epoch(origin.port, prefix, objects, s, False, **loop),
                                     lambda s=pair + 3: through(s))
        direct.append(straight)
        ours.append(followed)
    put(figures, "half-follow", ours, direct)
    figures.put("stall", "half-follow", "origin_gets", "of objects", missed)
    subject.stop()


def run(figures, quick, subject, chosen=(), pairs=0):
    objects, half_objects, pairs = (640, 1024, pairs or 1) if quick else (2560, 2560, pairs or 5)
    with Stage(quick, subject) as stage:
        origin = stage.origin(*SLOW)
        if not chosen or "cold" in chosen or "warm" in chosen:
            cold_and_warm(figures, stage, origin, objects, pairs)
        if not chosen or "cold-list" in chosen:
            cold_list(figures, stage, origin, objects, pairs)
        if not chosen or "half" in chosen:
            half(figures, stage, origin, half_objects, 2 * pairs)
        if not chosen or "half-follow" in chosen:
            half_follow(figures, stage, origin, half_objects, pairs)
