"""Where the list of nodes comes from, and what clients see when it is wrong: DNS lists the dead, nothing, or a thousand;
DNS is down; etcd is gone. The nodes keep what they know, and nobody waits."""
from etcd import PREFIX, Etcd, coded, need_etcd
from fleet_faults import *
from name_server import NameServer

SERVICE = "_penstock._tcp.fleet.test"


def listed(fleet, dns, which, more=()):
    """DNS has these nodes from now on."""
    dns.records[SERVICE] = {"SRV": [(0, fleet.ports[n], "node.test") for n in which] + list(more)}
    dns.records["node.test"] = {"A": ["127.0.0.1"]}


def status(node):
    return document(node)["fleet"]


def dead_ones(story, fleet, dns):
    """DNS lists a node that is dead, an address where nobody ever was, and one that takes connections and says nothing."""
    mute = socket.create_server(("127.0.0.1", 0))
    nowhere, silent = f"127.0.0.1:{free_port()}", f"127.0.0.1:{mute.getsockname()[1]}"
    listed(fleet, dns, range(3), [(0, int(a.split(":")[1]), "node.test") for a in (nowhere, silent)])
    a, b, c = fleet.nodes
    for address in (nowhere, silent):
        row = wait_state(a, address, "away")
        story.fact(f"an address that does not answer: {row['why']}", row["why"] and not row["asked"], row)
    fleet.wait_others(fleet.nodes, 2)
    with Load([a, b], "bucket/dead") as load:
        load.wait(10)
        c.kill()
        fleet.wait_others([a, b], 1)
        asked = [rows(n)[fleet.addresses[2]]["asked"] for n in (a, b)]
        load.wait(60)
    story.same("DNS lists a dead node: no client notices", load.wrong, [])
    found = [rows(n)[fleet.addresses[2]] for n in (a, b)]
    story.same("... and nobody asks it, as long as it is listed", [row["asked"] for row in found], asked)
    story.in_time("... after one deadline", max(row["failed"] for row in found) <= 2, found)
    listed(fleet, dns, range(2))
    wait_for("it is not listed any more", lambda: fleet.addresses[2] not in rows(a))
    fleet.nodes[2] = c.again()
    listed(fleet, dns, range(3))
    fleet.wait_others(fleet.nodes, 2)
    story.fact("a node that is back, and listed, is a peer", True)


def nothing(story, fleet, dns):
    """DNS answers nothing, or not at all: the nodes keep their list."""
    for text, mode, part in (("an empty answer", "answer", "no SRV records"), ("SERVFAIL", "servfail", "SERVFAIL"),
                             ("no answer", "silent", "no name server answered")):
        dns.mode = mode
        if mode == "answer":
            dns.records[SERVICE] = {}
        with Load(fleet.nodes[:2], f"bucket/nothing/{mode}") as load:
            wait_for(f"{text}: a look fails", lambda part=part: part in status(fleet.nodes[0])["last_failure_why"])
            shared = fleet.sum("bytes")
            load.wait(10)
            wait_for("they share", lambda shared=shared: fleet.sum("bytes") > shared)
        fleet.wait_others(fleet.nodes, 2)
        story.same(f"DNS has {text}: the nodes share as before", load.wrong, [])
    dns.mode = "answer"


def thousand(story, origin, dns):
    """A list of a thousand: they are connected to over a minute, and clients do not wait for that."""
    counter = Counter()
    hosts = [f"127.{40 + n // 250}.0.{n % 250 + 1}" for n in range(1000)]
    dns.records[SERVICE] = {"SRV": [(0, counter.port, f"n{n}.test") for n in range(1000)]}
    dns.records.update({f"n{n}.test": {"A": [host]} for n, host in enumerate(hosts)})
    fleet = Fleet(story, origin, 1, 0, peers=f"dns:{SERVICE}")
    node = fleet.start(0, env={"PENSTOCK_NAME_SERVER": dns.address})
    wait_for("they are listed", lambda: len(rows(node)) == 1000)
    with Load([node], "bucket/thousand") as load:
        wait_for("150 are connected to", lambda: len(counter.first) >= 150)
    times = sorted(counter.first.values())[:150]
    early = [(n, at - times[0]) for n, at in enumerate(times) if at - times[0] < 0.06 * n - 1]
    story.same("a thousand names: 60 ms lie between one new connection and the next", early[:3], [])
    story.same("... and clients get their bytes meanwhile", load.wrong, [])
    began = time.monotonic()
    story.same("it stops", node.stop(), 0)
    story.in_time("... at once", time.monotonic() - began < 10, time.monotonic() - began)


class Counter:
    """Takes connections at each address of this machine on one port, and ends them: {address: when it was first called}."""

    def __init__(self):
        self.first = {}
        self.listener = socket.create_server(("0.0.0.0", 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            connection, _ = self.listener.accept()
            self.first.setdefault(connection.getsockname()[0], time.monotonic())
            connection.close()


def etcd_gone(story, origin):
    """The nodes enter themselves in etcd; then it is gone, and comes back with nothing in it."""
    etcd = Etcd(story, story.path("etcd"))
    fleet = Fleet(story, origin, 2, peers=f"etcd:{etcd.url}/{PREFIX}")
    fleet.wait_others(fleet.nodes, 1)
    with Load(fleet.nodes, "bucket/etcd") as load:
        etcd.kill()
        shutil.rmtree(etcd.folder)
        wait_for("both know that it is gone", lambda: all(status(n)["last_failure_why"] for n in fleet.nodes))
        shared = fleet.sum("bytes")
        load.wait(20)
        wait_for("they share", lambda: fleet.sum("bytes") > shared)
        fleet.wait_others(fleet.nodes, 1)
        story.fact("etcd is gone: the nodes keep their list, and share", True)
        etcd = etcd.again()
        wait_for("both have entered themselves again", lambda: sorted(etcd.keys().values()) == sorted(fleet.addresses))
        load.wait(10)
    story.same("it returns, empty: they enter themselves again; no client has noticed", load.wrong, [])
    fleet.nodes[1].stop()
    story.same("a node that stops leaves the list", list(etcd.keys().values()), fleet.addresses[:1])
    etcd.call("kv/deleterange", {"key": coded(PREFIX + "/"), "range_end": coded(PREFIX + "0")})
    fleet.nodes[0].stop()
    etcd.kill()


with Story("n24 the lists that fleets have") as story, NameServer() as dns:
    use_tests_daemon()
    origin = story.origin()
    fleet = Fleet(story, origin, 3, 0, peers=f"dns:{SERVICE}")
    listed(fleet, dns, range(3))
    fleet.nodes = [fleet.start(n, env={"PENSTOCK_NAME_SERVER": dns.address}) for n in range(3)]
    fleet.wait_others(fleet.nodes, 2)
    dead_ones(story, fleet, dns)
    nothing(story, fleet, dns)
    for node in fleet.nodes:
        node.stop()
    thousand(story, origin, dns)
    try:
        need_etcd()
    except Skip as why:
        story.note(f"not tried: {why}")
    else:
        etcd_gone(story, origin)
