"""fleet.py - nodes of a fleet over one origin, and when a change through one of them must be seen at another.
SPDX-License-Identifier: Apache-2.0

A node that is killed, stopped or frozen can't hear of writes, and the others can't hear of its own. That time is an
*absence* of the node. It begins before the fault, and ends when a write through each node has been seen at each other
node: hints arrive in their order, so a node that has seen this one has heard of all earlier ones."""
from collections import Counter

from peering import *

EACH = range(3)
HEARD_NS = 10**9    # the other nodes hear of a change within this time
MARKS = "marks"     # a bucket of immutable objects: only a hint can change what a node says


class Nodes:
    """Three nodes that know each other by a static list."""

    def __init__(self, story, origin, name, url=None, env=None, **settings):
        fleet = Fleet(story, f"ca-{name}")
        cert, key = fleet.node(f"node-{name}", f"DNS:{FLEET}")
        ports = [free_port() for _ in EACH]
        self.origin, self.marks, self.absences, self.since = origin, 0, [], [None for _ in EACH]
        buckets = {MARKS: {"freshness": "immutable"}, **settings.pop("buckets", {})}
        self.nodes = [story.penstock(
            origin=url or origin.url, cache_dir=story.path(f"cache-{name}-{n}"), peer_listen=f"127.0.0.1:{port}", peer_name=FLEET,
            peers=",".join(f"127.0.0.1:{other}" for other in ports), peer_tls_cert_file=cert, peer_tls_key_file=key,
            peer_tls_ca_file=fleet.authority.file, access_log=False, buckets=buckets, env=env,
            **settings)
            for n, port in enumerate(ports)]
        for bucket in buckets if hasattr(origin, "client") else ():
            check(origin.client.ask("PUT", bucket).status == 200, f"no bucket {bucket}")
        self.wait_known()

    def wait_known(self):
        for node in self.nodes:
            wait_for("the nodes know each other", lambda: node.metric("penstock_peers") == len(EACH) - 1)

    # ---- faults ----

    def leaves(self, n):
        """To be called before node n can hear no more."""
        self.since[n] = time.monotonic_ns()

    def again(self, n):
        self.nodes[n] = self.nodes[n].again()

    def freeze(self, n):
        os.kill(self.nodes[n].pid, signal.SIGSTOP)

    def thaw(self, n):
        os.kill(self.nodes[n].pid, signal.SIGCONT)

    def wait_whole(self):
        """Waits until each node has heard from each other; notes the absences. Returns how long that took."""
        began = time.monotonic()
        self.wait_known()
        together(*(lambda a=a, b=b: self.wait_heard(a, b) for a in EACH for b in EACH if a != b))
        now = time.monotonic_ns()
        for n in EACH:
            if self.since[n] is not None:
                self.absences.append((n, self.since[n], now))
                self.since[n] = None
        return time.monotonic() - began

    def wait_heard(self, a, b):
        """Waits until a write through node a is seen at node b, which has a copy from before it."""
        key, mark = f"{MARKS}/{a}-{b}", b"%f" % time.monotonic()
        writes = lambda body: self.nodes[a].put(key, body).status == 200
        wait_for("a mark is written", lambda: writes(b"before " + mark))
        wait_for("... and cached", lambda: (r := self.nodes[b].get(key)).status == 200 and r.cache == "hit")
        wait_for("... and the next one", lambda: writes(mark))
        wait_for("... and seen", lambda: self.nodes[b].get(key).body == mark)

    def sum(self, name):
        return int(sum(node.metric(name) for node in self.nodes if node.alive()))

    def stop(self):
        for node in self.nodes:
            node.stop()


def heard_by(absences, a, b, at, heard_ns=HEARD_NS):
    """When a change that was over at node a `at` must have been heard of at node b. absences: [(node, begin, end)]."""
    if a == b:
        return at
    due = at + heard_ns
    for n, begin, end in sorted(absences, key=lambda absence: absence[1]):
        if n in (a, b) and begin <= due and at <= end:
            due = max(due, end + heard_ns)
    return due


class Faults:
    """One after the other, for live() of consistency.py. Each is over, and its absence noted, before the next one."""

    def __init__(self, fleet, random, *faults):
        self.fleet, self.random, self.faults = fleet, random, faults
        self.next, self.done, self.whole_s = time.monotonic() + 0.3, Counter(), 0

    def __call__(self, _):
        if time.monotonic() < self.next:
            return
        n, fault = self.random.randrange(len(EACH)), self.random.choice(self.faults)
        if fault == "origin killed":
            self.fleet.origin = self.fleet.origin.again()
        else:
            self.absent(n, fault)
            self.whole_s = max(self.whole_s, self.fleet.wait_whole())
        self.done[fault] += 1
        self.next = time.monotonic() + 3

    def absent(self, n, fault):
        fleet, node = self.fleet, self.fleet.nodes[n]
        fleet.leaves(n)
        if fault == "frozen":
            fleet.freeze(n)
            time.sleep(self.random.uniform(0.2, 3))
            fleet.thaw(n)
            return
        if fault == "killed":
            node.kill()
        else:
            node.stop()
        time.sleep(self.random.choice((0, 0, 1)))
        fleet.again(n)
