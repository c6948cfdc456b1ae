"""The fill socket reads for nobody what a GET would refuse: by policy, by the origin's word, by a key
that was taken away; and registered memory gives no right to an object."""
import sys

from filler import Filler, Memory
from harness import *

ANNA, BEN, JOBS = ("ANNATESTKEY", "anna/secret"), ("BENTESTKEY", "ben/secret"), ("JOBSTESTKEY", "jobs/secret")
SIZE = 100_000
KEYS = [*({"access_key": k, "secret_key": s} for k, s in (ANNA, BEN)),
        {"access_key": JOBS[0], "secret_key": JOBS[1],
         "policy": [{"allow": ["read"], "on": ["pile/open/"]}, {"allow": ["write"], "on": ["pile"]}]}]

with Story("x04 fill identities") as story:
    origin = story.origin("objects=pile/%d 10 100000", "objects=pile/open/%d 3 100000")
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path, freshness="ttl", ttl="1h", keys=KEYS,
                            grant_time="1h", missing_time="0")

    class Reader:
        def __init__(self, who):
            self.filler = Filler(path, *who) if who else Filler(path)
            self.memory = Memory(1 << 20)
            self.buffer = self.filler.register(self.memory)["buffer"]

        def reads(self, *keys, **more):
            self.memory.guard(0, 1 << 20)
            return self.filler.fill(self.buffer, "pile", [[key, 0, SIZE, i * SIZE]
                                                          for i, key in enumerate(keys)], **more)

        def has(self, *keys):
            return self.memory.map[:SIZE * len(keys)] == b"".join(expect(f"pile/{key}", 1, 0, SIZE)
                                                                  for key in keys)

    def refuse(key, who=BEN[0], status=403):
        origin.tell(f"match=pile/{key}", f"as={who}", f"status={status}")

    shared, anna, ben, jobs = Reader(None), Reader(ANNA), Reader(BEN), Reader(JOBS)

    # ---- the origin's word ----
    refuse("0")
    reply = anna.reads("0", "1")
    story.fact("who may, has it filled", reply["ok"] and anna.has("0", "1"), reply)
    origin.quiet()
    server.wait_cached("pile/0", "pile/1", client=Client(server.port, *ANNA))
    reply = ben.reads("0", "1")
    story.same("who may not, has not, though it is cached", (reply["ok"], reply["error"], reply["status"]),
               (False, "AccessDenied", 403))
    story.fact("... not a byte of it", ben.memory.untouched(0, SIZE))
    reply = ben.reads("1", "0", on_error="skip")
    story.fact("... and with skip just what it may", reply["ok"] and ben.has("1") and
               reply["errors"] == [[1, "AccessDenied", 403]] and ben.memory.untouched(SIZE, 1 << 20), reply)
    story.same("a prefetch is refused, too", ben.filler.say("prefetch", bucket="pile", items=["0"])["error"],
               "AccessDenied")
    origin.calm()
    refuse("1", ANNA[0])
    story.fact("what it was let read lately, it reads", anna.reads("1")["ok"])
    story.same("a refusal to a GET", server.ask("GET", "pile/1").status, 200)
    reply = Client(server.port, *ANNA).get("pile/1", headers={"cache-control": "no-cache"})
    story.same("... of its own", reply.status, 403)
    story.same("... counts here", anna.reads("1")["error"], "AccessDenied")
    origin.calm()
    refuse("2")
    origin.tell("match=pile/2", f"as={ANNA[0]}", "first_byte_ms=3000")
    number = anna.filler.ask("fill", buffer=anna.buffer, bucket="pile", items=[["2", 0, SIZE, 0]])
    wait_for("it is under way", lambda: origin.totals()["requests_open"] > 0)
    reply = ben.reads("2")
    story.fact("who joins a fill under way is refused", reply.get("error") == "AccessDenied" and
               ben.memory.untouched(0, 1 << 20), reply)
    story.fact("... and who leads it is not", anna.filler.reply_to(number)["ok"])

    # ---- a policy ----
    origin.calm()
    reply = jobs.reads("open/0", "open/1")
    story.fact("inside its policy", reply["ok"] and jobs.has("open/0", "open/1"), reply)
    story.fact("the shared identity reads all", shared.reads("0", "1", "2")["ok"])
    for key in ("0", "open", "open/../0", "nothing"):
        reply = jobs.reads(key)
        story.same(f"outside of it: {key}", (reply["error"], reply["status"]), ("AccessDenied", 403))
    reply = jobs.reads("open/0", "0", "open/2", on_error="skip")
    story.same("one of three", (reply["ok"], reply["errors"]), (True, [[1, "AccessDenied", 403]]))
    story.same("another bucket", jobs.filler.fill(jobs.buffer, "other", [["a", 0, 1, 0]])["error"],
               "AccessDenied")
    before, lines = server.metric("penstock_policy_refused_total"), server.log().count("policy_refused")
    jobs.filler.fill(jobs.buffer, "pile", [["0", 0, 1, i] for i in range(1000)], on_error="skip")
    story.same("a thousand refusals are counted", server.metric("penstock_policy_refused_total") - before, 1000)
    lines = server.log().count("policy_refused") - lines
    story.fact("... and some of them logged", 16 <= lines <= 18, lines)

    # ---- a key that is taken away ----
    with open(server.config_path) as f:
        settings = json.load(f)
    settings["keys"] = [row for row in KEYS if row["access_key"] != BEN[0]]
    settings["keys"][-1]["policy"] = [{"allow": ["read"], "on": ["pile/open/1"]}]
    with open(server.config_path, "w") as f:
        json.dump(settings, f)
    server.process.send_signal(signal.SIGHUP)
    wait_for("the keys are read", lambda: '"reloaded"' in server.log())
    reply = ben.reads("5")
    story.same("its session reads nothing any more", (reply["error"], reply["status"]),
               ("InvalidAccessKeyId", 403))
    story.same("a policy that changed counts at once", jobs.reads("open/0")["error"], "AccessDenied")
    story.fact("... as far as it goes", jobs.reads("open/1")["ok"])
    lists = [json.loads(line) for line in server.log().splitlines() if '"event":"fill"' in line]
    story.fact("the log names the key that failed", "open/0" in [one["first_failed"] for one in lists if one["failed"]]
               and {one["first_failed"] for one in lists if not one["failed"]} == {"-"}, lists[-3:])
    story.fact("others go on", anna.reads("5")["ok"])

    # ---- who may connect ----
    import pwd
    nobody = pwd.getpwnam("nobody").pw_uid
    probe = ("import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
             "s.settimeout(float(sys.argv[2])); s.connect(sys.argv[1]); print(s.recv(9999).decode())")

    def as_nobody(seconds=PATIENCE):
        """What another user hears first, or that so long nothing comes."""
        os.chmod(story.folder, 0o755)
        return subprocess.run(["setpriv", "--reuid", str(nobody), "--regid", "65534", "--clear-groups",
                               "/usr/bin/python3", "-c", probe, path, str(seconds)], capture_output=True, text=True,
                              timeout=2 * PATIENCE)
    told = as_nobody()
    story.fact("another user of this host is not let in, and told so", "peer_denied" in told.stdout
               and "fill_users" in told.stdout, told)
    story.fact("... which the log says, too", "peer_denied" in server.log())
    story.same("... and the counter", server.metrics()['penstock_fill_refused_total{cause="rights"}'] >= 1, True)
    server = server.restart(fill_users="nobody")
    wait_for("it is logged", lambda: '"fill_socket"' in server.log())
    told = as_nobody(3)
    story.fact("one that fill_users names is", "peer_denied" not in told.stdout and
               "timed out" in told.stderr, told)
    server.stop()
    server = server.again(fill_users="*")
    told = as_nobody(3)
    story.fact("or everybody", "peer_denied" not in told.stdout, told)
    server.stop()
    server = server.again(fill_users="*", fill_sessions=1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as held:
        held.connect(path)
        told = as_nobody()
    story.fact("beyond fill_sessions nobody is let in, and told so", "fill_sessions" in told.stdout, told)
    story.same("... which is counted", [server.metrics()[name] for name in (
        'penstock_fill_refused_total{cause="limit"}', 'penstock_fill_limited_total{limit="fill_sessions"}')], [1, 1])
    wait_for("it is logged", lambda: any("fill_refused" in line and str(nobody) in line for line in server.log().splitlines()))
    story.fact("... and logged with its user", True)

    # the client sends when the daemon has already hung up: what that said is still there to be read
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../src/client/python"))
    from penstock.errors import Disconnected
    from penstock.session import Session
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path + "3")
        listener.listen()
        session = Session(path + "3", 1)
        daemon = listener.accept()[0]
        daemon.send(b'{"ok":false,"error":"peer_denied","status":403,"message":"name it"}')
        daemon.close()
        try:
            session.say("hello", {"v": 1})
            said = "nothing"
        except Disconnected as failure:
            said = str(failure)
    story.fact("the Python client says why it was not let in", "peer_denied: name it" in said, said)

    bad = story.penstock(wait=False, origin=origin.url, fill_socket=path + "2", fill_users="no-such-user")
    wait_for("it ends", lambda: not bad.alive())
    story.fact("a name that nobody has is a mistake", "is not a user of this machine" in bad.log(), bad.log()[-300:])
