"""Sockets that the parent process passes: which setting each belongs to, and what is said of one that fits none."""
from filler import Filler
from harness import *
from inherit import listen, spawn


def address_of(made):
    host, port = made.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Served:
    """A daemon with sockets of this process."""

    def __init__(self, config, fds, names=None, **how):
        self.path = f"{config}-{random.randrange(1 << 32):08x}.log"
        with open(self.path, "wb") as log:
            self.pid = spawn([PENSTOCK, "serve", "--config", config], [fd.fileno() for fd in fds], names, log.fileno(),
                             env=own_env(), **how)
        self.status = None

    def log(self):
        with open(self.path, encoding="utf-8") as f:
            return f.read()

    def said(self, text):
        wait_for(f"it says {text}", lambda: text in self.log() or self.ended())
        return text in self.log()

    def ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status is not None

    def stop(self):
        os.kill(self.pid, signal.SIGTERM)
        wait_for("it ends", self.ended)
        return self.status


with Story("h14 sockets of the parent process") as story:
    origin = story.origin("object=bucket/a 1000", "object=bucket/b 2000")
    written = 0

    def config_of(**changes):
        global written
        written += 1
        path = story.path(f"config-{written}.json")
        with open(path, "w") as f:
            json.dump(story.settings(origin=origin.url, **changes), f)
        return path

    def checked(config, fds, names=None, **how):
        """The exit status of check, and what it says."""
        path = story.path("check.out")
        with open(path, "wb") as out:
            pid = spawn([PENSTOCK, "check", "--offline", "--config", config], fds, names, out.fileno(), env=own_env(),
                        **how)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with open(path, encoding="utf-8") as f:
            return status, f.read()

    # ---- what fits no setting ----
    s3, admin, other, twin = (listen("127.0.0.1:0") for _ in range(4))
    settings = {"listen": address_of(s3), "admin_listen": address_of(admin)}
    fill_path = story.path("fill.sock")
    fill = listen(fill_path, socket.SOCK_SEQPACKET)
    stream = listen(story.path("stream.sock"))
    datagram = listen("127.0.0.1:0", socket.SOCK_DGRAM)
    deaf = socket.socket()
    deaf.bind(("127.0.0.1", 0))
    six = listen("[::1]:0")
    plain_file = open(story.path("file"), "w")

    for title, fds, names, count, phrase in [
            ("a file", [plain_file], "listen", None, "is not a socket"),
            ("a descriptor that is not open", [s3], "listen", 2, "descriptor 4, which is not a socket"),
            ("a socket that does not listen", [deaf], "listen", None, "does not listen"),
            ("a datagram socket", [datagram], "listen", None, "does not listen"),
            ("a Unix socket for a TCP setting", [stream], "listen", None, "a socket of another kind than listen needs"),
            ("a socket for a fill socket that is off", [s3], "fill_socket", None, "fill_socket, and this setting is off"),
            ("an IPv6 socket for an IPv4 address", [six], "listen", None, f"listens at {address_of(six)}, and the "
             f"setting listen is {settings['listen']}"),
            ("another port", [other], "listen", None, f"listens at {address_of(other)}, and the setting listen is"),
            ("the socket of another setting", [admin], "listen", None, f"the setting listen is {settings['listen']}"),
            ("a setting that is off", [s3], "tls_listen", None, "the setting tls_listen, and this setting is off"),
            ("a name of no setting", [s3], "http", None, "named http, which is the name of no socket of Penstock"),
            ("a name that would break a line", [s3], "a\nb", None, "0Ab, which is the name of no socket"),
            ("no name, and an address of no setting", [other], None, None, "none of the settings listen, tls_listen"),
            ("two sockets for a setting", [s3, s3], "listen:listen", None, "is a second socket for the setting listen"),
            ("more sockets than settings", [s3, admin, other], None, None, "descriptor 5, which listens at"),
            ("more names than sockets", [s3], "listen:admin_listen", None, "more names than the 1 descriptors"),
            ("a number that is none", [s3], "listen", "some", "LISTEN_FDS is some, which is no number")]:
        config = config_of(**settings, cache_dir=story.path("unused"))
        fds = [fd.fileno() for fd in fds]
        status, said = checked(config, fds, names, count=count)
        story.fact(f"check: {title}", status == 1 and "error: serve would not start: " in said and phrase in said,
                   (status, said))
        log_path = story.path("refused.log")
        with open(log_path, "wb") as log:
            pid = spawn([PENSTOCK, "serve", "--config", config], fds, names, log.fileno(), env=own_env(), count=count)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with open(log_path) as f:
            said = f.read()
        story.fact(f"serve: {title}", status == 1 and '"step":"sockets"' in said and phrase in said, (status, said))
    story.fact("no cache folder was made", not os.path.exists(story.path("unused")))
    config = config_of(**settings, fill_socket=fill_path)
    status, said = checked(config, [stream.fileno()], "fill_socket")
    story.fact("check: a Unix socket of another type", status == 1 and "SOCK_SEQPACKET" in said, (status, said))
    status, said = checked(config, [fd.fileno() for fd in (s3, admin, fill)], "listen:admin_listen:fill_socket")
    story.fact("check: sockets that fit", status == 0 and "sockets: 3 of the sockets" in said, (status, said))

    # ---- what fits ----
    port, admin_port = s3.getsockname()[1], admin.getsockname()[1]
    client = Client(port)
    for title, names in [("by their names", "listen:admin_listen:fill_socket"), ("by their addresses", None),
                         ("by their addresses, with systemd's names", "penstock.socket:unknown:penstock-fill.socket")]:
        served = Served(config, [s3, admin, fill], names)
        story.fact(f"the sockets are found {title}", served.said('"listeners":"listen,admin_listen,fill_socket"'),
                   served.log()[-500:])
        story.bytes("S3", client.get("bucket/a"), "bucket/a", 0, 1000)
        story.same("admin", plain(admin_port, "GET", "/_/health/ready").status, 200)
        story.same("fills", Filler(fill_path).hello["ok"], True)
        story.same("its end is clean", served.stop(), 0)
        story.fact("the fill socket stays", os.path.exists(fill_path))

    # ---- between two processes, everybody waits ----
    waiting = Wire(port)
    waiting.send(client.head_of("GET", "bucket/b"))
    fillers = []
    thread = threading.Thread(target=lambda: fillers.append(Filler(fill_path)), daemon=True)
    thread.start()
    served = Served(config, [s3, admin, fill], "listen:admin_listen:fill_socket")
    story.bytes("a request waits for the next process", waiting.read(), "bucket/b", 0, 2000)
    thread.join(PATIENCE)
    story.fact("... and a session of the fill socket", fillers and fillers[0].hello["ok"], fillers)
    wait_for("both objects are stored", lambda: all(client.get(k).cache == "hit" for k in ("bucket/a", "bucket/b")))

    # ---- a process that is started before the old one has ended waits for its folder ----
    following = Served(config, [s3, admin, fill], "listen:admin_listen:fill_socket")
    story.fact("the next process waits for the folder", following.said('"event":"waiting"'), following.log()[-500:])
    story.bytes("... while the old one serves", client.get("bucket/a"), "bucket/a", 0, 1000)
    story.same("the old one ends", served.stop(), 0)
    story.fact("the next one is ready", following.said('"event":"ready"'), following.log()[-500:])
    before = origin.counts()["requests"]
    for key, size in (("bucket/a", 1000), ("bucket/b", 2000)):
        story.bytes("it has the whole cache", client.get(key), key, 0, size)
    story.same("... and asks the origin nothing", origin.counts()["requests"] - before, 0)
    last = Served(config, [s3, admin, fill], None)
    story.fact("another one waits", last.said('"event":"waiting"'), last.log()[-500:])
    story.same("SIGTERM ends the wait", last.stop(), 1)
    story.same("... and harms nobody", client.get("bucket/a").cache, "hit")
    story.same("its end is clean", following.stop(), 0)

    # ---- sockets for another process ----
    for used in (s3, admin, fill):
        used.close()
    os.unlink(fill_path)
    served = Served(config, [other], "listen", pid="1")
    story.fact("LISTEN_PID names another process: it says so", served.said('"event":"sockets_ignored"'), served.log())
    story.fact("... and opens its own sockets", served.said('"event":"ready"'), served.log()[-500:])
    story.bytes("... and serves", client.get("bucket/a"), "bucket/a", 0, 1000)
    story.same("its end is clean", served.stop(), 0)
    story.fact("the fill socket, which is its own, goes with it", not os.path.exists(fill_path))
    status, said = checked(config, [other.fileno()], "listen", pid="1")
    story.fact("check warns of that", "warning: LISTEN_FDS is set, but LISTEN_PID is 1" in said, said)
