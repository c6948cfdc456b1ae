"""n02 - the list of nodes from DNS and from a static list: what a name server may do, and what the list is then.
SPDX-License-Identifier: Apache-2.0"""

import time

from harness import Story, wait_for
from name_server import NameServer, Nodes, need_list_members

FLEET = "fleet.test"


def addresses(story, dns):
    dns.records[FLEET] = {"A": ["10.0.0.2", "10.0.0.1", "10.0.0.2"], "AAAA": ["fd00::1"]}
    nodes = Nodes(story, f"dns:{FLEET}:9002", dns)
    both = ["10.0.0.1:9002", "10.0.0.2:9002", "[fd00::1]:9002"]
    story.same("the addresses of a name are the list, sorted, each once", nodes.next_list(), both)
    story.same("no look has failed", nodes.status(), (3, 0, False, ""))

    dns.records[FLEET] = {"A": ["10.0.0.3"]}
    story.same("an address that is gone leaves the list", nodes.next_list(), ["10.0.0.3:9002"])
    for mode, part in (("servfail", "SERVFAIL"), ("refused", "refuses to answer (code 5)"), ("garbage", "malformed"),
                       ("cut off", "cut off"), ("silent", "no name server answered in time")):
        dns.mode = mode
        _, _, _, why = wait_for(f"a look fails: {mode}", lambda part=part: (s := nodes.status())[2] and part in s[3] and s)
        story.fact(f"{mode}: the list stays, and the status says why", nodes.status()[0] == 1 and part in why, why)
    dns.mode = "answer"
    dns.records[FLEET] = {}
    wait_for("a look finds no address", lambda: "has no address" in nodes.status()[3])
    story.same("an empty answer leaves the list as it is", (nodes.status()[0], nodes.list), (1, ["10.0.0.3:9002"]))
    del dns.records[FLEET]
    seen = dns.count()
    wait_for("it asks again", lambda: dns.count() > seen + 1)
    story.same("so does a name that is gone", (nodes.status()[0], nodes.list), (1, ["10.0.0.3:9002"]))
    story.same("failures in a row are logged once", nodes.log().count("peers_list_failed"), 1)
    dns.records[FLEET] = {"A": ["10.0.0.3", "10.0.0.4"]}
    story.same("the name is back", nodes.next_list(), ["10.0.0.3:9002", "10.0.0.4:9002"])
    story.same("and no look fails", nodes.status()[2:], (False, ""))
    story.same("which is logged once", nodes.log().count("peers_list_back"), 1)
    story.fact("the program ends", nodes.close())


def down_at_first(story, dns):
    dns.mode = "servfail"
    dns.records[FLEET] = {"CNAME": ["other.test"]}
    dns.records["other.test"] = {"A": ["10.0.0.1"]}
    nodes = Nodes(story, f"dns:{FLEET}", dns, listen="0.0.0.0:7777")
    wait_for("a look fails", lambda: nodes.status()[2])
    story.same("without an answer there is no list", (nodes.status()[0], nodes.list), (0, None))
    dns.mode = "answer"
    story.same("then the list comes: by an alias, with the port of peer_listen", nodes.next_list(), ["10.0.0.1:7777"])
    story.fact("the program ends", nodes.close())


def services(story, dns):
    name = "_penstock._tcp.fleet.test"
    dns.records[name] = {"SRV": [(0, 9002, "n1.test"), (10, 9003, "n2.test"), (10, 9003, "N2.test"), (0, 9004, "gone.test"),
                                 (0, 9005, "n3.test")]}
    dns.records.update({"n1.test": {"A": ["10.0.0.1"]}, "n2.test": {"A": ["10.0.0.2"], "AAAA": ["fd00::2"]},
                        "n3.test": {"AAAA": ["fd00::3"]}})
    wanted = ["10.0.0.1:9002", "10.0.0.2:9003", "[fd00::2]:9003", "[fd00::3]:9005"]
    for beside in (True, False):
        dns.beside = beside
        nodes = Nodes(story, f"dns:{name}", dns)
        how = "beside them" if beside else "when asked for"
        story.same(f"SRV records of any priority, with addresses that come {how}", nodes.next_list(), wanted)
        story.same("a target without an address is left out", nodes.status(), (4, 0, False, ""))
        story.fact("the program ends", nodes.close())
    dns.beside = True
    dns.records[name] = {"SRV": [(0, 0, ".")]}
    nodes = Nodes(story, f"dns:{name}", dns)
    wait_for("a look fails", lambda: "has no SRV records" in nodes.status()[3])
    story.same("a service that there is not has no nodes", nodes.status()[0], 0)
    story.fact("the program ends", nodes.close())


