"""Each purge, pin, unpin, job and reload leaves an audit line: who, what, from where, and the result. No secret is in
it."""
from harness import *
from jobs import Jobs

READER, KEEPER, SECRET = "AUDITREADER", "AUDITKEEPER", "audit/secret+of/both"

with Story("b34 an audit line for each action") as story:
    origin = story.origin("objects=bucket/d/%02d 4 1000")
    policies = {READER: [{"allow": ["read", "list"]}], KEEPER: [{"allow": ["read", "list", "cache"]}]}
    keys = [{"access_key": key, "secret_key": SECRET, "policy": policy} for key, policy in policies.items()]
    server = story.penstock(origin=origin.url, access_key=None, secret_key=None, keys=keys, access_log=False)
    keeper, reader = Client(server.port, KEEPER, SECRET), Client(server.port, READER, SECRET)
    seen = 0

    def audit():
        """The audit lines since the last call; at least one."""
        global seen

        def lines():
            return [line for line in map(json.loads, server.log().splitlines()) if line["event"] == "audit"][seen:]
        found = wait_for("an audit line", lines)
        seen += len(found)
        for line in found:
            del line["time"], line["level"], line["event"]
        return found

    def action(title, reply, status, **facts):
        """The line of a request, on whose answer the client can wait: it names the client and the request."""
        story.same(f"{title}: status", reply.status, status)
        found = audit()
        story.same(f"{title}: one line", len(found), 1)
        peer = found[0].pop("from")
        story.fact(f"{title}: from this host", re.fullmatch(r"127\.0\.0\.1:\d+", peer), peer)
        story.same(f"{title}: the request", found[0].pop("id"), reply.headers["x-amz-request-id"])
        story.same(title, found[0], facts)

    def without_place(lines):
        return [{n: v for n, v in line.items() if n not in ("from", "id")} for line in lines]

    def ask(client, query, **more):
        return client.ask("POST", "bucket", query=[(query, ""), *more.items()])

    action("a purge of a prefix", ask(keeper, "penstock-purge", prefix="d/"), 200, action="penstock-purge", who=KEEPER,
           result="OK", bucket="bucket", prefix="d/")
    action("a purge of a key", ask(keeper, "penstock-purge", key="d/0 x\n"), 200, action="penstock-purge", who=KEEPER,
           result="OK", bucket="bucket", key="d/0%20x%0A")
    action("a purge of all", ask(keeper, "penstock-purge", prefix=""), 200, action="penstock-purge", who=KEEPER,
           result="OK", bucket="bucket", prefix="-")
    action("a purge without the right", ask(reader, "penstock-purge", prefix="d/"), 403, action="penstock-purge",
           who=READER, result="ERR_POLICY", bucket="bucket", prefix="d/")
    action("a pin", ask(keeper, "penstock-pin", prefix="d/"), 200, action="penstock-pin", who=KEEPER, result="OK",
           bucket="bucket", prefix="d/")
    action("an unpin", ask(keeper, "penstock-unpin", prefix="d/"), 200, action="penstock-unpin", who=KEEPER,
           result="OK", bucket="bucket", prefix="d/")
    story.same("what changes nothing leaves no line: a dry run, a list of purges, a list of pins", [
        keeper.ask("POST", "bucket", query=[("penstock-purge", ""), ("prefix", ""), ("dry-run", "")]).status,
        keeper.ask("GET", "bucket", query=[("penstock-purge", "")]).status,
        keeper.ask("GET", "bucket", query=[("penstock-pin", "")]).status], [200, 200, 200])

    leaver = Wire(server.port)
    leaver.send(keeper.head_of("POST", "bucket", [("penstock-purge", ""), ("prefix", "left/")]))
    leaver.close()
    story.same("a purge whose client leaves", [(line["result"], line["prefix"]) for line in audit()], [("OK", "left/")])

    # ---- jobs ----
    jobs = Jobs(reader, "bucket")
    id = jobs.start(prefix="d/")
    story.same("the start of a job", without_place(audit()), [{
        "action": "penstock-job", "who": READER, "result": "OK", "bucket": "bucket", "job": id, "mode": "warm", "pins": 0,
        "prefix": "d/"}])
    story.same("an end of the job", Jobs(keeper, "bucket").ask("DELETE", id).status, 204)
    story.same("... by another client", without_place(audit()), [{
        "action": "penstock-job-cancel", "who": KEEPER, "result": "OK", "bucket": "bucket", "job": id}])
    jobs.start(keys=["d/00", "d/01"])
    story.same("a job with a list", [(line["result"], "prefix" in line) for line in audit()], [("OK", False)])
    story.same("a job that is refused", jobs.ask("POST", body=b'{"prefix": 1}').status, 400)
    story.same("... leaves a line, too", [line["result"] for line in audit()], ["ERR_BAD_ARGUMENT"])

    # ---- reloads ----
    def reload(**settings):
        with open(server.config_path, "w") as f:
            json.dump({**server.settings, **settings}, f)
        server.process.send_signal(signal.SIGHUP)
        return audit()
    ours = {"action": "reload", "who": f"uid:{os.getuid()}", "from": "signal", "pid": os.getpid()}
    story.same("a reload", reload(log_level="info"), [{**ours, "result": "OK"}])
    story.same("a reload with a mistake", reload(log_level="loud"), [{**ours, "result": "ERR_BAD_ARGUMENT"}])
    story.same("a reload that ends the log", reload(log_level="off"), [{**ours, "result": "OK"}])
    story.fact("the log has no secret", SECRET not in server.log())
