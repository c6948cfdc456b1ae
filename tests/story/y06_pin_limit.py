"""penstock-pin: a pin beyond the limit is refused with an answer that no client repeats."""
from harness import *

PLACE = "x" * 70

with Story("y06 a pin beyond the limit is refused", seconds=120) as story:
    origin = story.origin("object=pool/a 10")

    def crowded(count, cache="cache"):
        """A daemon with so many origins besides the first. A pin becomes one for each origin that has keys of its prefix."""
        return story.penstock(origin=origin.url, cache_size="64MiB", cache_dir=story.path(cache),
                              origins={f"o{i}": {"url": f"http://127.0.0.1:{i + 1}"} for i in range(count)},
                              buckets={f"pool/{PLACE}/{i:02}/": {"origin": f"o{i}"} for i in range(count)})

    def ask(what, prefix):
        reply = server.client.ask("POST", "pool", [(f"penstock-{what}", ""), ("prefix", prefix)])
        return reply, json.loads(reply.body.splitlines()[0]) if reply.status == 200 else reply.code

    server = crowded(63)
    story.same("64 pins for each of 64 prefixes", {ask("pin", PLACE[:n + 1])[1]["pinned"] for n in range(64)}, {True})
    story.same("... which are 4,096", server.metric("penstock_pins"), 4096)
    reply, code = ask("pin", "one-more/")
    story.fact("a further one is refused, not put off", (reply.status, code) == (400, "TooManyConfigurations") and b"4096" in reply.body
               and b"Unpin" in reply.body and "retry-after" not in reply.headers, reply.body)
    status, _, err = run([PENSTOCK, "pin", "s3://pool/one-more/"], {**server.client_env(), "PENSTOCK_CONFIG": "/nonexistent"})
    story.fact("... at once by the command, too", status == 1 and "4096" in err and "Unpin" in err, err)
    story.same("a pin that is there is no further one", ask("pin", "xx")[1]["pinned"], True)
    story.same("after an unpin there is room", (ask("unpin", "xx")[1]["was_pinned"], ask("pin", "one-more/")[1]["pinned"]), (True, True))
    server.stop()
    server = crowded(64)
    before = server.metric("penstock_pins")
    story.same("an unpin at more origins than a pin may have", ask("unpin", "xxx")[1]["was_pinned"], True)
    story.same("... ends 64 pins", server.metric("penstock_pins"), before - 64)
    server.stop()
    server = crowded(64, "other-cache")
    reply, code = ask("pin", "xx")
    story.fact("too many origins for one pin", (reply.status, code) == (400, "InvalidRequest") and b"64 origins" in reply.body, reply.body)