def half_answers(story, dns):
    """A server may have more than fits into a message, or answer only one of two questions."""
    dns.records["_penstock._tcp.test"] = {"SRV": [(0, 9002, "n1.test")]}
    dns.records["n1.test"] = {"A": ["10.0.0.1"], "AAAA": ["fd00::1"]}
    dns.mode = "cut off"
    nodes = Nodes(story, "dns:_penstock._tcp.test", dns)
    story.same("what is in an answer that was cut off is used", nodes.next_list(), ["10.0.0.1:9002", "[fd00::1]:9002"])
    story.fact("and the status says so", "cut off" in nodes.status()[3], nodes.status())
    story.fact("the program ends", nodes.close())
    dns.mode = "answer"
    for bad, wanted, failed in (("A", ["[fd00::1]:9002"], True), ("AAAA", ["10.0.0.1:9002"], False)):
        dns.refused = {bad}
        nodes = Nodes(story, "n1.test", dns)
        story.same(f"a server that refuses questions for {bad} records: the others are used", nodes.next_list(), wanted)
        story.same("without IPv4 addresses, that is a failure", nodes.status()[2], failed)
        story.fact("the program ends", nodes.close())
    dns.refused, dns.mode = set(), "silent"
    nodes = Nodes(story, "n1.test", dns)
    seen = dns.count()
    wait_for("a question is on its way", lambda: dns.count() > seen)
    story.fact("a program that waits for an answer ends, too", nodes.close())


def many(story, dns):
    hosts = [f"10.{i >> 8}.{i & 255}.1" for i in range(1200)]
    dns.records[FLEET] = {"A": hosts[:1000]}
    nodes = Nodes(story, f"dns:{FLEET}:9002", dns)
    story.same("1,000 addresses come by TCP", (len(nodes.next_list()), dns.count("A", "tcp") > 0), (1000, True))
    dns.records[FLEET] = {"A": hosts}
    story.note("200 more: then the first 1,000 in their order are used")
    wait_for("addresses are left out", lambda: nodes.status()[1] == 200)
    story.same("the list", (nodes.status()[0], nodes.log().count("peers_too_many")), (1000, 1))
    story.fact("the program ends", nodes.close())

    name = "_penstock._tcp.many.test"
    dns.records[name] = {"SRV": [(0, 9002, f"n{i}.test") for i in range(1000)]}
    dns.records.update({f"n{i}.test": {"A": [host]} for i, host in enumerate(hosts[:1000])})
    nodes = Nodes(story, f"dns:{name}", dns)
    story.same("so do 1,000 SRV records", len(nodes.next_list()), 1000)
    story.fact("the program ends", nodes.close())


def ttl(story, dns):
    """With a TTL of 0, a look comes each second: so more than one, and not thousands."""
    dns.ttl = 0
    dns.records[FLEET] = {"A": ["10.0.0.1"]}
    began = time.monotonic()
    nodes = Nodes(story, f"dns:{FLEET}", dns)
    nodes.next_list()
    wait_for("two more looks", lambda: dns.count("A") >= 3)
    count, seconds = dns.count("A"), time.monotonic() - began
    story.fact("with a TTL of 0, looks are a second apart", count <= seconds + 2, f"{count} looks in {seconds} s")
    dns.ttl = 1
    story.fact("the program ends", nodes.close())


def static_list(story, dns):
    dns.records["a.test"] = {"A": ["10.0.0.9"]}
    nodes = Nodes(story, "10.0.0.1, a.test:1, [fd00::1]:2, localhost:3", dns)
    got = nodes.next_list()
    story.same("a static list has addresses, names of DNS, and names of /etc/hosts",
               [a for a in got if a != "[::1]:3"], ["10.0.0.1:9002", "10.0.0.9:1", "127.0.0.1:3", "[fd00::1]:2"]
               if "127.0.0.1:3" in got else got)
    story.fact("the name of /etc/hosts is there", "127.0.0.1:3" in got or "[::1]:3" in got, got)
    story.fact("the program ends", nodes.close())
    nodes = Nodes(story, "10.0.0.1, nobody.test", dns)
    story.same("a name without an address does not hold up the others", nodes.next_list(), ["10.0.0.1:9002"])
    story.same("and is reported", nodes.status(), (1, 0, True, "nobody.test has no address"))
    story.fact("the program ends", nodes.close())


def no_server(story):
    with NameServer() as dns:
        address = dns.address
    nodes = Nodes(story, f"dns:{FLEET}", type("Gone", (), {"address": address}))
    wait_for("a look fails", lambda: "nothing answers" in nodes.status()[3])
    story.fact("no name server at all: the program waits, and ends when told", nodes.close())


with Story("n02 the list of nodes, from DNS and from the settings") as story:
    need_list_members()
    for play in (addresses, down_at_first, services, half_answers, many, ttl, static_list):
        with NameServer() as dns:
            play(story, dns)
    no_server(story)
