"""The service manager is told when requests are served, and when that ends."""
from harness import *

with Story("b12 READY=1 comes when it serves, STOPPING=1 when it drains") as story:
    origin = story.origin("object=bucket/a 1000")
    for place in (story.path("notify"), f"\0penstock-story-{os.getpid()}"):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        manager.bind(place)
        manager.settimeout(PATIENCE)

        def word():
            try:
                return manager.recv(100)
            except TimeoutError:
                return None
        kind = "an abstract name" if place[0] == "\0" else "a path"
        server = story.penstock(wait=False, origin=origin.url,
                                env={"NOTIFY_SOCKET": place.replace("\0", "@")})
        story.same(f"{kind}: the first word", word(), b"READY=1")
        story.bytes("... and a read is served from then on", server.get("bucket/a"), "bucket/a", 0,
                    1000)
        server.process.terminate()
        story.same("SIGTERM: the next word", word(), b"STOPPING=1")
        story.same("... and the end", server.process.wait(PATIENCE), 0)
        manager.close()
