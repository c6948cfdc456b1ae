"""What an operator has to go by: the names of threads."""
from harness import *

with Story("b10 an operator can see what the service does") as story:
    os.makedirs(story.path("tree/shelf"))
    origin = story.origin("object=bucket/a 1000")
    server = story.penstock(origin=origin.url, loops=2, origin_threads=2,
                            origins={"shelf": {"url": "dir:" + story.path("tree")}},
                            buckets={"shelf": {"origin": "shelf"}})
    story.same("a read", server.get("bucket/a").status, 200)

    # ---- threads ----
    names = set()
    for path in glob.glob(f"/proc/{server.process.pid}/task/*/comm"):
        with open(path) as f:
            names.add(f.read().strip())
    story.same("threads are named by what they do",
               {"loop-0", "loop-1", "origin-0", "origin-1", "dir-0", "commit", "watch",
                "digest"} - names, set())
