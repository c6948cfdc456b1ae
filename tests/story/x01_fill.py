"""The fill socket: what a list names lies in registered memory as a GET would have brought it, hit or
miss, and not a byte beside it is touched.

PENSTOCK_FILL_LISTS: how many random lists (300)."""
import random

from filler import Filler, Memory
from harness import *

LISTS = int(os.environ.get("PENSTOCK_FILL_LISTS", "300"))
BYTES_A_LIST = 17 << 18
LONGEST = 8 << 20
SIZES = ([0, 1, 2, 511, 4095, 4096, 4097, 65535, 65536, 65537, 131071, 131072, 131073, 262144, 300_000]
         + [1 << 20, (1 << 20) + 1, 3 << 20, (9 << 20) + 777])
COLD = 400


def log_uniform(chance, most):
    """0 among them, and as many below 1 KiB as above."""
    return int(2 ** (chance.random() * most.bit_length())) - 1


class Lists:
    """Random lists: pieces of objects that are cached, and now and then one that is not."""

    def __init__(self, seed, whole, cold):
        self.chance = random.Random(seed)
        self.whole, self.cold = whole, list(cold)

    def piece(self):
        key = self.chance.choice(list(self.whole))
        size = len(self.whole[key])
        length = min(log_uniform(self.chance, LONGEST), size)
        first = self.chance.choice([0, size - length, self.chance.randint(0, size - length)])
        return key, first, length

    def items(self, room):
        """[(key, first, length, to, open)], apart from one another, in any order."""
        items, to, bytes_left = [], self.chance.randint(0, 5000), BYTES_A_LIST
        most = self.chance.choice([1, 3, 20, 120])
        while len(items) < most and bytes_left > 0:
            key, first, length = self.chance.choice(items)[:3] if items and self.chance.random() < .1 \
                else self.piece()
            if to + length > room:
                break
            items.append((key, first, length, to, False))
            to += length + self.chance.choice([0, 1, 64, 4096, self.chance.randint(0, 9999)])
            bytes_left -= length
        if self.cold and self.chance.random() < .05 and to + 200_000 < room:
            key = self.cold.pop()
            items.append((key, 0, 150_001, to, True))
        self.chance.shuffle(items)
        return items


def wanted(whole, item):
    key, first, length = item[:3]
    return whole[key][first:first + length] if key in whole else expect("pile/" + key, 1, first, length)


def check_list(story, memory, whole, items, reply, n):
    """True if all is as it must be; then the memory is all guard again."""
    at = 0
    for item in sorted(items, key=lambda item: (item[3], item[2])):
        _, _, length, to, _ = item
        if not memory.untouched(at, to):
            return story.fact(f"list {n}: nothing before {to} was written", False, item)
        if memory.map[to:to + length] != wanted(whole, item):
            return story.fact(f"list {n}: {item} is what a GET brings", False, reply)
        memory.guard(to, to + length)
        at = to + length
    if not memory.untouched(at, min(memory.size, at + 100_000)):
        return story.fact(f"list {n}: nothing behind {at} was written", False, items)
    return True


