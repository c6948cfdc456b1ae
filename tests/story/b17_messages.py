"""What people are told: what happened, why, and what to do, with the name of the setting."""
import html

from filler import Filler
from harness import *

with Story("b17 messages say what, why and what to do", seconds=60) as story:
    clean = own_env("AWS_")

    def call(*args):
        done = subprocess.run([PENSTOCK, *args], env=clean, capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr

    # ---- the command line ----
    for words, want in ((["--access-log", "false"], "false"), (["--access-log", "true"], "true"), (["--access-log"], "true"),
                        (["--no-access-log"], "false"), (["--access-log", "--log-level", "warn"], "true")):
        row = next(line for line in call("config", "--origin", "dir:/tmp", *words)[1].splitlines() if line.startswith("access_log"))
        story.same(f"{' '.join(words)} means what it says", row.split()[1], want)
    status, _, err = call("config", "--origin", "dir:/tmp", "--access-log", "perhaps")
    story.fact("a value that is neither is a mistake", status == 2 and "--access-log: must be true or false" in err, err)
    story.same("-V and --version are version", {call("version"), call("-V"), call("--version")}, {call("version")})
    out = call("check", "--offline", "--origin", "dir:/usr", "--cache-dir", story.path("x"), "--cache-size", "60TiB", "--access-key",
               "A", "--secret-key", "B", "--listen", f"127.0.0.1:{free_port()}", "--admin-listen", "off")[1]
    story.fact("sizes that are compared have one unit", re.search(r"cache_size is 61440\.0 GiB, and .* has [0-9.]+ GiB", out), out)

    # ---- clients ----
    origin = story.origin("object=bucket/a 1000")
    server = story.penstock(origin=origin.url, batch_items=2, batch_list="16KiB", body_max="1MiB", fill_items=2,
                            fill_socket=story.path("fill.sock"), log_format="json")

    def told(text, reply, status, code, *words):
        body = html.unescape(reply.body.decode())
        message = (re.search("<Message>(.*?)</Message>", body, re.S) or [body, body])[1]
        story.fact(text, (reply.status, reply.code) == (status, code) and all(word in message for word in words),
                   (reply, message))

    def batch(items):
        return server.ask("POST", "bucket", [("penstock-batch", "")], body=json.dumps({"items": items}).encode())
    told("too many items of a batch say how many there may be, and what to do", batch(["a"] * 3), 400, "InvalidArgument", "2", "fewer items at once")
    told("so does a list that is too long", batch(["a" * 100000]), 400, "EntityTooLarge", "16384", "fewer items in one batch")
    told("and a body", server.put("bucket/b", bytes(3 * MIB)), 400, "EntityTooLarge", "in smaller parts")
    filler = Filler(story.path("fill.sock"))
    said = filler.say("prefetch", bucket="bucket", items=["a"] * 3)
    story.fact("and a list of the fill socket", said["error"] == "too_many_items" and "fewer items at once" in said["message"], said)

    mine = ("Penstock's own", server.config_path)
    told("an unknown key says whose list it is, and where", Client(server.port, "NOSUCHKEY", SECRET_KEY).get("bucket/a"), 403,
         "InvalidAccessKeyId", "does not exist in our records", *mine)
    told("so does a wrong secret", Client(server.port, ACCESS_KEY, "wrong").get("bucket/a"), 403, "SignatureDoesNotMatch", *mine)
    then = datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone.utc)
    told("a clock that is wrong names both times", server.get("bucket/a", now=then), 403,
         "RequestTimeTooSkewed", "2024-05-06T07:08:09", datetime.now(timezone.utc).strftime("%Y-%m-%dT"), "15 minutes")

    # ---- an origin that is gone ----
    before = datetime.now(timezone.utc).replace(microsecond=0)
    origin.kill()
    words = ("origin default", "can't be reached", "Connection refused", "since 20")
    server.get("bucket/gone")
    told("an origin that is gone is named, with why and since when", server.get("bucket/c"), 503, "ServiceUnavailable", *words)
    reply = server.head("bucket/d")
    said = reply.headers.get("x-penstock-error", "")
    story.fact("a HEAD has it in a header", reply.status == 503 and all(word in said for word in words), (reply, reply.headers))
    unproved = presign("GET", server.client.host, "/bucket/a", ACCESS_KEY, "wrong")
    reply = plain(server.port, "OPTIONS", unproved, headers=["Origin: http://a.example", "Access-Control-Request-Method: GET"])
    story.fact("a preflight proves nothing, so its answer does not name the origin", reply.status == 503 and
               not reply.headers.get("x-penstock-error") and b"origin default" not in reply.body, (reply, reply.headers, reply.body))
    since = re.search(r"since (\S+Z)", said)
    story.fact("since the first failure", since and before <= datetime.fromisoformat(since[1].replace("Z", "+00:00"))
               <= datetime.now(timezone.utc), said)
    line = next(one for one in map(json.loads, server.log().splitlines()) if one["event"] == "origin_failed")
    story.fact("the log has it, too", "Connection refused" in line["why"], line)

    # ---- a cache folder of another user ----
    if os.geteuid() == 0 and shutil.which("setpriv"):
        os.chmod(story.folder, 0o755)
        os.mkdir(story.path("roots"), 0o700)
        with open(story.path("serve.json"), "w") as f:
            json.dump(story.settings(origin="http://127.0.0.1:9", cache_dir=story.path("roots")), f)
        other = Process(story, "other", ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", PENSTOCK, "serve",
                                         "--config", story.path("serve.json")])
        wait_for("serve says chown for a folder of another user",
                 lambda: "belongs to root" in other.log() and f"sudo chown -R nobody {story.path('roots')}" in other.log())
        other.stop()

    # ---- http on the https port, and the reverse ----
    if shutil.which("openssl"):
        run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", story.path("key.pem"), "-out",
             story.path("cert.pem"), "-days", "2", "-subj", "/CN=127.0.0.1"])
        tls = story.penstock(origin=origin.url, cache_dir=story.path("tls"), tls_listen=f"127.0.0.1:{free_port()}",
                             tls_cert_file=story.path("cert.pem"), tls_key_file=story.path("key.pem"))
        for port, data, sentence in ((int(tls.settings["tls_listen"].split(":")[1]), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                      b"speaks https://"), (tls.port, bytes.fromhex("16030100c8010000c40303"), b"speaks http://")):
            wire = Wire(port)
            wire.send(data)
            heard = wire.hears() or b""
            story.fact(f"a client that begins wrongly is told: {sentence.decode()}", sentence in heard, heard[:400])
