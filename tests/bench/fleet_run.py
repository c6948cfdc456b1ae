"""fleet_run.py - nodes that share what one of them fetched. SPDX-License-Identifier: Apache-2.0

The nodes are daemons with certificates of one authority, which know each other by a list. The clients are
tests/bench/fleet.c, which compares all bytes. The origin takes 20 ms to the first byte.

`start`: 8 nodes without a byte. The clients of all of them read one object of 512 MiB and 2,000 of 100 KiB, in the same
order and at the same time, as the nodes of a job that starts. The origin gives 20 MB/s, all connections together. The
baseline is the same load with one node without peers. origin_bytes: against one copy of the objects. origin_requests:
against those of the one node. slowest: the time until the clients of the slowest node have all. hottest: the bytes that
the busiest node sent to its peers, against the mean; beside the same of tests/policy/fleet_sim.py. simulated: slowest,
against the simulation. cpu: of all nodes. idle: the share of the processors' time that nobody used. Below 0.15, the
figures are the machine's, and not the fleet's.

`kill`, `stop`: 4 nodes. The clients of three of them make 100,000 GETs of 10,000 objects of 32 KiB, 800 a second each,
first reads and repetitions. They also read 16 objects of 24 MiB, of which the origin gives 4 MB/s a connection, so that
such reads are always in progress. After half of the GETs, the fourth node, which owns a quarter of all, is killed
(SIGKILL), or stopped (SIGSTOP). The baseline is the same load while the fourth node lives. errors: GETs that failed, or
got wrong bytes. silence_ms: the longest time without a byte on a connection with an open request; silence_more_ms: by
how much it is longer than that of the baseline. origin_bytes: those beyond the baseline's, against the share of the
fourth node, a quarter of one copy. rebalance_bytes: bytes between nodes while nobody reads, after the fourth node has
come back (killed: a new process with the same cache).
"""

import os
import shutil
import signal
import sys
import time

from authority import Authority
from harness import KIB
from stage import (MIB, ROOT, SIGN, Failed, Stage, cpu_us, facts, fraction, free_port, in_turn, note, tool,
                   wait_for)

sys.path.insert(0, os.path.join(ROOT, "tests", "policy"))
import fleet_sim  # noqa: E402

NAME = "fleet.bench"
SLOW = "first_byte_ms=20"
CAP = 20_000_000    # of the origin in the case `start`, bytes a second
IDLE_LEAST = 0.15
QUIET_S = 3         # nobody reads, and no bytes may move
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Load:
    """What the clients of each node read."""

    def __init__(self, objects, size, large, large_size, gets=0, rate=0, conns=8):
        self.objects, self.size, self.large, self.large_size = objects, size, large, large_size
        self.gets, self.conns = gets, conns    # gets: of each node; 0: each small object once
        self.rate = rate                       # GETs a second and node; 0: as fast as it goes

    @property
    def bytes(self):
        return self.objects * self.size + self.large * self.large_size

    def flags(self, place):
        return {"path": f"/bench/{place}/size-{self.size}-%05u", "objects": self.objects, "bytes": self.size,
                "requests": self.gets or self.objects, "conns": self.conns, "rate": self.rate,
                "large": f"/bench/{place}/large/size-{self.large_size}-%05u", "large-bytes": self.large_size,
                "large-objects": self.large}


FULL_START, QUICK_START = Load(2000, 100 * KIB, 1, 512 * MIB), Load(200, 100 * KIB, 1, 48 * MIB)
FULL_DEATH = Load(10000, 32 * KIB, 16, 24 * MIB, gets=33334, rate=800, conns=16)
QUICK_DEATH = Load(600, 32 * KIB, 2, 24 * MIB, gets=2000, rate=500, conns=16)


class Fleet:
    """Daemons that know each other by a list, each with a cache of its own."""

    def __init__(self, stage, origin, authority, count):
        cert, key = authority.sign(f"node-{free_port()}", host=f"DNS:{NAME}")
        ports = [free_port() for _ in range(count)]
        self.nodes = [stage.subject(origin, 4096 * MIB, peer_listen=f"127.0.0.1:{port}", peer_name=NAME,
                                    peer_tls_cert_file=cert, peer_tls_key_file=key, peer_tls_ca_file=authority.file,
                                    peers=",".join(f"127.0.0.1:{other}" for other in ports)) for port in ports]
        self.wait_for_others(self.nodes, count - 1)

    def wait_for_others(self, nodes, count):
        for node in nodes:
            wait_for(f"a node knows {count} others", lambda n=node: n.metric("penstock_peers") == count)

    def each(self, name):
        return [node.metric(f"penstock_{name}") for node in self.nodes]

    def told(self):
        names = ("asked", "bytes", "to_origin", "failed", "bad")
        return ", ".join(f"{name} {sum(self.each(f'peers_{name}_total')):.0f}" for name in names)

    def end(self):
        end(*self.nodes)


