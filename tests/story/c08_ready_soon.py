"""A restart with a large index is ready in under a second. Argument: entries (50,000)."""
from harness import *

ENTRIES = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000

with Story(f"c08 ready with {ENTRIES} entries", seconds=100 + ENTRIES // 2000) as story:
    tool_path = find_binary("FILL_STORE", "tests/tools/fill_store", "build*/tests/tools/fill_store")
    if not tool_path or not os.access(tool_path, os.X_OK):
        raise Skip("fill_store is not built: run make")
    origin = story.origin()
    status, out, err = run([tool_path, story.path("cache"), str(ENTRIES), origin.url, ORIGIN_KEY,
                            "bucket", "set/"], seconds=80 + ENTRIES // 2000)
    story.same("the folder is filled", (status, err), (0, ""))
    story.note(out.strip())
    took = []
    for turn, end in (("first", "stop"), ("after a clean stop", "stop"), ("after another", "kill"),
                      ("after kill -9", "stop")):
        server = story.penstock(origin=origin.url, cache_size=None)
        story.in_time(f"{turn}: ready in under a second", server.ready_s < 1,
                      f"{server.ready_s:.3f} s")
        took.append(server.ready_s)
        key = f"set/{story.random.randrange(ENTRIES):08d}"
        reply = server.get("bucket/" + key)
        # proved anew before it is served, and this origin never had it
        if turn == "after kill -9":
            story.same(f"{turn}: the origin is asked before it is believed", reply.status, 404)
        else:
            story.fact(f"{turn}: what was filled in is there", reply.body == key.encode(), reply)
        if end == "stop":
            story.same(f"{turn}: it ends cleanly", server.stop(), 0)
        else:
            server.kill()
    story.note("ready after " + ", ".join(f"{t * 1000:.0f}" for t in took) + " ms (first, clean, clean, after kill -9)")
