"""Operators make certificates, and see the fleet: keygen, `penstock peers`, metrics, the page, and the owner in explain."""
import stat

import batches
from chromium import *
from filler import Filler, Memory
from jobs import Jobs
from peering import FLEET, Fleet, Peer, Sources

KEYS = [f"bucket/size-{20_000 + n}-{n}" for n in range(40)]
TWO = f"bucket/two/size-{12 * MIB}-x"


NO_FILE = {"PENSTOCK_CONFIG": "/nonexistent"}
NO_ROOM = ["bash", "-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "keygen"]    # a file may have no byte


def keygen(*args, before=()):
    return run([*before, PENSTOCK, "peers", "keygen", *args], NO_FILE)


def files(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name)) as f:
            found[name] = f.read()
    return found


def pasted(out):
    """The settings that keygen prints, as a person copies them."""
    return json.loads("{" + "".join(line for line in out.splitlines() if line.startswith('       "')) + "}")


def certificates(story, keys):
    """What keygen writes, and never overwrites."""
    status, out, err = keygen(keys)
    story.same("keygen makes a folder", (status, err, sorted(os.listdir(keys))), (0, "", ["ca.key", "ca.pem", "node.pem"]))
    story.same("... which only its owner may read", [stat.S_IMODE(os.stat(os.path.join(keys, n)).st_mode) for n in ("", "ca.key", "node.pem")],
               [0o700, 0o600, 0o600])
    made = files(keys)
    story.fact("it says where the manual has the way for systemd", 'penstock-operating(7), "Settings of peers"' in out, out)
    settings = pasted(out)
    story.same("it says which settings", sorted(settings), ["peer_listen", "peer_name", "peer_tls_ca_file", "peer_tls_cert_file", "peers"])
    for what, args, words in (("twice", (), "exists, and keygen never overwrites"),
                              ("another name", ("--node", "b", "--peer-name", "other.internal"), f"signs for the name {FLEET} alone"),
                              ("a node that is a path", ("--node", "../b"), "--node must be a file name"),
                              ("no days", ("--days", "0"), "--days must be 1 to 3650"),
                              ("days that are none", ("--days", "x"), "--days must be 1 to 3650"),
                              ("a name that is none", ("--node", "b", "--peer-name", "a,DNS:b"), "host name")):
        status, _, err = keygen(keys, *args)
        story.fact(f"{what}: refused", status and words in err and files(keys) == made, (status, err))
    story.same("a second node, by the same CA", (keygen(keys, "--node", "second", "--days", "1")[0], sorted(os.listdir(keys))),
               (0, ["ca.key", "ca.pem", "node.pem", "second.pem"]))
    story.same("... the other files are as they were", {n: t for n, t in files(keys).items() if n in made}, made)
    for name in ("node", "second"):
        shown = run(["openssl", "x509", "-in", os.path.join(keys, f"{name}.pem"), "-noout", "-text"])[1]
        story.fact(f"{name} has the one name of the fleet", f"DNS:{FLEET}\n" in shown and "CA:FALSE" in shown, shown)
        story.same("... and OpenSSL verifies it", run(["openssl", "verify", "-x509_strict", "-CAfile", os.path.join(keys, "ca.pem"), os.path.join(keys, f"{name}.pem")])[0], 0)
    story.fact("the CA may sign for that name alone", f"Permitted:\n                  DNS:{FLEET}" in
               run(["openssl", "x509", "-in", os.path.join(keys, "ca.pem"), "-noout", "-text"])[1])
    return settings


def trouble(story):
    """Folders that can't be used; nothing is left behind."""
    open(story.path("file"), "w").close()
    status, _, err = keygen(story.path("file"))
    story.fact("a file in place of the folder", status == 1 and "can't make" in err, err)
    status, _, err = keygen(story.path("full"), before=NO_ROOM)
    story.fact("no room: it says so", status == 1 and "can't write" in err and "Make room" in err, err)
    story.same("... and leaves no half of a key", os.listdir(story.path("full")), [])
    keygen(story.path("lost"))
    for name in ("ca.key", "ca.pem"):
        text = files(story.path("lost"))[name]
        os.remove(story.path(f"lost/{name}"))
        status, _, err = keygen(story.path("lost"), "--node", "b")
        story.fact(f"without {name}", status == 1 and f"and not {name}" in err, err)
        with open(story.path(f"lost/{name}"), "w") as f:
            f.write("nothing")
        status, _, err = keygen(story.path("lost"), "--node", "b")
        story.fact(f"a {name} that is none", status == 1 and "can't be used" in err, err)
        with open(story.path(f"lost/{name}"), "w") as f:
            f.write(text)
    keygen(story.path("third"))
    shutil.copy(story.path("third/ca.key"), story.path("lost/ca.key"))
    status, _, err = keygen(story.path("lost"), "--node", "b")
    story.fact("the key of another CA", status == 1 and "the key is not that of the certificate" in err, err)
    status, _, err = keygen()
    story.fact("no folder", status == 2 and "the folder is missing" in err, err)


