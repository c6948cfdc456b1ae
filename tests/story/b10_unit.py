"""make install puts a unit where systemd looks, for the binary that it installed."""
from harness import *

with Story("b10 the systemd unit names what was installed") as story:
    if not PENSTOCK or not os.path.exists(os.path.join(os.path.dirname(PENSTOCK), "Makefile")):
        raise Skip("the binary does not lie in a build folder")
    if not shutil.which("systemd-analyze"):
        raise Skip("there is no systemd-analyze: install the package systemd")
    status, out, err = run(["make", "-C", os.path.dirname(PENSTOCK), "install",
                            "DESTDIR=" + story.path("root")])
    story.same("make install", status, 0)
    units = glob.glob(story.path("root") + "/**/lib/systemd/system/penstock.service",
                      recursive=True)
    check(len(units) == 1, f"{units} {out[-500:]} {err[-500:]}")
    with open(units[0]) as f:
        text = f.read()
    story.same("no place is left open", re.findall("@[a-z]+@", text), [])
    binary = re.search("^ExecStart=(/[^ ]*) serve$", text, re.M)
    check(binary, text)
    story.fact("it starts what was installed", os.access(story.path("root") + binary[1], os.X_OK),
               binary[1])
    config = run([PENSTOCK, "config"])[1]
    settings = re.search("^config +(.*)/penstock.json ", config, re.M)
    story.fact("its environment lies beside the settings", settings
               and f"EnvironmentFile=-{settings[1]}/environment" in text, settings)
    with open(story.path("penstock.service"), "w") as f:
        f.write(text.replace(binary[1], story.path("root") + binary[1]))
    done = run(["systemd-analyze", "verify", "--man=no", story.path("penstock.service")])
    story.same("systemd-analyze verify has nothing to say", done, (0, "", ""))

    # ---- the socket units: for each socket of the settings, with the address of its default ----
    found = {}
    for path in glob.glob(os.path.join(os.path.dirname(units[0]), "*.socket")):
        shutil.copy(path, story.path(os.path.basename(path)))
        done = run(["systemd-analyze", "verify", "--man=no", story.path(os.path.basename(path))])
        story.same(f"... nor about {os.path.basename(path)}", done, (0, "", ""))
        with open(path) as f:
            unit = dict(line.strip().split("=", 1) for line in f if re.match("[A-Z][A-Za-z]*=", line))
        found[unit["FileDescriptorName"]] = unit.get("ListenStream") or unit["ListenSequentialPacket"]
    story.same("each setting of a socket has one", sorted(found), ["admin_listen", "fill_socket", "listen", "peer_listen", "tls_listen"])
    for name in ("listen", "admin_listen"):
        story.same(f"the address of {name} is its default", found[name], re.search(f"^{name} +([^ ]*)", config, re.M)[1])

    # ---- with the drop-in for GPUs ----
    drop_in = glob.glob(story.path("root") + "/**/penstock-gpu.conf", recursive=True)
    story.same("the drop-in for GPUs is installed, as an example", len(drop_in), 1)
    os.mkdir(story.path("penstock.service.d"))
    shutil.copy(drop_in[0], story.path("penstock.service.d/gpu.conf"))
    done = run(["systemd-analyze", "verify", "--man=no", story.path("penstock.service")])
    story.same("with it, systemd-analyze verify has nothing to say", done, (0, "", ""))
    with open(story.path("penstock.service.d/gpu.conf"), "a") as f:
        f.write("DeviceAlow=char-nvidia rw\n")
    story.fact("... and would", "DeviceAlow" in run(["systemd-analyze", "verify", "--man=no",
                                                    story.path("penstock.service")])[2])
