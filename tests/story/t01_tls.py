"""https beside http: the same bytes, modern TLS alone, a certificate that changes under load, and an
end that is never taken for the end of an answer."""
import warnings

from authority import *

BIG = 20 * MIB


def handshake(server, client, **how):
    """(version, protocol, cipher), or why not."""
    try:
        wire = Wire(server.tls_port, tls=client)
    except (ssl.SSLError, OSError) as failure:
        return str(failure).upper().replace(" ", "_")
    inside = wire.socket
    found = (inside.version(), inside.selected_alpn_protocol(), inside.cipher()[0],
             inside.session_reused)
    wire.close()
    return found


def offer(authority, low=None, high=None, alpn=None, ciphers=None):
    client = authority.client()
    if low:
        client.minimum_version = client.maximum_version = low
    if ciphers:
        client.set_ciphers(ciphers)
    if alpn:
        client.set_alpn_protocols(alpn)
    return client


def raw(server, data):
    """What a client hears that sends these bytes where TLS is spoken."""
    wire = Wire(server.tls_port)
    wire.send(data)
    return wire.hears()


def install(pair, there):
    """As certificate managers do: each file at once, the two one after the other."""
    for new, old in zip(pair, there):
        shutil.copy(new, old + ".new")
        os.rename(old + ".new", old)


def subject(story, authority):
    inside = Wire(story.server.tls_port, tls=authority.client()).socket
    name = inside.getpeercert()["subject"][0][0][1]
    inside.close()
    return name


def reads(story, server, ours):
    client = server.tls_client
    story.bytes("a cold read over https", client.get("bkt/big"), "bkt/big", 0, BIG)
    story.bytes("a warm one", client.get("bkt/big"), "bkt/big", 0, BIG)
    story.bytes("a range", client.get("bkt/big", 100, 200_000), "bkt/big", 100, 199_901)
    story.bytes("and over http", server.get("bkt/small"), "bkt/small", 0, 1000)
    keep = Client(server.tls_port, tls=ours.client(), keep=True)
    wrong = [i for i in range(50) if keep.get("bkt/small").status != 200]
    story.fact("50 reads over one connection", not wrong and keep.wire is not None, wrong)
    wire = Wire(server.tls_port, tls=ours.client())
    wire.send(client.head_of("GET", "bkt/small") * 20 + client.head_of("GET", "bkt/big"))
    story.same("20 pipelined in one record", [wire.read().status for _ in range(20)], [200] * 20)
    story.bytes("and the one behind them", wire.read(), "bkt/big", 0, BIG)


