"""A disk that hardly reads under bodies on their way to the origin: these uploads wait for it, and nobody else does."""
from harness import *
from throttle import Throttle

SIZE, UPLOADS = 8 * MIB, 4


def cool_bodies(server):
    """Takes the bodies of uploads out of the page cache. True: all of them lie in files."""
    count = 0
    for fd in os.listdir(f"/proc/{server.pid}/fd"):
        path = f"/proc/{server.pid}/fd/{fd}"
        try:
            if "/body." not in os.readlink(path):
                continue
            ours = os.open(path, os.O_RDWR)
        except OSError:
            continue
        os.fdatasync(ours)
        os.posix_fadvise(ours, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(ours)
        count += 1
    return count


def tell(story, folder, throttle):
    origin = story.origin("objects=bucket/%03d 100 40000")
    server = story.penstock(origin=origin.url, cache_dir=os.path.join(folder, "cache"), cache_size="64MiB", body_memory="64KiB",
                            origin_threads=2)
    throttle.enter(server.pid)
    data = story.random.randbytes(SIZE)
    wires = [Wire(server.port, 60) for _ in range(UPLOADS)]
    for number, wire in enumerate(wires):
        wire.send(server.client.head_of("PUT", f"bucket/new-{number}", payload="UNSIGNED-PAYLOAD",
                                        headers={"content-length": str(SIZE)}) + data[:-1])
    wait_for("all but a byte of each lies in a file", lambda: server.metric("penstock_http_body_disk_bytes") >= UPLOADS * (SIZE - MIB))
    time.sleep(0.5)
    story.same("and in no page cache", cool_bodies(server), UPLOADS)
    for wire in wires:
        wire.send(data[-1:])
    time.sleep(1)
    took = []
    for number in range(20):
        start = time.monotonic()
        story.bytes(f"another object comes: {number}", Client(server.port).get(f"bucket/{number:03d}"),
                    f"bucket/{number:03d}", length=40000)
        took.append(time.monotonic() - start)
        if took[-1] > 5:
            break
    story.in_time("... at once", max(took) < 2, took)
    wires.pop().abort()    # who leaves holds nobody, either
    throttle.slow(False)
    story.same("the disk reads again, and all are taken", {wire.read("PUT").status for wire in wires}, {200})
    for number in range(len(wires)):
        story.same("... with all their bytes", server.get(f"bucket/new-{number}").body == data, True)
    wait_for("no room is lost", lambda: server.metric("penstock_http_body_disk_bytes") == 0)


with Story("h11 a disk that hardly reads under uploads holds nobody else") as story:
    image, folder = story.path("disk"), story.path("mounted")
    os.makedirs(folder)
    with open(image, "wb") as f:
        f.truncate(512 * MIB)
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        raise Skip("needs root and mkfs.ext4")
    if run(["mkfs.ext4", "-q", image])[0] or run(["mount", "-o", "loop", image, folder])[0]:
        raise Skip("no loop mount is allowed here")
    throttle = None
    try:
        throttle = Throttle(folder)
        tell(story, folder, throttle)
    finally:
        if throttle:
            throttle.slow(False)
            for process in story.processes:
                process.stop()
            throttle.end()
        run(["umount", "-l", folder])
