"""One setting `memory` and its parts: the least works, old names have their effect and a warning each, but in the tests' daemon."""
from harness import *
from batches import ask, frames


def run(*argv, env=None):
    done = subprocess.run([PENSTOCK, *argv], capture_output=True, text=True, timeout=PATIENCE, env={**own_env(), **(env or {})})
    return done.returncode, done.stdout + done.stderr


with Story("m03 one setting for memory", seconds=100) as story:
    leasts = {name: int(mib) for name, mib in re.findall(
        r'^BUDGET\(\w+, "(\w+)", \d+, (\d+) \* MIB', open(os.path.join(ROOT, "src/base/budget.def")).read(), re.M)}
    story.same("the table has eleven budgets", len(leasts), 11)

    # ---- the least ----
    origin = story.origin(f"object=bucket/large {20 * MIB}", "objects=bucket/set/%03d 200 50000", "object=bucket/a 1000")
    server = story.penstock(origin=origin.url, memory="64MiB")
    status = json.loads(plain(server.admin_port, "GET", "/status").body)["memory"]
    story.same("/status says what it is", (status["bytes"], status["from"].rsplit("/", 1)[-1].startswith("penstock-")), (64 * MIB, True))
    story.same("each budget has its least", {n: status["budgets"][n + "_bytes"] // MIB for n in leasts}, leasts)
    story.fact("stat has a line", re.search(r"^memory +64\.0 MiB \(", run("stat", "--config", server.config_path)[1], re.M))
    for reply in together(*[lambda: server.get("bucket/large")] * 6):
        story.bytes("cold reads", reply, "bucket/large", length=20 * MIB)
    wait_for("it is stored", lambda: server.get("bucket/large").cache == "hit")
    for reply in together(*[lambda: server.get("bucket/large")] * 6):
        story.bytes("warm reads", reply, "bucket/large", length=20 * MIB)
    story.same("a batch", len([i for i in frames(server, "bucket", [f"set/{n:03d}" for n in range(200)]) if i.status == 200]), 200)
    story.same("a list", server.list("bucket").status, 200)
    story.same("a body above a quarter of its budget", server.put("bucket/new", bytes(12 * MIB)).status, 200)
    story.same("below the least there is a mistake", run("check", "--memory", "63MiB", "--origin", "dir:/tmp")[0], 2)

    # ---- what is told ----
    rows = {line.split()[0]: line.split(None, 3)[1:] for line in run("config", "--origin", "dir:/tmp", "--memory", "1GiB")[1].splitlines()
            if line.startswith("in_force.")}
    story.same("config says where it is from", rows["in_force.memory"], ["1024MiB", "size", "flag --memory"])
    shares = [int(rows[f"in_force.{name}"][0].removesuffix("MiB")) for name in leasts]
    story.fact("... and how it is divided", 1000 < sum(shares) <= 1024, rows)
    told = run("config", "--origin", "dir:/tmp")[1]
    story.fact("... where nobody sets it, too", re.search(r"in_force\.memory +\d+MiB +size +default: half of the limit of \d+ MiB \(from ", told), told)
    out = run("check", "--offline", "--memory", "60TiB", "--origin", "dir:/tmp", "--access-key", "A", "--secret-key", "B")[1]
    story.fact("more than is allowed is a warning", "warning: memory is 62914560 MiB" in out and "may kill Penstock" in out, out)

    # ---- old names ----
    old = story.path("old.json")
    with open(old, "w") as f:
        json.dump({"origins": {"west": {"url": origin.url, "tries": 2}}, "access_key": "A", "secret_key": "B", "origin_access_key": "C",
                   "origin_secret_key": "D", "memory_slots": "24MiB"}, f)
    given = ("--config", old, "--fill-gets", "9"), {"PENSTOCK_MEMORY_READERS": "9MiB"}
    status, out = run("check", "--offline", *given[0], env=given[1])
    warnings = [line for line in out.splitlines() if line.startswith("warning: ")]
    story.same("a warning each, and a good start", (status, len(warnings)), (0, 4))
    story.fact("those of budgets name memory", sum("Set memory instead" in w for w in warnings) == 2
               and any(w.startswith(f"warning: memory_slots ({old}:1)") for w in warnings)
               and any(w.startswith("warning: memory_readers (env PENSTOCK_MEMORY_READERS)") for w in warnings), warnings)
    story.fact("those of constants say what holds", any(w.startswith("warning: fill_gets (flag --fill-gets) is an old setting, which still has "
               "an effect") and "always use this value: 64" in w for w in warnings), warnings)
    story.fact("those of rows that are gone, too", any("origins.west.tries" in w and "without effect" in w and "4 tries" in w
                                                       for w in warnings), warnings)
    rows = {line.split()[0]: line.split()[1] for line in run("config", *given[0], env=given[1])[1].splitlines()}
    story.same("they have their effect", [rows[n] for n in ("in_force.memory_slots", "in_force.memory_readers", "fill_gets")],
               ["24MiB", "9MiB", "9"])
    server = story.penstock(origin=origin.url, cache_dir=story.path("old"),
                            env={"PENSTOCK_MEMORY_HEADS": "5MiB", "PENSTOCK_MEMORY_GRANTS": "60TiB"})
    status = json.loads(plain(server.admin_port, "GET", "/status").body)["memory"]
    story.same("serve takes them", status["budgets"]["memory_heads_bytes"], 5 * MIB)
    story.fact("... and no more than the machine has", status["budgets"]["memory_grants_bytes"] <= os.sysconf("SC_PHYS_PAGES") * 4096, status)
    story.same("... and warns once", server.log().count("memory_heads (env PENSTOCK_MEMORY_HEADS) is an old setting"), 1)
    shown = run("help", "settings")[1] + run("config", "--example")[1] + run("config", "--complete", "serve ")[1]
    hidden = sorted(name for name in constants() if re.search(rf"\b{name}\b|--{name.replace('_', '-')}\b", shown))
    story.same("nothing shows them", hidden, [])
    story.fact("help of one tells its reason", "An old setting. Penstock still uses your value" in run("help", "fill_gets")[1])

    # ---- the tests' daemon ----
    server = story.penstock(origin=origin.url, cache_dir=story.path("test"), batch_items=7)
    story.same("a test changes a constant", ask(server, "bucket", ["a"] * 8).status, 400)
    story.fact("... without a warning", "old setting" not in server.log())
