"""The page on the admin address, in a real browser: its figures are those of /status and /metrics, it follows them, it asks
nothing of anybody else, and no text from the service becomes a part of it."""
import http.server

from chromium import *
from filler import FakeGpuMemory, Filler, Memory
from guards import use_fake_gpu
from jobs import Jobs

SLOW = ("match=other.bucket/slow/[23]", "bandwidth=3000")
SIZE, TOKEN = 300_000, "a tökén: with/all+kinds =of 'signs'"
HOSTILE = "\"><img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>{}\\\n\u202e\u200b'&amp;"

# Texts with less contrast than WCAG AA asks for (4.5; large ones 3), in the colours that the browser uses.
CONTRAST = """(() => {
    const parts = text => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
    const over = (top, below) => { const a = top[3] ?? 1; return [0, 1, 2].map(i => top[i] * a + below[i] * (1 - a)); };
    const ground = node => {
        const layers = [];
        for (let at = node; at; at = at.parentElement) layers.push(parts(getComputedStyle(at).backgroundColor));
        return layers.reduceRight((below, top) => over(top, below), [255, 255, 255]);
    };
    const bad = [];
    for (const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walk.nextNode();) {
        const node = walk.currentNode.parentElement, style = getComputedStyle(node);
        if (!walk.currentNode.data.trim() || !node.getClientRects().length || node.closest("script, style, .away")) continue;
        const below = ground(node), pair = [light(over(parts(style.color), below)), light(below)];
        const ratio = (Math.max(...pair) + .05) / (Math.min(...pair) + .05), size = parseFloat(style.fontSize);
        if (ratio < (size >= 24 || (size >= 18.6 && style.fontWeight >= 700) ? 3 : 4.5))
            bad.push([walk.currentNode.data.trim().slice(0, 40), ratio.toFixed(2)]);
    }
    return bad;
})()"""
# What reaches beyond the right edge, and by how much the page scrolls to the side.
OVERFLOW = """[document.documentElement.scrollWidth - document.documentElement.clientWidth,
    [...document.body.querySelectorAll("*")].filter(e => e.getClientRects().length && !e.closest("svg, thead, .away") &&
        e.getBoundingClientRect().right > document.documentElement.clientWidth + .5).map(e => e.outerHTML.slice(0, 120))]"""
TABLE = """(id => [...document.getElementById(id).tBodies[0]?.rows ?? []].map(row => Object.fromEntries(
    [...row.cells].map(cell => [cell.dataset.label, cell.firstChild.value]))))"""
BOUND = """[...document.querySelectorAll("main [data-path]")].map(e => [e.dataset.path, e.value, e.innerText])"""


def table(tab, id):
    return tab.run(f"{TABLE}({json.dumps(id)})")


def at(document, path):
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document


def number(text):
    return float(text) if text else None


def load(story, server, origin, gpu):
    """All kinds of work: hits, misses, an origin's error, jobs, a fill, a GPU. What stays open."""
    for key in [f"pile/{i}" for i in range(12)] * 2 + ["pile/none", "other.bucket/a/1"]:
        server.get(key)
    server.wait_cached("pile/0", "pile/11", "other.bucket/a/1")
    origin.tell("match=pile/41", "cut_after=0")
    server.get("pile/41")
    origin.calm()
    jobs = Jobs(server.client, "other.bucket")
    story.same("a job", jobs.run(prefix="a/")["state"], "done")
    origin.tell(*SLOW)
    slow = jobs.start(prefix="slow/")
    wait_for("half of a job is done", lambda: jobs.report(slow)["objects"] == 2)
    jobs.run(prefix=HOSTILE[:-10])
    filler, memory = Filler(server.settings["fill_socket"]), Memory(1 << 20)
    story.same("a fill", filler.fill(filler.register(memory)["buffer"], "pile", [["1", 0, SIZE, 0]])["ok"], True)
    if gpu:
        story.same("memory of a GPU", FakeGpuMemory(8 << 20).vmm(filler)["ok"], True)
    return filler, memory


def frozen(tab):
    """The page as it is now, and the two answers that it shows."""
    tab.press("#pause")
    tab.wait("no question is open", "!asking")
    return json.loads(tab.body("/status")), tab.body("/metrics")


