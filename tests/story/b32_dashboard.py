"""The dashboard: Grafana's own types know all of it, and each of its queries brings data from a Prometheus that scraped a
Penstock under load. A query that brings zeros only is in the list of those that need a fault. Then an origin fails, and
the alert on it fires in that Prometheus; nothing else was about to."""
import urllib.parse
import urllib.request

import chart
from authority import *
from batches import frames
from filler import Filler, Memory
from harness import *
from jobs import Jobs
from lender import Lender
from peering import Fleet

PROMETHEUS = os.path.join(TOOLS, "prometheus/usr/bin/prometheus")
DASHBOARD = os.path.join(chart.CHART, "monitoring", "dashboard.json")
SIZE = 300_000

# Panels whose queries are zero or empty while nothing fails and nothing is full.
NEED_A_FAULT = {"Folders out of service", "Origins down", "Refused requests", "Cut responses", "Refused by rights", "Not stored",
                "Trouble with origins", "Trouble with peers", "Failed questions by node", "Repeated requests", "Trouble with disks", "Pinned bytes at risk", "Waits for memory",
                "Open files and connections", "Limits of fills"}
# Metrics that stay zero in this story: all nodes answer, nothing is evicted, staged or scrubbed, the page cache serves all
# reads, and no job, upload, long list or request to the origin is in progress any more.
STAY_ZERO = re.compile(r"penstock_(volume_recycled_extents|volume_copied_bytes|scrub_read_bytes|disk_reads|job_objects_not_kept)_total|"
                       r"penstock_(peer_up|store_staged_bytes|store_locked_bytes|store_mapped_bytes|jobs|origin_transfers|origin_calls|"
                       r"http_body_memory_bytes|http_head_memory_bytes|batch_memory_bytes|fill_lists_bytes)\b")


