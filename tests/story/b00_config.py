"""The command line: every mistake at once, every value with its origin, and texts made from one
table."""
from harness import *


def call(*args, env=None, timeout=PATIENCE):
    clean = own_env("AWS_")
    done = subprocess.run([PENSTOCK, *args], env={**clean, "AWS_EC2_METADATA_DISABLED": "true",
                                                   **(env or {})}, capture_output=True,
                          text=True,
                          timeout=timeout)
    return done.returncode, done.stdout, done.stderr


def as_kept(text, values):
    """What a binary with another prefix says, with the paths that the kept texts have."""
    return text.replace(values["config"], "/etc/penstock/penstock.json").replace(
        values["cache_dir"], "/var/cache/penstock")


def one_answer(answer):
    """A server that gives one connection this answer; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        connection.recv(65536)
        if answer is None:
            time.sleep(4)
        else:
            connection.sendall(answer)
        connection.close()
        listener.close()
    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def http(status, body):
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


with Story("b00 the command line says what is wrong and what is in force") as story:
    if PENSTOCK is None:
        raise Skip("penstock is not built: run make")
    os.makedirs(story.path("tree"))
    good, bad = story.path("good.json"), story.path("bad.json")
    with open(good, "w") as f:
        f.write('{"origin": "dir:%s",\n "ttl": "5s",\n "access_key": "A", "secret_key": "topsecret"}\n' % story.path("tree"))
    with open(bad, "w") as f:
        f.write('{"ttl": 5,\n "lisen": "x",\n\n "loops": 1000}\n')

    story.same("version", call("version")[:1] + (call("--version")[1].split()[0],), (0, "penstock"))
    status, out, _ = call("help")
    story.fact("help fits one screen", status == 0 and len(out.splitlines()) <= 24, out)
    story.fact("and 100 columns", max(map(len, out.splitlines())) <= 100, out)
    story.same("no command is a wrong usage", call()[0], 2)
    status, _, err = call("srve")
    story.fact("a wrong command names the nearest", status == 2 and '"serve"' in err, err)
    status, out, _ = call("help", "settings")
    story.fact("help settings has every row", status == 0 and out.count("\n") > 60, out)

    here = ("--cache-dir", story.path("cache"), "--listen", f"127.0.0.1:{free_port()}", "--admin-listen", "off")
    status, out, _ = call("check", good, *here)
    story.fact("check of what is right", status == 0 and re.fullmatch("memory: [^\n]*\nsettings: fine\n", out), out)
    status, out, _ = call("check", bad, "--io", "aio", env={"PENSTOCK_GRACE": "7"})
    story.same("check exits 2", status, 2)
    for line in (f"{bad}:1:9: ttl: needs a unit",
                 f'{bad}:2:2: lisen: no such setting (did you mean "listen"?)',
                 f"{bad}:4:11: loops: must be between 1 and 256",
                 "environment: PENSTOCK_GRACE: needs a unit",
                 "command line: --io: must be one of auto|uring|threads", "no origin is set"):
        story.fact("check says " + line.rsplit("/", 1)[-1], line in out, out)
    mixed = story.path("mixed.json")
    with open(mixed, "w") as f:
        f.write('{"buckets": {\n "photos": {"ttl": 5}},\n "origin": "ftp://x",\n "loops": 1000}\n')
    places = re.findall(rf"^{re.escape(mixed)}:(\d+):", call("check", mixed)[1], re.M)
    story.same("what is wrong in a file comes in its order", places, ["2", "3", "4"])
    status, _, err = call("serve", "--config", bad)
    story.fact("serve refuses the same", status == 2 and "lisen" in err, err)

    status, out, _ = call("config", "--config", good, "--grace=9s", env={"PENSTOCK_LOOPS": "3"})
    story.same("config", status, 0)
    rows = {line.split()[0]: line.split(None, 3) for line in out.splitlines()}
    story.same("a value of the file", rows["ttl"][1:], ["5s", "duration", f"{good}:2"])
    story.same("a value of a flag", rows["grace"][1:], ["9s", "duration", "flag --grace"])
    story.same("a value of a variable", rows["loops"][1:], ["3", "count", "env PENSTOCK_LOOPS"])
    story.same("a default", rows["listen"][1:], ["127.0.0.1:9000", "address", "default"])
    story.fact("secrets are masked", rows["secret_key"][1] == "********" and "topsecret" not in out,
               out)

    values = {line.split()[0]: line.split()[1] for line in call("config")[1].splitlines()}
    example = call("config", "--example")[1]
    with open(story.path("example.json"), "w") as f:
        f.write(example)
    aws = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "envsecret"}
    status, out, _ = call("check", "--origin", "http://origin.example", env={"HOME": "/nowhere"})
    story.fact("check finds that there are no credentials", status == 2
               and "clients have no key" in out and "Penstock has no credentials for origin default" in out, out)
    status, out, _ = call("check", "--origin", "http://origin.example",
                          env={"AWS_ACCESS_KEY_ID": "A", "HOME": "/nowhere"})
    story.fact("or half of a pair", status == 2 and "AWS_ACCESS_KEY_ID is set and "
               "AWS_SECRET_ACCESS_KEY is not: set both" in out, out)
    status, out, _ = call("check", good, *here, "--cache-size", "60TiB")
    story.fact("a size that is not there is a warning", status == 0
               and "warning: cache_size is 61440.0 GiB" in out and "settings: fine" in out, out)
    status, out, _ = call("check", good, *here, "--lend", "--lend-token", "word")
    story.fact("lending takes a token", status == 0, out)
    status, out, _ = call("check", good, *here, "--lend")
    story.fact("lending without a token is a mistake, which says how to make one and how clients say it",
               status == 2 and all(f"{word}" in out for word in (
                   "--lend: needs a token", "lend_token_file", "openssl rand", "AWS_CONTAINER_AUTHORIZATION_TOKEN")), out)
    for folder, why in (("/nope", "No such file"), (good, "Not a directory")):
        status, out, _ = call("check", good, "--origin", "dir:" + folder)
        story.fact(f"an origin that is {why.lower()} is a mistake", status == 2
                   and f"flag --origin: origin default can't be used: {folder} can't be opened ({why}" in out, out)
    for flags, why in ((("--fill-users", "nobody,nosuchuser"), "fill_users has 'nosuchuser'"),
                       (("--fill-socket", good), "this path is a file or folder, and not a socket"),
                       (("--fill-socket", "/run/" + "x" * 110), "longer than 103 bytes")):
        status, out, _ = call("check", good, "--cache-dir", story.path("cache"), "--fill-socket",
                              "/run/nope/fill.sock", *flags)
        story.fact(f"a mistake: {why}", status == 2 and why in out, out)
    public = story.path("public.json")
    for rights, warned in (["read", "write"], True), (["all"], True), (["read", "list"], False):
        with open(public, "w") as f:
            json.dump({"origin": "dir:" + story.path("tree"),
                       "keys": [{"anonymous": True, "policy": [{"allow": rights}]}]}, f)
        status, out, _ = call("check", public, *here)
        story.fact(f"anybody may {rights[-1]}: a warning if that changes anything", status == 0
                   and ("warning: keys[0] allows writes or administration without" in out) == warned, out)
    status, out, _ = call("config", "--origin", "http://origin.example", env=aws)
    shown = {line.split()[0]: line.split(None, 3) for line in out.splitlines()}
    for name in ("in_force.access_key", "in_force.origins.default.access_key"):
        story.same(f"config shows {name}", shown.get(name),
                   [name, "AKIAEXAMPLE", "text", "env AWS_ACCESS_KEY_ID"])
    with open(story.path("aws"), "w") as f:
        f.write("[team]\naws_access_key_id = AKIATEAM\naws_secret_access_key = teamsecret\n")
    status, out, _ = call("config", "--origin", "http://origin.example", "--aws-profile", "team",
                          env={"AWS_SHARED_CREDENTIALS_FILE": story.path("aws")})
    story.fact("with the profile it is from", re.search(
        "in_force.access_key +AKIATEAM +text +profile team\n", out)
               and "teamsecret" not in out, out)

    status, told, _ = call("check", story.path("example.json"), "--offline", *here, env=aws)
    story.same("the example is right", (status, [line for line in told.splitlines() if not line.startswith("memory:")]),
               (0, ["credentials: Penstock signs requests to origin west with AKIAEXAMPLE, from: env AWS_ACCESS_KEY_ID", "settings: fine"]))
    names = {line.split()[0] for line in out.splitlines()
             if "." not in line.split()[0]} - {"config"}
    rows = json.loads(example)
    story.same("and has every setting, those of secrets as a comment", {name for name in names if "# " + name not in rows
               or (name not in rows) != (name.endswith(("secret_key", "_previous", "_token", "_password", "traces_headers")) and name != "metrics_token")}, set())
    with open(os.path.join(ROOT, "conf/penstock.json.example")) as f:
        story.fact("conf/ has it (else: scripts/generate)", f.read() == as_kept(example, values))
    listed = re.findall(r"[A-Za-z0-9-]+(?=[,.])", re.sub("^.*: ", "", call("config", "--man", "operations")[1], flags=re.M))
    status, out, _ = call("help", "operations")
    story.fact("help operations has a row for each, within 100 columns", status == 0 and len(out.splitlines()) == 1 + len(listed)
               and "\nGetObject " in out and max(map(len, out.splitlines())) <= 100, out)
    story.same("... and config --man names the same ones", sorted(listed), sorted(row.split()[0] for row in out.splitlines()[1:]))
    status, _, err = call("config", "--man", "nothing")
    story.fact("config --man with a part that is none", status == 2 and "the value of --man must be one of settings|memory|metrics|operations" in err, err)
    with open(story.path("completion"), "w") as f:
        f.write(call("config", "--completion", "bash")[1])
    script = f'. {story.path("completion")}; COMP_WORDS=({PENSTOCK} serve --io ""); COMP_CWORD=3; _penstock; echo "${{COMPREPLY[@]}}"'
    story.same("bash completes", subprocess.run(["bash", "-c", script], capture_output=True,
                                                text=True).stdout, "auto uring threads\n")

    nobody = f"127.0.0.1:{free_port()}"
    story.same("health of nobody", call("health", "--listen", nobody)[0], 1)
    story.same("stat of nobody", call("stat", "--admin-listen", nobody)[0], 1)
    status, _, err = call("health", "--lisn", nobody)
    story.fact("health with a flag that is none", status == 2 and "listen" in err, err)
    story.same("health of one that is ready", call("health", "--listen", f"127.0.0.1:{one_answer(http(200, 'ok'))}")[0], 0)
    story.same("by URL", call("health", "--url",
                              f"http://127.0.0.1:{one_answer(http(200, 'ok'))}/x")[0], 0)
    story.same("health of one that is not", call("health", "--listen",
                                                 f"127.0.0.1:{one_answer(http(503, ''))}")[0], 1)
    for status, body, says in ((503, "{\"instance\":\"X\"}", "this service is stopping"), (503, "busy", "of a Penstock"),
                               (421, "the Host header is wrong\n", "answered 421: the Host header is wrong")):
        out = call("health", "--listen", f"127.0.0.1:{one_answer(http(status, body))}")[1]
        story.fact(f"health says what {status} means: {says}", says in out, out)
    for domains, says in (("a,,b", "remove the extra comma"), ("s3_cache.local", "not a host name of a-z")):
        said = call("check", "--offline", "--origin", "http://127.0.0.1:1", "--domains", domains)
        story.fact(f"check of the domains {domains}", said[0] == 2 and says in said[1], said)
    began = time.monotonic()
    story.same("health of one that hangs", call("health", "--listen",
                                                f"127.0.0.1:{one_answer(None)}")[0], 1)
    story.in_time("ends within its 2 s", 0.9 < time.monotonic() - began < 3)
    page = '{"name": "penstock", "store": {"used_bytes": 3221225472, "serving": true}, "open": 3}'
    status, out, _ = call("stat", "--admin-listen", f"127.0.0.1:{one_answer(http(200, page))}")
    story.same("stat is for people", [line.split(None, 1) for line in out.partition("\n\nname ")[2].splitlines()[1:]],
               [["store.used_bytes", "3.0 GiB"], ["store.serving", "yes"], ["open", "3"]])
    story.same("or raw", call("stat", "--json", "--admin-listen",
                              f"127.0.0.1:{one_answer(http(200, page))}")[1], page)
