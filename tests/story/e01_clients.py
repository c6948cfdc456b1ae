"""Every client does the same directly and through Penstock: over http and https, with the bucket in
the path and in the host name, cold and warm. What it read is compared byte for byte."""
import json

from harness import *

sys.path.insert(0, os.path.join(ROOT, "tests", "clients"))
from forkserver import ForkServer  # noqa: E402
from rows import Commands, rows  # noqa: E402
from sequence import play  # noqa: E402
from authority import Authority  # noqa: E402

WANTED = sys.argv[1:]    # names of rows; none: all
SMALL, LARGE = 5_000, 11 * MIB + 12_345
TABLE = os.environ.get("CLIENTS_TABLE")    # a file for what was seen; scripts/clients asks for it
DOMAIN = "s3.penstock.test"
WAYS = ("http", "https", "host")


class Ways:
    """How an endpoint can be reached: name -> what a client is told of it."""

    def __init__(self, story, origin, server, authority):
        def way(url, key, secret, style="path"):
            return {"url": url, "key": key, "secret": secret, "style": style,
                    "bucket": "clients", "ca": authority.file if url.startswith("https") else ""}
        mine = (server.client.key, server.client.secret)
        self.all = {"direct": way(origin.url, ORIGIN_KEY, ORIGIN_SECRET),
                    "http": way(server.endpoint, *mine),
                    "https": way(f"https://localhost:{server.tls_port}", *mine),
                    "host": way(f"http://{DOMAIN}:{server.port}", *mine, "host")}
        self.bundle = authority.file
        self.namespace = namespace(story, authority)


def namespace(story, authority):
    """Words before a command, by which it sees our names and trusts our authority; files of this
    machine are not touched. None if that can't be had here."""
    hosts = story.path("hosts")
    with open(hosts, "w") as f:
        f.write(f"127.0.0.1 localhost {DOMAIN} clients.{DOMAIN}\n")
    script = (f"mount --bind {hosts} /etc/hosts && "
              f"mount --bind {authority.file} /etc/ssl/certs/ca-certificates.crt && exec \"$@\"")
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        words = [*unshare, "sh", "-c", script, "sh"]
        if shutil.which("unshare") and run([*words, "true"])[0] == 0:
            return words
    return None


