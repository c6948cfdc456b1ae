"""penstock warm and penstock jobs, as an operator types them."""
import pty
import signal

from jobs import *

SIZE = 150_000

with Story("j04 penstock warm and penstock jobs", seconds=90) as story:
    origin = story.origin(f"objects=pile/a/%02d 30 {SIZE}", f"objects=pile/b/%02d 30 {SIZE}", f"object=pile/sp ace é {SIZE}", "objects=slow/%03d 400 1000")
    keys = [{"access_key": name, "secret_key": name.lower(), "policy": policy} for name, policy in (
        ("ALLKEY", "all"), ("READKEY", [{"allow": ["read"], "on": ["pile/"]}]))]
    server = story.penstock(origin=origin.url, cache_size="256MiB", freshness="immutable", keys=keys)
    none = {"PENSTOCK_CONFIG": "/nonexistent", "HOME": story.folder, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}"}
    client = {"AWS_ACCESS_KEY_ID": "ALLKEY", "AWS_SECRET_ACCESS_KEY": "allkey"}

    def penstock(*argv, env=client, **more):
        return run([PENSTOCK, *argv], {**none, **env}, **more)

    def refused(text, status, words, *argv, **more):
        got, out, err = penstock(*argv, **more)
        story.fact(text, got == status and out == "" and all(word in err for word in words) and err.count("\n") == 1, f"status {got}: {out}{err}")

    status, out, err = penstock("warm", "s3://pile/a/")
    story.same("warm brings a prefix", (status, err, out.splitlines()),
               (0, "", ["done: 30 objects, 4.3 MiB", "0 in the cache before, 30 fetched (4.3 MiB from the origin), 0 failed"]))
    story.same("... so that reads are hits", {Client(server.port, "ALLKEY", "allkey").get(f"pile/a/{i:02}").cache for i in range(30)}, {"hit"})
    story.same("again: nothing is fetched", penstock("warm", "s3://pile/a/")[1].splitlines()[1], "30 in the cache before, 0 fetched (0 B from the origin), 0 failed")
    with open(story.path("list"), "w") as f:
        f.write("b/01\nsp ace é\r\n\nnope\nb/02")
    status, out, err = penstock("warm", "--list", story.path("list"), "s3://pile")
    story.same("warm brings a list", (status, out.splitlines()[1:]),
               (3, ["0 in the cache before, 3 fetched (439.5 KiB from the origin), 1 failed", "failed: s3://pile/nope: 404 NoSuchKey"]))
    status, out, err = penstock("warm", "--ranges", "0-9, -10", "--json", "s3://pile/b/1")
    report = json.loads(out)
    story.same("--ranges, --json", (status, report["state"], report["objects"], report["bytes"]), (0, "done", 10, 200))

    story.same("--check says how much is there", penstock("warm", "--check", "s3://pile/a/")[:2],
               (0, "s3://pile/a/: 4.3 MiB of 4.3 MiB in the cache (100 %); 30 of 30 objects are cached completely\n"))
    status, out, err = penstock("warm", "--check", "--json", "s3://pile/")
    report = json.loads(out)
    story.fact("... and what is missing", status == 3 and report["objects"] == 61 and report["bytes"] == 61 * SIZE and
               33 * SIZE <= report["cached_bytes"] < 61 * SIZE, (status, report))
    story.same("... without a GET", (before := origin.totals()["get"], penstock("warm", "--check", "s3://pile/b/")[0], origin.totals()["get"])[::2], (before, before))

    story.fact("... a prefix without a key is a mistake", all(status == 1 and out in ("", "done: 0 objects, 0 B\n0 in the cache before, 0 fetched (0 B from the origin), 0 failed\n") and
               "no key that begins with s3://pile/trian/" in err for status, out, err in (penstock("warm", *more, "s3://pile/trian/") for more in ((), ("--check",)))))
    origin.tell("object=pile/a/00 5", "object=pile/a/01 -1", "object=pile/a/zz 10")
    status, out, err = penstock("warm", "--check", "s3://pile/a/")
    story.fact("... and counts no object that the origin has no more, or with another size", status == 3 and "; 28 of 30 objects" in out, out + err)

    # ---- jobs ----
    origin.tell("match=slow/* GET", "first_byte_ms=2000")
    status, out, err = penstock("warm", "--detach", "s3://slow/")
    id = out.strip()
    story.fact("--detach prints the id", status == 0 and re.fullmatch("[0-9a-f]{16}", id), out + err)
    rows = [line.split() for line in penstock("jobs", "s3://slow")[1].splitlines()]
    story.same("jobs lists it", (rows[0], rows[1][0], rows[1][1], rows[1][-1]), (["JOB", "STATE", "OBJECTS", "FAILED", "TIME", "WHAT"], id, "running", "s3://slow/"))
    status, out, err = penstock("jobs", "--cancel", id, "s3://slow")
    story.fact("jobs --cancel ends it", status == 0 and out.startswith("canceled: "), out + err)
    story.same("jobs --job shows a report", penstock("jobs", "--job", id, "s3://slow")[1], out)
    story.same("... as JSON", json.loads(penstock("jobs", "--job", id, "--json", "s3://slow")[1])["state"], "canceled")
    story.same("the jobs of a bucket", [len(penstock("jobs", "s3://" + b)[1].splitlines()) for b in ("pile", "slow")], [6, 2])
    story.same("... as JSON", len([json.loads(line) for line in penstock("jobs", "--json", "s3://pile")[1].splitlines()]), 5)
    story.same("no job", penstock("jobs", "s3://none")[1], "no job of s3://none was found\n")

    # ---- a service that does not answer ----
    os.kill(server.process.pid, signal.SIGSTOP)
    began = time.monotonic()
    status, out, err = penstock("jobs", "--timeout", "1", "s3://pile")
    os.kill(server.process.pid, signal.SIGCONT)
    story.fact("--timeout limits each question", status == 1 and time.monotonic() - began < 60, (status, err))

    # ---- a terminal ----
    origin.tell("reset=rules", "match=slow/* GET", "first_byte_ms=100")
    ours, theirs = pty.openpty()
    process = subprocess.Popen([PENSTOCK, "warm", "s3://slow/"], env={**own_env(), **none, **client}, stdout=subprocess.PIPE, stderr=theirs)
    out = process.communicate(timeout=PATIENCE)[0].decode()
    os.close(theirs)
    seen = os.read(ours, 65536).decode()
    story.fact("progress on a terminal", process.returncode == 0 and "\r\x1b[K" in seen and "objects, " in seen and "penstock jobs --cancel" in seen, seen)
    story.fact("... and the report on stdout", out.startswith("done: 400 objects"), out)

    # ---- a restart ----
    story.same("purge", Client(server.port, "ALLKEY", "allkey").ask("POST", "slow", [("penstock-purge", ""), ("prefix", "")]).status, 200)
    process = subprocess.Popen([PENSTOCK, "warm", "s3://slow/"], env={**own_env(), **none, **client}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    jobs = Jobs(Client(server.port, "ALLKEY", "allkey"), "slow")
    wait_for("its job is in progress", lambda: [r for r in jobs.list() if r["state"] == "running" and r["objects"] > 20])
    server = server.restart()
    out, err = process.communicate(timeout=PATIENCE)
    story.fact("the command goes on over a restart", process.returncode == 0 and out.startswith(b"done: 400 objects") and not err, (out, err))

    # ---- a list that is followed ----
    pile = Jobs(Client(server.port, "ALLKEY", "allkey"), "pile")
    id = pile.start(mode="follow", keys=["b/01"])
    wait_for("its object is there", lambda: pile.report(id)["objects"] == 1)
    Client(server.port, "ALLKEY", "allkey").get("pile/b/01")
    pile.ended(id)
    story.same("the report of a list that is followed says what was read", penstock("jobs", "--job", id, "s3://pile")[1].splitlines()[2:],
               ["1 read by clients, 0 skipped, because clients were faster than the job; 0 B in the cache in time, but not read"])
    story.fact("... and jobs says that it was followed", "  a list of 1 key, followed\n" in penstock("jobs", "s3://pile")[1])

    # ---- mistakes ----
    refused("a list with a prefix", 2, ["bucket alone"], "warm", "--list", story.path("list"), "s3://pile/a/")
    refused("a list that is not there", 2, ["can't be read", "No such file"], "warm", "--list", story.path("nothing-here"), "s3://pile")
    refused("an empty list", 1, ["The job has no keys"], "warm", "--list", "/dev/null", "s3://pile")
    refused("--check with a list", 2, ["--check"], "warm", "--check", "--list", "-", "s3://pile")
    refused("ranges", 2, ["--ranges"], "warm", "--ranges", "a-b", "s3://pile/")
    refused("--job with --cancel", 2, ["not both"], "jobs", "--job", "0" * 16, "--cancel", "0" * 16, "s3://pile")
    refused("ranges that are none", 2, ["--ranges"], "warm", "--ranges", "9-1", "s3://pile/")
    refused("no right", 1, ["READKEY", '"list"'], "warm", "s3://pile/a/", env={"AWS_ACCESS_KEY_ID": "READKEY", "AWS_SECRET_ACCESS_KEY": "readkey"})
    refused("an id", 2, ["16 hex digits"], "jobs", "--job", "1", "s3://pile")
    refused("an unknown id", 1, ["no job with this id", "penstock jobs s3://pile"], "jobs", "--cancel", "0" * 16, "s3://pile")
    refused("a prefix", 2, ["bucket alone"], "jobs", "s3://pile/a")
