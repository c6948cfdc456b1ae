"""b24_help.py - help of each command and setting, and completion in three shells. SPDX-License-Identifier: Apache-2.0

Completion is tried in the shells themselves: bash by its function, fish by `complete -C`, zsh on a terminal."""

import os
import pty
import re
import select
import shutil
import subprocess
import time

from harness import PATIENCE, PENSTOCK, ROOT, Skip, Story

READS = r"[\s\S]*\x1b\[\?2004h"    # what zsh says when it reads a line from then on
with open(os.path.join(ROOT, "src/cli/command.def")) as f:
    COMMANDS = re.findall(r"^COMMAND\((\w+)\)", f.read(), re.M)

if PENSTOCK:    # completion runs the penstock on the line
    os.environ["PATH"] = os.path.dirname(os.path.abspath(PENSTOCK)) + ":" + os.environ["PATH"]


def call(*args):
    done = subprocess.run([PENSTOCK, *args], capture_output=True, text=True, timeout=PATIENCE,
                          env={"PATH": os.environ["PATH"], "COLUMNS": "80"})
    return done.returncode, done.stdout, done.stderr


def in_bash(script, line):
    words = line.split(" ")
    code = (f". {script}; COMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; _penstock; "
            'printf "%s\\n" "${COMPREPLY[@]}"')
    return set(subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout.split())


def in_fish(script, line):
    out = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], capture_output=True, text=True,
                         env={"PATH": os.environ["PATH"], "HOME": os.path.dirname(script)})
    return {row.split("\t")[0] for row in out.stdout.splitlines()}


class Zsh:
    """A shell on a terminal, as a person has it. Each line is typed, then Tab asks for what may follow."""

    def __init__(self, script):
        home = os.path.dirname(script)
        os.makedirs(os.path.join(home, "functions"), exist_ok=True)
        shutil.copy(script, os.path.join(home, "functions", "_penstock"))
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(HOME=home, TERM="dumb", COLUMNS="200", PS1="PROMPT ")
            os.execvp("zsh", ["zsh", "-f", "-i"])
        self.until(READS)
        self.send(f"fpath=({home}/functions $fpath); autoload -Uz compinit; compinit -u -D; LISTMAX=1000; "
                  "setopt nolistbeep; unsetopt alwayslastprompt; print rea''dy\n")
        self.until(r"\nready" + READS)

    def send(self, text):
        os.write(self.fd, text.encode())

    def until(self, pattern, seconds=PATIENCE):
        seen, end = "", time.monotonic() + seconds
        while not re.search(pattern, seen) and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.2)[0]:
                seen += os.read(self.fd, 65536).decode(errors="replace")
        return seen

    def after(self, line, pattern):
        # Ctrl-D on a line that is not empty lists what may follow, unless more input waits; Ctrl-U empties the line.
        self.send(line + "\x04")
        out = self.until(pattern)
        self.send("\x15print do''ne\n")
        self.until(r"\ndone" + READS)
        return re.search(pattern, out) is not None and "--ttl" not in out, out

    def close(self):
        self.send("\x15exit\n")
        os.close(self.fd)
        os.waitpid(self.pid, 0)


