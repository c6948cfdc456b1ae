"""probe.py - the HTTP room alone, as tests/tools/http_probe serves it; with PROBE_TLS=1 in the
environment, over TLS where a story does not say. SPDX-License-Identifier:
Apache-2.0"""

from authority import *

PROBE = find_binary("HTTP_PROBE", "tests/tools/http_probe", "build*/tests/tools/http_probe")


def pattern(length):
    return (bytes(range(251)) * (length // 251 + 1))[:length]


def sum_of(data):
    total = 1
    for byte in data:
        total = (total * 31 + byte) & 0xFFFFFFFF
    return total


def get(target, *fields, method="GET"):
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: h", *fields]).encode() + b"\r\n\r\n"


def put(target, body, *fields):
    return get(target, f"Content-Length: {len(body)}", *fields, method="PUT") + body


class Probe(Process):
    def __init__(self, story, tls=bool(os.environ.get("PROBE_TLS")), spill=None, **settings):
        check(PROBE, "http_probe is not built: make tests/tools/http_probe")
        self.port, self.admin = free_port(), free_port()
        self.spill = spill or story.path("spill")
        os.makedirs(self.spill, exist_ok=True)
        self.tls, self.plain_port = None, self.port
        if tls:
            authority = Authority(story, "probe-ca")
            settings["tls_cert"], settings["tls_key"] = authority.sign("probe")
            settings["tls_port"] = self.port = free_port()
            self.tls = authority.client()
        super().__init__(story, "http_probe", [PROBE, str(self.plain_port), str(self.admin), self.spill,
                                               *(f"{n}={v}" for n, v in settings.items())])
        wait_for("the probe is ready", lambda: "ready" in self.log() or not self.alive())

    def wire(self, timeout=PATIENCE, **how):
        return Wire(self.port, timeout, tls=self.tls, **how)

    def ask(self, data, timeout=PATIENCE, method="GET"):
        wire = self.wire(timeout)
        wire.send(data)
        reply = wire.read(method)
        wire.close()
        return reply

    def stats(self):
        return json.loads(plain(self.admin, "GET", "/stats").body)

    def spilled(self):
        """How many bodies lie in files of the spill folder."""
        count = 0
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                target = os.readlink(f"/proc/{self.pid}/fd/{fd}")
                count += os.path.join(self.spill, "body") in target
            except FileNotFoundError:    # closed since it was listed
                pass
        return count

    def on_disk(self, each=1):
        """Bytes of the room for files that bodies have taken; or how many of such a size that is."""
        return self.stats()["body_disk"] // each

    def fd_count(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def ends_cleanly(self):
        status = self.stop()
        self.story.fact("the probe ends cleanly", status == 0, f"exit status {status}")
        found = REPORTS.search(self.log())
        self.story.fact("and reports nothing", not found, self.log()[-4000:])
