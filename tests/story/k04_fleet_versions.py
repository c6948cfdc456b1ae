"""Large objects change at the origin, past the fleet, while clients read them at three nodes. The segments of an object
have different owners, which may know different versions. No body mixes two versions: it is whole and of the version of
its ETag, or is cut short with an error. And none is older than `ttl` allows. Nodes are killed and frozen amid it.

    k04_fleet_versions.py [READS]"""
from fleet import *

READS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
TTL, GRACE = 4, 1
BOUND = TTL + GRACE + 1    # ages are whole seconds
BUSY = 10
SIZE = 2 * SEGMENT + 3 * MIB + 12345
KEYS = [f"brief/{n}/size-{SIZE}-x" for n in range(3)]


class Readers(Nodes):
    """Nodes that nobody writes through: there are no hints to wait for."""

    def wait_whole(self):
        self.wait_known()
        return 0


class Truth:
    """The versions of the objects: when each was there at the latest, and when it was gone."""

    def __init__(self):
        self.gone = {key: [] for key in KEYS}    # item n: when version n + 1 was gone

    def version_of(self, key, etag):
        return next((v for v in range(1, len(self.gone[key]) + 2) if synthetic_etag(key, v) == etag), None)


def span_of(chance):
    """Whole; across the end of a segment; within one."""
    kind = chance.randrange(5)
    if kind == 0:
        return 0, SIZE
    first = chance.choice((SEGMENT, 2 * SEGMENT)) - chance.randrange(MIB) if kind < 4 else chance.randrange(2 * SEGMENT)
    return first, min(first + 2 * MIB, SIZE)


def reader(fleet, truth, seed, count, found):
    chance = random.Random(seed)
    for _ in range(count):
        n, key, (first, end) = chance.randrange(len(EACH)), chance.choice(KEYS), span_of(chance)
        began = time.monotonic()
        reply = Client(fleet.nodes[n].port).get(key, first, end - 1)
        found.append((n, key, first, end, began, reply.status, reply.error, reply.headers.get("etag"), len(reply.body),
                      wrong_bytes(truth, reply, key, first, end)))
        if reply.error and not reply.status:
            time.sleep(0.1)    # the node is gone


def wrong_bytes(truth, reply, key, first, end):
    """None, or how the body differs from the version that the answer names."""
    if reply.status not in (200, 206):
        return None
    wait = time.monotonic() + 5
    while (version := truth.version_of(key, reply.headers.get("etag"))) is None and time.monotonic() < wait:
        time.sleep(0.01)    # the origin has it; its time is about to be noted
    if version is None:
        return "of no version that there was"
    want = expect(key, version, first, end - first)
    if not reply.error:
        return same_bytes(reply.body, want, key)
    return None if want.startswith(reply.body) else "cut short, and the bytes before it are wrong"


def changes(origin, truth, chance, over):
    while not over.is_set():
        key = chance.choice(KEYS)
        origin.tell(f"flip={key}")
        truth.gone[key].append(time.monotonic())
        time.sleep(chance.uniform(0.1, 1))


def stale(truth, read, bound):
    _, key, _, _, began, status, _, etag, _, wrong = read
    version = truth.version_of(key, etag) if status in (200, 206) and not wrong else None
    return version and version <= len(truth.gone[key]) and truth.gone[key][version - 1] + bound < began


with Story("k04 no body mixes versions in a fleet", seconds=120 + READS) as story:
    origin = story.origin("first_byte_ms=10", *(f"object={key} {SIZE}" for key in KEYS))
    fleet = Readers(story, origin, "large", buckets={"brief": {"ttl": f"{TTL}s", "grace": f"{GRACE}s", "freshness": "ttl"}})
    truth, found, over = Truth(), [], threading.Event()
    faults = Faults(fleet, story.random, "killed", "frozen")
    changer = threading.Thread(target=changes, args=(origin, truth, random.Random(story.seed), over))
    readers = [threading.Thread(target=reader, args=(fleet, truth, f"{story.seed} {n}", READS // 3, found)) for n in EACH]
    for thread in (changer, *readers):
        thread.start()
    while any(thread.is_alive() for thread in readers):
        faults(None)
        time.sleep(0.05)
    over.set()
    changer.join()
    whole = [read for read in found if read[5] in (200, 206) and not read[6]]
    cut = [read for read in found if read[6] and read[5] in (200, 206)]
    story.note(f"{len(found)} reads: {len(whole)} whole, {len(cut)} cut short, {len(found) - len(whole) - len(cut)} without a "
               f"body; {sum(map(len, truth.gone.values()))} changes, {dict(faults.done)}; "
               f"{fleet.sum('penstock_peers_bytes_total')} bytes from peers")
    wrong = [read for read in found if read[-1]]
    story.fact("each body is of one version, the one that its head names", not wrong, wrong[:3])
    story.fact("most reads were whole", len(whole) > READS * 0.6, len(whole))
    story.fact("bytes came from peers", fleet.sum("penstock_peers_bytes_total") > 0)
    story.same("... and none was damaged", fleet.sum("penstock_peers_bad_total"), 0)
    old = [read for read in found if stale(truth, read, BUSY * BOUND)]
    story.fact("no body is older than ttl allows", not old, old[:3])
    old = [read for read in found if stale(truth, read, BOUND)]
    story.in_time("... to the second", not old, old[:3])
