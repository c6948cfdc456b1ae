"""memory_run.py - a data set of 16 times the memory there is, read in 512 MiB (B12). SPDX-License-Identifier: Apache-2.0

128 shards of 64 MiB lie in a folder, which is the origin. Penstock runs in a memory cgroup of 512 MiB, alone in it and
with `memory` as it is by itself; 8 readers, outside, read whole shards in an order of their own, cold at first, for 10
minutes. The baseline is 8 bare readers of the same files in a cgroup of the same size, before and after: they go through
the page cache, by a mebibyte. Each mebibyte has a stamp, which is compared. No read may fail, and nothing may be killed.

Needs root, and cgroups of version 1 or 2 that may be made at the root of their tree; 20 GB below BENCH_FOLDER. --quick: 1
minute, the same data.
"""

import multiprocessing
import os
import random
import socket
import time

from harness import ACCESS_KEY, MIB, SECRET_KEY, Client, free_port, plain
from stage import Failed, Penstock, Stage, note

import harness

LIMIT, SHARDS, SHARD_MIB, READERS = 512 * MIB, 128, 64, 8
TREES = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control", "memory.max_usage_in_bytes"),
         ("/sys/fs/cgroup", "memory.max", "memory.events", "memory.peak"))


class Group:
    """A memory cgroup of our own, of either version."""

    def __init__(self, name):
        for tree, limit, self.events, self.peak in TREES:
            self.folder = os.path.join(tree, f"penstock-bench-{os.getpid()}-{name}")
            try:
                if tree == "/sys/fs/cgroup":
                    self.write(tree, "cgroup.subtree_control", "+memory")
                os.mkdir(self.folder)
                self.write(self.folder, limit, str(LIMIT))
                return
            except OSError as failure:
                why = failure
                if os.path.isdir(self.folder):
                    os.rmdir(self.folder)
        raise Failed(f"a memory cgroup can't be made: {why}")

    @staticmethod
    def write(folder, name, text):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)

    def enter(self):
        self.write(self.folder, "cgroup.procs", str(os.getpid()))

    def read(self, name):
        with open(os.path.join(self.folder, name)) as f:
            return f.read()

    def kills(self):
        return sum(int(line.split()[1]) for line in self.read(self.events).splitlines() if line.startswith("oom_kill "))

    def remove(self):
        for _ in range(100):
            try:
                return os.rmdir(self.folder)
            except OSError:    # its last process is still ending
                time.sleep(0.1)


# ---- the shards ----

def stamp(shard, mib):
    return b"shard %4d mebibyte %4d " % (shard, mib)


def make_shards(folder):
    os.makedirs(folder)
    filling = os.urandom(MIB)
    for shard in range(SHARDS):
        with open(os.path.join(folder, f"{shard:03d}"), "wb") as f:
            for mib in range(SHARD_MIB):
                at = stamp(shard, mib)
                f.write(at)
                f.write(filling[len(at):])
            f.flush()
            os.fsync(f.fileno())


def forget(*folders):
    """The page cache keeps nothing of these files."""
    for top in folders:
        for folder, _, names in os.walk(top):
            for name in names:
                fd = os.open(os.path.join(folder, name), os.O_RDONLY)
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


# ---- readers: a process each ----

def is_right(buffer, shard, mib):
    want = stamp(shard, mib)
    return buffer[:len(want)] == want


class Bare:
    def __init__(self, folder, group):
        self.folder, self.buffer = folder, memoryview(bytearray(MIB))
        group.enter()

    def read(self, shard, took):
        with open(os.path.join(self.folder, f"{shard:03d}"), "rb", buffering=0) as f:
            for mib in range(SHARD_MIB):
                if f.readinto(self.buffer) != MIB or not is_right(self.buffer, shard, mib):
                    return False
                took(MIB)
        return True


class ByS3:
    def __init__(self, port):
        self.client, self.buffer = Client(port), memoryview(bytearray(MIB))
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def read(self, shard, took):
        self.socket.sendall(self.client.head_of("GET", f"bucket/{shard:03d}"))
        head = b""
        while b"\r\n\r\n" not in head:
            more = self.socket.recv(4096, socket.MSG_PEEK)
            if not more:
                return False
            end = (head + more).find(b"\r\n\r\n")
            head += self.socket.recv(len(more) if end < 0 else end + 4 - len(head))
        if not head.startswith(b"HTTP/1.1 200 ") or b"content-length: %d\r\n" % (SHARD_MIB * MIB) not in head.lower():
            return False
        for mib in range(SHARD_MIB):
            got = 0
            while got < MIB and (more := self.socket.recv_into(self.buffer[got:])):
                got += more
            if got < MIB or not is_right(self.buffer, shard, mib):
                return False
            took(MIB)
        return True