with Story("b24 each command explains itself, and three shells complete it") as story:
    if PENSTOCK is None:
        raise Skip("penstock is not built: run make")

    for name in COMMANDS:
        status, out, _ = call(name, "--help")
        story.fact(f"{name} --help is its own", status == 0 and out.startswith(f"Usage: penstock {name}"), out)
        story.same(f"help {name} is the same", call("help", name)[1], out)
        story.fact(f"{name} --help fits 80 columns", max(map(len, out.splitlines())) <= 80, out)
    _, out, _ = call("stat", "--help")
    story.fact("stat --help names its options", "--json" in out and "--completion" not in out, out)
    _, out, _ = call("config", "--help")
    story.fact("config --help names its options", "--completion bash|zsh|fish" in out and "--example" in out, out)

    status, out, _ = call("help", "settings")
    lines = out.splitlines()
    story.fact("help settings fits 80 columns", status == 0 and max(map(len, lines)) <= 80, max(lines, key=len))
    heads = [line for line in lines if line and not line.startswith(" ")]
    story.fact("it is in groups with a heading", {"Cache folder", "Freshness", "Fill socket", "Log"} <= set(heads), heads)
    story.fact("cache_size stands below its heading",
               re.search(r"\nCache folder\n(  .*\n)*  cache_size +\S", out) is not None, out)
    status, out, _ = call("help", "cache_size")
    story.fact("help of one setting is that row, with all its names",
               status == 0 and "--cache-size" in out and "PENSTOCK_CACHE_SIZE" in out and len(out.splitlines()) < 12, out)
    story.same("a dash is as good", call("help", "--cache-size")[1], out)
    status, _, err = call("help", "cache_siz")
    story.fact("help of what is none names the nearest", status == 2 and "cache_size" in err, err)

    scripts = {}
    for shell in ("bash", "zsh", "fish"):
        status, out, _ = call("config", "--completion", shell)
        scripts[shell] = story.path(f"completion.{shell}")
        with open(scripts[shell], "w") as f:
            f.write(out)
        story.fact(f"there is a completion for {shell}", status == 0 and out, out)
    status, _, err = call("config", "--completion", "tcsh")
    story.fact("none for another, and it says for which", status == 2 and "the value of --completion must be one of bash|zsh|fish" in err, err)

    missing = [shell for shell in ("bash", "fish", "zsh") if not shutil.which(shell)]
    if missing:
        raise Skip(f"{', '.join(missing)} is not installed: run scripts/tools all")
    for typed, words in (("u", {"uring"}), ("", {"auto", "uring", "threads"})):    # bash makes a word of "="
        story.same(f"bash: behind --io={typed}", in_bash(scripts["bash"], f"penstock serve --io = {typed}".rstrip()), words)
    story.same("fish: behind --io=u", in_fish(scripts["fish"], "penstock serve --io=u"), {"--io=uring"})
    for shell, ask in (("bash", in_bash), ("fish", in_fish)):
        script = scripts[shell]
        story.same(f"{shell}: commands", ask(script, "penstock "), set(COMMANDS))
        story.same(f"{shell}: the words of a choice", ask(script, "penstock serve --io "), {"auto", "uring", "threads"})
        flags = ask(script, "penstock serve --cache-")
        story.fact(f"{shell}: settings as flags", {"--cache-dir", "--cache-size"} <= flags and "--ttl" not in flags, flags)
        story.fact(f"{shell}: a secret's file, too", "--secret-key-file" in ask(script, "penstock serve --secret-"), "")
        story.same(f"{shell}: stat's own options", ask(script, "penstock stat --js"), {"--json"})
        story.same(f"{shell}: which serve has not", ask(script, "penstock serve --js"), set())
        story.same(f"{shell}: the words of an option", ask(script, "penstock config --completion "), {"bash", "zsh", "fish"})
        story.fact(f"{shell}: files and flags behind check", {"--strict", os.path.basename(script)}
                   <= set(map(os.path.basename, ask(script, "penstock check ") | ask(script, "penstock check --s")
                              | ask(script, f"penstock check {os.path.dirname(script)}/"))), "")
        story.fact(f"{shell}: files behind a flag that takes one", os.path.basename(script) in set(
            map(os.path.basename, ask(script, f"penstock serve --config {os.path.dirname(script)}/"))), "")
        story.fact(f"{shell}: what help knows", {"settings", "operations", "serve"} <= ask(script, "penstock help "), "")
    zsh = Zsh(scripts["zsh"])
    try:
        for what, line, pattern in (
                ("commands", "penstock ", r"\ncheck (.*\n)+serve (.*\n)+version "),
                ("the words of a choice", "penstock serve --io ", r"\nauto +threads +uring"),
                ("settings as flags", "penstock serve --cache-", r"\n--cache-dir (.*\n)+--cache-size "),
                ("the words of an option", "penstock config --completion ", r"\nbash +fish +zsh")):
            story.fact(f"zsh: {what}", *zsh.after(line, pattern))
    finally:
        zsh.close()