def end(*nodes):
    for node in nodes:
        node.stop()
        shutil.rmtree(node.cache_dir, ignore_errors=True)


def clients(nodes, load, place, **more):
    """The facts of all clients together, with those of each node; what failed and was silent is remarked."""
    text = tool("fleet", *SIGN, ports=",".join(str(node.port) for node in nodes), **load.flags(place), **more)
    lines = [line.split(" ", 1) for line in text.splitlines()]
    for kind, rest in lines:
        if kind in ("error", "silent"):
            note(f"{place}: {kind} {rest}")
    by_node = [facts(rest) for kind, rest in lines if kind == "node"]
    return {**next(facts(rest) for kind, rest in lines if kind == "all"), "nodes": by_node}


def ticks():
    """The processors' time so far: (nobody used it, all)."""
    with open("/proc/stat") as f:
        fields = [int(word) for word in f.readline().split()[1:9]]
    return fields[3] + fields[4], sum(fields)


def counted(origin, nodes, run, then=lambda: None):
    """The facts of a run, with what it cost the origin, the processors' time of the nodes, and the idle share. then: to
    be called before the origin is expected to have no open request."""
    origin.quiet()
    before, (idle, whole), used = origin.totals(), ticks(), cpu_us(node.pid for node in nodes)
    done = run()
    now_idle, now_whole = ticks()
    used = cpu_us(node.pid for node in nodes if node.alive()) - used
    then()
    origin.quiet()
    after = origin.totals()
    cost = {name: after[name] - before[name] for name in ("bytes", "get", "head")}
    return {**done, "origin_bytes": cost["bytes"], "requests_sent": cost["get"] + cost["head"], "gets": cost["get"],
            "heads": cost["head"], "idle": (now_idle - idle) / max(now_whole - whole, 1), "cpu_s": used / 1e6}


# ---- start ----

def start_alone(stage, origin, load, place):
    node = stage.subject(origin, 4096 * MIB)
    done = counted(origin, [node], lambda: clients([node], load, place, seconds=300))
    end(node)
    return done


def start_together(stage, origin, authority, count, load, place):
    fleet = Fleet(stage, origin, authority, count)
    done = counted(origin, fleet.nodes, lambda: clients(fleet.nodes, load, place, seconds=300))
    sent = fleet.each("peer_sent_bytes_total")
    note(f"{place}: {fleet.told()}; origin: {done['gets']} GETs, {done['heads']} HEADs; idle {done['idle']:.2f}")
    fleet.end()
    return {**done, "hottest": hottest(sent)}


def hottest(sent):
    """The bytes of the busiest node, against the mean."""
    return fraction(max(sent), sum(sent) / len(sent))


def start(figures, stage, authority, quick, pairs):
    load, count, cap = (QUICK_START, 4, 2 * CAP) if quick else (FULL_START, 8, CAP)
    origin = stage.origin(SLOW, f"bandwidth_all={cap}")
    fleets, alones = [], []
    for pair in range(pairs):
        fleet, alone = in_turn(
            pair, lambda n=pair: start_together(stage, origin, authority, count, load, f"start-{n}"),
            lambda n=pair: start_alone(stage, origin, load, f"alone-{n}"))
        fleets.append(fleet)
        alones.append(alone)
    slowest = [max(node["wall_ms"] for node in run["nodes"]) / 1e3 for run in fleets]
    alone_s = [run["wall_ms"] / 1e3 for run in alones]
    shape = (load.objects, load.size, load.large, load.large_size, cap, load.conns)
    simulated = [fleet_sim.bench(count, *shape, seed=seed) for seed in range(pairs)]

    def put(metric, unit, values, *against):
        figures.put("fleet", "start", metric, unit, values, *against)
    put("origin_bytes", "bytes", [run["origin_bytes"] for run in fleets], "one copy", [load.bytes] * pairs)
    put("origin_requests", "requests", [run["requests_sent"] for run in fleets], "one node",
        [run["requests_sent"] for run in alones])
    put("origin_gets", "requests", [run["gets"] for run in fleets], "one node", [run["gets"] for run in alones])
    put("slowest", "s", slowest, "one node", alone_s)
    put("simulated", "s", slowest, "simulation", [fleet.warm_s for fleet in simulated])
    put("alone", "s", alone_s, "origin's bandwidth", [load.bytes / cap] * pairs)
    put("hottest", "of mean", [run["hottest"] for run in fleets], "simulation",
        [hottest(fleet.sent) for fleet in simulated])
    put("errors", "GETs", [run["errors"] for run in fleets])
    put("cpu", "s", [run["cpu_s"] for run in fleets], "one node", [run["cpu_s"] for run in alones])
    put("idle", "of time", [run["idle"] for run in fleets])
    if min(run["idle"] for run in fleets) < IDLE_LEAST:
        note(f"start: the processors were idle for less than {IDLE_LEAST} of the time: the machine is measured")
    origin.stop()