def status_of(node):
    return json.loads(plain(node.admin_port, "GET", "/status").body)


def rows_of(node):
    return {row["address"]: row for row in status_of(node)["peers"]}


def labels(node, name):
    return {label: int(value) for label, value in re.findall(rf'^penstock_peer_{name}{{peer="([^"]+)"}} (\d+)$',
                                                             plain(node.admin_port, "GET", "/metrics").body.decode(), re.M)}


def peers(node, *args):
    return run([PENSTOCK, "peers", "--url", f"http://127.0.0.1:{node.admin_port}", *args], NO_FILE)


def size_of(key):
    return int(key.split("-")[1])


def batch(node, names):
    check(all(item.status == 200 for item in batches.frames(node.client, "bucket", names)), names)


def fill(node, names):
    memory, filler = Memory(MIB), Filler(node.settings["fill_socket"])
    reply = filler.fill(filler.register(memory)["buffer"], "bucket", [[name, 0, -1, i * 64 * KIB] for i, name in enumerate(names)])
    check(reply["ok"], reply)
    filler.close()


def counted_apart(story, node, replies, came, owned):
    """Bytes of peers are none of the origin's, wherever an operator looks. `came`: the counters of a cold read of all keys, of
    which the node owns so many bytes."""
    size = sum(map(size_of, replies))
    story.in_time("a cold read: the origin sends what the node owns, and no other byte", came.get("origin sent") == owned, (came, owned))
    story.same("... each byte counts where it came from", came, {"origin": came["origin sent"], "origin sent": came["origin sent"],
               "fetched": came["origin sent"], "peers": came["peers sent"], "peers sent": size - came["origin sent"]})
    story.same("... which X-Cache calls a miss", {reply.cache for reply in replies.values()}, {"miss"})
    ids = {reply.headers["x-amz-request-id"] for reply in replies.values()}
    lines = wait_for("all have their lines", lambda: len(found := [line for line in map(json.loads, node.log().splitlines())
                                                                  if line["event"] == "request" and line["id"] in ids]) == len(ids) and found)
    facts = [[line[f"from_{source}"] for source in ("cache", "peers", "origin")] for line in lines]
    story.same("... in access lines, too", [sum(column) for column in zip(*facts)], [0, came["peers"], came["origin"]])

    keys = [f"bucket/more/size-{30_000 + n}-{n}" for n in range(40)]
    for what, some, read, peers, origin in (("a batch", keys[:10], batch, "peers", "origin"), ("a fill", keys[10:20], fill, "fills", None)):
        sources = Sources(node)
        read(node, [key.partition("/")[2] for key in some])
        wanted = sum(map(size_of, some))
        came = sources.since(wanted if origin else 0, wanted)
        sent = came.get("origin sent", 0)
        want = {peers: came["peers sent"], "peers sent": wanted - sent, origin: sent, "origin sent": sent, "fetched": sent}
        story.same(f"{what}: each byte counts where it came from", came, {name: count for name, count in want.items() if name and count})
    sources = Sources(node)
    report = Jobs(node.client, "bucket").run(keys=[{"key": key.partition("/")[2]} for key in keys[20:]])
    came = sources.since(0, sum(map(size_of, keys[20:])))
    story.same("a job reports them", (report["state"], report["bytes"], report["peers_bytes"], report["origin_bytes"]),
               ("done", sum(map(size_of, keys[20:])), came["peers sent"], came.get("origin sent", 0)))

    worth, gained = status_of(node)["worth"]["all"], Sources.counts(node)
    filled = node.metric("penstock_fill_bytes_total") - node.metric("penstock_fill_cache_bytes_total") - gained["fills"]
    story.same("the status has them", (worth["peers_bytes"], worth["origin_bytes"]), (gained["peers"] + gained["fills"], gained["origin"] + filled))
    story.same("... and saved is what clients got and the origin did not send", (worth["saved_bytes"], worth["fetched_bytes"]),
               (worth["given_bytes"] - gained["origin sent"], gained["origin sent"]))


def logged(node, event, address):
    """When the node last logged this."""
    lines = [json.loads(line) for line in node.log().splitlines() if f'"event":"{event}"' in line and f'"address":"{address}"' in line + '"address":""']
    return datetime.fromisoformat(lines[-1]["time"].replace("Z", "+00:00"))


