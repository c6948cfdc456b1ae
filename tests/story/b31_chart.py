"""The Helm chart: what it renders satisfies the schemas of Kubernetes, its settings satisfy penstock check, wrong values
are refused with a message, and a pod as rendered serves a warm hit by the three commands of its notes."""
import chart
from authority import Authority
from harness import *

VERSIONS = "1.26", "1.37"    # the least that the chart wants, and the newest with a schema
CUSTOM = ["Certificate", "PodMonitor", "PrometheusRule"]    # kinds without a schema here
USER = 64001
LEAST = {"settings": {"origin": "https://s3.example.com"}, "awsSecret": "aws"}
MOST = {
    "image": {"repository": "registry.example.com/penstock", "tag": "1", "pullSecrets": [{"name": "pull"}]},
    "settings": {"origin": "https://s3.example.com", "memory": "6GiB", "drain_time": "2m", "loops": 4, "freshness": "immutable",
                 "# why": "a comment", "admin_token_file": "/run/secrets/penstock/admin/token", "fill_users": "1000",
                 "keys": [{"access_key": "TEAM", "secret_key_file": "/run/secrets/penstock/team/key", "policy": "all"}],
                 "buckets": {"data": {"ttl": "5m", "quota": "1TiB"}}},
    "secrets": ["admin", "team"], "awsSecret": "aws",
    "cache": {"folders": [{"hostPath": "/nvme0/penstock", "size": "2TiB"}, {"hostPath": "/nvme1/penstock", "create": False},
                          {"storageClass": "local-nvme", "size": "100GiB"}]},
    "resources": {"requests": {"cpu": 2, "memory": "16Gi"}, "limits": {"memory": "32Gi"}},
    "tls": {"certManager": {"issuer": {"name": "ca", "kind": "ClusterIssuer"}, "dnsNames": ["s3.local"]}, "http": True},
    "fillSocket": {"hostPath": "/run/penstock"},
    "monitoring": {"podMonitor": {"enabled": True, "labels": {"release": "prometheus"}}, "rules": {"enabled": True},
                   "dashboard": {"enabled": True}},
    "networkPolicy": {"enabled": True, "clients": [{"namespaceSelector": {"matchLabels": {"team": "vision"}}}]},
    "startupTaint": {"enabled": True, "image": "kubectl:1"}, "ipv6": True, "maxUnavailable": 3,
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/penstock"}},
    "priorityClassName": "system-node-critical", "podAnnotations": {"team": "storage"}, "nodeSelector": {"gpu": "yes"},
}
REFUSED = [    # (what, values beside LEAST, words of the message)
    ("no origin", {"settings": {"origin": None}}, "set settings.origin"),
    ("an unknown setting", {"settings": {"orign": "x"}}, "orign"),
    ("a setting of a wrong type", {"settings": {"sigv2": "yes"}}, "sigv2"),
    ("a choice that is none", {"settings": {"freshness": "never"}}, "freshness"),
    ("an unknown value", {"imagge": {}}, "imagge"),
    ("a setting of the chart's own", {"settings": {"listen": "0.0.0.0:9000"}}, "the chart sets listen itself"),
    ("an origin that is no object", {"settings": {"origins": {"a": "https://x"}}}, "/settings/origins/a"),
    ("a secret as text", {"settings": {"admin_token": "x"}}, "set admin_token_file to /run/secrets/penstock/"),
    ("a client's secret as text", {"settings": {"keys": [{"access_key": "a", "secret_key": "b"}]}}, "settings.keys: secret_key"),
    ("an origin's secret as text", {"settings": {"origins": {"a": {"url": "https://x", "secret_key": "b"}}}}, "settings.origins: secret_key"),
    ("no key of a client", {"awsSecret": ""}, "set awsSecret"),
    ("memory above the limit", {"settings": {"memory": "4GiB"}}, "raise the limit, or lower settings.memory"),
    ("a limit that is too small", {"resources": {"limits": {"memory": "128Mi"}}}, "512Mi or more"),
    ("a size that is none", {"cache": {"folders": [{"hostPath": "/a", "size": "2 TB"}]}}, "/cache/folders/0"),
    ("a volume without a size", {"cache": {"folders": [{"storageClass": "a"}]}}, "/cache/folders/0"),
    ("no folder", {"cache": {"folders": []}}, "folders"),
    ("a folder twice", {"cache": {"folders": [{"hostPath": "/a"}, {"hostPath": "/a"}]}}, "/a is there twice"),
    ("a path that is none", {"cache": {"folders": [{"hostPath": "nvme"}]}}, "/cache/folders/0"),
    ("two kinds of certificate", {"tls": {"secret": "a", "certManager": {"issuer": {"name": "b"}}}}, "set one of them"),
    ("io_uring under a profile that forbids it", {"settings": {"io": "uring"}}, "forbids io_uring"),
    ("a token that nobody sends", {"settings": {"metrics_token": True}, "monitoring": {"podMonitor": {"enabled": True}}}, "sends no token"),
    ("a taint without an image", {"startupTaint": {"enabled": True}}, "startupTaint: image is empty"),
    ("peers without a certificate", {"peers": {"enabled": True}}, "peers: tlsSecret is empty"),
    ("a drain time that is none", {"settings": {"drain_time": "soon"}}, "drain_time"),
]


