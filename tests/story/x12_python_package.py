"""The Python package: installs in a bare environment, with nothing beside it; the examples of its manual page
run as they stand there."""
import re

from harness import *

SOURCE = os.path.join(ROOT, "src", "client", "python")
SIZE = 131_072


def blocks():
    """The Python blocks of penstock-python(7): of a fill, of a list that is followed, of a sampler, and of the loader."""
    with open(os.path.join(ROOT, "man", "penstock-python.7.md")) as f:
        return re.findall(r"^```python\n(.*?)^```$", f.read(), re.M | re.S)


def install(story):
    venv, copy = story.path("bare"), story.path("source")
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    check(run(["/usr/bin/python3", "-m", "venv", venv])[0] == 0, "no virtual environment can be made")
    status, out, err = run([f"{venv}/bin/pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps",
                            "-w", story.path("wheels"), copy], seconds=100)
    wheels = os.listdir(story.path("wheels")) if status == 0 else []
    story.fact("the wheel is one for every Python 3", len(wheels) == 1 and wheels[0].endswith("-py3-none-any.whl"),
               (wheels, out, err[-1000:]))
    status, out, err = run([f"{venv}/bin/pip", "install", "-q", "--no-index", "--disable-pip-version-check",
                            *(os.path.join(story.path("wheels"), wheel) for wheel in wheels)])
    story.fact("it installs in an environment that has nothing else", status == 0, err)
    return f"{venv}/bin/python3"


def example(story, text, python, server, path):
    script = story.path("example.py")
    with open(script, "w") as f:
        f.write(text)
    env = {**server.client_env(), "PENSTOCK_FILL_SOCKET": path, "PYTHONPATH": ""}
    return run([python, script], env)


with Story("x12 the Python package", 240) as story:
    origin = story.origin(*[f"object=demo/train/sample-{i:02}.bin {SIZE}" for i in range(1, 13)])
    path = story.path("fill.sock")
    server = story.penstock(origin=origin.url, fill_socket=path)
    bytes_, followed, sampler, tensors = blocks()
    python = install(story)
    status, out, err = example(story, bytes_, python, server, path)
    story.fact("the example runs as it stands", status == 0, err)
    story.fact("and prints what was filled", f"12 objects, {12 * SIZE} bytes" in out, out)
    story.same("it has ten lines at most", max(len(text.splitlines()) for text in (bytes_, followed, sampler, tensors)) <= 10, True)
    status, out, err = example(story, bytes_, python, server, "")
    story.fact("also where there is no fill socket", status == 0 and f"12 objects, {12 * SIZE} bytes" in out,
               (out, err))
    for text, wanted in ((followed, "12 objects, in this order"), (sampler, f"12 objects, {12 * SIZE} bytes")):
        status, out, err = example(story, text, python, server, path)
        story.fact("an example of lists that are followed runs, and warns of nothing", status == 0 and wanted in out and not err, (out, err))
    status, out, err = example(story, tensors, python, server, path)
    story.fact("without torch the loader says what is missing", status != 0 and "torch" in err, err)
    torch = glob.glob(os.path.join(TOOLS, "torch-*", ".whole"))
    if torch:
        site = glob.glob(story.path("bare/lib/python3*/site-packages"))[0]
        other = os.path.join(os.path.dirname(torch[0]), "bin", "python3")
        text = f"import sys; sys.path.insert(0, {site!r})\n{tensors}"
        status, out, err = example(story, text, other, server, path)
        story.fact("the loader's example runs on a machine without a GPU", status == 0 and "memfd" in out
                   and f"[4, 65536]" in out, (out, err))
    else:
        story.note("skipped: torch (scripts/tools torch installs it)")
