"""A reply too long for the socket comes in a memfd, whose pages are Penstock's. A client that keeps them all keeps no
more than the last few of those pages."""
import array
import fcntl
import socket

from filler import Filler
from harness import *

ITEMS, LISTS = 16_000, 40
# with vm.memfd_noexec=1 whoever holds a memfd may seal it, unless its maker says no; it counts for one pid namespace
HARDENED = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", 'echo 1 >/proc/sys/vm/memfd_noexec || exit 77; exec "$0" "$@" hardened',
            sys.executable, __file__]

with Story("x17 replies that a client keeps") as story:
    origin = story.origin("objects=pile/%d 20 1000")
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path, freshness="immutable", missing_time="10m")
    session = Filler(path)
    names = [[f"absent-{i % 50}", 0, 1] for i in range(ITEMS)]

    def ask(number):
        """The reply as it came: whole at that time, and its memfd, which stays open."""
        text = json.dumps({"op": "prefetch", "id": number, "bucket": "pile", "items": names, "on_error": "skip"}).encode()
        with os.fdopen(os.memfd_create("list"), "wb", buffering=0) as list_of:
            list_of.write(text)
            session.send({"message_bytes": len(text)}, [list_of.fileno()])
        data, rights, _, _ = session.socket.recvmsg(1 << 18, socket.CMSG_SPACE(4))
        fd = array.array("i", rights[0][2])[0]
        reply = json.loads(os.pread(fd, json.loads(data)["message_bytes"], 0))
        return fd, reply["ok"] and len(reply["errors"]) == ITEMS

    kept = [ask(number) for number in range(LISTS)]
    story.same("each reply is whole when it comes", [whole for _, whole in kept], [True] * LISTS)
    session.say("status")    # its reply comes when Penstock is done with the reply before it
    sizes = [os.fstat(fd).st_blocks * 512 for fd, _ in kept]
    story.fact("of those that are kept the last few have bytes", sum(size > 0 for size in sizes) <= 4, sizes)
    story.fact("... and the last is one of them", sizes[-1] > 0, sizes)
    for seal in (2, 8):    # against shrinking, against writing
        try:
            fcntl.fcntl(kept[-1][0], 1033, seal)
            sealed = True
        except OSError:
            sealed = False
        story.same(f"a client can't seal them against that ({seal})", sealed, False)
    session.close()
    wait_for("with the session all are gone", lambda: not any(os.fstat(fd).st_blocks for fd, _ in kept))
    other = Filler(path)
    story.fact("and others are served", other.say("prefetch", bucket="pile", items=["0"])["ok"])
    if sys.argv[1:] != ["hardened"]:
        again = subprocess.run(HARDENED, capture_output=True, text=True)
        if again.returncode in (1, 77) and "x17" not in again.stdout:
            story.note(f"not tried with vm.memfd_noexec=1: {again.stderr.strip()}")
        else:
            story.same("all that again where vm.memfd_noexec is 1", (again.returncode, re.findall("WRONG.*", again.stdout)), (0, []))