def merged(base, more):
    """`more` over `base`; a value of None removes a member."""
    out = dict(base)
    for name, value in more.items():
        out[name] = merged(out.get(name) or {}, value) if isinstance(value, dict) else value
    return {name: value for name, value in out.items() if value is not None}


class Chart:
    def __init__(self, story):
        self.story, self.helm, self.python, self.number = story, chart.helm(), chart.validator(), 0
        self.env = {"HOME": story.folder, "HELM_CACHE_HOME": story.path("helm"), "HELM_CONFIG_HOME": story.path("helm"),
                    "HELM_DATA_HOME": story.path("helm"), "KUBECONFIG": "/nonexistent"}

    def values(self, values):
        """A file of values, which are members or YAML."""
        self.number += 1
        path = self.story.path(f"values-{self.number}.yaml")
        with open(path, "w") as f:
            f.write(values if isinstance(values, str) else json.dumps(values))
        return path

    def run(self, *argv):
        return run([self.helm, *argv], env=self.env)

    def text(self, values, place=chart.CHART):
        status, out, err = self.template(values, place)
        check(status == 0, err)
        return out

    def template(self, values, place=chart.CHART):
        return self.run("template", "penstock", place, "--namespace", "data", "--kube-version", VERSIONS[0], "-f", self.values(values))

    def notes(self, values):
        """What helm says after an installation. It says so only to whoever has a cluster, so a copy of the chart has the
        notes in a manifest."""
        copy = self.story.path("copy")
        shutil.copytree(chart.CHART, copy)
        os.rename(os.path.join(copy, "templates", "NOTES.txt"), os.path.join(copy, "notes"))
        with open(os.path.join(copy, "templates", "notes.yaml"), "w") as f:
            f.write('apiVersion: v1\nkind: ConfigMap\nmetadata: { name: notes }\n'
                    'data:\n  notes: |\n    {{- tpl (.Files.Get "notes") . | nindent 4 }}\n')
        return self.documents(values, copy)["ConfigMap/notes"]["data"]["notes"]

    def documents(self, values, place=chart.CHART):
        """{kind/name: document}, after the schemas of Kubernetes have been asked."""
        text = self.text(values, place)
        done = subprocess.run([self.python, os.path.join(HERE, "manifests.py"), "kubernetes", *VERSIONS], input=text.encode(),
                              capture_output=True, timeout=PATIENCE)
        check(done.returncode == 0, done.stderr.decode()[-2000:])
        found = json.loads(done.stdout)
        self.story.same("the schemas of Kubernetes have nothing to say", found["wrong"], [])
        self.story.fact("only known custom resources have no schema", set(found["unknown"]) <= set(CUSTOM), found["unknown"])
        return {f"{d['kind']}/{d['metadata']['name']}": d for d in found["documents"]}


def pod_of(documents):
    return documents["DaemonSet/penstock"]["spec"]["template"]["spec"]


def settings_of(documents):
    return json.loads(documents["ConfigMap/penstock"]["data"]["penstock.json"])


