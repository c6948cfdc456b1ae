"""The origin is asked with what any source of the AWS SDKs gives, and check and stat say which."""
from harness import *
from lender import Lender

OFF = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "",
       "AWS_PROFILE": "", "AWS_CONFIG_FILE": "/dev/null",
       "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true"}

with Story("i01 origin credentials from every source") as story:
    lender = Lender()
    lender.static["AKIDWRITTEN"] = "writtentoken"

    def write(name, text):
        path = story.path(name)
        with open(path + ".new", "w") as f:
            f.write(text)
        os.rename(path + ".new", path)
        return path

    clean = own_env()

    def serve(env, wait=True, **changes):
        settings = dict(origin=lender.url, origin_access_key="", origin_secret_key=None,
                        cache_dir=story.path(f"cache-{len(story.processes)}"))
        return story.penstock(wait, {**OFF, **env}, **{**settings, **changes})

    def keys(server):
        page = json.loads(plain(server.admin_port, "GET", "/status").body)
        return page["origins"][0].get("credentials", {})

    def works(text, env, source, key="LENT", **changes):
        before = set(lender.seen_by)
        server = serve(env, **changes)
        reply = server.get("bucket/" + text.replace(" ", "-"))
        story.same(f"{text}: an object comes", reply.status, 200)
        said = keys(server)
        story.fact(f"{text}: stat says where from: {source}", re.search(source, said.get("from", "")),
                   said)
        story.fact(f"{text}: it was asked with these", said.get("access_key", "").startswith(key)
                   and said["access_key"] in lender.seen_by, (said, lender.seen_by - before))
        story.fact(f"{text}: the log says so, without secrets", '"event":"credentials"' in server.log()
                   and "secret/of" not in server.log() and "token==" not in server.log(),
                   server.log()[-500:])
        checked = subprocess.run([PENSTOCK, "check", server.config_path], capture_output=True,
                                 env={**clean, **OFF, **env}, text=True, timeout=PATIENCE)
        story.fact(f"{text}: so does check", checked.returncode == 0
                   and re.search(f"signs requests to origin default with {key}.*from: .*{source}",
                                 checked.stdout), checked.stdout)
        story.same(f"{text}: it says so of a source that does not name its role",
                   "does not say whose" in checked.stdout,
                   source.startswith(("container endpoint", "credential_process")))
        story.same(f"{text}: it ends well", server.stop(), 0)

    pair = "aws_access_key_id = AKIDWRITTEN\naws_secret_access_key = s\n" \
           "aws_session_token = writtentoken\n"
    works("the environment", {"AWS_ACCESS_KEY_ID": "AKIDWRITTEN", "AWS_SECRET_ACCESS_KEY": "s",
                              "AWS_SESSION_TOKEN": "writtentoken"}, "env AWS_ACCESS_KEY_ID",
          "AKIDWRITTEN")
    works("mounted files", {"AWS_ACCESS_KEY_ID_FILE": write("k", "AKIDWRITTEN\n"),
                            "AWS_SECRET_ACCESS_KEY_FILE": write("s", "s\n"),
                            "AWS_SESSION_TOKEN_FILE": write("t", "writtentoken\n")},
          "env AWS_ACCESS_KEY_ID_FILE", "AKIDWRITTEN")
    works("a profile", {"AWS_PROFILE": "w",
                        "AWS_SHARED_CREDENTIALS_FILE": write("p", "[w]\n" + pair)}, "profile w",
          "AKIDWRITTEN")
    container = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": lender.url + "/container"}
    lender.want_token = "Bearer of it"
    works("a container", {**container, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "Bearer of it"},
          "container endpoint")
    works("a container with a token file",
          {**container, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": write("bearer", "Bearer of it\n")},
          "container endpoint")
    lender.want_token = None
    works("instance metadata", {"AWS_EC2_METADATA_DISABLED": "",
                                "AWS_EC2_METADATA_SERVICE_ENDPOINT": lender.url},
          "instance role node-role")
    sts = {"AWS_ENDPOINT_URL_STS": lender.url, "AWS_REGION": "eu-west-3"}
    works("web identity", {**sts, "AWS_ROLE_ARN": "arn:aws:iam::1:role/web",
                           "AWS_WEB_IDENTITY_TOKEN_FILE": write("jwt", "a.b+c\n")},
          "role arn:aws:iam::1:role/web by the token")
    form = lender.forms[-1]
    story.same("web identity: what STS was told", (form["Action"], form["RoleArn"], form["signed"],
                                                   form["WebIdentityToken"]),
               ("AssumeRoleWithWebIdentity", "arn:aws:iam::1:role/web", "", "a.b+c"))
    config = write("c", "[profile r]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = w\n"
                   "external_id = ex+ternal\nrole_session_name = me\nduration_seconds = 900\n"
                   f"[profile w]\n{pair}"
                   "[profile e]\nrole_arn = arn:aws:iam::1:role/e\ncredential_source = EcsContainer\n"
                   f"[profile v]\nrole_arn = arn:aws:iam::1:role/v\n"
                   f"web_identity_token_file = {story.path('jwt')}\n"
                   f"[profile x]\ncredential_process = {sys.executable} '{story.path('give it.py')}' a\n"
                   f"[profile l]\ncredential_process = {sys.executable} '{story.path('give it.py')}' leave\n"
                   f"[profile long]\ncredential_process = true {'word ' * 80}\n"
                   "[profile endless]\ncredential_process = yes\n"
                   "[profile mfa]\nrole_arn = a\nsource_profile = w\nmfa_serial = b\n"
                   "[profile sso]\nsso_session = s\n")
    write("give it.py", "import subprocess, sys, urllib.request, json\n"
          "if sys.argv[1] == 'leave': subprocess.Popen(['sleep', '20'], stderr=subprocess.DEVNULL)    # holds our output open\n"
          f"d = json.load(urllib.request.urlopen('{lender.url}/container'))\n"
          "d['SessionToken'] = d.pop('Token')\nprint(json.dumps({'Version': 1, **d}))\n")
    files = {**sts, "AWS_CONFIG_FILE": config}
    works("a role with another profile", {**files, "AWS_PROFILE": "r"}, "role/r of profile r")
    form = lender.forms[-1]
    story.same("a role: what STS was told", (form["Action"], form["ExternalId"],
                                             form["RoleSessionName"], form["DurationSeconds"]),
               ("AssumeRole", "ex+ternal", "me", "900"))
    story.fact("... signed for it", re.search("Credential=AKIDWRITTEN/[0-9]+/eu-west-3/sts/",
                                              form["signed"]), form)
    works("a role with a source", {**files, **container, "AWS_PROFILE": "e"}, "role/e of profile e")
    works("a profile's web identity", {**files, "AWS_PROFILE": "v"}, "role/v by the token")
    works("a process", {**files, "AWS_PROFILE": "x"}, "credential_process of profile x")
    began = time.monotonic()
    works("a process that leaves another behind", {**files, "AWS_PROFILE": "l"},
          "credential_process of profile l")
    story.in_time("... is not waited for", time.monotonic() - began < 15, time.monotonic() - began)
    works("the settings name the profile", {**files, "AWS_ACCESS_KEY_ID": "NOT",
                                            "AWS_SECRET_ACCESS_KEY": "these"}, "profile w",
          "AKIDWRITTEN", aws_profile="w")
    works("settings with mounted secrets", {}, "settings", "AKIDWRITTEN",
          origin_access_key="AKIDWRITTEN", origin_secret_key=None,
          origin_secret_key_file=story.path("s"),
          origin_session_token_file=story.path("t"))

    # ---- what can't be used stops the start, with a sentence
    def refuses(text, env, sentence, **changes):
        server = serve(env, wait=False, **changes)
        status = server.process.wait(20)
        story.fact(f"{text}: no start, and it says why", status not in (0, None)
                   and re.search(sentence, server.log()), (status, server.log()[-600:]))
    refuses("a role that asks for a code", {**files, "AWS_PROFILE": "mfa"}, "mfa_serial")
    refuses("a process of more words than it could be given", {**files, "AWS_PROFILE": "long"}, "more than 64 words")
    checked = subprocess.run([PENSTOCK, "check", "--origin", "http://127.0.0.1:1", "--cache-dir", story.path("other")],
                             capture_output=True, text=True, env={"PATH": os.environ["PATH"], **files, "AWS_PROFILE": "endless"})
    story.fact("a process that prints too much: check says so", "printed more than 64 KiB" in checked.stdout, checked.stdout)
    refuses("single sign-on", {**files, "AWS_PROFILE": "sso"}, "credential_process = aws configure export-credentials")
    refuses("a stranger's container endpoint",
            {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://192.0.2.1/x"}, "must be https")
    refuses("no role for the token", {"AWS_WEB_IDENTITY_TOKEN_FILE": story.path("jwt")},
            "AWS_ROLE_ARN is not")
    refuses("lent keys for clients too", container, "clients can't sign with them", access_key="",
            secret_key=None)

    # ---- what only fails for now does not
    for text, told in {"malformed JSON": {"raw": b'{"AccessKeyId": "A", '},
                       "no secret": {"raw": b'{"AccessKeyId": "A"}'},
                       "a date that is none": {"expires": "soon"},
                       "one in the past": {"expires": "2020-01-01T00:00:00Z"},
                       "a refusal": {"down": 403}, "a failure": {"down": 500}}.items():
        for name, value in told.items():
            setattr(lender, name, value)
        server = serve(container)
        reply = server.get("bucket/" + text)
        story.same(f"{text}: clients are to try again", (reply.status, reply.code),
                   (503, "ServiceUnavailable"))
        story.fact(f"{text}: the log says what", "credentials_failed" in server.log()
                   and keys(server)["last_failure_why"] != "", server.log()[-600:])
        lender.raw = lender.expires = None
        lender.down = 0
        wait_for(f"{text}: it heals by itself",
                 lambda: server.get("bucket/" + text).status == 200)
        server.stop()
