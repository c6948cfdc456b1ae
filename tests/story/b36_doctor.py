"""penstock doctor names the narrowest place, for loads whose narrowest place is known."""
import ctypes
import http.server
import resource

from harness import *
from throttle import Throttle

OBJECTS, SIZE, LARGE = 180, 512 * KIB, 8 * MIB

# What a command of --while does: reads a port's keys, one after the other; slowly if told.
if sys.argv[1:2] == ["reader"]:
    port, slow, *keys = sys.argv[2:]
    client = Client(int(port))
    for key in keys:
        how = {"pace": 4 * MIB, "receive_buffer": 64 * KIB} if slow == "slow" else {}
        assert client.ask("GET", key, **how).status == 200
    sys.exit(7 if slow == "seven" else 0)


class Rule(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32)]


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("rules", ctypes.POINTER(Rule))]


def forbid_io_uring():
    """As the seccomp profiles of containers do: io_uring_setup (425) fails with EPERM."""
    rules = (Rule * 4)(Rule(0x20, 0, 0, 0), Rule(0x15, 0, 1, 425), Rule(0x06, 0, 0, 0x00050001), Rule(0x06, 0, 0, 0x7fff0000))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(Program(4, rules)), 0, 0) == 0


def lock_nothing():
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    ctypes.CDLL(None).prctl(24, 14, 0, 0, 0)    # PR_CAPBSET_DROP, CAP_IPC_LOCK: execve then leaves root without it


class OtherTime(http.server.BaseHTTPRequestHandler):
    """An origin whose clock is an hour ahead."""

    def do_GET(self):
        self.send_response_only(403)
        self.send_header("Date", (datetime.now(timezone.utc) + timedelta(hours=1)).strftime("%a, %d %b %Y %H:%M:%S GMT"))
        body = b"<Error><Code>RequestTimeTooSkewed</Code></Error>"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def serve_names(address, seconds, name):
    """A DNS server that takes its time: each name is 127.0.0.1, and has no other address."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))

    def answer(ask, peer):
        time.sleep(seconds)    # the load itself, not a wait for it
        end = ask.index(b"\0", 12) + 5
        is_a = ask[end - 4:end - 2] == b"\0\1"
        head = ask[:2] + b"\x81\x80\0\1" + (b"\0\1" if is_a else b"\0\0") + b"\0\0\0\0" + ask[12:end]
        server.sendto(head + (b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\x7f\0\0\1" if is_a else b""), peer)

    def run_server():
        while True:
            ask, peer = server.recvfrom(2048)
            threading.Thread(target=answer, args=(ask, peer), daemon=True).start()
    threading.Thread(target=run_server, daemon=True).start()


SLOW_READS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (!real)
        real = (ssize_t (*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread64");
    if (bytes >= 131072)
        usleep(40000);
    return real(fd, to, bytes, at);
}
ssize_t pread64(int fd, void *to, size_t bytes, off_t at) { return pread(fd, to, bytes, at); }
"""

