"""The cache folder lies on a file system where each new file belongs to another user, as with `all_squash` of NFS, or vfat
with `uid=`. The daemon may then not set O_NOATIME, and caches all the same."""
import pwd

import harness
from harness import *

with Story("d18 new files in the cache folder belong to another user", seconds=120) as story:
    if os.geteuid() != 0 or not all(map(shutil.which, ("bindfs", "setpriv"))):
        raise Skip("needs root, bindfs and setpriv")
    back, front, daemon = story.path("back"), story.path("front"), story.path("penstock")
    for folder in (back, front):
        os.mkdir(folder)
    disk = Process(story, "bindfs", ["bindfs", "-f", "--force-user=nobody", "--create-for-user=nobody", back, front])
    wait_for("the file system is there", lambda: os.path.ismount(front))
    with open(daemon, "w") as f:    # root without the right to set times and flags of the files of others
        f.write(f'#!/bin/sh\nexec setpriv --bounding-set -fowner --inh-caps -fowner {harness.PENSTOCK} "$@"\n')
    os.chmod(daemon, 0o755)
    harness.PENSTOCK = daemon
    try:
        origin = story.origin("objects=pile/%d 20 120000")
        server = story.penstock(origin=origin.url, cache_dir=front + "/cache", cache_size="64MiB")
        keys = [f"pile/{i}" for i in range(20)]
        wait_for("all is cached", lambda: all([server.get(key).cache == "hit" for key in keys]))
        story.bytes("an object is right", server.get(keys[0]), keys[0], length=120000, status=200)
        story.same("the extents belong to another user",
                   {os.stat(path).st_uid for path in glob.glob(front + "/cache/extents/*")}, {pwd.getpwnam("nobody").pw_uid})
        story.same("the folder stayed in service", server.metric("penstock_store_faults_total"), 0)
        server.stop()
    finally:
        run(["umount", front])