def environment(row, told):
    env = {"AWS_ENDPOINT_URL": told["url"], "AWS_ACCESS_KEY_ID": told["key"],
           "AWS_SECRET_ACCESS_KEY": told["secret"], "AWS_DEFAULT_REGION": "us-east-1",
           "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
           "AWS_CONFIG_FILE": told["config"], "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
           "PYTHONWARNINGS": "ignore", "PYTHONPATH": os.path.join(ROOT, "tests", "clients"),
           "POLARS_MAX_THREADS": "2"}
    if told["ca"]:
        env.update(SSL_CERT_FILE=told["ca"], AWS_CA_BUNDLE=told["ca"], CURL_CA_BUNDLE=told["ca"],
                   REQUESTS_CA_BUNDLE=told["ca"])
    env.update(row.env(told))
    keep = {n: v for n, v in os.environ.items()
            if n in ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL")}
    return {n: v for n, v in {**keep, **env}.items() if v is not None}


class Tried:
    """One client, one way: what it saw."""

    def __init__(self, story, row, ways, way, files, origin):
        folder = story.path(f"{row.name}-{way}".replace(" ", "-"))
        os.makedirs(folder)
        config = os.path.join(folder, "config")
        with open(config, "w") as f:
            style = "virtual" if ways.all[way]["style"] == "host" else "path"
            f.write(f"[default]\ns3 =\n  addressing_style = {style}\n  signature_version = s3v4\n")
        told = {**ways.all[way], **files, "folder": folder, "config": config,
                "prefix": f"{row.name}-{way}".replace(" ", "-").replace("(", "").replace(")", "")}
        self.prefix = told["prefix"]
        self.env, self.words = environment(row, told), ways.namespace or []
        if way == "direct":
            self.words = []
        if not row.writes:
            place(origin, self.prefix, files)
        self.program, self.server = row.program, None
        if row.imports:
            self.server = ForkServer(row.program, row.imports, self.words, self.env)
        self.seen = self._script(row, told) if row.script else \
            play(Commands(row, told, self._run), told)
        if self.server:
            self.server.end()

    def _run(self, argv, seconds=90):
        if self.server and argv[0] == self.program:
            return self.server.run(argv[1:], seconds)
        try:
            done = subprocess.run([*self.words, *argv], env=self.env, capture_output=True,
                                  timeout=seconds, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return None, "", f"took longer than {seconds} s"
        return (done.returncode, done.stdout.decode("utf-8", "replace"),
                done.stderr.decode("utf-8", "replace"))

    def _script(self, row, told):
        status, out, err = self._run([row.python, os.path.join(ROOT, "tests", "clients", row.script),
                                      json.dumps(told)])
        try:
            return json.loads(out.strip().splitlines()[-1])
        except (IndexError, ValueError):
            return {"put small": f"failed: ended with {status}: {(err or out)[-500:]}"}


def place(origin, prefix, files):
    for name, path in files.items():
        with open(path, "rb") as f:
            origin.client.put(f"clients/{prefix}/{name}.bin", f.read())


def objects(origin, prefix):
    """What lies at the origin below a prefix."""
    reply = origin.client.list("clients", prefix=prefix + "/")
    keys = re.findall(rb"<Key>([^<]*)</Key>", reply.body)
    return {os.path.basename(key.decode()): hashlib.sha256(
        origin.client.get("clients/" + key.decode()).body).hexdigest() for key in keys}


def judge(story, row, way, tried, direct, truth):
    """Everything right that is right directly, and the same at the origin."""
    failed = {s: v for s, v in direct.seen.items() if isinstance(v, str) and v.startswith("failed")}
    for step, why in failed.items():
        story.note(f"{row.name} can't {step} directly: {why[-160:]}")
    wrong = {step: tried.seen.get(step) for step, value in direct.seen.items()
             if step not in failed and tried.seen.get(step) != value}
    return story.fact(f"{row.name}, {way}: {len(tried.seen)} steps as directly", not wrong, wrong)


def client(story, row, ways, origin, files, truth, results):
    direct = Tried(story, row, ways, "direct", files, origin)
    there = objects(origin, direct.prefix)
    right = {"get, cold": truth["large"], "get, warm": truth["large"], "get small": truth["small"],
             "part, cold": direct.seen.get("part, warm"), "presigned": truth["small"]}
    story.same(f"{row.name}, directly: it reads what it wrote",
               {s: v for s, v in direct.seen.items() if s in right and v != right[s]
                and not (s == "presigned" and str(v).startswith("failed"))}, {})
    version = re.search(r"\d+(\.\d+)+", " ".join(run(row.version)[1:])).group(0)
    results[row.name] = {"version": version, "pointed": row.pointed, "steps": list(direct.seen),
                         "parts": row.parts}
    for way in WAYS:
        if way == "host" and ("host" not in row.styles or not ways.namespace):
            continue
        if ways.all[way]["url"].startswith("https") and not ways.namespace:
            continue
        tried = Tried(story, row, ways, way, files, origin)
        good = judge(story, row, way, tried, direct, truth)
        good &= story.same(f"{row.name}, {way}: the origin has the same",
                           objects(origin, tried.prefix), there)
        results[row.name][way] = bool(good)


with Story("e01 every client, directly and through Penstock", seconds=1000) as story:
    def where(name, folder="venv"):
        found = glob.glob(os.path.join(TOOLS, f"{folder}-*", "bin", name))
        if not found:
            raise Skip(f"{name} is not installed: run scripts/tools all")
        return max(found, key=os.path.getmtime)
    table = [row for row in rows(where) if not WANTED or row.name in WANTED]
    authority = Authority(story, "ours")
    certificate, key = authority.sign("listener", host=f"IP:127.0.0.1,DNS:localhost,DNS:{DOMAIN},"
                                                       f"DNS:*.{DOMAIN}")
    origin = story.versity()
    story.same("a bucket is made", origin.client.put("clients", b"").status, 200)
    tls_port = free_port()
    server = story.penstock(origin=origin.url, tls_listen=f"127.0.0.1:{tls_port}",
                            tls_cert_file=certificate, tls_key_file=key, domains=DOMAIN,
                            freshness=None)
    server.tls_port = tls_port
    ways = Ways(story, origin, server, authority)
    if not ways.namespace:
        story.note("no mount namespace here: https and host style are not tried")
    files, truth = {}, {}
    for name, size in (("small", SMALL), ("large", LARGE)):
        files[name] = story.path(f"{name}.bin")
        body = story.random.randbytes(size)
        with open(files[name], "wb") as f:
            f.write(body)
        truth[name] = hashlib.sha256(body).hexdigest()
    results, left, lock = {}, list(table), threading.Lock()

    def work():
        while True:
            with lock:
                if not left:
                    return
                row = left.pop(0)
            began = time.monotonic()
            client(story, row, ways, origin, files, truth, results)
            story.note(f"{row.name} took {time.monotonic() - began:.1f} s")
    together(work, work, seconds=900)    # on a busy machine, each start of an AWS CLI takes seconds
    seen = story.path("seen.json")
    with open(seen, "w") as f:
        json.dump({row.name: results[row.name] for row in table}, f, indent=1)
    if TABLE:
        shutil.copy(seen, TABLE)
    elif not WANTED and ways.namespace:
        status, out, err = run([sys.executable, os.path.join(ROOT, "tests", "clients", "table.py"),
                                os.path.join(ROOT, "man", "penstock-s3.7.md"), seen])
        story.fact("the manual's list is what this run saw, versions aside", status == 0, err)
