"""fill_run.py - the fill socket beside S3 clients, and beside the bare disk reads below it.
SPDX-License-Identifier: Apache-2.0

Objects of one size, all of them in the cache and its files in memory; one client on this host reads
them in random order: penstock's Python client in batches, boto3 with get_object in a loop,
s3torchconnector's client at that of several concurrencies which was best in this run, and `bare`, a C
program that calls preadv on the cache's own files into as much memory, with as many threads as the
daemon has for fills; and `checked`, the same with a checksum of each block.
rate: objects a second (bare, checked: of their size). cpu: what a MiB costs, client and daemon together, which
others at work on the machine change less. latency: one 4 KiB item a call, by the Python client. """

import glob
import json
import os
import subprocess
import time

import harness
from harness import KIB, expect
from stage import Failed, GIB, MIB, ROOT, Stage, cpu_us, facts, find_tool, note

# name, bytes, objects, items a batch
CASES = (("4k", 4 * KIB, 4096, 256), ("16k", 16 * KIB, 4096, 256), ("128k", 128 * KIB, 1024, 64),
         ("1m", MIB, 256, 32), ("8m", 8 * MIB, 32, 8), ("64m", 64 * MIB, 4, 2))
QUICK = ("4k", "128k", "1m")
CONCURRENCIES = (1, 2, 4, 8, 16)
WARM_TRIES = 60


