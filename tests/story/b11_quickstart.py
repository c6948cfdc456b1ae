"""scripts/quickstart: several run beside each other, and one that can't start touches nothing."""
import contextlib
import pty

from harness import *

SCRIPT = os.path.join(ROOT, "scripts", "quickstart")

with Story("b11 two quick starts at once", seconds=180) as story:
    if not PENSTOCK:
        raise Skip("penstock is not built: run make")
    if run(["bash", "-c", f'. {ROOT}/scripts/tools; dpkg-query -W $APT_BUILD $APT_QUICKSTART'])[0]:
        raise Skip("it would install packages: run scripts/tools quickstart")
    env = {"XDG_CACHE_HOME": story.path("home"), "PENSTOCK": PENSTOCK}
    # Each has the next port for metrics, and one is asked for whose next port is the first one's.
    first_port, second_port = free_port(3) + 1, free_port(2)
    versity = story.versity()
    os.makedirs(os.path.join(versity.folder, "an-empty-one"))
    versity.client.ask("PUT", "photos")
    versity.client.ask("PUT", "photos/set/a", body=b"a picture")

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
    wait_for("the first one has read twice", lambda: "second" in first.log())
    story.fact("the second read is a hit", re.search("second .*X-Cache: HIT", first.log()),
               first.log())
    wait_for("it has said what comes next", lambda: "Ctrl-C" in first.log())
    shown = re.search(r"^ +(/.*/?penstock) (stat .*)$", first.log(), re.M)
    story.fact("it names the binary, and a command that shows it working", shown
               and f"binary      {shown[1]}\n" in first.log() and os.access(shown[1], os.X_OK), first.log())
    status, out, err = run([shown[1], *shown[2].split()])
    story.fact("... which tells of a hit", status == 0 and re.search(r"\bhits?\b", out), (status, out, err))
    wait_for("its log has a line for each request", lambda: log(first_port).count(" request ") >= 2)
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
    aws = {"AWS_ACCESS_KEY_ID": ORIGIN_KEY, "AWS_SECRET_ACCESS_KEY": ORIGIN_SECRET}
    own = [SCRIPT, "--once", "--port", str(second_port), "--origin", versity.url]
    status, out, err = run(own, {**env, **aws}, 100)
    story.fact("with an origin, it finds something there to read", status == 0
               and "Reading s3://photos/set/a " in out and re.search("second .*X-Cache: HIT", out),
               (status, out, err))
    status, out, err = run([*own, "--bucket", "photos"], {**env, **aws}, 100)
    story.fact("... or in the bucket that it is told", status == 0 and "Reading s3://photos/set/a " in out,
               (status, out, err))
    status, out, err = run([*own, "--bucket", "no-such-bucket"], {**env, **aws}, 100)
    story.fact("... and says why it reads nothing", status == 0 and "No object was found" in out
               and "bucket does not exist" in out, (status, out, err))
    status, out, err = run([*own[:4], "--bucket", "photos"], env)
    story.fact("a bucket needs an origin", status == 1 and "--bucket needs --origin" in err, (status, out, err))

    # A tree whose build waits until its progress was seen.
    tree, seen = story.path("a-tree"), story.path("seen")
    os.makedirs(tree + "/scripts")
    for name in ("quickstart", "tools"):
        shutil.copy(os.path.join(ROOT, "scripts", name), tree + "/scripts/")
    rules = (f"all:\n\t@echo cc -c -o x.o\n\t@for i in $$(seq 300); do [ -e {seen} ] && break; sleep 0.1; done\n"
             f"\tcp {PENSTOCK} penstock\n")
    configure = '#!/bin/sh\ncp "${0%/*}/Makefile.in" Makefile\n: >config.status\n'
    for name, text in ("configure.ac", ""), ("Makefile.am", ""), ("Makefile.in", rules), ("configure", configure):
        with open(os.path.join(tree, name), "w") as f:
            f.write(text)
        os.chmod(f.name, 0o755)
    ours, theirs = pty.openpty()
    builds = subprocess.Popen([tree + "/scripts/quickstart", "--once", "--port", str(second_port)], stdout=theirs,
                              env={**{n: v for n, v in os.environ.items() if n != "PENSTOCK"},
                                   "XDG_CACHE_HOME": story.path("home")})
    os.close(theirs)
    told = b""
    with contextlib.suppress(OSError):    # a terminal's end is an error
        while more := os.read(ours, 4096):
            told += more
            if b"files compiled: 1 " in told:
                open(seen, "w").close()
    story.same("the build ends", builds.wait(PATIENCE), 0)
    story.fact("on a terminal, a build shows how far it is", b"files compiled: 1 " in told and os.path.exists(seen)
               and b"built in" in told, told)

    story.fact("nothing of the first was touched", state(first_port) == before,
               set(before.items()) ^ set(state(first_port).items()))
    story.fact("its log went on", log(first_port).startswith(said), log(first_port)[:500])
    story.same("it still runs", first.alive(), True)
    first.process.send_signal(signal.SIGINT)
    story.same("Ctrl-C ends it", first.process.wait(PATIENCE), 0)
