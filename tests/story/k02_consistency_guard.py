"""The check of k01 can fail: the same workload, over a slow way to the origin, is found to be
inconsistent when H7 is switched off, and consistent when it is on."""
from consistency import *
from guards import guarded

MIX = {"get": 60, "range": 10, "put": 25, "delete": 5}

with Story("k02 without H7 what is read can't be true") as story:
    use_tests_daemon()
    origin = story.versity()
    way = SlowWay(origin.port, 20, story.seed)
    story.same("the bucket is there", origin.client.ask("PUT", BUCKET).status, 200)

    def violations(off):
        server = story.penstock(origin=way.url, cache_dir=story.path(f"cache-{off}"), access_log=False,
                                env=guarded(off))
        client = server.client
        history = live(story, [Door("one", server.port, client.key, client.secret)], MIX, 4000, width=2)
        server.stop()
        story.note(f"{off or 'nothing'} off: {figures(history)}")
        for key in list(origin.client.list(BUCKET).body.split(b"<Key>"))[1:]:    # the next starts from nothing
            origin.client.delete(f"{BUCKET}/{key.partition(b'<')[0].decode()}")
        return verdicts(history, linear)

    wrong = violations("")
    story.fact("H7 on: every key is linearizable", not wrong, "\n".join(wrong[:3]))
    wrong = violations("epoch")
    story.fact("H7 OFF: keys are found that are not", wrong)
    story.note(f"seen: {len(wrong)}, as {wrong[0][:300] if wrong else '-'}")
