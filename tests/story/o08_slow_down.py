"""An origin that takes 10 requests at once, and says SlowDown to more: Penstock uses fewer connections, until few are
refused, and all of them again when the origin has room."""
from guards import guarded
from harness import *

CLIENTS, TAKES, SECONDS = 48, 10, 8
names = iter(range(10**6))
folders = iter(range(100))

with Story("o08 an origin that says SlowDown", seconds=120) as story:
    use_tests_daemon()
    origin = story.origin()

    def house(off):
        return story.penstock(origin=origin.url, cache_dir=story.path(f"cache-{next(folders)}"), origin_tries=1, env=guarded(off))

    def limit(server):
        return server.metric("penstock_origin_connections_limit")

    def crowd(server, seconds=SECONDS):
        """CLIENTS that read what is not cached, for so long. Returns their replies."""
        replies, end = [], time.monotonic() + seconds

        def reads():
            client = Client(server.port, keep=True)
            while time.monotonic() < end:
                number = next(names)
                replies.append(client.get(f"bucket/{number % 3}/{number}/size-1000-x"))
                if replies[-1].status == 503:
                    time.sleep(0.05)
        together(*[reads] * CLIENTS)
        return replies

    def refused(off):
        """The share of reads that the origin refuses, and the number that it serves, after some seconds to adapt."""
        origin.tell("reset=rules", "first_byte_ms=100", f"most_open={TAKES}")
        server = house(off)
        crowd(server, 5)
        replies = crowd(server)
        no, yes = (sum(r.status == status for r in replies) for status in (503, 200))
        story.same(f"each read is served or refused ({off or 'all guards on'})", no + yes, len(replies))
        story.note(f"{no} refused, {yes} served; the limit is {limit(server):.0f}")
        return server, no / len(replies), yes

    server, share, served = refused("")
    story.fact("few reads are refused", share < 0.2, share)
    story.fact("... and the origin is in good use", served > 0.5 * SECONDS * TAKES / 0.1, served)
    story.fact("the limit is near what the origin takes", 1 <= limit(server) <= 3 * TAKES, limit(server))
    story.fact("each SlowDown is counted", server.metric("penstock_origin_slowed_total") > 0)
    story.same("... and none of them opened the breaker", server.metric("penstock_origin_breaker_opened_total"), 0)
    origin.calm()
    origin.tell("first_byte_ms=100")
    began = time.monotonic()
    replies = crowd(server, 3)
    story.same("the origin has room again: no read is refused", sum(r.status == 503 for r in replies), 0)
    while limit(server) < 64 and time.monotonic() < began + PATIENCE:
        crowd(server, 1)
    story.in_time("... and 20 s later, all connections are in use", time.monotonic() - began < 24, time.monotonic() - began)
    story.same("... as many as the setting says", limit(server), 64)
    server.stop()
    _, without, _ = refused("slow-down")
    story.fact("without the guard, most reads are refused", without > 0.5 and without > 3 * share, without)
