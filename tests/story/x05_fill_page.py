"""The page /_/fill tells anybody what the fill socket offers and holds; no header of a GET reaches registered memory."""
from filler import Filler, Memory
from harness import *

ANNA = ("ANNATESTKEY", "anna/secret")
SIZE = 300_000

with Story("x05 fill page") as story:
    origin = story.origin("objects=pile/%d 3 300000")
    path = story.path("fill.sock")
    keys = [{"access_key": ANNA[0], "secret_key": ANNA[1]}]
    server = story.penstock(origin=origin.url, fill_socket=path, freshness="ttl", ttl="1h", keys=keys)
    anna = Client(server.port, *ANNA)

    def page():
        reply = plain(server.port, "GET", "/_/fill")
        return json.loads(reply.body) if reply.status == 200 else reply

    # ---- what it says ----
    first = page()
    story.same("without a session", [first[k] for k in ("on", "sessions", "buffers", "fills")], [True, 0, 0, 0])
    story.fact("each kind of memory is on, or off and why", first["kinds"]["memfd"] == "on" and
               all(first["kinds"][kind].startswith("off: ") and len(first["kinds"][kind]) > 20
                   for kind in ("cuda-vmm", "cuda-ipc")), first)
    filler, memory = Filler(path, *ANNA), Memory(1 << 20)
    story.same("hello names the same kinds", filler.hello["kinds"], first["kinds"])
    buffer = filler.register(memory)["buffer"]
    story.same("with a session and its buffer", [page()[k] for k in ("sessions", "buffers", "fills")], [1, 1, 0])
    origin.tell("match=pile/2", "first_byte_ms=1500")
    filler.ask("fill", buffer=buffer, bucket="pile", items=[["2", 0, SIZE, 0]])
    wait_for("the page shows a fill in progress", lambda: page()["fills"] == 1)
    filler.close()
    wait_for("nothing is left of a client that has gone",
             lambda: [page()[k] for k in ("sessions", "buffers", "fills")] == [0, 0, 0])

    # ---- a GET answers with a body, whatever its headers name ----
    filler = Filler(path, *ANNA)
    buffer = filler.register(memory)["buffer"]
    memory.guard(0, memory.size)
    for value in (f"{buffer}:0", "01" * 16 + ":0", "nonsense"):
        reply = anna.get("pile/0", headers={"x-penstock-buffer": value, "x-penstock-required": "true"})
        story.bytes(f"a header that names {value[-12:]}", reply, "pile/0", 0, SIZE)
    story.fact("... leaves registered memory as it is", memory.untouched(0, memory.size))

    # ---- without a fill socket ----
    server.stop()
    bare = story.penstock(origin=origin.url, freshness="ttl", ttl="1h", keys=keys)
    story.same("a service without a fill socket", json.loads(plain(bare.port, "GET", "/_/fill").body), {"on": False})