class Node:
    """A folder in place of a node: the volumes of a pod, laid out as the kubelet would, under other paths."""

    def __init__(self, story, name, documents, secrets, **changes):
        self.pod, self.folder = pod_of(documents), story.path(name)
        self.container = self.pod["containers"][0]
        text = documents["ConfigMap/penstock"]["data"]["penstock.json"]
        for mount in self.container["volumeMounts"]:
            volume = next(v for v in self.pod["volumes"] if v["name"] == mount["name"])
            place = self.place(mount["mountPath"])
            os.makedirs(place, exist_ok=True)
            if "secret" in volume:
                for name, content in secrets[volume["secret"]["secretName"]].items():
                    self.file(os.path.join(place, name), content, volume["secret"]["defaultMode"])
            text = text.replace(f'"{mount["mountPath"]}', f'"{place}')
        self.settings = {**json.loads(text), **changes}
        self.config = self.place("/etc/penstock/penstock.json")
        self.file(self.config, json.dumps(self.settings), 0o644)

    def place(self, path):
        return self.folder + path

    def file(self, path, content, mode):
        with open(path, "w") as f:
            f.write(content)
        os.chmod(path, mode)
        if os.geteuid() == 0:    # fsGroup
            os.chown(path, 0, USER)

    def env(self):
        """The variables of the pod, with the places of this node."""
        paths = [m["mountPath"] for m in self.container["volumeMounts"]]
        return {e["name"]: self.place(e["value"]) if e["value"].startswith(tuple(paths)) else e["value"] for e in self.container["env"]}

    def prepare(self):
        """The init container: its own script, as root, with no other capabilities than its own."""
        owner = self.pod["initContainers"][0]
        script = owner["args"][0]
        for mount in owner["volumeMounts"]:
            script = script.replace(mount["mountPath"], self.place(mount["mountPath"]))
        caps = ",".join(["-all", *("+" + name.lower() for name in owner["securityContext"]["capabilities"]["add"])])
        return run(["setpriv", f"--bounding-set={caps}", f"--inh-caps={caps}", *owner["command"], script])


def refusals(story, helm):
    for text, values, words in REFUSED:
        status, out, err = helm.template(merged(LEAST, values))
        story.fact(f"{text} is refused", status != 0 and words in err and out == "", f"status {status}: {err or out[:300]}")


