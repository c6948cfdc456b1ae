"""An origin behind TLS: who may vouch for it is one setting, and an origin nobody vouches for is
refused before it hears a byte."""
import warnings
from urllib.parse import unquote

from authority import *

warnings.simplefilter("ignore", DeprecationWarning)    # TLS 1.1 is what one of the facts is about


class Doubtful(Listener):
    """A TLS server that notes what it hears after the handshake, and answers 200."""

    scheme = "https"

    def __init__(self, signed, old=False):
        self.heard = b""
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(*signed)
        if old:
            self.tls.set_ciphers("ALL:@SECLEVEL=0")
            self.tls.minimum_version = ssl.TLSVersion.TLSv1
            self.tls.maximum_version = ssl.TLSVersion.TLSv1_1
        super().__init__()

    def serve(self, connection):
        with self.tls.wrap_socket(connection, server_side=True) as inside:
            self.heard += inside.recv(65536)
            inside.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nETag: \"e\"\r\n"
                           b"Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n\r\nhi")


class Counted(Listener):
    """Hands bytes on as they are, so each connection that begins with a hello is a handshake."""

    scheme = "https"

    def __init__(self, port):
        self.to, self.hellos = port, 0
        super().__init__()

    def serve(self, connection):
        with socket.create_connection(("127.0.0.1", self.to)) as server:
            hello = connection.recv(65536)
            self.hellos += hello[:2] == b"\x16\x03"
            server.sendall(hello)
            back = threading.Thread(target=self.copy, args=(server, connection), daemon=True)
            back.start()
            self.copy(connection, server)
            back.join()

    @staticmethod
    def copy(come, go):
        go.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while data := come.recv(262144):
                go.sendall(data)
            go.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def reads_right(story, text, server, bodies, cache):
    wrong = {}
    for key, body in bodies.items():
        reply = server.get(key)
        if (reply.status, reply.cache, reply.body) != (200, cache, body):
            wrong[key] = reply
    story.same(text, wrong, {})


def refused(story, text, server, key, front, reason):
    reply = server.get(key)
    story.same(f"{text}: 502 in S3's XML", (reply.status, reply.code), (502, "InternalError"))
    story.same("... which says what it is about", b"certificate" in reply.body, True)
    story.same("... nothing was said to the origin", front.heard, b"")
    story.same("... and it was asked once", front.connections, 1)
    lines = [x for x in unquote(server.log()).splitlines() if "origin_failed" in x
             and "ERR_ORIGIN_CERT" in x and f"tls-{key.split('/')[0]}" in x]
    story.fact("... the log names the origin and the reason", len(lines) == 1
               and reason in lines[0], lines)


