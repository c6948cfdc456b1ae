"""container - what docker/Dockerfile says of the image, and how to try a root folder by it.
SPDX-License-Identifier: Apache-2.0

docker/Dockerfile is the one place that says how the container runs: its user, variables, volume, command and
packages. scripts/docker-dry-run runs its steps, and scripts/image makes the image of a release by its last stage.
Both try the result with try_out, without a container engine: needs root."""

import ctypes
import json
import os
import re
import shlex
import socket
import struct
import subprocess
import sys
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCKERFILE = os.path.join(ROOT, "docker", "Dockerfile")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KEY, SECRET = "DRYRUN", "dry/run/secret"


def skip(why):
    print(f"skip  {why}")
    sys.exit(77)


def fail(why):
    print(f"WRONG {why}")
    sys.exit(1)


# ---- docker/Dockerfile ----

def instructions(path=DOCKERFILE):
    with open(path) as f:
        text = f.read()
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def words(rest):
    return json.loads(rest) if rest.startswith("[") else ["/bin/sh", "-c", rest]


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


class Stage:
    def __init__(self, name, folder=None):
        self.name, self.folder = name, folder
        self.env, self.user, self.workdir = {}, "0:0", "/"
        self.labels, self.volumes, self.ports, self.packages = {}, [], [], []
        self.health, self.health_times, self.entry, self.cmd, self.stop = None, {}, [], [], "SIGTERM"

    def path(self, inside):
        return os.path.join(self.folder, inside.lstrip("/"))

    def take(self, word, rest):
        """Takes an instruction that says how the container runs; False if this is no such instruction."""
        if word == "ENV":
            self.env.update(item.split("=", 1) for item in shlex.split(rest))
        elif word == "LABEL":
            self.labels.update(item.split("=", 1) for item in shlex.split(rest))
        elif word == "USER":
            if not re.fullmatch(r"\d+:\d+", rest):
                fail(f"USER {rest} of docker/Dockerfile must be two numbers, since Kubernetes checks it (runAsNonRoot)")
            self.user = rest
        elif word == "HEALTHCHECK":
            times, _, command = rest.partition("CMD")
            self.health = words(command.strip())
            self.health_times = {name: seconds(value) for name, value in re.findall(r"--([a-z-]+)=(\S+)", times)}
        elif word == "ENTRYPOINT":
            self.entry = words(rest)
        elif word == "CMD":
            self.cmd = words(rest)
        elif word == "VOLUME":
            self.volumes.append(rest)
        elif word == "EXPOSE":
            self.ports += rest.split()
        elif word == "STOPSIGNAL":
            self.stop = rest
        elif word == "WORKDIR":
            self.workdir = rest
        elif word == "RUN":
            install = re.search(r"apt-get install ([^&|;]*)", rest)
            self.packages += [w for w in install[1].split() if not w.startswith("-")] if install else []
        else:
            return False
        return True


def last_stage():
    """The image that docker/Dockerfile makes, as far as it says so without a build."""
    stage = None
    for word, rest in instructions():
        if word == "FROM":
            stage = Stage(rest.split()[-1])
        elif stage and not stage.take(word, rest) and word not in ("COPY", "ARG"):
            fail(f"scripts/container.py does not know the instruction {word} of docker/Dockerfile: add it there")
    return stage


# ---- a root folder, run as a container ----

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def forbid_io_uring():
    """Between fork and exec: the kernel refuses io_uring's three system calls, as Docker's default profile does."""
    steps = ((0x20, 0, 0, 0), (0x35, 0, 2, 425), (0x25, 1, 0, 427), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program):
        raise OSError(ctypes.get_errno(), "prctl")


def inside(stage, argv, extra):
    """A command in the stage's root, read-only but for its volumes, as its user: (argv, environment)."""
    user, group = stage.user.split(":")
    script = "set -e; mount --bind {0} {0}; mount -o remount,bind,ro {0}; ".format(shlex.quote(stage.folder))
    for volume in stage.volumes:
        place = shlex.quote(stage.path(volume))
        script += f"mount -t tmpfs -o mode=0700,uid={user},gid={group},size=512m v {place}; "
    script += f"mount -t proc proc {shlex.quote(stage.path('/proc'))} 2>/dev/null || true; "
    script += f"mount --bind /dev {shlex.quote(stage.path('/dev'))}; "
    script += f"exec chroot --userspec={stage.user} {shlex.quote(stage.folder)} " + " ".join(map(shlex.quote, argv))
    return ["unshare", "-m", "sh", "-c", script], {"PATH": PATH, **stage.env, **extra}


def healthy(stage, process, env):
    """Waits until the stage's HEALTHCHECK succeeds; False if the process ends before, or after 20 s."""
    for _ in range(100):
        time.sleep(0.2)
        if process.poll() is not None:
            return False
        if subprocess.run(["chroot", "--userspec=" + stage.user, stage.folder, *stage.health], env=env,
                          capture_output=True).returncode == 0:
            return True
    return False


def check_process(stage, pid, log):
    """What runs is what a cluster may demand: not root, nothing writable but volumes, no io_uring."""
    with open(f"/proc/{pid}/status") as f:
        owner = re.search(r"^Uid:\t(\d+)\t", f.read(), re.M)[1]
    with open(f"/proc/{pid}/mounts") as f:
        root = [line.split()[3].split(",")[0] for line in f if line.split()[1] == "/"][-1]
    if owner != stage.user.split(":")[0] or owner == "0" or root != "ro":
        fail(f"the container runs as user {owner}, with a root that is {root}")
    if '"engine":"threads"' not in log:
        fail("the log does not say that Penstock goes on without io_uring: " + log[-2000:])
    print(f"ok    runs as user {owner}, with a read-only root, without io_uring")


def try_out(stage, work):
    """Starts the stage by its ENTRYPOINT and CMD, reads an object through it, and ends it. True if all was well."""
    port, admin = free_port(), free_port()
    os.makedirs(stage.path("/srv/demo"))
    with open(stage.path("/srv/demo/object"), "w") as f:
        f.write("water")
    os.chmod(stage.path("/srv/demo/object"), 0o644)
    argv, env = inside(stage, stage.entry + stage.cmd, {
        "PENSTOCK_LISTEN": f"127.0.0.1:{port}", "PENSTOCK_ADMIN_LISTEN": f"127.0.0.1:{admin}",
        "PENSTOCK_ORIGIN": "dir:/srv", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET})
    with open(os.path.join(work, "log"), "w+") as log:
        process = subprocess.Popen(argv, env=env, stdout=log, stderr=log, preexec_fn=forbid_io_uring)
    try:
        if not healthy(stage, process, env):
            with open(log.name) as f:
                fail("the container does not become healthy; its log ends with: " + f.read()[-2000:])
        print(f"ok    {' '.join(stage.health)} succeeds, as user {stage.user}, with a read-only root")
        with open(log.name) as f:
            check_process(stage, process.pid, f.read())
        status = urllib.request.urlopen(f"http://127.0.0.1:{port}/_/health/ready", timeout=5).status
        print(f"ok    /_/health/ready answers {status}")
        got = subprocess.run(["curl", "-s", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{KEY}:{SECRET}",
                              "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", f"http://127.0.0.1:{port}/demo/object"],
                             capture_output=True, text=True).stdout
        print(f"{'ok   ' if got == 'water' else 'WRONG'} a signed GET of an object answers {got!r}")
        process.terminate()
        status = process.wait(40)
        print(f"{'ok   ' if status == 0 else 'WRONG'} SIGTERM ends Penstock with status {status}")
        return got == "water" and status == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