def reader(make, number, end, pipe):
    """Whole shards in an order of its own until `end`; tells [(second, bytes)] and how many reads failed."""
    order, failed, by_second = random.Random(number), 0, {}
    began = time.monotonic()

    def took(count):
        second = int(time.monotonic() - began)
        by_second[second] = by_second.get(second, 0) + count
    source = None
    while time.monotonic() < end:
        for shard in order.sample(range(SHARDS), SHARDS):
            try:
                source = source or make()
                good = source.read(shard, took)
            except OSError:
                good = False
            if not good:
                failed, source = failed + 1, None
                time.sleep(0.1)
            if time.monotonic() >= end:
                break
    pipe.send((by_second, failed))


def read_for(seconds, make):
    """(MB/s of each second, failed reads)"""
    began = time.monotonic()
    readers = []
    for number in range(READERS):
        mine, theirs = multiprocessing.Pipe()
        process = multiprocessing.Process(target=reader, args=(make, number, began + seconds, theirs))
        process.start()
        theirs.close()
        readers.append((process, mine))
    told = [pipe.recv() for _, pipe in readers]
    took = time.monotonic() - began
    for process, _ in readers:
        process.join()
    rates = [sum(by_second.get(second, 0) for by_second, _ in told) / 1e6 for second in range(int(took) + 1)]
    return sum(rates) / took, rates, sum(failed for _, failed in told)


# ---- the run ----

def bare(folder, seconds, name):
    forget(folder)
    group = Group(name)
    try:
        rate, _, failed = read_for(seconds, lambda: Bare(folder, group))
        if failed or group.kills():
            raise Failed(f"bare reads failed: {failed}, killed: {group.kills()}")
        return rate
    finally:
        group.remove()


def penstock_in(stage, group, origin):
    wrapper = stage.path("penstock-in-group")
    with open(wrapper, "w") as f:
        f.write(f'#!/bin/sh\necho $$ >{group.folder}/cgroup.procs\nexec {harness.PENSTOCK} "$@"\n')
    os.chmod(wrapper, 0o755)
    harness.PENSTOCK, ours = wrapper, harness.PENSTOCK
    try:
        return Penstock(stage, {"listen": f"127.0.0.1:{free_port()}", "admin_listen": f"127.0.0.1:{free_port()}",
                                "cache_dir": stage.path("cache"), "cache_size": "12GiB", "origin": f"dir:{origin}",
                                "access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "freshness": "immutable"})
    finally:
        harness.PENSTOCK = ours


def run(figures, quick, subject):
    if subject != "penstock":
        note("memory: nginx has no such setting")
        return
    seconds, beside = (60, 15) if quick else (600, 150)
    with Stage(quick, subject) as stage:
        folder = stage.path("origin/bucket")
        make_shards(folder)
        before = bare(folder, beside, "before")
        note(f"memory: bare, before: {before:.0f} MB/s")
        forget(folder)
        group = Group("penstock")
        try:
            server = penstock_in(stage, group, stage.path("origin"))
            status = harness.json.loads(plain(server.admin_port, "GET", "/status").body)["memory"]
            note(f"memory: {status['bytes'] // MIB} MiB, {status['from']}")
            rate, rates, failed = read_for(seconds, lambda: ByS3(server.port))
            kills = group.kills()
            note(f"memory: {failed} reads failed, {kills} kills")
            peak, metrics = server.memory(), server.metrics()
            server.stop()
        finally:
            group.remove()
        cold = next((i for i in range(len(rates)) if sum(rates[:i]) >= SHARDS * SHARD_MIB * 1.05), len(rates))
        note(f"memory: {rate:.0f} MB/s in {seconds} s; in the first {cold} s {sum(rates[:cold]) / max(cold, 1):.0f}, "
             f"in the last quarter {sum(rates[-len(rates) // 4:]) / max(len(rates) // 4, 1):.0f}; resident at the end {peak // MIB} MiB, its own "
             f"{int(metrics.get('penstock_own_memory_bytes', 0)) // MIB} MiB")
        after = bare(folder, beside, "after")
        note(f"memory: bare, after: {after:.0f} MB/s")
        figures.put("memory", "512 MiB, 8 GiB of shards", "read", "MB/s", [rate], "bare", [(before + after) / 2])
        figures.put("memory", "512 MiB, 8 GiB of shards", "failed reads", "", [failed])
        figures.put("memory", "512 MiB, 8 GiB of shards", "killed for memory", "", [kills])
        if failed or kills or not server.killed and rate < 0.8 * (before + after) / 2:
            raise Failed(f"{failed} reads failed, {kills} kills, {rate / ((before + after) / 2):.2f} of the bare rate (0.8 is promised)")
