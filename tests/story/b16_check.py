"""check says what serve will meet: folder, ports, sockets, origins; 2 wrong settings, 1 no start or no cache, else 0."""
import fcntl
import pwd

from peering import *

with Story("b16 check says what serve will meet", seconds=90) as story:
    origin = story.origin("object=bucket/a 1000")
    clean = own_env("AWS_")

    def write(**changes):
        with open(story.path("settings.json"), "w") as f:
            json.dump(story.settings(**{"origin": origin.url, **changes}), f)
        return story.path("settings.json")

    def check_it(text, want, *words, flags=(), path=None, prefix=(), **changes):
        path = path or write(**changes)
        began = time.monotonic()
        done = subprocess.run([*prefix, PENSTOCK, "check", path, *flags], capture_output=True, text=True, timeout=60,
                              env={**clean, "HOME": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true"})
        took = time.monotonic() - began
        out = done.stdout + done.stderr
        story.fact(f"{text}: {want}", done.returncode == want and all(word in out for word in words),
                   (done.returncode, words, out))
        story.in_time(f"{text}: bounded in time", took < 20, took)
        return out

    check_it("all is well", 0, "origin default", "answers", "settings: fine")
    story.fact("... and makes nothing", not os.path.exists(story.path("cache")))
    check_it("a wrong setting", 2, "ttl", ttl="perhaps")
    os.mkfifo(story.path("fifo"))
    check_it("settings are a FIFO without a writer", 2, "fifo", "it is a FIFO that gives no text.", path=story.path("fifo"))
    with open(os.open(story.path("fifo"), os.O_RDWR), "w"):
        check_it("... with a writer that writes nothing", 2, "it is a FIFO to which nothing was written for 5 s", path=story.path("fifo"))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(story.path("socket"))
    endless = subprocess.Popen(["sh", "-c", f"exec cat /dev/zero > {story.path('fifo')}"], stderr=subprocess.DEVNULL)
    for path, fault in ((story.folder, "it is a folder."), (story.path("socket"), "it is a socket."), ("/dev/zero", "it is a device that gives more than 1024 KiB."),
                        (story.path("fifo"), "it is a FIFO that gives more than 1024 KiB."), ("/dev/null", "it is a device that gives no text.")):
        out = check_it(f"settings are {path}", 2, fault, "--config FILE", path=path)
        story.same("... and nothing else is judged", out.splitlines()[1:], ["settings: 1 mistake"])
    endless.wait(PATIENCE)
    out = check_it("a name with control characters", 2, "?[31mttl: no such setting", "? fake: fine", **{"\x1b[31mttl": 1, "\n fake: fine": 1})
    story.fact("... is shown without them", "\x1b" not in out and "\n fake" not in out, out)
    check_it("old settings of budgets, together more than there is", 0, "warning", "old settings of single budgets give", "may kill Penstock",
             memory_slots="64TiB", memory_readers="64TiB")
    check_it("a limit of file sizes", 0, "warning", "larger than 1.0 GiB", "LimitFSIZE", "settings: fine",
             prefix=("prlimit", f"--fsize={1 << 30}"))

    # ---- the cache folder ----
    file = story.path("file")
    open(file, "w").close()
    os.makedirs(story.path("foreign"))
    open(story.path("foreign/thesis.tex"), "w").close()
    check_it("the folder is a file", 1, file, "not a folder", cache_dir=file)
    check_it("a part of its path is one", 1, "is a file", cache_dir=file + "/cache")
    check_it("it holds somebody's files", 1, "thesis.tex", "not Penstock's", cache_dir=story.path("foreign"))
    check_it("the folder above it is missing", 1, story.path("no/such"), "is not there", cache_dir=story.path("no/such/cache"))
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chmod(story.folder, 0o755)
        own, kept = story.path("own"), story.path("kept")
        os.mkdir(own, 0o700)
        os.mkdir(kept, 0o755)
        os.chown(kept, nobody.pw_uid, -1)
        as_nobody = ("setpriv", f"--reuid={nobody.pw_uid}", "--clear-groups", f"--regid={nobody.pw_gid}")
        check_it("it belongs to another user", 1, "belongs to root", "sudo chown -R nobody " + own,
                 "run this check as that user", prefix=as_nobody, cache_dir=own)
        open(kept + "/lock", "w").close()
        os.chmod(kept + "/lock", 0o600)
        check_it("what lies in it does", 1, kept + "/lock", "sudo chown -R nobody " + kept, prefix=as_nobody, cache_dir=kept)
        check_it("the folder of the fill socket does", 1, "the user that runs this check, nobody, may not write",
                 prefix=as_nobody, fill_socket=own + "/fill.sock")
        check_it("it can't be made", 1, "root", "nobody", prefix=as_nobody, cache_dir=story.path("new"))

    # ---- a running one ----
    server = story.penstock(origin=origin.url, fill_socket=story.path("fill.sock"))
    check_it("what a running Penstock of these settings holds is a note", 0, "running", "settings: fine",
             path=server.config_path)
    check_it("... of others, it is not", 1, "another process", cache_dir=server.cache_dir)
    for setting in ("listen", "admin_listen", "tls_listen"):
        if setting != "tls_listen":
            out = check_it(f"{setting} is taken", 1, server.settings["listen"], "another process", cache_dir=story.path("x"),
                           **{setting: server.settings["listen"]})
    check_it("the fill socket is another's", 1, "fill.sock", "listens", cache_dir=story.path("x"),
             fill_socket=story.path("fill.sock"))
    server.stop()

    # ---- several folders ----
    for name in ("one", "two", "three"):
        os.mkdir(story.path(name))

    def dirs(*names):
        return {"cache_dir": None, "cache_size": None, "cache_dirs": [{"path": story.path(n), "size": "64MiB"} for n in names]}

    server = story.penstock(origin=origin.url, **dirs("one/cache", "two/cache"))
    for names in (["two/cache", "one/cache"], ["three/cache", "one/cache", "two/cache"], ["three/cache", "two/cache"]):
        out = check_it(f"a running one, and {names}", 0, "running", "settings: fine",
                       **{**server.settings, **dirs(*names)})
        story.fact("... no error", "error" not in out and "another process" not in out, out)
    os.mkdir(story.path("three/held"))
    with open(story.path("three/held/lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        check_it("a folder that another process holds", 1, "running", story.path("three/held") + " can't be used", "another process uses the folder",
                 **{**server.settings, **dirs("one/cache", "three/held")})
    server.stop()
    shutil.copytree(story.path("one/cache"), story.path("three/copy"))
    check_it("a copied folder", 1, "run without this folder", "one of the two is a copy", story.path("one/cache"), **dirs("one/cache", "three/copy"))
    check_it("... alone", 0, "settings: fine", **dirs("three/copy", "two/cache"))
    check_it("one folder by two names", 2, "lists one folder twice", **dirs("three/new", "three/../three/new"))
    check_it("... inside another", 2, "lies inside", **dirs("three/new", "three/new/../new/x"))
    check_it("the fill socket has no folder", 1, story.path("no"), "does not exist", fill_socket=story.path("no/fill.sock"))

    # ---- origins: warnings ----
    for text, words, changes in (
            ("an origin that does not resolve", ["nosuchhost.invalid"], {"origin": "http://nosuchhost.invalid"}),
            ("one that refuses", ["127.0.0.1:9", "can't be reached"], {"origin": "http://127.0.0.1:9"})):
        check_it(text, 0, "warning: origin default", *words, "settings: fine", **changes)
        check_it(f"{text}, --strict", 1, "warning: origin default", flags=["--strict"], **changes)
        out = check_it(f"{text}, --offline", 0, "settings: fine", flags=["--offline", "--strict"], **changes)
        story.fact("... which asks nobody", "warning" not in out, out)
    for flags in ([], ["--offline"]):
        check_it(f"a region that serve refuses {flags}", 2, "origin default can't be used: the region of this origin, 'Not_One'",
                 "It comes from the setting origin_region", "settings: 1 mistake", flags=flags, origin_region="Not_One")
        check_it(f"a host that serve refuses {flags}", 2, "the host or port of this URL is not valid", flags=flags,
                 origin="http://[::1")
    hung = Listener()
    hung.serve = lambda connection: time.sleep(60)
    check_it("one that says nothing", 0, "warning: origin default", origin=hung.url)
    origin.tell("match=*", "status=403", "code=InvalidAccessKeyId")
    check_it("one that refuses the keys", 0, "warning: origin default", "refuses Penstock's own credentials",
             "origin_secret_key", ORIGIN_KEY)
    origin.tell("reset=rules", "match=*", "status=403", "code=AccessDenied")
    check_it("one that lets them list no buckets is fine", 0, "origin default", "answers", flags=["--strict"])
    origin.tell("reset=rules")
    if shutil.which("openssl"):
        run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", story.path("key.pem"), "-out",
             story.path("cert.pem"), "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"])
        front = story.penstock(origin=origin.url, cache_dir=story.path("tls"), tls_listen=f"127.0.0.1:{free_port()}",
                               tls_cert_file=story.path("cert.pem"), tls_key_file=story.path("key.pem"))
        there = "https://" + front.settings["tls_listen"]
        keys = {"origin_access_key": ACCESS_KEY, "origin_secret_key": SECRET_KEY}
        check_it("one whose certificate nobody vouches for", 0, "warning: origin default", "origin_ca_file", origin=there,
                 **keys)
        check_it("... and one that somebody does", 0, "answers", flags=["--strict"], origin=there,
                 origin_ca_file=story.path("cert.pem"), **keys)

        # ---- other nodes: warnings ----
        fleet, other = Fleet(story), Fleet(story, "other-ca")
        port, settings = fleet.settings("other-node")
        own_port, own = fleet.settings("own")
        node, closed = f"127.0.0.1:{port}", free_port()
        story.penstock(origin=origin.url, cache_dir=story.path("peer"), peers=node, **settings)
        fleet_of = lambda *ports: {**own, "peers": ",".join(f"127.0.0.1:{p}" for p in (own_port, *ports))}
        check_it("a node that answers, and this one, which does not run", 0, "peers: 1 of 1 other nodes answer", flags=["--strict"], **fleet_of(port))
        out = check_it("a node that does not answer", 0, f"warning: peers: 127.0.0.1:{closed} does not answer: ", "Connection refused", "check its peer_listen",
                       "peers: 1 of 2 other nodes answer", "settings: fine", **fleet_of(port, closed))
        story.same("... is the only warning", out.count("warning: "), 1)
        check_it("... with --strict", 1, "does not answer", flags=["--strict"], **fleet_of(port, closed))
        check_it("... with --offline, nobody is asked", 0, "settings: fine", flags=["--strict", "--offline"], **fleet_of(port, closed))
        check_it("a node of another CA", 0, f"{node} does not answer: its certificate is refused", "peer_tls_ca_file",
                 **{**fleet_of(port), **other.settings("foreign")[1], "peer_listen": own["peer_listen"]})
        check_it("a list that can't be had", 0, "warning: peers: the list of nodes can't be had", "nosuchhost.invalid", **{**own, "peers": "dns:nosuchhost.invalid"})
        check_it("no other node", 0, "peers: the list has no node but this one", flags=["--strict"], **fleet_of())
        os.makedirs(story.path("directory/bucket"), exist_ok=True)
        check_it("peers, and directories alone", 1, "warning: peers has no effect, since each origin is a directory", flags=["--strict"],
                 **{**fleet_of(port), "origin": f"dir:{story.path('directory')}"})
