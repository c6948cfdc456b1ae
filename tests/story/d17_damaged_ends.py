"""The end of an extent is damaged on the disk: its records are served on, a purge and the recycler come to an end, and log,
metrics and fsck tell of the damage."""
import json
import struct

from damage import flip_bit
from harness import *

COUNT, SIZE = 12, 300_000
BLOCKS = "penstock_store_bad_blocks_total"
TABLE_AT = 16    # in the footer


def first_extent(server):
    return sorted(server.extents())[0]


def table_of(path):
    """The offset of the table of contents."""
    with open(path, "rb") as f:
        f.seek(-64, os.SEEK_END)
        return struct.unpack_from("<I", f.read(64), TABLE_AT)[0]


def damage_table(path):
    flip_bit(path, table_of(path) + 30, 1)


def damage_footer(path):
    flip_bit(path, os.path.getsize(path) - 64, 1)


def cut_table(path):
    os.truncate(path, table_of(path))


def damage_table_and_header(path):
    """Nobody can list the second record and those behind it."""
    at = table_of(path)
    with open(path, "rb") as f:
        f.seek(at + 48 + 16)    # the offset of the record, in the second row
        record = struct.unpack("<I", f.read(4))[0]
    flip_bit(path, at + 30, 1)
    flip_bit(path, record + 9, 1)


with Story("d17 the end of an extent is damaged", seconds=300) as story:
    keep, drop = ([f"bucket/{name}/{i:02d}" for i in range(COUNT)] for name in ("keep", "drop"))
    keys = [key for pair in zip(keep, drop) for key in pair]    # both kinds lie in each extent
    more = [f"bucket/more/{i:03d}" for i in range(400)]
    origin = story.origin(*[f"object={key} {SIZE}" for key in keys + more])

    def wrong_ones(server, names):
        return [k for k in names if (r := server.get(k)).error or r.body != expect(k, 1, 0, SIZE)]

    def fsck(server, *args):
        status, out, err = run([PENSTOCK, "fsck", "--json", "--cache-dir", server.cache_dir, *args])
        folder = json.loads(out)["folders"][0]
        return status, {f["name"] for f in folder["findings"] if f["wrong"]}

    def purged(server, prefix):
        reply = Client(server.port).ask("POST", "bucket", [("penstock-purge", ""), ("prefix", prefix)])
        story.same("a purge is accepted", reply.status, 200)
        wait_for("the purge ends", lambda: server.metric("penstock_store_bans") == 0)

    for number, (damage, at_rest, found) in enumerate(((damage_table, True, "table_damaged"), (damage_footer, True, "table_damaged"),
                                   (cut_table, True, None), (damage_table, False, "table_damaged"),
                                   (damage_footer, False, "table_damaged"), (cut_table, False, None),
                                   (damage_table_and_header, True, "table_damaged"))):
        name = f"{damage.__name__}, {'at rest' if at_rest else 'in use'}"
        server = story.penstock(origin=origin.url, freshness="immutable", cache_size="64MiB", extent_size="4MiB",
                                scrub_time="1s", cache_dir=story.path(f"cache-{number}"))
        story.same(f"{name}: cold", wrong_ones(server, keys), [])
        server.wait_cached(*keys)
        origin.quiet()
        extent = first_extent(server)
        if at_rest:
            story.same("it stops cleanly", server.stop(), 0)
            damage(extent)
            if found:
                status, names = fsck(server)
                story.fact("... fsck reports it", status == 1 and found in names, names)
            server = server.again()
        else:
            damage(extent)
        if found or not at_rest:
            wait_for("the log tells of it", lambda: "cache_extents_damaged" in server.log())
            lines = [line for line in server.log().splitlines() if "cache_extents_damaged" in line]
            story.same("... once", len(lines), 1)
            story.fact("... with the path, and what to do", server.cache_dir in lines[0] and
                       os.path.basename(extent) in lines[0] and "fsck --repair" in lines[0], lines)
            story.fact("... and a metric counts it", server.metric(BLOCKS) >= 1, server.metric(BLOCKS))
        origin.reset()
        if damage is not damage_table_and_header:
            story.same("the records are served", wrong_ones(server, keys), [])
            story.same("... without the origin", sum(origin.counts(k)["get"] for k in keys), 0)
        purged(server, "drop/")
        origin.reset()
        story.same("what was purged is fetched anew", wrong_ones(server, drop), [])
        story.same("... all of it", sum(origin.counts(k)["get"] for k in drop), COUNT)

        def gone():
            for key in more:
                if not os.path.exists(extent):
                    return True
                server.get(key)
            return False

        wait_for("the recycler gives the extent up", gone)
        story.same("all is served", wrong_ones(server, keys), [])
        story.same("the folder was in service all the time", server.metric("penstock_store_faults_total"), 0)
        origin.quiet()
        story.same("it stops cleanly", server.stop(), 0)
        status, names = fsck(server)
        story.same("fsck finds nothing wrong", (status, names), (0, set()))