with Story("x01 fill", seconds=900) as story:
    origin = story.origin(*[f"object=pile/{i} {size}" for i, size in enumerate(SIZES)],
                          f"objects=pile/cold%d {COLD} 150001")
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path, freshness="immutable")
    whole = {}
    for i in range(len(SIZES)):
        reply = server.client.get(f"pile/{i}")
        story.bytes(f"{SIZES[i]} bytes by a GET", reply, f"pile/{i}", 0, SIZES[i])
        whole[str(i)] = reply.body
    server.wait_cached(*(f"pile/{i}" for i in range(len(SIZES))))
    origin.reset()

    # ---- random lists ----
    filler = Filler(path)
    memory = Memory(24 << 20)
    buffer = filler.register(memory)["buffer"]
    lists = Lists(4711, whole, [f"cold{i}" for i in range(COLD)])
    good = total = misses = 0
    for n in range(LISTS):
        items = lists.items(memory.size)
        reply = filler.fill(buffer, "pile", [[k, f, -1 if o else l, t] for k, f, l, t, o in items])
        length = sum(item[2] for item in items)
        if not (reply["ok"] and reply["bytes"] == length
                and check_list(story, memory, whole, items, reply, n)):
            story.fact(f"list {n} is answered", False, reply)
            break
        good, total, misses = good + 1, total + length, misses + reply["misses"]
    story.same(f"{LISTS} random lists, {total >> 20} MiB, {misses} misses: all as a GET brings it",
               good, LISTS)
    story.same("what was missing was fetched once each", origin.totals()["get"], misses)

    # ---- what an item may say ----
    reply = filler.fill(buffer, "pile", [["8", 0, -1, 0], ["5", 4096, 0, 400_000], ["0", 0, -1, 500_000]])
    story.same("open lengths are told, in order", reply.get("lengths"), [65536, 0, 0])
    reply = filler.say("fill", buffer=buffer, bucket="pile", prefix="1", items=[["0", 5, 10, 77]])
    story.fact("a prefix stands before every key", reply["ok"] and
               memory.map[77:87] == whole["10"][5:15], reply)
    etag = server.client.head("pile/5").headers["etag"]
    reply = filler.fill(buffer, "pile", [["5", 0, 4096, 0, {"if_match": etag}]])
    story.fact("if_match that holds", reply["ok"], reply)
    reply = filler.fill(buffer, "pile", [["6", 0, 10, 9000], ["5", 0, 4096, 0, {"if_match": '"other"'}]])
    story.same("if_match that does not is an error, of the whole", (reply["ok"], reply["error"],
               reply["status"], reply["errors"]), (False, "PreconditionFailed", 412,
                                                  [[1, "PreconditionFailed", 412]]))
    reply = filler.fill(buffer, "pile", [["5", 0, 4096, 0], ["nothing", 0, 1, 5000], ["5", 4000, 97, 6000]],
                        on_error="skip")
    story.same("on_error skip keeps the others, and names these", (reply["ok"], reply["bytes"],
               reply["errors"]), (True, 4096, [[1, "NoSuchKey", 404], [2, "InvalidRange", 416]]))
    reply = filler.fill(buffer, "pile", [["18", 0, -1, 0, {"max": 1 << 20}]])
    story.same("an object that is larger than its max", reply["error"], "too_large")
    reply = filler.fill(buffer, "pile", [["18", 0, -1, 0], ["5", 0, 1, 1000]])
    story.same("or than what is free behind it", reply["error"], "too_large")
    story.same("no items at all are none", filler.fill(buffer, "pile", [])["bytes"], 0)

    # ---- one miss of many items, of many sessions, is one GET ----
    origin.tell("object=pile/shared 900000", "match=pile/shared", "first_byte_ms=300")
    origin.reset()
    others = [Filler(path) for _ in range(4)]
    rooms = [Memory(4 << 20) for _ in others]
    ids = [other.register(room)["buffer"] for other, room in zip(others, rooms)]
    asked = [other.ask("fill", buffer=ids[i], bucket="pile",
                       items=[["shared", j * 100, 50_000, j * 60_000] for j in range(20)])
             for i, other in enumerate(others)]
    replies = [other.reply_to(number) for other, number in zip(others, asked)]
    story.fact("all are answered", all(reply["ok"] for reply in replies), replies)
    story.fact("with the right bytes", all(room.map[j * 60_000:j * 60_000 + 50_000]
                                           == expect("pile/shared", 1, j * 100, 50_000)
                                           for room in rooms for j in range(20)))
    sent = origin.counts("pile/shared")
    story.fact("80 items of one object that is missing: no byte of it comes twice",
               sent["get"] == 1, sent)

    # ---- prefetch, async, a list that needs a memfd ----
    origin.tell("objects=pile/ahead%d 50 70000")
    origin.reset()
    reply = filler.say("prefetch", bucket="pile", prefix="ahead", items=[str(i) for i in range(50)])
    story.same("a prefetch", (reply["ok"], reply["misses"]), (True, 50))
    origin.quiet()
    time.sleep(0.5)
    origin.reset()
    number = filler.ask("fill", buffer=buffer, bucket="pile", prefix="ahead", **{"async": True},
                        items=[[str(i), 0, 70_000, i * 70_000] for i in range(50)])
    reply = filler.reply_to(number)
    event = filler.event()
    story.fact("async: an answer at once, and an event", reply["ok"] and reply["items"] == 50
               and event["fill"] == reply["fill"] and event["ok"] and event["hits"] == 50, (reply, event))
    story.same("what was prefetched is not asked for", origin.totals()["get"], 0)
    many = json.dumps({"op": "fill", "id": 99_999, "buffer": buffer, "bucket": "pile",
                       "items": [["5", i % 4096, 1, i] for i in range(16_000)]}).encode()
    carrier = Memory(len(many), seals=0)
    carrier.map[:] = many
    filler.send({"message_bytes": len(many)}, [carrier.fd])
    reply = filler.reply_to(99_999)
    story.fact(f"16,000 items, in {len(many)} bytes by a memfd", reply["ok"] and reply["bytes"] == 16_000
               and memory.map[:16_000] == (whole["5"] * 4)[:16_000], reply)
    story.same("the buffer is given back", filler.say("unregister", buffer=buffer)["ok"], True)
    story.same("and is not known any more", filler.fill(buffer, "pile", [])["error"], "no_buffer")
