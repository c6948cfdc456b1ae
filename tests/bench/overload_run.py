"""overload_run.py - what is left of the service when four times as much is asked of it.
SPDX-License-Identifier: Apache-2.0

hits: objects of 16 KiB that are cached, read by as many connections as serve most a second, then by four
times and sixteen times as many; one loop on one processor, the loader on the other. misses: an origin
that takes 100 ms an answer over 16 connections; the peak is what 16 clients get; then clients come at
four times that rate, whatever they are answered. goodput: answers with an object a second. p99_ms: of
those. shed: the share that was told SlowDown.
hits-beside-misses: hits a second of 4 connections while that goes on, against the same when it does not."""

import multiprocessing
import queue
import statistics
import threading
import time

from harness import Client
from stage import Failed, MIB, SIGN, Stage, facts, tool

FIRST_BYTE_MS, CONNECTIONS = 100, 16
OBJECTS, OBJECT_BYTES = 4000, 16 * 1024
PASSES = 20    # of a run: long beside the time that accepting its connections takes
WORKERS, CLIENTS = 2, 160    # processes, and clients in each


def hits(port, conns, requests, seed, cpu=None):
    return facts(tool("loader", *SIGN, cpu=cpu, port=port, conns=conns, shuffle=seed, requests=requests,
                      path=f"/bench/hit/size-{OBJECT_BYTES}-%05u", objects=OBJECTS, bytes=OBJECT_BYTES))


def clients(port, tag, rate, seconds, count, tell):
    """Clients of one process: each asks for a new key when its time comes, not when the last was answered."""
    results, lock = [], threading.Lock()
    begin = time.monotonic() + 0.5

    def one(number):
        client, turn = Client(port, keep=True, timeout=20), number
        while (at := begin + turn / rate) < begin + seconds:
            time.sleep(max(0.0, at - time.monotonic()))
            asked = time.monotonic()
            reply = client.get(f"bench/miss/size-3000-{tag}-{turn}")
            with lock:
                results.append((reply.status, reply.error, time.monotonic() - asked, len(reply.body)))
            turn += count
    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell.put(results)


def misses(port, tag, rate, seconds, count=CLIENTS, workers=WORKERS):
    """Clients that ask at `rate` a second, all together."""
    context, tell = multiprocessing.get_context("fork"), multiprocessing.get_context("fork").Queue()
    running = [context.Process(target=clients, args=(port, f"{tag}-{i}", rate / workers, seconds, count, tell), daemon=True)
               for i in range(workers)]
    for process in running:
        process.start()
    try:
        results = [row for _ in running for row in tell.get(timeout=seconds + 60)]
    except queue.Empty:
        raise Failed("clients hang") from None
    wrong = [row for row in results if row[1] or row[0] not in (200, 503) or (row[0] == 200 and row[3] != 3000)]
    if wrong:
        raise Failed(f"{len(wrong)} of {len(results)} answers are neither an object nor SlowDown: {wrong[:3]}")
    good = sorted(row[2] for row in results if row[0] == 200)
    return {"goodput": len(good) / seconds, "shed": 1 - len(good) / len(results),
            "p99_ms": good[int(len(good) * 0.99)] * 1000 if good else float("nan")}


def measure_hits(figures, server, pairs):
    def rate(conns, pair):
        return hits(server.port, conns, PASSES * OBJECTS, pair + 2, cpu=1)["rate"]
    best = max((8, 16, 32, 64), key=lambda conns: statistics.median(rate(conns, i) for i in range(3)))
    for times in (4, 16):
        values, against = [], []
        for pair in range(pairs):
            against.append(rate(best, pair))
            values.append(rate(best * times, pair))
        figures.put("overload", f"hits-{times}x", "goodput", "requests/s", values, f"{best}-connections", against)


def measure_misses(figures, server, pairs, seconds):
    peaks, loaded, beside, alone = [], [], [], []
    for pair in range(pairs):
        peaks.append(closed(server.port, f"closed{pair}", seconds))
        rate = 4 * peaks[-1]["goodput"]
        alone.append(hits_for(server.port, pair, 2))
        shared = {}
        thread = threading.Thread(target=lambda: shared.update(misses(server.port, f"over{pair}", rate, seconds)))
        thread.start()
        time.sleep(1.5)
        beside.append(hits_for(server.port, pair, 2))
        thread.join()
        if not shared:
            raise Failed("the clients of misses failed")
        loaded.append(shared)
    for metric, unit in (("goodput", "requests/s"), ("p99_ms", "ms")):
        figures.put("overload", "misses-4x", metric, unit, [run[metric] for run in loaded], "16-clients",
                    [run[metric] for run in peaks])
    figures.put("overload", "misses-4x", "shed", "share", [run["shed"] for run in loaded])
    figures.put("overload", "hits-beside-misses", "goodput", "requests/s", beside, "alone", alone)


def closed(port, tag, seconds):
    """As many clients as the origin has connections, each asking again when it was answered."""
    done, lock, end = [], threading.Lock(), time.monotonic() + seconds

    def one(number):
        client, turn = Client(port, keep=True), 0
        while (asked := time.monotonic()) < end:
            reply = client.get(f"bench/miss/size-3000-{tag}-{number}-{turn}")
            if reply.status != 200:
                raise Failed(f"a miss was answered {reply}")
            with lock:
                done.append(time.monotonic() - asked)
            turn += 1
    threads = [threading.Thread(target=one, args=(i,)) for i in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.sort()
    return {"goodput": len(done) / seconds, "p99_ms": done[int(len(done) * 0.99)] * 1000}


def hits_for(port, pair, seconds):
    end, count, spent = time.monotonic() + seconds, 0, 0.0
    while time.monotonic() < end:
        run = hits(port, 4, 2000, pair + 2)
        count, spent = count + run["requests"], spent + run["wall_ms"] / 1000
    return count / spent


def fill(port):
    for _ in range(5):    # until all is stored
        hits(port, 8, OBJECTS, 1)
        time.sleep(0.5)


def run(figures, quick, subject):
    pairs, seconds = (1, 4) if quick else (3, 8)
    # Where the loader shared the loop's processor, the figure would be the scheduler's: of nginx, too.
    with Stage(quick, subject) as stage:
        server = stage.subject(stage.origin(), 1024 * MIB, cpu=0, loops=1)
        fill(server.port)
        measure_hits(figures, server, pairs)
    with Stage(quick, subject) as stage:
        origin = stage.origin()
        server = stage.subject(origin, 1024 * MIB, origin_connections=CONNECTIONS, fetches_max=2 * CONNECTIONS,
                               origin_tries=1)
        fill(server.port)
        origin.tell("match=bench/miss/*", f"first_byte_ms={FIRST_BYTE_MS}")
        measure_misses(figures, server, pairs, seconds)
