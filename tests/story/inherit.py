"""inherit.py - a parent that opens listening sockets, and passes them to each daemon that it starts.
SPDX-License-Identifier: Apache-2.0

For stories: listen() opens a socket, spawn() starts a program with sockets as systemd does, and Keeper is a process that
keeps sockets over restarts. Debian's systemd-socket-activate opens the sockets of a Keeper where it is installed;
elsewhere the Keeper does.

As a program, the process of a Keeper:

    python3 inherit.py NAME=ADDRESS,NAME=ADDRESS PROGRAM ARGUMENT ...

starts PROGRAM with these sockets. SIGUSR1: ends PROGRAM by SIGTERM, and starts it again when it has ended. SIGTERM: ends
it, and exits with its status."""
import fcntl
import os
import shutil
import signal
import socket
import sys

HIGH = 100    # descriptors from here on are free when 3 and the next ones are set


def listen(address, kind=socket.SOCK_STREAM):
    """A listening socket at "127.0.0.1:9000", "[::1]:9000" or a path."""
    host, _, port = address.rpartition(":")
    family = socket.AF_UNIX if "/" in address else socket.AF_INET6 if "[" in host else socket.AF_INET
    made = socket.socket(family, kind)
    if family != socket.AF_UNIX:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(address if family == socket.AF_UNIX else (host.strip("[]"), int(port)))
    if kind != socket.SOCK_DGRAM:
        made.listen(4096)
    return made


def spawn(argv, fds, names=None, output=2, env=None, count=None, pid="$$"):
    """Starts a program with these descriptors as 3, 4 ...; it dies with this process. count and pid: what the program
    is told, if not the truth. Returns its pid."""
    env = {**(os.environ if env is None else env), "LISTEN_FDS": str(len(fds) if count is None else count)}
    env.pop("LISTEN_FDNAMES", None)
    if names is not None:
        env["LISTEN_FDNAMES"] = names
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH) for fd in [*fds, output]]
    actions = [(os.POSIX_SPAWN_DUP2, fd, 3 + i) for i, fd in enumerate(high[:-1])]
    actions += [(os.POSIX_SPAWN_DUP2, high[-1], 1), (os.POSIX_SPAWN_DUP2, high[-1], 2)]
    argv = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", f'LISTEN_PID={pid} exec "$@"', "sh", *argv]
    child = os.posix_spawnp(argv[0], argv, env, file_actions=actions, setsigmask=())
    for fd in high:
        os.close(fd)
    return child


# ---- the process of a Keeper ----

def keep(sockets, argv):
    pairs = [s.split("=", 1) for s in sockets.split(",") if s]
    names, addresses = [n for n, _ in pairs], [a for _, a in pairs]
    waited = {signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    if os.environ.get("LISTEN_PID") == str(os.getpid()):    # systemd-socket-activate has opened them
        fds = [fcntl.fcntl(3 + i, fcntl.F_DUPFD_CLOEXEC, HIGH) for i in range(int(os.environ["LISTEN_FDS"]))]
        names = os.environ["LISTEN_FDNAMES"].split(":")
    else:
        fds = [listen(address).detach() for address in addresses]
    while True:
        child = spawn(argv, fds, ":".join(names))
        told = signal.sigwait(waited)
        if told != signal.SIGCHLD:
            os.kill(child, signal.SIGTERM)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if told != signal.SIGUSR1 or status:
            return status if told == signal.SIGTERM else status or 70    # 70: it ended by itself
        if signal.SIGCHLD in signal.sigpending():
            signal.sigwait({signal.SIGCHLD})


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1], sys.argv[2:]))

from harness import ACCESS_KEY, PENSTOCK, SECRET_KEY, Client, Process    # noqa: E402 (for stories)


class Keeper(Process):
    """A process that keeps the sockets of a daemon. inherits=False: the same without sockets, so that each daemon opens
    its own."""

    def __init__(self, story, config_path, settings, inherits=True):
        sockets = {name: settings[name] for name in ("listen", "tls_listen", "admin_listen") if name in settings}
        sockets = sockets if inherits else {}
        self.port, self.admin_port = (int(settings[n].rpartition(":")[2]) for n in ("listen", "admin_listen"))
        self.client = Client(self.port, ACCESS_KEY, SECRET_KEY)
        activate = inherits and shutil.which("systemd-socket-activate")
        self.opened_by = "the daemon" if not inherits else os.path.basename(activate or "the story's own parent")
        argv = [sys.executable, os.path.abspath(__file__), ",".join("=".join(s) for s in sockets.items()),
                PENSTOCK, "serve", "--config", config_path]
        if activate:
            kept = [f"-E{n}" for n in os.environ if n.endswith("SAN_OPTIONS")]
            argv = [activate, *kept, *(f"--listen={a}" for a in sockets.values()), "--fdname=" + ":".join(sockets),
                    *argv]
        super().__init__(story, "keeper", argv)

    def ready_count(self):
        """How many daemons it has started that are ready."""
        return self.log().count('"event":"ready"')

    def restart(self):
        self.process.send_signal(signal.SIGUSR1)
