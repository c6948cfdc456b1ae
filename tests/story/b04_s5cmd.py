"""s5cmd lists and copies, in parallel and in parts."""
from clients import *

with Story("b04 s5cmd reads a directory") as story:
    s5cmd = tool("s5cmd")
    sums = make_tree(story)
    server = story.penstock(origin="dir:" + story.path("tree"))
    status, out, err = run([s5cmd, "ls", "s3://photos/set/*"], server.client_env())
    story.same("ls shows every key", (status, len(out.splitlines())), (0, len(sums)))
    for turn in ("first", "second"):
        folder = story.path(turn)
        status, out, err = run([s5cmd, "--numworkers", "16", "cp", "--part-size", "5",
                                "--concurrency", "4",
                                "s3://photos/set/*", folder + "/"], server.client_env())
        story.same(f"{turn} cp ends well", (status, err[-500:]), (0, ""))
        files_right(story, f"{turn} cp: every SHA-256 is right", folder, sums, "set/")
    status, out, err = run([s5cmd, "cat", "s3://photos/set/no-such-key"], server.client_env())
    story.fact("a missing key is an error", status not in (0, None), out)