# ---- kill, stop ----

def back(fleet, case):
    """The fourth node, after what became of it, and once all know it again."""
    dead = fleet.nodes[-1]
    if case == "kill":
        dead.kill()    # it is dead, and now it is waited for
        fleet.nodes[-1] = dead.again()
    elif case == "stop":
        os.kill(dead.pid, signal.SIGCONT)
    fleet.wait_for_others(fleet.nodes, len(fleet.nodes) - 1)


def death(stage, origin, authority, load, place, case):
    """The load while the fourth node lives (case None), or dies."""
    fleet = Fleet(stage, origin, authority, 4)
    dead = fleet.nodes[-1]
    how = {"pid": dead.pid, "signal": int(SIGNALS[case]), "after": 3 * load.gets // 2} if case else {}
    try:
        lasting = fleet.nodes[:-1]
        done = counted(origin, lasting, lambda: clients(lasting, load, place, apart=1, seconds=240, **how),
                       lambda: back(fleet, case))
        before = fleet.each("peers_bytes_total")
        time.sleep(QUIET_S)
        moved = sum(fleet.each("peers_bytes_total")) - sum(before)
        note(f"{place} {case or 'without'}: {done['wall_ms'] / 1e3:.1f} s, silence {done['silence_ms']:.0f} ms, "
             f"{done['over_100ms']:.0f} above 100 ms; {fleet.told()}; origin: {done['gets']} GETs, {done['heads']} "
             f"HEADs, {done['origin_bytes'] / load.bytes:.3f} copies; idle {done['idle']:.2f}")
        fleet.end()
    finally:
        if case == "stop" and fleet.nodes[-1].alive():
            os.kill(fleet.nodes[-1].pid, signal.SIGCONT)    # so that it can end
    return {**done, "moved": moved}


def beyond(runs, others, name):
    return [run[name] - other[name] for run, other in zip(runs, others)]


def deaths(figures, stage, authority, quick, pairs, cases):
    load = QUICK_DEATH if quick else FULL_DEATH
    origin, share = stage.origin(SLOW, "match=bench/*/large/*", "bandwidth=4000000"), load.bytes / 4
    runs = {case: [] for case in (None, *cases)}
    for pair in range(pairs):
        turns = list(runs)
        for case in turns[pair % len(turns):] + turns[:pair % len(turns)]:
            runs[case].append(death(stage, origin, authority, load, f"death-{pair}", case))
    lives = runs.pop(None)
    for case, dies in runs.items():
        def put(metric, unit, values, *against):
            figures.put("fleet", case, metric, unit, values, *against)
        put("errors", "GETs", [run["errors"] for run in dies])
        put("silence_ms", "ms", [run["silence_ms"] for run in dies], "all live", [run["silence_ms"] for run in lives])
        put("silence_more_ms", "ms", beyond(dies, lives, "silence_ms"))
        put("origin_bytes", "bytes", beyond(dies, lives, "origin_bytes"), "share of the node", [share] * pairs)
        put("rebalance_bytes", "bytes", [run["moved"] for run in dies])
        put("time", "s", [run["wall_ms"] / 1e3 for run in dies], "all live", [run["wall_ms"] / 1e3 for run in lives])
    figures.put("fleet", "all live", "origin_bytes", "bytes", [run["origin_bytes"] for run in lives], "one copy",
                [load.bytes] * pairs)
    figures.put("fleet", "all live", "errors", "GETs", [run["errors"] for run in lives])


def run(figures, quick, subject, chosen=(), pairs=0):
    """pairs: how many; without it, 3 of `start`, and 5 of the others."""
    if subject != "penstock":
        note("fleet: nginx has no peers")
        return
    if unknown := set(chosen) - {"start", *SIGNALS}:
        raise Failed(f"there is no case {', '.join(sorted(unknown))}: start, kill, stop")
    with Stage(quick, subject) as stage:
        authority = Authority(stage, "fleet-ca")
        if not chosen or "start" in chosen:
            start(figures, stage, authority, quick, pairs or (1 if quick else 3))
        if cases := [case for case in SIGNALS if not chosen or case in chosen]:
            deaths(figures, stage, authority, quick, pairs or (1 if quick else 5), cases)
