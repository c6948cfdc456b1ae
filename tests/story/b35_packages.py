"""The Debian packages have what `make install` installs, and agree with the rest of the tree. scripts/accept release
builds and tries them."""
import fnmatch

from harness import *

DEBIAN = os.path.join(ROOT, "conf", "debian")
ROOM = {"prefix": "/usr", "libdir": "/usr/lib/some-triplet", "sysconfdir": "/etc", "localstatedir": "/var",
        "systemdsystemunitdir": "/lib/systemd/system", "datarootdir": "/usr/share"}
# Made by conf/debian/rules, not by `make install`.
OF_RULES = ["etc/penstock/penstock.json", "usr/share/bash-completion/completions/penstock",
            "usr/share/zsh/vendor-completions/_penstock", "usr/share/fish/vendor_completions.d/penstock.fish"]


def read(*names):
    with open(os.path.join(ROOT, *names)) as f:
        return f.read()


def patterns(package):
    return [line.split()[0] for line in read(DEBIAN, package + ".install").splitlines() if line]


def holds(pattern, path):
    """As dh_install takes a pattern: a file, or all below a folder."""
    return fnmatch.fnmatch(path, pattern) or fnmatch.fnmatch(path, pattern + "/*")


def check_files(story):
    """Every file that is installed is in one package, and every pattern has a file."""
    build = os.path.dirname(PENSTOCK)
    root = story.path("root")
    done = run(["make", "-C", build, "install", "DESTDIR=" + root, *(f"{k}={v}" for k, v in ROOM.items())])
    story.same("make install", done[0], 0)
    files = sorted(os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root)
                   for name in names) + OF_RULES
    packages = sorted(name[:-8] for name in os.listdir(DEBIAN) if name.endswith(".install"))
    if not any(name.endswith("penstock-cuda.so") for name in files):
        packages.remove("penstock-cuda")
    if not shutil.which("lowdown"):
        files.append("usr/share/man/man1/penstock.1")
    owners = {path: [p for p in packages if any(holds(pattern, path) for pattern in patterns(p))] for path in files}
    story.same("every installed file is in one package", {path: who for path, who in owners.items() if len(who) != 1}, {})
    story.same("every pattern has a file", [(p, pattern) for p in packages for pattern in patterns(p)
                                            if not any(holds(pattern, path) for path in files)], [])


def check_lists(story):
    """Names that stand in more than one place."""
    version = re.search(r"^AC_INIT\(\[penstock\], \[(.*)\]\)$", read("configure.ac"), re.M)[1]
    newest = re.match(r"penstock \((.*)-[^-]*\) ", read(DEBIAN, "changelog"))[1]
    story.same("conf/debian/changelog begins with the version of configure.ac", newest, version.replace("-", "~"))
    declared = set(re.findall(r"^[a-z].*?[ *](penstock_\w+)\(", read("src/client/penstock.h"), re.M))
    listed = set(re.findall(r"^ (\w+)@Base ", read(DEBIAN, "libpenstock0.symbols"), re.M))
    story.fact("the library's symbols are the functions of penstock.h", len(declared) > 5 and listed == declared,
               listed ^ declared)
    control = read(DEBIAN, "control")
    needed = set(re.findall(r"^ (\S+-dev)\b", re.search(r"^Build-Depends:(.*?)^\S", control, re.M | re.S)[1], re.M))
    tools = set(re.search(r'^APT_BUILD="([^"]*)"', read("scripts/tools"), re.M)[1].split())
    image = set(re.search(r"apt-get install ([^&]*)", read("docker/Dockerfile"))[1].split())
    libraries = {name for name in needed if name != "libcmocka-dev"}
    for where, names in ("scripts/tools", tools - {"libcmocka-dev"}), ("docker/Dockerfile", image):
        story.same(f"conf/debian/control and {where} name the same libraries", libraries,
                   {name for name in names if name.endswith("-dev") and name != "libc6-dev"})
    json.loads(read(DEBIAN, "penstock.json"))
    status, _, err = run([PENSTOCK, "config", "--config", os.path.join(DEBIAN, "penstock.json"), "--origin", "dir:/srv"])
    story.same("the settings file of the package is one that Penstock reads", (status, err), (0, ""))


def check_release(story):
    """scripts/release refuses, before it makes anything, what would make no good release."""
    tree = story.path("tree")
    for name in ("configure.ac", "scripts/release", "scripts/tools", "conf/debian/changelog"):
        os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
        shutil.copy(os.path.join(ROOT, name), os.path.join(tree, name))

    def git(*argv):
        status, out, err = run(["git", "-C", tree, "-c", "user.name=n", "-c", "user.email=e@f", *argv])
        check(status == 0, (out, err))

    def release(*argv):
        status, out, err = run([os.path.join(tree, "scripts", "release"), *argv])
        return status, err

    git("init", "-q", ".")
    git("add", ".")
    status, err = release()
    story.fact("a tree with changes is refused", status == 1 and "the tree differs from the last commit: A  conf" in err
               and "Commit or remove" in err, err)
    git("commit", "-q", "-m", "all")
    status, err = release(tree)
    story.fact("so is a folder with files", status == 1 and "the folder is not empty" in err, err)
    with open(os.path.join(tree, "configure.ac"), "r+") as f:
        text = f.read()
        f.seek(0)
        f.write(text.replace("AC_INIT([penstock], [", "AC_INIT([penstock], [9"))
    git("commit", "-q", "-a", "-m", "next")
    status, err = release()
    story.fact("so is a version that the Debian changelog does not have",
               status == 1 and "conf/debian/changelog has" in err and "~penstock1 in conf/debian/changelog" in err, err)
    status, err = release("--wrong")
    story.fact("and an unknown option", status == 1 and "there is no such option" in err, err)


with Story("b35 the Debian packages have what is installed, and scripts/release refuses a bad tree") as story:
    if not PENSTOCK or not os.path.exists(os.path.join(os.path.dirname(PENSTOCK), "Makefile")):
        raise Skip("the binary does not lie in a build folder")
    check_lists(story)
    check_files(story)
    if not shutil.which("git"):
        raise Skip("there is no git, which scripts/release needs")
    check_release(story)
