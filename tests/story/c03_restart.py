"""A restart loses nothing; neither does a kill, but for what had just arrived."""
from harness import *

with Story("c03 a restart finds everything warm") as story:
    origin = story.origin("objects=bucket/set/%04d 300 1-200000", f"object=bucket/big {64 * MIB}")
    server = story.penstock(origin=origin.url)
    keys = [f"bucket/set/{i:04d}" for i in range(300)] + ["bucket/big"]
    sizes = origin.sizes(keys)

    def pass_right(text):
        story.same(f"{text}: all right", [k for k in keys if (r := server.get(k)).error
                                          or r.status != 200 or r.body != expect(k, 1, 0, sizes[k])],
                   [])

    pass_right("a cold pass")
    origin.quiet()
    server = server.restart()
    story.in_time("ready in under a second", server.ready_s < 1, f"{server.ready_s:.3f} s")
    origin.reset()
    pass_right("after SIGTERM")
    story.same("after SIGTERM: 0 origin requests", origin.counts()["requests"], 0)
    time.sleep(0.5)
    server.kill()
    server = server.again()
    origin.reset()
    pass_right("after kill -9")
    counts = origin.counts()
    story.same("after kill -9: no byte comes again", counts["bytes"], 0)
    story.note(f"after kill -9 the origin was asked {counts['requests']} times (once a key is allowed: an unclean stop proves what it had)")
    story.fact("... at most once a key, or a list", counts["get"] == 0
               and counts["head"] + counts["list"] <= len(keys), counts)
