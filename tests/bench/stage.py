"""stage.py - what the benches stand on. SPDX-License-Identifier: Apache-2.0

Servers under test (penstock; nginx in its place, to try the drivers themselves), the baselines, CPU
and system calls of a process, and figures. A figure is a list of pairs: each pair is one run of the
subject and its baseline's runs just before and after it, so that what drifts cancels out.
"""

import ctypes
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "story"))

import harness  # noqa: E402
from harness import ACCESS_KEY, GIB, MIB, SECRET_KEY, find_binary, free_port, plain, wait_for  # noqa: E402, F401

COLUMNS = ("bench", "case", "metric", "value", "unit", "ratio", "baseline", "pairs", "min", "max")
SIGN = ["--sign", f"{ACCESS_KEY}:{SECRET_KEY}"]


class Failed(Exception):
    pass


def note(text):
    print(f"# {text}", file=sys.stderr, flush=True)


def find_tool(name):
    """A bench program beside the newest build."""
    built = os.environ.get("BENCH_TOOLS")    # the folder of another build
    found = os.path.join(built, name) if built else find_binary("", f"tests/bench/{name}",
                                                                f"build*/tests/bench/{name}")
    if not found:
        raise Failed(f"tests/bench/{name} is not built: run make")
    return found


def tool(name, *flags, cpu=None, seconds=240, **options):
    """Runs one of ours; its output. Flags: port=9000 becomes --port 9000."""
    argv = [find_tool(name), *flags]
    for key, value in options.items():
        argv += [f"--{key.replace('_', '-')}", str(value)]
    try:
        done = pinned(cpu, lambda: subprocess.run(argv, capture_output=True, text=True,
                                                  timeout=seconds))
    except subprocess.TimeoutExpired:
        raise Failed(f"{name} took longer than {seconds} s") from None
    if done.returncode != 0:
        raise Failed(f"{name}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def facts(line):
    """name=number words as a dict."""
    return {n: float(v) for n, _, v in (word.partition("=") for word in line.split())}


def pinned(cpu, start):
    """Calls start() with the processors its children inherit cut down to one."""
    allowed = os.sched_getaffinity(0)
    if cpu is None or len(allowed) < 2:
        return start()
    os.sched_setaffinity(0, {sorted(allowed)[cpu]})
    try:
        return start()
    finally:
        os.sched_setaffinity(0, allowed)


# ---- the same network for all ----

CLONE_NEWNET = 0x40000000
IFF_UP, SIOCSIFFLAGS = 1, 0x8914
CONGESTION = "/proc/sys/net/ipv4/tcp_congestion_control"


def own_network():
    """From here on we and all we start have a network of our own, with nothing but a loopback whose
    congestion control is reno: what penstock asks for where its peer is on this host, and what nginx has no
    word for. One that paces (bbr) would let nginx's answers wait, and ours not. Not root: as the host has it."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        with open(CONGESTION) as f:
            note(f"not root: nginx's connections have the host's congestion control, {f.read().strip()}; ours reno")
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    with open(CONGESTION, "w") as f:
        f.write("reno")


# ---- what a process used ----

def cpu_us(pids):
    """CPU time of all threads: nanoseconds of schedstat, else clock ticks."""
    total = 0.0
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            where = f"/proc/{pid}/task/{task}"
            try:
                with open(f"{where}/schedstat") as f:
                    total += int(f.read().split()[0]) / 1e3
            except FileNotFoundError:
                with open(f"{where}/stat") as f:
                    fields = f.read().rpartition(")")[2].split()
                total += (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")
    return total


def syscalls(folder, pids, run):
    """How many system calls the processes make while run() runs. None without strace."""
    if not shutil.which("strace"):
        note("strace is not installed: no system calls are counted")
        return None
    table = os.path.join(folder, "strace.txt")
    argv = ["strace", "-f", "-c", "-o", table] + [word for pid in pids for word in ("-p", str(pid))]
    strace = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for _ in pids:
            if "attached" not in strace.stderr.readline():
                note("strace may not attach here: no system calls are counted")
                return None
        time.sleep(0.1)
        run()
    finally:
        strace.send_signal(signal.SIGINT)
        strace.communicate(timeout=20)
    with open(table) as f:
        total = re.search(r"^\s*100\.00\s+\S+\s+(?:\S+\s+)?(\d+)(?:\s+\d+)?\s+total$", f.read(),
                          re.M)
    if not total:
        raise Failed("strace printed no total")
    return int(total.group(1))


# ---- servers ----


def files_max():
    """How many files a server may have open: as many as root may grant, or as we were granted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, max(hard, 65536)))
    except (OSError, ValueError):
        pass
    return max(8192, min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


NGINX = """{user} worker_rlimit_nofile {files}; daemon off; worker_processes {workers};
pid {folder}/nginx.pid; error_log {folder}/nginx-error.log;
events {{ worker_connections 2048; }}
http {{ access_log off; sendfile on; keepalive_requests 100000000; keepalive_timeout 600s;
    client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
{body} }}
"""
STATIC = """    server {{ listen 127.0.0.1:{port}; root {root}; access_log {{folder}}/access.log; }}
    server {{ listen 127.0.0.1:{quiet_port}; root {root}; }}
    server {{ listen 127.0.0.1:{cached_port}; root {root}; access_log {{folder}}/access.log;
        open_file_cache max={open_max} inactive=600s; open_file_cache_valid 600s; }}
"""
PROXY = """    proxy_cache_path {folder}/cache keys_zone=all:64m max_size={size} inactive=1d;
    server {{ listen 127.0.0.1:{port};
        location /_/health/ready {{ return 200; }}
        location / {{ proxy_pass {origin}; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_cache all; proxy_cache_lock on; proxy_cache_valid 200 206 1d;
            proxy_cache_key $uri$http_range; proxy_set_header Range $http_range;
            proxy_ignore_headers Cache-Control Expires; }} }}
"""


class Nginx(harness.Process):
    def __init__(self, stage, body, port, workers=1):
        if not shutil.which("nginx"):
            raise Failed("nginx is not installed")
        folder = tempfile.mkdtemp(prefix="nginx-", dir=stage.folder)
        config = os.path.join(folder, "nginx.conf")
        with open(config, "w") as f:
            f.write(NGINX.format(folder=folder, user="user root;" if os.geteuid() == 0 else "",
                                 files=files_max(), workers=workers, body=body.replace("{folder}", folder)))
        super().__init__(stage, "nginx", ["nginx", "-p", folder, "-c", config])
        self.port = port
        wait_for("nginx answers", lambda: plain(port, "GET", "/_/health/ready", timeout=2).status)

    def pids(self):
        with open(f"/proc/{self.pid}/task/{self.pid}/children") as f:
            return [int(pid) for pid in f.read().split()]


class Penstock(harness.Penstock):
    def pids(self):
        return [self.pid]


class Stage:
    """A folder and all that was started in it; both go when it ends."""

    def __init__(self, quick, subject):
        self.quick, self.subject_name, self.processes = quick, subject, []
        self.starting, self.over, self.daemon_env = threading.RLock(), False, {}    # as in a story
        self.folder = tempfile.mkdtemp(prefix="penstock-bench-", dir=os.environ.get("BENCH_FOLDER"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            if process.alive():
                process.stop(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def origin(self, *lines):
        return harness.Origin(self, *lines)

    def static(self, root):
        """nginx with sendfile and its access log; .cached_port has the open_file_cache, .quiet_port no access log."""
        port, cached_port, quiet_port = free_port(), free_port(), free_port()
        body = STATIC.format(port=port, cached_port=cached_port, quiet_port=quiet_port, root=root,
                             open_max=files_max() - 4096)
        server = Nginx(self, body, port, workers="auto")
        server.cached_port, server.quiet_port = cached_port, quiet_port
        return server

    def subject(self, origin, cache_bytes, cpu=None, binary=None, folder=None, **settings):
        """The server under test, in front of the origin, with a cache of its own, or with that of this folder.
        binary: another build of it."""
        folder = folder or tempfile.mkdtemp(prefix="cache-", dir=self.folder)
        port = free_port()
        if self.subject_name == "nginx":
            size = f"{cache_bytes // MIB}m"
            body = PROXY.replace("{folder}", folder).format(port=port, origin=origin.url, size=size)
            return pinned(cpu, lambda: Nginx(self, body, port))
        settings = {"listen": f"127.0.0.1:{port}", "admin_listen": f"127.0.0.1:{free_port()}",
                    "cache_dir": folder, "cache_size": f"{cache_bytes // MIB}MiB",
                    "origin": origin.url, "access_key": ACCESS_KEY, "secret_key": SECRET_KEY,
                    "origin_access_key": harness.ORIGIN_KEY,
                    "origin_secret_key": harness.ORIGIN_SECRET, "freshness": "immutable",
                    **settings}
        ours = harness.PENSTOCK
        harness.PENSTOCK = binary or ours
        try:
            return pinned(cpu, lambda: Penstock(self, settings))
        finally:
            harness.PENSTOCK = ours


# ---- figures ----

def in_turn(pair, first, second):
    """Both, and which goes first changes from pair to pair; results in the order of the arguments."""
    if pair % 2:
        later = second()
        return first(), later
    return first(), second()


def fraction(above, below):
    return above / below if below else float("nan")


class Figures:
    def __init__(self, as_json):
        self.as_json = as_json

    def put(self, bench, case, metric, unit, values, baseline="", against=()):
        """Values by pair; with `against`, the baseline's values of the same pairs, also a ratio,
        whose spread then stands in min and max."""
        ratios = [fraction(value, other) for value, other in zip(values, against)]
        spread = ratios or values
        row = dict(zip(COLUMNS, (bench, case, metric, statistics.median(values), unit,
                                 statistics.median(ratios) if ratios else None, baseline or None,
                                 len(values), min(spread), max(spread))))
        if self.as_json:
            print(json.dumps(row), flush=True)
            return
        print("\t".join("-" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v)
                        for v in row.values()), flush=True)
