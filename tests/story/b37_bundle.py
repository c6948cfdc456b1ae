"""penstock bundle: one file for a bug report, and no secret in it."""
import tarfile

from harness import *

PARTS = ["versions.txt", "settings.txt", "check.txt", "status.json", "metrics.txt", "doctor.txt", "log.txt"]


def secret_rows():
    """[(scope, name)] of the settings whose type is SECRET."""
    with open(os.path.join(ROOT, "src", "base", "config.def")) as f:
        return re.findall(r'^(GLOBAL|ORIGIN|BUCKET|KEY)\(\w+, SECRET, "(\w+)"', f.read(), re.M)


def canary(*words):
    return "canary/" + "+".join(words) + '"\\end'


with Story("b37 bundle has what a bug report needs, and no secret") as story:
    origin = story.origin("objects=bucket/o%d 3 1000")
    server = story.penstock(origin=origin.url, admin_token="canary-running-admin-token")
    server.get("bucket/o1")
    place = story.path("bundle.tar")

    def bundle(*flags, config=server.config_path, env=None):
        return run([PENSTOCK, "bundle", *flags, "--config", config], env)

    def parts(path=place):
        with tarfile.open(path) as tar:
            return {os.path.basename(member.name): tar.extractfile(member).read().decode("utf-8", "replace")
                    for member in tar.getmembers()}

    # ---- the file ----
    log = story.path("log")
    lines = {
        "a presigned URL": "GET /bucket/o1?X-Amz-Credential=CANARYID%2F20260101&X-Amz-Signature=canaryf00d&x-id=GetObject",
        "one of version 2": "query=AWSAccessKeyId=CANARYV2&Signature=canarysigned%3D&Expires=1",
        "a session token": '"x-amz-security-token": "canarysession=="',
        "a header": "Authorization: AWS4-HMAC-SHA256 Credential=CANARYHEAD/x, Signature=canaryhead",
        "a bearer": '{"authorization":"Bearer canarybearer"}',
        "userinfo in a URL": "proxy=http://canaryuser:canarypassword@proxy.example:3128/",
        "an SSE-C key": "x-amz-server-side-encryption-customer-key=canaryssec",
        "an access key": '{"access_key":"CANARYACCESS","op":"GetObject"}',
        "an access key of AWS": "credentials: Penstock signs requests with AKIACANARYCANARY0001, from: profile default",
        "an encoded query": "url=https%3A%2F%2Fx%2F%3FX-Amz-Signature%3Dcanaryencoded%26y%3D1",
    }
    with open(log, "w") as f:
        f.write("".join(f"{line}\n" for line in lines.values()) + "event=kept key=bucket/kept-name\n" + f"token is {SECRET_KEY}\n")
    status, out, err = bundle(place, "--log", log)
    story.same("a bundle is made", (status, err), (0, ""))
    story.same("it has these parts", sorted(parts()), sorted(PARTS))
    story.same("it is for its owner alone", os.stat(place).st_mode & 0o777, 0o600)
    story.fact("it says what it has, and to look at it first", all(part in out for part in PARTS) and "Look at the parts" in out, out)
    found = parts()
    story.same("tar itself reads it", run(["tar", "-tf", place])[0], 0)
    story.fact("versions", f"penstock {server.version if hasattr(server, 'version') else ''}" in found["versions.txt"]
               and "libcurl" in found["versions.txt"] and os.uname().release in found["versions.txt"], found["versions.txt"][:300])
    story.fact("settings", "cache_dir" in found["settings.txt"] and origin.url in found["settings.txt"])
    story.same("the status of the service", json.loads(found["status.json"])["pid"], server.pid)
    story.fact("its metrics", "penstock_requests_total" in found["metrics.txt"])
    story.fact("doctor", "VERDICT" in found["doctor.txt"] and "origin first byte" in found["doctor.txt"], found["doctor.txt"])
    story.fact("the log, where it has no secret", "kept-name" in found["log.txt"] and "x-id=GetObject" in found["log.txt"], found["log.txt"])
    for what, line in lines.items():
        left = re.findall(r"\w*canary\w+", found["log.txt"], re.I)
        story.fact(f"{what} is masked", not set(left) & set(re.findall(r"\w*canary\w+", line, re.I)), left)
    story.fact("a message about credentials stays a message", "credentials: Penstock signs requests with ********, from:" in
               found["log.txt"], found["log.txt"])
    everything = "".join(found.values())
    for secret in (SECRET_KEY, ORIGIN_SECRET, "canary-running-admin-token", ACCESS_KEY, ORIGIN_KEY):
        story.fact(f"{secret} is nowhere", secret not in everything and quote(secret, "") not in everything)

    # ---- nothing is overwritten ----
    with open(place, "rb") as f:
        before = f.read()
    status, _, err = bundle(place, "--log", log)
    story.fact("a file that is there is not replaced", status == 1 and "--force" in err and open(place, "rb").read() == before, err)
    os.chmod(place, 0o644)
    story.same("... but with --force it is, by a new file", (bundle(place, "--log", log, "--force")[0], os.stat(place).st_mode & 0o777),
               (0, 0o600))
    status, _, err = bundle(story.path("nowhere/b.tar"), "--offline")
    story.fact("a folder that is not there is an error", status == 1 and "can't write" in err, err)
    os.makedirs(story.path("here"))
    done = subprocess.run([PENSTOCK, "bundle", "--offline", "--config", server.config_path, "--log", story.path("none")],
                          cwd=story.path("here"), env=own_env(), capture_output=True, text=True, timeout=PATIENCE)
    story.same("without a name it goes to the current folder", (done.returncode, len(os.listdir(story.path("here")))), (0, 1))
    made = parts(os.path.join(story.path("here"), os.listdir(story.path("here"))[0]))
    story.fact("a log that is not there is said", "can't be read" in made["log.txt"], made["log.txt"])

    status, _, err = bundle(story.path("journal.tar"), "--offline", "--unit", "no-such-unit")
    told = parts(story.path("journal.tar"))["log.txt"]
    story.fact("without a journal for it, the log says how to give one", status == 0 and "--log FILE" in told, told)

    # ---- every secret setting, in files with mistakes, too ----
    rows = secret_rows()
    story.fact("the table of settings has secrets", len(rows) >= 12, rows)
    settings = {"origin": "http://127.0.0.1:9", "cache_dir": story.path("c"), "admin_listen": f"127.0.0.1:{free_port()}",
                "origins": {"west": {"url": "http://canaryname:canarypass@127.0.0.1:9"}}, "keys": [{"access_key": "CANARYROW"}]}
    groups = {"GLOBAL": settings, "ORIGIN": settings["origins"]["west"], "KEY": settings["keys"][0]}
    for scope, name in rows:
        groups[scope][name] = canary(scope, name)
    config = story.path("many.json")
    with open(config, "w") as f:
        json.dump(settings, f)
    env = {"AWS_SECRET_ACCESS_KEY": canary("env"), "MY_API_TOKEN": canary("token"), "AWS_ACCESS_KEY_ID": "CANARYENVID"}
    status, out, err = bundle(story.path("all.tar"), "--offline", "--log", config, config=config, env=env)
    story.same("settings with mistakes are no reason to give up", (status, err), (0, ""))
    with open(story.path("all.tar"), "rb") as f:
        raw = f.read()
    story.same("no canary is in the file", [word for word in (b"canary", b"CANARY") if word in raw.replace(config.encode(), b"")], [])
    story.fact("... and what hides them is", b"********" in raw)
    status, _, err = run([PENSTOCK, "bundle", story.path("no.tar"), "--no-such-setting", "1"])
    story.fact("a mistake on the command line is one", status == 2 and not os.path.exists(story.path("no.tar")), err)
