"""versitygw's own conformance client, against versitygw and through Penstock: what passes directly
passes through. Cases that make users by versitygw's admin API are left out: that API is no S3, and
Penstock knows no key that it makes. SPDX-License-Identifier: Apache-2.0

    versitygw.py [--versioning] FOLDER [CASE ...]    transcripts of what differs are written to FOLDER"""
from compare import *

# Client and gateways are written in Go, and live for a short time: with little garbage collection they take a seventh
# less CPU time.
os.environ.update(GOGC="off", GOMEMLIMIT="512MiB")
ADMIN = "exit status 86"    # of the stand-in for the binary by which cases call the admin API
# They call it themselves: PATCH /BUCKET/create.
ADMIN_CASES = ("IAM_CreateBucket_empty_owner_header", "IAM_CreateBucket_non_existing_user")
ALONE_MAX = 60
NOISE = re.compile(r"(User-Agent|Authorization|X-Amz-Id-2|X-Amz-Request-Id|Amz-Sdk-\S+|Date|"
                   r"X-Amz-Date|X-Amz-Content-Sha256|Accept-Encoding|Host|Connection): ")
LINE = re.compile(r"\x1b\[\d+m(RUN |PASS|FAIL) ?\x1b\[0m(\S+?)(?:: (.*))?$")


def read_cases(text):
    """{case: message}. A case may come twice; it passed if it passed each time."""
    cases = {}
    for line in text.splitlines():
        found = LINE.search(line)
        if not found:
            continue
        what, name, message = found.group(1).strip(), found.group(2), found.group(3)
        if what == "RUN":
            cases.setdefault(name, "did not end")
        elif what == "FAIL":
            cases[name] = message or "failed"
        elif cases.get(name) in (None, "did not end"):
            cases[name] = ""
    return cases


def brief(text):
    """A transcript without what is said of signatures, and what differs from run to run."""
    text = re.sub(r"SDK \S+ \S+ DEBUG Request Signature:\n---\[.*?\n-{20,}\n", "", text, flags=re.S)
    lines = [re.sub(r"\x1b\[\d+m|\s+$|127\.0\.0\.1:\d+", "", line) for line in text.split("\n")]
    lines = [re.sub(r"^SDK \S+ \S+ DEBUG |^\d{4}/\S+ \S+ ", "", line) for line in lines]
    return "\n".join(line for line in lines if line and not NOISE.match(line))


class Side:
    """A gateway of its own, and with Penstock in front of it if that is what is looked at."""

    def __init__(self, story, name, versioning, penstock):
        self.folder = story.path(f"{name}-{len(story.processes)}")
        os.makedirs(os.path.join(self.folder, "home"))
        self.versioning, self.server = versioning, None
        self.gateway = story.versity(folder=os.path.join(self.folder, "data"), iam=True,
                                     versioning=versioning)
        self.url, self.key, self.secret = self.gateway.url, ORIGIN_KEY, ORIGIN_SECRET
        self._stand_in(penstock)
        if penstock:
            keys = [{"access_key": self.key, "secret_key": self.secret}, {"anonymous": True}]
            self.server = story.penstock(origin=self.url, access_key=None, secret_key=None,
                                         keys=keys, freshness=None,
                                         sigv2=False, regions="us-east-1",    # as strict as it is
                                         browser_uploads="1MiB",
                                         cache_dir=os.path.join(self.folder, "cache"))
            self.url = self.server.endpoint

    def end(self):
        if self.server:
            self.server.stop()
        self.gateway.kill()
        shutil.rmtree(self.folder)

    def _stand_in(self, penstock):
        """Cases call the admin API by running ./versitygw."""
        path = os.path.join(self.folder, "home", "versitygw")
        if penstock:
            with open(path, "w") as f:
                f.write("#!/bin/sh\nexit 86\n")
            os.chmod(path, 0o755)
        else:
            os.symlink(tool("versitygw"), path)

    def _client(self, *argv, seconds=300):
        env = {n: v for n, v in os.environ.items() if not n.startswith(("AWS_", "PENSTOCK"))}
        log = os.path.join(self.folder, "client.log")
        with open(log, "wb") as f:
            ended = subprocess.Popen([tool("versitygw"), "test", "--access", self.key, "--secret",
                                      self.secret, "--endpoint", self.url, *argv], env=env,
                                     stdin=subprocess.DEVNULL, stdout=f, stderr=f,
                                     cwd=os.path.join(self.folder, "home"))
            try:
                ended.wait(seconds)
            except subprocess.TimeoutExpired:
                ended.kill()
                ended.wait()
        with open(log, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def all(self):
        how = ["--versioning-enabled"] if self.versioning else []
        return read_cases(self._client("full-flow", "--parallel", *how))

    def alone(self, case):
        """(message, transcript) of one case run by itself."""
        text = self._client("--debug", case, seconds=30)
        return read_cases(text).get(case, "has no name of its own"), text


def again(story, direct, through, versioning, transcripts, label, known):
    """What differed is run by itself, each on new gateways, as cases leave things behind; its
    transcripts are kept if it still differs."""
    cases = [c for c in differ(direct, through) if c in known or not reason_of(c, known)]
    for case in cases[:ALONE_MAX]:
        sides = [Side(story, label, versioning, penstock) for penstock in (False, True)]
        (_, was), (message, became) = together(
            *(lambda side=side: side.alone(case) for side in sides))
        for side in sides:
            side.end()
        through[case] = message
        if message:
            transcripts.write(case, direct=was, through=became)


def compare(story, label, versioning, known, transcripts):
    sides = [Side(story, label, versioning, penstock) for penstock in (False, True)]
    direct, through = together(*(side.all for side in sides), seconds=320)
    for side in sides:
        side.end()
    story.fact(f"{label}: the suite ran", len(direct) > 600, f"{len(direct)} cases")
    left_out = [case for case, message in through.items()
                if message == ADMIN or case in ADMIN_CASES]
    for case in left_out:
        direct.pop(case, None)
    again(story, direct, through, versioning, transcripts, label, known)
    return verdict(story, label, direct, through, left_out, known)


with Story("conformance: versitygw's client", seconds=600) as story:
    versioned = [("versioning", True)]
    ways = versioned if "--versioning" in sys.argv else [("plain", False)] + versioned
    folder, *wanted = [arg for arg in sys.argv[1:] if arg != "--versioning"]
    known = listed(os.path.join(os.path.dirname(os.path.abspath(__file__)), "versitygw.differs"))
    transcripts = Transcripts(folder)
    if wanted:
        direct, through = {name: "" for name in wanted}, {}
        again(story, direct, through, True, transcripts, "single", {})
        verdict(story, "single cases", direct, through, [], known)
    else:
        met = {name for label, versioning in ways for name in compare(story, label, versioning, known, transcripts)}
        for name in sorted(known):
            if not any(reason_of(one, {name: "it"}) for one in met):
                story.note(f"{name} is listed and did not differ")
        story.fact("at most 16 differences are listed", len(known) <= 16, len(known))
        transcripts.write_listed(os.path.join(folder, "versitygw.transcripts"), known, brief)
    story.note(f"transcripts of what differs: {folder}")