with Story("b36 doctor names the narrowest place") as story:
    origin = story.origin(f"objects=bucket/o%d {OBJECTS} {SIZE}", f"object=bucket/large {LARGE}", f"objects=bucket/cold-%d 40 {SIZE}")
    server = story.penstock(origin=origin.url, cache_size="64MiB", extent_size="4MiB", freshness="immutable", ttl="1s")
    right = []

    def doctor(*flags, env=None, before=None, config=None):
        done = subprocess.run([PENSTOCK, "doctor", "--json", "--config", config or server.config_path, *flags],
                              env={**own_env(), **(env or {})}, preexec_fn=before, capture_output=True, timeout=2 * PATIENCE)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise Wrong(f"doctor {flags} printed no JSON: {done}")

    def judge(load, found, wanted):
        """One load. What a busy machine adds may hide one of ten."""
        good = wanted == str(found["narrowest"]) or wanted in (found["advice"] or "")
        right.append(good)
        print(f"{'ok   ' if good else 'OTHER'} {load}: {found['narrowest']}, {found['advice']}", flush=True)
        return good

    def during(mode, *keys, port=None):
        words = [PENSTOCK, "doctor", "--json", "--config", server.config_path, "--while", sys.executable, __file__, "reader",
                 str(port or server.port), mode, *keys]
        status, _, err = run(words)
        try:
            return status, json.loads(err)
        except ValueError:
            raise Wrong(f"{words} printed no JSON: {err}")

    # ---- a service that runs, and one that does not ----
    found = doctor()
    rows = {row["place"]: row for row in found["findings"]}
    for place in ("service", "cache size", "disk", "index", "page cache", "checksum", "loopback", "locked memory", "io_uring", "DNS",
                  "origin first byte", "origin bandwidth", "clock"):
        story.fact(f"a row for {place}", place in rows, ", ".join(rows))
    for row in found["findings"]:    # a bound stands beside the verdict that follows from it
        bounds = re.findall(r"(below|over) ([\d.]+) (ms|s|MB/s|GB/s)\b", row["usual"])
        values = [float(match[1]) for _, _, unit in bounds if (match := re.search(rf"([\d.]+) {unit}\b", row["measured"]))]
        if values:
            within = all((value < float(bound)) == (word == "below") for value, (word, bound, _) in zip(values, bounds, strict=True))
            story.same(f"{row['place']}: {row['measured']}, usual {row['usual']}", row["verdict"] == "good", within)
    for object, words in (("bucket/cold-1", "s3://bucket/cold-1 is too small (512.0 KiB)"), ("bucket/none", "s3://bucket/none was not found")):
        measured = {row["place"]: row["measured"] for row in doctor("--object", f"s3://{object}")["findings"]}["origin bandwidth"]
        story.fact(f"--object that can't measure: {words}", words in measured and "at least 1 MiB" in measured, measured)
    story.fact("what was fetched is said, and it is bounded", "fetched 8.0 MiB of s3://bucket/large" in rows["origin bandwidth"]["measured"]
               and origin.counts()["bytes"] <= LARGE + MIB, rows["origin bandwidth"])
    before = origin.counts()
    story.same("--offline asks no origin", (doctor("--offline")["findings"] != [], origin.counts()["requests"]),
               (True, before["requests"]))
    story.same("nothing was written to the origin", [before.get(method, 0) for method in ("put", "post", "delete")], [0, 0, 0])
    status, out, err = run([PENSTOCK, "doctor", "--config", server.config_path, "--fetch", "0"])
    story.fact("people get a table and a sentence", status == 0 and out.startswith("PLACE ") and "narrow" in out.splitlines()[-1], out + err)
    for flags in (["--while"], ["--fetch", "much"], ["--object", "bucket"]):
        story.same(f"{flags} is a mistake", run([PENSTOCK, "doctor", "--config", server.config_path, *flags])[0], 2)
    status, found = during("seven", "bucket/o1")
    story.same("the exit status is that of the command", status, 7)
    story.same("... also if it does not exist", run([PENSTOCK, "doctor", "--config", server.config_path, "--while", "/nonexistent"])[0], 127)
    status, _, err = run([PENSTOCK, "doctor", "--admin-listen", f"127.0.0.1:{free_port()}", "--while", "true"])
    story.fact("without a service, --while says what to do", status == 1 and "--admin-listen" in err, err)

    # ---- loads ----
    origin.tell("first_byte_ms=400")
    judge("a slow first byte", doctor("--fetch", "1"), "origin first byte")
    judge("... while a command reads what is not cached", during("fast", *(f"bucket/cold-{i}" for i in range(4)))[1], "first byte takes 4")
    origin.calm()
    origin.tell("bandwidth=2000000")
    judge("small bandwidth", doctor("--fetch", "2"), "origin bandwidth")
    judge("... while a command reads", during("fast", "bucket/large")[1], "bandwidth is the limit")
    origin.calm()

    for i in range(OBJECTS):    # 90 MiB for a cache of 64
        server.get(f"bucket/o{i}")
    origin.tell("first_byte_ms=20")
    judge("a cache that is too small", during("fast", *(f"bucket/o{i}" for i in range(0, OBJECTS, 5)))[1], "The cache size")
    origin.calm()

    other = story.penstock(origin=origin.url, freshness="always", cache_dir=story.path("other"))
    other.get("bucket/o1")
    wait_for("it is stored", lambda: other.metric("penstock_store_live_bytes") >= SIZE)
    origin.tell("first_byte_ms=100", "bandwidth=0")
    words = [PENSTOCK, "doctor", "--json", "--config", other.config_path, "--while", sys.executable, __file__, "reader", str(other.port)]
    judge("each read asks the origin", json.loads(run([*words, "fast", *["bucket/o1"] * 5])[2]), "origin")
    origin.calm()
    other.get("bucket/large")
    wait_for("it is stored", lambda: other.metric("penstock_store_live_bytes") >= SIZE + LARGE)
    judge("a slow client", json.loads(run([*words, "slow", "bucket/large"])[2]), "client")

    try:
        throttle = Throttle(story.folder)
    except Skip as why:
        throttle = None
        story.note(f"no load with a slow disk under a service: {why}")
    if throttle:
        throttle.slow(False)
        cold = story.penstock(origin=origin.url, cache_dir=story.path("cold"), memory_locked="0", cold_reads="direct")
        for i in range(8):
            cold.get(f"bucket/o{i}")
        wait_for("they are stored", lambda: cold.metric("penstock_store_live_bytes") >= 8 * SIZE)
        for file in glob.glob(story.path("cold/extents/*")):
            fd = os.open(file, os.O_RDWR)
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
        throttle.enter(cold.pid)
        throttle.slow(True, 2_000_000)
        words = [PENSTOCK, "doctor", "--json", "--config", cold.config_path, "--while", sys.executable, __file__, "reader", str(cold.port)]
        judge("a slow disk under a service", json.loads(run([*words, "fast", *(f"bucket/o{i}" for i in range(8))])[2]), "disk")
        throttle.slow(False)
        cold.stop()
        throttle.end()

    quiet = ("--admin-listen", "off", "--fetch", "1")
    judge("io_uring is forbidden", doctor(*quiet, "--io", "auto", before=forbid_io_uring), "io_uring")
    judge("no memory may be locked", doctor(*quiet, "--io", "auto", before=lock_nothing), "locked memory")
    clock = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OtherTime)
    threading.Thread(target=clock.serve_forever, daemon=True).start()
    judge("a clock that is an hour off", doctor(*quiet, "--origin", f"http://127.0.0.1:{clock.server_port}"), "clock")
    judge("an origin that is down", doctor(*quiet, "--origin", f"http://127.0.0.1:{free_port()}"), "origin")
    shim = story.path("slow.c")
    with open(shim, "w") as f:
        f.write(SLOW_READS)
    if run(["cc", "-shared", "-fPIC", "-o", story.path("slow.so"), shim, "-ldl"])[0] == 0 and "san" not in PENSTOCK:
        judge("a slow disk", doctor(*quiet, env={"LD_PRELOAD": story.path("slow.so")}), "disk")
    if os.geteuid() == 0 and run(["unshare", "-m", "true"])[0] == 0:
        serve_names("127.0.0.153", 0.3, "slow")
        with open(story.path("resolv"), "w") as f:
            f.write("nameserver 127.0.0.153\noptions timeout:5\n")
        port = origin.url.rpartition(":")[2]
        status, out, err = run(["unshare", "-m", "sh", "-c", f"mount --bind {story.path('resolv')} /etc/resolv.conf && exec \"$@\"", "sh",
                                PENSTOCK, "doctor", "--json", "--config", server.config_path, *quiet, "--origin",
                                f"http://far.penstock.test:{port}"])
        judge("slow DNS", json.loads(out), "DNS")
    story.fact(f"the narrowest place is right in {sum(right)} of {len(right)}", len(right) >= 10 and sum(right) >= 0.9 * len(right))
