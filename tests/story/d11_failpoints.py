"""The process ends, or the disk fails, at each step of a write to the cache folder (base/failpoint.def): every byte that
is served is right, what the index names is still there, and a failure of the disk costs no request. No byte from before
a purge is served once the purge has answered 200.

At each step the process ends, and stops for a moment, and the steps that can fail do so with EIO and with ENOSPC.
Without an argument, the process ends at each step, and half of the failures are tried. Arguments: names of steps; or
all: every failure at every step (7 minutes)."""
from harness import *

SETS, OBJECTS, SIZE = 3, 160, 512 * 1024    # each set is larger than the cache, for the recycler
IN_EXTENT = 7                 # records of that size in an extent of 4 MiB
# A step that only another failure leads to.
LEADS_TO = {"evict": "append enospc 0 1"}
# Steps of penstock fsck and of the scrub (story d14).
OF_FSCK = {"cold-read", "index-read", "repair"}
# Steps that a start or a stop takes.
OF_STARTS = ("index-build", "file-read", "file-write", "file-rename", "file-renamed", "clean-leave", "clean-take")
# Steps of a purge, and of what it does afterwards.
OF_PURGES = ("ban-listed", "ban-taken", "bans-write", "bans-written", "sweep", "swept", "ban-forgotten")

use_tests_daemon()
with Story("d11 a failure at each step of a write to the cache folder", seconds=1800) as story:
    control = story.path("failpoints")
    origin = story.origin(*(f"objects=bucket/{n}/%d {OBJECTS} {SIZE}" for n in range(SETS)))
    order, wrong, failed = random.Random(story.seed), [], []

    def arm(*lines):
        """From now on these steps fail, and the hits are counted anew."""
        for path in (control + ".hits", control + ".new"):
            open(path, "w").close()
        with open(control + ".new", "w") as f:
            f.write("".join(line + "\n" for line in lines))
        os.rename(control + ".new", control)

    def was_hit(step):
        with open(control + ".hits") as f:
            return step in f.read().split()

    class Dead(Exception):
        pass

    class Run:
        """A daemon on one cache folder, with its restarts. Each new set of objects makes the recycler work."""

        def __init__(self):
            arm()
            self.server = story.penstock(origin=origin.url, cache_size="64MiB", extent_size="4MiB",
                                         freshness="immutable", access_log=False, env={"PENSTOCK_FAILPOINTS": control})
            self.set = 0
            self.named = []    # the entries of the index after each start
            # By set: the newest version at the origin, and the oldest one that may be served.
            self.newest, self.oldest = [1] * SETS, [1] * SETS

        def read(self, key):
            reply = self.client.get(key)
            if reply.error or reply.status == 503 and not self.server.alive():
                for _ in range(20):    # until a process that ends is gone: a busy machine takes its time
                    time.sleep(0.05)
                    if not self.server.alive():
                        raise Dead
            n = int(key.split("/")[1])
            # A reply is cut if only the first units of the object are stored, and the origin refuses the rest.
            length = len(reply.body) if reply.error else SIZE
            if reply.status == 200 and reply.body not in (expect(key, v, 0, length)
                                                          for v in range(self.oldest[n], self.newest[n] + 1)):
                wrong.append(key)
            return reply

        def epoch(self):
            self.client = Client(self.server.port, keep=True)
            keys = [f"bucket/{self.set}/{i}" for i in range(OBJECTS)]
            keys += [f"bucket/{(self.set - 1) % SETS}/{i}" for i in range(0, OBJECTS, 2)]    # these are copied
            order.shuffle(keys)
            for key in keys:
                reply = self.read(key)
                if reply.error or reply.status != 200 or len(reply.body) != SIZE:
                    failed.append(f"{key}: {reply}")

        def next_set(self):
            self.set = (self.set + 1) % SETS
            self.epoch()

        def purge(self):
            """New versions of a set at the origin, and a purge of the old ones. It need not succeed."""
            origin.tell(f"flip=bucket/{self.set}/*")
            self.newest[self.set] += 1
            reply = Client(self.server.port).ask("POST", "bucket", [("penstock-purge", ""), ("prefix", f"{self.set}/")])
            if reply.status == 200:
                self.oldest[self.set] = self.newest[self.set]
            elif reply.error or reply.status == 503:
                time.sleep(0.05)    # until a process that ends is gone
                if not self.server.alive():
                    raise Dead

        def start(self):
            """Raises Dead if the process ends before it is ready."""
            self.server = Penstock(story, self.server.settings, wait=False, env=self.server.env)
            try:
                self.server.wait_ready()
            except Wrong:
                if self.server.alive():
                    raise
                raise Dead from None
            if self.server.metric("penstock_store_serving") == 1:
                self.named.append(self.entries())

        def restart(self):
            if self.server.stop() != 0:
                raise Dead
            self.start()

        def kill(self):
            self.server.kill()
            self.start()

        def do_until_hit(self, step):
            """Goes on until the step was taken. Returns False if it never was. A set is known to be in use in its third
            epoch, and all that was cached is young after kept()."""
            if step in OF_PURGES:
                deeds = 2 * [self.purge, self.epoch, self.next_set, *4 * [self.epoch], self.purge, self.restart, self.epoch]
            elif step in OF_STARTS:
                deeds = 2 * [self.next_set, self.restart, self.epoch, self.kill, self.epoch]
            else:
                deeds = 2 * [self.next_set, *4 * [self.epoch], self.restart, self.epoch, self.kill, self.epoch]
            for deed in deeds:
                deed()
                if was_hit(step):
                    return True
            if step in OF_PURGES:
                self.rest(step)
            return was_hit(step)

        def rest(self, step):
            """Sweeps need no request, and one that could not decide all is repeated after 10 s."""
            for _ in range(600):
                if was_hit(step) or not self.server.alive():
                    break
                time.sleep(0.1)

        def serves(self, counted=True, unread=0):
            wait_for("the folder is in service", lambda: self.server.metric("penstock_store_serving") == 1)
            if counted:
                wait_for("its records are counted", lambda: self.is_counted(unread))

        def entries(self):
            return self.server.metric("penstock_store_entries")

        def is_counted(self, unread):
            return self.server.metric("penstock_store_live_bytes") >= (0.95 * self.entries() - unread) * SIZE

        def kept(self):
            """How many objects come from the cache. Nothing is stored meanwhile: the origin answers no GET."""
            origin.tell("match=bucket/* GET", "status=400")
            self.client = Client(self.server.port, keep=True)
            found = sum(self.read(f"bucket/{n}/{i}").status == 200 for n in range(SETS) for i in range(OBJECTS))
            origin.calm()
            return found

        def judge_purge(self):
            """Only whether a byte is old. The origin has new versions, so the cache may hold less than the index names."""
            self.serves(counted=False)
            self.kept()
            wait_for("the sweeps end", lambda: self.server.metric("penstock_store_bans") == 0)
            self.kept()
            self.epoch()

        def judge(self, text, before, unread):
            """`unread`: records of an extent that could not be read, or that an opening dropped."""
            self.serves(unread=unread)
            first = self.entries()
            kept = self.kept()
            indexed = min(first, self.entries())    # an extent may still be evicted meanwhile
            story.fact(f"{text}: what the index names is there", kept >= 0.95 * indexed - unread, f"{kept} of {indexed:.0f}")
            story.fact(f"{text}: most of the cache is", kept >= 0.95 * before - 2 * IN_EXTENT, f"{kept} of {before:.0f}")

    def end_stop(step):
        """Lets a thread that stopped at the step go on, a moment after it stopped."""
        for _ in range(6000):
            if was_hit(step):
                break
            time.sleep(0.01)
        time.sleep(0.5)
        with open(control, "w"):
            pass

    def is_ended(server):
        """The step is noted a moment before the process ends."""
        for _ in range(1000):
            if not server.alive():
                break
            time.sleep(0.01)
        return not server.alive()

    def run_step(run, step, action):
        text = f"{step} {action}"
        run.serves(counted=step not in OF_PURGES)
        before = run.entries()
        run.named.clear()
        arm(*([LEADS_TO[step]] if step in LEADS_TO else []), f"{step} {action}")
        hit, died = False, False
        ender = threading.Thread(target=end_stop, args=(step,))
        try:
            if action == "stop":
                ender.start()
            hit = run.do_until_hit(step)
        except Dead:
            died, hit = True, was_hit(step)
        if action == "stop":
            ender.join()
        if action == "crash" and hit:
            died = is_ended(run.server)
        arm()
        story.fact(f"{text}: the step was reached", hit)
        story.same(f"{text}: the process", "ended" if died else "lives on", "ended" if action == "crash" else "lives on")
        # A process that ends leaves two extents partly filled. Those of earlier ends are no loss of this one.
        before = min([before, *run.named])
        if died:
            run.server.killed = True
            run.server.process.wait(10)
            run.start()
        if step in OF_PURGES:
            run.judge_purge()
        else:
            # An opening that finds the disk full drops an extent. The index forgets its entries when they are read.
            loses = action == "enospc" or step == "footer-read" and action != "crash"
            run.judge(text, before, IN_EXTENT if loses else 0)

    run = Run()
    for _ in range(3):
        run.epoch()
    with open(control + ".known") as f:
        known = dict.fromkeys(line.strip() for line in f)
    steps = {line.split()[0]: line.endswith(" fails") for line in known if line.split()[0] not in OF_FSCK}
    chosen = [step for step in sys.argv[1:] if step in steps] or list(steps)
    everything = len(sys.argv) > 1
    turn = 0
    for step in chosen:
        run_step(run, step, "crash")
        if everything:
            run_step(run, step, "stop")
        for action in ("eio", "enospc") if steps[step] else ():
            turn += 1
            if everything or ("eio", "enospc")[turn // 2 % 2] == action:
                run_step(run, step, action)
    story.same("no byte is wrong", wrong, [])
    story.same("no request failed but those of a process that ended", failed, [])
