"""Walks through the cache (dry runs, lists and sums of pins) that hang with a disk delay neither purges nor unpins."""
from harness import *

SIZE, COUNT = 128 * 1024, 120

with Story("y08 walks that hang delay neither purges nor unpins", seconds=60) as story:
    use_tests_daemon()
    control = story.path("failpoints")
    origin = story.origin(f"objects=pool/a/%d {COUNT} {SIZE}", "object=pool/b 10")
    server = story.penstock(origin=origin.url, cache_size="256MiB", extent_size="4MiB", freshness="immutable",
                            env={"PENSTOCK_FAILPOINTS": control})

    def ask(method, what, seconds=PATIENCE, **query):
        query = [(f"penstock-{what}", "")] + [(n.replace("_", "-"), v) for n, v in query.items()]
        reply = Client(server.port, timeout=seconds).ask(method, "pool", query)
        return json.loads(reply.body.splitlines()[0]) if reply.status == 200 else reply.error or reply.status

    def hanging(walk, meanwhile):
        """Both threads for walks wait for a footer, and others wait for the threads. Meanwhile something else must answer."""
        with open(control + ".hits", "w"):
            pass
        with open(control, "w") as f:
            f.write("footer-read stop 0 2\n")

        def then():
            try:
                wait_for("two walks hang", lambda: open(control + ".hits").read().count("footer-read") == 2)
                meanwhile()
            finally:
                os.remove(control)
        return together(*[lambda: walk(60)] * 4, then)[:4]

    for key in range(COUNT):
        server.get(f"pool/a/{key}")
    wait_for("all is cached", lambda: all([server.get(f"pool/a/{key}").cache == "hit" for key in range(COUNT)]))
    for number in range(60):
        ask("POST", "pin", prefix=f"none/{number}/")

    def purges():
        for number in range(4):
            story.same("a purge answers while dry runs hang", ask("POST", "purge", prefix=f"none/{number}/")["purged"], True)
    story.same("the dry runs answer later", [row["objects"] for row in hanging(
        lambda s: ask("POST", "purge", s, prefix="a/", dry_run=""), purges)], [COUNT] * 4)

    def unpins():
        for number in range(4):
            story.same("an unpin answers while pins are listed", ask("POST", "unpin", prefix=f"none/{number}/")["was_pinned"], True)
    story.same("the lists answer later", [row["prefix"] for row in hanging(
        lambda s: ask("GET", "pin", s, prefix="none/9/"), unpins)], ["none/9/"] * 4)

    def pins():
        """The pin waits to count what it pinned, and is in force."""
        before = server.metric("penstock_pins")
        pin = threading.Thread(target=lambda: late.append(ask("POST", "pin", 60, prefix="b")))
        pin.start()
        wait_for("the pin is in force", lambda: server.metric("penstock_pins") == before + 1)
        story.same("... so it can be ended", ask("POST", "unpin", prefix="b")["was_pinned"], True)
        waiting.append(pin)
    late, waiting = [], []
    hanging(lambda s: ask("GET", "pin", s, prefix="none/9/"), pins)
    waiting[0].join(PATIENCE)
    story.same("it answers later", [row["prefix"] for row in late], ["b"])
    story.same("a pin after this", ask("POST", "pin", prefix="a/")["objects"], COUNT)
