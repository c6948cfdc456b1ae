"""The guards of batches and of the fill socket can be seen to fail: the same scenario passes with one
on, and goes red with it off."""
from filler import Filler, Memory
from guards import guarded, on_and_off
from harness import *

JOBS = ("JOBSTESTKEY", "jobs/secret")

with Story("g02 fill guards can be seen to fail") as story:
    use_tests_daemon()
    origin = story.origin("objects=pile/%d 10 100000", "match=pile/9", "first_byte_ms=3000")
    ids = iter(range(1000))

    def house(off):
        n = next(ids)
        path = story.path(f"fill-{n}.sock")
        server = story.penstock(origin=origin.url, cache_dir=story.path(f"cache-{n}"), fill_socket=path,
                                keys=[{"access_key": JOBS[0], "secret_key": JOBS[1],
                                       "policy": [{"allow": ["read"], "on": ["pile/5"]}]}],
                                env=guarded(off))
        return server, path

    def said(ask):
        """A reply; None: the session ended."""
        try:
            return ask()
        except OSError:
            return None

    def ends(server):
        server.killed = True    # it may have died of what it was let do
        server.kill()

    def beyond(off):
        """An item that lies behind the end of its buffer."""
        server, path = house(off)
        filler, memory = Filler(path), Memory(8192)
        buffer = filler.register(memory, 4096)["buffer"]
        reply = said(lambda: filler.fill(buffer, "pile", [["0", 0, 100, 4096]]))
        ends(server)
        return None if reply and reply.get("error") == "bad_range" else f"{reply} for a byte beyond the buffer"

    def amid_a_fill(off):
        """Memory that is given back while something is on its way into it."""
        server, path = house(off)
        filler, memory = Filler(path), Memory(1 << 20)
        buffer = filler.register(memory)["buffer"]
        fill = filler.ask("fill", buffer=buffer, bucket="pile", items=[["9", 0, 100_000, 0]])
        given = filler.ask("unregister", buffer=buffer)
        first = said(filler.receive)
        ends(server)
        return None if first and first["id"] == fill else f"{first}: given back before the fill ended"

    def outside_a_policy(off):
        server, path = house(off)
        filler, memory = Filler(path, *JOBS), Memory(1 << 20)
        buffer = filler.register(memory)["buffer"]
        reply = filler.fill(buffer, "pile", [["5", 0, 10, 0], ["6", 0, 10, 100]], on_error="skip")
        ends(server)
        refused = reply.get("errors") == [[1, "AccessDenied", 403]] and memory.untouched(100, 110)
        return None if refused else f"{reply}: read what the policy does not allow"

    def batch_outside_a_policy(off):
        server, _ = house(off)
        reply = Client(server.port, *JOBS).ask("POST", "pile", query=[("penstock-batch", "")],
                                               body=json.dumps({"items": ["6"], "form": "frames"}).encode())
        ends(server)
        refused = b"AccessDenied" in reply.body and len(reply.body) < 1000
        return None if refused else f"{reply}: read what the policy does not allow"

    # A GPU's own release waits for its copies, too: tests/unit/test_gpu_fake.c.
    on_and_off(story, (("an item beyond its buffer", beyond, "fill-bounds"),
                       ("memory given back amid a fill", amid_a_fill, "fill-drain"),
                       ("an item outside of its reader's policy", outside_a_policy, "item-rights"),
                       ("... of a batch", batch_outside_a_policy, "item-rights")),
               "refused", "harm is seen")
