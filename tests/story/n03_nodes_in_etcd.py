"""n03 - the list of nodes in a real etcd: leases, an etcd that is gone and returns, TLS, users.
SPDX-License-Identifier: Apache-2.0"""

import base64
import json
import os
import shutil
import ssl
import urllib.error
import urllib.request

from authority import Authority
from harness import TOOLS, Process, Skip, Story, check, free_port, wait_for
from name_server import Nodes, need_list_members

ETCD = os.path.join(TOOLS, "etcd", "usr", "bin", "etcd")
PREFIX = "penstock/fleet"
IDS = ["00" * 15 + f"{i:02x}" for i in range(1, 9)]


def coded(text):
    return base64.b64encode(text.encode()).decode()


class Etcd(Process):
    def __init__(self, story, folder, port=None, certificate=None, authority=None):
        self.folder, self.certificate, self.authority = folder, certificate, authority
        self.port, self.token = port or free_port(), None
        self.scheme = "https" if certificate else "http"
        self.url = f"{self.scheme}://127.0.0.1:{self.port}"
        peer = f"http://127.0.0.1:{free_port()}"
        tls = ["--cert-file", certificate[0], "--key-file", certificate[1]] if certificate else []
        super().__init__(story, "etcd", [
            ETCD, "--data-dir", folder, "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
            "--unsafe-no-fsync", "--log-level", "error", *tls],
            # no more memory and threads than a small test needs
            {"GOMAXPROCS": "1"})
        wait_for("etcd answers", self.answers)

    def answers(self):
        check(self.alive(), f"etcd ended: {self.log()}")
        try:
            return self.call("maintenance/status", {})
        except OSError:
            return None

    def call(self, path, body):
        request = urllib.request.Request(f"{self.url}/v3/{path}", json.dumps(body).encode(),
                                         {"Authorization": self.token} if self.token else {})
        context = ssl.create_default_context(cafile=self.authority.file) if self.authority else None
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return json.loads(answer.read())

    def keys(self):
        """The last part of each key, and its value."""
        found = self.call("kv/range", {"key": coded(PREFIX + "/"), "range_end": coded(PREFIX + "0")})
        return {base64.b64decode(kv["key"]).decode().split("/")[-1]: base64.b64decode(kv.get("value", "")).decode()
                for kv in found.get("kvs", [])}

    def again(self):
        """Another etcd on the same port and folder, if that was not removed."""
        return Etcd(self.story, self.folder, self.port, self.certificate, self.authority)


def node(story, etcd, which, **options):
    return Nodes(story, f"etcd:{etcd.url}/{PREFIX}", id=IDS[which], listen=f"10.0.0.{which + 1}:9002", **options)


def leases(story, etcd):
    a = node(story, etcd, 0)
    story.same("a node lists itself", a.next_list(), ["10.0.0.1:9002"])
    b, c = node(story, etcd, 1), node(story, etcd, 2)
    everybody = ["10.0.0.1:9002", "10.0.0.2:9002", "10.0.0.3:9002"]
    for each in (a, b, c):
        each.wait_list(everybody)
    story.fact("all nodes list each other", True)
    story.same("the entries are as the manual has them", etcd.keys(), dict(zip(IDS, everybody)))

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
    if not os.access(ETCD, os.X_OK):
        raise Skip("etcd is not there: run scripts/tools etcd")
    server = Etcd(story, story.path("etcd"))
    first = leases(story, server)
    odd_entries(story, server, first)
    gone(story, server, first)
    if shutil.which("openssl"):
        users(story)
