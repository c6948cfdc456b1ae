"""The commands that ask the cache: penstock ls, du, explain, purge, pin and unpin, as an operator types them."""
import http.server
import pty

from harness import *

SIZE = 150_000
ODD = ["pile/sp ace é", "pile/nl\nnew\x1b[31mred", "pile/back\\slash", "pile/%41"]
KEYS = [f"pile/{d}/{i:02}" for d in "ab" for i in range(6)] + ODD


class Other:
    """A server that is no Penstock, and says what the story wants."""

    def __init__(self):
        outer = self
        self.answer = (200, b"{}", {})

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, body, headers = outer.answer
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_):
                pass

            def version_string(self):
                return outer.answer[2].get("Server", "Other/1")
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


with Story("y02 commands say what is cached", seconds=150) as story:
    origin = story.origin(*(f"object={key} {SIZE}" for key in KEYS if key not in ODD))
    for name in "ab":
        os.mkdir(story.path(name))
    keys = [{"access_key": name, "secret_key": name.lower(), "policy": [{"allow": allow, "on": on}]}
            for name, allow, on in (("LISTERKEY", ["list"], ["pile/a/"]), ("READERKEY", ["read"], ["pile/"]))]
    server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, freshness="immutable", keys=keys,
                            cache_dirs=[{"path": story.path(name) + "/cache", "size": "256MiB"} for name in "ab"])
    client = server.client_env()
    none = {"PENSTOCK_CONFIG": "/nonexistent", "HOME": story.folder}

    def penstock(*argv, env=client, **more):
        return run([PENSTOCK, *argv], {**none, **env}, **more)

    def lines_of(*argv, **more):
        status, out, err = penstock(*argv, "--json", **more)
        story.fact(f"{' '.join(argv)} --json succeeds", status in (0, 3) and out.endswith("}\n"), err)
        return [json.loads(line) for line in out.splitlines()]

    def refused(text, status, words, *argv, **more):
        got, out, err = penstock(*argv, **more)
        story.fact(text, got == status and out == "" and all(word in err for word in words) and err.count("\n") == 1,
                   f"status {got}: {out}{err}")

    story.same("nothing is cached", penstock("ls", "s3://pile/")[:2], (0, "no cached key of s3://pile/ was found\n"))
    for key in ODD:
        story.same("a write", server.put(key, bytes(SIZE)).status, 200)
    for key in KEYS:
        story.same("a read", server.get(key).status, 200)
    story.same("a read of a part", server.get("pile/a/00", 0, 99).status, 206)
    want = sorted(key[5:] for key in KEYS)
    wait_for("all is stored", lambda: [row.get("key") for row in lines_of("ls", "s3://pile")[:-1]] == want)

    # ---- ls ----
    status, out, err = penstock("ls", "s3://pile/a/0")
    rows = out.splitlines()
    story.same("ls has a head, a line for each key, and a sum", (status, err, rows[0].split(), [row.split()[-1] for row in rows[1:-1]], rows[-1]),
               (0, "", ["SIZE", "CACHED", "AGE", "PINNED", "KEY"], [f"a/{i:02}" for i in range(6)], "6 keys: 878.9 KiB of 878.9 KiB cached"))
    story.fact("sizes are for people", "146.5 KiB" in rows[1] and "100 %" in rows[1], rows[1])
    story.fact("... or exact", f"{SIZE}" in penstock("ls", "s3://pile/a/", "--bytes")[1], "")
    status, out, _ = penstock("ls", "s3://pile/")
    story.fact("no byte of a name reaches the terminal as a command", not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", out), repr(out))
    story.fact("odd names can be told apart", all(name in out for name in (
        "sp ace é", "nl\\x0anew\\x1b[31mred", "back\\\\slash", "%41")), out)
    story.same("a URL is not decoded", [[row["key"] for row in lines_of("ls", f"s3://{key}")[:-1]] for key in ODD], [[key[5:]] for key in ODD])
    ask = server.ask("GET", "pile", [("penstock-ls", ""), ("prefix", "a/")])
    story.same("--json is what the service says", penstock("ls", "s3://pile/a/", "--json")[1], ask.body.decode())
    story.same("a prefix without a key", penstock("ls", "s3://pile/c")[:2], (0, "no cached key of s3://pile/c was found\n"))

    # ---- du ----
    status, out, err = penstock("du", "s3://pile")
    story.same("du has a line for each prefix, and a total", [row.split()[-2:] for row in out.splitlines()],
               [["OBJECTS", "PREFIX"], ["4", "s3://pile/"], ["6", "s3://pile/a/"], ["6", "s3://pile/b/"], ["16", "total"]])
    story.same("--depth 0 is one line", lines_of("du", "--depth", "0", "s3://pile")[0],
               {"prefix": "", "objects": 16, "bytes": 16 * SIZE, "cached_bytes": 16 * SIZE})
    story.same("exact bytes", penstock("du", "--bytes", "s3://pile/a/")[1].splitlines()[-1].split(), [str(6 * SIZE)] * 2 + ["6", "total"])

    story.same("du of nothing", [row.split() for row in penstock("du", "s3://pile/c")[1].splitlines()],
               [["CACHED", "SIZE", "OBJECTS", "PREFIX"], ["0", "B", "0", "B", "0", "total"]])

    # ---- explain ----
    status, out, err = penstock("explain", "s3://pile/a/00")
    story.fact("explain says what a read would do, and where the bytes are", status == 0 and err == "" and all(word in out for word in (
        "s3://pile/a/00\nnow          hit: ", "cached       146.5 KiB of 146.5 KiB (100 %) of bytes 0-149999", "freshness    immutable\n",
        "permission   ", f"origin       {origin.url}", "metadata                   cache folder ", "0-149999                   cache folder ")), out + err)
    status, out, _ = penstock("explain", "s3://pile/a/00", "--range", "0-9")
    story.fact("... of a range", status == 0 and "10 B of 10 B (100 %) of bytes 0-9\n" in out, out)
    status, out, _ = penstock("explain", "s3://pile/a/00", "--range", f"{SIZE}-")
    story.fact("... of a range beyond the end", status == 0 and "416" in out and "the object has none of these bytes" in out, out)
    status, out, _ = penstock("explain", "s3://pile/none")
    story.fact("... of a key that is not cached", status == 0 and "now          miss: " in out and "not cached (its place is cache folder " in out
               and "no reason is known" in out, out)
    story.same("DELETE", server.ask("DELETE", "pile/back\\slash").status, 204)
    status, out, _ = penstock("explain", "s3://pile/back\\slash")
    story.fact("... of one that was removed", status == 0 and "s3://pile/back\\\\slash\n" in out and "it left the cache 20" in out and " ago): the object was written or deleted" in out, out)
    ask = server.ask("GET", "pile/a/01", [("penstock-explain", ""), ("range", "5-")])
    answers = [json.loads(text) for text in (penstock("explain", "--json", "--range", "5-", "s3://pile/a/01")[1], ask.body)]
    for document in answers:
        story.fact("the permission counts down", 3500 < document["permission"].pop("proved_for") <= 3600)
        story.fact("the time of the proof is told", document["metadata"].pop("confirmed"))    # now, less an age in seconds
        # The age grows with each write of the cache.
        for record in (document["metadata"], *document["bytes"]["records"]):
            story.fact("an age is a part of the cache", 0 <= record.pop("age", 0) <= 1, record)
    story.same("--json is what the service says", *answers)
    story.same("a key with odd bytes", json.loads(penstock("explain", "--json", "s3://" + ODD[1])[1])["key"], ODD[1][5:])
    refused("a wrong range", 2, ["range must be FIRST-LAST"], "explain", "--range", "x", "s3://pile/a/01")
    refused("no key", 2, ["s3://BUCKET/KEY"], "explain", "s3://pile/")

    # ---- purge ----
    def on_terminal(*argv, answer):
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(PENSTOCK, [PENSTOCK, *argv], {**os.environ, **none, **client})
        out = b""
        try:
            while b"Type yes: " not in out:
                out += os.read(fd, 1000)
            os.write(fd, answer)
            while True:
                out += os.read(fd, 1000)
        except OSError:    # it has ended
            pass
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), out.decode().replace("\r\n", "\n")

    def cached(prefix):
        return [row["key"] for row in lines_of("ls", f"s3://pile/{prefix}")[:-1]]
    story.same("a dry run says what would go", penstock("purge", "--dry-run", "s3://pile/a/")[:2], (0, "would purge 6 objects of s3://pile/a/: 878.9 KiB in the cache\n"))
    story.same("... as the service says it", lines_of("purge", "--dry-run", "s3://pile/a/00"),
               [{"purged": False, "objects": 1, "cached_bytes": SIZE, "complete": True, "folders_out": [], "extents_unread": 0}])
    story.same("... and changes nothing", len(cached("a/")), 6)
    story.same("one key", penstock("purge", "--key", "s3://pile/a/0"), (0, "purged s3://pile/a/0\n", ""))
    story.same("... and none that begins like it", len(cached("a/")), 6)
    story.same("a key that is there", (penstock("purge", "--wait", "--key", "s3://pile/a/00"), cached("a/")),
               ((0, "purged s3://pile/a/00\n", ""), [f"a/{i:02}" for i in range(1, 6)]))
    story.same("a key with odd bytes", (penstock("purge", "--key", "s3://" + ODD[1])[:2], cached("nl")), ((0, "purged s3://pile/nl\\x0anew\\x1b[31mred\n"), []))
    answer = lines_of("purge", "--wait", "s3://pile/a/")
    story.same("a prefix", (answer[0]["purged"], answer[0]["folders_out"], cached("a/"), len(cached("b/"))), (True, [], [], 6))
    story.same("no purge is left", penstock("purge", "--list", "s3://pile"), (0, "no purge of s3://pile/ is in progress\n", ""))
    refused("a whole bucket needs a yes", 2, ["whole bucket", "--yes"], "purge", "s3://pile", input=b"")
    story.same("... and keeps all else", (on_terminal("purge", "s3://pile/", answer=b"y\n")[0], len(cached("b/"))), (1, 6))
    story.same("... also on a terminal", (on_terminal("purge", "s3://pile/", answer=b"yes\n")[0], cached("")), (0, []))
    for key in KEYS:
        if key != ODD[2]:
            server.get(key)
    wait_for("all is stored again", lambda: len(cached("")) == len(KEYS) - 1)
    story.same("... or --yes", (penstock("purge", "--yes", "s3://pile")[:2], cached("")), ((0, "purged s3://pile/\n"), []))
    refused("a purge needs a right", 1, ['the right "cache"'], "purge", "--config", server.config_path, "s3://pile/a/",
            env={"AWS_ACCESS_KEY_ID": "LISTERKEY", "AWS_SECRET_ACCESS_KEY": "listerkey"})
    refused("--key needs a key", 2, ["s3://BUCKET/KEY"], "purge", "--key", "s3://pile")
    refused("another S3 server does not know it", 1, ["not a Penstock"], "purge", "--url", origin.url, "s3://pile/a/")
    for key in KEYS:
        if key != ODD[2]:
            server.get(key)
    wait_for("all is stored again", lambda: len(cached("")) == len(KEYS) - 1)

    # ---- pin ----
    status, out, err = penstock("pin", "s3://pile/a/")
    story.fact("pin says how much it keeps", (status, err) == (0, "") and out.startswith("pinned s3://pile/a/: 878.9 KiB of the 878.9 KiB in the cache (6 cached objects)\npin budget: ")
               and out.endswith(" used\n"), out + err)
    status, out, _ = penstock("ls", "s3://pile")
    story.same("ls shows what is pinned", [row.split()[-2] for row in out.splitlines() if "/0" in row], ["yes"] * 6 + ["-"] * 6)
    story.same("a second pin", lines_of("pin", "s3://pile/b/00")[0], {"prefix": "b/00", "pinned": True, "objects": 1, "cached_bytes": SIZE, "pinned_bytes": SIZE})
    status, out, err = penstock("pin", "--list", "s3://pile")
    story.same("the pins of a bucket", (status, [row.split()[-2:] for row in out.splitlines()[:-1]]),
               (0, [["OBJECTS", "PREFIX"], ["6", "s3://pile/a/"], ["1", "s3://pile/b/00"]]))
    story.same("unpin", penstock("unpin", "s3://pile/a/")[1].splitlines()[0], "unpinned s3://pile/a/")
    story.same("... once more", penstock("unpin", "s3://pile/a/")[1].splitlines()[0], "s3://pile/a/ was not pinned")
    story.same("... --json", lines_of("unpin", "s3://pile/b/00")[0], {"prefix": "b/00", "pinned": False, "was_pinned": True})
    story.same("none is left", penstock("pin", "--list", "s3://pile/")[1].splitlines()[0], "no prefix that begins with s3://pile/ is pinned")
    refused("a pin needs a right", 1, ['the right "cache"'], "pin", "--config", server.config_path, "s3://pile/a/",
            env={"AWS_ACCESS_KEY_ID": "LISTERKEY", "AWS_SECRET_ACCESS_KEY": "listerkey"})

    # ---- where the service is, and who asks ----
    pair = {n: v for n, v in client.items() if "KEY" in n}
    address, config = f"127.0.0.1:{server.port}", server.config_path
    other_client = {"AWS_ACCESS_KEY_ID": "LISTERKEY", "AWS_SECRET_ACCESS_KEY": "listerkey"}
    with open(story.path("credentials"), "w") as f:
        f.write(f"[default]\naws_access_key_id = LISTERKEY\naws_secret_access_key = wrong\n[lister]\naws_access_key_id = LISTERKEY\n"
                "aws_secret_access_key = listerkey\n")
    profiles = {"AWS_SHARED_CREDENTIALS_FILE": story.path("credentials")}
    for text, argv, env in (("--url", ["--url", f"http://{address}/"], pair),
                            ("--listen", ["--listen", address], {**pair, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}),
                            ("PENSTOCK_LISTEN", [], {**pair, "PENSTOCK_LISTEN": address, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}),
                            ("AWS_ENDPOINT_URL_S3", [], {**pair, "AWS_ENDPOINT_URL_S3": f"http://{address}", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}),
                            ("the settings alone", ["--config", config], {}),
                            ("the settings, before the default profile", ["--config", config], profiles),
                            ("the settings, and another client's key", ["--config", config], other_client),
                            ("a named profile", ["--config", config], {**profiles, "AWS_PROFILE": "lister"})):
        story.same(f"found by {text}", penstock("ls", *argv, "s3://pile/a/", env=env)[0], 0)
    refused("no key at all", 1, ["no key to sign", "AWS_ACCESS_KEY_ID", "access_key"], "ls", "s3://pile", env={"AWS_ENDPOINT_URL": f"http://{address}"})
    refused("an unknown key", 1, ["does not know the access key NOBODY (from env AWS_ACCESS_KEY_ID)", address, "AWS_SECRET_ACCESS_KEY"],
            "ls", "s3://pile", env={**client, "AWS_ACCESS_KEY_ID": "NOBODY"})
    refused("a wrong secret", 1, ["another secret key"], "ls", "s3://pile", env={**client, "AWS_SECRET_ACCESS_KEY": "wrong"})
    refused("a missing right", 1, ["READERKEY", 'the right "list"'], "ls", "--config", config, "s3://pile/a/",
            env={"AWS_ACCESS_KEY_ID": "READERKEY", "AWS_SECRET_ACCESS_KEY": "readerkey"})
    refused("more than a client may list", 1, ["LISTERKEY", 'the right "list"'], "du", "--config", config, "s3://pile", env=other_client)

    # ---- wrong words ----
    for text, words, *argv in (("no URL", ["the s3:// URL"], "ls"), ("no s3 URL", ["s3://"], "ls", "pile/a"),
                               ("no bucket", ["names no bucket"], "du", "s3:///a"), ("a wrong depth", ["--depth"], "du", "--depth", "x", "s3://pile"),
                               ("a deep depth", ["1024"], "du", "--depth", "1025", "s3://pile"), ("a wrong time", ["--timeout"], "ls", "--timeout", "0", "s3://pile"),
                               ("a wrong URL", ["--url", "http://HOST:PORT"], "ls", "--url", "ftp://x", "s3://pile"),
                               ("a URL with more", ["--url"], "ls", "--url", f"http://{address}/pile", "s3://pile"),
                               ("a URL with a wrong port", ["--url", "1 to 65535"], "ls", "--url", "http://127.0.0.1:99999", "s3://pile"),
                               ("a URL with a wrong port for stat", ["--url", "1 to 65535"], "stat", "--url", "http://127.0.0.1:99999"),
                               ("a URL with no number as port for health", ["--url", "1 to 65535"], "health", "--url", "http://127.0.0.1:x"),
                               ("a word too many", ["extra"], "ls", "s3://pile", "extra"), ("two URLs", ["one s3:// URL"], "purge", "s3://pile/a/", "s3://pile/b/"),
                               ("an unknown flag", ["--jso", "did you mean", "--json"], "ls", "s3://pile", "--jso"),
                               ("a misspelled flag", ["no such option", "--dry-run"], "purge", "--dryrun", "s3://pile/a"),
                               ("a flag with a value", ["--dry-run", "without a value"], "purge", "--dry-run=false", "s3://pile/a"),
                               ("a flag that is given twice", ["--depth", "only once"], "du", "--depth", "1", "--depth", "2", "s3://pile"),
                               ("a setting with a wrong value", ["command line: --listen: must be HOST:PORT", '"BAD"'], "purge", "--listen", "BAD", "s3://pile/a"),
                               ("a setting without a value", ["--listen: needs a value"], "purge", "s3://pile/a", "--listen"),
                               ("a word after an option without a value", ["key: purge takes one s3:// URL", "penstock purge --help"], "purge", "--list", "key=", "s3://pile/a"),
                               ("a word after an option with one", ["more: du takes one s3:// URL"], "du", "--depth", "1", "more", "s3://pile/a"),
                               ("a list that is to purge", ["--list", "--wait"], "purge", "--list", "--wait", "s3://pile/a"),
                               ("a bucket for one key", ["s3://BUCKET/KEY"], "purge", "--key", "s3://pile"), ("a whole bucket", ["--yes"], "purge", "s3://pile"),
                               ("a bucket to explain", ["s3://BUCKET/KEY"], "explain", "s3://pile"),
                               ("a wrong range", ["--range", "FIRST-LAST", '"9-1"'], "explain", "--range", "9-1", "s3://pile/a"),
                               ("no range", ["--range", "FIRST-LAST"], "explain", "s3://pile/a", "--range")):
        refused(f"{text} is a mistake", 2, words, *argv)
        refused("... also without a key to sign with", 2, words, *argv, env={})

    # ---- other servers ----
    nobody = f"http://127.0.0.1:{free_port()}"
    refused("nobody listens", 1, [nobody, "Connection refused", "--url", "AWS_ENDPOINT_URL"], "ls", "--url", nobody, "s3://pile")
    for other in (origin, story.versity()):
        refused("an S3 server that is no Penstock", 1, ["not a Penstock", "--url"], "ls", "--url", other.url, "s3://pile",
                env={"AWS_ACCESS_KEY_ID": server.client_env()["AWS_ACCESS_KEY_ID"], "AWS_SECRET_ACCESS_KEY": server.client_env()["AWS_SECRET_ACCESS_KEY"]})
    other = Other()

    def error(code, message="Because."):
        return f"<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
    summary = b'{"rows":0,"complete":true,"folders_out":[],"extents_unread":0}\n'
    for text, answer, words in (
            ("405", (405, error("MethodNotAllowed"), {}), ["405", "not a Penstock"]),
            ("501", (501, error("NotImplemented"), {}), ["501", "not a Penstock"]),
            ("a list of the bucket", (200, b"<?xml version='1.0'?><ListBucketResult/>", {}), ["not a Penstock"]),
            ("a page for people", (404, b"<html>%s%n%U no</html>", {}), ["404", "not a Penstock"]),
            ("nothing", (200, b"", {}), ["not a Penstock"]),
            ("an older Penstock", (400, b"", {"Server": "penstock"}), ["older", "upgrade"]),
            ("a code that is none", (400, error("\x1b"), {}), ["400"]), ("odd code", (400, error("A%nB;" * 99), {}), ["400"]),
            ("a message with control characters", (403, error("AccessDenied", "no&#10;&#x9b;31m"), {}), ["\\x0a\\xc2\\x9b31m"]),
            ("a clock", (403, error("RequestTimeTooSkewed"), {}), ["clock", "15 minutes"]),
            ("an origin that is down", (503, error("ServiceUnavailable", "The origin can't be reached."), {}), ["The origin can't be reached"]),
            ("a token", (400, error("InvalidToken"), {}), ["session token"]),
            ("an answer that is cut", (200, b'{"key":"a","objects":1', {}), ["cut or malformed"]),
            ("no bucket", (404, error("NoSuchBucket"), {}), ["no bucket pile"]), ("no document", (200, b"{}", {}), ["malformed"]), ("two lines in one", (200, b"{}" + summary, {}), ["cut or malformed"])):
        other.answer = answer
        refused(f"the answer is {text}", 1, words, "explain" if text == "no document" else "ls", "--url", other.url, "s3://pile/a", env=pair)
    # An answer without the members that Penstock sends is no answer of Penstock: nothing was purged.
    for text, argv, body in (("purge", ["purge", "--yes", "s3://pile/a"], b"{}"), ("purge", ["purge", "s3://pile/a"], b'{"purged":false,"serial":7}'),
                             ("purge --dry-run", ["purge", "--dry-run", "s3://pile/a"], b"{}"),
                             ("jobs", ["jobs", "s3://pile"], b'{"id":"7","state":"running"}'),
                             ("jobs --job", ["jobs", "--job", "0123456789abcdef", "s3://pile"], b'{"id":"7"}')):
        other.answer = (200, body + b"\n", {})
        refused(f"{text} is answered by {body.decode()}", 1, ["malformed"], *argv, "--url", other.url, env=pair)
    other.answer = (200, b'{"id":"\\u001b[2J","state":"\\nfake","began":1,"prefix":""}\n', {})
    status, out, err = penstock("jobs", "--url", other.url, "s3://pile", env=pair)
    story.fact("what a service says is shown so that a terminal does not obey it", status == 0 and "\\x1b[2J" in out and "\\x0afake" in out, out)
    other.answer = (200, b'{"name":"penstock","version":"\\u001b[2J\\n1"}', {})
    status, out, err = penstock("stat", "--url", other.url, env=pair)
    story.fact("... by stat, too", status == 0 and "\\x1b[2J\\x0a1" in out and "\x1b" not in out, out)
    other.answer = (200, b'{"name":"other"}', {})
    for flags in ([], ["--json"]):
        refused(f"stat {flags} asks another service", 1, ["is not the JSON object of Penstock's /status"], "stat", *flags, "--url", other.url, env=pair)
    other.answer = (200, b'{"key":"a","objects":1}\n', {})
    status, out, err = penstock("ls", "--json", "--url", other.url, "s3://pile", env=pair)
    story.fact("without the summary, a line may be missing", status == 1 and "cut or malformed" in err, err)
    other.answer = (200, b'{"key_url":"a%FF%0A","objects":1,"bytes":1,"cached_bytes":0,"more":1}\n' + summary, {})
    story.fact("a name that is not UTF-8, and a member of later versions", "a\\xff\\x0a" in penstock("ls", "--url", other.url, "s3://pile", env=pair)[1])

    # ---- what takes long, and what is busy ----
    origin.tell("match=pile/ LIST", "first_byte_ms=4000")
    status, out, err = penstock("ls", "s3://pile/a/")
    story.fact("a line says that it waits", status == 0 and "waiting for" in err and "Ctrl-C" in err and out.count("\n") == 8, out + err)
    refused("--timeout ends it", 1, ["did not answer in time", "--timeout"], "ls", "--timeout", "1", "s3://pile/a/")
    before = origin.counts(settle=False)["list"]
    child = subprocess.Popen([PENSTOCK, "ls", "s3://pile/a/"], env={**os.environ, **none, **client}, stderr=subprocess.PIPE)
    wait_for("it asks", lambda: origin.counts(settle=False)["list"] > before)
    child.send_signal(signal.SIGINT)
    story.same("Ctrl-C ends it", child.wait(PATIENCE), -signal.SIGINT)
    origin.tell("reset=rules")
    origin.tell("match=pile/ LIST", "first_byte_ms=3000")
    results = together(*[lambda: penstock("ls", "s3://pile/a/")[0]] * 20)
    story.same("20 at once: those that find no place ask again", results, [0] * 20)
    story.fact("... and some found none", server.metric("penstock_walks_limited_total") > 0)
    origin.tell("reset=rules")

    # ---- many pages ----
    many = [f"many/{i:04}" for i in range(1203)]
    origin.tell(*(f"object={key} 10" for key in many))
    for key in many:
        server.get(key)
    wait_for("all is stored", lambda: len(lines_of("ls", "s3://many")) == 1204)
    *rows, end = lines_of("ls", "s3://many")
    story.same("ls goes on to the last page, with one summary", ([row["key"] for row in rows], end),
               ([key[5:] for key in many], {"rows": 1203, "complete": True, "folders_out": [], "extents_unread": 0}))
    story.same("a table of several pages has one head", [penstock("ls", "s3://many")[1].count(word) for word in ("SIZE", "1203 keys")], [1, 1])

    # ---- a folder is out ----
    server.stop()
    os.rename(story.path("b"), story.path("b-away"))
    server = server.again()
    wait_for("a folder is out", lambda: server.metric("penstock_store_serving") == 1)
    status, out, err = penstock("ls", "s3://many")
    story.fact("an incomplete answer is a status of its own, and a warning", status == 3 and "not all that is cached" in err and "cache folder 2 is out of service" in err
               and 0 < out.count("\n") < 1204, (status, err))
    status, out, err = penstock("du", "--json", "s3://many")
    story.same("... also for du, and --json has it", (status, json.loads(out.splitlines()[-1])), (3, {"rows": 1, "complete": False, "folders_out": [2], "extents_unread": 0}))
    status, out, err = penstock("purge", "--dry-run", "s3://many")
    story.fact("... and for a dry run", status == 3 and out.startswith("would purge ") and "cache folder 2" in err, out + err)
    status, out, err = penstock("purge", "s3://many/1")
    story.fact("a purge is complete, because the folder takes it later", (status, out) == (0, "purged s3://many/1\n") and "the purge is made there before the folder serves again" in err, err)
    status, out, err = penstock("purge", "--wait", "s3://many/1")
    story.fact("... and --wait does not wait for the folder", (status, out) == (3, "purged s3://many/1\n") and
               "cache folder 2" in err and "stays in progress until the folder is back" in err, (status, out, err))
    status, out, err = penstock("purge", "--list", "s3://many")
    story.fact("... the list says so, too", status == 0 and out.startswith("s3://many/1: ") and
               "stays in progress until the folder is back" in err, (status, out, err))
    status, out, err = penstock("pin", "s3://many/0")
    story.fact("a pin is not", status == 3 and "cache folder 2" in err, (status, out, err))

    # ---- the name of a large object lies in the folder that is out ----
    origin.tell("objects=large/a/%d 16 70000000")
    for name in "cd":
        os.mkdir(story.path(name))
    house = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, freshness="immutable",
                           cache_dirs=[{"path": story.path(name) + "/cache", "size": "256MiB"} for name in "cd"])

    def folders_of(key):
        """The folders with parts of the object; the first one has its name."""
        wait_for("the object is cached", lambda: house.get(key).cache == "hit")
        document = json.loads(penstock("explain", "--json", f"s3://{key}", env=house.client_env())[1])
        return list(dict.fromkeys(row["folder"] for row in document["bytes"]["records"]))
    key = next((f"large/a/{i}" for i in range(16) if len(folders_of(f"large/a/{i}")) == 2), None)
    out_of, waits = folders_of(key)
    house.stop()
    os.rename(story.path("cd"[out_of - 1]), story.path("away"))
    house = house.again()
    wait_for("the folder with the name is out", lambda: house.metric("penstock_store_serving") == 1)
    status, out, err = penstock("purge", "--wait", "--timeout", "60", "s3://large/a/", env=house.client_env())
    story.fact("--wait does not wait for a folder that needs the name, either", (status, out) == (3, "purged s3://large/a/\n") and
               f"cache folder {out_of} (" in err and f"cache folder {waits} may still have parts of purged objects" in err, (status, out, err))
    row = json.loads(penstock("purge", "--list", "--json", "s3://large/a/", env=house.client_env())[1])
    story.same("... the list has both", (row["folders"], row["folders_waiting"], row["folders_out"]), ([1, 2], [waits], [out_of]))
    os.rename(story.path("away"), story.path("cd"[out_of - 1]))
    wait_for("the folder is back", lambda: house.metric("penstock_store_serving") == 2)
    story.same("... and the purge goes on when the folder is back", penstock("purge", "--wait", "s3://large/a/", env=house.client_env())[:2], (0, "purged s3://large/a/\n"))

    # ---- a file in extents/ that can't be opened ----
    house.stop()
    extents = story.path("c") + "/cache/extents"
    extent = os.path.join(extents, sorted(os.listdir(extents))[0])
    hidden = story.path("hidden")
    os.rename(extent, hidden)
    os.mkdir(extent)
    house = house.again()
    status, out, err = penstock("purge", "--wait", "--timeout", "60", "s3://large/b", env=house.client_env())
    story.fact("--wait does not wait for a file that can't be opened", (status, out) == (3, "purged s3://large/b\n") and
               "cache folder 1 has files in extents/ that Penstock can't open" in err, (status, out, err))
    row = json.loads(penstock("purge", "--list", "--json", "s3://large/b", env=house.client_env())[1])
    story.same("... the list has the folder", (row["folders"], row["folders_unread"]), ([1], [1]))
    house.stop()
    os.rmdir(extent)
    os.rename(hidden, extent)
    house = house.again()
    story.same("... and the purge ends when it can", penstock("purge", "--wait", "s3://large/b", env=house.client_env())[:2], (0, "purged s3://large/b\n"))
