"""index_run.py - an index of millions of objects. SPDX-License-Identifier: Apache-2.0

index_fill stores N objects through the store's own interface (scripts/bench index --n 10m; 1m if not given). Each
object has 64 bytes of data, so that 10 million need 5 GB of disk and not 45: the index, the tables of contents and
the ages have one entry for an object of any size up to 1 MiB. Extents have 4 MiB, so that there are as many (about
1,000 for 10 million objects) as 64 MiB extents full of 4 KiB objects. The files are in the page cache.

  index    bytes an object of the index, with its free pages
  get      a random get of index and record, beside the same with N/10 objects
  ready    seconds until a daemon is ready, after a clean stop
  memory   anonymous memory of that daemon an object, beside a daemon with an empty cache
  ls, du   penstock-ls of a prefix with N/100 keys, and penstock-du of all keys

A cache has an entry for what it holds, and for nothing else: a bucket of 10^11 keys of which 10^6 are read costs
10^6 entries. The origin here has one key of the bucket, and is never asked for a list of more. """

import json
import os
import re
import shutil
import time

from stage import GIB, MIB, Failed, Stage, cpu_us, facts, note, tool

EXTENT = 4 * MIB
DATA_BYTES = 500                      # of extents an object, at most
GETS = 100000


def number_of(text):
    """10m is ten million."""
    match = re.fullmatch(r"(\d+)([km]?)", text.lower())
    if not match:
        raise Failed(f"--n: {text} is not a number such as 200k or 10m")
    return int(match[1]) * {"": 1, "k": 1000, "m": 1000000}[match[2]]


class Folder:
    """A cache folder that index_fill fills."""

    def __init__(self, path, endpoint, count):
        self.path, self.endpoint = path, endpoint
        self.size = max(256 * MIB, count * DATA_BYTES // EXTENT * EXTENT)

    def run(self, **options):
        return facts(tool("index_fill", seconds=7200, folder=self.path, endpoint=self.endpoint, size=self.size,
                          extent=EXTENT, **options))

    def fill(self, start, end):
        done = self.run(**{"from": start, "to": end})
        if done["failed"] or done["entries"] != end:
            raise Failed(f"{done['entries']:.0f} of {end} objects are in the index")
        return done

    def get_us(self, count):
        self.run(to=count, gets=GETS)    # the page cache has all that is read
        return [self.run(to=count, gets=GETS)["us"] for _ in range(3)]


def anonymous_bytes(server):
    with open(f"/proc/{server.process.pid}/status") as f:
        return int(re.search(r"^RssAnon:\s+(\d+) kB", f.read(), re.M)[1]) * 1024


def start(stage, origin, folder):
    return stage.subject(origin, folder.size, extent_size=f"{EXTENT // MIB}MiB", cache_dir=folder.path)


def ask(server, what, **query):
    """Returns the seconds and CPU seconds, the number of rows, and the sum of their objects."""
    begun, used = time.monotonic(), cpu_us([server.process.pid])
    reply = server.client.ask("GET", "pile", query=[(f"penstock-{what}", "")] +
                              [(name.replace("_", "-"), str(value)) for name, value in query.items()])
    seconds = time.monotonic() - begun, (cpu_us([server.process.pid]) - used) / 1e6
    if reply.status != 200:
        raise Failed(f"penstock-{what}: {reply.status} {reply.error}")
    lines = [json.loads(line) for line in reply.body.splitlines()]
    return seconds, len(lines) - 1, sum(line["objects"] for line in lines[:-1])


def measure(figures, stage, origin, folder, count):
    """What a daemon does with the folder."""
    case, ready, memory, ls, du = f"n={count}", [], [], [], []
    empty = Folder(folder.path + "-empty", folder.endpoint, count)
    empty.size = folder.size
    server = start(stage, origin, empty)
    time.sleep(2)
    least = anonymous_bytes(server)
    server.stop()
    for _ in range(3):
        server = start(stage, origin, folder)
        ready.append(server.ready_s)
        time.sleep(2)
        memory.append((anonymous_bytes(server) - least) / count)
        seconds, rows, objects = ask(server, "ls", prefix="07/", max_keys=100000)
        if rows != min(100000, count // 100) or objects != rows:
            raise Failed(f"penstock-ls found {rows} rows of {count // 100}")
        ls.append(seconds)
        seconds, rows, objects = ask(server, "du")
        if objects != count:
            raise Failed(f"penstock-du found {objects} of {count} objects")
        du.append(seconds)
        server.stop()
    figures.put("index", case, "ready", "s", ready)
    figures.put("index", case, "memory", "B an object", memory)
    for what, took in ((f"ls of {count // 100} keys", ls), ("du of all", du)):
        figures.put("index", case, what, "s", [seconds for seconds, _ in took])
        figures.put("index", case, what, "s of CPU", [used for _, used in took])


def run(figures, quick, subject, n=None):
    if subject != "penstock":
        note("index: only penstock")
        return
    count = number_of(n or ("100k" if quick else "1m"))
    with Stage(quick, subject) as stage:
        need = count * DATA_BYTES + count * 100 + GIB
        if shutil.disk_usage(stage.folder).free < need:
            raise Failed(f"{stage.folder} needs {need // MIB} MiB of space; set BENCH_FOLDER")
        origin = stage.origin("object=pile/07/object-00000007 64")
        folder = Folder(os.path.join(stage.folder, "pile"), origin.url, count)
        folder.fill(0, count // 10)
        few = folder.get_us(count // 10)
        done = folder.fill(count // 10, count)
        many = folder.get_us(count)
        case = f"n={count}"
        figures.put("index", case, "index", "B an object", [done["index_bytes"] / count])
        figures.put("index", case, "get", "us", many, f"get of {count // 10}", few)
        measure(figures, stage, origin, folder, count)
