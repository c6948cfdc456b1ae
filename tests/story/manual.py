"""manual.py - the pages of man/ and the README, as stories read them. SPDX-License-Identifier: Apache-2.0

A fenced block of sh, python, c or json is an example. A comment on the line before it says what is different:

    <!-- not run: it needs root -->          syntax alone
    <!-- parsed: a message, no settings -->  the same, of json

A block of text directly behind an example is what it prints: "..." in a line stands for anything."""

import glob
import os
import re

from harness import ROOT

EXAMPLES = ("sh", "python", "c", "json")


class Block:
    """One fenced block: its page, line, language, text, and what the comment above it says (or "")."""

    def __init__(self, page, line, language, text, mark):
        self.page, self.line, self.language, self.text, self.mark = page, line, language, text, mark
        self.prints = None    # the text block behind it

    def __str__(self):
        return f"{self.page}:{self.line} ({self.language})"


def pages():
    """{"penstock.1": path of its source}"""
    return {os.path.basename(path)[:-3]: path for path in sorted(glob.glob(os.path.join(ROOT, "man", "*.md")))}


def read(path):
    with open(path) as f:
        return f.read()


def blocks(path):
    """Every fenced block of a file, in order."""
    found, lines, at = [], read(path).split("\n"), 0
    while at < len(lines):
        begin = re.match(r"( *)```(\w*)$", lines[at])
        if not begin:
            at += 1
            continue
        end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
        text = "".join(line[len(begin[1]):] + "\n" for line in lines[at + 1:end])
        mark = re.match(r" *<!-- (.*) -->$", lines[at - 1]) if at else None
        block = Block(os.path.relpath(path, ROOT), at + 1, begin[2], text, mark[1] if mark else "")
        behind = not any(line.strip() for line in lines[found[-1].end + 1:at]) if found else False
        if behind and block.language == "text" and found[-1].language in EXAMPLES:
            found[-1].prints = text
        block.end = end
        found.append(block)
        at = end + 1
    return found


def prose(path):
    """The text of a page without its fenced blocks, by (line number, line)."""
    inside = False
    for number, line in enumerate(read(path).split("\n"), 1):
        if re.match(r" *```", line):
            inside = not inside
        elif not inside:
            yield number, line


def anchor(heading):
    """As web hosts make it of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower().replace("`", "")).replace(" ", "-")


def anchors(path):
    return {anchor(line.lstrip("# ")) for _, line in prose(path) if line.startswith("#")}