def has_what_it_should(story, least, most):
    for text, documents in (("the least", least), ("the most", most)):
        pod = pod_of(documents)
        main, context = pod["containers"][0], pod["securityContext"]
        story.same(f"{text}: user and seccomp", (context["runAsUser"], context["runAsNonRoot"], context["seccompProfile"]),
                   (USER, True, {"type": "RuntimeDefault"}))
        story.same(f"{text}: read-only, without capabilities", main["securityContext"], {
            "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}})
        story.same(f"{text}: probes", [main[p]["httpGet"]["path"] for p in ("startupProbe", "readinessProbe", "livenessProbe")],
                   ["/_/health/ready", "/_/health/ready", "/_/health/live"])
        named = {v["name"] for v in pod["volumes"]}
        story.same(f"{text}: each volume is mounted, and each mount has one", {m["name"] for m in main["volumeMounts"]}, named)
        story.same(f"{text}: the Service stays on the node", documents["Service/penstock"]["spec"]["internalTrafficPolicy"], "Local")
    story.same("the least has no more than this", sorted(least), [
        "ConfigMap/penstock", "DaemonSet/penstock", "Service/penstock", "ServiceAccount/penstock"])
    story.same("the pod gets 30 s more than drain_time", [pod_of(d)["terminationGracePeriodSeconds"] for d in (least, most)], [60, 150])
    story.fact("without a taint to remove, no right in the cluster", pod_of(least)["automountServiceAccountToken"] is False)
    story.same("with it: get and patch of nodes", most["ClusterRole/data-penstock-taint"]["rules"],
               [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}])
    settings = settings_of(most)
    story.same("the settings are passed through", {n: settings[n] for n in MOST["settings"]}, MOST["settings"])
    story.same("... beside the chart's own", {n: v for n, v in settings.items() if n not in MOST["settings"]}, {
        "listen": "[::]:9000", "admin_listen": "[::]:9001", "tls_listen": "[::]:9443", "tls_cert_file": "/run/secrets/tls/tls.crt",
        "tls_key_file": "/run/secrets/tls/tls.key", "fill_socket": "/run/penstock/fill.sock",
        "cache_dirs": [{"path": "/cache/0", "size": "2TiB"}, {"path": "/cache/1"}, {"path": "/cache/2", "size": "100GiB"}]})
    volumes = {v["name"]: v for v in pod_of(most)["volumes"]}
    story.same("a folder that must exist", volumes["cache-1"]["hostPath"], {"path": "/nvme1/penstock", "type": "Directory"})
    claim = volumes["cache-2"]["ephemeral"]["volumeClaimTemplate"]["spec"]
    story.same("a volume is a tenth larger than its cache", claim["resources"]["requests"]["storage"], "112640Mi")
    story.fact("only folders that may be made get an owner", "/cache/0\n" in pod_of(most)["initContainers"][0]["args"][0]
               and "/cache/1" not in pod_of(most)["initContainers"][0]["args"][0])


def monitoring(story, most):
    with open(os.path.join(chart.CHART, "monitoring", "dashboard.json")) as f:
        story.same("the ConfigMap has the dashboard", json.loads(most["ConfigMap/penstock-dashboard"]["data"]["penstock.json"]), json.load(f))
    promtool = os.path.join(TOOLS, "prometheus/usr/bin/promtool")
    if os.path.exists(promtool):
        with open(story.path("rules.yml"), "w") as f:
            json.dump(most["PrometheusRule/penstock"]["spec"], f)    # JSON is YAML
        ours = run([promtool, "check", "rules", os.path.join(chart.CHART, "monitoring", "alerts.yml")])
        theirs = run([promtool, "check", "rules", story.path("rules.yml")])
        story.same("the PrometheusRule has the rules", (theirs[0], theirs[1].split("SUCCESS")[-1]), (0, ours[1].split("SUCCESS")[-1]))
    endpoint = most["PodMonitor/penstock"]["spec"]["podMetricsEndpoints"][0]
    ports = {p["name"]: p["containerPort"] for p in pod_of(most)["containers"][0]["ports"]}
    story.same("the PodMonitor names the port of metrics", ports[endpoint["port"]], 9001)


def the_most_is_checked(story, most):
    """penstock check accepts the settings with all secrets and the certificate in their places."""
    pair = Authority(story, "ours").sign("tls")
    files = [open(path).read() for path in pair]
    port = free_port(3)
    node = Node(story, "most", most, {
        "aws": {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}, "admin": {"token": "t" * 20},
        "team": {"key": "secret"}, "penstock-tls": {"tls.crt": files[0], "tls.key": files[1]}},
        listen=f"127.0.0.1:{port}", admin_listen=f"127.0.0.1:{port + 1}", tls_listen=f"127.0.0.1:{port + 2}")
    status, out, err = run([PENSTOCK, "check", "--offline", node.config], env=node.env())
    story.fact("penstock check finds no mistake in the most", status == 0 and "settings: fine" in out, (status, out, err))
    node.settings["tls_key_file"] += ".gone"
    node.file(node.config, json.dumps(node.settings), 0o644)
    story.fact("... and would", run([PENSTOCK, "check", "--offline", node.config], env=node.env())[0] != 0)


def a_pod_runs(story, helm):
    """The least values, as rendered: check, start, probes, and the third command of the notes."""
    origin = story.origin("object=bucket/key 300000")
    values = merged(LEAST, {"settings": {"origin": origin.url}})
    documents = helm.documents(values)
    port, admin = free_port(), free_port()
    node = Node(story, "node", documents, {"aws": {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}},
                listen=f"0.0.0.0:{port}", admin_listen=f"0.0.0.0:{admin}")
    as_user = []
    binary = story.path("penstock")
    shutil.copy(PENSTOCK, binary)
    if os.geteuid() == 0:
        os.chmod(story.folder, 0o711)
        for path, _, _ in os.walk(node.folder):
            os.chmod(path, 0o755)
        for turn in "makes", "keeps":
            story.same(f"the init container {turn} the owner", node.prepare(), (0, "", ""))
            made = os.stat(node.place("/cache/0"))
            story.same("... of the cache folder", (made.st_uid, made.st_gid, made.st_mode & 0o777), (USER, USER, 0o700))
        as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs", "--bounding-set=-all",
                   "--inh-caps=-all"]
    as_pod = ["env", "-i", *(f"{name}={value}" for name, value in node.env().items()), *as_user, binary]
    checked = run([*as_pod, "check", "--offline", node.config])
    story.fact("penstock check finds no mistake", checked[0] == 0 and checked[1].endswith("settings: fine\n"), checked)
    server = Process(story, "penstock", [*as_pod, *node.container["args"], "--config", node.config])

    def probe(name):
        http = node.container[name]["httpGet"]
        check(server.alive(), server.log())
        return plain(admin, "GET", http["path"]).status == 200
    wait_for("the startup probe is content", lambda: probe("startupProbe"))
    story.same("so are the others", [probe("readinessProbe"), probe("livenessProbe")], [True, True])
    if os.geteuid() == 0:
        with open(f"/proc/{server.pid}/status") as f:
            story.same("it runs as its user", re.search(r"^Uid:\s+(\d+)", f.read(), re.M)[1], str(USER))

    notes = helm.notes(values)
    script = re.search(r"-- sh -c '\n(.*?)'\n", notes, re.S)[1]
    story.fact("the notes name the Service", "http://penstock.data:9000/$OBJECT" in script, script)
    script = script.replace("http://penstock.data:9000", f"http://127.0.0.1:{port}")
    status, out, err = run(["sh", "-c", script], env={"KEYS": f"{ACCESS_KEY}:{SECRET_KEY}", "OBJECT": "bucket/key"})
    story.same("its third command shows a miss, then a hit", (status, out.replace("\r", "").lower().splitlines()),
               (0, ["http/1.1 200 ok", "x-cache: miss", "http/1.1 200 ok", "x-cache: hit"]))
    story.same("the origin was asked once", origin.counts("bucket/key")["get"], 1)
    story.same("the pod ends within its grace", server.stop(pod_of(documents)["terminationGracePeriodSeconds"]), 0)


