"""A secret that is empty after trimming is a mistake at start, at reload and in check, and signs nothing."""
from harness import *

HOME = {"HOME": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true"}

with Story("d08 an empty secret opens nothing") as story:
    os.makedirs(story.path("tree/bucket"))
    with open(story.path("tree/bucket/a"), "w") as f:
        f.write("a")
    secret = story.path("secret")

    def write(text, path=None):
        with open(path or secret, "w") as f:
            f.write(text)

    def call(*args, env=None):
        clean = own_env("AWS_")
        done = subprocess.run([PENSTOCK, *args], env={**clean, **HOME, **(env or {})},
                              capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stdout + done.stderr

    def settings(**more):
        path = story.path("settings.json")
        with open(path, "w") as f:
            json.dump({"origin": "dir:" + story.path("tree"), "cache_dir": story.path("cache"),
                       "listen": f"127.0.0.1:{free_port()}", "admin_listen": "off", **more}, f)
        return path

    rows = {"the pair of the settings": ({"access_key": "A", "secret_key_file": secret}, "secret_key_file"),
            "a row of keys": ({"keys": [{"access_key": "A", "secret_key_file": secret, "policy": "all"}]},
                              "keys[0].secret_key_file"),
            "lend_token": ({"access_key": "A", "secret_key": "B", "lend": True, "lend_token_file": secret},
                           "lend_token_file")}
    for text in ("", "\n", " \r\n\t\n"):
        write(text)
        for what, (row, name) in rows.items():
            path = settings(**row)
            for command in ("check", "serve"):
                status, said = call(command, *(("--config", path) if command == "serve" else (path,)))
                story.fact(f"{command}: {what}, whose file holds {text!r}, is a mistake",
                           status == 2 and f"{name}: the file {secret} is empty" in said, (status, said))
    write("one\ntwo\n")
    said = call("check", settings(access_key="A", secret_key_file=secret))[1]
    story.fact("two lines in a secret's file: the file is named, and what to write into it",
               f"the text of {secret} must not have a control character" in said and "on one line" in said, said)
    path = settings(access_key="A")
    for command in ("check", "serve"):
        status, said = call(command, "--config", path, env={"PENSTOCK_SECRET_KEY": ""})
        story.fact(f"{command}: so is an empty variable", status == 2 and "PENSTOCK_SECRET_KEY: is empty" in said,
                   (status, said))
        status, said = call(command, "--config", path, "--lend", "--lend-token=", "--secret-key", "x")
        story.fact(f"{command}: and an empty flag", status == 2 and "--lend-token: is empty" in said, (status, said))
    write("\n", story.path("token"))
    path = settings(origin="http://127.0.0.1:1", access_key="A", secret_key="B")
    for command in ("check", "serve"):
        status, said = call(command, "--config", path,
                            env={"AWS_ACCESS_KEY_ID": "K", "AWS_SECRET_ACCESS_KEY": "S",
                                 "AWS_SECRET_ACCESS_KEY_FILE": story.path("token")})
        story.fact(f"{command}: and an empty file of the origin's secret", status != 0
                   and f"{story.path('token')} is empty" in said, (status, said))

    # ---- at a reload ----
    write("good\n")
    server = story.penstock(origin="dir:" + story.path("tree"), access_key="A", secret_key=None,
                            secret_key_file=secret)
    known, empty = Client(server.port, "A", "good"), Client(server.port, "A", "")
    story.same("the secret of the file is the one that signs", known.get("bucket/a").status, 200)
    story.same("an empty one does not", empty.get("bucket/a").status, 403)
    write(" \n")
    server.process.send_signal(signal.SIGHUP)
    line = wait_for("the reload is refused or taken", lambda: next(
        (l for l in map(json.loads, server.log().splitlines())
         if l["event"] in ("reload_refused", "reloaded")), None))
    story.same("a file that was emptied is refused at a reload", line["event"], "reload_refused")
    story.fact("... which says so", f"{secret} is empty" in line["why"], line)
    story.same("the old one still signs", known.get("bucket/a").status, 200)
    story.same("and the empty one does not", empty.get("bucket/a").status, 403)