class Client:
    """One of fill_client.py, in the environment that has what it needs."""

    def __init__(self, stage, python, kind, told, env):
        self.kind = kind
        script = os.path.join(ROOT, "tests", "bench", "fill_client.py")
        self.errors = open(stage.path(f"{kind}.log"), "wb")
        self.process = subprocess.Popen([python, script, kind, json.dumps(told)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, env=env)
        stage.processes.append(self)
        if self.process.stdout.readline() != "ready\n":
            self.fail()

    def fail(self):
        self.stop()
        with open(self.errors.name) as f:
            raise Failed(f"{self.kind}: {f.read()[-500:]}")

    def run(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.fail()
        return json.loads(line)

    def rate(self, seconds):
        told = self.run(seconds)
        return told["got"] / told["seconds"]

    def alive(self):
        return self.process.poll() is None

    def stop(self, seconds=10):
        self.process.stdin.close()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def environment(name, module):
    """The Python of one of scripts/tools' environments, or None."""
    for path in glob.glob(os.path.join(harness.TOOLS, f"{name}-*", "lib", "python3*", "site-packages", module)):
        return os.path.join(path.split("/lib/")[0], "bin", "python3")
    note(f"{module} is not installed (scripts/tools all): left out")
    return None


class Ground:
    """A daemon with a warm cache, and clients of it."""

    def __init__(self, stage, cases):
        self.stage = stage
        self.origin = stage.origin(*(f"objects=bench/{name}-%05d {count} {size}" for name, size, count, _ in cases))
        self.socket = stage.path("fill.sock")
        self.server = stage.subject(self.origin, 4 * GIB, fill_socket=self.socket, access_log="false")
        self.env = {**os.environ, **self.server.client_env(), "PYTHONDONTWRITEBYTECODE": "1",
                    "PYTHONPATH": os.path.join(ROOT, "src", "client", "python")}
        self.pythons = {"penstock": "/usr/bin/python3", "latency": "/usr/bin/python3",
                        "boto3": environment("venv", "boto3"),
                        "crt": environment("readers", "s3torchconnectorclient")}

    def client(self, kind, case, threads=1):
        name, size, count, batch = case
        told = {"url": self.server.endpoint, "socket": self.socket, "bytes": size, "batch": batch,
                "threads": threads, "keys": [f"{name}-{i:05}" for i in range(count)]}
        return Client(self.stage, self.pythons[kind] or "", kind, told, self.env)

    def warm(self, case):
        """Reads all until the origin is not asked any more; then looks whether it is right."""
        name, size, count, _ = case
        for _ in range(WARM_TRIES):
            before = self.origin.totals()["bytes"]
            for i in range(count):
                key = f"bench/{name}-{i:05}"
                if self.server.client.get(key).body != expect(key, 1, 0, size):
                    raise Failed(f"{key} is wrong")
            if self.origin.totals()["bytes"] == before:
                return
            time.sleep(0.3)
        raise Failed(f"{name}: the cache does not get warm")

    def bare(self, case, threads, seconds, check=()):
        """Objects a second, of this size, that preadv alone brings, and processor time a MiB."""
        _, size, _, batch = case
        files = sorted(glob.glob(os.path.join(self.server.cache_dir, "extents", "*")))
        got = facts(subprocess.run([find_tool("bare"), *check, "--threads", str(threads), "--bytes", str(size), "--room",
                                    str(2 * size * batch), "--seconds", str(seconds), *files], check=True,
                                   capture_output=True, text=True).stdout)
        return got["bytes"] / size / got["seconds"], got["cpu_us"] * MIB / got["bytes"]

    def ours(self, client, case, seconds):
        """The same of the daemon and its client."""
        pids = [*self.server.pids(), client.process.pid]
        before = cpu_us(pids)
        told = client.run(seconds)
        return told["got"] / told["seconds"], (cpu_us(pids) - before) * MIB / (told["got"] * case[1])


def best_crt(ground, case, seconds):
    best, chosen = None, 0
    for threads in CONCURRENCIES:
        client = ground.client("crt", case, threads)
        client.run(0.3)
        rate = client.rate(seconds)
        if best is None or rate > chosen:
            best, chosen, winner = client, rate, threads
        else:
            client.stop()
    note(f"{case[0]}: s3torchconnector is best with {winner} threads")
    return best


def measure(figures, ground, case, pairs, seconds):
    threads = min(8, len(os.sched_getaffinity(0)))
    ours = ground.client("penstock", case)
    others = {"boto3": ground.client("boto3", case)} if ground.pythons["boto3"] else {}
    if ground.pythons["crt"]:
        others["s3torchconnector"] = best_crt(ground, case, seconds)
    limits = {"bare": (), "checked": ("--check", "1")}
    rates, costs = ({name: [] for name in ("ours", *more)} for more in ((*limits, *others), limits))
    before = ground.origin.totals()["bytes"]
    ours.run(0.3)
    for _ in range(pairs):
        runs = {"ours": ground.ours(ours, case, seconds),
                **{name: ground.bare(case, threads, max(1, round(seconds)), check) for name, check in limits.items()}}
        for name, (rate, cost) in runs.items():
            rates[name].append(rate)
            costs[name].append(cost)
        for name, client in others.items():
            rates[name].append(client.rate(seconds))
    if ground.origin.totals()["bytes"] != before:
        raise Failed(f"{case[0]}: the origin was asked while hits were measured")
    for client in (ours, *others.values()):
        client.stop()
    for name in (*limits, *others):
        figures.put("fill", f"{case[0]} x {case[3]}", "rate", "objects/s", rates["ours"], name, rates[name])
    for name in limits:
        figures.put("fill", f"{case[0]} x {case[3]}", "cpu", "us/MiB", costs["ours"], name, costs[name])


def latencies(figures, ground, case, pairs, seconds):
    client = ground.client("latency", case)
    client.run(0.3)
    runs = [client.run(seconds)["got"] for _ in range(pairs)]
    for name, part in (("p50_us", 0.5), ("p99_us", 0.99)):
        figures.put("fill", "4k alone", name, "us", [run[int(len(run) * part)] for run in runs])


def run(figures, quick, subject, pairs=0):
    if subject != "penstock":
        note("fill: there is nothing like it in nginx")
        return
    cases = [case for case in CASES if not quick or case[0] in QUICK]
    pairs, seconds = pairs or (3 if quick else 5), 1.0
    for case in cases:    # each a cache of its own: what `bare` reads is what we read
        with Stage(quick, subject) as stage:
            ground = Ground(stage, [case])
            ground.warm(case)
            measure(figures, ground, case, pairs, seconds)
            if case[0] == "4k":
                latencies(figures, ground, case, pairs, seconds)
