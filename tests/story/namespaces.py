"""namespaces.py - machines of a network, in one: each has a network namespace of its own. SPDX-License-Identifier: Apache-2.0

    network = Network(story, 4)      # first in the story, before any thread
    network.cut(3, 0)                # what machine 3 sends to machine 0 is lost: nothing says so

The story itself is the router, in a namespace that only it has, at 10.77.0.1; machine n has 10.77.n+1.2. The router forwards
what it is not told to lose. A lost packet leaves no trace: no reset, no "unreachable". Everything is gone when the processes
are. Without root, or where namespaces are not allowed, the story is skipped."""
import ctypes

import harness
from harness import *

CLONE_NEWNET = 0x40000000
HUB = "10.77.0.1"


class Network:
    def __init__(self, story, count):
        if os.geteuid() or not shutil.which("ip") or not shutil.which("nsenter"):
            raise Skip("a network of namespaces needs root, ip and nsenter")
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            raise Skip(f"network namespaces are not allowed here: {os.strerror(ctypes.get_errno())}")
        self.story, self.hosts, self.lost = story, {}, set()
        self.ip("link", "set", "lo", "up")
        self.ip("addr", "add", f"{HUB}/32", "dev", "lo")
        with open("/proc/sys/net/ipv4/ip_forward", "w") as f:    # of this namespace
            f.write("1")
        self.machines = [self.add(n) for n in range(count)]
        self.reach_all()

    @staticmethod
    def ip(*argv, inside=()):
        status, out, err = run([*inside, "ip", *argv])
        if status:
            raise Skip(f"ip {' '.join(argv)}: {err}")

    def add(self, n):
        """A process whose namespace is machine n."""
        holder = Process(self.story, f"machine-{n}", ["unshare", "--net", "sleep", "1000"])
        own = os.readlink("/proc/self/ns/net")
        wait_for("the machine is there", lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own)
        inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
        self.ip("link", "add", f"m{n}", "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        self.ip("addr", "add", f"10.77.{n + 1}.1/24", "dev", f"m{n}")
        self.ip("link", "set", f"m{n}", "up")
        self.ip("addr", "add", f"{self.host(n)}/24", "dev", "eth0", inside=inside)
        for link in ("lo", "eth0"):
            self.ip("link", "set", link, "up", inside=inside)
        self.ip("route", "add", "default", "via", f"10.77.{n + 1}.1", inside=inside)
        return inside

    @staticmethod
    def host(n):
        return f"10.77.{n + 1}.2"

    def reach_all(self):
        """Clients of the harness, which know ports alone, find the address of each port in self.hosts."""
        hosts, wire = self.hosts, harness.Wire

        class FarWire(wire):
            def __init__(self, port, timeout=60, host=None, **how):
                super().__init__(port, timeout, host or hosts.get(port, "127.0.0.1"), **how)
        harness.Wire = FarWire

    def on(self, n, start):
        """Starts a daemon on machine n: start(host)."""
        program, path = harness.PENSTOCK, self.story.path(f"on-{n}")
        with open(path, "w") as f:
            f.write(f"#!/bin/sh\nexec {' '.join(self.machines[n])} {program} \"$@\"\n")
        os.chmod(path, 0o755)
        harness.PENSTOCK = path
        try:
            return start(self.host(n))
        finally:
            harness.PENSTOCK = program

    def cut(self, a, b):
        """What machine a sends to machine b is lost from now on."""
        self.lost.add((a, b))
        self.ip("rule", "add", "from", self.host(a), "to", self.host(b), "blackhole")

    def heal(self):
        for a, b in self.lost:
            self.ip("rule", "del", "from", self.host(a), "to", self.host(b), "blackhole")
        self.lost.clear()
