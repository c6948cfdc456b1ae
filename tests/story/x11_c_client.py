"""The C client: what it fills is what a GET brings, what fails says why; it installs with what a compiler
and a linker need to find it."""
import subprocess

from harness import *

SIZES = {"objects/a": 4096, "objects/b": 300_000, "objects/e": 0}
ROOM = 1 << 20
BUILD = os.path.dirname(PENSTOCK or "")
PROBE = os.path.join(BUILD, "tests", "tools", "fill_probe")


class Probe:
    def __init__(self, path, env):
        self.path, self.env = path, {**os.environ, **env}

    def argv(self, *words, room=ROOM, bucket="objects", path=None):
        return [PROBE, path or self.path, bucket, str(room), *map(str, words)]

    def run(self, *words, env=None, **how):
        done = subprocess.run(self.argv(*words, **how), env={**self.env, **(env or {})}, capture_output=True,
                              timeout=60)
        return done.returncode, done.stdout, done.stderr.decode().splitlines()


def error(got):
    """Code, status and item of what was said to be wrong."""
    return tuple(got[2][-1].split(" ")[1:4]) if got[0] == 1 else got


def fills(story, probe):
    items = ("a:0:-1:0:4096", "b:10:1000:8192", "e:0:-1:10000:100", "b:299000:-1:20000:1000")
    for how in ((), ("--apart",)):
        status, data, lines = probe.run(*how, *items)
        what = "lists under way at once" if how else "one list"
        story.same(f"{what}: every item has its length", (status, lines[1:]), (0, ["4096 0", "1000 0", "0 0", "1000 0"]))
        want = bytearray(ROOM)
        want[:4096] = expect("objects/a", 1, 0, 4096)
        want[8192:9192] = expect("objects/b", 1, 10, 1000)
        want[20000:21000] = expect("objects/b", 1, 299_000, 1000)
        story.fact("and its bytes, and not a byte beside them is touched", data == bytes(want))
        story.same("which are counted", lines[0].split()[0], "6096")
    whole = expect("objects/b", 1, 0, 16_008)
    status, data, lines = probe.run("--many", 16_000, "b:0:8:0")
    story.fact("a list that is too long for a packet goes all the same", status == 0 and data[:128_000] ==
               b"".join(whole[i:i + 8] for i in range(16_000)), lines)
    story.same("a prefetch fills nothing here", probe.run("--prefetch", "b:0:100:0")[1], bytes(ROOM))


def failures(story, probe):
    story.same("a key that is missing", error(probe.run("a:0:10:0", "nope:0:10:100")), ("NoSuchKey", "404", "1"))
    story.same("others are filled, if told so", probe.run("--skip", "a:0:10:0", "nope:0:10:100")[2][1:],
               ["10 0", "0 404"])
    story.same("beyond the end", error(probe.run("a:4000:100:0")), ("InvalidRange", "416", "0"))
    story.same("two on one another", error(probe.run("a:0:10:0", "a:0:10:9"))[0], "overlap")
    story.same("more than the list may have", error(probe.run("--many", 17_000, "b:0:8:0"))[0], "too_many_items")
    story.same("a wrong secret", error(probe.run("a:0:10:0", env={"AWS_SECRET_ACCESS_KEY": "x"}))[:2],
               ("SignatureDoesNotMatch", "403"))
    story.same("no keys, where nobody may come without", error(probe.run("a:0:10:0", env={
        "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}))[:2], ("AccessDenied", "403"))
    for what, env, words in (
            ("no secret key", {"AWS_SECRET_ACCESS_KEY": ""}, "AWS_SECRET_ACCESS_KEY is not: set both"),
            ("a long secret key", {"AWS_SECRET_ACCESS_KEY": "x" * 4092}, "may have at most 4091"),
            ("a long session token", {"AWS_SESSION_TOKEN": "x" * 4000}, "session token of 4000 bytes")):
        got = probe.run("a:0:10:0", env=env)
        story.fact(f"{what}: the message says so", error(got)[0] == "bad_argument" and words in got[2][-1], got)
    story.same("nobody there", error(probe.run("a:0:10:0", path="/nowhere.sock"))[0], "disconnected")
    story.same("a name that is no text", error(probe.run(b"\xff:0:10:0".decode("utf-8", "surrogateescape")))[0],
               "bad_message")


def ends(story, probe, server):
    waiting = subprocess.Popen(probe.argv("--pause", "a:0:10:0"), env=probe.env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    waiting.stdout.readline()
    server.kill()
    _, lines = waiting.communicate(b"\n", 30)
    story.fact("a daemon that is gone is an error", waiting.returncode == 1 and b"error disconnected" in lines,
               lines)


EXAMPLE = r"""
#include <penstock.h>
#include <stdio.h>
int main(void)
{
    struct penstock *client;
    struct penstock_error error;
    if (penstock_connect(&client, NULL, &error))
        return printf("%s\n", error.message), 1;
    penstock_close(&client);
    puts("connected");
}
"""


def installs(story, env):
    prefix, source = story.path("installed"), story.path("example.c")
    status, _, err = run(["make", "-C", BUILD, "install", f"DESTDIR={prefix}"], seconds=100)
    story.fact("make install", status == 0, err[-500:])
    found = glob.glob(f"{prefix}/**/pkgconfig/penstock.pc", recursive=True)
    with open(source, "w") as f:
        f.write(EXAMPLE)
    how = {"PKG_CONFIG_PATH": os.path.dirname(found[0]) if found else "", "PKG_CONFIG_SYSROOT_DIR": prefix}
    for kind, more in (("shared", ()), ("static", ("--static",))):
        _, flags, err = run(["pkg-config", "--cflags", "--libs", *more, "penstock"], env=how)
        words = flags.split() if kind == "shared" else [
            "-Wl,-Bstatic" * (w == "-lpenstock") + " " + w + " -Wl,-Bdynamic" * (w == "-lpenstock")
            for w in flags.split()]
        words = " ".join(words).replace("-Wl,-Bstatic ", "-Wl,-Bstatic ").split()
        program = story.path(f"example-{kind}")
        status, _, err = run(["cc", "-o", program, source, *words])
        story.fact(f"a program is built with what pkg-config says ({kind})", status == 0, (flags, err))
        library = os.path.dirname(os.path.dirname(found[0])) if found else ""
        status, out, err = run([program], env={**env, "LD_LIBRARY_PATH": library if kind == "shared" else ""})
        story.same("and runs", (status, out), (0, "connected\n"))


with Story("x11 the C client") as story:
    if not os.path.exists(PROBE):
        raise Skip("tests/tools/fill_probe is not built: run make")
    origin = story.origin(*[f"object={key} {size}" for key, size in SIZES.items()])
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path)
    probe = Probe(path, server.client_env())
    fills(story, probe)
    failures(story, probe)
    installs(story, {**server.client_env(), "PENSTOCK_FILL_SOCKET": path})
    ends(story, probe, server)
