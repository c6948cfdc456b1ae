"""scripts/quickstart: several run beside each other, and one that can't start touches nothing."""
from harness import *

SCRIPT = os.path.join(ROOT, "scripts", "quickstart")

with Story("b11 two quick starts at once", seconds=180) as story:
    if not PENSTOCK:
        raise Skip("penstock is not built: run make")
    if run(["bash", "-c", f'. {ROOT}/scripts/tools; dpkg-query -W $APT_BUILD $APT_QUICKSTART'])[0]:
        raise Skip("it would install packages: run scripts/tools quickstart")
    env = {"XDG_CACHE_HOME": story.path("home"), "PENSTOCK": PENSTOCK}
    first_port, second_port = free_port(), free_port()

    def home(port):
        return story.path(f"home/penstock-quickstart/{port}")

    def state(port):
        """What lies in a home, the daemon's cache left out, and how long its log is at least."""
        found = {}
        for path in glob.glob(home(port) + "/**", recursive=True):
            if os.path.isfile(path) and not path.startswith(home(port) + "/cache/"):
                with open(path, "rb") as f:
                    found[path] = sha256(f.read()).hexdigest() if not path.endswith(".log") else ""
        return found

    def log(port):
        with open(home(port) + "/penstock.log") as f:
            return f.read()

    first = Process(story, "quickstart", [SCRIPT, "--port", str(first_port)], env)
    wait_for("the first one has read twice", lambda: "second" in first.log(), 60)
    story.fact("the second read is a hit", re.search("second .*X-Cache: HIT", first.log()),
               first.log())
    before, said = state(first_port), log(first_port)
    story.fact("it has its weights file", any("weights-" in path for path in before), before)

    status, out, err = run([SCRIPT, "--once", "--port", str(first_port)], env)
    story.fact("another one on its port fails, and says why", status == 1
               and f"can't use port {first_port}" in err, (status, out, err))
    status, out, err = run([SCRIPT, "--once", "--port", str(first_port - 1)], env)
    story.fact("so does one that would need it for metrics", status == 1
               and f"listens at 127.0.0.1:{first_port}" in err, (status, out, err))
    status, out, err = run([SCRIPT, "--once", "--port", str(second_port)], env, 100)
    story.fact("one on a port of its own does its work", status == 0
               and re.search("second .*X-Cache: HIT", out), (status, out, err))
    story.fact("nothing of the first was touched", state(first_port) == before,
               set(before.items()) ^ set(state(first_port).items()))
    story.fact("its log went on", log(first_port).startswith(said), log(first_port)[:500])
    story.same("it still runs", first.alive(), True)
    first.process.send_signal(signal.SIGINT)
    story.same("Ctrl-C ends it", first.process.wait(20), 0)
