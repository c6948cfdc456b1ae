#!/usr/bin/env python3
"""fleet_sim.py - a fleet that starts cold, simulated. SPDX-License-Identifier: Apache-2.0

Pure Python, no dependencies; every seed is fixed.
  python3 fleet_sim.py              1,000 nodes that load 140 GB: half an hour
  python3 fleet_sim.py --quick      100 nodes that load 14 GB: a minute
  python3 fleet_sim.py --bench      8 nodes with the load of `scripts/bench fleet`, case start
  python3 fleet_sim.py --check      facts that must hold, in seconds; exit status 1 if one does not

The model. All nodes read all segments. A node reads by streams, each with a window of segments in progress. A node that
lacks a segment asks the first live node in the segment's rank; that node brings the segment from the origin once, and
passes it on while it arrives (cut-through). A rank is a draw without replacement by weight: the law of weighted
rendezvous (src/peers/rank.c). Bytes flow as a fluid. Each link (a node's network in, and out; the origin; one
connection to the origin) is shared equally by its flows, and what one flow can't use goes to the others. Time goes in
steps. A dead node serves nobody; who waited for it notices after the deadline. As in src/peers/call.c, a flow that has brought
bytes takes the rest from the origin (`after_cut`), and any other flow asks the next node in rank.
Not in the model: disks, processors, losses, and limits of requests. """
import random
import sys

MB, GB, MIB = 10**6, 10**9, 1 << 20
SEGMENT = 8 * MIB
WINDOW = 10          # fetches of one object at a time (src/cache/window.h)
ORIGIN = -1
RANKS = 4            # nodes of a segment that are drawn; more never die at once here
ROUNDS = 3           # of sharing what flows left over


class Flow:
    """A segment on its way to a node."""
    __slots__ = ('to', 'segment', 'source', 'got', 'at', 'rate', 'slots')

    def __init__(self, to, segment, source, at):
        self.to, self.segment, self.source, self.at = to, segment, source, at
        self.got, self.rate, self.slots = 0.0, 0.0, []


class Stream:
    """A client of a node: which segments it reads, and how many at a time."""

    def __init__(self, order, window):
        self.order, self.window, self.next, self.open = order, window, 0, 0


