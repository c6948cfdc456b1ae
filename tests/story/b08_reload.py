"""SIGHUP takes over what is reloadable; a mistake in the file changes nothing."""
from filler import Filler
from harness import *

with Story("b08 SIGHUP reloads what can be reloaded") as story:
    origin = story.origin("object=bucket/a 1000")
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path)
    filler = Filler(path)

    def reload(event, **settings):
        before = server.log().count(event)
        with open(server.config_path, "w") as f:
            json.dump({**server.settings, **settings}, f)
        server.process.send_signal(signal.SIGHUP)
        wait_for(f"the log says {event}", lambda: server.log().count(event) > before)

    def lines():
        before = server.log().count("GetObject")
        story.same("a read", server.get("bucket/a").status, 200)
        return server.log().count("GetObject") - before

    def fill_lines(wanted):
        """True: as many lines as wanted came. A line may come a moment after its answer."""
        before = server.log().count('"fill"'), server.log().count("fill_refused")
        story.same("a prefetch", filler.say("prefetch", bucket="bucket", items=["a"])["ok"], True)
        story.same("a fill into no buffer", filler.fill("00" * 16, "bucket", [])["error"], "no_buffer")

        def more():
            log = server.log()
            return log.count('"fill"') - before[0], log.count("fill_refused") - before[1]
        wait_for("the lines of fills", lambda: more() >= wanted)
        return more()

    story.same("a line for a request", lines(), 1)
    story.same("... a fill, and what the fill socket refuses", fill_lines((1, 1)), (1, 1))
    reload("reloaded", access_log=False)
    story.same("none when that is switched off", lines(), 0)
    story.same("... of fills, either", fill_lines((0, 0)), (0, 0))
    reload("reload_refused", access_log="perhaps")
    story.same("a mistake changes nothing", lines(), 0)
    reload("reload_refused", access_log=True, ttl="perhaps")
    story.same("all or nothing: not what is right beside it", lines(), 0)
    reload("reloaded", access_log=True, log_level="debug", ttl="7s", buckets={"mnist": {"freshness": "always"}})
    reload("reloaded", access_log=True, ttl="7s", buckets={"mnist": {"freshness": "always"}})
    story.same("and again when it is switched on", fill_lines((1, 1)), (1, 1))
    said = [json.loads(line) for line in server.log().splitlines() if '"reloaded"' in line]
    story.same("what is in force now is named", [line["changed"] for line in said],
               ["access_log", "log_level, access_log", "log_level"])
    story.same("and what waits for a restart, until it comes", [line["needs_restart"] for line in said],
               ["nothing", *["ttl, mnist.(new)"] * 2])
    reload("reloaded", origin_region="eu-west-1")
    said = json.loads([line for line in server.log().splitlines() if '"reloaded"' in line][-1])
    story.same("a value that a group inherits is named once", said["needs_restart"], "origin_region")
    second = {"access_key": "SECONDKEY", "secret_key": "second/secret", "policy": "all"}
    third = {"access_key": "THIRDKEY", "secret_key": "third/secret", "policy": "all"}
    for keys, want in (([second, third], "SECONDKEY.(new), THIRDKEY.(new)"),
                       ([third], "SECONDKEY.(gone)"),
                       ([{**third, "secret_key": "another/secret"}], "THIRDKEY.secret_key")):
        reload("reloaded", keys=keys)
        said = json.loads([line for line in server.log().splitlines() if '"reloaded"' in line][-1])
        story.same("rows of keys are in force at once, and named by their access key",
                   (said["changed"], said["needs_restart"]), (want, "nothing"))
    reload("reloaded", keys=[{"anonymous": True, "policy": "all"}])
    warned = [json.loads(line)["why"] for line in server.log().splitlines() if '"setting"' in line]
    story.fact("what check warns of is in the log", any(why.startswith("keys[0] allows writes "
               "or administration without") for why in warned), warned)
    story.same("and a line again", lines(), 1)
