#!/usr/bin/env python3
"""mean_age.py - admission and eviction by mean age, on a log of extents. SPDX-License-Identifier: Apache-2.0

The model of src/store/mean_age.c, sampler.c and ghost.c: tests/unit/test_store_mean_age.c replays the traces of
make_decisions.py and makes each decision that this file makes. So every constant, and every operation on a
floating point number with its order, stands here and there.

Space comes back a whole extent at a time; the records worth keeping are copied forward. Time is a number of touches
of records, never seconds. Its unit is L, the mean reuse interval that a random moment falls into: the sum of the
squared intervals over their sum, 1.17 epochs in random order and 1 in the same order. A tick is L/16.
"""
from collections import OrderedDict

TICKS = 16              # ticks in L: the resolution of a stamp
CAP = 6 * TICKS         # ages are counted up to this, so a stamp fits a byte; a dead record counts as that old
FADED = 1.8 * TICKS     # an extent whose mean age passes this is recycled for anybody
MOVED = 1.0 * TICKS     # the working set has moved when the mean age of all records passes this ...
STALE = 1.25 * TICKS    # ... then this takes the place of FADED, until few extents (FEW) are above it
FEW = 1 / 8
KEEP = 0.875 * TICKS    # records touched within this are copied forward (twice this, if that is most of them)
GAP = TICKS * 3 // 8    # the run of a refused key ends when its mean gap passes this many ticks
GHOSTS = 2              # ghost entries for each record that the cache can hold
WAYS = 16               # entries in a bucket of the ghost
TAGS = 32767            # tags of these entries
NOVEL = 0.75            # nothing is recycled for anybody while more of the sampled touches are first touches
SAMPLE = 1024           # keys in the sampler
BURST = 16              # touches closer than the cache's records over this count as one in the sampler
REACH = 8               # the sampler forgets keys that are older than this many L
WINDOW = 8              # the share of first touches is a mean over the sampler's keys over this

MASK = (1 << 64) - 1


def mix(key):
    """splitmix64: the hash of a key. One to one, so that a hash stands for its key."""
    k = (key + 0x9E3779B97F4A7C15) & MASK
    k = (k ^ k >> 30) * 0xBF58476D1CE4E5B9 & MASK
    k = (k ^ k >> 27) * 0x94D049BB133111EB & MASK
    return k ^ k >> 31


def is_hot(gaps, took):
    """`took` in ticks. A short run must be a fast one: 3 gaps in 3 ticks, 4 in 6, ... 13 in 78."""
    return gaps > 0 and took <= gaps * (gaps - 1) / 2


class ExactGhost:
    """Runs of refused keys: (last, took, gaps). The key that was touched longest ago leaves when it is full."""

    def __init__(self, records):
        self.capacity, self.runs = max(16, int(GHOSTS * records)), OrderedDict()

    def take(self, hash_):
        return self.runs.pop(hash_, None)

    def put(self, hash_, last, took, gaps):
        self.runs[hash_] = last, took, gaps
        if len(self.runs) > self.capacity:
            self.runs.popitem(last=False)


