#!/usr/bin/env python3
"""make_decisions.py - the decisions of mean_age.py on eight traces, hashed. SPDX-License-Identifier: Apache-2.0

    python3 tests/policy/make_decisions.py >tests/vectors/mean_age.txt              (a minute and a half)
    python3 tests/policy/make_decisions.py --touches 100000 --check tests/vectors/mean_age.txt

A trace is a line "trace NAME", then eight hex digits for each 1,000 touches: the low bits of a hash of all decisions
up to there. A shorter run writes the first digits of a longer one. --check compares, and says where they differ.
tests/unit/test_store_mean_age.c has the same traces.
"""
import argparse
import struct
import sys
from bisect import bisect_right

from mean_age import MASK, Log, MeanAge, mix

TOUCHES = 1_000_000
PIECE = 1000            # touches for each hash that is written
OBJECTS = 20_000
SHARD = 64
ONCE = 10 * OBJECTS     # keys from here on are touched once
HIT, REFUSED, STORED = 1, 2, 3


class Random:
    """The same numbers in Python and C."""

    def __init__(self, seed):
        self.next = seed << 32

    def draw(self):
        self.next += 1
        return mix(self.next)

    def below(self, limit):
        return (self.draw() >> 32) * limit >> 32


def shuffle(random, keys, count=None):
    """The first `count` of the keys."""
    for i in range((count or len(keys)) - 1, 0, -1):
        j = random.below(i + 1)
        keys[i], keys[j] = keys[j], keys[i]


def permutation():
    random, keys = Random(1), list(range(OBJECTS))
    while True:
        shuffle(random, keys)
        yield from keys


def shards():
    """Shards in random order, the keys of a shard in order."""
    random, order = Random(2), list(range(OBJECTS // SHARD))
    while True:
        shuffle(random, order)
        for shard in order:
            yield from range(shard * SHARD, (shard + 1) * SHARD)


def switch():
    """Another data set after each five epochs."""
    random, keys, epoch = Random(3), list(range(OBJECTS)), 0
    while True:
        shuffle(random, keys)
        first = epoch // 5 * OBJECTS
        yield from (first + key for key in keys)
        epoch += 1


def zipf():
    """Independent requests; another order of popularity after half of the touches."""
    random, sums, total = Random(4), [], 0.0
    for i in range(OBJECTS):
        total += 1.0 / (i + 1)
        sums.append(total)
    for i in range(TOUCHES):
        key = min(OBJECTS - 1, bisect_right(sums, (random.draw() >> 11) * 2.0 ** -53 * total))
        yield key if i < TOUCHES // 2 else OBJECTS - 1 - key


def one_shot():
    """Epochs in random order; every tenth touch or so is of a key that never comes again."""
    random, keys, once = Random(5), list(range(OBJECTS)), ONCE
    while True:
        shuffle(random, keys)
        for key in keys:
            yield key
            if random.below(10) == 0:
                yield once
                once += 1


def shrinking():
    """Five epochs of all objects, a hundred of every twentieth, and so on."""
    random, keys, touched = Random(6), list(range(OBJECTS)), 0
    while True:
        count = OBJECTS if touched // 100_000 % 2 == 0 else OBJECTS // 20
        shuffle(random, keys, count)
        yield from keys[:count]
        touched += count


def purge(log):
    for key in sorted(log.where):
        if mix(key) >> 8 & 3 == 0:
            log.remove(key)


def pinned(key):
    return mix(key) >> 16 & 7 == 0


# name, trace, share of the objects that the cache holds, records in an extent, pins, {touch: event}
TRACES = [
    ('permutation', permutation, 0.5, 40, None, {}),
    ('shards', shards, 0.25, 8, None, {}),
    ('switch', switch, 0.5, 125, None, {}),
    ('zipf', zipf, 0.05, 40, None, {}),
    ('one_shot', one_shot, 0.5, 40, None, {}),
    ('shrinking', shrinking, 0.25, 40, None, {}),
    ('purges', switch, 0.25, 40, pinned, {i: purge for i in range(70_000, TOUCHES, 130_000)}),
    ('restarts', zipf, 0.25, 40, None, {i: Log.lose for i in range(60_000, TOUCHES, 300_000)}),
]


class Recorder(Log):
    """A log that hashes what it decides."""

    chain = 0

    def note(self, value):
        self.chain = (self.chain * 0x100000001b3 ^ value) & MASK

    def sweep(self):
        self.note(self.policy.sweep(self.sealed, self.open))
        self.note(self.policy.moved)

    def recycle(self, why):
        before, sealed = self.copied, list(self.sealed)
        recycled = super().recycle(why)
        if recycled:
            gone = set(sealed) - set(self.sealed)
            self.note(next(i for i, extent in enumerate(sealed) if extent in gone))
            self.note(int(self.policy.cut))
            self.note(self.copied - before)
        return recycled

    def make_room(self, key, size, why):
        self.note(('no', 'yes', 'any', 'hot').index(why))
        before = self.admitted
        super().make_room(key, size, why)
        self.note(STORED if self.admitted > before else REFUSED)

    def get(self, key):
        hit = super().get(key)
        if hit:
            self.note(HIT)
        return hit

    def note_sampler(self):
        sampler = self.policy.sampler
        for number in (sampler.m1, sampler.m2, sampler.L or 0.0, sampler.novelty):
            self.note(struct.unpack('<Q', struct.pack('<d', number))[0])
        for number in (sampler.rate - 1, len(sampler.seen), self.policy.tick, len(self.where)):
            self.note(number)


def decisions(trace, share, records, pins, events, touches):
    """-> the hash after each 1,000 touches"""
    budget = int(share * OBJECTS)
    log = Recorder(budget, records, MeanAge(budget), pinned=pins or (lambda key: False))
    for i, key in zip(range(touches), trace()):
        if i in events:
            events[i](log)
        log.get(key)
        if (i + 1) % PIECE == 0:
            log.note_sampler()
            yield '%08x' % (log.chain & 0xffffffff)


def read(path):
    written, name = {}, None
    for line in open(path):
        words = line.split()
        if words and words[0] == 'trace':
            name = words[1]
            written[name] = []
        elif words and words[0] != '#':
            written[name] += words
    return written


def compare(path, touches):
    written, wrong = read(path), 0
    for name, *rest in TRACES:
        made = list(decisions(*rest, touches))
        differs = [i for i, (a, b) in enumerate(zip(made, written[name])) if a != b]
        if differs or len(written[name]) < len(made):
            wrong += 1
            print('WRONG %s: other decisions than in %s from touch %d on'
                  % (name, path, (differs or [len(written[name])])[0] * PIECE))
        else:
            print('ok %s: %d touches' % (name, touches))
    return wrong


def write(touches):
    print('# mean_age.txt - made by tests/policy/make_decisions.py')
    for name, *rest in TRACES:
        print('trace', name)
        made = list(decisions(*rest, touches))
        for i in range(0, len(made), 10):
            print(' '.join(made[i:i + 10]))


def main():
    options = argparse.ArgumentParser()
    options.add_argument('--touches', type=int, default=TOUCHES)
    options.add_argument('--check', metavar='FILE')
    given = options.parse_args()
    if given.check:
        sys.exit(compare(given.check, given.touches) != 0)
    write(given.touches)


if __name__ == '__main__':
    main()