class Fleet:
    """sizes: of the segments. streams(node): the Streams of a node. deaths: {node: time}."""

    def __init__(self, count, sizes, streams, *, nic, origin, connection, step_s, first_byte_s=0.02, weights=None, seed=1,
                 deaths=None, deadline_s=0.1, after_cut='origin', cut_through=True):
        self.count, self.sizes, self.nic, self.origin, self.connection = count, sizes, nic, origin, connection
        self.step_s, self.first_byte_s, self.deadline_s = step_s, first_byte_s, deadline_s
        self.weights, self.random = weights or [1] * count, random.Random(seed)
        self.deaths, self.after_cut, self.cut_through = dict(deaths or {}), after_cut, cut_through
        self.ranks = [self.draw() for _ in sizes]
        self.alive, self.done = [True] * count, [bytearray(len(sizes)) for _ in range(count)]
        self.filling, self.flows = [{} for _ in range(count)], []
        self.streams, self.open = [streams(node) for node in range(count)], [0] * count
        self.sent, self.origin_bytes, self.origin_gets, self.asked = [0.0] * count, 0.0, 0, 0
        self.ended_s, self.now = [None] * count, 0.0

    def draw(self):
        if min(self.weights) == max(self.weights):
            return self.random.sample(range(self.count), min(RANKS, self.count))
        rest, rank = list(range(self.count)), []
        while rest and len(rank) < RANKS:
            rank += self.random.choices(rest, [self.weights[node] for node in rest])
            rest.remove(rank[-1])
        return rank

    def owner(self, segment):
        return next(node for node in self.ranks[segment] if self.alive[node])

    # ---- questions ----

    def flow(self, node, segment, source, at):
        flow = self.filling[node][segment] = Flow(node, segment, source, at)
        self.origin_gets += source == ORIGIN
        self.asked += source != ORIGIN
        self.flows.append(flow)
        return flow

    def source_of(self, node, segment, at):
        """Who brings the segment to this node; an owner that lacks it begins to fetch it."""
        owner = self.owner(segment)
        if owner == node:
            return ORIGIN
        if not self.done[owner][segment] and segment not in self.filling[owner]:
            self.flow(owner, segment, ORIGIN, at + self.first_byte_s)
        return owner

    def read_on(self, node, stream, at):
        """The stream begins as many segments as its window has room for."""
        while stream.next < len(stream.order) and stream.open < stream.window:
            segment = stream.order[stream.next]
            stream.next += 1
            if self.done[node][segment]:
                continue
            stream.open += 1
            flow = self.filling[node].get(segment)
            if not flow:
                source = self.source_of(node, segment, at)
                flow = self.flow(node, segment, source, at + (self.first_byte_s if source == ORIGIN else 0))
            flow.slots.append(stream)
        if self.ended_s[node] is None and all(s.next == len(s.order) and not s.open for s in self.streams[node]):
            self.ended_s[node] = at

    def end(self, flow, at):
        self.done[flow.to][flow.segment] = 1
        del self.filling[flow.to][flow.segment]
        for stream in flow.slots:
            stream.open -= 1
            self.read_on(flow.to, stream, at)

    # ---- deaths ----

    def die(self, node):
        self.alive[node] = False
        self.flows = [flow for flow in self.flows if flow.to != node]
        self.filling[node], at = {}, self.now + self.deadline_s
        for flow in [flow for flow in self.flows if flow.source == node]:
            cut = flow.got > 0 and self.after_cut == 'origin'
            flow.source, flow.at = ORIGIN if cut else self.source_of(flow.to, flow.segment, at), at
            self.origin_gets += flow.source == ORIGIN

    # ---- bytes ----

    def limit(self, flow):
        """How many bytes of the segment its source has."""
        if flow.source == ORIGIN or self.done[flow.source][flow.segment]:
            return self.sizes[flow.segment]
        return self.filling[flow.source][flow.segment].got if self.cut_through else 0

    def share(self, flows, end, left_in, left_out):
        """Sets the rates of these flows until `end`, as far as they have something to move; returns them as
        (flow, limit, rate of a fair share). Takes the rates from what the links have left."""
        moving, ins, outs = [], [0] * self.count, [0] * (self.count + 1)    # outs[-1]: of the origin
        for flow in flows:
            if flow.at >= end:
                continue
            limit = self.limit(flow)
            if limit <= flow.got:
                flow.at = end    # it waits for its source
                continue
            flow.rate, need = 0.0, (limit - flow.got) / (end - flow.at)
            moving.append([flow, limit, 0.0, min(need, self.connection) if flow.source == ORIGIN else need])
            ins[flow.to] += 1
            outs[flow.source] += 1
        hungry, least = moving, min(self.nic, self.origin) / 1000
        for _ in range(ROUNDS):
            fair_in = [left / n if n else 0 for left, n in zip(left_in, ins)]
            fair_out = [left / n if n else 0 for left, n in zip(left_out, outs)]
            rest = []
            for item in hungry:
                flow, _, fair, need = item
                to, source = flow.to, flow.source
                more = min(fair_in[to], fair_out[source])
                item[2] = fair + more
                more = min(more, need - flow.rate)
                flow.rate += more
                left_in[to] -= more
                left_out[source] -= more
                if flow.rate < need * 0.999:
                    rest.append(item)
                else:
                    ins[to] -= 1
                    outs[source] -= 1
            hungry = [item for item in rest if left_in[item[0].to] > least and left_out[item[0].source] > least]
        return moving

    def move(self, moving, end, came):
        """Moves the bytes of a step. came: {(node, segment): when it came whole, in this step}."""
        for flow, limit, fair, _ in moving:
            bytes_ = min(flow.rate * (end - flow.at), limit - flow.got)
            if flow.source == ORIGIN:
                self.origin_bytes += bytes_
                fair = flow.rate
            else:
                self.sent[flow.source] += bytes_
            flow.got += bytes_
            if flow.got < self.sizes[flow.segment] - 0.5:
                flow.at = end
                continue
            whole = max(flow.at + bytes_ / fair if fair else end, came.get((flow.source, flow.segment), 0.0))
            flow.at = came[flow.to, flow.segment] = min(whole, end)
            self.end(flow, flow.at)

    def step(self):
        """Bytes from the origin first: a node passes them on in the same step."""
        end, came = self.now + self.step_s, {}
        for node in [node for node, at in self.deaths.items() if at <= self.now]:
            del self.deaths[node]
            self.die(node)
        left_in, left_out = [self.nic] * self.count, [self.nic] * self.count + [self.origin]
        from_origin = [flow for flow in self.flows if flow.source == ORIGIN]
        from_nodes = [flow for flow in self.flows if flow.source != ORIGIN]
        for flows in (from_origin, from_nodes):
            self.move(self.share(flows, end, left_in, left_out), end, came)
        self.flows = [flow for flow in self.flows if self.filling[flow.to].get(flow.segment) is flow]
        self.now = end

    def run(self):
        for node, streams in enumerate(self.streams):
            for stream in streams:
                self.read_on(node, stream, 0.0)
        while any(self.alive[node] and at is None for node, at in enumerate(self.ended_s)):
            self.step()
        ended = [at for node, at in enumerate(self.ended_s) if self.alive[node]]
        self.warm_s, self.copy = max(ended), sum(self.sizes)
        return self


