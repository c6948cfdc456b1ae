"""stall_run.py - how long a training loop waits for data (B1). SPDX-License-Identifier: Apache-2.0

The loop of tests/bench/stall.c, straight from an origin that takes 30 ms to the first byte and
gives 60 MB/s a connection, and through the subject: cold (nothing is cached), warm (everything is),
and half (the cache holds half of the data set; 24 workers, since 8 would stall on the origin either
way). """

import time

from stage import MIB, SIGN, Stage, facts, tool

BYTES_MEAN = 150000
SLOW = ("first_byte_ms=30", "bandwidth=60000000")


def epoch(port, prefix, objects, seed, signed, workers=8):
    return facts(tool("stall", *(SIGN if signed else []), port=port, prefix=prefix, objects=objects,
                      shuffle=seed, workers=workers))


def in_turn(pair, first, second):
    """Both, and which goes first changes from pair to pair; results in the order of the
    arguments."""
    if pair % 2:
        later = second()
        return first(), later
    return first(), second()


def put(figures, case, ours, direct):
    figures.put("stall", case, "stall", "%", [e["stall"] for e in ours], "direct",
                [e["stall"] for e in direct])
    figures.put("stall", case, "time", "ms", [e["wall_ms"] for e in ours], "direct",
                [e["wall_ms"] for e in direct])


def cold_and_warm(figures, stage, origin, objects, pairs):
    subject = stage.subject(origin, pairs * objects * BYTES_MEAN * 2 + 512 * MIB)
    direct, cold, warm = [], [], []
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
        warm.append(epoch(subject.port, prefix, objects, pair + 100, True))
    put(figures, "cold", cold, direct)
    put(figures, "warm", warm, direct)
    subject.stop()


def half(figures, stage, origin, objects, pairs):
    subject = stage.subject(origin, objects * BYTES_MEAN // 2)
    prefix, workers = "/bench/stall-half", 24
    epoch(subject.port, prefix, objects, 1, True, workers)
    direct, ours, missed = [], [], []
    for pair in range(pairs):
        direct.append(epoch(origin.port, prefix, objects, pair + 2, False, workers))
        before = origin.totals()["get"]
        ours.append(epoch(subject.port, prefix, objects, pair + 2, True, workers))
        missed.append((origin.totals()["get"] - before) / objects)
    put(figures, "half", ours, direct)
    figures.put("stall", "half", "origin_gets", "of objects", missed)
    subject.stop()


def run(figures, quick, subject):
    objects, half_objects, pairs = (640, 1024, 1) if quick else (2560, 2560, 5)
    with Stage(quick, subject) as stage:
        origin = stage.origin(*SLOW)
        cold_and_warm(figures, stage, origin, objects, pairs)
        half(figures, stage, origin, half_objects, pairs)
