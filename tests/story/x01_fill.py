"""The fill socket: items of a list lie in registered memory as a GET would have brought them, and
not a byte beside them is touched."""
from filler import Filler, Memory
from harness import *

SIZES = {"objects/a": 4096, "objects/b": 300_000, "objects/c": 1, "objects/d": 3 << 20, "objects/e": 0}

with Story("x01 fill") as story:
    origin = story.origin(*[f"object={key} {size}" for key, size in SIZES.items()])
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path, freshness="immutable")
    filler = Filler(path)
    print(filler.hello)
    memory = Memory(8 << 20)
    reply = filler.register(memory)
    print(reply)
    b = reply["buffer"]
    for _ in range(3):
        t = time.monotonic()
        reply = filler.fill(b, "objects", [["a", 0, 4096, 100], ["b", 10, 299_990, 10_000], ["d", 0, -1, 1 << 20]])
        print(reply, time.monotonic() - t)
        time.sleep(0.5)
    story.fact("a", memory.map[100:4196] == expect("objects/a", 1, 0, 4096))
    story.fact("d", memory.map[1 << 20:4 << 20] == expect("objects/d", 1, 0, 3 << 20))
    print(filler.say("status"))
    print(filler.say("unregister", buffer=b))
    filler.close()
