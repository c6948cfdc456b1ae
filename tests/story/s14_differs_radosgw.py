"""Where an answer is not radosgw's, penstock-s3(7) says so."""
from differs import *
from radosgw import Radosgw

with Story("s14 answers that are not radosgw's") as story:
    gateway = Radosgw(story)
    user = gateway.users["main"]
    server = story.penstock(origin=gateway.url, freshness=None, browser_uploads="1MiB",
                            origin_access_key=user.key, origin_secret_key=user.secret)
    judge(story, "radosgw", gateway.client("main"), server.client)