class BucketGhost:
    """The ghost as C has it: a bucket is one cache line with 16 entries of 4 bytes, the key of the last touch first.

    An entry has 15 bits of the hash, so a key may find a stranger's run (0.05 % of the look-ups in full buckets)."""

    def __init__(self, records):
        self.buckets = [[] for _ in range((max(16, int(GHOSTS * records)) + WAYS - 1) // WAYS)]

    def find(self, hash_):
        return self.buckets[(hash_ >> 32) * len(self.buckets) >> 32], 1 + (hash_ & 0xffffffff) % TAGS

    def take(self, hash_):
        bucket, tag = self.find(hash_)
        for i, entry in enumerate(bucket):
            if entry[0] == tag:
                return bucket.pop(i)[1:]
        return None

    def put(self, hash_, last, took, gaps):
        bucket, tag = self.find(hash_)
        bucket.insert(0, (tag, last & 255, took, gaps))
        del bucket[WAYS:]


class Sampler:
    """Reuse intervals of a hash sample of all keys, hit or not. `seen` is in the order of the last touch."""

    def __init__(self, cap=SAMPLE, rate=1, fixed=False):
        self.cap, self.rate, self.fixed, self.seen, self.burst = cap, rate, fixed, OrderedDict(), 0
        self.m1 = self.m2 = 0.0    # running means of the intervals and of their squares
        self.events, self.novelty, self.L = 0, 1.0, None

    def touch(self, hash_, now):
        if hash_ % self.rate:
            return
        before = self.seen.get(hash_)
        if before is not None and now - before <= self.burst:
            return
        self.seen.pop(hash_, None)
        others = max(1, len(self.seen))
        self.novelty += ((before is None) - self.novelty) * min(1, WINDOW / others)
        if before is not None:
            self.learn(now - before, others)
        self.seen[hash_] = now
        while self.L and now - self.seen[next(iter(self.seen))] > REACH * self.L:
            self.seen.popitem(last=False)
        if not self.fixed:
            self.adapt()

    def learn(self, gap, others):
        self.events += 1
        weight = max(1 / others, 1 / self.events)
        self.m1 += weight * (gap - self.m1)
        self.m2 += weight * (gap * gap - self.m2)
        if self.L or self.events > others / 2:    # unknown until half of the keys have come back
            self.L = self.m2 / self.m1

    def adapt(self):
        """Halves the rate when the table is full, doubles it when the table is nearly empty."""
        while len(self.seen) > self.cap:
            self.rate *= 2
            for hash_ in [hash_ for hash_ in self.seen if hash_ % self.rate]:
                del self.seen[hash_]
        if self.rate > 1 and len(self.seen) < self.cap / 8 and self.events > self.cap:
            self.rate //= 2
            self.events = self.cap // 2


class MeanAge:
    """The rule. It does no I/O. Whoever has the extents calls sweep when touch() says that a tick has begun."""

    def __init__(self, records, sampler=None, ghost=BucketGhost):
        self.records, self.now, self.tick = records, 0, 0
        self.next_tick, self.order, self.moved, self.cut = 0.0, [], False, KEEP
        self.sampler, self.ghost = sampler or Sampler(), ghost(records)
        self.sampler.burst = records // BURST

    def touch(self, key):
        """-> whether a tick has begun"""
        self.now += 1
        self.sampler.touch(mix(key), self.now)
        if not self.sampler.L or self.now < self.next_tick:
            return False
        self.tick += 1
        self.next_tick = self.now + self.sampler.L / TICKS
        return True

    def ages(self, extent):
        return extent.stamps.translate(bytes(min(CAP, self.tick - x & 255) for x in range(256)))

    def sweep(self, extents, open=None):
        """Once a tick, over all stamps. A pinned record counts as touched now; an old stamp is moved up, in the
        open extent, too, so that the byte never wraps. -> the sum of the ages of the sealed extents"""
        tick = self.tick & 255
        clamp = bytes(x if tick - x & 255 <= CAP else tick - CAP & 255 for x in range(256))
        total = count = 0
        for extent in extents + ([open] if open else []):
            for i in extent.pins:
                extent.stamps[i] = tick
            age, records = sum(self.ages(extent)), max(1, len(extent.stamps))
            extent.age = age / records
            if extent is not open:
                total, count = total + age, count + records
            extent.stamps = bytearray(extent.stamps.translate(clamp))
        self.order = sorted(extents, key=lambda extent: extent.age)
        old = sum(extent.age > STALE for extent in extents)
        self.moved = bool(count and total / count > MOVED or (self.moved and old > FEW * len(extents)))
        return total

    def stale(self):
        """Is there an extent to recycle for anybody?"""
        if not self.sampler.L or self.sampler.novelty > NOVEL:
            return False
        return bool(self.order) and self.order[-1].age > (STALE if self.moved else FADED)

    def run(self, key):
        """Counts a touch of a key that is not stored. -> whether its run of touches makes it hot"""
        hash_ = mix(key)
        last, took, gaps = self.ghost.take(hash_) or (self.tick, 0, 0)
        since = self.tick - last & 255
        took += since                               # ticks in which there were `gaps` gaps
        gaps += since > 0                           # touches within one tick are one touch
        if took > gaps * GAP:
            took = gaps = 0
        if self.sampler.L and is_hot(gaps, took):
            return True
        self.ghost.put(hash_, self.tick, took, gaps)
        return False

    def admit(self, key, size, room):
        """room: 'any' = space open to all, 'hot' = space made for hot keys, None = no space without recycling.
        -> 'no', 'yes' (append it), 'any' or 'hot' (recycle for this reason, then append it)"""
        if room == 'any':
            return 'yes'
        if self.stale():
            return 'any'
        if self.run(key):
            return 'yes' if room == 'hot' else 'hot'
        return 'no'

    def victim(self, extents, why):
        """The extent of the highest mean age, or none; sets the age from which its records are dropped."""
        if not self.order or (why == 'any' and not self.stale()):
            return None
        victim = self.order.pop()
        median = sorted(self.ages(victim))[len(victim.keys) // 2]
        self.cut = median if why == 'hot' else KEEP if median > KEEP else 2 * KEEP
        return victim

    def keep(self, age, pinned):
        return pinned or age < self.cut

    def forget(self):
        """A restart that keeps m1, m2, L and the tick, and loses the ghost, the sample and the touches of this
        tick. Whoever has the extents sweeps them next."""
        before = self.sampler
        self.ghost, self.order = type(self.ghost)(self.records), []
        self.sampler = Sampler(before.cap)
        self.sampler.burst, self.sampler.L = before.burst, before.L
        self.sampler.m1, self.sampler.m2 = before.m1, before.m2
        self.now, self.next_tick = 0, before.L / TICKS if before.L else 0.0


class Extent:
    def __init__(self, now):
        self.keys, self.sizes, self.stamps, self.pins = [], [], bytearray(), []
        self.used, self.age, self.hot = 0, 0.0, False
        self.born = self.last = now


class Log:
    """What the store does: one open extent, whole extents recycled, one spare beyond the budget to copy into."""

    def __init__(self, budget, extent_bytes, policy, size=lambda key: 1, pinned=lambda key: False):
        self.X, self.n, self.policy = extent_bytes, max(2, round(budget / extent_bytes)), policy
        self.size, self.pinned = size, pinned
        self.where, self.sealed, self.open = {}, [], None
        self.admitted = self.copied = 0
        self.by_age = isinstance(policy, MeanAge)

    def stamp(self):
        return self.policy.tick & 255 if self.by_age else 0

    def append(self, key, size, stamp):
        extent = self.open
        self.where[key] = extent, len(extent.keys)
        if self.pinned(key):
            extent.pins.append(len(extent.keys))
        extent.keys.append(key)
        extent.sizes.append(size)
        extent.stamps.append(stamp)
        extent.used += size

    def remove(self, key):
        """A purge or an overwrite: the bytes die where they lie."""
        extent, i = self.where.pop(key)
        if i in extent.pins:
            extent.pins.remove(i)
        if self.by_age:
            extent.stamps[i] = self.policy.tick - CAP & 255

    def lose(self):
        """A restart that loses the stamps, too."""
        self.policy.forget()
        for extent in self.sealed + ([self.open] if self.open else []):
            extent.stamps = bytearray([self.policy.tick & 255]) * len(extent.keys)
        self.sweep()

    def sweep(self):
        self.policy.sweep(self.sealed, self.open)

    def recycle(self, why):
        victim = self.policy.victim(self.sealed, why)
        if victim is None:
            return False
        self.sealed.remove(victim)
        self.open = Extent(self.policy.now)
        self.open.hot = why == 'hot'
        for i, (key, age) in enumerate(zip(victim.keys, list(self.policy.ages(victim)))):
            if self.where.get(key) != (victim, i):
                continue
            if self.policy.keep(age, self.pinned(key)):
                self.append(key, victim.sizes[i], victim.stamps[i] if self.by_age else 0)
                self.copied += victim.sizes[i]
            else:
                del self.where[key]
        return True

    def get(self, key):
        if self.policy.touch(key):
            self.sweep()
        at = self.where.get(key)
        if at:
            at[0].stamps[at[1]] = self.policy.tick & 255 if self.by_age else 1
            at[0].last = self.policy.now
            return True
        size = self.size(key)
        if self.open and self.open.used + size > self.X:
            self.sealed.append(self.open)
            self.open = None
        if not self.open and len(self.sealed) < self.n:
            self.open = Extent(self.policy.now)
        room = None if not self.open else 'hot' if self.open.hot else 'any'
        self.make_room(key, size, self.policy.admit(key, size, room))
        return False

    def make_room(self, key, size, why):
        if why == 'no':
            return
        if why != 'yes':
            if self.open:
                self.open.hot = False    # space made for hot keys, now open to all
            elif not self.recycle(why):
                return
        if self.open.used + size <= self.X:
            self.append(key, size, self.stamp())
            self.admitted += size
