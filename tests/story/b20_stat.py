"""penstock stat answers: which service is that, does it work, is it worth it?"""
from filler import Filler, Memory
from harness import *

SIZE = 100_000

with Story("b20 stat says whether the service works, and whether it is worth it") as story:
    origin = story.origin(*(f"object=pile/{i} {SIZE}" for i in range(120)))
    server = story.penstock(origin=origin.url, egress_price="0.09", fill_socket=story.path("fill.sock"),
                            cache_size="256MiB")
    address = f"127.0.0.1:{server.admin_port}"

    def stat(*flags, env=None):
        return run([PENSTOCK, "stat", *flags], {"PENSTOCK_CONFIG": "/nonexistent", **(env or {})})

    def page():
        status, out, err = stat("--admin-listen", address, "--json")
        check(status == 0, err)
        return json.loads(out)

    # ---- who answers ----
    shown = [stat("--admin-listen", address), stat("--url", f"http://{address}"),
             stat(env={"PENSTOCK_ADMIN_LISTEN": address}), stat("--config", server.config_path)]
    story.same("stat finds the service by flag, URL, environment and settings", [s for s, _, _ in shown], [0] * 4)
    first = shown[0][1].splitlines()[0]
    instance = server.get("pile/none").headers["x-amz-request-id"][:8]
    story.fact("the first line says which instance answered", all(
        word in first for word in (f"instance {instance}", f"pid {server.pid}", f"127.0.0.1:{server.port}", "penstock 0.")),
        first)
    for flags in (("--listen", f"127.0.0.1:{server.port}"), ("--admin-listen", address), ("--url", f"http://{address}"),
                  ("--url", f"http://127.0.0.1:{server.port}/_/health/ready")):
        status, out, err = run([PENSTOCK, "health", *flags], {"PENSTOCK_CONFIG": "/nonexistent"})
        story.fact(f"health by {flags} says it, too", status == 0 and f"instance {instance}, pid {server.pid}" in out, out + err)
    status, out, _ = run([PENSTOCK, "health"], {"PENSTOCK_CONFIG": "/nonexistent", "PENSTOCK_ADMIN_LISTEN": address})
    story.fact("health by PENSTOCK_ADMIN_LISTEN", status == 0 and instance in out, out)
    nobody = f"127.0.0.1:{free_port()}"
    status, _, err = stat("--admin-listen", nobody)
    story.fact("of nobody it says how to name another", status == 1 and nobody in err and "--admin-listen" in err
               and "PENSTOCK_ADMIN_LISTEN" in err, err)
    story.same("a URL that is none is a mistake", stat("--url", "ftp://x")[0], 2)

    # ---- is it worth it ----
    server.get("pile/0")
    wait_for("it is committed", lambda: server.metric("penstock_store_entries") >= 1)
    before = page()["worth"]["all"]
    for key in ("pile/0", "pile/0", "pile/100"):
        story.same("a read", server.get(key).status, 200)
    now = page()["worth"]
    gained = {name: now["all"][name] - before[name] for name in ("given_bytes", "fetched_bytes", "cache_bytes",
                                                                "origin_bytes")}
    story.same("bytes by where they came from", (gained["cache_bytes"], gained["origin_bytes"]), (2 * SIZE, SIZE))
    story.same("what clients were given, and what was fetched", (gained["given_bytes"], gained["fetched_bytes"]),
               (3 * SIZE, SIZE))
    story.same("what was saved", now["all"]["saved_bytes"], now["all"]["given_bytes"] - now["all"]["fetched_bytes"])
    story.fact("... in dollars", abs(now["all"]["saved_dollars"] - now["all"]["saved_bytes"] * 0.09e-9) < 1e-12, now)
    story.same("the hit ratio is that of its figures", now["all"]["hit_ratio"], now["all"]["hits"] / now["all"]["reads"])
    story.same("all of it was in the last minute", {name: value for name, value in now["last_minute"].items()
                                                   if name in ("hits", "reads", "saved_bytes")},
               {name: now["all"][name] for name in ("hits", "reads", "saved_bytes")})

    # ---- the fill socket ----
    filler = Filler(story.path("fill.sock"))
    memory = Memory(99 * SIZE)
    buffer = filler.register(memory)["buffer"]
    items = [[str(i), 0, SIZE, i * SIZE] for i in range(99)]
    story.same("a cold fill", filler.fill(buffer, "pile", items)["ok"], True)
    wait_for("all is committed", lambda: server.metric("penstock_store_entries") >= 100)
    before = page()
    reply = filler.fill(buffer, "pile", items)
    story.same("99 items by the fill socket, warm", (reply["ok"], reply["hits"]), (True, 99))
    now = page()
    story.same("... are 99 hits of 99 reads", [now["worth"]["all"][name] - before["worth"]["all"][name]
                                              for name in ("hits", "reads", "cache_bytes", "origin_bytes")],
               [99, 99, 99 * SIZE, 0])
    story.same("... and who has it", now["fill"]["users"], [{"uid": os.geteuid(), "sessions": 1, "registered_bytes": 99 * SIZE}])
    story.same("the session is shown", (now["fill"]["sessions"], now["fill"]["items"]["hit"]
                                        - before["fill"]["items"]["hit"]), (1, 99))
    shown = stat("--admin-listen", address)[1]
    head = shown.partition("\n\n")[0]
    story.fact("people see it", "fills      1 sessions" in head and "100 items from the cache, 98 fetched" in head, head)
    story.fact("... and what was saved, and evictions, and the origin", re.search(
        r"saved +[0-9.]+ MiB not fetched.*\$0\.0", head) and "0 extents evicted" in head
               and re.search(r"origin +default, http.*: answers", head), head)
    story.fact("it works", "works      yes" in head, head)

    # ---- a failing origin ----
    origin.tell("match=pile/110", "status=500")
    server.get("pile/110")
    down = page()["origins"][0]
    story.same("an origin that fails is shown", down["state"], "fails")
    head = stat("--admin-listen", address)[1].partition("\n\n")[0]
    story.fact("... with why", "works      in part; origin default fails: the origin answered 500" in head, head)
    origin.tell("match=pile/112", "cut_after=0")
    server.get("pile/112")
    warning = page()["warnings"][0]
    story.fact("what was logged is there, and what to do", (warning["event"], warning["level"], warning["count"]) ==
               ("origin_failed", "warn", 1) and warning["facts"].startswith("origin=default op=GetObject ")
               and "penstock check" in warning["why"], warning)
    origin.calm()
    story.same("a read", server.get("pile/111").status, 200)
    story.same("it answers again", page()["origins"][0]["state"], "answers")

    # ---- again and again ----
    watch = subprocess.Popen([PENSTOCK, "stat", "--watch", "--admin-listen", address], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True, env={**own_env(), "PENSTOCK_CONFIG": "/nonexistent"})
    seen = 0
    for line in watch.stdout:
        seen += line.startswith("service ")
        if seen == 2:
            break
    watch.kill()
    watch.wait()
    story.same("--watch says it again", seen, 2)
    for price in ("free", "-1", "0,09", "1e3", "$1", "2000"):
        told = run([PENSTOCK, "check", "--config", server.config_path, f"--egress-price={price}"])
        story.fact(f"egress_price {price} is a mistake", told[0] == 2 and "egress-price" in told[1], told)
