"""Eight nodes that share, and what can happen to one of them: all start at once on an object of a slow origin; nodes are
killed, stopped, drained, started again empty; one stops each second; one has a full disk, one a wrong clock; the owner may
not read; lists differ. Each time: no client sees an error or a wrong byte."""
from fleet_faults import *

SEGMENT_OBJECT = f"bucket/start/size-{20 * MIB + 77}-x"
AHEAD_S = 3600
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *ts)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int got = real(id, ts);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        ts->tv_sec += 3600;
    return got;
}
time_t time(time_t *to)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    if (to)
        *to = ts.tv_sec;
    return ts.tv_sec;
}
int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    *tv = (struct timeval){ ts.tv_sec, ts.tv_nsec / 1000 };
    return 0;
}
"""


class AheadClient(Client):
    """Signs with a clock that is an hour ahead, as one on the machine of that node would."""

    def head_of(self, *args, **how):
        return super().head_of(*args, **how, now=datetime.now(timezone.utc) + timedelta(seconds=AHEAD_S))


def start_at_once(story, fleet, origin):
    """All nodes are asked for one object at the same time, and the origin's first byte takes 5 s."""
    # The first large object of a folder is asked for without a range, and a part of it comes in vain (cache/guess.h).
    first = f"bucket/start/size-{SEGMENT + 1}-first"
    story.same("the first large object of a folder is right", sum((read_all(n, [first]) for n in fleet.nodes), []), [])
    origin.tell("match=bucket/start/* GET", "first_byte_ms=5000")
    replies = together(*[lambda n=n: Client(n.port).get(SEGMENT_OBJECT) for n in fleet.nodes])
    wrong = [why for reply in replies if (why := judge(reply, SEGMENT_OBJECT))]
    story.same("all nodes at once on one object: right bytes", wrong, [])
    counts, size = origin.counts(SEGMENT_OBJECT), size_of(SEGMENT_OBJECT)
    late = fleet.sum("failed") + fleet.sum("passed")    # each costs a second copy of a segment, by the requests of its parts
    story.note(f"late answers {late}, from peers {fleet.sum('bytes')}")
    story.fact("the origin gave it once, although its first byte took 5 s",
               counts["get"] <= 6 + 3 * late and counts["bytes"] <= 1.02 * size + late * SEGMENT, (counts, late))
    origin.calm()


def half_gone(story, fleet):
    """Of eight nodes, two are killed, one is stopped, one ends as it should. The list has them to the end."""
    nodes = fleet.nodes
    with Load(nodes[:4], "bucket/half") as load:
        load.wait(10)
        nodes[4].kill()
        nodes[5].kill()
        os.kill(nodes[6].pid, signal.SIGSTOP)
        status = nodes[7].stop()
        fleet.wait_others(nodes[:4], 3)
        load.wait(30)
        asked = [rows(node)[address]["asked"] for node in nodes[:4] for address in fleet.addresses[4:]]
        load.wait(30)
    story.same("half of the nodes go: no client of the others notices", load.wrong, [])
    story.same("the one that was told to stops cleanly", status, 0)
    after = [rows(node)[address] for node in nodes[:4] for address in fleet.addresses[4:]]
    story.same("the dead are still listed, and nobody asks them", [row["asked"] for row in after], asked)
    failed = [row["failed"] for row in after]
    story.in_time("each dead node cost each other node one deadline", max(failed) <= 2, failed)
    story.fact("the reasons are there", all(row["why"] for row in after), after)
    os.kill(nodes[6].pid, signal.SIGCONT)
    nodes[6].kill()


def empty_again(story, fleet):
    """Node 3 loses its folder, and starts with an empty one: as another installation, at the same address."""
    before = rows(fleet.nodes[0])[fleet.addresses[3]]["node"]
    with Load(fleet.nodes[:3], "bucket/empty") as load:
        fleet.nodes[3].kill()
        shutil.rmtree(fleet.nodes[3].cache_dir)
        fleet.nodes[3] = fleet.nodes[3].again()
        for node in fleet.nodes[:3]:
            wait_for("its new id is known", lambda n=node: rows(n)[fleet.addresses[3]]["node"] != before)
        fleet.wait_others(fleet.nodes[:4], 3)
        load.wait(20)
        wait_for("it answers peers", lambda: fleet.nodes[3].metric("penstock_peer_sent_bytes_total") > 0)
    story.same("a node that starts again, empty: no client notices, and it is useful from its first fill", load.wrong, [])


