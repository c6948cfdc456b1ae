"""penstock fsck names damage in a stopped daemon's folder, and a repair removes it.

Bits flip in records of some objects, in the index, and in a table of contents. fsck names each; a check
changes nothing. After the repair nothing is wrong, and the daemon answers with the right bytes. A folder in
use is not checked: fsck names the process."""
import json

from damage import flip_bit
from harness import *

COUNT = 40
SIZE = 200_000


def fsck(*more):
    status, out, err = run([PENSTOCK, "fsck", "--json", "--cache-dir", server.cache_dir, *more])
    return status, json.loads(out)["folders"][0]


def findings(report, wrong=True):
    return {f["name"]: f["count"] for f in report["findings"] if f["wrong"] == wrong}


def flip(path, at):
    flip_bit(path, at, 3)


def place(key):
    """Where the first block of an object lies."""
    return server.find_page(key, 1, 0)[0]


with Story("d12 penstock fsck finds damage and repairs it", 120) as story:
    keys = [f"bucket/set/{i:03d}" for i in range(COUNT)]
    origin = story.origin(*[f"object={key} {SIZE}" for key in keys])
    server = story.penstock(origin=origin.url, freshness="immutable")

    def wrong_ones():
        return [k for k in keys if (r := server.get(k)).error or r.body != expect(k, 1, 0, SIZE)]

    story.same("cold", wrong_ones(), [])
    origin.quiet()

    status, out, err = run([PENSTOCK, "fsck", "--cache-dir", server.cache_dir])
    story.same("a folder in use: exit status", status, 2)
    story.fact("... and the process is named", f"process {server.pid} (" in out, out)

    story.same("it stops cleanly", server.stop(), 0)
    status, report = fsck()
    story.same("a clean folder: exit status", status, 0)
    story.same("... nothing is wrong", findings(report), {})
    story.same("... nothing is noted", findings(report, wrong=False), {})
    story.fact("... all records are read", report["totals"]["records"] >= COUNT, report["totals"])

    server = server.again()
    origin.reset()
    story.same("after a check, everything is right", wrong_ones(), [])
    story.same("... and still proved: the origin is not asked", origin.counts()["requests"], 0)
    story.same("it stops cleanly", server.stop(), 0)

    damaged = keys[3:6]
    for key in damaged:
        flip(*place(key))
    status, report = fsck()
    story.same("three flipped bits in data: exit status", status, 1)
    story.same("... three damaged records", findings(report), {"record_damaged": len(damaged)})
    story.same("... and examples", len(report["findings"][0]["examples"]), 3)
    story.same("--quick reads no data", fsck("--quick")[0], 0)
    status, out, err = run([PENSTOCK, "fsck", "--cache-dir", server.cache_dir])
    story.fact("people are told what a start would do",
               "WRONG record_damaged: 3" in out and "fails the checksum" in out and
               "fetches the bytes from the origin" in out, out)
    status, report = fsck("--repair")
    story.same("the repair: exit status", status, 0)
    story.fact("... something was repaired", report["repaired"], report)
    status, report = fsck()
    story.same("afterwards: exit status", status, 0)
    story.same("... the damage is noted", findings(report, wrong=False), {"dead_record_damaged": 3})
    story.same("... no entry is proved", report["totals"]["proved_entries"], 0)

    server = server.again()
    bad = server.metric("penstock_store_bad_blocks_total")
    origin.reset()
    story.same("after the repair, everything is right", wrong_ones(), [])
    story.same("... the damaged objects came from the origin", sorted(k for k in keys if origin.counts(k)["get"]),
               damaged)
    story.fact("... the others were revalidated", all(origin.counts(k)["head"] for k in keys[10:12]),
               origin.counts())
    story.same("... no read met damage", server.metric("penstock_store_bad_blocks_total"), bad)
    origin.quiet()
    story.same("it stops cleanly", server.stop(), 0)

    index = os.path.join(server.cache_dir, "index/data.mdb")
    for at in range(2 * 4096, os.path.getsize(index), 96):
        flip(index, at)
    extent = sorted(server.extents())[0]
    flip(extent, os.path.getsize(extent) - 4096 + 5)
    status, report = fsck()
    story.same("a damaged index and a damaged table: exit status", status, 1)
    # without an index, the records that were damaged before count as used
    story.same("... both are named, and the mark, which does not fit any more", sorted(findings(report)),
               ["clean_wrong", "index_damaged", "record_damaged", "table_damaged"])
    story.same("the repair: exit status", fsck("--repair")[0], 0)
    story.same("afterwards nothing is wrong", findings(fsck()[1]), {})
    pins = os.path.join(server.cache_dir, "pins")
    with open(pins, "wb") as file:
        file.write(b"damage")
    check = [PENSTOCK, "fsck", "--cache-dir", server.cache_dir]
    status, out, err = run(check)    # the mark of the clean stop does not fit the damaged file
    story.fact("damage that no repair removes, beside other damage",
               status == 1 and "--repair does not change 1 of these" in out, out)
    for text, more in (("after the repair it is left", ["--repair"]), ("a check does not advise to repair it", []),
                       ("a repair changes nothing", ["--repair"])):
        status, out, err = run([*check, *more])
        story.fact(f"... {text}", status == 1 and "--repair does not change what is still wrong" in out and
                   "removes what is wrong" not in out, out)
    os.remove(pins)

    server = server.again()
    origin.reset()
    story.same("everything is right", wrong_ones(), [])
    story.same("... without a byte from the origin", sum(origin.counts(k)["get"] for k in keys), 0)
    origin.quiet()
    story.same("it stops cleanly", server.stop(), 0)

    foreign = os.path.join(server.cache_dir, "extents/00000500")
    with open(foreign, "wb") as file:
        file.truncate(600 * GIB)
    status, report = fsck()
    story.same("a sparse file of another program: exit status", status, 1)
    story.same("... it is named", findings(report), {"extent_unusable": 1})
    server = server.again()
    origin.reset()
    story.same("everything is right", wrong_ones(), [])
    story.same("... without a byte from the origin", sum(origin.counts(k)["get"] for k in keys), 0)
    story.fact("... the log says what to do", "cache_files_unusable" in server.log() and "fsck --repair" in server.log())
    story.same("it stops cleanly", server.stop(), 0)
    story.same("the repair: exit status", fsck("--repair")[0], 0)
    story.fact("... removes the file", not os.path.exists(foreign))
    story.same("... afterwards nothing is wrong", findings(fsck()[1]), {})

    os.remove(os.path.join(server.cache_dir, "format"))
    with open(os.path.join(server.cache_dir, "notes.txt"), "w") as file:
        file.write("of another program")
    status, report = fsck()
    story.same("without 'format', and with a file of another program: exit status", status, 2)
    story.fact("... the file is named", not report["checked"] and
               "'notes.txt', which is not Penstock's" in report["why"], report)
