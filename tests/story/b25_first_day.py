"""The mistakes of the first day, a row each: whoever makes one is told what, why, and what to do. Rows that need no
daemon come first, then those that serve meets, then those of clients. b14 to b17, b19 and d08 say more of some."""
import html

from authority import *
from filler import Filler

NOBODY = ("setpriv", "--reuid=nobody", "--regid=65534", "--clear-groups")
ROOT_USER = os.geteuid() == 0 and shutil.which("setpriv")


class Stage:
    def __init__(self, story):
        self.story, self.count = story, 0
        self.clean = {n: v for n, v in os.environ.items() if not n.startswith(("PENSTOCK", "AWS_"))}
        self.clean.update(HOME="/nowhere", AWS_EC2_METADATA_DISABLED="true")

    def told(self, mistake, said, words, status=None, want=None):
        lacks = [word for word in words if word not in said]
        self.story.fact(mistake, not lacks and status == want, f"lacks {lacks}, {status} for {want}: {said}")

    def call(self, *argv, prefix=(), env=None):
        done = subprocess.run([*prefix, PENSTOCK, *argv], capture_output=True, text=True, timeout=PATIENCE, env={**self.clean, **(env or {})})
        return done.returncode, done.stdout + done.stderr

    def write(self, text, name=None):
        self.count += 1
        path = self.story.path(name or f"settings-{self.count}.json")
        with open(path, "w") as f:
            f.write(text)
        return path

    def settings(self, **changes):
        self.count += 1
        return self.write(json.dumps(self.story.settings(**{"cache_dir": self.story.path(f"cache-{self.count}"), **changes}), indent=1))

    def check(self, mistake, want, *words, flags=(), prefix=(), env=None, path=None, **changes):
        """penstock check of good settings with these changes."""
        status, said = self.call("check", path or self.settings(**changes), *flags, prefix=prefix, env=env)
        self.told(f"check: {mistake}", said, words, status, want)

    def serve(self, mistake, want, *words, flags=(), prefix=(), **changes):
        """penstock serve of them, which ends at once."""
        status, said = self.call("serve", "--config", self.settings(**changes), *flags, prefix=prefix)
        self.told(f"serve: {mistake}", said, words, status, want)