with Story("b31 the Helm chart", seconds=180) as story:
    if PENSTOCK is None:
        raise Skip("penstock is not built: run make")
    helm = Chart(story)
    status, out, err = helm.run("lint", chart.CHART, "--strict", "--kube-version", VERSIONS[0], "-f", helm.values(LEAST))
    story.fact("helm lint finds nothing", status == 0 and "0 chart(s) failed" in out and "[WARNING]" not in out, out + err)
    refusals(story, helm)
    least, most = helm.documents(LEAST), helm.documents(MOST)
    has_what_it_should(story, least, most)
    monitoring(story, most)
    the_most_is_checked(story, most)
    with open(os.path.join(chart.CHART, "README.md")) as f:
        helm.documents(re.search(r"```yaml\n(.*?)```", f.read(), re.S)[1])
    story.fact("peers leave no trace where they are off", "peer" not in json.dumps(least))
    peers = helm.documents(merged(LEAST, {"peers": {"enabled": True, "tlsSecret": "peers"}}))
    story.same("peers: a headless Service of this name", (peers["Service/penstock-peers"]["spec"]["clusterIP"], settings_of(peers)["peers"]),
               ("None", "dns:penstock-peers.data.svc:9002"))
    with_tls = helm.documents(merged(LEAST, {"tls": {"secret": "mine"}}))
    story.same("with https, http stays in the pod", settings_of(with_tls)["listen"], "127.0.0.1:9000")
    story.same("... and out of the Service", [p["name"] for p in with_tls["Service/penstock"]["spec"]["ports"]], ["https"])

    def checksum(documents):
        return documents["DaemonSet/penstock"]["spec"]["template"]["metadata"]["annotations"]["checksum/settings"]
    other = helm.documents(merged(LEAST, {"settings": {"ttl": "5m"}}))
    story.fact("a changed setting rolls the pods, and nothing else does", checksum(least) != checksum(other)
               and checksum(least) == checksum(helm.documents(merged(LEAST, {"maxUnavailable": 2}))))

    status, out, err = helm.run("package", chart.CHART, "--destination", story.folder)
    check(status == 0, out + err)
    package = glob.glob(story.path("penstock-*.tgz"))[0]
    story.same("the package renders the same", helm.text(MOST, package), helm.text(MOST))
    with open(os.path.join(ROOT, "configure.ac")) as f:
        version = re.search(r"AC_INIT\(\[penstock\], \[(.*?)\]", f.read())[1]
    story.same("the chart's version is Penstock's", os.path.basename(package), f"penstock-{version}.tgz")
    a_pod_runs(story, helm)
