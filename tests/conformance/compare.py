"""compare.py - two runs of a suite, case by case. SPDX-License-Identifier: Apache-2.0

A run is {case: message}; the message of a case that passed is "". What passes directly must pass
through Penstock. What does not, is run again by itself on both sides: a suite that runs many cases
at once has its own accidents, and the two transcripts are what one works with. A difference that
stays must be listed, with its reason, in a file: "name: [row] reason", a line each, "#" comments. The
row is an entry of penstock-s3(7), "Where an answer is not the origin's"."""
import fnmatch
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "story"))
from differs import rows  # noqa: E402
from harness import *  # noqa: E402,F401,F403 (for the suites)


def differ(direct, through):
    """Names of cases that pass in the one run and not in the other."""
    return sorted(name for name, message in direct.items()
                  if not message and through.get(name, "was not run"))


def listed(path):
    """{name: reason} of the differences we know."""
    known, named = {}, rows()
    with open(path) as f:
        for line in f:
            name, _, reason = line.partition(": ")    # s3-tests have "::" in theirs
            if line.strip() and not line.startswith("#"):
                row = re.match(r"\[([a-z0-9-]+)\] \S", reason)
                check(row and row.group(1) in named, f"{path}: {name.strip()} names no entry of penstock-s3(7)")
                known[name.strip()] = reason.strip()
    return known


def reason_of(name, known):
    """A listed name may end in "*"."""
    return next((known[k] for k in known if fnmatch.fnmatchcase(name, k)), None)


class Transcripts:
    """A folder that gets, for each case that differs, what was said on both sides."""

    def __init__(self, folder):
        self.folder, self.kept = folder, {}
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(folder):
            if name.endswith(".txt"):
                os.unlink(os.path.join(folder, name))

    def write(self, name, **sides):
        self.kept[name] = sides
        for side, text in sides.items():
            safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
            with open(os.path.join(self.folder, f"{safe}.{side}.txt"), "w") as f:
                f.write(text)

    def write_listed(self, path, known, brief):
        """One file with the reason and both sides of each difference that is listed by its name; not
        of those that are only a message's words."""
        with open(path, "w") as f:
            for name in sorted(n for n in set(known) & set(self.kept) if not known[n].startswith("[messages]")):
                f.write(f"==== {name}: {known[name]}\n")
                for side, text in sorted(self.kept[name].items()):
                    f.write(f"---- {side}\n{brief(text)}\n")


def verdict(story, text, direct, through, left_out, known):
    """Prints the row of this run and every difference; states the fact."""
    names = differ(direct, through)
    new = [name for name in names if not reason_of(name, known)]
    passed = sum(not m for m in direct.values())
    print(f"      | {text} | {len(direct) + len(left_out)} cases | direct {passed + len(left_out)} | "
          f"left out {len(left_out)} | through {passed - len(names)} | differ {len(names)}, "
          f"of them listed {len(names) - len(new)} |", flush=True)
    for name in names:
        story.note(f"{name}: {through.get(name, 'was not run')[:300]}"
                   + (f" [{reason_of(name, known)}]" if reason_of(name, known) else ""))
    for name in sorted(name for name, message in direct.items() if message):
        story.note(f"{name} does not pass directly: {direct[name][:200]}")
    story.fact(f"{text}: what passes directly passes through Penstock", not new,
               f"{len(new)} cases don't: {' '.join(new[:20])}")
    return names