def settings_as_they_are_written(stage, url):
    story, check = stage.story, stage.check
    check("no origin", 2, "origin", "https://HOST", origin=None)
    check("a scheme with a typo", 2, "origin", "htps://s3.example.org", "https://", origin="htps://s3.example.org")
    check("no scheme", 2, "origin", "https://", origin="s3.eu-west-1.amazonaws.com")
    check("an origin with a bucket in its path", 2, "origin", "bucket", origin="https://s3.example.org/bucket")
    check("a misspelt setting", 2, "cache_sise", "cache_size", origin=url, cache_sise="1GiB")
    check("a size without a unit that exists", 2, "cache_size", "64MiB", origin=url, cache_size="100 gigs")
    check("a size that was meant in GiB", 2, "cache_size", "a number without a unit is bytes", origin=url, cache_size=100)
    check("a duration without a unit", 2, "ttl", "60s", origin=url, ttl="60")
    check("a number for a duration", 2, "ttl", "60s", origin=url, ttl=60)
    check("a word for yes or no", 2, "access_log", "true or false", origin=url, access_log="off")
    check("a freshness that there is not", 2, "freshness", "immutable", origin=url, freshness="forever")
    check("an access key without a secret", 2, "access_key", "secret_key", origin=url, secret_key=None)
    check("a secret without an access key", 2, "access_key", "secret_key", origin=url, access_key=None)
    check("an origin's key without a secret", 2, "origin_secret_key", origin=url, origin_secret_key=None)
    check("no keys at all", 2, "AWS_ACCESS_KEY_ID", "origin_access_key", origin=url, access_key=None, secret_key=None,
          origin_access_key=None, origin_secret_key=None)
    check("a secret's file that is empty", 2, "secret_key_file", "is empty", origin=url, secret_key=None,
          secret_key_file=stage.write("\n", "empty"))
    check("... that is not there", 2, "secret_key_file", story.path("no-secret"), origin=url, secret_key=None,
          secret_key_file=story.path("no-secret"))
    check("lend without a token", 2, "lend_token", origin=url, lend=True)
    check("metrics_token without a token", 2, "admin_token", origin=url, metrics_token=True)
    check("a header that never goes on", 2, "forward_headers", "Authorization", origin=url, forward_headers="Authorization")
    check("a port that is none", 2, "listen", "99999", origin=url, listen="127.0.0.1:99999")
    check("a host name to listen at", 2, "listen", "HOST:PORT", origin=url, listen="localhost")
    check("two listeners at one port", 2, "listen", "admin_listen", origin=url, listen="127.0.0.1:9", admin_listen="127.0.0.1:9")
    check("a right that there is not", 2, "policy", "read", origin=url,
          keys=[{"access_key": "A", "secret_key": "B", "policy": [{"allow": ["reed"], "on": ["data"]}]}])
    check("a bucket's origin that is not named", 2, "nearby", "origins", origin=url, buckets={"data": {"origin": "nearby"}})
    check("https without a certificate", 2, "tls_cert_file", origin=url, tls_listen="127.0.0.1:9443")
    check("JSON with a comma too many", 2, ":3:1:", "not valid JSON", "comma", path=stage.write('{\n "origin": "dir:/tmp",\n}\n'))
    check("a file that is not there", 2, story.path("none.json"), "No such file", path=story.path("none.json"))
    check("a folder in place of a file", 2, story.folder, "it is a folder", path=story.folder)
    status, said = stage.call("serve")
    stage.told("serve: nothing said at all", said, ["origin", "--origin", "PENSTOCK_ORIGIN", "penstock.json"], status, 2)
    status, said = stage.call("serve", "--orign", "dir:/tmp")
    stage.told("serve: a misspelt flag", said, ["--orign", 'did you mean "origin"'], status, 2)
    check("a folder as origin, from here", 2, "origin", "dir:/FOLDER", origin="dir:data")
    check("a profile that there is not", 2, "nosuchprofile", origin=url, origin_access_key=None, origin_secret_key=None,
          aws_profile="nosuchprofile")
    check("a setting that only an origin has, in a bucket", 2, "buckets.data.url", "no such setting", origin=url,
          buckets={"data": {"url": "https://s3.example.org"}})
    status, said = stage.call()
    stage.told("no command", said, ["serve", "check"], status, 2)
    status, said = stage.call("--origin", "dir:/tmp")
    stage.told("a flag without a command", said, ["--origin", "serve"], status, 2)
    status, said = stage.call("help", "cache_dri")
    stage.told("help: a misspelt setting", said, ["cache_dri", "cache_dir"], status, 2)
    status, said = stage.call("check", "--ofline")
    stage.told("check: a misspelt flag", said, ["--ofline"], status, 2)
    status, said = stage.call("serv")
    stage.told("a misspelt command", said, ["serv", "serve", "penstock help"], status, 2)
    status, said = stage.call("serve", "--origin")
    stage.told("serve: a flag without its value", said, ["--origin", "value"], status, 2)
    status, said = stage.call("config", "--origin", "dir:/tmp", env={"PENSTOCK_CACHE_DRI": "/nvme"})
    stage.told("a misspelt variable", said, ["PENSTOCK_CACHE_DRI", 'did you mean "cache_dir"'], status, 2)
    status, said = stage.call("config", "--origin", "dir:/tmp", "--access-log", "false")
    stage.told("--access-log false", said, ["access_log", "false"], status, 0)
    status, said = stage.call("-V")
    stage.told("-V", said, ["penstock "], status, 0)
    if ROOT_USER:
        os.chmod(story.folder, 0o755)
        path = stage.settings(origin=url)
        os.chmod(path, 0o600)
        check("a file that the service's user can't read", 2, path, "Permission denied", path=path, prefix=NOBODY)
        os.chmod(secret := stage.write("secret\n", "roots-secret"), 0o600)
        path = stage.settings(origin=url, secret_key=None, secret_key_file=secret)
        check("a secret's file that it can't read", 2, "secret_key_file", secret, "Permission denied", path=path, prefix=NOBODY)