def same_figures(story, tab, status, metrics):
    bound = tab.run(BOUND)
    wrong = [(path, value, at(status, path)) for path, value, _ in bound
             if (at(status, path) if isinstance(at(status, path), str) else number(value)) != (at(status, path))]
    story.fact(f"{len(bound)} figures are those of the status document", len(bound) >= 25 and not wrong, wrong)
    story.fact("... and none is missing", not [b for b in bound if b[2] in ("", "–") and at(status, b[0]) is not None], bound)
    folders = status["cache"]["folders"]
    story.same("cache folders", [(r["Folder"], r["State"], number(r["Used"]), number(r["Of"]), number(r["Faults"]))
                                 for r in table(tab, "folders")],
               [(f["path"], "serves" if f["serving"] else "out", f["used_bytes"], f["capacity_bytes"], f["faults"])
                for f in folders])
    story.same("origins", [(r["Origin"], r["State"], number(r["In progress"])) for r in table(tab, "origins")],
               [(o["name"], o["state"], o["calls"]) for o in status["origins"]])
    jobs = sorted(status["jobs"], key=lambda j: (j["state"] != "running", -j["began"]))
    story.same("jobs", [(r["Job"], r["State"], number(r["Bytes"]), number(r["Failed"])) for r in table(tab, "jobs")],
               [(f"s3://{j['bucket']}/{j['prefix']}", j["state"], j["bytes"], j["failed"]) for j in jobs])
    story.same("answers by source", sorted(number(r["Number"]) for r in table(tab, "answers")),
               sorted(n for n in status["cache"]["answers"].values() if n))
    story.same("users and GPUs", [[(r["User"], number(r["Sessions"]), number(r["Registered"])) for r in table(tab, "users")],
                                  [(r["GPU"], r["State"], number(r["Buffers"])) for r in table(tab, "gpus")]],
               [[(f"uid {u['uid']}", u["sessions"], u["registered_bytes"]) for u in status["fill"]["users"]],
                [(g["name"], "in use" if g["open"] else "idle", g["buffers"]) for g in status["fill"].get("gpus", [])]])

    def metric(name, bucket):
        found = re.search(rf'^{name}{{bucket="{re.escape(bucket)}"}} (\d+)$', metrics, re.M)
        return found and float(found[1])
    rows = table(tab, "buckets")
    story.same("buckets by /metrics", [(r["Bucket"], number(r["Reads"]), number(r["Cached"]), number(r["Clients got"])) for r in rows],
               [(r["Bucket"], *(metric(f"penstock_bucket_{n}", r["Bucket"]) for n in ("reads_total", "cached_bytes", "bytes_total")))
                for r in rows])
    story.same("... all of them", {r["Bucket"] for r in rows}, {"pile", "other.bucket"})
    wanted = {op: float(n) for op, n in re.findall(r'^penstock_requests_total{op="(\w+)"} (\d+)$', metrics, re.M) if n != "0"}
    story.same("operations", {r["Operation"]: number(r["Number"]) for r in table(tab, "operations")}, wanted)


