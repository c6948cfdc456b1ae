"""The manual: its pages are listed, fit a screen, satisfy mandoc's lint, link to what is there, and hold the rows
of the tables as they are now."""
import manual
from harness import *

LINK = re.compile(r"\[([^]]*)\]\(([^)]*)\)")
DATE = "2026-11-23"


def own(values, text):
    """What a binary with another prefix says, with the paths that the kept texts have."""
    return text.replace(values["config"], "/etc/penstock/penstock.json").replace(values["cache_dir"], "/var/cache/penstock")


def rendered(story, name, source):
    """The page as mandoc shows it on a terminal of 80 columns, without overstrikes; its lint."""
    status, page, err = run([os.path.join(ROOT, "scripts", "manpage"), source, DATE, "0"])
    story.fact(f"{name} is made", status == 0 and err == "", err)
    path = story.path(name)
    with open(path, "w") as f:
        f.write(page)
    lint = run(["mandoc", "-T", "lint", "-W", "warning", path])
    story.same(f"{name}: mandoc has nothing to say", lint[:2], (0, ""))
    return re.sub(".\b", "", run(["mandoc", "-T", "utf8", "-O", "width=78", path])[1])


def wrong_links(name, source, pages):
    """Links that lead nowhere, or whose text is of no use in a man page."""
    here = manual.anchors(source)
    for number, line in manual.prose(source):
        if re.search(r"\[[^]]*$|\]\([^)]*$", re.sub(r"`[^`]*`", "", line)):
            yield f"{number}: a link goes over two lines"
        for text, target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            page, _, section = target.partition("#")
            to = page[:-3] if page else name
            if to not in pages:
                yield f"{number}: {target}: there is no such page"
            elif section and section not in (manual.anchors(pages[to]) if page else here):
                yield f"{number}: {target}: there is no such section"
            elif page and text != "{}({})".format(*to.rsplit(".", 1)):
                yield f"{number}: the text of {target} must be the page's name"
        for page, section in re.findall(r"\b(penstock[a-z.-]*)\(([1-8])\)", line):
            if f"{page}.{section}" not in pages:
                yield f"{number}: {page}({section}): there is no such page"


def kept(page, part):
    """What stands between the marks of a part; None if they are not there."""
    found = page and re.search(rf"^<!-- {part}: begin [^\n]*-->\n(.*?)^<!-- {part}: end -->$", manual.read(page), re.M | re.S)
    return found and found[1]


with Story("b28 the manual is whole, and fits a screen") as story:
    if PENSTOCK is None:
        raise Skip("penstock is not built: run make")
    pages = manual.pages()
    with open(os.path.join(ROOT, "Makefile.am")) as f:
        listed = re.search(r"^MAN_PAGES = ((?:.*\\\n)*.*)$", f.read(), re.M)[1].replace("\\\n", " ").split()
    story.same("Makefile.am installs every page", sorted(listed), sorted("man/" + name for name in pages))

    values = {line.split()[0]: line.split()[1] for line in run([PENSTOCK, "config"])[1].splitlines()}
    for part, name in ("settings", "penstock.json.5"), ("memory", "penstock.json.5"), ("metrics", "penstock-metrics.7"), ("operations", "penstock-s3.7"):
        made = own(values, run([PENSTOCK, "config", "--man", part])[1])
        story.fact(f"{name} has the {part} of today (else: scripts/generate)", len(made) > 1000 and kept(pages.get(name), part) == made)

    commands = re.findall(r"^COMMAND\((\w+)\)", manual.read(os.path.join(ROOT, "src/cli/command.def")), re.M)
    story.same("penstock(1) has a section for each command",
               [c for c in commands if f"\n### {c}\n" not in manual.read(pages["penstock.1"])], [])
    kinds = re.findall(r'^MEMORY\(\w+, "([^"]+)"', manual.read(os.path.join(ROOT, "src/local/memory.def")), re.M)
    story.same("penstock-fill(7) has each kind of memory",
               [k for k in kinds if f"`{k}`" not in manual.read(pages["penstock-fill.7"])], [])
    story.fact("there are commands and kinds", len(commands) > 5 and len(kinds) > 2, (commands, kinds))

    for name, source in pages.items():
        story.same(f"{name}: every link leads somewhere", list(wrong_links(name, source, pages)), [])
        headings = [line for _, line in manual.prose(source) if line.startswith("## ")]
        story.same(f"{name} ends with what else there is to read", headings[-1:], ["## See also"])
    readme = os.path.join(ROOT, "README.md")
    text = manual.read(readme)
    story.fact("the README is an introduction: 250 lines and 20 KB at most", text.count("\n") <= 250 and len(text.encode()) <= 20_000,
               (text.count("\n"), len(text.encode())))
    targets = [target for _, line in manual.prose(readme) for _, target in LINK.findall(line)]
    story.same("its links lead somewhere", [to for to in targets if not os.path.exists(os.path.join(ROOT, to))], [])
    story.same("it names every page", [name for name in pages if f"man/{name}.md" not in targets], [])
    if not shutil.which("mandoc") or not shutil.which("lowdown"):
        raise Skip("mandoc or lowdown is not installed: run scripts/tools all")
    for name, source in pages.items():
        shown = rendered(story, name, source)
        story.same(f"{name} fits 80 columns", [line for line in shown.splitlines() if len(line) > 80], [])
        words = re.findall(r"[A-Za-z]{4,}", re.sub(r"<!--.*?-->|\]\([^)]*\)|```\w*", "", manual.read(source), flags=re.S))
        lost = {word.lower() for word in words} - {word.lower() for word in re.findall(r"[A-Za-z]+", re.sub(r"-\n *", "-", shown))}
        story.fact(f"{name} has every word of its source", len(lost) == 0, sorted(lost)[:20])
