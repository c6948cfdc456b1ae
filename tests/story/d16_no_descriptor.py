"""No file descriptor is left when a purge or a pin must be stored: the request fails, and the cache folder stays in
service."""
import resource

from harness import *

COUNT = 50


def first_free(pid):
    """The number that the next descriptor would get."""
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    return next(i for i in range(len(taken) + 1) if i not in taken)


with Story("d16 no file descriptor is left for a file of the cache", seconds=120) as story:
    origin = story.origin(f"objects=pile/%d {COUNT} 20000")
    server = story.penstock(origin=origin.url, cache_size="64MiB", access_log=False)
    keys = [f"pile/{i}" for i in range(COUNT)]
    wait_for("all is cached", lambda: all([server.get(key).cache == "hit" for key in keys]))
    client = Client(server.port, keep=True)
    story.same("a connection that stands", client.get(keys[0]).cache, "hit")
    before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)

    def refused(*query):
        """Descriptors may become free meanwhile. So the limit is lowered before each try."""
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (first_free(server.pid), before[1]))
        reply = client.ask("POST", "pile", list(query))
        return reply if reply.status == 503 else None

    reply = wait_for("a purge is refused", lambda: refused(("penstock-purge", ""), ("key", "none")))
    story.fact("... and says why", "LimitNOFILE" in reply.body.decode(), reply.body)
    reply = wait_for("a pin is refused", lambda: refused(("penstock-pin", ""), ("prefix", "none")))
    story.fact("... and says why", "file descriptor" in reply.body.decode(), reply.body)
    story.same("hits go on", {client.get(key).cache for key in keys}, {"hit"})
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)
    wait_for("the log says it", lambda: "no_descriptor" in server.log())
    story.fact("... and what to do", "ulimit -n" in server.log(), server.log())
    story.same("the folder was in service all the time", server.metric("penstock_store_faults_total"), 0)
    story.same("all objects are hits", {server.get(key).cache for key in keys}, {"hit"})
    story.same("a purge is stored", client.ask("POST", "pile", [("penstock-purge", ""), ("key", "none")]).status, 200)
    story.same("and a pin", client.ask("POST", "pile", [("penstock-pin", ""), ("prefix", "none")]).status, 200)
    story.same("it ends cleanly", server.stop(), 0)
