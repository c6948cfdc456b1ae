"""The aws cli lists, copies and syncs."""
from clients import *

with Story("b05 the aws cli reads a directory") as story:
    aws = tool("aws")
    sums = make_tree(story)
    server = story.penstock(origin="dir:" + story.path("tree"))
    env = server.client_env()
    status, out, err = run([aws, "s3", "ls", "--recursive", "s3://photos/set/"], env)
    story.same("ls shows every key", (status, len(out.splitlines())), (0, len(sums)))
    status, out, err = run([aws, "s3", "sync", "--only-show-errors", "s3://photos/set/",
                            story.path("sync")], env, 90)
    story.same("sync ends well", (status, err[-500:]), (0, ""))
    files_right(story, "every SHA-256 is right", story.path("sync"), sums, "set/")
    status, out, err = run([aws, "s3api", "get-object", "--bucket", "photos", "--key",
                            "set/big.bin",
                            "--range", "bytes=0-99", story.path("part")], env)
    story.same("get-object with a range", (status, os.path.getsize(story.path("part"))), (0, 100))
    status, out, err = run([aws, "s3api", "head-object", "--bucket", "photos", "--key", "nothing"],
                           env)
    story.fact("a missing key is a 404", status != 0 and "404" in err, err)
