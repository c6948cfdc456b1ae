"""n03 - the list of nodes in a real etcd: leases, an etcd that is gone and returns, TLS, users.
SPDX-License-Identifier: Apache-2.0"""

import shutil

from authority import Authority
from etcd import PREFIX, Etcd, coded, need_etcd
from harness import Story, wait_for
from name_server import Nodes, need_list_members

IDS = ["00" * 15 + f"{i:02x}" for i in range(1, 9)]


def node(story, etcd, which, **options):
    return Nodes(story, f"etcd:{etcd.url}/{PREFIX}", id=IDS[which], listen=f"10.0.0.{which + 1}:9002", **options)


def leases(story, etcd):
    guest = node(story, etcd, 3, only_looks=1)
    wait_for("a look fails", lambda: guest.status()[2])
    story.fact("before the first node, penstock check finds no entry, and makes none",
               "no node of this fleet runs" in guest.status()[3] and guest.close() and not etcd.keys(), guest.log())
    a = node(story, etcd, 0)
    story.same("a node lists itself", a.next_list(), ["10.0.0.1:9002"])
    b, c = node(story, etcd, 1), node(story, etcd, 2)
    everybody = ["10.0.0.1:9002", "10.0.0.2:9002", "10.0.0.3:9002"]
    for each in (a, b, c):
        each.wait_list(everybody)
    story.fact("all nodes list each other", True)
    guest = node(story, etcd, 3, only_looks=1)
    story.same("penstock check looks at the list", guest.next_list(), everybody)
    story.fact("... and ends", guest.close())
    story.same("the entries are as the manual has them; check made none", etcd.keys(), dict(zip(IDS, everybody)))

    story.fact("a node that ends removes its entry at once", c.close() and IDS[2] not in etcd.keys(), etcd.keys())
    a.wait_list(everybody[:2])
    b.kill()
    story.fact("the entry of one that was killed is there until its lease has expired", IDS[1] in etcd.keys())
    a.wait_list(everybody[:1])
    story.same("then it is gone", list(etcd.keys()), [IDS[0]])
    return a


def odd_entries(story, etcd, a):
    for name, value in (("odd", "no address"), ("high", "10.0.0.9:99999"), ("bare", "10.0.0.9"), ("good", "10.0.0.8:1")):
        etcd.call("kv/put", {"key": coded(f"{PREFIX}/{name}"), "value": coded(value)})
    etcd.call("kv/put", {"key": coded(f"{PREFIX}-other/x"), "value": coded("10.0.0.7:1")})
    a.wait_list(["10.0.0.1:9002", "10.0.0.8:1"])
    story.fact("values that are no addresses are left out, and logged", "peers_entry_bad" in a.log())
    etcd.call("kv/deleterange", {"key": coded(PREFIX + "/"), "range_end": coded(PREFIX + "0")})
    wait_for("the node enters itself again", lambda: IDS[0] in etcd.keys())
    story.fact("a key that somebody deleted is put again", True)
    a.wait_list(["10.0.0.1:9002"])


def gone(story, etcd, a):
    etcd.kill()
    wait_for("a look fails", lambda: "can't be asked" in a.status()[3])
    story.same("etcd is gone: the list stays", (a.status()[0], a.list), (1, ["10.0.0.1:9002"]))
    story.same("which is logged once", a.log().count("peers_list_failed"), 1)
    etcd = etcd.again()
    wait_for("looks succeed", lambda: not a.status()[2])
    story.same("it is back", (etcd.keys(), a.log().count("peers_list_back")), ({IDS[0]: "10.0.0.1:9002"}, 1))

    etcd.kill()
    shutil.rmtree(etcd.folder)
    etcd = etcd.again()
    wait_for("the node enters itself", lambda: IDS[0] in etcd.keys())
    story.fact("an etcd that has lost everything gets the entry again", True)
    b = Nodes(story, f"etcd:{etcd.url}/{PREFIX}", id=IDS[1], listen="0.0.0.0:7777")
    b.wait_list(["10.0.0.1:9002", "127.0.0.1:7777"])
    story.fact("with peer_listen on every address, a node enters the one from which it reaches etcd", True)
    story.fact("both end", b.close() and a.close())
    story.same("and leave nothing", etcd.keys(), {})
    etcd.kill()


def users(story):
    authority, other = Authority(story, "ours"), Authority(story, "other")
    etcd = Etcd(story, story.path("etcd-tls"), certificate=authority.sign("etcd"), authority=authority)
    for path, body in (
            ("auth/user/add", {"name": "root", "password": "root"}), ("auth/role/add", {"name": "root"}),
            ("auth/user/grant", {"user": "root", "role": "root"}),
            ("auth/user/add", {"name": "fleet", "password": "pass\"word"}), ("auth/role/add", {"name": "fleet"}),
            ("auth/user/add", {"name": "stranger", "password": "s"}),
            ("auth/role/grant", {"name": "fleet", "perm": {
                "permType": "READWRITE", "key": coded(PREFIX + "/"), "range_end": coded(PREFIX + "0")}}),
            ("auth/user/grant", {"user": "fleet", "role": "fleet"}), ("auth/enable", {})):
        etcd.call(path, body)

    def sign_in():
        etcd.token = None
        etcd.token = etcd.call("auth/authenticate", {"name": "root", "password": "root"})["token"]

    sign_in()
    good = {"user": "fleet", "password": "pass\"word", "ca": authority.file}
    for text, changes, part in (
            ("a certificate of another authority", {"ca": other.file}, "can't be asked"),
            ("no user", {"user": "", "password": ""}, "user name is empty"),
            ("a wrong password", {"password": "x"}, "authentication failed, invalid user ID or password"),
            ("a user without rights", {"user": "stranger", "password": "s"}, "permission denied")):
        nodes = node(story, etcd, 3, **{**good, **changes})
        wait_for("a look fails", lambda: nodes.status()[2])
        story.fact(f"{text}: the status says so", part in nodes.status()[3], nodes.status()[3])
        story.fact("the program ends", nodes.close())
    story.same("nobody got in", etcd.keys(), {})

    changing = story.path("changing.pem")
    shutil.copy(other.file, changing)
    nodes = node(story, etcd, 3, **{**good, "ca": changing})
    wait_for("a look fails", lambda: nodes.status()[2])
    shutil.copy(authority.file, changing)
    story.same("a changed etcd_ca_file counts with the next look", nodes.next_list(), ["10.0.0.4:9002"])
    story.fact("the program ends", nodes.close())

    a = node(story, etcd, 4, **good)
    story.same("TLS and a user", a.next_list(), ["10.0.0.5:9002"])
    etcd.call("auth/user/add", {"name": "more", "password": "more"})
    b = node(story, etcd, 5, **good)
    a.wait_list(["10.0.0.5:9002", "10.0.0.6:9002"])
    story.same("a change of etcd's users is no failure", a.log().count("peers_list_failed"), 0)
    etcd.kill()
    wait_for("a look fails", lambda: a.status()[2])
    etcd = etcd.again()
    wait_for("looks succeed", lambda: not a.status()[2])
    story.fact("a new etcd does not know the old token, and gives another", True)
    story.fact("both end", a.close() and b.close())
    sign_in()
    story.same("and leave nothing", etcd.keys(), {})


with Story("n03 the list of nodes, in etcd") as story:
    need_list_members()
    need_etcd()
    server = Etcd(story, story.path("etcd"))
    first = leases(story, server)
    odd_entries(story, server, first)
    gone(story, server, first)
    if shutil.which("openssl"):
        users(story)
