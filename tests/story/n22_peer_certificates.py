"""Certificates of peers: two fleets under one name, a name of another fleet, an expired one, files that are replaced while
the daemons run, a new authority under load. Whoever lacks the right certificate is no peer, and no client notices."""
from fleet_faults import *

FILES = ("peer_tls_cert_file", "peer_tls_ca_file")


class Files:
    """The files of a node, which change while it runs: a certificate with its key, and the CAs."""

    def __init__(self, story, name, pair, ca):
        self.settings = {"peer_tls_key_file": None, **{what: story.path(f"{name}-{what}") for what in FILES}}
        self.put(pair, [ca])

    def put(self, *sources):
        """Replaces each file at once by what these files have; None: it stays."""
        for what, paths in zip(FILES, sources):
            if paths:
                with open(self.settings[what] + ".new", "w") as f:
                    f.writelines(open(path).read() for path in paths)
                os.rename(self.settings[what] + ".new", self.settings[what])


def why_away(story, text, node, address, part):
    row = wait_for(f"{text}: {part}", lambda: (row := rows(node)[address])["state"] == "away" and part in row["why"] and row,
                   2 * PATIENCE)
    story.fact(f"{text}: {row['why']}", True)


def two_fleets(story, fleet, nodes):
    """0 and 1 are a fleet, 2 and 3 have another authority, 4 has another name. All have one list."""
    fleet.wait_others(nodes[:2], 2)    # the other one, and the one that the story answers for
    fleet.wait_others(nodes[2:4], 1)
    for node, address, part in ((nodes[0], fleet.addresses[2], "certificate"), (nodes[2], fleet.addresses[0], "certificate"),
                                (nodes[0], fleet.addresses[4], "name"), (nodes[4], fleet.addresses[0], "name")):
        why_away(story, "two fleets in one list", node, address, part)
    story.fact("the status has the nodes, and the end of the own certificate", document(nodes[0])["fleet"]["expires"] > "2" and
               len(rows(nodes[0])) == 6, document(nodes[0])["fleet"])
    story.same("the one of another name is alone", nodes[4].metric("penstock_peers"), 0)
    keys = [f"bucket/two/size-{30_000 + n}-{n}" for n in range(20)]
    wrong = sum(together(*[lambda n=n: read_all(n, keys) for n in nodes]), [])
    story.same("clients of all of them get right bytes", wrong, [])
    story.fact("each fleet shares within itself", all(fleet.sum("bytes", pair) > 0 for pair in (nodes[:2], nodes[2:4])))
    strangers = [(i, k, rows(nodes[i])[fleet.addresses[k]]["asked"]) for i in range(5) for k in range(5)
                 if i != k and {i, k} not in ({0, 1}, {2, 3})]
    story.same("... and asks nobody else", [s for s in strangers if s[2]], [])


def replaced(story, fleet, nodes, files):
    """Node 2 gets files of the first fleet, while it runs: first bad ones."""
    with Load([nodes[0], nodes[2]], "bucket/replaced", each_s=0.2) as load:
        for text, pair, part in (("one that has expired", fleet.node("expired", ends="20240101000000Z"), "expired"),
                                 ("one with a name of its own", fleet.node("n2", host="DNS:n2.internal"), "name")):
            files.put(pair, [fleet.authority.file])
            why_away(story, f"its certificate becomes {text}", nodes[0], fleet.addresses[2], part)
            for address in fleet.addresses[:2]:
                wait_state(nodes[2], address, "away")
            story.fact("... and with that it can ask nobody", True)
        files.put(fleet.node("good"), None)
        fleet.wait_others(nodes[:3], 3)
        load.wait(5)
    story.same("with the right one it is a peer, without a restart; and no client has noticed anything", load.wrong, [])
    story.same("the fleet that it has left does without it", wait_state(nodes[3], fleet.addresses[2], "away")["bad"], 0)