def places(stage, url, server, ours, other):
    story, check = stage.story, stage.check
    taken = server.settings["listen"]
    check("a folder to be made in one that is missing", 1, story.path("no"), "is not there", "cache_dir", origin=url,
          cache_dir=story.path("no/cache"))
    check("a cache folder that is a file", 1, "not a folder", "cache_dir", origin=url, cache_dir=stage.write("", "file"))
    os.mkdir(story.path("home"))
    stage.write("", "home/thesis.tex")
    check("one with somebody's files", 1, "thesis.tex", "cache_dir", origin=url, cache_dir=story.path("home"))
    stage.serve("one with somebody's files", 1, "thesis.tex", "cache_dir", origin=url, cache_dir=story.path("home"))
    check("one that another Penstock holds", 1, server.cache_dir, "another", "cache_dir", origin=url, cache_dir=server.cache_dir)
    if ROOT_USER:
        os.mkdir(story.path("roots"), 0o700)
        path = stage.settings(origin=url, cache_dir=story.path("roots"))
        check("one of another user", 1, "chown", story.path("roots"), path=path, prefix=NOBODY)
        path = stage.settings(origin=url, cache_dir=story.path("new"))
        check("one that can't be made", 1, story.path("new"), "sudo install -d", path=path, prefix=NOBODY)
    for setting in ("listen", "admin_listen"):
        check(f"a port that is taken: {setting}", 1, setting, taken, "another process", origin=url, **{setting: taken})
        stage.serve(f"a port that is taken: {setting}", 1, setting, taken, "in use", origin=url, **{setting: taken})
    check("a port below 1024", 1, "listen", "80", prefix=NOBODY, path=stage.settings(origin=url, listen="127.0.0.1:80")) if ROOT_USER else None
    check("an address that this machine has not", 1, "listen", "192.0.2.1", origin=url, listen="192.0.2.1:9000")
    check("a fill socket whose folder is missing", 1, "fill_socket", story.path("no"), origin=url, fill_socket=story.path("no/fill.sock"))
    check("a user of it that there is not", 2, "fill_users", "nosuchuser", origin=url, fill_socket=story.path("fill.sock"), fill_users="nosuchuser")
    check("a cache larger than the disk", 0, "warning", "cache_size", origin=url, cache_size="60TiB")
    check("all addresses without TLS", 0, "warning", "0.0.0.0", "tls_listen", origin=url, listen=f"0.0.0.0:{free_port()}")
    check("a folder as origin that is missing", 2, "origin", story.path("nowhere"), origin="dir:" + story.path("nowhere"))
    cert, key = ours.sign("server")
    _, other_key = other.sign("another")
    tls = {"origin": url, "tls_listen": f"127.0.0.1:{free_port()}"}
    check("a certificate without its key", 2, "tls_key_file", tls_cert_file=cert, **tls)
    check("a key of another certificate", 2, "tls_key_file", "does not belong to", tls_cert_file=cert, tls_key_file=other_key, **tls)
    check("a certificate's file that is missing", 2, "tls_cert_file", "No such file", tls_cert_file="/no.pem", tls_key_file=key, **tls)


def origins(stage, origin, ours):
    check = stage.check
    check("an origin that does not resolve", 0, "nosuchhost.invalid", "resolve", "origin", origin="http://nosuchhost.invalid")
    check("one that refuses", 0, "can't be reached", "refused", origin="http://127.0.0.1:9")
    check("https where it speaks http", 0, "http", origin=origin.url.replace("http", "https"))
    cert, key = ours.sign("origin")
    front = stage.story.penstock(origin=origin.url, cache_dir=stage.story.path("tls"), tls_listen=f"127.0.0.1:{free_port()}",
                                 tls_cert_file=cert, tls_key_file=key)
    there, keys = "https://" + front.settings["tls_listen"], {"origin_access_key": ACCESS_KEY, "origin_secret_key": SECRET_KEY}
    check("http where it speaks https", 0, "not in the form of S3", "scheme", origin=there.replace("https", "http"), **keys)
    check("an authority that is not known", 0, "origin_ca_file", origin=there, **keys)
    check("a certificate of another name", 0, "name", "localhost", origin=there.replace("127.0.0.1", "localhost"),
          origin_ca_file=ours.file, **keys)
    check("a file of authorities that is missing", 2, "origin_ca_file", origin=there, origin_ca_file="/no.pem")
    check("a wrong key at the origin", 0, "origin_access_key", "NOSUCHKEY", origin=f"http://{front.settings['listen']}",
          origin_access_key="NOSUCHKEY", origin_secret_key="x")
    check("a wrong secret", 0, "origin_secret_key", origin=f"http://{front.settings['listen']}",
          origin_access_key=ACCESS_KEY, origin_secret_key="wrong")
    check("a web server that is no object store", 0, "not in the form of S3", origin=f"http://{front.settings['admin_listen']}")
    return front


def message(reply):
    body = html.unescape(reply.body.decode())
    return f"{reply.status} {reply.code}: " + (re.search("<Message>(.*?)</Message>", body, re.S) or [body, body])[1]


