"""table.py - the README's table of clients, from what a run saw. SPDX-License-Identifier: Apache-2.0

    table.py README SEEN          says whether the README has this table, versions aside
    table.py --write README SEEN  writes it between the markers"""
import json
import re
import sys

BEGIN, END = "<!-- clients: begin (written by scripts/clients) -->", "<!-- clients: end -->"
STEPS = [("list", "list"), ("put small", "put"), ("put large", "multipart"), ("part, cold", "range"),
         ("get, cold", "get"), ("size", "head"), ("copy", "copy"), ("delete", "delete"),
         ("presigned", "presign")]


def table(seen):
    lines = ["| client | version | pointed by | does | http | https | bucket in host |",
             "|---|---|---|---|---|---|---|"]
    for name, row in seen.items():
        steps = [word for step, word in STEPS if step in row["steps"]
                 and (row["parts"] or word != "multipart")]
        does = "all" if len(steps) == len(STEPS) else ", ".join(steps)
        ways = ["same" if row.get(way) else "—" if way not in row else "DIFFERS"
                for way in ("http", "https", "host")]
        lines.append(f"| {name} | {row['version']} | {row['pointed']} | {does} | {' | '.join(ways)} |")
    return "\n".join(lines)


def without_versions(text):
    return re.sub(r"^(\| [^|]+) \| [^|]+ \|", r"\1 | |", text, flags=re.M)


def main():
    write = sys.argv[1] == "--write"
    readme, seen = sys.argv[-2:]
    with open(seen) as f:
        new = table(json.load(f))
    with open(readme) as f:
        text = f.read()
    head, begin, rest = text.partition(BEGIN)
    old, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{readme}: there are no markers for the table of clients")
    if write:
        with open(readme, "w") as f:
            f.write(f"{head}{BEGIN}\n{new}\n{END}{tail}")
    elif without_versions(old.strip()) != without_versions(new):
        sys.exit(f"{readme}: the table of clients is not what this run saw: run scripts/clients\n{new}")


if __name__ == "__main__":
    main()
