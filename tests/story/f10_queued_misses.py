"""What waits for a connection to the origin waits for somebody: nobody's misses are asked for when
their reader has gone, and one client's long list does not stand before another's single miss. Both
are counted at the origin, in its order of requests."""
import random
import threading

import batches
from filler import Filler, Memory
from harness import *

CONNECTIONS, SIZE, LIST = 2, 4000, 500

with Story("f10 misses that wait for the origin") as story:
    origin = story.origin("objects=pile/%d 6000 4000")

    def pace(first_byte_ms):
        origin.tell("reset=rules", "match=pile/*", f"first_byte_ms={first_byte_ms}")
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path, freshness="immutable", origin_connections=CONNECTIONS,
                            fill_threads=8, batch_gets=LIST)
    fresh = iter(range(6000))

    def keys(count):
        return [str(next(fresh)) for _ in range(count)]

    def queued():
        return server.metric("penstock_origin_calls")

    def asked():
        """The origin's requests so far."""
        return origin.counts(settle=False)["requests"]

    # ---- whoever goes takes along what was not sent ----
    def fill(names):
        filler, memory = Filler(path), Memory(len(names) * SIZE)
        buffer = filler.register(memory)["buffer"]
        filler.ask("fill", buffer=buffer, bucket="pile", on_error="skip",
                   items=[[name, 0, SIZE, i * SIZE] for i, name in enumerate(names)])
        return filler.close

    def prefetch(names):
        filler = Filler(path)
        filler.ask("prefetch", bucket="pile", on_error="skip", items=[[name, 0, SIZE] for name in names])
        return filler.close

    def overdue(names):
        filler = Filler(path)
        number = filler.ask("prefetch", bucket="pile", on_error="skip", deadline_ms=500,
                            items=[[name, 0, SIZE] for name in names])
        return lambda: filler.reply_to(number)

    def batch(names):
        wire = Wire(server.port)
        body = batches.document([{"key": name} for name in names])
        wire.send(server.client.head_of("POST", "pile", query=[("penstock-batch", "")], body=body))
        return wire.close

    def gets(method):
        def begin(names):
            wires = [Wire(server.port) for _ in names]
            for name, wire in zip(names, wires):
                wire.send(server.client.head_of(method, f"pile/{name}"))
            return lambda: [wire.close() for wire in wires]
        return begin

    for what, begin in {"a fill": fill, "a prefetch": prefetch, "one with a deadline": overdue, "a batch": batch,
                        "clients with a GET each": gets("GET"), "with a HEAD each": gets("HEAD")}.items():
        origin.quiet()
        pace(3000)    # next to nothing is served until all of them wait, however long that takes
        end = begin(keys(LIST))
        wait_for(f"{what}: {LIST} misses wait", lambda: queued() > LIST * .9)
        pace(100)
        before = asked()
        end()
        name = keys(1)[0]
        reply = server.get(f"pile/{name}")
        story.bytes(f"{what} ends: another's miss", reply, f"pile/{name}", 0, SIZE)
        origin.quiet()
        story.fact("... comes when what had been sent has come", asked() - before <= 25, asked() - before)

    # ---- a long list has one turn of many ----
    def answered(what, key, **how):
        before = asked()
        reply = server.get(f"pile/{key}", **how)
        cost = asked() - before
        story.bytes(what, reply, f"pile/{key}", 0, SIZE)
        story.fact("... after at most a few of the list's", cost <= 3 * CONNECTIONS + 2, cost)

    for what, begin in {"a fill": fill, "a batch": batch}.items():
        origin.quiet()
        many = keys(LIST)
        pace(3000)
        end = begin(many)
        wait_for(f"{what}: {LIST} misses wait", lambda: queued() > LIST * .9)
        pace(200)    # few of the list's go by between a count and the request that it is for
        answered(f"beside {what} of {LIST} misses one of another client", keys(1)[0])
        answered("one that stands at the end of that list", many[-1])
        before, some = asked(), keys(20)
        items = batches.frames(server.client, "pile", [{"key": name} for name in some])
        cost = asked() - before
        story.same("and a short list", [(i.status, i.body) for i in items],
                   [(200, expect(f"pile/{name}", 1, 0, SIZE)) for name in some])
        story.fact("... has every second turn, which is half of the places", cost <= 4 * len(some) + 3 * CONNECTIONS + 2, cost)
        story.fact("while the list waits", queued() > LIST / 2, queued())
        end()

    # ---- nor does a crowd that never ends leave a list one place of many ----
    origin.quiet()
    pace(50)
    before, ended = asked(), threading.Event()

    def come_again():
        while not ended.is_set():
            server.get(f"pile/{next(fresh)}")

    crowd = [threading.Thread(target=come_again) for _ in range(30)]
    for one in crowd:
        one.start()
    wait_for("30 clients wait, with a GET each", lambda: queued() >= 30)
    begun = asked()
    items = batches.frames(server.client, "pile", [{"key": name} for name in keys(50)])
    cost = asked() - begun
    ended.set()
    for one in crowd:
        one.join()
    story.same("a list beside 30 clients that ask again and again", {i.status for i in items}, {200})
    story.fact("... takes twice as long as in the order of coming", cost <= 2 * (50 + 30) + 10, cost)
    origin.quiet()
    before = asked()
    wires = [Wire(server.port) for _ in range(200)]
    for wire, name in zip(wires, keys(200)):
        wire.send(server.client.head_of("GET", f"pile/{name}"))
    # On a busy machine the first are served before the last come.
    wait_for("200 clients wait or are served", lambda: queued() + asked() - before >= 200)
    begun, waiting = asked(), queued()
    few = keys(3)
    items = batches.frames(server.client, "pile", [{"key": name} for name in few])
    story.fact("who waits alone is served in the order of coming: a list later", asked() - begun >= waiting - 10,
               (asked() - begun, waiting))
