"""A connection of the fill socket is a lease: a client that dies in the middle of a fill, a thousand
times, leaves nothing behind and disturbs nobody; nor does one that asks for very much at once.

PENSTOCK_FILL_KILLS: how often one is killed (100)."""
import random

from filler import Filler, Memory
from harness import *

KILLS = int(os.environ.get("PENSTOCK_FILL_KILLS", "100"))
SIZE = 200_000


def client(path, size, seed):
    """Fills its memory until it is killed; some of what it asks for is on its way for long."""
    chance = random.Random(seed)
    filler = Filler(path)
    memory = Memory(size)
    buffer = filler.register(memory)["buffer"]
    print("fills", flush=True)
    while True:
        items = [[f"{chance.randrange(40)}", 0, SIZE, i * SIZE] for i in range(size // SIZE)]
        if chance.random() < .3:
            items[0][0] = f"slow{chance.randrange(10 ** 9)}"
        filler.ask("fill", buffer=buffer, bucket="pile", items=items, on_error="skip",
                   **{"async": chance.random() < .5})
        while not (reply := filler.receive()) or "bytes" not in reply:
            if reply and not reply["ok"]:
                break


if len(sys.argv) > 1:
    client(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

with Story("x03 leases", seconds=900) as story:
    origin = story.origin("objects=pile/%d 40 200000", "object=pile/slow-last 200000", "match=pile/slow*", "first_byte_ms=400")
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path, freshness="immutable", missing_time="0")
    good = Filler(path)
    room = Memory(40 * SIZE)
    mine = good.register(room)["buffer"]
    everything = [[str(i), 0, SIZE, i * SIZE] for i in range(40)]
    story.fact("the cache is filled", good.fill(mine, "pile", everything)["ok"])
    origin.quiet()
    server.wait_cached(*(f"pile/{i}" for i in range(40)))
    want = b"".join(expect(f"pile/{i}", 1, 0, SIZE) for i in range(40))

    def held():
        """What the daemon holds: descriptors, mappings of clients' memory, its own counts."""
        links = []
        for fd in os.listdir(f"/proc/{server.pid}/fd"):
            try:
                links.append(os.readlink(f"/proc/{server.pid}/fd/{fd}"))
            except FileNotFoundError:
                pass
        ours = {"socket:[%s]" % line.split()[6] for line in open(f"/proc/{server.pid}/net/unix").readlines()[1:]}
        sockets = sum(link in ours for link in links)    # not those to the origin
        memory = sum("memfd:filler" in link for link in links)
        maps = open(f"/proc/{server.pid}/maps").read().count("memfd:filler")
        return (sockets, memory, maps, server.metric("penstock_fill_sessions"),
                server.metric("penstock_fill_buffers"))

    def other_goes_on():
        reply = good.fill(mine, "pile", everything)
        return reply["ok"] and reply["hits"] == 40 and room.map[:] == want

    # ---- kill -9, again and again ----
    base = held()
    chance = random.Random(7)
    late = wrong = 0
    slowest = 0.0
    for n in range(0, KILLS, 4):
        dying = [subprocess.Popen([sys.executable, __file__, path, str(20 * SIZE), str(n + i)],
                                  stdout=subprocess.PIPE) for i in range(4)]
        for process in dying:
            process.stdout.readline()
        time.sleep(chance.random() * 0.05)
        wrong += not other_goes_on()
        for process in dying:
            process.kill()
        for process in dying:
            process.wait()
        began = time.monotonic()
        while held() != base and time.monotonic() - began < PATIENCE:
            time.sleep(0.005)
        took = time.monotonic() - began
        slowest = max(slowest, took)
        late += took > 0.1
        wrong += not other_goes_on()
        if held() != base:
            break
    story.same(f"after {KILLS} clients were killed amid their fills nothing of them is left", held(), base)
    story.in_time(f"each time within 100 ms (slowest {slowest * 1000:.0f} ms)", late == 0, late)
    story.same("and another session has not noticed", wrong, 0)

    # ---- a long list keeps nobody else out ----
    greedy = Filler(path)
    big = Memory(160 * SIZE)
    b = greedy.register(big)["buffer"]
    asked = [greedy.ask("fill", buffer=b, bucket="pile",
                        items=[[str(i % 40), 0, SIZE, (part * 40 + i) * SIZE] for i in range(40)])
             for part in range(4)]
    before = time.monotonic()
    reply = good.fill(mine, "pile", [["0", 0, 1, 0]])
    took = time.monotonic() - before
    story.fact("a single byte is filled beside 32 MB", reply["ok"], reply)
    for number in asked:
        story.fact("... which are filled, too", greedy.reply_to(number)["ok"])
    stuck = Filler(path)
    memory = Memory(2 << 20)
    b2 = stuck.register(memory)["buffer"]
    origin.tell("match=pile/stuck*", "first_byte_ms=3000")
    numbers = [stuck.ask("fill", buffer=b2, bucket="pile", on_error="skip",
                         items=[[f"stuck{part}-{i}", 0, 1, part * 1000 + i] for i in range(1000)])
               for part in range(8)]
    time.sleep(0.3)
    story.fact("8,000 items that wait for the origin keep nobody else out", other_goes_on())
    stuck.close()
    many = [Filler(path) for _ in range(12)]
    for number, one in enumerate(many):
        one.ask("prefetch", bucket="pile", on_error="skip", items=[[f"stuck{number}-{i}", 0, 1] for i in range(1000)])
    time.sleep(0.3)
    began = time.monotonic()
    story.fact("nor do those of a dozen sessions", other_goes_on())
    took = time.monotonic() - began
    story.in_time("... by much", took < 1.5, took)
    for one in many:
        one.close()

    # ---- the daemon goes, and comes again ----
    origin.tell("match=pile/slow*", "first_byte_ms=2000")
    number = good.ask("fill", buffer=mine, bucket="pile", items=[["slow-last", 0, SIZE, 0]])
    wait_for("it is under way", lambda: origin.counts("pile/slow-last", settle=False)["get"] > 0)
    process = server.process
    process.send_signal(signal.SIGSTOP)
    newcomers = [Filler(path, hello=False) for _ in range(8)]    # let in only when it goes down, or just before
    process.terminate()
    process.send_signal(signal.SIGCONT)
    wait_for("it goes down", lambda: "draining" in server.log())
    said = [one.ask("hello", v=1, client="story") and one.receive() for one in newcomers]
    story.fact("who comes then is told to come again later", all(
        (told["ok"], told["status"], told["error"]) == (False, 503, "ServiceUnavailable") for told in said), said)
    for one in newcomers:
        one.close()
    reply = good.reply_to(number)
    story.fact("what is under way at a SIGTERM is answered", reply and reply["ok"] and
               room.map[:SIZE] == expect("pile/slow-last", 1, 0, SIZE), reply)
    story.same("then the session ends", good.receive(), None)
    story.same("and the daemon, well", process.wait(PATIENCE), 0)
    story.fact("its socket is gone", not os.path.exists(path))
    server = server.again()
    good = Filler(path)
    mine = good.register(room)["buffer"]
    story.fact("a new session finds everything", other_goes_on())
    server.kill()
    story.same("a daemon that is killed ends its sessions", good.receive(), None)
    story.fact("... leaves its socket", os.path.exists(path))
    server = server.again()
    good = Filler(path)
    story.fact("which the next one replaces", good.hello["ok"])
    second = story.penstock(wait=False, origin=origin.url, fill_socket=path)
    wait_for("another daemon there ends", lambda: not second.alive())
    story.fact("... and says why", "another process listens at this path" in second.log(), second.log()[-300:])
    story.fact("the first does not mind", good.say("status")["ok"])
