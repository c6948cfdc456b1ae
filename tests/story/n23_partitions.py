"""The network between nodes loses packets, and says nothing: one node is cut off from the others, in the middle of its
answers; two nodes can't reach each other; only one direction is lost; it comes and goes each second."""
from fleet_faults import *
from namespaces import HUB, Network


class FarFleet(Fleet):
    """Each node on a machine of its own."""

    def __init__(self, story, network, origin, count):
        self.network = network
        super().__init__(story, origin, count, 0, admin_token="x" * 32)
        self.addresses = [f"{network.host(n)}:{port}" for n, port in enumerate(self.ports)]
        self.shared["peers"] = ",".join(self.addresses)
        self.nodes = [self.start(n) for n in range(count)]

    def start(self, n, **changes):
        listen, admin = free_port(), free_port()
        host = self.network.host(n)
        self.network.hosts.update({listen: host, admin: host, self.ports[n]: host})
        return self.network.on(n, lambda host: super(FarFleet, self).start(
            n, listen=f"{host}:{listen}", admin_listen=f"{host}:{admin}", **changes))


def settled(nodes, pairs):
    """Waits until each of these nodes knows that it can't reach the other."""
    for a, b in pairs:
        wait_state(nodes[a], fleet.addresses[b], "away")


def costs(story, text, before, most):
    """Failures of each node at each other one since."""
    after = failures()
    grown = {pair: count - before[pair] for pair, count in after.items() if count > before[pair]}
    story.in_time(f"{text}: each costs a deadline or two, and not one for each request", max(grown.values(), default=0) <= most, grown)


def knows(story, text, counts):
    """Each node knows so many others: a late answer on a busy machine costs one for a moment."""
    wait_for(text, lambda: [n.metric("penstock_peers") for n in nodes] == counts, 2 * PATIENCE)
    story.fact(text, True)


def failures():
    return {(a, b): rows(nodes[a])[fleet.addresses[b]]["failed"] for a in range(4) for b in range(4) if a != b}


def cut_off(story):
    """Node 3 is cut off from the others while it sends to them. Its own clients and the origin still reach it."""
    origin.tell("match=bucket/slow/*", "bandwidth=2000000")
    large = [f"bucket/slow/size-{4 * MIB + n}-{n}" for n in range(6)]
    before = failures()

    def cut():
        wait_for("answers are under way", lambda: fleet.sum("bytes") > 2 * MIB)
        for n in range(3):
            network.cut(n, 3)
            network.cut(3, n)
        return []
    wrong = sum(together(cut, *[lambda n=n, i=i: read_all(n, large, 2 * i) for i, n in enumerate(nodes)]), [])
    story.same("a node is cut off in the middle of its answers: right bytes on all four", wrong, [])
    with Load(nodes, "bucket/cut") as load:
        load.wait(1)
        settled(nodes, [(n, 3) for n in range(3)] + [(3, n) for n in range(3)])
        load.wait(20)
    story.same("new objects, too", load.wrong, [])
    knows(story, "the others share among themselves", [2, 2, 2, 0])
    costs(story, "a node that is cut off", before, 4)
    network.heal()
    fleet.wait_others(nodes, 3)
    story.fact("the network is whole again: all know all", True)


def two_apart(story):
    before = failures()
    with Load(nodes, "bucket/apart") as load:
        network.cut(0, 1)
        network.cut(1, 0)
        settled(nodes, [(0, 1), (1, 0)])
        load.wait(20)
    story.same("two nodes can't reach each other: no client notices", load.wrong, [])
    knows(story, "only they don't share", [2, 2, 3, 3])
    costs(story, "a partition of two", before, 4)
    network.heal()
    fleet.wait_others(nodes, 3)


def one_way(story):
    before = failures()
    with Load(nodes, "bucket/way") as load:
        network.cut(2, 0)    # the answers of 2 to 0 are lost, and its questions
        settled(nodes, [(0, 2), (2, 0)])
        load.wait(20)
    story.same("one direction is lost: no client notices", load.wrong, [])
    costs(story, "one direction", before, 4)
    network.heal()
    fleet.wait_others(nodes, 3)


def comes_and_goes(story):
    before = failures()
    with Load(nodes, "bucket/comes") as load:
        for _ in range(6):
            for n in range(3):
                network.cut(n, 3)
            time.sleep(1)
            network.heal()
            time.sleep(1)
        load.wait(1)
    story.same("a network that comes and goes each second: no client notices", load.wrong, [])
    costs(story, "it", before, 6)
    fleet.wait_others(nodes, 3)
    story.fact("and when it stays, all know all", True)


with Story("n23 the network between nodes loses packets") as story:
    network = Network(story, 4)
    origin = story.origin("--bind", HUB, "first_byte_ms=5")
    network.hosts[origin.port] = HUB
    origin.url = f"http://{HUB}:{origin.port}"
    fleet = FarFleet(story, network, origin, 4)
    nodes = fleet.nodes
    fleet.wait_others(nodes, 3)
    for play in (cut_off, two_apart, one_way, comes_and_goes):
        story.note(play.__name__)
        play(story)
    story.same("no answer was wrong", fleet.sum("bad"), 0)
