#!/usr/bin/env python3
"""epoch_sim.py - hit ratios of policies of objects in training epochs. SPDX-License-Identifier: Apache-2.0

Objects of one size, pure Python, no dependencies, fixed seeds (set PYTHONHASHSEED=0 for traces).
  python3 epoch_sim.py perm            random-permutation epochs, table over f = cache/dataset
  python3 epoch_sim.py seq             same order every epoch
  python3 epoch_sim.py jobs            J jobs, same dataset, independent permutations, interleaved
  python3 epoch_sim.py switch          4 epochs of A, then B: hit ratio per epoch after the switch
  python3 epoch_sim.py scan            permutation epochs polluted by one-shot keys
  python3 epoch_sim.py mix             90 % permutation epochs, 10 % a small hot set (footers, labels)
  python3 epoch_sim.py shards          permuted shards, sequential 1-chunk reads inside a shard
  python3 epoch_sim.py zipf            skewed independent requests
  python3 epoch_sim.py trace FILE.csv  libCacheSim cloudPhysicsIO.csv (last column = key)
  python3 epoch_sim.py all
Columns 'ins/req' is cache inserts per request: the flash writes each policy pays.
"""

import sys
import math
import random
import heapq
from collections import OrderedDict, deque

# ------------------------------------------------------------------ policies


class Base:
    def __init__(self, C, **kw):
        self.C = max(1, int(C))
        self.inserts = 0
        self.init(**kw)

    def init(self):
        pass


class LRU(Base):
    def init(self):
        self.d = OrderedDict()

    def get(self, k):
        d = self.d
        if k in d:
            d.move_to_end(k)
            return True
        if len(d) >= self.C:
            d.popitem(last=False)
        d[k] = 1
        self.inserts += 1
        return False


class FIFO(Base):
    def init(self):
        self.d = OrderedDict()

    def get(self, k):
        d = self.d
        if k in d:
            return True
        if len(d) >= self.C:
            d.popitem(last=False)
        d[k] = 1
        self.inserts += 1
        return False


class RAND(Base):
    def init(self):
        self.pos = {}
        self.arr = []
        self.r = random.Random(7)

    def get(self, k):
        if k in self.pos:
            return True
        if len(self.arr) >= self.C:
            i = self.r.randrange(self.C)
            del self.pos[self.arr[i]]
            self.arr[i] = k
            self.pos[k] = i
        else:
            self.pos[k] = len(self.arr)
            self.arr.append(k)
        self.inserts += 1
        return False


class NOEVICT(Base):  # CoorDL 'MinIO'
    def init(self):
        self.d = set()

    def get(self, k):
        if k in self.d:
            return True
        if len(self.d) < self.C:
            self.d.add(k)
            self.inserts += 1
        return False


class CLOCK(Base):  # FIFO-reinsertion, 1 bit
    def init(self):
        self.d = {}
        self.q = deque()

    def get(self, k):
        d = self.d
        if k in d:
            d[k] = 1
            return True
        if len(d) >= self.C:
            while True:
                v = self.q.popleft()
                if d[v]:
                    d[v] = 0
                    self.q.append(v)
                else:
                    del d[v]
                    break
        d[k] = 0
        self.q.append(k)
        self.inserts += 1
        return False


class SIEVE(Base):
    def init(self):
        self.v = {}
        self.nx = {}
        self.pv = {}
        self.head = self.tail = self.hand = None

    def get(self, k):
        if k in self.v:
            self.v[k] = 1
            return True
        if len(self.v) >= self.C:
            o = self.hand if self.hand is not None else self.tail
            while self.v[o]:
                self.v[o] = 0
                o = self.pv[o] if self.pv[o] is not None else self.tail
            self.hand = self.pv[o]
            p, n = self.pv[o], self.nx[o]
            if p is not None:
                self.nx[p] = n
            else:
                self.head = n
            if n is not None:
                self.pv[n] = p
            else:
                self.tail = p
            del self.v[o], self.pv[o], self.nx[o]
        self.pv[k] = None
        self.nx[k] = self.head
        if self.head is not None:
            self.pv[self.head] = k
        self.head = k
        if self.tail is None:
            self.tail = k
        self.v[k] = 0
        self.inserts += 1
        return False


