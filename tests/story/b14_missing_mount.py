"""A cache folder on a mount that is missing: nothing is written to the disk below, also as root."""
from harness import *

with Story("b14 a cache folder whose mount is missing stays empty", seconds=60) as story:
    origin = story.origin("object=bucket/a 1000")

    def kept_off(text, server, *words):
        story.same(f"{text}: objects come", server.get("bucket/a").status, 200)
        line = wait_for(f"{text}: the log says so", lambda: next(
            (one for one in map(json.loads, server.log().splitlines())
             if one["event"] == "cache_folder" and words[0] in one.get("why", "")), None), 20)
        story.fact(f"{text}: why, and what to do", all(word in line["why"] for word in words), line)
        story.same(f"{text}: the line has the folder", line.get("path"), server.cache_dir.replace(" ", "%20"))

    server = story.penstock(origin=origin.url, cache_dir=story.path("no/such/cache"), log_format="json")
    kept_off("a folder above that is missing", server, story.path("no/such"), "is not there", "make that folder", "cache_dir")
    story.fact("... is not made", not os.path.exists(story.path("no")))
    server.stop()
    server = story.penstock(origin=origin.url, cache_dir=story.path("new"))
    story.same("the last part of the path is made, for its owner only",
               os.stat(story.path("new")).st_mode & 0o777, 0o700)
    server.stop()

    if os.geteuid() != 0 or run(["unshare", "-m", "true"])[0] != 0 or not os.path.exists("/etc/fstab"):
        story.note("not root, or no mount namespaces here: a missing mount was not tried")
    else:
        nvme = story.path("nvme disk")
        os.makedirs(nvme)
        with open(story.path("fstab"), "w") as f:
            f.write(f"/dev/nvme9n1 {nvme.replace(' ', chr(92) + '040')} xfs defaults,nofail 0 2\n")
        binary = story.path("in-a-namespace")
        with open(binary, "w") as f:
            f.write(f"#!/bin/sh\nexec unshare -m sh -c 'mount --bind {story.path('fstab')} /etc/fstab && exec {PENSTOCK} \"$@\"' "
                    "penstock \"$@\"\n")
        os.chmod(binary, 0o755)
        import harness
        harness.PENSTOCK = binary
        server = story.penstock(origin=origin.url, cache_dir=nvme + "/cache", cache_size="64MiB", log_format="json")
        kept_off("a mount that is missing", server, nvme, "/etc/fstab", "nothing is mounted", "cache_dir")
        story.same("... nothing is written below it", os.listdir(nvme), [])

        def inside(*argv):
            return run(["nsenter", "-t", str(server.pid), "-m", *argv])[0]
        story.same("it is mounted", inside("mount", "-t", "tmpfs", "-o", "size=128m", "penstock-story", nvme), 0)
        wait_for("the cache is used then", lambda: server.get("bucket/a").cache == "hit")
        story.same("it goes away", inside("umount", "-l", nvme), 0)
        wait_for("the folder is out of service", lambda: server.metric("penstock_store_serving") == 0)
        story.same("objects come", server.get("bucket/a").status, 200)
        server.stop()
        story.same("and nothing was written below", os.listdir(nvme), [])

        # ---- a disk that no table of mounts names ----
        hand = story.path("by-hand")
        os.makedirs(hand)
        mount = f"mount -t tmpfs -o size=128m penstock-story {hand}"
        with open(binary, "w") as f:
            f.write(f"#!/bin/sh\nexec unshare -m sh -c '{mount} && exec {PENSTOCK} \"$@\"' penstock \"$@\"\n")
        server = story.penstock(origin=origin.url, cache_dir=hand + "/cache", cache_size="64MiB", log_format="json")
        wait_for("the cache is used", lambda: server.get("bucket/a").cache == "hit", 15)
        story.same("a disk that was mounted by hand goes away", inside("umount", "-l", hand), 0)
        wait_for("its folder is out of service", lambda: server.metric("penstock_store_serving") == 0, 15)
        kept_off("a disk that was unmounted", server, "was unmounted while Penstock ran", "mount it again", "restart")
        story.same("... nothing is written to the disk below", inside("test", "-e", hand + "/cache"), 1)
        story.same("it is mounted again, empty", inside(*mount.split()), 0)
        wait_for("the folder is used again", lambda: server.get("bucket/a").cache == "hit", 20)
        server.stop()
        story.same("and nothing was written below", os.listdir(hand), [])