def agreements(story, server, ours, other):
    new, old = ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2
    story.same("TLS 1.3", handshake(server, offer(ours, new))[0], "TLSv1.3")
    story.same("TLS 1.2, with ECDHE and AEAD", handshake(server, offer(ours, old))[:3:2],
               ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        older = offer(ours, ssl.TLSVersion.TLSv1_1, ciphers="ALL:@SECLEVEL=0")
    refused = {"no TLS 1.1": (older, "PROTOCOL"),
               "no cipher without AEAD": (offer(ours, old, ciphers="ECDHE-ECDSA-AES128-SHA"),
                                          "HANDSHAKE_FAILURE"),
               "a client of h2 alone is told so": (offer(ours, alpn=["h2"]), "NO_APPLICATION"),
               "who trusts another authority leaves": (other.client(), "VERIFY_FAILED")}
    for text, (client, want) in refused.items():
        got = str(handshake(server, client))
        story.fact(text, want in got, got)
    story.same("http/1.1 is chosen from a list",
               handshake(server, offer(ours, alpn=["h2", "http/1.1"]))[1], "http/1.1")


def what_is_no_tls(story, server, ours):
    heard = raw(server, b"GET /bkt/small HTTP/1.1\r\nHost: h\r\n\r\n")
    story.fact("http to the https port: a 400 that says so",
               heard.startswith(b"HTTP/1.1 400 ") and b"https://" in heard, heard[:200])
    hello = bytes.fromhex("16030100050100000100")
    for text, data in {"garbage": b"\x00\xff" * 200, "a hello that is none": hello + b"z" * 20,
                       "a record of garbage": b"\x16\x03\x01\x00\x40" + b"z" * 64,
                       "a record too long": b"\x16\x03\x01\xff\xff" + b"z" * 70000}.items():
        try:
            heard = raw(server, data)
        except OSError:
            heard = b""
        story.fact(f"{text}: an alert at most, and the end", heard is not None and len(heard) < 64,
                   heard)
    began = time.monotonic()
    heard = raw(server, hello[:7])
    took = time.monotonic() - began
    story.in_time("half a hello is given up after head_time", heard == b"" and 4.5 < took < 12,
                  (heard, took))
    for end in (Wire.close, lambda wire: wire.socket.unwrap()):
        wire = Wire(server.tls_port, tls=ours.client())
        wire.send(server.tls_client.head_of("GET", "bkt/small"))
        wire.read()
        end(wire)
    time.sleep(0.3)
    story.same("a client that leaves, with a goodbye or without, is no bad record",
               server.metric("penstock_tls_bad_records_total"), 0)
    wire = Wire(server.tls_port, tls=ours.client())
    os.write(wire.socket.fileno(), b"\x17\x03\x03\x00\x20" + b"z" * 32)
    story.fact("a record that was tampered with ends its connection", wire.gone())
    counts = {k: v for k, v in server.metrics().items() if "penstock_tls" in k}
    results = {r: counts[f'penstock_tls_handshakes_total{{result="{r}"}}']
               for r in ("plain", "slow", "failed")}
    story.fact("all of them are counted", results["plain"] == results["slow"] == 1
               and results["failed"] >= 7 and counts["penstock_tls_bad_records_total"] >= 1, counts)


def new_certificates(story, server, ours, pairs, files):
    failed, done, over = [], [0], threading.Event()

    def load():
        mine = ours.client()
        while not over.is_set():
            reply = Client(server.tls_port, tls=mine).get("bkt/small")
            done[0] += 1
            if reply.status != 200 or len(reply.body) != 1000:
                failed.append(reply)
    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    stands = Client(server.tls_port, tls=ours.client(), keep=True)
    stands.get("bkt/small")
    for turn in range(6):
        name = ("second", "first")[turn % 2]
        install(pairs[name], files)
        if turn % 2:
            server.process.send_signal(signal.SIGHUP)
        wait_for(f"the {name} certificate is shown", lambda: subject(story, ours) == name)
    shutil.copy(pairs["second"][1], files[1])
    wait_for("a key that does not fit is refused", lambda: "tls_reload_refused" in server.log())
    story.same("the old pair serves on", subject(story, ours), "first")
    with open(files[0], "w") as f:
        f.write("nonsense")
    server.process.send_signal(signal.SIGHUP)
    wait_for("nonsense is refused", lambda: server.log().count("tls_reload_refused") >= 2)
    story.same("and the old pair serves on", subject(story, ours), "first")
    os.unlink(files[0])
    os.mkfifo(files[0])
    server.process.send_signal(signal.SIGHUP)
    wait_for("a FIFO is refused", lambda: "which is no ordinary file" in server.log())
    story.same("nobody waits for its writer", subject(story, ours), "first")
    os.unlink(files[0])
    over.set()
    for thread in threads:
        thread.join()
    story.fact(f"{done[0]} requests meanwhile, none failed", not failed and done[0] > 20, failed[:3])
    took = server.log().count('"tls_reloaded"')
    install(pairs["first"], files)
    server.process.send_signal(signal.SIGHUP)
    wait_for("it has reloaded", lambda: server.log().count('"event":"reloaded"') > 3)
    time.sleep(1.2)
    story.same("the same certificate again is no news", server.log().count('"tls_reloaded"'), took)
    story.same("... nor counted", server.metric('penstock_tls_reloads_total{result="ok"}'), took)
    story.same("a connection that stood stands on",
               (stands.get("bkt/small").status, stands.wire is not None), (200, True))


def what_check_says(story, server, ours, pairs, files):
    def check_it(text, status, *words, without="no such word"):
        got, out, err = run([PENSTOCK, "check", server.config_path])
        story.fact(f"check says {text}", got == status and all(w in out for w in words)
                   and without not in out and not re.search("error:|routines|start line", out),
                   (got, out, err))
    with open(files[0], "w") as f:
        f.write("nonsense")
    check_it("what is no certificate", 2, files[0] + " holds no certificate: set tls_cert_file")
    os.unlink(files[0])
    os.mkfifo(files[0])
    check_it("what is a FIFO", 2, f"tls_cert_file: can't use {files[0]}, which is no ordinary file")
    os.unlink(files[0])
    check_it("that there is none", 2, f"tls_cert_file: can't read {files[0]}: No such file")
    install((pairs["second"][0], pairs["first"][1]), files)
    check_it("that a key does not fit", 2, "set tls_cert_file and tls_key_file",
             f"the private key in {files[1]} does not belong to the first certificate in {files[0]}")
    install((pairs["first"][0], pairs["first"][0]), files)
    check_it("what is no key", 2, files[1] + " holds no private key")
    ours.openssl("pkey", "-in", pairs["first"][1], "-aes128", "-passout", "pass:word", "-out", files[1])
    check_it("that nobody is there for a passphrase", 2, files[1] + " has a passphrase")
    install(pairs["first"], files)
    os.chmod(files[1], 0o644)
    check_it("that everybody can read the key", 0, f"can read {files[1]}, the private key", f"chmod o= {files[1]}")
    os.chmod(files[1], 0o600)
    check_it("nothing of it when nobody can", 0, without="the private key")
    ends = time.time() + 5 * 86400 + 3600
    install(ours.sign("soon", ends=time.strftime("%Y%m%d%H%M%SZ", time.gmtime(ends))), files)
    check_it("that a certificate expires soon", 0, "expires in 5 days")
    wait_for("the service warns too", lambda: "tls_expires" in server.log())
    story.fact("and tells when", abs(server.metric("penstock_tls_certificate_expires_seconds")
                                     - ends) < 60)


def a_thousand(story, server, ours):
    mine, wires = ours.client(), []
    for _ in range(1000):
        wires.append(Wire(server.tls_port, 60, tls=mine))
        wires[-1].send(server.tls_client.head_of("GET", "bkt/small"))
    answers = [wire.read() for wire in wires]
    wrong = [r for r in answers if r.status != 200 or len(r.body) != 1000]
    story.fact("1,000 connections, each with its answer", not wrong, wrong[:3])
    for wire in wires:
        wire.close()


def real_clients(story, server, ours):
    endpoint = f"https://127.0.0.1:{server.tls_port}"
    env = {**server.client_env(), "AWS_ENDPOINT_URL": endpoint, "S3_ENDPOINT_URL": endpoint,
           "AWS_CA_BUNDLE": ours.file, "SSL_CERT_FILE": ours.file}
    want = expect("bkt/big", 1, 0, BIG)
    boto = ("import boto3, os, sys\n"
            "s3 = boto3.client('s3', endpoint_url=os.environ['AWS_ENDPOINT_URL'])\n"
            "open(sys.argv[1], 'wb').write(s3.get_object(Bucket='bkt', Key='big')['Body'].read())")
    out = story.path("got")
    clients = {"curl": ["curl", "-sS", "--cacert", ours.file, "--aws-sigv4",
                        "aws:amz:us-east-1:s3", "--user", f"{ACCESS_KEY}:{SECRET_KEY}", "-H",
                        "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-o", out, endpoint + "/bkt/big"],
               "boto3": [tool("python3"), "-c", boto, out],
               "s5cmd": [tool("s5cmd"), "cp", "s3://bkt/big", out]}
    for name, argv in clients.items():
        status, said, err = run(argv, env)
        got = b""
        if status == 0:
            with open(out, "rb") as f:
                got = f.read()
            os.unlink(out)
        story.fact(f"{name} reads the same bytes", got == want, (status, err[-500:]))


def boto3_writes(story, server, ours):
    """Over https it sends each body in chunks around chunks, with a checksum behind it."""
    code = ("import boto3, os\n"
            "s3 = boto3.client('s3', endpoint_url=os.environ['AWS_ENDPOINT_URL'])\n"
            "for n in (0, 1, 70000, 5000000):\n"
            "    s3.put_object(Bucket='bkt', Key=f'put-{n}', Body=bytes(n))\n")
    env = {**server.client_env(), "AWS_CA_BUNDLE": ours.file,
           "AWS_ENDPOINT_URL": f"https://127.0.0.1:{server.tls_port}"}
    before = server.metric("penstock_tls_handshakes_total")
    status, out, err = run([tool("python3"), "-c", code], env)
    story.same("boto3 writes bodies of four sizes", (status, err[-500:]), (0, ""))
    story.same("over one connection",
               server.metric("penstock_tls_handshakes_total") - before, 1)
    puts = [line[2] for line in story.the_origin.log_lines() if line[1] == "PUT"]
    story.same("and the origin has them", sorted(puts),
               sorted(f"bkt/put-{n}" for n in (0, 1, 70000, 5000000)))


with Story("t01 https is served beside http") as story:
    if shutil.which("openssl") is None:
        raise Skip("openssl is not installed")
    ours, other = Authority(story, "ours"), Authority(story, "other")
    pairs = {name: ours.sign(name) for name in ("first", "second")}
    files = story.path("tls.crt"), story.path("tls.key")
    install(pairs["first"], files)
    origin = story.the_origin = story.origin(f"object=bkt/big {BIG}", "object=bkt/small 1000")
    port = free_port()
    server = story.server = story.penstock(
        origin=origin.url, tls_listen=f"127.0.0.1:{port}", head_time="5s", tls_cert_file=files[0],
        tls_key_file=files[1])
    server.tls_port, server.tls_client = port, Client(port, tls=ours.client())
    line = next(json.loads(line) for line in server.log().splitlines() if '"ready"' in line)
    story.same("ready names the address", line.get("tls_listen"), f"127.0.0.1:{port}")
    reads(story, server, ours)
    agreements(story, server, ours, other)
    what_is_no_tls(story, server, ours)
    new_certificates(story, server, ours, pairs, files)
    what_check_says(story, server, ours, pairs, files)
    a_thousand(story, server, ours)
    real_clients(story, server, ours)
    boto3_writes(story, server, ours)
    story.same("SIGTERM ends it cleanly", server.stop(), 0)
