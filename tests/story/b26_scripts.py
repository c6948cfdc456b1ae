"""scripts/tools and its companions where the surroundings are odd: no HOME, a current folder that is
gone, no right to become root, no folder for temporary files. scripts/accept fresh tries the rest."""
import pwd

from harness import *

TOOLS_SCRIPT = os.path.join(ROOT, "scripts", "tools")


def shell(script, *argv, env=None, cwd=None):
    """bash with scripts/tools sourced and little else in its environment: (status, out, err)."""
    done = subprocess.run(["bash", "-c", f"set -u; root={ROOT}; . {TOOLS_SCRIPT}; {script}", "bash",
                           *argv],
                          env={"PATH": os.environ["PATH"], "HOME": "/nowhere", **(env or {})},
                          cwd=cwd, capture_output=True, text=True, timeout=90)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def without(story, *names):
    """A PATH that lacks these programs."""
    folder = story.path("bin")
    os.makedirs(folder, exist_ok=True)
    for place in ("/usr/sbin", "/usr/bin", "/bin"):
        for name in os.listdir(place):
            if name not in names and not os.path.lexists(os.path.join(folder, name)):
                os.symlink(os.path.join(place, name), os.path.join(folder, name))
    return folder


def as_nobody(argv):
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv]


with Story("b26 scripts in odd surroundings") as story:
    status, out, err = shell("unset HOME; . " + TOOLS_SCRIPT + "; echo $TOOLS")
    story.same("without HOME, the tools lie in the user's folder", (status, out, err),
               (0, os.path.expanduser(f"~{pwd.getpwuid(os.geteuid()).pw_name}/.cache/penstock-tools"), ""))

    status, out, err = shell(f"mkdir {story.path('gone')} && cd {story.path('gone')} && rmdir $PWD && "
                             f". {TOOLS_SCRIPT} && /bin/pwd")
    story.same("a folder that is gone is left", (status, out), (0, "/"))

    tree = story.path("tree")
    os.makedirs(tree)
    for name in ("configure.ac", "Makefile.am", "Makefile.in", "configure"):    # by age
        with open(os.path.join(tree, name), "w") as f:
            f.write("#!/bin/sh\nprintf 'all:\\n\\ttouch built\\n' >Makefile\n: >config.status\n")
        os.chmod(os.path.join(tree, name), 0o755)
    status, out, err = shell(f"build_tree {tree} {story.path('build')} --with=this && pwd", cwd=story.folder)
    story.same("a build leaves the current folder as it is", (status, out, err), (0, story.folder, ""))
    story.fact("... and is done", os.path.exists(story.path("build/built")), os.listdir(story.folder))
    os.symlink(tree, story.path("a tree"))
    status, out, err = shell(f"build_tree '{story.path('a tree')}' {story.path('build')}")
    story.fact("a folder that configure can't take is told", status == 1 and "space in its name" in err, err)

    status, out, err = shell("need_packages no-such-package", env={"TMPDIR": "/nowhere"})
    story.fact("so is a missing folder for temporary files", status == 1 and "Set TMPDIR" in err, err)

    if os.geteuid() == 0 and shutil.which("dpkg-query"):
        path = without(story, "sudo")
        os.chmod(story.folder, 0o755)
        done = subprocess.run(as_nobody(["bash", "-c", f". {TOOLS_SCRIPT}; need_packages no-such-package"]),
                              env={"PATH": path, "HOME": "/nowhere"}, capture_output=True, text=True,
                              timeout=PATIENCE)
        story.fact("a user who can't become root is told what needs it", done.returncode == 1
                   and "can't install no-such-package: this needs root" in done.stderr,
                   (done.returncode, done.stderr))

    if glob.glob("/var/lib/apt/lists/*_Packages*"):
        status, out, err = shell("log=/dev/null; packages_under $APT_CEPH")
        story.fact("what radosgw needs does not depend on what is installed",
                   status == 0 and {"radosgw", "librados2", "libc6"} <= set(out.split()), (out, err))
