"""table.py - the manual's list of clients, from what a run saw. SPDX-License-Identifier: Apache-2.0

    table.py PAGE SEEN          says whether the page has this list, versions aside
    table.py --write PAGE SEEN  writes it between the markers"""
import json
import re
import sys
import textwrap

BEGIN, END = "<!-- clients: begin (written by scripts/clients) -->", "<!-- clients: end -->"
STEPS = [("list", "list"), ("put small", "put"), ("put large", "multipart"), ("part, cold", "range"),
         ("get, cold", "get"), ("size", "head"), ("copy", "copy"), ("delete", "delete"),
         ("presigned", "presign")]
WAYS = [("http", "http"), ("https", "https"), ("host", "bucket in host")]


def entry(name, row):
    """A client: its version, the option that points it at Penstock, what it does, and over what."""
    steps = [word for step, word in STEPS if step in row["steps"] and (row["parts"] or word != "multipart")]
    does = "all" if len(steps) == len(STEPS) else ", ".join(steps)
    ways = ", ".join(words if row[way] else f"{words} DIFFERS" for way, words in WAYS if way in row)
    text = f"- **{name}** {row['version']}, by {row['pointed']}. Does: {does}. Same over: {ways}."
    return textwrap.fill(text, 110, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def table(seen):
    return "\n".join(entry(name, row) for name, row in seen.items())


def without_versions(text):
    """What is compared: a version's length moves the ends of lines, too."""
    return re.sub(r"(- \*\*[^*]+\*\*) [^,]+,", r"\1,", " ".join(text.split()))


def main():
    write = sys.argv[1] == "--write"
    page, seen = sys.argv[-2:]
    with open(seen) as f:
        new = table(json.load(f))
    with open(page) as f:
        text = f.read()
    head, begin, rest = text.partition(BEGIN)
    old, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{page}: there are no markers for the list of clients")
    if write:
        with open(page, "w") as f:
            f.write(f"{head}{BEGIN}\n{new}\n{END}{tail}")
    elif without_versions(old) != without_versions(new):
        sys.exit(f"{page}: the list of clients is not what this run saw: run scripts/clients\n{new}")


if __name__ == "__main__":
    main()