def explain(node, key, **query):
    return json.loads(node.ask("GET", key, query=[("penstock-explain", ""), *query.items()]).body)["peers"]


with Story("n12 the fleet as operators see it", seconds=120) as story:
    keys = story.path("keys")
    settings = certificates(story, keys)
    trouble(story)
    story.same("another fleet, for the same name", keygen(story.path("other"))[0], 0)

    origin = story.origin()
    ports = [free_port() for _ in range(3)]
    addresses = [f"127.0.0.1:{port}" for port in ports]
    settings |= {"peers": ",".join(addresses), "peer_tls_cert_file": f"{keys}/node.pem", "peer_tls_ca_file": f"{keys}/ca.pem"}
    weights, nodes = (100, 300, 100), []
    for i, address in enumerate(addresses):
        mine = {**settings, "peer_listen": address, "peer_weight": weights[i]}
        if i == 0:
            mine["fill_socket"] = story.path("fill.sock")
        if i == 2:    # it trusts the fleet, which does not trust it
            mine["peer_tls_cert_file"] = story.path("other/node.pem")
        nodes.append(story.penstock(origin=origin.url, cache_dir=story.path(f"cache-{i}"), **mine))
    a, b, stranger = nodes
    for node in (a, b):
        wait_for("two nodes with the files of keygen know each other", lambda: node.metric("penstock_peers") == 1)
        wait_for("... and themselves", lambda: "this node" in [row["state"] for row in status_of(node)["peers"]])
    own = [(address, node.log()) for address, node in zip(addresses, (a, b))]
    story.fact("no node says at its start that it itself is away", not any('"peer_away"' in line and f'"{address}"' in line
               for address, log in own for line in log.splitlines()), own[0][1][-2000:])
    wait_for("all have tried", lambda: all(row["since"] != "never" for node in nodes for row in status_of(node)["peers"]))

    # ---- certificates of another CA ----
    refused = wait_for("the third is left alone", lambda: "certificate" in (row := rows_of(a)[addresses[2]])["why"] and row)
    story.fact("... for its certificate, and what to do", refused["state"] == "away" and "its certificate is refused: sign it" in refused["why"] and
               "peer_tls_ca_file" in refused["why"], refused)
    refused = wait_for("it finds nobody", lambda: "certificate" in (row := rows_of(stranger)[addresses[0]])["why"] and row)
    story.fact("... since the others refuse its own", refused["state"] == "away" and "it refuses the certificate of this node" in refused["why"], refused)
    story.same("it asks nobody", stranger.metric("penstock_peers"), 0)

    fits, other = ({**settings, "origin": origin.url, "cache_dir": story.path(f"unused-{i}"), "admin_listen": "off", "listen": f"127.0.0.1:{free_port()}",
                    "peer_listen": f"127.0.0.1:{free_port()}", **change} for i, change in enumerate(({}, {"peer_tls_cert_file": story.path("other/node.pem")})))
    for what, file, want in (("fits", fits, False), ("is of another CA", other, True), ("has another name", {**fits, "peer_name": "other.internal"}, True)):
        with open(story.path("check.json"), "w") as f:
            json.dump(file, f)
        out = "".join(run([PENSTOCK, "check", "--offline", story.path("check.json")])[1:])
        story.same(f"check says whether the certificate {what}", "would refuse the certificate in peer_tls_cert_file" in out, want)
    story.fact("... and so does the log", "peer_certificate_unfit" in stranger.log() and "peer_certificate_unfit" not in a.log(), stranger.log()[:2000])

    # ---- owners ----
    owners = {key: explain(a, key)["segments"][0] for key in KEYS}
    story.same("both nodes name the same owners", {key: (s["owner_node"], s["second_node"]) for key, s in owners.items()},
               {key: ((s := explain(b, key)["segments"][0])["owner_node"], s["second_node"]) for key in KEYS})
    ids = {address: row["node"] for address, row in rows_of(a).items()}
    story.same("... by the ids of the nodes", {s["owner_node"] for s in owners.values()}, {ids[addresses[0]], ids[addresses[1]]})
    mine = [key for key in KEYS if owners[key]["owner"] == "this node"]
    story.fact("the weights count", 2 <= len(mine) <= 20, len(mine))
    told = {key: explain(a, key) for key in KEYS}
    story.same("who is not asked", {key for key in KEYS if not told[key]["asked"]}, set(mine))
    story.fact("... and why", all("this node is the owner" in told[key]["why"] for key in mine), told)
    asked, sources = a.metric("penstock_peers_asked_total"), Sources(a)
    replies = {key: a.get(key) for key in KEYS}
    came = sources.since(*2 * [sum(map(size_of, KEYS))])
    for key, reply in replies.items():
        story.bytes(f"{key} is read", reply, key, 0, size_of(key))
    story.same("what explain said is what happened", a.metric("penstock_peers_asked_total") - asked, len(KEYS) - len(mine))
    a.wait_cached(*KEYS)
    story.same("cached, nobody is asked", (explain(a, KEYS[0])["asked"], explain(a, KEYS[0])["why"]), (False, "all wanted bytes are cached"))
    story.bytes("a part", a.get(TWO, 0, 99), TWO, 0, 100)
    wait_for("the metadata is known", lambda: len(explain(a, TWO)["segments"]) == 2)
    told = explain(a, TWO)
    story.same("each segment has an owner", [(s["first"], s["end"]) for s in told["segments"]], [(0, 8 * MIB), (8 * MIB, 12 * MIB)])
    story.same("a range names its own", [s["first"] for s in explain(a, TWO, range=f"{9 * MIB}-{9 * MIB + 9}")["segments"]], [9 * MIB])
    status, out, err = run([PENSTOCK, "explain", f"s3://{TWO}"], {**a.client_env(), **NO_FILE})
    story.fact("the command names them", status == 0 and "\npeers " in out and re.search(r"\n8388608-12582911 +(this node|127\.0\.0\.1:\d+) +\S", out), out)
    alone = story.penstock(origin=origin.url, cache_dir=story.path("alone"))
    reply = json.loads(alone.ask("GET", KEYS[0], query=[("penstock-explain", "")]).body)
    story.same("without peers, it says nothing of them", "peers" in reply, False)

    # ---- bytes from and to ----
    counted_apart(story, a, replies, came, sum(map(size_of, mine)))
    status = status_of(a)
    row, back = rows_of(a)[addresses[1]], rows_of(b)[addresses[0]]
    wanted = sum(int(key.split("-")[1]) for key in KEYS if key not in mine)
    story.fact("bytes from the owner", wanted <= row["from_bytes"] == a.metric("penstock_peers_bytes_total"), (wanted, row))
    story.same("... are those that it sent", (back["to_bytes"], back["answered"]), (row["from_bytes"], row["asked"]))
    story.same("the shares are those of the weights", (status["fleet"]["share"], row["share"]), (.25, .75))
    story.fact("round trip, version and protocol are known", row["round_trip_us"] > 0 and row["version"] and row["protocol"] == 1, row)
    story.same("the metrics have them by address", (labels(a, "from_bytes_total"), labels(b, "to_bytes_total"), labels(a, "up")),
               ({addresses[1]: row["from_bytes"], addresses[2]: 0, "other": 0}, {addresses[0]: row["from_bytes"], addresses[2]: 0, "other": 0},
                {addresses[1]: 1, addresses[2]: 0}))
    beside = Fleet(story)
    beside.authority.file = f"{keys}/ca.pem"
    answer = Peer(ports[1], beside.tls((f"{keys}/second.pem",)), origin.url).ask(KEYS[0], 0, int(KEYS[0].split("-")[1]))
    story.fact("a node on no list is answered", answer.ended and not answer.wrong, answer)
    wait_for("... and counted apart", lambda: status_of(b)["fleet"]["strangers"] == {"answered": 1, "to_bytes": len(answer.body)})
    story.same("... as other", labels(b, "to_bytes_total")["other"], len(answer.body))

    # ---- two nodes with one cache folder ----
    pair = [free_port() for _ in range(2)]
    one, two = (dict(settings, peers=",".join(f"127.0.0.1:{port}" for port in pair), peer_listen=f"127.0.0.1:{port}") for port in pair)
    first = story.penstock(origin=origin.url, cache_dir=story.path("pair-0"), **one)
    first.stop()
    shutil.copytree(story.path("pair-0"), story.path("pair-1"))
    twins = [first.again(), story.penstock(origin=origin.url, cache_dir=story.path("pair-1"), **two)]
    third = f"127.0.0.1:{free_port()}"
    watcher = story.penstock(origin=origin.url, cache_dir=story.path("watcher"),
                             **dict(settings, peers=",".join([third, *(f"127.0.0.1:{port}" for port in pair)]), peer_listen=third))
    named = lambda node: [line for line in map(json.loads, node.log().splitlines()) if line["event"] == "peer_same_id"]
    for node, other in zip(twins, reversed(pair)):
        address = f"127.0.0.1:{other}"
        wait_for("a node meets another one with its own id", lambda: (row := rows_of(node)[address])["state"] == "away" and "the id of this node" in row["why"])
        story.same("... it logs that once, and what to do", [(line["address"], "empty its cache folders" in line["why"]) for line in named(node)], [(address, True)])
        story.fact("... and penstock peers says so", "left alone: it has the id of this node" in (out := peers(node)[1]) and "empty its cache folders" in out, out)
        wait_for("... it knows itself all the same", lambda: [row["state"] for row in status_of(node)["peers"]].count("this node") == 1)
        story.same("... its metric says that the other one is away", labels(node, "up"), {address: 0})
    wait_for("a third node logs that two others have one id", lambda: "another listed node has its id" in "".join(line["why"] for line in named(watcher)))
    wait_for("... and penstock peers says so", lambda: "    another listed node has its id" in peers(watcher)[1])
    twins[1].stop()
    shutil.rmtree(story.path("pair-1"))
    twins[1] = twins[1].again()
    for node in twins:
        wait_for("with an empty folder, the two share", lambda: node.metric("penstock_peers") == 1)
    wait_for("... and the third one says no more", lambda: "another listed node" not in peers(watcher)[1] and watcher.metric("penstock_peers") == 2)
    for node in (*twins, watcher):
        node.stop()

    # ---- the command, stat, the page ----
    status, out, err = peers(a)
    story.same("penstock peers", (status, err), (0, ""))
    story.fact("... says how many answer", f"fleet      {FLEET}: 1 of 2 other nodes answer\n" in out and "owns 25 % of the segments" in out, out)
    story.fact("... has a line for each node", all(re.search(rf"\n{address} +\S+ +{state}", out) for address, state in zip(addresses, ("this node", "answers", "away"))), out)
    story.fact("... and why one is left alone", "left alone, and tried again in" in out and "its certificate is refused" in out, out)
    story.fact("... in 120 columns", max(len(line) for line in out.splitlines() if "left alone" not in line) <= 120, out)
    given = json.loads(peers(a, "--json")[1])
    story.same("... as JSON, the same", ([r["from_bytes"] for r in given["peers"]], given["fleet"]["node"]), ([r["from_bytes"] for r in status_of(a)["peers"]], ids[addresses[0]]))
    status, out, err = peers(alone)
    story.fact("a node without peers says what to do", status == 1 and "its setting peers is empty" in err and "keygen" in err, err)
    story.same("a wrong word", peers(a, "--json")[0] or run([PENSTOCK, "peers", "nodes"])[0], 2)
    out = run([PENSTOCK, "stat", "--url", f"http://127.0.0.1:{a.admin_port}"])[1]
    story.fact("stat has a line of them", "\npeers      1 of 2 other nodes answer; " in out, out)
    story.same("the address of the listener is not lost", status_of(a)["fleet"]["listen"], addresses[0])

    story.same("a node stops", b.stop(), 0)
    wait_for("it is left alone", lambda: rows_of(a)[addresses[1]]["state"] == "away")
    stops, away = logged(b, "draining", ""), logged(a, "peer_away", addresses[1])
    story.in_time("... at once, because it says so, and not at the next hello", (away - stops).total_seconds() < 2, (stops, away))
    story.fact("... and owns nothing", rows_of(a)[addresses[1]]["share"] == 0 and status_of(a)["fleet"]["share"] == 1, status_of(a)["peers"])
    out = run([PENSTOCK, "doctor", "--offline", "--config", a.config_path])[1]
    story.fact("doctor names a node that does not answer", "0 of 2 other nodes answer" in out and f"Node {addresses[1]} does not answer" in out, out)
    tab = Chromium(story).open(f"http://127.0.0.1:{a.admin_port}/")
    tab.wait("the page shows the nodes", "!main.hidden && !document.getElementById('peers-panel').hidden")
    shown = tab.run("[...document.getElementById('peers').tBodies[0].rows].map(row => [...row.cells].map(cell => cell.firstChild.value))")
    story.same("... their states and bytes", [(r[0], r[1], r[3]) for r in shown], [(r["address"], r["state"], str(r["from_bytes"])) for r in status_of(a)["peers"]])
    for table in ("buckets", "jobs"):
        story.fact(f"... and what they sent of the {table}", " from peers" in tab.text(f"#{table}"), tab.text(f"#{table}"))
    story.fact("... and how many answer", "0 of 2 other nodes answer" in tab.text("#peers-note"), tab.text("#peers-note"))
    for width in (1280, 375):
        tab.looks(width)
        tab.picture(f"peers-{width}.png")
