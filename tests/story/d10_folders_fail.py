"""One of three cache folders fails under load: no request fails, no byte is wrong, and nothing stale comes back.

Usage: d10_folders_fail.py [MINUTES]. All ways to fail come in turn, once, or again and again for so many minutes."""
import contextlib
import fcntl
import signal

from harness import *

EXT4_IOC_SHUTDOWN = 0x8004587D
SIZE, COUNT, SIZES = 120_000, 240, {"a": 384, "b": 256, "c": 512}
MINUTES = float(sys.argv[1]) if len(sys.argv) > 1 else 0

with Story("d10 a folder that fails costs what lies in it, and nothing else", seconds=300 + 60 * MINUTES) as story:
    if os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "fsfreeze", "bindfs"))):
        raise Skip("needs root, mkfs.ext4, fsfreeze and bindfs")
    keys = [f"pile/{i}" for i in range(COUNT)]
    crowd = [f"crowd/{i}" for i in range(400)]    # of these, one in five lies in b
    origin = story.origin(*(f"object={key} {SIZE}" for key in keys + crowd))
    mounted = {name: story.path(name) for name in SIZES}
    disks, through = story.path("disks"), story.path("through")    # the images; and the same, through a process

    def image(name):
        return f"{through if name == 'b' else disks}/{name}.img"

    def mount(name):
        return run(["mount", "-o", "loop,errors=remount-ro", image(name), mounted[name]])[0] == 0

    def unmount(name):
        return run(["umount", "-l", mounted[name]])[0] == 0

    def mount_again(name):
        """The disk is plugged in again, when nobody uses the old mount. A loop device that is just being released can
        refuse the mount."""
        wait_for("the daemon has let go of it", lambda: not run(["losetup", "-j", image(name)])[1].strip())
        return wait_for(f"{name} is mounted again", lambda: mount(name))

    def shut_down(name):
        """From now on all writes, and reads of what is not in memory, fail with EIO."""
        folder = os.open(mounted[name], os.O_RDONLY)
        fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", 2))
        os.close(folder)
        return True

    def make_read_only(name):
        """The file system finds an error, and becomes read-only by itself."""
        device = os.path.basename(run(["findmnt", "-no", "SOURCE", mounted[name]])[1].strip())
        with open(f"/sys/fs/ext4/{device}/trigger_fs_error", "w") as f:
            f.write("a story")
        return True

    def freeze():
        """From now on all writes hang."""
        return run(["fsfreeze", "-f", mounted["b"]])[0] == 0

    def thaw():
        return run(["fsfreeze", "-u", mounted["b"]])[0] == 0

    def stand_still():
        """From now on the disk answers nothing, neither reads nor writes."""
        os.kill(disk.pid, signal.SIGSTOP)
        return True

    def forget_pages():
        """Reads of the cached objects then need the disk. The index stays in memory."""
        check(run(["sync", "-f", mounted["b"]])[0] == 0, "no sync")
        for path in glob.glob(f"{mounted['b']}/cache/extents/*") + [image("b")]:
            with open(path, "rb") as f:
                os.fsync(f.fileno())
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return True

    def try_to_lock():
        """Returns False, and lets the disk go on, if the block is in memory: one that says where the pieces of a file lie."""
        device = run(["findmnt", "-no", "SOURCE", mounted["b"]])[1].strip()
        victim, other = (os.open(mounted["b"] + "/" + name, os.O_RDWR | os.O_CREAT) for name in ("victim", "other"))
        extents = [os.open(path, os.O_RDONLY) for path in glob.glob(mounted["b"] + "/cache/extents/*")]

        def set_times():
            """The next read of an extent may have to set the time of access."""
            for fd in (other, *extents):
                os.utime(fd, (0, time.time()))

        def shrink():
            os.ftruncate(victim, 0)
            os.close(victim)

        def commit():
            set_times()
            os.fsync(other)
            for fd in (other, *extents):
                os.close(fd)

        for piece in range(1000):
            os.pwrite(victim, b"x", piece * 8192)
        os.fsync(victim)
        check(freeze() and thaw(), "the journal is not emptied")
        set_times()    # the inodes stay in memory, and that block does not
        os.utime(victim)
        check(run(["blockdev", "--flushbufs", device])[0] == 0, "no buffers are dropped")
        stand_still()
        changes = [threading.Thread(target=change, daemon=True) for change in (shrink, commit)]
        for change in changes:
            change.start()
            time.sleep(0.3)
        locked = changes[0].is_alive()
        if not locked:
            go_on()
            for change in changes:
                change.join()
        return locked

    def lock_journal():
        """The disk stands still while a change of the file system needs a block from it, and a commit waits for that change.
        All other changes then wait for the commit: even that a read sets the time of access, whose bytes are in memory."""
        return any(try_to_lock() for _ in range(10))

    def queue(length):
        """Sets the length of the queue of the disk: 32 is that of a SATA disk."""
        device = os.path.basename(run(["findmnt", "-no", "SOURCE", mounted["b"]])[1].strip())
        with open(f"/sys/block/{device}/queue/nr_requests", "r+") as f:
            before = f.read()
            f.write(str(length))
        return before

    def go_on():
        os.kill(disk.pid, signal.SIGCONT)
        return True

    def unmount_all():
        go_on()
        for folder in mounted.values():
            run(["fsfreeze", "-u", folder])
            while run(["umount", "-l", folder])[0] == 0:
                pass
        wait_for("no image is in use", lambda: not run(["losetup", "-j", image("b")])[1].strip())
        run(["umount", through])

    def tell():
        for name, mib in SIZES.items():
            os.mkdir(mounted[name])
            with open(f"{disks}/{name}.img", "wb") as f:
                f.truncate(mib * MIB)
            if run(["mkfs.ext4", "-q", image(name)])[0] or not mount(name):
                raise Skip("no loop mount is allowed here")
        cold_reads = story.random.choice(["buffered", "direct"])
        story.note(f"cold_reads {cold_reads}")
        # New objects soon lie in locked memory, where a disk that hangs does no harm; this is about the others.
        server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, freshness="immutable", cold_reads=cold_reads,
                                memory_locked=1,
                                cache_dirs=[{"path": f"{mounted[name]}/cache", "size": f"{mib // 2}MiB"}
                                            for name, mib in SIZES.items()])
        versions = {key: 1 for key in keys}
        locks = {key: threading.Lock() for key in keys}
        over, wrong, waits, served = threading.Event(), [], [], [0] * 4

        def home(key):
            """The folder that stores the key, as a letter."""
            check(server.get(key).status == 200, "no GET before the faults")
            reply = server.ask("GET", key, query=[("penstock-explain", "")])
            return "abc"[json.loads(reply.body)["metadata"]["folder"] - 1]

        homes = {key: home(key) for key in keys + crowd}
        story.fact("each folder is home to some keys", set(homes.values()) == set("abc"), homes)

        def load(which, seed):
            """Reads, and now and then a write, which changes the key's version. All answers are right. A fault meets about
            1,500 reads and 200 writes: more reads of the same objects, without the pauses, would show no more."""
            mine, client = random.Random(seed), Client(server.port, keep=True)
            while not over.wait(mine.uniform(0, 0.02)):
                key = mine.choice(keys)
                with locks[key]:
                    version, writes = versions[key], mine.random() < 0.12
                    body = expect(key, version + writes, 0, SIZE)
                    began = time.monotonic()
                    reply = client.put(key, body) if writes else client.get(key)
                    waits.append(("write" if writes else "read", homes[key] == "b", time.monotonic() - began))
                    if reply.status == 200 and (writes or reply.body == body):
                        versions[key] += writes
                        served[which] += 1
                    else:
                        wrong.append((writes, key, reply.status, reply.error, version))

        def while_all_wait(begin):
            """The fault begins while no client has a request."""
            def begin_alone():
                with contextlib.ExitStack() as all_locks:
                    for lock in locks.values():
                        all_locks.enter_context(lock)
                    return begin()
            return begin_alone

        def ask(key, got):
            reply = Client(server.port).get(key)
            got.append(reply.status == 200 and reply.body == expect(key, 1, 0, SIZE))

        def hang_with_a_crowd():
            """More reads at once than the queue of the disk has room for. Returns what ends the fault."""
            got, there = [], [key for key in crowd if homes[key] == "b"]
            check(len(there) > 48, f"{len(there)} keys are too few for the crowd")
            clients = [threading.Thread(target=ask, args=(key, got), daemon=True) for key in there]
            for key in there:
                wait_for("the crowd's objects are cached again", lambda: server.get(key).cache == "hit")
            length = queue(32)
            while_all_wait(lambda: forget_pages() and stand_still())()
            for client in clients:
                client.start()

            def end():
                go_on()
                for client in clients:
                    client.join()
                queue(length)
                return story.same("all hangs, a crowd reads: the crowd got right bytes", got, len(there) * [True])
            return end

        def serving():
            return server.metrics().get(f'penstock_volume_serving{{path="{mounted["b"]}/cache"}}')

        threads = [threading.Thread(target=load, args=(which, story.random.random()), daemon=True)
                   for which in range(len(served))]
        for thread in threads:
            thread.start()

        def longest(kind, there):
            taken = sorted(w for k, t, w in waits if (k, t) == (kind, there)) or [0]
            return f"{len(taken)} {kind}s {'there' if there else 'elsewhere'}: at most {taken[-1] * 1000:.0f} ms" + \
                f" ({sum(w > 0.1 for w in taken)} over 100)"

        def faults():
            return server.metrics()[f'penstock_volume_faults_total{{path="{mounted["b"]}/cache"}}']

        def fails(text, begin, end, out=True, fault=False):
            """out: the folder goes out of service, and is so until end(). fault: it may come back before that is seen."""
            wrong.clear()
            before = faults()
            time.sleep(1)
            waits.clear()
            check(begin(), f"{text}: can't be made")
            if out:
                wait_for(f"{text}: it is out", lambda: serving() == 0)
                then = list(served)
                wait_for(f"{text}: no client waits for it", lambda: all(now > was for now, was in zip(served, then)))
            time.sleep(3)
            check(end(), f"{text}: can't be ended")
            if fault:
                wait_for(f"{text}: it is noticed", lambda: faults() > before)
            time.sleep(1.5)
            try:
                wait_for(f"{text}: it is back", lambda: serving() == 1)
            except Wrong as error:
                raise Wrong(f"{error}: " + "\n".join(
                    line for line in server.log().splitlines() if '"event":"cache_folder' in line and mounted["b"] in line))
            wait_for(f"{text}: all are back", lambda: server.metric("penstock_store_serving") == 3)
            time.sleep(2)
            story.same(f"{text}: no request failed and no byte was wrong", wrong[:3], [])
            story.note(f"{text}: " + ", ".join(longest(k, t) for t in (False, True) for k in ("read", "write")))
            story.same(f"{text}: the others served on", server.metric("penstock_store_serving"), 3)

        b = mounted["b"]

        def fill():
            with open(b + "/filler", "wb") as f:
                try:
                    while True:
                        f.write(bytes(MIB))
                        f.flush()
                except OSError:
                    return True

        def remove_filler():
            """Without the sync, the file system may still have the filler's bytes after an error."""
            os.unlink(b + "/filler")
            return run(["sync", "-f", b])[0] == 0

        def replace():
            shutil.rmtree(b + "/old", ignore_errors=True)
            os.rename(b + "/cache", b + "/old")
            os.makedirs(b + "/cache", exist_ok=True)    # the daemon may have been faster
            return True

        def put_back():
            """The daemon may be writing to the folder that it made meanwhile."""
            if os.path.exists(b + "/cache"):
                os.rename(b + "/cache", b + "/made")
            os.rename(b + "/away", b + "/cache")
            shutil.rmtree(b + "/made", ignore_errors=True)
            return True

        rounds, until = 0, time.monotonic() + 60 * MINUTES
        while rounds == 0 or time.monotonic() < until:
            fails("full", fill, remove_filler, out=False)
            fails("read-only", lambda: make_read_only("b"), lambda: unmount("b") and mount_again("b"))
            fails("EIO", lambda: shut_down("b"), lambda: unmount("b") and mount_again("b"))
            fails("writes hang", freeze, thaw)
            fails("all hangs", stand_still, go_on)
            late = server.metric("penstock_store_reads_given_up_total")
            ends = []
            fails("all hangs, a crowd reads", lambda: not ends.append(hang_with_a_crowd()), lambda: ends[0]())
            story.fact("all hangs, a crowd reads: reads were given up",
                       server.metric("penstock_store_reads_given_up_total") > late + 32)
            fails("all hangs, and the journal is locked", while_all_wait(lock_journal), go_on)
            fails("removed", lambda: not os.rename(b + "/cache", b + "/away"), put_back)
            fails("replaced by an empty one", replace, lambda: True, out=False, fault=True)
            fails("unmounted", lambda: unmount("b"), lambda: mount_again("b"), out=False)
            rounds += 1
        story.note(f"{rounds} rounds")
        status, out, _ = run([PENSTOCK, "stat", "--admin-listen", f"127.0.0.1:{server.admin_port}"])
        story.fact("stat has all of them", status == 0 and "works      yes" in out and "3 folders" in out, out)
        over.set()
        for thread in threads:
            thread.join(30)
        story.fact("the faults are counted by folder", faults() >= 3, faults())
        server.stop()

    for folder in (disks, through):
        os.mkdir(folder)
    disk = Process(story, "bindfs", ["bindfs", "-f", disks, through])
    wait_for("the process that is the disk has begun", lambda: os.path.ismount(through))
    try:
        tell()
    finally:
        unmount_all()
