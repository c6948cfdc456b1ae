"""A node sends to its peers as much as peer_bandwidth allows, shares it equally between them, tells those that wait that it
is alive, and refuses at once what would come too slowly. A reload changes it."""
from peering import *

RATE, EACH = 2 * MIB, MIB


class Reader(threading.Thread):
    """Asks one question as the node `name`, and notes the longest silence. `sent` is what the daemon had sent to all
    when the answer was whole."""

    def __init__(self, server, peer, key, name):
        super().__init__(daemon=True)
        self.server, self.peer, self.key = server, peer, key
        self.wire = peer.wire()
        self.wire.send(peer.head_of(key, 0, EACH, x_penstock_node=name * 16))
        self.silence, self.heard = 0.0, time.monotonic()
        self.start()

    def run(self):
        more = self.wire._more

        def timed():
            more()
            now = time.monotonic()
            self.silence, self.heard = max(self.silence, now - self.heard), now
        self.wire._more = timed
        reply = self.wire.read()
        self.sent = self.server.metric("penstock_peer_sent_bytes_total")
        bucket, _, name = self.key.partition("/")
        self.answer = Answer(reply, (self.peer.endpoint, bucket, name, ""))
        self.wire.close()


def is_whole(reader):
    answer = reader.answer
    return answer.status == 200 and answer.ended and not answer.wrong and answer.body == expect(reader.key, 1, 0, EACH)


with Story("p04 the bandwidth of peers") as story:
    keys = [f"bkt/size-{EACH}-{n}" for n in range(4)]
    origin = story.origin()
    fleet = Fleet(story)
    port, settings = fleet.settings("one", peer_bandwidth="2MiB")
    server = story.penstock(origin=origin.url, **settings)
    peer = Peer(port, fleet.tls(fleet.node("me")), origin.url)
    for key in keys:
        server.get(key)
    server.wait_cached(*keys)

    # one node asks for 3 MiB, another one for 1 MiB
    start = time.monotonic()
    much = [Reader(server, peer, key, "aa") for key in keys[:3]]
    wait_for("three are in progress", lambda: server.metric("penstock_peer_paced_total") >= 1)
    little = Reader(server, peer, keys[3], "bb")
    refused = peer.ask(keys[3], 0, 2 * MIB, x_penstock_node="aa" * 16)
    story.fact("what would come too slowly hears 503 at once", refused.status == 503 and refused.reply.body == b"bandwidth\n",
               refused)
    for reader in [*much, little]:
        reader.join()
    took = time.monotonic() - start
    story.fact("all answers are whole", all(map(is_whole, [*much, little])), [reader.answer for reader in [*much, little]])
    story.fact("together they take the time that the bandwidth allows", took >= 0.9 * 4 * EACH / RATE, f"{took} s")
    story.in_time("the node that asks for little gets as much as the one that asks for much: it is done when 2 MiB of 4 are "
                  "sent", little.sent <= 2.6 * MIB, f"{little.sent / MIB} MiB")
    story.fact("those that wait hear WAIT", sum(reader.answer.waits for reader in much) >= 3, [r.answer for r in much])
    story.in_time("and are never left in silence for the time that peers wait", max(r.silence for r in [*much, little]) < 0.4,
                  [r.silence for r in [*much, little]])
    metrics = server.metrics()
    story.same("the refusal is counted", int(metrics['penstock_peer_answers_total{result="busy"}']), 1)

    # a reload takes the limit away
    with open(server.config_path) as f:
        changed = {**json.load(f), "peer_bandwidth": "0"}
    with open(server.config_path, "w") as f:
        json.dump(changed, f)
    server.process.send_signal(signal.SIGHUP)
    wait_for("the settings are read again", lambda: "reloaded" in server.log())
    paced = server.metric("penstock_peer_paced_total")
    readers = [Reader(server, peer, key, "aa") for key in keys]
    for reader in readers:
        reader.join()
    story.fact("without a limit, nothing waits", all(map(is_whole, readers))
               and server.metric("penstock_peer_paced_total") == paced, [r.answer for r in readers])