with Story("o04 an https origin is trusted if its authority is") as story:
    tool("versitygw")
    if shutil.which("openssl") is None:
        raise Skip("openssl is not installed")
    ours, other = Authority(story, "ours"), Authority(story, "other")
    good = ours.sign("good")

    versity = story.versity(tls=good)
    front = Counted(versity.port)
    os.makedirs(os.path.join(versity.folder, "photos"))
    server = story.penstock(origin=front.url, origin_ca_file=ours.file, origin_threads=1)
    bodies = {f"photos/{i}": story.random.randbytes(size) for i, size in
              enumerate((0, 1, 1000, 131072, 131073, 300_000, 5 * MIB))}
    for key, body in bodies.items():
        story.same(f"PUT of {len(body)} bytes", server.put(key, body).status, 200)
    reads_right(story, "cold reads are right", server, bodies, "miss")
    story.same("all over one connection with one handshake", (front.connections, front.hellos),
               (1, 1))
    server = server.restart()
    reads_right(story, "warm reads are right", server, bodies, "hit")
    story.same("... with no other", front.connections, 1)
    server.stop()

    # One daemon, one origin thread: what one origin's authority may do, no other's can borrow.
    fronts = {"stranger": Doubtful(other.sign("stranger")),
              "expired": Doubtful(ours.sign("expired", ends="20210101000000Z")),
              "elsewhere": Doubtful(ours.sign("elsewhere", host="DNS:example.com")),
              "system": Doubtful(good), "theirs": Doubtful(good)}
    files = {"system": "", "theirs": other.file}
    server = story.penstock(
        origin=front.url, origin_ca_file=ours.file, origin_threads=1, origin_tries=4,
        cache_dir=story.path("second"),
        origins={f"tls-{name}": {"url": it.url,
                                 **({"ca_file": files[name]} if name in files else {})}
                 for name, it in fronts.items()},
        buckets={name: {"origin": f"tls-{name}"} for name in fronts})
    story.same("the trusted one serves", server.get("photos/1").body, bodies["photos/1"])
    for name, text, reason in (
            ("stranger", "an authority we don't know", "unable to get local issuer"),
            ("expired", "a certificate that expired", "expired"),
            ("elsewhere", "a certificate of another host", "subject name"),
            ("system", "our own authority, where the system's store is asked", "issuer"),
            ("theirs", "our own authority, where only another may vouch", "issuer")):
        refused(story, text, server, f"{name}/a", fronts[name], reason)
    reply = server.put("stranger/b", b"x")
    story.same("a write is refused alike", (reply.status, reply.code), (502, "InternalError"))
    story.same("... and not sent", fronts["stranger"].heard, b"")
    server.stop()

    # The file may change while the daemon runs: each read below is over a new connection.
    changing = story.path("changing.pem")
    shutil.copy(other.file, changing)
    renewed = Doubtful(good)
    server = story.penstock(origin=renewed.url, origin_ca_file=changing, origin_threads=1,
                            origin_tries=1, cache_dir=story.path("changing"))
    story.same("the file has another authority", server.get("photos/a0").status, 502)
    numbers = iter(range(1, 10_000))
    status_of_next = lambda: server.get(f"photos/a{next(numbers)}").status
    shutil.copy(ours.file, changing)
    wait_for("the new authority counts", lambda: status_of_next() == 200, seconds=20)
    story.fact("the authority that the file has now counts without a restart", True)
    shutil.copy(other.file, changing)
    wait_for("the old authority is gone", lambda: status_of_next() == 502, seconds=20)
    story.fact("... and one that the file has no longer vouches for nothing", True)
    server.stop()

    # The system's own rules would refuse TLS 1.1 too: they are lifted, so it is ours that does.
    lax = story.path("openssl.cnf")
    with open(lax, "w") as f:
        f.write("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n"
                "[c]\nMinProtocol = TLSv1\nCipherString = ALL:@SECLEVEL=0\n")
    old = Doubtful(good, old=True)
    client = ssl.create_default_context(cafile=ours.file)
    client.set_ciphers("ALL:@SECLEVEL=0")
    client.minimum_version = ssl.TLSVersion.TLSv1
    with client.wrap_socket(socket.create_connection(("127.0.0.1", old.port)),
                            server_hostname="127.0.0.1") as inside:
        story.same("there is a server of TLS 1.1", inside.version(), "TLSv1.1")
    server = story.penstock(origin=old.url, origin_ca_file=ours.file, origin_tries=1,
                            cache_dir=story.path("third"), env={"OPENSSL_CONF": lax})
    reply = server.get("photos/a")
    story.same("TLS below 1.2 is refused", (reply.status, reply.code), (503, "ServiceUnavailable"))
    story.same("... nothing was said to it", old.heard, b"")
    story.fact("... and the log says why", "protocol" in server.log(), server.log()[-500:])
    server.stop()

    server = story.penstock(origin=front.url, cache_dir=story.path("fourth"),
                            env={"AWS_CA_BUNDLE": ours.file})
    story.same("AWS_CA_BUNDLE is good where nothing is set", server.get("photos/5").body,
               bodies["photos/5"])
    server.stop()

    empty = story.path("empty.pem")
    open(empty, "w").close()
    for name, why in (("no-such.pem", "No such file"), ("empty.pem", "holds no certificate")):
        settings = story.settings(origin=front.url, origin_ca_file=story.path(name))
        with open(story.path("bad.json"), "w") as f:
            json.dump(settings, f)
        for command in (["check", story.path("bad.json")],
                        ["serve", "--config", story.path("bad.json")]):
            done = subprocess.run([PENSTOCK, *command], capture_output=True, text=True, timeout=PATIENCE, env=own_env())
            told = [x for x in (done.stdout + done.stderr).splitlines() if "origin_ca_file" in x]
            story.fact(f"{command[0]} refuses {name} in one line",
                       done.returncode == 2 and len(told) == 1 and why in told[0]
                       and name in told[0], done)
