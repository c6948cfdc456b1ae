"""crowd_run.py - what connections cost that do nothing, or little. SPDX-License-Identifier:
Apache-2.0

hits: objects of 16 KiB that are cached, over 16 connections, alone and beside a crowd: 1,000 idle
connections, and 200 slow ones: heads and bodies that come a byte a second, and readers that take
512 bytes a second. rate and cpu are of the hits. idle: memory (RssAnon) that a connection holds
which was answered once and asks nothing, with TLS and without; held: how many of them are there."""

import multiprocessing
import socket
import time

from authority import Authority
from harness import Client, Wire
from stage import Failed, MIB, SIGN, Stage, cpu_us, facts, free_port, pinned, tool

OBJECTS, OBJECT_BYTES = 4000, 16 * 1024
KEY = f"bench/hit/size-{OBJECT_BYTES}-00001"
IDLE, SLOW = 1000, 200


def hits(server, seed):
    before = cpu_us(server.pids())
    run = facts(tool("loader", *SIGN, cpu=1, port=server.port, conns=16, shuffle=seed,
                     path=f"/bench/hit/size-{OBJECT_BYTES}-%05u", objects=OBJECTS,
                     bytes=OBJECT_BYTES))
    return run["rate"], (cpu_us(server.pids()) - before) / run["requests"]


def idle_ones(port, count, tls=None):
    """Connections that were answered once."""
    client = Client(port)
    for _ in range(count):
        wire = Wire(port, 60, tls=tls)
        wire.send(client.head_of("GET", KEY))
        if wire.read().status != 200:
            raise Failed("an idle one was not answered")
        yield wire


def slow_ones(client):
    """(socket, what it sends a byte of each second; None: it reads)."""
    head = client.head_of("GET", KEY)
    body = client.head_of("PUT", "bench/slow", headers={"content-length": "100000"}, body=b"")
    for i in range(SLOW):
        wire = Wire(client.port, 60, receive_buffer=4096 if i % 3 == 2 else None)
        if i % 3 == 2:
            wire.send(client.head_of("GET", "bench/big/size-8000000-1"))
        elif i % 3 == 1:
            wire.send(body)
        yield wire, (head, b"x" * 1000, None)[i % 3]


def crowd(port, ready, over):
    idle = list(idle_ones(port, IDLE))
    slow = list(slow_ones(Client(port)))
    ready.set()
    turn = 0
    while not over.wait(1):
        for wire, sends in slow:
            if sends:
                wire.send(sends[turn % len(sends):][:1] if turn < len(sends) - 1 else b"")
            else:
                wire.socket.recv(512, socket.MSG_DONTWAIT)
        turn += 1
    for wire in idle + [wire for wire, _ in slow]:
        wire.close()


def beside_a_crowd(figures, server, pairs):
    context = multiprocessing.get_context("fork")
    alone, crowded = [], []
    for pair in range(pairs):
        alone.append(hits(server, pair + 2))
        ready, over = context.Event(), context.Event()
        process = context.Process(target=crowd, args=(server.port, ready, over), daemon=True)
        pinned(1, process.start)    # beside the loader, not the server
        if not ready.wait(60):
            raise Failed("the crowd did not gather")
        time.sleep(1)
        crowded.append(hits(server, pair + 2))
        if server.metric("penstock_http_connections") < IDLE + SLOW:
            raise Failed("the crowd did not stay")
        over.set()
        process.join()
    for at, metric, unit in ((0, "rate", "requests/s"), (1, "cpu", "us/request")):
        figures.put("crowd", "hits", metric, unit, [run[at] for run in crowded], "alone",
                    [run[at] for run in alone])


def rss_anon(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon"))


def idle_memory(figures, server, name, port, count, tls=None):
    for wire in idle_ones(port, 10, tls):    # what the first of all costs
        wire.close()
    before = rss_anon(server.pid)
    wires = list(idle_ones(port, count, tls))
    time.sleep(1)
    held = server.metric("penstock_http_connections") - 1    # less the one that asks
    figures.put("crowd", f"idle-{name}", "memory", "bytes/connection",
                [(rss_anon(server.pid) - before) / count])
    figures.put("crowd", f"idle-{name}", "held", "connections", [min(held, count)])
    for wire in wires:
        wire.close()


def run(figures, quick, subject):
    if subject != "penstock":
        return
    with Stage(quick, subject) as stage:
        ours, port = Authority(stage, "bench-ca"), free_port()
        cert, key = ours.sign("bench")
        origin = stage.origin()

        def server():
            return stage.subject(origin, 1024 * MIB, cpu=0, loops=1, head_time="10m",
                                 idle_time="10m", send_time="10m", connections_max=12000,
                                 tls_listen=f"127.0.0.1:{port}", tls_cert_file=cert,
                                 tls_key_file=key)
        for name, count, tls in (("http", 2000 if quick else 10000, None),
                                 ("https", 500 if quick else 10000, ours.client())):
            fresh = server()    # what others left of its memory would hide what it takes
            idle_memory(figures, fresh, name, port if tls else fresh.port, count, tls)
            fresh.stop()
        crowded = server()
        for _ in range(5):    # until all is stored
            hits(crowded, 1)
            time.sleep(0.5)
        beside_a_crowd(figures, crowded, 2 if quick else 5)
