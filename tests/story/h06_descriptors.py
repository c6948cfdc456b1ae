"""File descriptors run short: newcomers, health, the admin address and cold reads are served."""
import resource

from probe import *


def crowd_of(port, count, ask):
    crowd = []
    for _ in range(count):
        wire = Wire(port)
        wire.send(ask)
        reply = wire.read()
        if reply.status != 200:
            break
        crowd.append(wire)
    return crowd


def leave(crowd):
    for wire in crowd:
        wire.close()


with Story("h06 descriptors run short, and nobody waits for one") as story:
    probe = Probe(story, loops=4, connections_max=4, idle_ms=20000)
    began = time.monotonic()
    crowd = crowd_of(probe.port, 100, get("/a"))
    story.same("at the cap an idle connection of any loop makes room", len(crowd), 100)
    story.in_time("at once", time.monotonic() - began < 3, time.monotonic() - began)
    story.fact("and one at a time", probe.stats()["connections"] >= 4, probe.stats())
    leave(crowd)
    probe.ends_cleanly()

    probe = Probe(story, loops=2, idle_ms=20000, spill_files_max=2)
    limit = probe.fd_count() + 40
    resource.prlimit(probe.pid, resource.RLIMIT_NOFILE, (limit, limit))
    crowd = crowd_of(probe.port, 120, get("/a"))
    story.same("without descriptors the longest idle connection makes room", len(crowd), 120)
    story.same("also for the admin address", plain(probe.admin, "GET", "/x").body,
               b"/x\n")
    leave(crowd)
    wait_for("they have left", lambda: probe.stats()["connections"] <= 1)
    wait_for("their descriptors are closed", lambda: probe.fd_count() <= limit - 40 + 1)
    body = bytes(3 << 20)
    writers = [probe.wire() for _ in range(5)]
    for wire in writers:
        wire.send(put("/echo", body)[:-1000])
    time.sleep(0.3)
    story.same("bodies take no more than their share", probe.fd_count() <= limit - 40 + 1 + 5 + 2,
               True)
    for wire in writers:
        wire.send(bytes(1000))
    story.same("and are taken", [wire.read().status for wire in writers], [200] * 5)
    leave(writers)
    probe.ends_cleanly()

    origin = story.origin("object=bkt/k 1000")
    server = story.penstock(origin=origin.url, connections_max=8)
    busy = [Wire(server.port) for _ in range(8)]
    for i, wire in enumerate(busy):
        wire.send(server.client.head_of("PUT", f"bkt/{i}", headers={"content-length": "9"}, payload="UNSIGNED-PAYLOAD"))
    wait_for("all connections are busy", lambda: server.metric("penstock_http_connections") == 9)
    asked = subprocess.run([PENSTOCK, "health", "--listen", f"127.0.0.1:{server.port}", "--admin-listen",
                            f"127.0.0.1:{server.admin_port}"], capture_output=True, text=True)
    story.same("a service whose connections are all busy is healthy", (asked.returncode, asked.stdout[:6]), (0, "ready:"))
    leave(busy)
    story.same("... and ends cleanly", server.stop(), 0)

    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    origin = story.origin("objects=bkt/o/%05d 100 100000", "object=bkt/k 1000")
    server = story.penstock(origin=origin.url, loops=2, extent_size="4MiB", cache_size="256MiB",
                            idle_time="1h")
    story.fact("connections_max above the limit of descriptors is lowered, and said",
               '"connections_max"' in server.log(), server.log())
    ask = server.client.head_of("GET", "bkt/k")
    crowd = crowd_of(server.port, 800, ask)
    story.same("800 connections come, each with a hit", len(crowd), 800)
    count = len(os.listdir(f"/proc/{server.pid}/fd"))
    story.fact("and leave descriptors for others", count < 800, count)
    cold = []
    for i in range(20):
        crowd[-1].send(server.client.head_of("GET", f"bkt/o/{i:05d}"))
        cold.append(crowd[-1].read().status)
    story.same("cold reads on an open one", cold, [200] * 20)
    story.same("a newcomer", server.get("bkt/k").status, 200)
    story.same("health", plain(server.port, "GET", "/_/health/live").status, 200)
    story.same("the admin address", plain(server.admin_port, "GET", "/status").status,
               200)
    leave(crowd)
