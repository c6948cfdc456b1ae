"""etcd.py - a real etcd, which scripts/tools unpacks. SPDX-License-Identifier: Apache-2.0"""
import base64
import json
import os
import ssl
import urllib.request

from harness import TOOLS, Process, Skip, check, free_port, wait_for

ETCD = os.path.join(TOOLS, "etcd", "usr", "bin", "etcd")
PREFIX = "penstock/fleet"


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


def need_etcd():
    if not os.access(ETCD, os.X_OK):
        raise Skip("etcd is not there: run scripts/tools etcd")