class Other(http.server.BaseHTTPRequestHandler):
    """A site that is not Penstock. Its answers: {path: (type, headers, body)}."""
    answers = {}

    def do_GET(self):
        kind, headers, body = self.answers.get(self.path, ("text/plain", {}, ""))
        self.send_response(200)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body.encode())), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def other_site(answers):
    site = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), type("Site", (Other,), {"answers": answers}))
    threading.Thread(target=site.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{site.server_port}"


def hostile(value):
    """The same document with every text replaced."""
    if isinstance(value, dict):
        return {name: hostile(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [hostile(inner) for inner in value]
    return HOSTILE if isinstance(value, str) else value


def stays_whole(story, tab, what):
    story.same(f"{what}: no text became code", tab.run("[window.hacked ?? 0, document.images.length, document.scripts.length]"),
               [0, 0, 1])


with Story("b33 a page for people who would rather look", seconds=300) as story:
    try:
        gpu = use_fake_gpu()
    except Skip:
        gpu = None
    origin = story.origin(f"objects=pile/%d 60 {SIZE}", f"objects=other.bucket/a/%d 5 {SIZE}",
                          f"objects=other.bucket/slow/%d 4 {SIZE}")
    folders = [{"path": story.path(name), "size": "256MiB"} for name in ("first", "second")]
    server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, cache_dirs=folders, freshness="ttl", ttl="1h",
                            fill_socket=story.path("fill.sock"), fill_ring="16MiB", egress_price="0.09",
                            env={"PENSTOCK_GPU_MODULE": gpu, "FAKE_CUDA_DEVICES": "2"} if gpu else {})
    opened = load(story, server, origin, gpu)
    address = f"http://127.0.0.1:{server.admin_port}"
    chromium = Chromium(story)

    # ---- the figures ----
    tab = chromium.open(address + "/")
    tab.wait("the figures are there", "!main.hidden && points.length > 1")
    story.same("it says that the service works", tab.text("#state"), "works")
    status, metrics = frozen(tab)
    same_figures(story, tab, status, metrics)
    story.same("of a job that runs, the share that is done", [r["Progress"] for r in table(tab, "jobs") if r["State"] == "running"],
               ["0.5"])
    worth = json.loads(plain(server.admin_port, "GET", "/status").body)["worth"]["all"]
    story.same("what harness and page read is the same", [tab.run(f"document.querySelector('[data-path=\"worth.all.{n}\"]').value")
                                                          for n in ("reads", "given_bytes")],
               [str(worth[n]) for n in ("reads", "given_bytes")])
    story.fact("the latency is shown", re.fullmatch(r"[\d.]+ (µs|ms|s)", tab.text("#p50")), tab.text("#p50"))
    story.fact("what was logged is there, and what to do", "origin_failed" in tab.text("#warnings")
               and "penstock check" in tab.text("#warnings"), tab.text("#warnings"))
    story.same("no peers, no table of peers", tab.run("document.getElementById('peers-panel').hidden"), True)

    # ---- how it looks ----
    for width in (1280, 768, 375, 320):
        for dark in (False, True):
            tab.looks(width, dark=dark)
            name = f"{width}-{'dark' if dark else 'light'}"
            story.same(f"{name}: nothing reaches over the edge", tab.run(OVERFLOW), [0, []])
            story.same(f"{name}: every text has contrast", tab.run(CONTRAST), [])
            tab.picture(f"page-{name}.png")
    tab.looks(1280)
    story.same("each table has a name, heads with a scope, and rows with a head", tab.run(
        """[...document.querySelectorAll("main table")].filter(t => t.tHead && !(t.getAttribute("aria-labelledby") || t.ariaLabel) ||
        t.tHead && ![...t.tHead.rows[0].cells].every(c => c.scope === "col") ||
        ![...t.tBodies[0]?.rows ?? []].every(r => r.cells[0].scope === "row")).map(t => t.id)"""), [])

    # ---- it is alive ----
    tab.press("#pause")
    reads = worth["reads"]
    for i in range(20, 27):
        server.get(f"pile/{i}")
    tab.wait("new reads are seen", f"document.querySelector('[data-path=\"worth.all.reads\"]').value == {reads + 7}")
    tab.wait("... with their rate", "points.some(p => p.each.requests > 0)")
    story.same("it asks the service, for nothing else, and nobody else", {url.removeprefix(address) for url in tab.requests()
                                                                         if not url.startswith("data:")}, {"/", "/status", "/metrics"})
    story.same("neither script nor policy complains", tab.complaints(), [])
    stays_whole(story, tab, "with a hostile prefix")
    story.fact("... which is shown as it is", "<img src=x" in tab.text("#jobs"), tab.text("#jobs"))

    # ---- trouble ----
    origin.tell("match=pile/broken", "status=500")
    server.get("pile/broken")
    tab.wait("an origin that fails is named", "attention.innerText.includes('Origin default')")
    story.same("... and the state", tab.text("#state"), "works in part")
    origin.tell("reset=rules", *SLOW)
    server.get("pile/50")
    tab.wait("it answers again", "!attention.innerText && state.innerText == 'works'")
    away = folders[0]["path"] + ".away"
    os.rename(folders[0]["path"], away)
    open(folders[0]["path"], "w").close()    # in its place, so that Penstock can make no new folder
    for i in range(30, 50):
        server.get(f"pile/{i}")
    tab.wait("a folder out of service is named", f"attention.innerText.includes({json.dumps(folders[0]['path'])})")
    tab.picture("page-trouble.png")
    os.remove(folders[0]["path"])
    os.rename(away, folders[0]["path"])
    tab.wait("it serves again", "!attention.innerText")
    story.fact("that is what was logged last", "cache_folder" in tab.text("#warnings li"), tab.text("#warnings li"))

    # ---- no answer ----
    instance = tab.text("#who")
    opened[0].close()
    origin.tell("reset=rules")
    story.same("the daemon stops", server.stop(), 0)
    tab.wait("the page says that nobody answers", "!down.hidden && state.innerText == 'no answer'")
    story.fact("... what to do, and how old the figures are", all(part in tab.text("#down") for part in (
        "does not answer", "The figures below are", "systemctl status penstock")) and tab.run("!main.hidden"), tab.text("#down"))
    tab.picture("page-down.png")
    story.same("... in colours with contrast", [bad for bad in tab.run(CONTRAST.replace("document.body,", "down,"))], [])
    server = server.again()
    tab.wait("it finds the next process", "down.hidden && state.innerText == 'works'")
    story.fact("... which is another instance", tab.text("#who") != instance, instance)
    story.fact("... whose rates are its own", tab.run("points.every(p => !(p.each.given < 0 || p.each.requests < 0))"))

    # ---- texts that would be code ----
    page = plain(server.admin_port, "GET", "/")
    policy = {"Content-Security-Policy": page.headers["content-security-policy"]}
    evil = {**hostile(status), "name": "penstock", "ready": True, "fleet": {"share": .75},
            "peers": [{"address": HOSTILE, "state": "away", "why": HOSTILE, "share": .25, "from_bytes": 5 << 20, "to_bytes": 7, "asked": 3, "failed": 1,
                       "bad": 1, "round_trip_us": 1500, "version": HOSTILE}]}
    evil["cache"]["folders"][0]["serving"] = False
    evil["cache"]["what_if"] = {"reads": 9, "hit_ratio": .5, **{n: {"hit_ratio": r} for n, r in (("half", .25), ("double", .75), ("fourfold", .875))}}
    evil["origins"][0]["state"] = "fails"
    label = HOSTILE.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    lines = metrics.replace('bucket="pile"', f'bucket="{label}"').replace('op="GetObject"', f'op="{label}"')
    answers = {"/": ("text/html; charset=utf-8", policy, page.body.decode()),
               "/status": ("application/json", {}, json.dumps(evil)), "/metrics": ("text/plain", {}, lines)}
    bad = chromium.open(other_site(answers) + "/", width=375)
    bad.wait("all of it is shown", "!main.hidden")
    stays_whole(story, bad, "with hostile texts everywhere")
    story.same("nothing reaches over the edge", bad.run(OVERFLOW), [0, []])
    story.same("nothing complains", bad.complaints(), [])
    shown = table(bad, "buckets")[0]
    story.same("a name is whole, whatever its signs", (shown["Bucket"], number(shown["Reads"])),
               (HOSTILE, float(re.search(r'^penstock_bucket_reads_total{bucket="pile"} (\d+)', metrics, re.M)[1])))
    story.fact("what would be hidden, or turn the line around, is shown", "\\u{202e}\\u{200b}" in bad.text("#buckets"), bad.text("#buckets"))
    story.same("peers are shown when there are any", table(bad, "peers"),
               [{"Node": HOSTILE, "State": "away", "Owns": "0.25", "From it": str(5 << 20), "To it": "7", "Questions": "3", "Failed": "2",
                 "Round trip": "0.0015", "Version": HOSTILE}])
    story.same("... and the hit ratios of other sizes", [number(r["Hits, about"]) for r in table(bad, "sizes")], [.25, .5, .75, .875])
    bad.picture("page-hostile.png")
    for what, script in (("HTML from a text", "document.body.innerHTML = '<b>x</b>'"),
                         ("a script from a text", "document.body.append(Object.assign(document.createElement('script'), { text: 'window.hacked=1' }))"),
                         ("a request to elsewhere", "await fetch('http://127.0.0.1:9/')"),
                         ("a picture from elsewhere", "await new Promise((_, no) => { const i = new Image(); i.onerror = no; i.src = 'http://127.0.0.1:9/x' })")):
        story.same(f"the policy forbids {what}", bad.run(f"(async () => {{ try {{ {script}; return 'done' }} catch {{ return 'refused' }} }})()"),
                   "refused")
    stays_whole(story, bad, "after that")
    answers["/status"] = ("application/json", {}, "[1, {")
    bad.wait("an answer that is no status is named", "!down.hidden && down.innerText.includes('not Penstock')")
    answers["/status"] = ("application/json", {}, "{}")
    bad.wait("... also one without a figure", "!down.hidden && down.innerText.includes('not Penstock')")

    # ---- other sites ----
    site = chromium.open(other_site({"/": ("text/html", {}, f"<iframe src='{address}/'></iframe>")}) + "/")
    frame = site.call("Page.getFrameTree")["frameTree"]["childFrames"][0]["frame"]
    story.fact("another site can't frame the page", not frame["url"].startswith(address) or frame.get("unreachableUrl"), frame)
    story.same("... nor read its figures", site.run(f"""Promise.all([{{}}, {{ mode: "no-cors" }}].map(how =>
        fetch("{address}/status", how).then(r => r.text()).then(t => t.length, () => "refused")))"""), ["refused", "refused"])

    # ---- the token ----
    with open(story.path("token"), "w") as f:
        f.write(TOKEN)
    closed = story.penstock(origin=origin.url, cache_dir=story.path("closed"), admin_token_file=story.path("token"), metrics_token=True)
    ask = chromium.open(f"http://127.0.0.1:{closed.admin_port}/")
    ask.wait("it asks for the token", "!token_section.hidden".replace("token_section", "document.getElementById('token')"))
    story.fact("... shows no figure, and says where it is", ask.run("main.hidden") and "admin_token_file" in ask.text("#token-why"), ask.text("#token"))
    story.same("... has the focus in the field", ask.run("document.activeElement.id"), "token-value")
    story.same("... in colours with contrast", ask.run(CONTRAST), [])
    ask.picture("page-token.png")

    def give(value):
        ask.run(f"document.getElementById('token-value').value = {json.dumps(value)}")
        ask.press("#token form button")

    asked = len(ask.requests())
    give("a wrong one")
    ask.wait("a wrong one is refused", "document.getElementById('token-title').innerText.includes('refuses this token')")
    story.fact("... and asked only once", len(ask.requests()) == asked + 2, ask.requests()[asked:])
    give(TOKEN)
    ask.wait("the right one shows the figures", "!main.hidden && state.innerText == 'works'")
    ask.go(f"http://127.0.0.1:{closed.admin_port}/")
    ask.wait("the tab remembers it", "!main.hidden")
    story.same("it is neither in the address nor in what stays", ask.run("[location.href.includes('t%C3%B6k'), localStorage.length, document.cookie]"),
               [False, 0, ""])
    ask.press("#forget")
    ask.wait("forgotten, it asks again", "!document.getElementById('token').hidden && main.hidden && !sessionStorage.length")
    story.same("only refusals are complained of", [line for line in ask.complaints() if "401" not in line], [])
    exposed = story.penstock(origin=origin.url, cache_dir=story.path("exposed"), admin_listen=f"0.0.0.0:{free_port()}")
    ask.go(f"http://127.0.0.1:{exposed.admin_port}/")
    ask.wait("without a token, an open address says what to set", "document.getElementById('token-why').innerText.includes('Set admin_token_file')")
    story.same("... and asks for none", ask.run("document.querySelector('#token form').hidden"), True)

    # ---- hidden, it is quiet: ten seconds pass at once, for all pages of this browser, so this comes last ----
    hidden = chromium.open(address + "/")
    hidden.wait("the figures are there", "!main.hidden && !asking")
    hidden.run("Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });"
               "document.dispatchEvent(new Event('visibilitychange'))")
    before = len(hidden.requests())
    hidden.call("Emulation.setVirtualTimePolicy", policy="advance", budget=10000)
    wait_for("ten seconds are over", lambda: hidden.events("Emulation.virtualTimeBudgetExpired"))
    story.same("a hidden page asks nothing", len(hidden.requests()), before)
    hidden.run("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    hidden.call("Emulation.setVirtualTimePolicy", policy="advance", budget=10000)
    wait_for("ten seconds are over", lambda: len(hidden.events("Emulation.virtualTimeBudgetExpired")) > 1)
    story.fact("... and asks again when it is seen", len(hidden.requests()) >= before + 4, hidden.requests())
