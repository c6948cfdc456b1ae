"""radosgw.py - Debian's radosgw as an origin with several users. SPDX-License-Identifier: Apache-2.0

One monitor, one OSD that keeps objects in memory and one radosgw, all in the story's folder, as
processes of the story. It has what authorization is about: users, ACLs, policies, versions.

    gateway = Radosgw(story)                  # 1 to 5 seconds
    server = story.penstock(origin=gateway.url, origin_access_key=gateway.users["main"].key, ...)
    gateway.client("alt").get("photos/a")     # asks radosgw itself

Debian's radosgw aborts on some requests (UploadPartCopy of percent-encoded names is one): it is
started again each time, and `falls` counts how often.
"""
from collections import namedtuple

from harness import *

User = namedtuple("User", "uid key secret options")
USERS = {
    "main": User("main", "MAINTESTKEY", "main/test+secret", ["--email", "main@example.com"]),
    "alt": User("alt", "ALTTESTKEY", "alt/test+secret", ["--email", "alt@example.com"]),
    "tenant": User("tenanteduser", "TENANTTESTKEY", "tenant/test+secret",
                   ["--tenant", "testx", "--email", "tenanteduser@example.com"]),
}

SETTINGS = """[global]
fsid = 7d2b1f58-0d7a-4a52-9c1e-1f0a2d7b9c11
mon_host = v1:127.0.0.1:{mon_port}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_bind_msgr2 = false
ms_bind_ipv6 = false
public_network = 127.0.0.0/8
paxos_propose_interval = 0.02
mon_data_avail_crit = 0
mon_data_avail_warn = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 2000
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = {memory}
osd_class_dir = {libraries}/rados-classes
erasure_code_dir = {libraries}/ceph/erasure-code
plugin_dir = {libraries}/ceph
mon_data = {folder}/mon
osd_data = {folder}/osd
rgw_data = {folder}/rgw
run_dir = {folder}
crash_dir = {folder}
admin_socket = {folder}/$name.asok
log_file = {folder}/$name.log
pid_file =
rgw_frontends = beast endpoint=127.0.0.1:{port}{tls}
rgw_dns_name = {host}
rgw_gc_obj_min_wait = 1
rgw_thread_pool_size = 64
"""


class Late(Wrong):
    pass


class Radosgw:
    def __init__(self, story, users=None, memory=8 * GIB, host="localhost"):
        self.story, self.users = story, dict(users or USERS)
        self.home = tool("radosgw")
        self.folder = story.path(f"ceph-{len(story.processes)}")
        self.port, self.mon_port, self.falls = free_port(), free_port(), 0
        self.url = f"http://127.0.0.1:{self.port}"
        self.process, self.ending, self.settings = None, False, (memory, host)
        self._start()
        self._start_gateway()
        threading.Thread(target=self._stand_up_again, daemon=True).start()

    def client(self, user="main", **how):
        return Client(self.port, self.users[user].key, self.users[user].secret, **how)

    def stop(self):
        self.ending = True
        for process in (self.process, self.osd, self.mon):
            process.kill()

    def admin(self, *argv):
        """radosgw-admin: what it printed."""
        return self._run("radosgw-admin", *argv)

    def _start(self, tries=6):
        """Now and then a client's first words to the monitor get no answer, and it waits for ever, or
        it is told that it belongs to another cluster: another one is started then."""
        for left in reversed(range(tries)):
            self._configure(*self.settings)
            self.mon = self.osd = None
            try:
                self._start_cluster()
                self._await_osd()
                return self._make_users(15 if left else 60)
            except Wrong as wrong:
                for process in (self.osd, self.mon):
                    if process:
                        process.kill()
                if not left:
                    raise
                self.story.note(f"{wrong}; started anew. The monitor's last lines:")
                with open(os.path.join(self.folder, "mon.a.log"), errors="replace") as log:
                    print(log.read()[-2000:], flush=True)
                self.mon_port = free_port()
                self.folder = self.story.path(f"ceph-{len(self.story.processes)}")

    def _configure(self, memory, host):
        libraries, = glob.glob(os.path.join(self.home, "usr/lib/*-linux-gnu"))
        self.conf = os.path.join(self.folder, "ceph.conf")
        for name in ("mon", "osd", "rgw"):
            os.makedirs(os.path.join(self.folder, name))
        with open(self.conf, "w") as f:
            f.write(SETTINGS.format(mon_port=self.mon_port, port=self.port, folder=self.folder,
                                    libraries=libraries, memory=memory, host=host, tls=""))
        self.env = {"LD_LIBRARY_PATH": ":".join([libraries, os.path.join(libraries, "ceph"),
                                                 os.path.join(self.home, "lib", os.path.basename(libraries))]),
                    "PYTHONPATH": os.path.join(self.home, "usr/lib/python3/dist-packages"),
                    "CEPH_CONF": self.conf}

    def _path(self, name):
        return os.path.join(self.home, "usr/bin", name)

    def _run(self, name, *argv, seconds=60):
        program = [self._path(name)] if name != "ceph" else ["/usr/bin/python3", self._path(name)]
        status, out, err = run([*program, "--conf", self.conf, *argv], self.env, seconds)
        if status is None:
            raise Late(f"{name} {' '.join(argv[:3])} {err}")
        if status != 0:
            raise Wrong(f"{name} {' '.join(argv[:3])} ended with {status}: {(out + err)[-800:]}")
        return out

    def _daemon(self, name, *argv):
        return Process(self.story, name, [self._path(name), "--conf", self.conf, "-f", *argv],
                       self.env)

    def _start_cluster(self):
        map_path = os.path.join(self.folder, "monmap")
        self._run("monmaptool", "--create", "--fsid", "7d2b1f58-0d7a-4a52-9c1e-1f0a2d7b9c11",
                  "--addv", "a", f"[v1:127.0.0.1:{self.mon_port}]", map_path)
        self._run("ceph-mon", "-i", "a", "--mkfs", "--monmap", map_path)
        self.mon = self._daemon("ceph-mon", "-i", "a")
        osd = "b8a7f1ad-52d4-4f0e-9a53-6f1c5a1f2d01"
        self._run("ceph", "--connect-timeout", "30", "osd", "new", osd)
        self._run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self.osd = self._daemon("ceph-osd", "-i", "0")

    def _await_osd(self):
        """What the monitor refuses ("wrong fsid") never comes up: not worth waiting for."""
        wait_for("the OSD asks its monitor",
                 lambda: "log_to_monitors" in self.osd.log() or not self.osd.alive())
        time.sleep(0.3)
        if not self.osd.alive() or "wrong fsid" in self.osd.log():
            raise Late("the monitor refuses its OSD")

    def _make_users(self, seconds):
        def make(user, seconds=60):
            self._run("radosgw-admin", "user", "create", "--uid", user.uid, "--display-name",
                      user.uid, "--access-key", user.key, "--secret", user.secret, *user.options,
                      seconds=seconds)
        first, *others = self.users.values()
        make(first, seconds)    # makes the pools, too
        together(*(lambda user=user: make(user) for user in others))

    def _start_gateway(self):
        self.process = self._daemon("radosgw", "-n", "client.rgw")
        wait_for("radosgw answers", lambda: plain(self.port, "GET", "/", timeout=5).status == 200,
                 40)

    def _stand_up_again(self):
        while True:
            self.process.process.wait()
            if self.ending or self.story.over:
                return
            self.falls += 1
            self._start_gateway()
