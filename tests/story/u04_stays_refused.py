"""What the origin refused to Penstock's own identity is not served in it later: neither after the cache
folder came from another process, nor after kill -9, nor under other credentials of ours."""
from harness import *

with Story("u04 what was refused stays refused", seconds=150) as story:
    origin = story.origin("objects=bucket/%02d 60 30000", "objects=spare/%02d 9 1000")

    def warm(server, *keys):
        for key in keys:
            wait_for(f"{key} is cached", lambda: server.get(key).cache == "hit")

    def refuse(key, who=ORIGIN_KEY):
        origin.tell(f"match={key}", f"as={who}", "status=403")

    def refused(what, server, *keys):
        for key in keys:
            reply = server.get(key)
            story.fact(f"{what}: {key} is refused", reply.status == 403, reply)

    # ---- another role, in the same settings ----
    server = story.penstock(origin=origin.url, missing_time="0", origin_access_key="ASIAROLEA", origin_secret_key="sa",
                            origin_session_token="ta", cache_dir=story.path("role"))
    warm(server, "bucket/30")
    server = server.restart()
    origin.reset()
    story.same("the same role, after a restart", server.get("bucket/30").cache, "hit")
    story.same("... is not asked for", origin.counts()["requests"], 0)
    refuse("bucket/30", "ASIAROLEB")
    server = server.restart(origin_access_key="ASIAROLEB", origin_secret_key="sb", origin_session_token="tb")
    refused("what another role's key of a session brought", server, "bucket/30")
