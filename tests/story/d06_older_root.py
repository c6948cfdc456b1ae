"""One bit of the index's meta pages flips while Penstock runs, under load: no older answer, and no
body to a client that was refused. The same for a root that becomes the one before. Argument: how
many bits (6); 0: each of both pages, by eight daemons at once. Branch pages, and every bit without
a daemon: tests/unit/test_store_older.c."""
from damage import META_PAGE, flip, meta_bits, previous_root
from harness import *

BITS = int(sys.argv[1]) if len(sys.argv) > 1 else 6
HOUSES = 3 if 0 < BITS < 50 else 8
NEWEST = {"cache-control": "no-cache"}


class House:
    """A daemon of its own, with a reader on it."""

    def __init__(self, story, number):
        self.number, self.rounds = number, 0
        self.origin = story.origin("objects=bucket/%04d 3000 3000", "object=bucket/other 5000")
        self.older, self.shown, self.odd, self.noticed = [], [], [], 0
        self.server = story.penstock(origin=self.origin.url, missing_time="0", log_level="error",
                                     cache_dir=story.path(f"cache-{number}"))

        self.over = threading.Event()
        self.load = threading.Thread(target=self.read_on, daemon=True)
        self.load.start()

    def read_on(self):
        client = Client(self.server.port, keep=True)
        while not self.over.wait(0.002):
            reply = client.get("bucket/other")
            if reply.error or reply.body != expect("bucket/other", 1, 0, 5000):
                self.odd.append(("the load", repr(reply)))

    def serving(self):
        return self.server.metric("penstock_store_serving") == 1

    def cache(self, key):
        wait_for("the folder serves", self.serving)
        self.server.get(key)
        wait_for(f"{key} is committed", lambda: self.server.get(key).cache == "hit")

    def judge(self, what, key, reply, want):
        """want: a body; None: refused."""
        if reply.status == (403 if want is None else 200) and (want is None or reply.body == want):
            return
        wrong = self.odd if reply.status != 200 else self.shown if want is None else self.older
        wrong.append((what, key, repr(reply)))

    def round(self, what, damage):
        """Something is removed, or refused, last; then the damage, and it is asked for."""
        self.rounds += 1
        key = f"bucket/{self.rounds:04d}"
        faults = self.server.metric("penstock_store_faults_total")
        self.cache(key)
        want = None
        if self.rounds % 2:
            want = b"version 2 of " + key.encode()
            self.server.put(key, want)
        else:
            self.origin.tell(f"match={key}", "status=403")
            check(self.server.head(key, headers=NEWEST).status == 403, "it is refused")
            self.server.get("bucket/other")
        damage(self.server.cache_dir)
        together(*[lambda: self.judge(what, key, self.server.client.get(key), want)
                   for _ in range(2)])
        self.judge(what, key, self.server.get(key), want)
        self.noticed += self.server.metric("penstock_store_faults_total") > faults
        self.origin.calm()


with Story(f"d06 {BITS or 'all'} bits of the meta pages flip under load", seconds=120 + 8 * (BITS or 500)) as story:
    houses = [House(story, n) for n in range(HOUSES)]
    bits = meta_bits(BITS, story.random)

    def play(house):
        house.round("the previous root", previous_root)
        house.round("the previous root", previous_root)
        for page, at, bit in bits[house.number::HOUSES]:
            house.round((page, at, bit), lambda folder: flip(folder, page * META_PAGE + at, bit))
        house.over.set()
        house.load.join()

    together(*[lambda house=house: play(house) for house in houses], seconds=100 + 8 * (BITS or 500))
    story.same("0 older answers", sum((h.older for h in houses), [])[:3], [])
    story.same("0 bodies to the refused", sum((h.shown for h in houses), [])[:3], [])
    story.same("nothing else went wrong", sum((h.odd for h in houses), [])[:3], [])
    story.note(f"{sum(h.rounds for h in houses)} rounds, {sum(h.noticed for h in houses)} indexes found bad in them: "
               f"{sum(len(h.older) for h in houses)} older answers, {sum(len(h.shown) for h in houses)} bodies to the refused")