def clients(stage, server, front, folder):
    def told(mistake, reply, *words):
        stage.told(f"a client: {mistake}", message(reply) if hasattr(reply, "body") else str(reply), words)
    settings = server.config_path
    told("an unknown key", Client(server.port, "NOSUCHKEY", SECRET_KEY).get("bucket/a"), "403", "Penstock's own", settings)
    told("a wrong secret", Client(server.port, ACCESS_KEY, "wrong").get("bucket/a"), "403", "Penstock's own", settings)
    told("a wrong secret at the fill socket", Filler(server.settings["fill_socket"], secret="wrong").hello["message"],
         "does not match", "Penstock's own", settings)
    told("a clock that is wrong", server.get("bucket/a", now=ago(hours=1)), "403", "15 minutes", "clock")
    told("no signature", plain(server.port, "GET", "/bucket/a"), "403 AccessDenied", "carries no signature", "access_key")
    told("a temporary token", server.get("bucket/a", headers={"x-amz-security-token": "FwoG"}), "InvalidToken", "session_token")
    told("a bucket in a host name that is not known", front.get("a", headers={"host": f"bucket.penstock.example:{front.port}"}), "400 InvalidBucketName", "from the path", "domains")
    told("a list of a batch that is too long", server.ask("POST", "bucket", [("penstock-batch", "")],
         body=json.dumps({"items": ["a"] * 3}).encode()), "400", "fewer items at once")
    told("a body that is too large", server.put("bucket/b", bytes(2 * MIB)), "400 EntityTooLarge", "in smaller parts")
    told("a form of a browser", plain(server.port, "POST", "/bucket", b"--x--", ["Content-Type: multipart/form-data; boundary=x"]),
         "501", "browser_uploads")
    told("a write to a folder", folder.put("bucket/b", b"b"), "405 MethodNotAllowed", "read-only")
    told("a presigned URL that was cut", plain(server.port, "GET", presign("GET", server.client.host, "/bucket/a", ACCESS_KEY,
         SECRET_KEY).split("&X-Amz-Signature")[0]), "X-Amz-Signature")
    told("one that has expired", plain(server.port, "GET", presign("GET", server.client.host, "/bucket/a", ACCESS_KEY,
         SECRET_KEY, now=ago(hours=1))), "403 AccessDenied", "expired")
    told("one of another host", plain(server.port, "GET", presign("GET", "penstock.example", "/bucket/a", ACCESS_KEY, SECRET_KEY)),
         "403 SignatureDoesNotMatch")
    told("the origin's key", Client(server.port, ORIGIN_KEY, ORIGIN_SECRET).get("bucket/a"), "403 InvalidAccessKeyId",
         "not with a key of the origin", settings)
    told("lend where it is off", plain(server.port, "GET", "/_/credentials"), "lend")
    told("metrics asked of the S3 port", plain(server.port, "GET", "/metrics"), "403 AccessDenied")
    told("S3 asked of the admin port", plain(server.admin_port, "GET", "/bucket/a"), "listen")
    told("https to the http port", raw(server.port, bytes.fromhex("16030100c8010000c40303")), "http://")
    told("http to the https port", raw(int(front.settings["tls_listen"].split(":")[1]), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "https://")
    told("HTTP/2", raw(server.port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "400", "speaks only HTTP/1.1")


def raw(port, data):
    wire = Wire(port)
    wire.send(data)
    return (wire.hears() or b"").decode("latin-1")


def tools(stage, server):
    status, said = stage.call("stat", "--admin-listen", "127.0.0.1:9")
    stage.told("stat: no daemon", said, ["127.0.0.1:9", "refused", "admin_listen"], status, 1)
    status, said = stage.call("stat", "--admin-listen", server.settings["listen"])
    stage.told("stat: the S3 address", said, ["admin_listen"], status, 1)
    status, said = stage.call("stat", "--url", "127.0.0.1:9")
    stage.told("stat: a URL without http", said, ["http://"], status, 2)
    status, said = stage.call("health", "--url", "http://127.0.0.1:9")
    stage.told("health: no daemon", said, ["127.0.0.1:9", "refused"], status, 1)


with Story("b25 mistakes of the first day, each told with what, why and what to do", seconds=60) as story:
    stage = Stage(story)
    origin = story.origin("object=bucket/a 1000")
    settings_as_they_are_written(stage, origin.url)
    server = story.penstock(origin=origin.url, batch_items=2, body_max="1MiB", fill_socket=story.path("fills.sock"))
    ours, other = Authority(story, "ours"), Authority(story, "others")
    places(stage, origin.url, server, ours, other)
    front = origins(stage, origin, ours)
    os.makedirs(story.path("tree/bucket"))
    folder = story.penstock(origin="dir:" + story.path("tree"), cache_dir=story.path("of-tree"), origin_access_key=None,
                            origin_secret_key=None)
    clients(stage, server, front, folder)
    tools(stage, server)
