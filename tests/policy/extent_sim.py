#!/usr/bin/env python3
"""extent_sim.py - the mean-age rule in tables, and what it is compared with. SPDX-License-Identifier: Apache-2.0

Pure Python, no dependencies but mean_age.py (the rule) and epoch_sim.py (traces, policies of objects) beside this
file; every seed is fixed.
  python3 extent_sim.py --quick        all tables, small
  python3 extent_sim.py                the same and the 40,000-object checks
  python3 extent_sim.py perm|change|jobs|skew|space|robust [...]   some tables
  python3 extent_sim.py ghosts         hit ratios of the ghost as C has it, and of an exact one
With --exact, the tables are those of the exact ghost.
"""
import math
import random
import sys

import epoch_sim as objects
from mean_age import BucketGhost, ExactGhost, Log, MeanAge, Sampler, mix

GHOST = ExactGhost if '--exact' in sys.argv else BucketGhost


class Plain:
    """fifo, lru: admit all, recycle by age of extent, keep nothing"""

    cut = 0

    def __init__(self, key, keep_touched=False):
        self.now = self.tick = 0
        self.key = key
        self.keep_touched = keep_touched

    def touch(self, key):
        self.now += 1
        return False

    def admit(self, key, size, room):
        return 'yes' if room else 'any'

    def victim(self, extents, why):
        return min(extents, key=self.key) if extents else None

    def ages(self, extent):
        return [1 - x for x in extent.stamps]    # 0 = touched since it was written

    def keep(self, age, pinned):
        return pinned or (self.keep_touched and age == 0)


# ------------------------------------------------------------------ running and printing


def replay(log, trace, marks, at=None):
    """-> a list of (hit ratio, bytes admitted, bytes copied forward), one a segment; at: {index: function(log)}"""
    out = []
    hits = n = 0
    a = c = 0
    at = at or {}
    marks = set(marks)
    for i, key in enumerate(trace):
        if i in marks:
            out.append((hits / n, log.admitted - a, log.copied - c))
            hits = n = 0
            a, c = log.admitted, log.copied
        if i in at:
            at[i](log)
        hits += log.get(key)
        n += 1
    return out + [(hits / n, log.admitted - a, log.copied - c)]


def gate(budget, X, mean_size=1, **kw):
    sampler, ghost = kw.pop('sampler', None), kw.pop('ghost', GHOST)
    return Log(budget, X, MeanAge(budget / mean_size, sampler, ghost), **kw)


def per_epoch(title, log, trace, N, D, base=None, at=None):
    """One line: hit ratio of each epoch as a share of the bound, then bytes written in units of D."""
    f = min(1, log.n * log.X / D)
    r = replay(log, trace, range(N, len(trace), N), at)
    bound = [min(1, b * f) for b in (base or [1] * len(r))]
    print(
        '%-34s %s | %s'
        % (
            title,
            ' '.join('%4.2f' % (x[0] / b) for x, b in zip(r, bound)),
            ' '.join('%.3f' % ((x[1] + x[2]) / D) for x in r),
        ),
        flush=True,
    )
    return r


F = (0.1, 0.25, 0.5, 0.75, 0.9)