class Prometheus(Process):
    """Debian's, which scrapes these daemons each second and evaluates the alert rules."""

    def __init__(self, story, *daemons):
        self.port = free_port()
        targets = ", ".join(f"127.0.0.1:{daemon.admin_port}" for daemon in daemons)
        config = story.path("prometheus.yml")
        with open(config, "w") as f:
            f.write("global: { scrape_interval: 1s, evaluation_interval: 1s }\n"
                    f"rule_files: [{os.path.join(chart.CHART, 'monitoring', 'alerts.yml')}]\n"
                    f"scrape_configs: [{{ job_name: penstock, static_configs: [{{ targets: [{targets}] }}] }}]\n")
        super().__init__(story, "prometheus", [
            PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={story.path('tsdb')}",
            f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"])
        wait_for("Prometheus is ready", lambda: self.alive() and plain(self.port, "GET", "/-/ready").status == 200)

    def ask(self, path, **query):
        target = f"/api/v1/{path}?{urllib.parse.urlencode(query)}"
        reply = json.loads(plain(self.port, "GET", target).body)
        check(reply["status"] == "success", f"{target}: {reply}")
        return reply["data"]

    def query(self, expr):
        """The values now, one for each series."""
        return [float(row["value"][1]) for row in self.ask("query", query=expr)["result"]]


def load(story, server):
    """Reads, writes, lists, a batch, a job, a fill, a pin and a refusal."""
    client = server.client
    for key in (f"pile/{i:02}" for i in range(30)):
        client.get(key)
    server.wait_cached("pile/00", "pile/29")
    for i in range(30):
        client.get(f"pile/{i:02}")
        client.head(f"pile/{i:02}")
    client.list("pile")
    client.put("pile/new", b"x" * 1000)
    frames(client, "pile", [f"{i:02}" for i in range(20)])
    client.ask("POST", "pile", query=[("penstock-pin", ""), ("prefix", "1")])
    jobs = Jobs(client)
    story.same("a job is done", jobs.ended(jobs.start(prefix="job/"))["state"], "done")
    memory, filler = Memory(4 * MIB), Filler(server.settings["fill_socket"])
    buffer = filler.register(memory)["buffer"]
    reply = filler.fill(buffer, "pile", [[f"{i:02}", 0, -1, i * SIZE] for i in range(8)])
    story.same("a fill is good", reply.get("failed", 0), 0)
    reply = filler.fill(buffer, "pile", [[f"fresh/{i:02}", 0, -1, i * SIZE] for i in range(12)])
    story.same("... also of objects that are not cached", (reply.get("bytes"), reply.get("failed", 0)), (12 * SIZE, 0))
    return filler


def two_nodes(story):
    """The settings of two nodes of a fleet."""
    fleet = Fleet(story)
    settings = [fleet.settings(name)[1] for name in ("a", "b")]
    return [{**one, "peers": ",".join(s["peer_listen"] for s in settings)} for one in settings]


def expressions(dashboard):
    """(panel, expression as Grafana would send it)."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            expr = target["expr"]
            for name, value in (("$__rate_interval", "1m"), ("$__range", "1m"), ("$instance", ".*")):
                expr = expr.replace(name, value)
            yield panel["title"], expr


with Story("b32 the dashboard and a real Prometheus", seconds=120) as story:
    with open(DASHBOARD) as f:
        dashboard = json.load(f)
    python = chart.validator()
    if not os.path.exists(PROMETHEUS):
        raise Skip("Prometheus is not there: run scripts/tools promtool")
    status, out, err = run([python, os.path.join(HERE, "manifests.py"), "dashboard", DASHBOARD])
    check(status == 0, err[-2000:])
    story.same("Grafana's types know each member", json.loads(out)["lost"], [])
    variables = [v["name"] for v in dashboard["templating"]["list"]]
    story.same("data source and node are variables", variables, ["datasource", "instance"])
    rows = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"]
    story.same("rows", rows, ["Now", "Traffic", "Hits", "Origins", "Peers", "Disks", "Memory", "Jobs", "Fill socket and batches"])
    story.fact("each panel has a title, a unit and a description", all(
        p["title"] and p["description"] and p["fieldConfig"]["defaults"]["unit"] for p in dashboard["panels"] if p["type"] != "row"))
    ids = [panel["id"] for panel in dashboard["panels"]]
    story.same("no id is there twice", len(set(ids)), len(ids))

    origin = story.origin(f"objects=pile/%02d 30 {SIZE}", f"objects=pile/job/%02d 30 {SIZE}", f"objects=pile/fresh/%02d 12 {SIZE}")
    ours = Authority(story, "ours")
    certificate = ours.sign("first")
    fleet = two_nodes(story)
    lent = {**{name: "" for name in os.environ if name.startswith("AWS_")}, "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_CONTAINER_CREDENTIALS_FULL_URI": Lender(life=3600).url + "/container"}
    server = story.penstock(env=lent, origin=origin.url, origin_access_key="", origin_secret_key=None,
                            fill_socket=story.path("fill.sock"), tls_listen=f"127.0.0.1:{free_port()}",
                            tls_cert_file=certificate[0], tls_key_file=certificate[1], **fleet[0])
    other = story.penstock(env=lent, origin=origin.url, origin_access_key="", origin_secret_key=None, cache_dir=story.path("other"), **fleet[1])
    wait_for("two nodes know each other", lambda: all(node.metric("penstock_peers") == 1 for node in (server, other)))
    prometheus = Prometheus(story, server)
    wait_for("a first scrape, before the load", lambda: prometheus.query("penstock_store_serving"))
    filler = load(story, server)
    for i in range(30):
        story.same("another node reads", other.get(f"pile/job/{i:02}").status, 200)
    wait_for("scrapes behind the load", lambda: prometheus.query('penstock_fill_items_total{result="miss"} >= 12'))

    silent, zero = {}, {}
    for title, expr in expressions(dashboard):
        values = prometheus.query(expr)
        if not values or any(value != value for value in values):    # none, or not a number
            silent.setdefault(title, []).append((expr, values))
        elif not any(values) and title not in NEED_A_FAULT and not STAY_ZERO.search(expr):
            zero.setdefault(title, []).append(expr)
    story.same("each query brings data", silent, {})
    story.same("... and more than zeros, unless it needs a fault or a full cache", zero, {})
    annotation = dashboard["annotations"]["list"][0]["expr"].replace("$instance", ".*")
    story.same("the annotation is a query", prometheus.ask("query", query=annotation)["resultType"], "vector")
    named = prometheus.ask("label/instance/values", **{"match[]": "penstock_store_serving"})
    story.same("the variable has the node", named, [f"127.0.0.1:{server.admin_port}"])

    # ---- the alerts, in the same Prometheus ----
    def alerts():
        return {(alert["labels"]["alertname"], alert["state"]) for alert in prometheus.ask("alerts")["alerts"]}

    groups = prometheus.ask("rules")["groups"]
    story.same("each rule can be evaluated", [r["name"] for g in groups for r in g["rules"] if r.get("lastError")], [])
    story.same("nothing is about to fire", alerts(), set())
    filler.close()
    origin.kill()
    wait_for("Penstock takes the origin for down", lambda: (server.get(f"pile/gone{random.random()}"),
             server.metrics()["penstock_origin_breaker_open"])[1] == 1)
    wait_for("the alert on it is pending", lambda: ("PenstockOriginDown", "pending") in alerts())
    story.fact("and says which node", any(alert["annotations"]["summary"] == f"An origin of 127.0.0.1:{server.admin_port} is down"
               for alert in prometheus.ask("alerts")["alerts"]), prometheus.ask("alerts"))
    story.same("the panel shows it", prometheus.query("sum(penstock_origin_breaker_open)"), [1.0])
    story.same("Prometheus ends", prometheus.stop(), 0)