def flapping(story, fleet):
    """Node 3 stops and goes on each second. The others ask it less and less."""
    victim, address = fleet.nodes[3], fleet.addresses[3]
    before = [rows(node)[address]["failed"] for node in fleet.nodes[:3]]
    turns = 10
    with Load(fleet.nodes[:3], "bucket/flap") as load:
        for _ in range(turns):
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(0.5)
            os.kill(victim.pid, signal.SIGCONT)
            time.sleep(0.5)
        load.wait(1)
    story.same("a node that stops each second: no client notices", load.wrong, [])
    failed = [rows(node)[address]["failed"] - had for node, had in zip(fleet.nodes[:3], before)]
    story.in_time("it is asked less and less: its failures are fewer than its stops", max(failed) <= turns * 0.7, failed)
    fleet.wait_others(fleet.nodes[:3], 3)
    story.fact("when it stays, it is a peer again", True)


def wait_asks(nodes, text, client=Client):
    """Waits until these nodes ask peers: one that has just started with cached objects takes no answer from before."""
    for i, node in enumerate(nodes):
        numbers, reader = itertools.count(), client(node.port)
        wait_for("it asks its peers", lambda: not judge(reader.get(key := f"bucket/{text}/{i}/size-9000-{next(numbers)}"), key) and
                 node.metric("penstock_peers_asked_total") > 0, every=0.2)


def full_disk(story, fleet, origin):
    """Node 3 owns most of the segments, and has no room on its disk: it passes on what it can't store."""
    folder = story.path("small")
    os.makedirs(folder)
    if os.geteuid() or run(["mount", "-t", "tmpfs", "-o", "size=96m", "penstock-story", folder])[0]:
        story.note("not root, or no mounts here: a full disk was not tried")
        return
    try:
        node = fleet.again(3, cache_dir=folder + "/cache", cache_size="64MiB", peer_weight=1000)
        for other in fleet.nodes[:3]:
            wait_for("its weight is known", lambda n=other: rows(n)[fleet.addresses[3]]["weight"] == 1000)
        fleet.wait_others(fleet.nodes[:4], 3)
        with open(folder + "/filler", "wb", buffering=0) as filler:
            try:
                while filler.write(bytes(65536)):
                    pass
            except OSError:
                pass
        sent = node.metric("penstock_peer_sent_bytes_total")
        keys = [f"bucket/full/size-{70_000 + n}-{n}" for n in range(40)]
        wrong = sum(together(*[lambda n=n: read_all(n, keys) for n in fleet.nodes[:4]]), [])
        story.same("a node with a full disk: right bytes on all nodes", wrong, [])
        story.fact("it has passed bytes on", node.metric("penstock_peer_sent_bytes_total") - sent > 500_000)
        story.same("no answer of it was wrong", [rows(n)[fleet.addresses[3]]["bad"] for n in fleet.nodes[:3]], [0, 0, 0])
        fleet.again(3, cache_dir=story.path("cache-3"), cache_size="2GiB", peer_weight=100)
    finally:
        run(["umount", "-l", folder])


def wrong_clock(story, fleet):
    """Node 3's clock is an hour ahead. Its clients have the same clock: a node refuses requests of another hour."""
    source = story.path("clock.c")
    with open(source, "w") as f:
        f.write(CLOCK)
    if "san" in PENSTOCK or run(["cc", "-shared", "-fPIC", "-o", story.path("clock.so"), source, "-ldl"])[0]:
        story.note("no compiler, or a build with sanitizers: a wrong clock was not tried")
        return
    fleet.nodes[3].stop()
    fleet.nodes[3] = node = fleet.start(3, env={"LD_PRELOAD": story.path("clock.so")})
    fleet.wait_others(fleet.nodes[:4], 3)
    story.same("its clock is another one", node.get("bucket/clock/size-1000-x").status, 403)
    wait_asks([node], "clock-asks", AheadClient)
    keys = [f"bucket/clock/size-{50_000 + n}-{n}" for n in range(60)]
    before = [n.metric("penstock_peers_bytes_total") for n in fleet.nodes[:4]]
    sent = node.metric("penstock_peer_sent_bytes_total")
    wrong = sum(together(lambda: read_all(node, keys, 30, AheadClient), *[lambda n=n: read_all(n, keys) for n in fleet.nodes[:3]]), [])
    story.same("a clock an hour ahead: right bytes on all nodes", wrong, [])
    got = [n.metric("penstock_peers_bytes_total") - had for n, had in zip(fleet.nodes[:4], before)]
    story.fact("it shares in both directions", min(got) > 0 and node.metric("penstock_peer_sent_bytes_total") > sent, got)
    fleet.nodes[3].stop()
    fleet.nodes[3] = fleet.start(3)
    fleet.wait_others(fleet.nodes[:4], 3)