def shards(N, E, size=64):  # permuted shards, their chunks in order
    r = random.Random(2)
    order = list(range(N // size))
    out = []
    for _ in range(E):
        r.shuffle(order)
        for x in order:
            out += range(x * size, x * size + size)
    return out


def burst(N, E, times=4, spread=16):  # each object is read in pieces, a few touches close together
    r = random.Random(3)
    out = []
    for k in objects.perm(N, E):
        out += [k] * times
    for i in range(0, len(out) - spread, spread):
        part = out[i : i + spread]
        r.shuffle(part)
        out[i : i + spread] = part
    return out


def table_perm(N=8000, sizes=(8, 32, 128), E=12):
    print(
        '\n## Epochs, %d objects: least hit ratio / f from the 2nd epoch; most bytes written an epoch / D'
        % N
    )
    for name, trace in (
        ('random order', objects.perm(N, E)),
        ('same order', list(range(N)) * E),
        ('shards of 64', shards(N, E)),
        ('4 touches each', burst(N, E)),
    ):
        for X in (
            sizes
            if name == 'random order'
            else sizes[-1:] if name == 'same order' else sizes[:1] if name[0] == '4' else sizes[::2]
        ):
            row = []
            for f in F:
                log = gate(f * N, X)
                step = len(trace) // E
                r = replay(log, trace, range(step, step * E, step))
                row.append(
                    '%.3f /%.4f'
                    % (
                        min(x[0] for x in r[1:]) * N / (log.n * X),
                        max(x[1] + x[2] for x in r[2:]) / N,
                    )
                )
            print(
                '%-13s X=%3d  ' % (name, X) + '  '.join('f=%.2f %s' % z for z in zip(F, row)),
                flush=True,
            )


def table_change(N=8000, sizes=(8, 128)):
    print(
        '\n## Changes after 4 epochs: hit ratio / bound, each of the 8 epochs after | bytes written / D'
    )
    A = objects.perm(N, 4)
    B = objects.perm(N, 8, seed=5, base=N)
    both = objects.perm(2 * N, 4, seed=6)
    half = objects.perm(N // 2, 16, seed=7)
    tenth = objects.perm(N // 10, 80, seed=8)
    scan = list(range(10**6, 10**6 + 10 * N // 2))
    back = objects.perm(N, 3, seed=9)
    for X in sizes:
        for f in F:
            per_epoch('A to B            f=%.2f X=%d' % (f, X), gate(f * N, X), A + B, N, N)
        for f in (0.25, 0.9):
            per_epoch(
                'shards to others  f=%.2f X=%d' % (f, X),
                gate(f * N, X),
                shards(N, 4) + [k + N for k in shards(N, 8)],
                N,
                N,
            )
        for f in (0.25, 0.5):
            per_epoch(
                'A to A+B          f=%.2f X=%d' % (f, X),
                gate(f * N, X),
                A + both,
                N,
                N,
                [1] * 4 + [0.5] * 8,
            )
        for f in (0.25, 0.5):
            per_epoch(
                'A to half of A    f=%.2f X=%d' % (f, X),
                gate(f * N, X),
                A + half,
                N,
                N,
                [1] * 4 + [2] * 8,
            )
        for f in (0.05, 0.25):
            per_epoch(
                'A to a tenth of A f=%.2f X=%d' % (f, X),
                gate(f * N, X),
                A + tenth,
                N,
                N,
                [1] * 4 + [10] * 8,
            )
        per_epoch('A, scan of 10 C, A f=.50 X=%d' % X, gate(0.5 * N, X), A + scan + back, N, N)
        per_epoch('1 epoch of A, B   f=.50 X=%d' % X, gate(0.5 * N, X), A[:N] + B, N, N)


def table_jobs(N=8000, X=32):
    print('\n## Jobs sharing one data set, and jobs with sets of their own (last half)')
    for J in (1, 2, 4, 8):
        trace = objects.inter(*[objects.perm(N, 8, seed=10 + j) for j in range(J)])
        for f in (0.25, 0.5):
            log = gate(f * N, X)
            r = replay(log, trace, [len(trace) // 2])[1]
            print(
                '%d jobs, one set, f=%.2f: hit ratio / f %.3f, written / request %.4f'
                % (J, f, r[0] / f, (r[1] + r[2]) / (len(trace) / 2))
            )
    for name, na, nb, speed in (
        ('A small, same speed', 1000, 8000, 1),
        ('A small, 8x speed', 1000, 8000, 8),
        ('A big, 8x speed', 8000, 1000, 8),
        ('A big, 3x speed', 8000, 2000, 3),
        ('A big, 100x speed', 4000, 500, 100),
    ):
        longest = max(8 * nb * speed, 8 * na)
        a = iter(objects.perm(na, longest // na + 2, seed=3))
        b = iter(objects.perm(nb, 40, seed=4, base=10**6))
        trace = []
        while len(trace) < min(400000, longest * (speed + 1) // speed):
            trace += [next(a) for _ in range(speed)] + [next(b)]
        for f in (0.25, 0.5):
            log = gate(f * (na + nb), X)
            h = [0, 0]
            n = [0, 0]
            half = len(trace) // 2
            for i, k in enumerate(trace):
                if i == half:
                    w0 = log.admitted + log.copied
                hit = log.get(k)
                if i >= half:
                    h[k >= 10**6] += hit
                    n[k >= 10**6] += 1
            share = sum(k >= 10**6 for k in log.where) / nb
            print(
                '%-20s A=%d B=%d C=%d: hit A %.3f B %.3f (share of B cached %.3f), all %.3f, written / request %.4f'
                % (
                    name,
                    na,
                    nb,
                    log.n * X,
                    h[0] / n[0],
                    h[1] / n[1],
                    share,
                    sum(h) / sum(n),
                    (log.admitted + log.copied - w0) / (len(trace) - half),
                ),
                flush=True,
            )

    r = random.Random(3)
    trace = [r.randrange(N) for _ in range(25 * N)]
    h, a, c = replay(gate(0.25 * N, X), trace, [10 * N])[1]
    print(
        'independent uniform requests, f=0.25: hit ratio / f %.3f, written / request %.4f'
        % (h / 0.25, (a + c) / (15 * N))
    )
    first = objects.perm(N, 11)
    for nb in (N // 16, N // 8, N // 4, N // 2):
        late = objects.perm(nb, 8 * N // nb, seed=5, base=10**6)
        trace = first[: 3 * N] + objects.inter(first[3 * N :], late)
        log = gate(0.5 * N, X)
        seen = [0, 0]
        for i, k in enumerate(trace):
            hit = log.get(k)
            if i >= 15 * N:
                seen[k >= 10**6] += hit
        lru = objects.LRU(0.5 * N)
        h = [lru.get(k) for k in trace][15 * N :]
        print(
            'a job on N/%d joins after 3 epochs of a job on N, f=.50: hit ratio old %.3f new %.3f all %.3f (LRU all %.3f)'
            % (N // nb, seen[0] / (2 * N), seen[1] / (2 * N), sum(seen) / (4 * N), sum(h) / len(h)),
            flush=True,
        )
    for lag in (0.02, 0.1, 0.3):
        p = objects.perm(N, 8)
        d = int(lag * N)
        trace = objects.inter(p[d:], p[:-d])
        w = len(trace) // 2
        print(
            'two jobs, same order, %.0f %% apart, f=.25: hit ratio %.3f (LRU %.3f, S3-FIFO %.3f)'
            % (
                100 * lag,
                replay(gate(0.25 * N, X), trace, [w])[1][0],
                objects.replay(objects.LRU, 0.25 * N, trace, warm=w)[0],
                objects.replay(objects.S3FIFO, 0.25 * N, trace, warm=w)[0],
            ),
            flush=True,
        )


def mixture(N=8000, E=12):
    r = random.Random(9)
    out = []
    p = objects.perm(N, E)
    z = objects.zipf(400, len(p), 1.0, seed=4)
    for i, k in enumerate(p):
        out.append(k)
        if r.random() < 0.25:
            out.append(10**7 + z[i])
    return out


def polluted(N=8000, E=12):
    r = random.Random(9)
    out = []
    for k in objects.perm(N, E):
        out.append(k)
        if r.random() < 0.1:
            out.append(10**7 + len(out))
    return out


def table_skew(X=32, n=200000):
    print(
        '\n## Skew and mixtures, X=%d, second half: hit ratio / bytes written per request (write amplification)'
        % X
    )
    cols = [
        ('zipf %.1f f=%.2f' % (a, f), f * 20000, t)
        for a in (0.8, 1.0, 1.2)
        for t in [objects.zipf(20000, n, a)]
        for f in (0.05, 0.25)
    ]
    z = objects.zipf(20000, n, 1.0)
    new = objects.perm(20000, 1)
    shift = z[: n // 2] + [new[k] for k in z[n // 2 :]]
    cols += [('zipf 1.0 new order f=%.2f' % f, f * 20000, shift) for f in (0.05, 0.25)]
    cols += [('80%%perm+20%%zipf f=%.2f' % f, f * 8000, t) for t in [mixture()] for f in (0.1, 0.5)]
    cols += [
        ('perm+10%%one-shot f=%.2f' % f, f * 8000, t) for t in [polluted()] for f in (0.25, 0.5)
    ]
    for title, C, trace in cols:
        w = len(trace) // 2
        row = []
        for name, log in (
            ('mean-age', gate(C, X)),
            ('extent-FIFO', Log(C, X, Plain(lambda e: e.born))),
            ('extent-LRU', Log(C, X, Plain(lambda e: e.last))),
            ('extent-CLOCK', Log(C, X, Plain(lambda e: e.born, True))),
        ):
            h, a, c = replay(log, trace, [w])[1]
            row.append(
                '%s %.3f/%.4f (%.2f)' % (name, h, (a + c) / (len(trace) - w), (a + c) / max(1, a))
            )
        for name, cls in (
            ('LRU', objects.LRU),
            ('SIEVE', objects.SIEVE),
            ('S3-FIFO', objects.S3FIFO),
            ('TinyLFU', objects.TINYLFU),
        ):
            h, i, _ = objects.replay(cls, C, trace, warm=w)
            row.append('%s %.3f/%.3f' % (name, h, i))
        print('%-24s ' % title + '  '.join(row), flush=True)


def table_space(N=8000):
    print(
        '\n## Sizes log-normal 20 KiB..2 MiB, extents of 64 MiB, pins, dead bytes (f=.50 of the bytes; hit ratio / f, bytes written / D)'
    )
    r = random.Random(12)
    size = [
        int(min(2 << 20, max(20 << 10, r.lognormvariate(math.log(160 << 10), 1.0))))
        for _ in range(2 * N)
    ]
    D = sum(size[:N])
    mean = D / N
    X = 64 << 20
    f = 0.5

    def bytes_of(k):
        return size[k % (2 * N)]

    A, B = objects.perm(N, 8), objects.perm(N, 8, seed=5, base=N)

    def purge(log):
        q = random.Random(13)
        dead = [k for k in sorted(log.where) if q.random() < 0.3]
        for k in dead:
            log.remove(k)

    def pin(k):
        return k < N and mix(k) % 10 == 0

    for name, trace, kw, at in (
        ('sizes', A, {}, None),
        ('sizes, A to B', A[: 4 * N] + B[: 6 * N], {}, None),
        ('sizes, 30 % purged at epoch 5', A, {}, {4 * N: purge}),
        ('pins 10 %, A to B', A[: 4 * N] + B[: 6 * N], dict(pinned=pin), None),
        ('pins 10 %, purge', A, dict(pinned=pin), {4 * N: purge}),
    ):
        log = gate(f * D, X, mean, size=bytes_of, **kw)
        per_epoch(name, log, trace, N, D, at=at)
        print(
            '  %34s copied / admitted after the fill %.3f, pinned kept %s'
            % (
                '',
                log.copied / max(1, log.admitted - f * D),
                sum(pin(k) for k in log.where) if kw else '-',
            )
        )
    for X in (8, 128):
        per_epoch('unit size, 30 %% purged, X=%d' % X, gate(f * N, X), A, N, N, at={4 * N: purge})


def table_robust(N=8000, X=32, f=0.5):
    print(
        '\n## Robustness: A for 4 epochs, then B, f=%.2f, X=%d: hit ratio / f | bytes written / D'
        % (f, X)
    )
    trace = objects.perm(N, 4) + objects.perm(N, 8, seed=5, base=N)
    for cap in (16, 64, 256, 1024, 4096):
        per_epoch('sampler of %d keys' % cap, gate(f * N, X, sampler=Sampler(cap)), trace, N, N)
    for rate in (1, 16, 64, 256, 1024):
        per_epoch(
            'fixed rate 1/%d' % rate,
            gate(f * N, X, sampler=Sampler(rate=rate, fixed=True)),
            trace,
            N,
            N,
        )
    per_epoch(
        'restart in epoch 3, stamps lost', gate(f * N, X), trace, N, N, at={2 * N + N // 2: Log.lose}
    )
    per_epoch('restart in 1st epoch of B', gate(f * N, X), trace, N, N, at={4 * N + N // 2: Log.lose})
    per_epoch('restart in 2nd epoch of B', gate(f * N, X), trace, N, N, at={5 * N + N // 4: Log.lose})
    z = objects.zipf(20000, 200000, 1.0)
    for name, at in (('no restart', {}), ('restart at the half', {100000: Log.lose})):
        r = replay(gate(1000, X), z, range(100000, 200000, 20000), at)
        print(
            'zipf 1.0 f=.05, %-20s hit ratio by 20,000 requests: ' % name
            + ' '.join('%.3f' % x[0] for x in r[1:])
        )
    for factor in (0.25, 0.5, 2, 4):

        def jump(log, m=factor):
            s = log.policy.sampler
            s.m1 *= m
            s.m2 *= m * m
            s.L *= m

        per_epoch(
            'L wrong by %.2fx from epoch 3 on' % factor,
            gate(f * N, X),
            trace,
            N,
            N,
            at={2 * N: jump},
        )


def ghost_cases(seed, N=8000):
    """-> (name, cache, trace, touch from which hits count)"""
    A, B = objects.perm(N, 12, seed=seed), objects.perm(N, 8, seed=seed + 4, base=N)
    yield from (('random order f=%.2f' % f, f * N, A, N) for f in (0.1, 0.25, 0.5, 0.9))
    yield from (('A to B f=%.2f' % f, f * N, A[: 4 * N] + B, 6 * N) for f in (0.1, 0.5, 0.9))
    half = objects.perm(N // 2, 16, seed=seed + 6)
    yield from (('A to half of A f=%.2f' % f, f * N, A[: 4 * N] + half, 9 * N) for f in (0.25, 0.5))
    yield 'shards to others f=0.50', 0.5 * N, shards(N, 4) + [k + N for k in shards(N, 8)], 6 * N
    for J in (2, 4):
        jobs = objects.inter(*[objects.perm(N, 8, seed=10 * seed + j) for j in range(J)])
        yield '%d jobs f=0.25' % J, 0.25 * N, jobs, len(jobs) // 2
    for a in (0.8, 1.0, 1.2):
        trace = objects.zipf(20000, 200000, a, seed=seed + 2)
        yield from (('zipf %.1f f=%.2f' % (a, f), f * 20000, trace, 100000) for f in (0.05, 0.25))
    yield from (('80%%perm+20%%zipf f=%.2f' % f, f * N, mixture(), 6 * N) for f in (0.1, 0.5))
    yield from (('perm+10%%one-shot f=%.2f' % f, f * N, polluted(), 6 * N) for f in (0.25, 0.5))


def table_ghosts(seeds=range(1, 6), most=0.005):
    """The C ghost and the exact one: means over seeds. No run may differ by more than `most`."""
    print('\n## Ghost as in C, exact ghost: hit ratio, written a request, means over %d seeds' % len(seeds))
    rows, wrong = {}, 0
    for seed in seeds:
        for name, cache, trace, start in ghost_cases(seed):
            X = 128 if name[0] == 'A' else 32
            for i, ghost in enumerate((BucketGhost, ExactGhost)):
                h, a, c = replay(gate(cache, X, ghost=ghost), trace, [start])[1]
                rows.setdefault(name, ([], []))[i].append((h, (a + c) / (len(trace) - start)))
    for name, both in rows.items():
        (h, w), (he, we) = [[sum(x) / len(side) for x in zip(*side)] for side in both]
        furthest = max(abs(a[0] - b[0]) for a, b in zip(*both))
        wrong += furthest > most
        print('%-24s %.4f %.4f  %.4f %.4f  difference %+.4f, the largest of one run %.4f%s'
              % (name, h, w, he, we, h - he, furthest, '  WRONG' if furthest > most else ''), flush=True)
    if wrong:
        sys.exit('WRONG: %d differences are above %.3f' % (wrong, most))


TABLES = dict(
    perm=table_perm,
    change=table_change,
    jobs=table_jobs,
    skew=table_skew,
    space=table_space,
    robust=table_robust,
    ghosts=table_ghosts,
)
if __name__ == '__main__':
    args = [a for a in sys.argv[1:] if not a.startswith('-')]
    for name in args or TABLES:
        TABLES[name]()
    if not args and '--quick' not in sys.argv:
        table_perm(40000, (32, 512), 8)
        table_change(40000, (512,))
