"""Nodes share what one of them fetched: four of them, real TLS between them, one origin that counts; two die."""
from fleet_faults import *

SMALL = [f"bucket/small/size-{100_000 + n}-{n}" for n in range(60)]
LARGE = f"bucket/large/size-{40 * MIB + 12345}-x"


with Story("n10 nodes share", seconds=240) as story:
    origin = story.origin("first_byte_ms=20")
    fleet = Fleet(story, origin, 4, buckets={"never": {"admit": "never"}})
    nodes = fleet.nodes
    fleet.wait_others(nodes, 3)

    # The size of the first large object of a folder is not known. So it is asked for without a range, and what was on its way
    # behind the end of the first segment, in the buffers of both sockets, comes in vain.
    first = f"bucket/large/size-{SEGMENT + 1}-first"
    wrong = sum((read_all(node, [first]) for node in nodes), [])
    story.same("the first large object of a folder is right", wrong, [])

    # cold: all nodes read all, at the same time
    keys = [*SMALL, LARGE]
    once, segments = sum(map(size_of, keys)), sum(-(-size_of(key) // SEGMENT) for key in keys)
    origin.reset()
    sources = [Sources(node) for node in nodes]
    wrong = sum(together(*[lambda n=n, i=i: read_all(n, keys, 15 * i) for i, n in enumerate(nodes)]), [])
    story.same("all bytes are right", wrong[:3], [])
    counts = origin.counts()["keys"]
    moved, gets, heads = (sum(counts[key][what] for key in keys) for what in ("bytes", "get", "head"))
    story.note(f"asked {fleet.sum('asked')}, to the origin {fleet.sum('to_origin')}, late {fleet.sum('failed')}")
    story.fact("bytes came from peers", fleet.sum("bytes") > once, f"{fleet.sum('bytes')} of {3 * once}")
    story.same("no answer of a peer was wrong", fleet.sum("bad"), 0)
    # A busy machine may answer later than within 100 ms. Each question that is late, or passes a node by that was late, costs
    # a second copy of a segment, by the requests of its parts.
    late = fleet.sum("failed") + fleet.sum("passed")
    story.fact("the origin gave one copy", moved <= 1.02 * once + late * SEGMENT, f"{moved} of {once} bytes, {late} late answers")
    story.fact("... by one request for each segment, as one node would ask", gets + heads <= 1.1 * segments + 3 * late,
               f"{gets} GETs and {heads} HEADs of {segments}, {late} late answers")

    # where the bytes came from that the clients of each node got
    came = [source.since(once) for source in sources]
    story.same("each node counts all bytes that its clients got", [sum(c.get(name, 0) for name in ("cache", "peers", "origin")) for c in came], 4 * [once])
    sent = [source.since(0, c["peers"])["peers sent"] for source, c in zip(sources, came)]
    story.fact("... those from peers apart", all(c["peers"] <= s for c, s in zip(came, sent)), (came, sent))
    story.in_time("... and each byte that came was for a client", [c["peers"] for c in came] == sent, (came, sent))

    # a range that begins in the last segment of all offsets
    for node in nodes[:2]:
        reply = node.get("bucket/behind/size-1000-x", 2**64 - 16, 2**64 - 6)
        story.same("a range behind all objects is refused", (reply.status, reply.code), (416, "InvalidRange"))

    # a key that does not exist: the owner's answer is the last one of a peer
    missing = [f"bucket/none/{n}" for n in range(12)]
    origin.tell("match=bucket/none/*", "status=404", "code=NoSuchKey")
    wrong = [reply for key in missing if (reply := nodes[0].get(key)).status != 404]
    story.same("a key that does not exist is not found", wrong, [])
    gets = [origin.counts(key)["get"] for key in missing]
    story.fact("... by one request of its owner, and one of the node that was asked", max(gets) <= 2 and sum(gets) > len(gets), gets)
    origin.calm()

    # warm: nobody asks anybody
    for node in nodes:
        node.wait_cached(*keys)
    origin.reset()
    asked = fleet.sum("asked")
    wrong = sum((read_all(node, keys) for node in nodes), [])
    story.same("warm reads are right", wrong[:3], [])
    story.same("... and ask no origin", origin.counts()["get"], 0)
    story.same("... and no peer", fleet.sum("asked"), asked)

    # bytes that nobody stores, for readers that are slow: both nodes pause, and go on
    key = f"never/slow/size-{20 * MIB + 1}-x"
    before = fleet.sum("bytes")
    replies = together(*[lambda n=n: Client(n.port).get(key, pace=12 * MIB, receive_buffer=256 * KIB) for n in nodes])
    for reply in replies:
        story.bytes("a slow reader gets right bytes that are not stored", reply, key, 0, 20 * MIB + 1)
    story.fact("... from peers", fleet.sum("bytes") > before)
    story.same("... and none was wrong", fleet.sum("bad"), 0)

    # one node stops in the middle, one dies: the clients of the others notice nothing
    others = [f"bucket/next/size-{60_000 + n}-{n}" for n in range(240)]

    def trouble():
        wait_for("some are read", lambda: nodes[0].metric("penstock_peers_asked_total") > asked / 4 + 20)
        os.kill(nodes[2].pid, signal.SIGSTOP)
        nodes[3].kill()
        return []

    wrong = sum(together(trouble, *[lambda n=n, i=i: read_all(n, others, 120 * i) for i, n in enumerate(nodes[:2])]), [])
    story.same("a dead and a stopped node cost no client an error", wrong[:3], [])
    fleet.wait_others(nodes[:2], 1)
    os.kill(nodes[2].pid, signal.SIGCONT)
    fleet.wait_others(nodes[:2], 2)
    story.fact("the one that stopped is asked again", True)
    status = rows(nodes[0])
    story.same("the status shows who answers", [status[address]["state"] for address in fleet.addresses],
               ["this node", "answers", "answers", "away"])
    story.fact("... and why not", status[fleet.addresses[3]]["why"])
