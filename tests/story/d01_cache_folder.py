"""A cache folder that is not as it should be: one clear line at start, or service without it."""
from harness import *

SIZE = 3 * MIB

def crc32c(text):
    crc = 0xFFFFFFFF
    for byte in text:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF

with Story("d01 the cache folder is full, read-only, missing, foreign, newer or held; the port is taken", seconds=150) as story:
    origin = story.origin()
    key = f"bucket/size-{SIZE}-x"

    def start_fails(text, server, *words):
        wait_for(f"{text}: it gives up", lambda: not server.alive())
        log = server.log().strip()
        story.fact(f"{text}: status is not 0", server.process.returncode not in (0, None)
                   and server.process.returncode > 0, server.process.returncode)
        story.fact(f"{text}: it says so", all(w.lower() in log.lower() for w in words), log[-600:])

    def serves(text, server):
        for turn in ("first", "second"):
            story.bytes(f"{text}: {turn} read is right", server.get(key), key, 0, SIZE)

    server = story.penstock(origin=origin.url, cache_dir=story.path("cache"))
    serves("a missing folder is made", server)
    story.same("... for its owner only", os.stat(story.path("cache")).st_mode & 0o777, 0o700)

    second = story.penstock(origin=origin.url, cache_dir=server.cache_dir)
    serves("held by another process: it serves without", second)
    story.fact("... and says so", re.search("held|busy|another process", second.log(), re.I),
               second.log()[-800:])
    second.stop()
    taken = story.penstock(wait=False, origin=origin.url, cache_dir=story.path("other"),
                           listen=server.settings["listen"])
    start_fails("the port is taken", taken, str(server.port))
    server.stop()

    version = [p for p in glob.glob(server.cache_dir + "/*")
               if "format" in os.path.basename(p).lower()]
    story.fact("there is a format file", version, os.listdir(server.cache_dir))
    if version:
        with open(version[0], "rb") as f:
            format_text = f.read()
        story.same("it begins with a magic word and version 2", format_text[:12],
                   b"PENSTOCK\x02\0\0\0")
        newer = format_text[:8] + b"\x63\0\0\0" + format_text[12:-4]
        newer += struct.pack("<I", crc32c(newer))
        with open(version[0], "wb") as f:
            f.write(newer)
        start_fails("a newer format", Penstock(story, server.settings, wait=False), "format")
        with open(version[0], "wb") as f:
            f.write(format_text)
        server = Penstock(story, server.settings)
        origin.reset()
        story.bytes("put back, all is warm", server.get(key), key, 0, SIZE)
        story.same("... nothing was lost", origin.counts()["bytes"], 0)
        server.stop()
        with open(version[0], "wb") as f:
            f.write(format_text[:40])
        open(server.cache_dir + "/thesis.tex", "w").close()
        start_fails("a damaged format beside somebody's file",
                    Penstock(story, server.settings, wait=False), "thesis.tex", "not Penstock's")
        os.unlink(server.cache_dir + "/thesis.tex")
        server = Penstock(story, server.settings)
        serves("a damaged format", server)
        story.same("... one warning", server.log().count("cache_folder_anew"), 1)
        story.fact("... and stat says so", "'format' was damaged" in run(
            [PENSTOCK, "stat", "--admin-listen", server.settings["admin_listen"]])[1])
        server.stop()
        server = Penstock(story, server.settings)
        origin.reset()
        story.bytes("... and is as any other from then on", server.get(key), key, 0, SIZE)
        story.same("... nothing was lost since", origin.counts()["bytes"], 0)
        server.stop()

    os.makedirs(story.path("foreign"))
    with open(story.path("foreign/thesis.tex"), "w") as f:
        f.write("years of work")
    foreign = story.penstock(wait=False, origin=origin.url, cache_dir=story.path("foreign"))
    start_fails("a folder with somebody's files", foreign, story.path("foreign"))
    story.same("... which are still there", open(story.path("foreign/thesis.tex")).read(),
               "years of work")
    with open(story.path("file"), "w") as f:
        f.write("x")
    start_fails("a file instead of a folder",
                story.penstock(wait=False, origin=origin.url, cache_dir=story.path("file")),
                story.path("file"))

    if os.geteuid() == 0 and shutil.which("mount"):
        os.makedirs(story.path("small"))
        if run(["mount", "-t", "tmpfs", "-o", "size=96m", "penstock-story",
                story.path("small")])[0] == 0:
            try:
                full = story.penstock(origin=origin.url, cache_dir=story.path("small/cache"),
                                      cache_size="64MiB")
                serves("a small folder", full)
                filler = open(story.path("small/filler"), "wb")
                try:
                    while True:
                        filler.write(bytes(65536))
                        filler.flush()
                except OSError:
                    pass
                for number in range(20):
                    other = f"bucket/{number}/size-{SIZE}-x"
                    story.bytes(f"the disk is full: object {number} is right", full.get(other),
                                other, 0, SIZE)
                filler.close()
                os.unlink(story.path("small/filler"))
                status = full.stop()
                story.same("it ends cleanly on a full disk", status, 0)
                run(["mount", "-o", "remount,ro", story.path("small")])
                frozen = story.penstock(wait=False, origin=origin.url,
                                        cache_dir=story.path("small/cache"))
                wait_for("it serves, or has ended", lambda: not frozen.alive() or plain(
                    frozen.port, "GET", "/_/health/ready").status == 200)
                if frozen.alive():
                    serves("a read-only folder: it serves without", frozen)
                    story.fact("... and says so", re.search("read-only|read only|EROFS|written to", frozen.log(), re.I), frozen.log()[-500:])
                    frozen.stop()
                else:
                    start_fails("a read-only folder", frozen, "read-only")
            finally:
                for process in story.processes:
                    if process.alive() and "small" in str(getattr(process, "cache_dir", "")):
                        process.kill()
                run(["umount", "-l", story.path("small")])
        else:
            story.note("no mount is allowed here: full and read-only disks were not tried")
    else:
        story.note("not root: full and read-only disks were not tried")