def hears(port, pair, *authorities):
    """True if the node answers a holder of this certificate who trusts these authorities."""
    context = ssl.create_default_context(cafile=authorities[0].file)
    for more in authorities[1:]:
        context.load_verify_locations(more.file)
    try:
        return Peer(port, Named(context, pair), "").hello().status == 200
    except OSError:
        return False


def new_authority(story, fleet, nodes, files, keeper):
    """Three nodes change their authority as an operator does it: for a while, both are valid."""
    later = peering.Fleet(story, "later-ca")
    old, new, cas = fleet.node("old"), later.node("new"), [fleet.authority.file, later.authority.file]
    ports, before = fleet.ports[:3], between(fleet, nodes)
    wires = [Peer(port, fleet.tls(old), "").wire() for port in ports]
    for wire in wires:
        wire.send(HELLO)
        story.same("who has a certificate of the old authority is a peer", wire.read().status, 200)
    steps = (("both authorities", (None, cas), lambda port: hears(port, new, fleet.authority)),
             ("new certificates", (new, None), lambda port: hears(port, new, later.authority)),
             ("the new authority alone", (None, cas[1:]), lambda port: not hears(port, old, later.authority)))
    with Load(nodes[:3], "bucket/later", each_s=0.2) as load:
        for text, sources, done in steps:
            for each in files:
                each.put(*sources)
            wait_for(f"{text}: in use", lambda done=done: all(map(done, ports)), 2 * PATIENCE)
            shared = fleet.sum("bytes", nodes[:3])
            wait_for(f"{text}: they share", lambda shared=shared: fleet.sum("bytes", nodes[:3]) > shared)
            story.fact(f"{text}: in use, and the nodes share", True)
        for node in nodes[:3]:
            row = wait_state(node, keeper.address, "away")
            story.fact(f"a peer with an old certificate is no peer any more, whose connection was open: {row['why']}", True)
        fleet.wait_others(nodes[:3], 2)
        load.wait(5)
    story.same("no client has noticed that the authority changed", load.wrong, [])
    after = between(fleet, nodes)
    story.same("... no answer was wrong", [bad for _, bad in after], [bad for _, bad in before])
    story.in_time("... and no question between the three failed", after == before, (before, after))
    for wire in wires:
        try:
            wire.send(HELLO)
            reply = wire.read()
            story.fact("who has only an old certificate is not answered, on an open connection", not reply.status, reply)
        except OSError:
            story.fact("who has only an old certificate has no connection any more", True)


def between(fleet, nodes):
    """Failures of questions between the first three nodes."""
    return [(row["failed"], row["bad"]) for node in nodes[:3] for row in map(rows(node).get, fleet.addresses[:3])]


HELLO = b"GET /peer/hello HTTP/1.1\r\nHost: h\r\n\r\n"


def answers_no(connection, question):
    connection.sendall(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
    return True


with Story("n22 certificates of peers") as story:
    origin = story.origin()
    fleet, others = Fleet(story, origin, 5, 0), peering.Fleet(story, "others-ca")
    keeper = FalsePeer(fleet.node("keeper"), fleet.authority, answers_no, weight=1)
    fleet.shared["peers"] += f",{keeper.address}"
    files = [Files(story, f"n{n}", fleet.node(f"n{n}"), fleet.authority.file) for n in range(2)]
    files += [Files(story, f"n{n}", others.node(f"n{n}"), others.authority.file) for n in (2, 3)]
    files.append(Files(story, "n4", fleet.node("n4", host="DNS:other.internal"), fleet.authority.file))
    nodes = [fleet.start(n, **each.settings, **({"peer_name": "other.internal"} if n == 4 else {})) for n, each in enumerate(files)]
    fleet.nodes = nodes
    two_fleets(story, fleet, nodes)
    nodes[4].stop()
    replaced(story, fleet, nodes, files[2])
    nodes[3].stop()
    new_authority(story, fleet, nodes, files[:3], keeper)