def no_rights(story, fleet, origin, reader):
    """The origin refuses the shared identity some objects, which a client with an identity of its own may read."""
    for n in range(4):
        fleet.again(n, keys=[{"access_key": reader[0], "secret_key": reader[1]}])
    fleet.wait_others(fleet.nodes[:4], 3)
    origin.tell("match=bucket/private/*", f"as={ORIGIN_KEY}", "status=403", "code=AccessDenied")
    keys = [f"bucket/private/size-{40_000 + n}-{n}" for n in range(20)]
    noes = sum(n.metrics().get('penstock_peer_answers_total{result="no"}', 0) for n in fleet.nodes[:4])
    own = [Client(n.port, *reader, keep=True) for n in fleet.nodes[:4]]
    shared = [Client(n.port, keep=True) for n in fleet.nodes[:4]]
    wrong = [why for client in own[:2] for key in keys if (why := judge(client.get(key), key))]
    story.same("the owner may not read: a client with rights of its own gets its bytes", wrong, [])
    told = sum(n.metrics().get('penstock_peer_answers_total{result="no"}', 0) for n in fleet.nodes[:4]) - noes
    story.fact("owners said no", told > 0, told)
    story.in_time("... which is no failure", not fleet.sum("failed", fleet.nodes[:4]), fleet.sum("failed", fleet.nodes[:4]))
    story.same("clients of the shared identity are refused on each node", {c.get(key).status for c in shared for key in keys[:5]}, {403})
    origin.calm()
    wrong = [why for client in own + shared for key in keys if (why := judge(client.get(key), key))]
    story.same("with the right, all of them read", wrong, [])


def lists_differ(story, fleet, origin):
    """0 asks 1 alone, 1 asks 2, 2 asks 0: a circle, if a node asked others for its peers."""
    for n in range(3):
        fleet.again(n, peers=fleet.addresses[(n + 1) % 3])
    fleet.nodes[3].stop()
    nodes = fleet.nodes[:3]
    fleet.wait_others(nodes, 1)
    wait_asks(nodes, "circle-asks")
    before = [int(n.metric("penstock_peers_asked_total")) for n in nodes]
    keys = [f"bucket/circle/size-{60_000 + n}-{n}" for n in range(30)]
    wrong = read_all(nodes[0], keys)
    story.same("lists that differ: right bytes", wrong, [])
    asked = [int(n.metric("penstock_peers_asked_total")) - had for n, had in zip(nodes, before)]
    story.fact("only the node whose client asked has asked a peer", asked[0] > 0 and asked[1:] == [0, 0], asked)
    more = [f"bucket/circle/more/size-{60_000 + n}-{n}" for n in range(30)]
    wrong = sum(together(*[lambda n=n: read_all(n, more) for n in nodes]), [])
    story.same("all three at once", wrong, [])
    asked = [int(n.metric("penstock_peers_asked_total")) - had for n, had in zip(nodes, before)]
    story.fact("no question went round", asked[0] <= 60 and max(asked[1:]) <= 30, asked)
    gets = [origin.counts(key)["get"] for key in more]
    story.fact("the origin was asked at most once by each", max(gets) <= 3, gets)


with Story("n25 a fleet in trouble") as story:
    origin, reader = story.origin("first_byte_ms=5"), ("READERKEY", "reader/secret")
    fleet = Fleet(story, origin, 8)
    fleet.wait_others(fleet.nodes, 7)
    start_at_once(story, fleet, origin)
    half_gone(story, fleet)
    empty_again(story, fleet)
    flapping(story, fleet)
    full_disk(story, fleet, origin)
    wrong_clock(story, fleet)
    no_rights(story, fleet, origin, reader)
    lists_differ(story, fleet, origin)
    story.same("no answer of a peer was ever wrong", fleet.sum("bad", fleet.nodes[:3]), 0)
