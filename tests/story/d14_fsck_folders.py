"""penstock fsck with several folders: each is judged alone, and neither a failing disk nor a kill costs good records.

The disk fails at each kind of reading: fsck deletes nothing. The process ends at each step of a repair, and
of a write of the file pins: the next run ends clean. At the end one folder is in use, one damaged, one
missing."""
from damage import flip_bit
from harness import *

SIZE, COUNT = 100_000, 240    # a folder has more than fsck reads at once (4 MiB): each read has 6 visits
NAMES = ("a", "b", "c")
READS = ("footer-read", "cold-read", "file-read")
REPAIRS = [f"repair crash {n}" for n in range(7)] + [f"{step} crash" for step in (
    "clean-take", "extent-make", "extent-head", "drop", "dropped", "seal", "sealed", "file-write", "file-rename", "file-renamed",
    "clean-leave")]

use_tests_daemon()
with Story("d14 fsck of several folders, on a disk that fails, and ended at each step", seconds=240) as story:
    keys = [f"pile/{i}" for i in range(COUNT)]
    origin = story.origin(*(f"object={key} {SIZE}" for key in keys))
    control, program = story.path("failpoints"), tests_daemon()
    env = {"PENSTOCK_FAILPOINTS": control}
    dirs = [{"path": story.path(name), "size": "512MiB"} for name in NAMES]
    settings = story.path("fsck.json")
    with open(settings, "w") as f:
        json.dump(story.settings(origin=origin.url, cache_dir=None, cache_size=None, cache_dirs=dirs), f)

    def arm(*lines):
        for path in (control, control + ".hits"):
            with open(path, "w") as f:
                f.writelines(line + "\n" for line in lines if path == control)

    def hits():
        with open(control + ".hits") as f:
            return f.read().split()

    def fsck(*more):
        done = subprocess.run([program, "fsck", "--json", *more, "--config", settings], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env={**os.environ, **env}, text=True, timeout=60)
        if done.returncode < 0:
            return done.returncode, None
        if not done.stdout:
            raise Wrong(done.stderr)
        return done.returncode, dict(zip(NAMES, json.loads(done.stdout)["folders"]))

    def findings(report, wrong=True):
        return {f["name"]: f["count"] for f in report["findings"] if f["wrong"] == wrong}

    def wrong_in(reports):
        return {name: found for name, report in reports.items() if (found := findings(report))}

    def files(name):
        return sorted(glob.glob(story.path(name) + "/extents/*"))

    def flip(path, at):
        flip_bit(path, at, 3)

    def spoil_record(name):
        """Damages a record of an object that was not damaged before. Returns the key."""
        for path in files(name):
            with open(path, "rb") as f:
                held = f.read()
            for key in sound:
                at = held.find(expect(key, 1, 0, 64))
                if at >= 0:
                    flip(path, at + 20)
                    sound.remove(key)
                    return key
        raise Wrong(f"no sound record is left in {name}")

    arm()
    server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, cache_dirs=dirs, freshness="immutable",
                            env=env)

    def wrong_ones():
        return [k for k in keys if (r := server.get(k)).error or r.body != expect(k, 1, 0, SIZE)]

    story.same("cold", wrong_ones(), [])
    story.same("it stops cleanly", server.stop(), 0)
    status, reports = fsck()
    story.same("three clean folders", (status, wrong_in(reports), [r["checked"] for r in reports.values()]),
               (0, {}, [True] * 3))
    records = {name: report["totals"]["records"] for name, report in reports.items()}
    story.fact("each has records", all(records.values()), records)

    # ---- the disk fails ----
    for step in READS:
        for skip in range(6):
            before = [files(name) for name in NAMES]
            arm(f"{step} eio {skip} 2")    # a record is read a second time
            status, reports = fsck("--repair")
            story.same(f"{step} fails at visit {skip}: unfinished, and nothing is repaired",
                       (status, set(hits()), any(r["repaired"] for r in reports.values())), (2, {step}, False))
            story.same("... nothing is deleted", [files(name) for name in NAMES], before)
    arm()
    status, reports = fsck()
    story.same("afterwards nothing is wrong", (status, wrong_in(reports)), (0, {}))
    story.same("... and all records are there", {n: r["totals"]["records"] for n, r in reports.items()}, records)

    # ---- the process ends at each step of a repair ----
    sound, spoilt, table = list(keys), [], files("b")[0]
    for line in REPAIRS:
        spoilt.append(spoil_record("b"))
        with open(table, "r+b") as f:
            f.seek(-59, os.SEEK_END)
            f.write(b"damaged")
        with open(story.path("b") + f"/extents/{int(os.path.basename(files('b')[-1]), 16) + 1:08x}", "wb") as f:
            f.write(b"no extent" * 1000)
        for name in ("names", "restated"):
            with open(story.path("b") + "/" + name, "wb") as f:
                f.write(b"damaged")
        arm(line)
        status, _ = fsck("--repair")
        story.same(f"{line}: it ends there", (status, hits()), (-9, line.split()[:1]))
        arm()
        status, reports = fsck("--repair")
        story.same("... the next repair ends clean", (status, reports and {n: r["left"] for n, r in reports.items()}),
                   (0, dict.fromkeys(NAMES, 0)))
        status, reports = fsck()
        story.same("... and finds nothing then", (status, wrong_in(reports)), (0, {}))

    # ---- nobody gets the folder between check and repair ----
    spoilt.append(spoil_record("b"))
    arm("repair stop")
    repair = threading.Thread(target=fsck, args=("--repair",))
    repair.start()
    wait_for("the repair is about to begin", hits)
    status, out, _ = run([program, "fsck", "--quick", "--cache-dir", story.path("b")])
    story.fact("a second fsck finds the folder in use", status == 2 and "uses the folder" in out, out)
    arm()
    repair.join()
    status, reports = fsck()
    story.same("... and the repair ended", (status, wrong_in(reports)), (0, {}))

    server = server.again()
    origin.reset()
    story.same("everything is right", wrong_ones(), [])
    story.same("... only the damaged objects came from the origin", sorted(k for k in keys if origin.counts(k)["get"]),
               sorted(spoilt))

    # ---- the process ends at each step of a write of pins ----
    def pin(prefix):
        return server.client.ask("POST", "pile", query=[("penstock-pin", ""), ("prefix", prefix)])

    def settled():
        """True if each format file says that all volumes share the present run. Then it is written no more."""
        pages = [open(story.path(name) + "/format", "rb").read() for name in NAMES]
        serials = {page[72:80] for page in pages}
        rows = [page[88 + 28 * i:116 + 28 * i] for page in pages for i in range(len(NAMES)) if
                page[88 + 28 * i:104 + 28 * i] != page[56:72]]
        return len(serials) == 1 and {row[20:] for row in rows} == serials

    for step in ("file-write", "file-rename", "file-renamed"):
        wait_for("all folders know each other", settled, 20)
        arm(f"{step} crash")
        reply = pin(f"{step}/")
        story.fact(f"{step} of pins: the process ends", reply.error or reply.status != 200, reply)
        server.killed = True
        server.process.wait(10)
        story.same("... there", hits(), [step])
        arm()
        server = server.again()
        story.same("... afterwards a pin is taken", pin(f"{step}/").status, 200)
        story.same("it stops cleanly", server.stop(), 0)
        status, reports = fsck()
        story.same("... and no file is wrong", (status, wrong_in(reports)), (0, {}))
        server = server.again()
    listed = server.client.ask("GET", "pile", query=[("penstock-pin", "")])
    story.same("all pins are there", [line.count(b"\"prefix\"") > 0 and json.loads(line)["prefix"] for line in
                                      listed.body.splitlines()][:3], ["file-rename/", "file-renamed/", "file-write/"])
    story.same("it stops cleanly", server.stop(), 0)

    # ---- one in use, one damaged, one missing ----
    spoil_record("b")
    os.rename(story.path("c"), story.path("away"))
    server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, cache_dirs=dirs[:1], freshness="immutable")
    for more in ((), ("--repair",)):
        status, reports = fsck(*more)
        story.same(f"fsck {' '.join(more)}: what it can't check counts", status, 2)
        story.fact("... the process that uses the first is named", not reports["a"]["checked"] and
                   f"process {server.pid} (" in reports["a"]["why"], reports["a"])
        story.same("... the second is checked", (reports["b"]["checked"], findings(reports["b"])),
                   (True, {"record_damaged": 1}))
        story.same("... and repaired if asked", (reports["b"]["repaired"], reports["b"]["left"]),
                   (bool(more), 0 if more else 1))
        story.fact("... the third is not there", not reports["c"]["checked"] and "can't be read" in reports["c"]["why"] and
                   not os.path.exists(story.path("c")), reports["c"])