# ------------------------------------------------------------------ loads

def model(count, size, order, **how):
    """All nodes load one model with one stream. order: 'same', or 'each' node begins at another place."""
    segments = -(-size // SEGMENT)
    whole = list(range(segments))

    def streams(node):
        first = segments * node // count if order == 'each' else 0
        return [Stream(whole[first:] + whole[:first], WINDOW)]
    return Fleet(count, [SEGMENT] * segments, streams, **how).run()


def bench(count, objects, size, large, large_size, cap, conns, **how):
    """The load of `scripts/bench fleet`, case start: small objects in an order by chance, the same at all nodes, and
    large objects, one after another. All is one machine, so the network is fast."""
    each = -(-large_size // SEGMENT)
    small = list(range(objects))
    random.Random(7).shuffle(small)
    larges = list(range(objects, objects + large * each))
    how = {'nic': 2 * GB, 'origin': cap, 'connection': cap, 'step_s': 0.01, **how}
    sizes = [size] * objects + [min(SEGMENT, large_size - i % each * SEGMENT) for i in range(large * each)]
    return Fleet(count, sizes, lambda node: [Stream(larges, WINDOW), Stream(small, conns)], **how).run()


# ------------------------------------------------------------------ printing

COLUMNS = '{:34} {:>8} {:>8} {:>10} {:>10} {:>12}'


def head():
    print(COLUMNS.format('', 'warm', 'bound', 'origin', 'hottest', 'hottest'))
    print(COLUMNS.format('', 's', 's', 'copies', 'of mean', 'GB sent'), flush=True)


def row(name, fleet):
    """bound: no fleet is faster than the origin gives one copy, and a node takes one."""
    sent = sorted(fleet.sent)
    mean = sum(sent) / fleet.count
    print(COLUMNS.format(name, f'{fleet.warm_s:.1f}', f'{fleet.copy / min(fleet.nic, fleet.origin):.1f}',
                         f'{fleet.origin_bytes / fleet.copy:.4f}', f'{sent[-1] / mean:.2f}' if mean else '-',
                         f'{sent[-1] / GB:.1f}'), flush=True)


def tables(count, size, gbits, steps_s):
    """steps_s: of {order: seconds}; a twentieth of the time that a segment takes."""
    origin = 10 * GB
    print(f'{count} nodes load {size / GB:.0f} GB, the origin gives {origin / GB:.0f} GB/s (80 MB/s a connection)')
    head()
    for gbit in gbits:
        for order, step_s in steps_s.items():
            how = {'nic': gbit * GB / 8, 'origin': origin, 'connection': 80 * MB, 'step_s': step_s}
            whole = model(count, size, order, **how)
            row(f'{gbit} Gbit/s, {order} order', whole)
            if step_s > 0.02:    # that would take hours
                continue
            deaths = {node: whole.warm_s / 3 for node in range(3, count, 20)}
            row('  one node in 20 dies', model(count, size, order, deaths=deaths, **how))
            row('  ... cuts go on at the next node', model(count, size, order, deaths=deaths, after_cut='next', **how))


def bench_table():
    print('8 nodes with the load of `scripts/bench fleet`, case start')
    head()
    for name, count in (('8 nodes', 8), ('one node alone', 1)):
        row(name, bench(count, 2000, 100 * 1024, 1, 512 * MIB, 20 * MB, 8))


# ------------------------------------------------------------------ facts

def near(value, want, part):
    return abs(value - want) <= part * want


def facts():
    """(text, whether it holds, detail) ..."""
    how = {'nic': 1 * GB, 'origin': 1 * GB, 'connection': 80 * MB, 'step_s': 0.01}
    size = 40 * SEGMENT
    alone = model(1, size, 'same', **how)
    yield 'one node takes as long as its connections need', \
        near(alone.warm_s, 4 * (SEGMENT / (80 * MB) + 0.02), 0.1), alone.warm_s
    narrow = model(1, size, 'same', **{**how, 'nic': 200 * MB})
    yield '... or as its network', near(narrow.warm_s, size / (200 * MB), 0.1), narrow.warm_s
    for order in ('same', 'each'):
        fleet = model(12, size, order, **how)
        moved = sum(fleet.sent) + fleet.origin_bytes
        yield f'{order}: the origin gives one copy', near(fleet.origin_bytes, size, 1e-6), fleet.origin_bytes / size
        yield f'{order}: ... by one GET a segment', fleet.origin_gets == 40, fleet.origin_gets
        yield f'{order}: each node gets one copy', near(moved, 12 * size, 1e-6), moved / size
        yield f'{order}: no fleet is faster than its links', fleet.warm_s >= size / (1 * GB), fleet.warm_s
        busiest = max(range(12), key=lambda node: sum(rank[0] == node for rank in fleet.ranks))
        yield f'{order}: the node that owns most sends most', max(fleet.sent) == fleet.sent[busiest], fleet.sent
        later = model(12, size, order, cut_through=False, **how)
        yield f'{order}: cut-through is faster', fleet.warm_s < later.warm_s, (fleet.warm_s, later.warm_s)
        deaths = {5: fleet.warm_s / 2}
        cut, second = (model(12, size, order, deaths=deaths, after_cut=after, **how) for after in ('origin', 'next'))
        share = sum(rank[0] == 5 for rank in fleet.ranks) * SEGMENT
        yield f'{order}: a death costs the origin bytes', cut.origin_bytes > size, cut.origin_bytes / size
        yield (f'{order}: ... no fewer, where cuts go on at the origin', cut.origin_bytes >= second.origin_bytes,
               (cut.origin_bytes / size, second.origin_bytes / size))
        yield (f'{order}: ... at most the share of the node, where the second goes on',
               size < second.origin_bytes <= size + share + 1, (second.origin_bytes / size, share / size))
        yield (f'{order}: all others get all', all(sum(cut.done[node]) == 40 for node in range(12) if node != 5),
               [sum(done) for done in cut.done])
    spread, lockstep = (model(24, size, order, **{**how, 'origin': 10 * GB}) for order in ('each', 'same'))
    yield 'the owners of what all read at once are the narrowest place', spread.warm_s < 0.8 * lockstep.warm_s, \
        (spread.warm_s, lockstep.warm_s)
    weighted = Fleet(4, [SEGMENT] * 4000, lambda node: [], weights=[1, 1, 2, 4], **how)
    owned = [sum(rank[0] == node for rank in weighted.ranks) / 4000 for node in range(4)]
    yield 'a node owns a share by its weight', all(near(own, w / 8, 0.2) for own, w in zip(owned, (1, 1, 2, 4))), owned
    small = bench(4, 100, 100 * 1024, 1, 48 * MIB, 40 * MB, 8)
    yield 'the load of the bench takes as long as the origin', \
        near(small.warm_s, small.copy / (40 * MB), 0.1), small.warm_s


def check():
    wrong = 0
    for text, holds, detail in facts():
        print(f'{"ok   " if holds else "WRONG"} {text}' + ('' if holds else f': {detail}'))
        wrong += not holds
    return 1 if wrong else 0


def main():
    if '--check' in sys.argv:
        return check()
    if '--bench' in sys.argv:
        bench_table()
    elif '--quick' in sys.argv:
        tables(100, 14 * GB, (100, 25), {'each': 0.01, 'same': 0.01})
    else:
        tables(1000, 140 * GB, (100,), {'each': 0.01, 'same': 0.05})
    return 0


if __name__ == '__main__':
    sys.exit(main())
