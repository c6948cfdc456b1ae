"""The tables of version 0.1 have no names. ls, du, pin and purge say that they lack the objects of that time."""
from harness import *

with Story("y11 objects without names", seconds=60) as story:
    origin = story.origin("object=pile/new 5000")
    cache = story.path("cache")
    os.mkdir(cache)
    run(["tar", "-xzf", os.path.join(ROOT, "tests", "vectors", "folder-1.tar.gz"), "-C", cache, "--strip-components=1"])
    server = story.penstock(origin=origin.url, cache_dir=cache, cache_size="64MiB", freshness="immutable")
    wait_for("an object with a name is cached", lambda: server.get("pile/new").cache == "hit")
    env = server.client_env()

    def command(*words):
        return run([PENSTOCK, *words], env)

    for words in (["ls", "s3://pile"], ["du", "s3://pile"], ["ls", "s3://other"], ["pin", "s3://pile/"], ["pin", "--list", "s3://pile"],
                  ["purge", "--dry-run", "s3://pile/"]):
        status, out, err = command(*words)
        lines = [line for line in err.splitlines() if "2 extents were written by an older version of Penstock, without the names" in line]
        story.fact(f"{words}: it says what it lacks", status == 3 and len(lines) == 1 and "could not be" not in err, (status, out, err))
        status, out, err = command(*words[:-1], "--json", words[-1])
        end = json.loads(out.splitlines()[-1])
        story.same("... as JSON, too", (status, end["complete"], end["extents_unnamed"], end["folders_out"]), (3, False, 2, []))
    status, out, err = command("ls", "s3://pile")
    story.fact("what has a name is there", "pile" not in err and " new\n" in out and "1 key:" in out, (out, err))
    status, out, err = command("purge", "--yes", "--wait", "s3://pile")
    story.same("a purge of these names", (status, err), (0, ""))
    status, out, err = command("unpin", "s3://pile/")
    story.same("an unpin", (status, err), (0, ""))
