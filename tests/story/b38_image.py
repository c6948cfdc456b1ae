"""The container image of a release is what docker/Dockerfile says, can be made again byte by byte, and lists its
packages as spdx-tools demands. scripts/accept release makes and runs the whole image."""
import gzip
import io
import tarfile

from harness import *

EPOCH = 1764460800
STATUS = "".join(f"Package: {name}\nStatus: {state}\nVersion: {version}\nArchitecture: {arch}\nMaintainer: Some One <one@two.example>\n"
                 "Description: a package\n with a line\n\n" for name, version, arch, state in (
                     ("libstdc++6", "12.2.0-14+deb12u1", "amd64", "install ok installed"),
                     ("tzdata", "2025b-0+deb12u1", "all", "install ok installed"),
                     ("penstock", "0.2.0~dev-1~penstock1", "amd64", "install ok installed"),
                     ("gone", "1", "all", "deinstall ok config-files")))


def make_root(path, newer):
    """An archive of a root folder with what is odd: a device, a hard link, a capability, a time after the release."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as to:
        def add(name, kind=tarfile.REGTYPE, text=b"", **more):
            info = tarfile.TarInfo("./" + name)
            info.type, info.size, info.mtime, info.uname = kind, len(text), EPOCH - 5, "somebody"
            for field, value in more.items():
                setattr(info, field, value)
            to.addfile(info, io.BytesIO(text))
        add("dev/", tarfile.DIRTYPE, mode=0o755)
        add("dev/null", tarfile.CHRTYPE, devmajor=1, devminor=3)
        add("etc/apt/sources.list", text=b"deb http://mirror.example/debian bookworm main")
        add("usr/bin/perl", text=b"#!", mode=0o755, mtime=EPOCH + newer)
        add("usr/bin/a-link", tarfile.LNKTYPE, linkname="./usr/bin/perl")
        add("usr/bin/cap", text=b"x", mode=0o755, pax_headers={"SCHILY.xattr.security.capability": "\1", "mtime": f"{EPOCH - 5}.5"})
        add("var/cache/penstock/", tarfile.DIRTYPE, mode=0o700, uid=64001, gid=64001)
        add("var/lib/dpkg/status", text=STATUS.encode())


def image(*argv, **variables):
    return run([os.path.join(ROOT, "scripts", "image"), *argv],
               env={**os.environ, "VERSION": "1.2.3", "REVISION": "f" * 40, "ARCH": "amd64", "PYTHONDONTWRITEBYTECODE": "1",
                    "SOURCE_DATE_EPOCH": str(EPOCH), **variables})


def slurp(path):
    with open(path, "rb") as f:
        return f.read()


def unpack(story, path):
    """Index, manifest, configuration and layer of an image; each by the digest that names it."""
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive}
    for name, data in files.items():
        if name.startswith("blobs/"):
            story.same("a blob has the name of its digest", name, "blobs/sha256/" + sha256(data).hexdigest())
    blob = lambda of: files["blobs/sha256/" + of["digest"][7:]]
    story.same("the layout has its version", json.loads(files["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
    index = json.loads(files["index.json"])
    manifest = json.loads(blob(index["manifests"][0]))
    layer = gzip.decompress(blob(manifest["layers"][0]))
    return index, manifest, json.loads(blob(manifest["config"])), layer


def check_config(story, config, layer):
    wanted = dict(re.findall(r"^([A-Z]+) (.*)$", read_dockerfile(), re.M))
    got = config["config"]
    story.same("it runs what docker/Dockerfile says, as the same user", (got["Entrypoint"], got["Cmd"], got["User"]),
               (json.loads(wanted["ENTRYPOINT"]), json.loads(wanted["CMD"]), wanted["USER"]))
    story.same("volume, port and signal are the same", (list(got["Volumes"]), list(got["ExposedPorts"]), got["StopSignal"]),
               ([wanted["VOLUME"]], [wanted["EXPOSE"] + "/tcp"], wanted["STOPSIGNAL"]))
    variables = [item for line in re.findall(r"^ENV (.*)$", read_dockerfile(), re.M) for item in line.split()]
    story.same("variables are the same", [item for item in got["Env"] if not item.startswith("PATH=")], variables)
    story.same("so is the health check", got["Healthcheck"], {
        "Test": ["CMD", "penstock", "health"], "Interval": 10 * 10**9, "Timeout": 3 * 10**9, "StartPeriod": 10 * 10**9})
    story.same("labels say what it is", {k.rpartition(".")[2]: v for k, v in got["Labels"].items() if "description" not in k},
               {"title": "Penstock", "licenses": "Apache-2.0", "version": "1.2.3", "revision": "f" * 40,
                "created": "2025-11-30T00:00:00Z"})
    story.same("the configuration names its layer", config["rootfs"]["diff_ids"], ["sha256:" + sha256(layer).hexdigest()])


def check_layer(story, layer):
    with tarfile.open(fileobj=io.BytesIO(layer)) as root:
        members = {member.name: member for member in root}
        story.same("no device is in the layer, and nothing of apt's", sorted(members), ["dev", "usr/bin/a-link", "usr/bin/cap", "usr/bin/perl",
                                                                  "var/cache/penstock", "var/lib/dpkg/status"])
        story.same("a hard link leads to its file", root.extractfile("usr/bin/a-link").read(), b"#!")
    story.same("no time is after the release", {m.mtime for m in members.values()} - {EPOCH, EPOCH - 5}, set())
    story.same("owners are numbers", {m.uname for m in members.values()}, {""})
    folder = members["var/cache/penstock"]
    story.same("... and stay", (folder.uid, folder.mode), (64001, 0o700))
    story.same("so do capabilities", members["usr/bin/cap"].pax_headers.get("SCHILY.xattr.security.capability"), "\1")


def read_dockerfile():
    """The last stage, without comments."""
    text = slurp(os.path.join(ROOT, "docker", "Dockerfile")).decode()
    return re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.M)).rpartition("\nFROM ")[2]


def check_list(story, path, manifest):
    listed = json.loads(slurp(path))
    story.same("the list has what is installed, and nothing else",
               [(p["name"], p["versionInfo"], p["licenseDeclared"]) for p in listed["packages"][1:]],
               [("libstdc++6", "12.2.0-14+deb12u1", "NOASSERTION"), ("penstock", "0.2.0~dev-1~penstock1", "Apache-2.0"),
                ("tzdata", "2025b-0+deb12u1", "NOASSERTION")])
    story.same("it belongs to the image", listed["packages"][0]["checksums"][0]["checksumValue"], manifest["digest"][7:])
    checkers = glob.glob(os.path.join(TOOLS, "spdx-*", "bin", "pyspdxtools"))
    if not checkers:
        raise Skip("spdx-tools is not installed: run scripts/tools spdx")
    story.same("spdx-tools has nothing to say", run([checkers[0], "--infile", path])[0], 0)
    broken = story.path("broken.spdx.json")
    with open(broken, "w") as f:
        f.write(slurp(path).decode().replace("SPDXRef-Package-tzdata", "SPDXRef-Package-tz data", 1))
    story.fact("... and would", run([checkers[0], "--infile", broken])[0] != 0)


with Story("b38 the image of a release is what docker/Dockerfile says, and lists its packages") as story:
    make_root(story.path("root.tar"), 0)
    make_root(story.path("later.tar"), 1000)
    for source, out in ("root", "a"), ("later", "b"):
        story.same("an image is made", image("make", story.path(source + ".tar"), story.path(out)), (0, "", ""))
    for end in ".oci.tar", ".spdx.json":
        story.fact(f"two runs make the same {end}", slurp(story.path("a" + end)) == slurp(story.path("b" + end)))
    index, manifest, config, layer = unpack(story, story.path("a.oci.tar"))
    check_config(story, config, layer)
    story.same("the manifest has the labels, too", manifest["annotations"], config["config"]["Labels"])
    check_layer(story, layer)
    check_list(story, story.path("a.spdx.json"), index["manifests"][0])
