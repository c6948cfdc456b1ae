"""A file system view without code of ours: s3fs and rclone, mounted on Penstock, write and read a
tree, with renames, appends and many small files; the origin and a direct mount see the same."""
from harness import *

sys.path.insert(0, os.path.join(ROOT, "tests", "clients"))
from rows import rclone_env  # noqa: E402

MANY = 200
if os.getuid() == 0 and "E02_INSIDE" not in os.environ and run(["unshare", "-m", "true"])[0] == 0:
    # In a mount namespace of its own, so that whatever happens, nothing stays mounted.
    os.execvpe("unshare", ["unshare", "-m", sys.executable, *sys.argv],
               {**os.environ, "E02_INSIDE": "1"})
os.environ.pop("AWS_CA_BUNDLE", None)    # Debian's rclone refuses to start with it


def tree(folder):
    """{path: sha256} of every file below a folder."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, folder)] = hashlib.sha256(f.read()).hexdigest()
    return found


def work(folder, seed, is_stored=lambda name: True):
    """Writes a tree as programs do. rclone writes behind them, and loses a file that gets another name while it is on its
    way: so that one is waited for."""
    chooser = random.Random(seed)

    def write(name, data, how="wb"):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, how) as f:
            f.write(data)
    for i in range(MANY):
        write(f"many/{i % 10}/{i:04d}.txt", chooser.randbytes(chooser.randrange(1, 3000)))
    write("big.bin", chooser.randbytes(23 * MIB + 17))
    write("log", b"first line\n")
    write("log", b"second line\n", "ab")
    write("new.tmp", chooser.randbytes(100_000))
    wait_for("new.tmp is stored", lambda: is_stored("new.tmp"))
    os.rename(os.path.join(folder, "new.tmp"), os.path.join(folder, "renamed.bin"))
    write("space and ümlaut/ä b.txt", b"named oddly")
    write("gone", b"x")
    os.unlink(os.path.join(folder, "gone"))


class Mount:
    """A mounted bucket; the process of its client belongs to the story."""

    def __init__(self, story, client, url, key, secret):
        self.folder = story.path(f"{client}-{len(story.processes)}")
        os.makedirs(self.folder)
        told = {"url": url, "key": key, "secret": secret, "style": "path", "ca": ""}
        env = {n: v for n, v in rclone_env(told).items() if v is not None}
        keys = story.path(f"{client}-{len(story.processes)}.keys")
        with open(keys, "w") as f:
            f.write(f"{key}:{secret}\n")
        os.chmod(keys, 0o600)
        bucket = f"mount-{client}"
        argv = ["/usr/bin/s3fs", bucket, self.folder, "-f", "-o", f"url={url}", "-o",
                "use_path_request_style", "-o", f"passwd_file={keys}", "-o",
                "endpoint=us-east-1"] if client == "s3fs" else \
            ["/usr/bin/rclone", "--config", "/dev/null", "mount", f"x:{bucket}", self.folder,
             "--vfs-cache-mode", "full", "--vfs-write-back", "0s", "--cache-dir",
             story.path(f"vfs-{len(story.processes)}"), "--dir-cache-time", "1s"]
        self.process = Process(story, client, argv, env)
        try:
            wait_for(f"{client} is mounted", lambda: os.path.ismount(self.folder)
                     or not self.process.alive())
        finally:
            mounts.append(self)
        check(self.process.alive(), f"{client} ended: {self.process.log()[-500:]}")

    def end(self):
        run(["fusermount3", "-u", self.folder], seconds=20)
        try:
            self.process.process.wait(20)
        except subprocess.TimeoutExpired:
            run(["fusermount3", "-u", "-z", self.folder], seconds=20)
            self.process.kill()
        mounts.remove(self)


def tell(story, client, origin, server):
    origin.client.put(f"mount-{client}", b"")
    mine = (server.client.key, server.client.secret)
    wanted = story.path(f"wanted-{client}")
    os.makedirs(wanted)
    work(wanted, story.seed)
    want = tree(wanted)
    one = Mount(story, client, server.endpoint, *mine)
    work(one.folder, story.seed, lambda name: origin.client.head(f"mount-{client}/{name}").status == 200)
    story.same(f"{client}: who wrote it reads it", tree(one.folder), want)
    one.end()
    for turn in ("cold", "warm"):
        other = Mount(story, client, server.endpoint, *mine)
        story.same(f"{client}: mounted anew, it is read right, {turn}", tree(other.folder), want)
        other.end()
    direct = Mount(story, client, origin.url, ORIGIN_KEY, ORIGIN_SECRET)
    story.same(f"{client}: directly at the origin it is the same", tree(direct.folder), want)
    direct.end()


mounts = []
with Story("e02 a file system view: s3fs and rclone mount", seconds=300) as story:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or not shutil.which("fusermount3"):
        raise Skip("there is no FUSE here")
    for program in ("/usr/bin/s3fs", "/usr/bin/rclone"):
        if not os.path.exists(program):
            raise Skip(f"{program} is not installed: run scripts/tools all")
    origin = story.versity()
    server = story.penstock(origin=origin.url, freshness=None)
    try:
        for client in ("s3fs", "rclone"):
            began = time.monotonic()
            tell(story, client, origin, server)
            story.note(f"{client} took {time.monotonic() - began:.1f} s")
    finally:
        for mount in list(mounts):
            mount.end()
