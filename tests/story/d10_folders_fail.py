"""One of three cache folders fails under load: no request fails, no byte is wrong, and nothing stale comes back."""
import fcntl

from harness import *

EXT4_IOC_SHUTDOWN = 0x8004587D
SIZE, COUNT, SIZES = 120_000, 240, {"a": 384, "b": 256, "c": 512}

with Story("d10 a folder that fails costs what lies in it, and nothing else", seconds=240) as story:
    if os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "fsfreeze"))):
        raise Skip("needs root, mkfs.ext4 and fsfreeze")
    keys = [f"pile/{i}" for i in range(COUNT)]
    origin = story.origin(*(f"object={key} {SIZE}" for key in keys))
    mounted = {name: story.path(name) for name in SIZES}

    def mount(name):
        return run(["mount", "-o", "loop,errors=remount-ro", story.path(name + ".img"), mounted[name]])[0] == 0

    def unmount(name):
        return run(["umount", "-l", mounted[name]])[0] == 0

    def mount_again(name):
        """The disk is plugged in again, when nobody uses the old mount."""
        wait_for("the daemon has let go of it", lambda: not run(["losetup", "-j", story.path(name + ".img")])[1].strip(), 20)
        return mount(name)

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

    def unmount_all():
        for folder in mounted.values():
            run(["fsfreeze", "-u", folder])
            while run(["umount", "-l", folder])[0] == 0:
                pass

    def tell():
        for name, mib in SIZES.items():
            os.mkdir(mounted[name])
            with open(story.path(name + ".img"), "wb") as f:
                f.truncate(mib * MIB)
            if run(["mkfs.ext4", "-q", story.path(name + ".img")])[0] or not mount(name):
                raise Skip("no loop mount is allowed here")
        server = story.penstock(origin=origin.url, cache_dir=None, cache_size=None, freshness="immutable",
                                cache_dirs=[{"path": f"{mounted[name]}/cache", "size": f"{mib // 2}MiB"}
                                            for name, mib in SIZES.items()])
        versions = {key: 1 for key in keys}
        locks = {key: threading.Lock() for key in keys}
        over, wrong, waits = threading.Event(), [], []

        def load(seed):
            """Reads, and now and then a write, which changes the key's version. All answers are right."""
            mine, client = random.Random(seed), Client(server.port, keep=True)
            while not over.is_set():
                key = mine.choice(keys)
                with locks[key]:
                    began = time.monotonic()
                    if mine.random() < 0.03:
                        body = expect(key, versions[key] + 1, 0, SIZE)
                        reply = client.put(key, body)
                        if reply.status == 200:
                            versions[key] += 1
                        else:
                            wrong.append(("PUT", key, reply.status, reply.error))
                        continue
                    reply = client.get(key)
                    if reply.status != 200 or reply.body != expect(key, versions[key], 0, SIZE):
                        wrong.append(("GET", key, reply.status, reply.error, versions[key]))
                    waits.append(time.monotonic() - began)

        def serving():
            found = server.metrics()
            return found.get(f'penstock_volume_serving{{path="{mounted["b"]}/cache"}}')

        threads = [threading.Thread(target=load, args=(story.random.random(),), daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()

        def fails(text, begin, end, out=True):
            wrong.clear()
            time.sleep(1)
            waits.clear()
            check(begin(), f"{text}: can't be made")
            if out:
                wait_for(f"{text}: it is out", lambda: serving() == 0, 20)
            time.sleep(3)
            check(end(), f"{text}: can't be ended")
            time.sleep(1.5)    # a folder that was made meanwhile is noticed to be another one
            wait_for(f"{text}: it is back", lambda: serving() == 1, 30)
            time.sleep(2)
            longest = max(waits)
            story.same(f"{text}: no request failed and no byte was wrong", wrong[:3], [])
            story.note(f"{text}: {len(waits)} reads, the longest took {longest * 1000:.0f} ms")
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

        fails("full", fill, lambda: not os.unlink(b + "/filler"), out=False)
        fails("read-only", lambda: make_read_only("b"), lambda: unmount("b") and mount_again("b"))
        fails("EIO", lambda: shut_down("b"), lambda: unmount("b") and mount_again("b"))
        fails("removed", lambda: not os.rename(b + "/cache", b + "/away"),
              lambda: not shutil.rmtree(b + "/cache", ignore_errors=True) and not os.rename(b + "/away", b + "/cache"))
        fails("replaced by an empty one", lambda: not os.rename(b + "/cache", b + "/old") and not os.mkdir(b + "/cache"),
              lambda: True, out=False)
        fails("unmounted", lambda: unmount("b"), lambda: mount_again("b"), out=False)
        status, out, _ = run([PENSTOCK, "stat", "--admin-listen", f"127.0.0.1:{server.admin_port}"])
        story.fact("stat has all of them", status == 0 and "works      yes" in out and "3 folders" in out, out)
        over.set()
        for thread in threads:
            thread.join(30)
        story.fact("the faults are counted by folder", server.metrics()[
            f'penstock_volume_faults_total{{path="{b}/cache"}}'] >= 3, server.metric("penstock_volume_faults_total"))
        server.stop()

    try:
        tell()
    finally:
        unmount_all()