class S3FIFO(Base):  # 10 % small, 90 % main, ghost = main entries, 2-bit
    def init(self):
        self.cs = max(1, self.C // 10)
        self.cm = self.C - self.cs
        self.S = deque()
        self.M = deque()
        self.f = {}
        self.w = {}
        self.G = OrderedDict()

    def get(self, k):
        if k in self.f:
            self.f[k] = min(3, self.f[k] + 1)
            return True
        while len(self.f) >= self.C:
            self.evict()
        if k in self.G:
            del self.G[k]
            self.M.append(k)
        else:
            self.S.append(k)
        self.f[k] = 0
        self.inserts += 1
        return False

    def evict(self):
        if len(self.S) >= self.cs or not self.M:
            while self.S:
                v = self.S.popleft()
                if self.f[v] > 0:
                    self.f[v] = 0
                    self.M.append(v)
                    self.inserts += 1  # rewritten on flash
                else:
                    del self.f[v]
                    self.G[v] = 1
                    if len(self.G) > self.cm:
                        self.G.popitem(last=False)
                    return
        while self.M:
            v = self.M.popleft()
            if self.f[v] > 0:
                self.f[v] -= 1
                self.M.append(v)
            else:
                del self.f[v]
                return


class ARC(Base):
    def init(self):
        self.p = 0
        self.T1 = OrderedDict()
        self.T2 = OrderedDict()
        self.B1 = OrderedDict()
        self.B2 = OrderedDict()

    def rep(self, k):
        if self.T1 and (len(self.T1) > self.p or (k in self.B2 and len(self.T1) == self.p)):
            o, _ = self.T1.popitem(last=False)
            self.B1[o] = 1
        else:
            o, _ = self.T2.popitem(last=False)
            self.B2[o] = 1

    def get(self, k):
        T1, T2, B1, B2, C = self.T1, self.T2, self.B1, self.B2, self.C
        if k in T1:
            del T1[k]
            T2[k] = 1
            return True
        if k in T2:
            T2.move_to_end(k)
            return True
        self.inserts += 1
        if k in B1:
            self.p = min(C, self.p + max(1, len(B2) / len(B1)))
            self.rep(k)
            del B1[k]
            T2[k] = 1
            return False
        if k in B2:
            self.p = max(0, self.p - max(1, len(B1) / len(B2)))
            self.rep(k)
            del B2[k]
            T2[k] = 1
            return False
        if len(T1) + len(B1) == C:
            if len(T1) < C:
                B1.popitem(last=False)
                self.rep(k)
            else:
                T1.popitem(last=False)
        else:
            tot = len(T1) + len(T2) + len(B1) + len(B2)
            if tot >= C:
                if tot == 2 * C:
                    B2.popitem(last=False)
                self.rep(k)
        T1[k] = 1
        return False


class LIRS(Base):  # 1 % resident HIR
    def init(self):
        self.ch = max(1, self.C // 100)
        self.cl = self.C - self.ch
        self.st = {}  # key -> L/H/N
        self.S = OrderedDict()
        self.Q = OrderedDict()
        self.nl = 0

    def prune(self):
        while self.S:
            k = next(iter(self.S))
            if self.st[k] == 'L':
                return
            del self.S[k]
            if self.st[k] == 'N':
                del self.st[k]

    def demote(self):
        k, _ = self.S.popitem(last=False)
        self.st[k] = 'H'
        self.Q[k] = 1
        self.nl -= 1
        self.prune()

    def get(self, k):
        t = self.st.get(k)
        if t == 'L':
            self.S.move_to_end(k)
            self.prune()
            return True
        if t == 'H':
            if k in self.S:
                self.st[k] = 'L'
                self.nl += 1
                del self.Q[k]
                self.S.move_to_end(k)
                self.demote()
            else:
                self.S[k] = 1
                self.Q.move_to_end(k)
            return True
        self.inserts += 1
        if self.nl < self.cl and t is None and len(self.Q) == 0:
            self.st[k] = 'L'
            self.nl += 1
            self.S[k] = 1
            return False
        if len(self.Q) >= self.ch:
            v, _ = self.Q.popitem(last=False)
            if v in self.S:
                self.st[v] = 'N'
            else:
                del self.st[v]
        if self.st.get(k) == 'N':
            self.st[k] = 'L'
            self.nl += 1
            self.S.move_to_end(k)
            self.demote()
        else:
            self.st[k] = 'H'
            self.Q[k] = 1
            self.S[k] = 1
        # bound the ghost part of the stack to 3C entries
        if len(self.S) > 4 * self.C:
            for g in list(self.S):
                if self.st[g] == 'N':
                    del self.S[g]
                    del self.st[g]
                    break
        return False


class TINYLFU(Base):  # 1 % LRU window, 99 % SLRU main, count-min 4x4-bit, reset at 10C
    def init(self):
        self.cw = max(1, self.C // 100)
        self.cm = max(1, self.C - self.cw)
        self.cp = int(self.cm * 0.8)
        self.W = OrderedDict()
        self.P = OrderedDict()
        self.Q = OrderedDict()  # window, probation, protected
        self.w = 1 << max(4, (4 * self.C - 1).bit_length())
        self.t = [bytearray(self.w) for _ in range(4)]
        self.n = 0

    def idx(self, k):
        h = hash((k, 0x9E3779B9)) & 0xFFFFFFFFFFFFFFFF
        return [((h >> (13 * i)) ^ (h >> 7) * (i * 2 + 1)) % self.w for i in range(4)]

    def est(self, k):
        return min(self.t[i][x] for i, x in enumerate(self.idx(k)))

    def rec(self, k):
        for i, x in enumerate(self.idx(k)):
            if self.t[i][x] < 15:
                self.t[i][x] += 1
        self.n += 1
        if self.n >= 10 * self.C:
            for i in range(4):
                self.t[i] = bytearray(b >> 1 for b in self.t[i])
            self.n //= 2

    def get(self, k):
        self.rec(k)
        if k in self.W:
            self.W.move_to_end(k)
            return True
        if k in self.Q:
            self.Q.move_to_end(k)
            return True
        if k in self.P:
            del self.P[k]
            self.Q[k] = 1
            if len(self.Q) > self.cp:
                v, _ = self.Q.popitem(last=False)
                self.P[v] = 1
            return True
        self.W[k] = 1  # the window lives in RAM; only admission writes flash
        if len(self.W) > self.cw:
            c, _ = self.W.popitem(last=False)
            if len(self.P) + len(self.Q) < self.cm:
                self.P[c] = 1
                self.inserts += 1
            else:
                v = next(iter(self.P)) if self.P else next(iter(self.Q))
                if self.est(c) > self.est(v):  # strict: a tie is refused
                    (self.P if v in self.P else self.Q).pop(v)
                    self.P[c] = 1
                    self.inserts += 1
        return False


class AGEGATE(Base):
    """No-evict, but an entry whose age passes theta * R may be replaced.
    R = mean reuse interval in requests, learned on a 1/16 hash sample of ALL keys (hit or not),
    so that it is unbiased by what is cached.  On a miss look at K random entries and take the
    oldest; stale -> replace it, else do not admit.  In permutation epochs the reuse interval is
    1 epoch on average and 2 epochs at most; with many jobs on one dataset it tends to an
    exponential with mean R, hence theta = 4.  When the hit ratio over the last R/2 requests falls
    under a quarter of the one over 8R the working set has moved: theta drops to 0.5 until it
    recovers.  (A window under R/2 misfires on same-order epochs, whose hits come in one burst:
    the trough of an exponential window w over a burst is e^(-R/w) R/w / (1 - e^(-R/w)) of the
    mean, 0.31 at w = R/2 and 0.07 at R/4.)"""

    def init(self, theta=4.0, low=0.5, K=16, samp=16):
        self.th = theta
        self.low = low
        self.K = K
        self.samp = samp
        self.la = {}
        self.arr = []
        self.pos = {}
        self.t = 0
        self.R = 4.0 * self.C
        self.g = OrderedDict()
        self.gmax = max(64, 8 * self.C // samp)
        self.r = random.Random(11)
        self.hs = self.hl = 0.0

    def get(self, k):
        self.t += 1
        t = self.t
        if hash((k, 77)) % self.samp == 0:
            o = self.g.pop(k, None)
            if o is not None:
                self.R += 0.02 * ((t - o) - self.R)
            self.g[k] = t
            if len(self.g) > self.gmax:
                self.g.popitem(last=False)
        h = 1.0 if k in self.la else 0.0
        self.hs += (h - self.hs) * 2 / self.R
        self.hl += (h - self.hl) / (8 * self.R)
        if h:
            self.la[k] = t
            return True
        if len(self.arr) < self.C:
            self.pos[k] = len(self.arr)
            self.arr.append(k)
            self.la[k] = t
            self.inserts += 1
            return False
        la, arr, C = self.la, self.arr, self.C
        b = min((self.r.randrange(C) for _ in range(self.K)), key=lambda i: la[arr[i]])
        th = self.low if self.hs < self.hl / 4 else self.th
        if t - la[arr[b]] > th * self.R:
            v = arr[b]
            del la[v], self.pos[v]
            arr[b] = k
            self.pos[k] = b
            la[k] = t
            self.inserts += 1
        return False


class BELADY(Base):  # MIN with bypass; needs the future
    def init(self):
        self.nxt = {}
        self.h = []

    def get2(self, k, n):  # n = next use
        hit = k in self.nxt
        if not hit and len(self.nxt) >= self.C:
            while True:
                u, v = self.h[0]
                if self.nxt.get(v) == -u:
                    break
                heapq.heappop(self.h)
            if -u <= n:
                return False  # everyone cached comes back sooner
            heapq.heappop(self.h)
            del self.nxt[v]
        if not hit:
            self.inserts += 1
        self.nxt[k] = n
        heapq.heappush(self.h, (-n, k))
        return hit


POL = [
    ('FIFO', FIFO),
    ('LRU', LRU),
    ('random', RAND),
    ('CLOCK', CLOCK),
    ('SIEVE', SIEVE),
    ('S3-FIFO', S3FIFO),
    ('ARC', ARC),
    ('LIRS', LIRS),
    ('W-TinyLFU', TINYLFU),
    ('no-evict', NOEVICT),
    ('age-gate', AGEGATE),
    ('Belady', BELADY),
]


def replay(cls, C, tr, marks=None, warm=0):
    """-> hit ratio after request index warm, inserts per request after warm, per-segment ratios"""
    c = cls(C)
    hits = 0
    segs = []
    sh = 0
    s0 = 0
    ins0 = 0
    marks = set(marks or ())
    if cls is BELADY:
        nu = [0] * len(tr)
        last = {}
        for i in range(len(tr) - 1, -1, -1):
            nu[i] = last.get(tr[i], 1 << 60)
            last[tr[i]] = i
    for i, k in enumerate(tr):
        if i in marks:
            segs.append(sh / max(1, i - s0))
            sh = 0
            s0 = i
        if i == warm:
            ins0 = c.inserts
        h = c.get2(k, nu[i]) if cls is BELADY else c.get(k)
        if h:
            sh += 1
            if i >= warm:
                hits += 1
    segs.append(sh / max(1, len(tr) - s0))
    return hits / max(1, len(tr) - warm), (c.inserts - ins0) / max(1, len(tr) - warm), segs


# ------------------------------------------------------------------ workloads


def perm(N, E, seed=1, base=0):
    r = random.Random(seed)
    out = []
    a = list(range(base, base + N))
    for _ in range(E):
        r.shuffle(a)
        out += a
    return out


def inter(*ts):
    return [x for g in zip(*ts) for x in g]


def zipf(N, n, a, seed=3):
    r = random.Random(seed)
    w = [1 / (i + 1) ** a for i in range(N)]
    return r.choices(range(N), weights=w, k=n)


# ------------------------------------------------------------------ closed forms


def th_lru(f):
    return f + (1 - f) * math.log(1 - f) if f < 1 else 1.0


def th_rand(f):
    """random replacement: E(s) = A + (1-A) e^{s/f}; A = (A + (1-A) f (e^{1/f}-1)) / E(1)"""
    if f >= 1:
        return 1.0
    e = math.exp(min(700, 1 / f))
    lo, hi = 0.0, 1.0 - 1e-15

    def g(self):
        return (A + (1 - A) * f * (e - 1)) / (A + (1 - A) * e) - A

    for _ in range(200):
        m = (lo + hi) / 2
        if g(m) > 0:
            lo = m
        else:
            hi = m
    return 1 - f * math.log(lo + (1 - lo) * e)


def th_seq_rand(f):
    lo, hi = 1e-9, 1.0  # m = 1 - exp(-m/f)
    for _ in range(200):
        m = (lo + hi) / 2
        if 1 - math.exp(-m / f) > m:
            lo = m
        else:
            hi = m
    return 1 - lo


FS = [0.1, 0.25, 0.35, 0.5, 0.65, 0.75, 0.9]


def table(title, traces, note=''):
    """traces: list of (column name, cache size, trace, warm index)"""
    print('\n## ' + title + (('  ' + note) if note else ''))
    print(
        '%-10s' % 'policy' + ''.join('%15s' % t[0] for t in traces) + '   (hit ratio / ins per req)'
    )
    for n, c in POL:
        row = []
        for _, C, tr, w in traces:
            h, i, _ = replay(c, C, tr, warm=w)
            row.append('%7.3f /%6.3f' % (h, i))
        print('%-10s' % n + ''.join('%15s' % x for x in row), flush=True)


def run(what, args):
    N, E = 8000, 12
    if what == 'perm':
        tr = perm(N, E)
        table('random-permutation epochs', [('f=%.2f' % f, f * N, tr, N * E // 2) for f in FS])
        print('closed form LRU     ' + '  '.join('%.3f' % th_lru(f) for f in FS))
        print('closed form random  ' + '  '.join('%.3f' % th_rand(f) for f in FS))
        print('bound (any demand)  ' + '  '.join('%.3f' % f for f in FS))
    elif what == 'seq':
        tr = list(range(N)) * E
        table(
            'same order every epoch',
            [('f=%.2f' % f, f * N, tr, N * E // 2) for f in (0.25, 0.5, 0.75, 0.9)],
        )
        print(
            'closed form random  '
            + '  '.join('%.3f' % th_seq_rand(f) for f in (0.25, 0.5, 0.75, 0.9))
        )
    elif what == 'jobs':
        cols = []
        for J in (2, 4, 8):
            tr = inter(*[perm(N, 8, seed=10 + j) for j in range(J)])
            for f in (0.25, 0.5):
                cols.append(('J=%d f=%.2f' % (J, f), f * N, tr, len(tr) // 2))
        table('J jobs share one dataset, independent permutations, same speed', cols)
    elif what == 'switch':
        a, b = perm(N, 4), perm(N, 8, seed=5, base=N)
        tr = a + b
        marks = [N * i for i in range(1, 12)]
        for f in (0.25, 0.5):
            print('\n## dataset switch after 4 epochs, f=%.2f: hit ratio in epochs 3,4 | 5..12' % f)
            for n, c in POL:
                _, _, s = replay(c, f * N, tr, marks)
                print(
                    '%-10s' % n
                    + ' '.join('%.2f' % x for x in s[2:4])
                    + ' | '
                    + ' '.join('%.2f' % x for x in s[4:]),
                    flush=True,
                )
    elif what == 'scan':
        cols = []
        for p in (0.1, 0.3):
            r = random.Random(9)
            tr = []
            u = 10**7
            for k in perm(N, E):
                tr.append(k)
                while r.random() < p:
                    tr.append(u)
                    u += 1
            for f in (0.25, 0.5):
                cols.append(('p=%.1f f=%.2f' % (p, f), f * N, tr, len(tr) // 2))
        table(
            'permutation epochs + one-shot keys (p per request)',
            cols,
            '(hit ratio over all requests)',
        )
    elif what == 'mix':
        r = random.Random(9)
        tr = []
        for k in perm(N, E):
            tr.append(k)
            if r.random() < 1 / 9:
                tr.append(10**7 + r.randrange(N // 50))
        table(
            '90 % epochs + 10 % hot set of N/50 keys',
            [('f=%.2f' % f, f * N, tr, len(tr) // 2) for f in (0.1, 0.25, 0.5)],
        )
    elif what == 'shards':
        S, L = 125, 64
        r = random.Random(2)
        tr = []
        for _ in range(E):
            o = list(range(S))
            r.shuffle(o)
            for x in o:
                tr += range(x * L, x * L + L)
        table(
            'permuted shards of 64 chunks',
            [('f=%.2f' % f, f * S * L, tr, len(tr) // 2) for f in (0.25, 0.5, 0.75, 0.9)],
        )
    elif what == 'zipf':
        for a in (0.8, 1.0):
            tr = zipf(20000, 200000, a)
            table(
                'Zipf a=%.1f, 20k keys' % a,
                [('f=%.2f' % f, f * 20000, tr, 100000) for f in (0.01, 0.05, 0.1, 0.25)],
            )
    elif what == 'trace':
        tr = [l.rstrip().rsplit(',', 1)[-1] for l in open(args[0])][1:]
        D = len(set(tr))
        table(
            'trace %s: %d requests, %d keys' % (args[0].rsplit('/', 1)[-1], len(tr), D),
            [('f=%.2f' % f, f * D, tr, 0) for f in (0.01, 0.05, 0.1, 0.25)],
        )


if __name__ == '__main__':
    w = sys.argv[1] if len(sys.argv) > 1 else 'perm'
    for x in (
        ['perm', 'seq', 'jobs', 'switch', 'scan', 'mix', 'shards', 'zipf'] if w == 'all' else [w]
    ):
        run(x, sys.argv[2:])
