"""The access log is off the hot path: a reader of stderr that stalls costs lines and no request,
what was dropped is counted and said, and the last lines are there after a stop and after a crash."""
import select

from harness import *

REQUESTS = 6000    # their lines are more than a pipe and a ring hold


class Reader:
    """The daemon's stderr as a pipe, which is read when the story says so."""

    def __init__(self):
        self.end, self.start = os.pipe()
        self.text = b""

    def rest(self):
        """Everything until the daemon has gone."""
        while more := os.read(self.end, 1 << 20):
            self.text += more
        return self.lines()

    def lines(self):
        return [json.loads(line) for line in self.text.decode().splitlines()]


def of(lines, event):
    return [line for line in lines if line["event"] == event]


with Story("b18 a reader of the log that stalls keeps no request waiting") as story:
    origin = story.origin("object=bucket/a 1000")

    def daemon(reader, **changes):
        server = story.penstock(wait=False, origin=origin.url, log_format="json", loops=1,
                                cache_dir=story.path(f"cache-{len(story.processes)}"), **changes)
        server.kill()    # its settings and its client are used, with a stderr of our own
        process = subprocess.Popen([PENSTOCK, "serve", "--config", server.config_path],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=reader.start, env=own_env())
        os.close(reader.start)
        server.process = process    # the story ends it
        wait_for("it is ready", lambda: plain(server.port, "GET", "/_/health/ready", timeout=2).status == 200)
        return server, process

    # ---- a reader that stalls ----
    reader = Reader()
    server, process = daemon(reader)
    client = Client(server.port, keep=True)
    statuses = {}
    for _ in range(REQUESTS):
        status = client.get("bucket/a").status
        statuses[status] = statuses.get(status, 0) + 1
        if status != 200:
            break
    story.same("each request is answered although nobody reads the log", statuses, {200: REQUESTS})
    if statuses != {200: REQUESTS}:
        process.kill()
        raise Wrong("nothing else can be seen of a daemon that hangs")
    figures = server.metrics()
    said, dropped = (int(figures.get(f"penstock_access_lines{part}_total", -1)) for part in ("", "_dropped"))
    story.same("each has a line", said, REQUESTS)
    story.fact("... of which some are dropped", 0 < dropped < REQUESTS, dropped)
    process.terminate()
    lines = together(reader.rest, lambda: process.wait(PATIENCE))[0]
    story.same("it ends cleanly", process.returncode, 0)
    written = of(lines, "request")
    story.same("the others are whole, and there", len(written), REQUESTS - dropped)
    times = [line["time"] for line in written]
    story.same("... in order", times, sorted(times))
    story.same("lines say how many were dropped", sum(line["lines"] for line in of(lines, "log_dropped")), dropped)
    story.same("the last line is the end", lines[-1]["event"], "stopped")

    # ---- one that never reads again ----
    reader = Reader()
    server, process = daemon(reader)
    client = Client(server.port, keep=True)
    story.same("requests are answered", {client.get("bucket/a").status for _ in range(2000)}, {200})
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
    story.same("it ends although nobody reads its last lines", process.wait(), 0)
    reader.rest()

    # ---- a reader that reads ----
    reader = Reader()
    server, process = daemon(reader)
    for i in range(20):
        server.get(f"bucket/none-{i}")
    process.terminate()
    lines = together(reader.rest, lambda: process.wait(PATIENCE))[0]
    story.same("after a stop all lines are there, in order", [line["key"] for line in of(lines, "request")],
               [f"none-{i}" for i in range(20)])
    story.same("none is dropped", of(lines, "log_dropped"), [])

    # ---- a crash ----
    reader = Reader()
    server, process = daemon(reader)
    for i in range(20):
        server.get(f"bucket/none-{i}")
    wait_for("the last request has its line", lambda: server.metric("penstock_access_lines_total") == 20)
    process.send_signal(signal.SIGABRT)
    lines = together(reader.rest, lambda: process.wait(PATIENCE))[0]
    story.same("it died", process.returncode, -signal.SIGABRT)
    story.same("after a crash all lines are there", len(of(lines, "request")), 20)

    # ---- lines come soon, of many requests at once ----
    reader = Reader()
    server, process = daemon(reader)
    server.get("bucket/a")
    end = time.monotonic() + 20
    while b'"request"' not in reader.text and time.monotonic() < end \
            and select.select([reader.end], [], [], 20)[0]:
        reader.text += os.read(reader.end, 1 << 16)
    story.same("a line comes although no other follows", len(of(reader.lines(), "request")), 1)
    names = set(server.threads().values())
    story.fact("the thread that writes them has a name", "log" in names, names)
    process.terminate()
    together(reader.rest, lambda: process.wait(PATIENCE))
