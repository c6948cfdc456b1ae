"""Ceph's s3-tests, against radosgw and through Penstock: cold, warm, and with a cache so small that
it evicts all the time. The suite is not ours: a checkout of it is given.
SPDX-License-Identifier: Apache-2.0

    s3tests.py PYTHON CHECKOUT FOLDER [PATTERN]     transcripts of what differs are written to FOLDER"""
import xml.etree.ElementTree as xml

from compare import *
from radosgw import Radosgw, User

LEFT_OUT = ("fails_on_rgw or bucket_logging or bucket_logging_cleanup or lifecycle or "
            "lifecycle_expiration or lifecycle_transition or cloud_transition or cloud_restore or "
            "s3website or sse_s3 or encryption or bucket_encryption or sns or target_by_bucket")
FELL = re.compile("Could not connect|Connection (was closed|reset|refused|broken)")
FILES = ("test_s3.py", "test_headers.py")
USERS = {
    "main": User("main", "MAINTESTKEY", "main/test+secret", ["--email", "main@example.com"]),
    "alt": User("alt", "ALTTESTKEY", "alt/test+secret", ["--email", "alt@example.com"]),
    "tenant": User("tenanted", "TENANTTESTKEY", "tenant/test+secret",
                   ["--tenant", "testx", "--email", "tenanted@example.com"]),
    "iam": User("iam", "IAMTESTKEY", "iam/test+secret",
                ["--email", "iam@example.com", "--caps", "roles=*;user-policy=*"]),
    "root": User("root", "ROOTTESTKEY", "root/test+secret", ["--email", "root@example.com"]),
    "other": User("other", "OTHERTESTKEY", "other/test+secret", ["--email", "other@example.com"]),
}
SECTIONS = {"s3 main": "main", "s3 alt": "alt", "s3 tenant": "tenant", "iam": "iam",
            "iam root": "root", "iam alt root": "other"}


def configuration(path, port):
    lines = ["[DEFAULT]", "host = 127.0.0.1", f"port = {port}", "is_secure = False",
             "ssl_verify = False", "[fixtures]", "bucket prefix = conf-{random}-",
             "iam name prefix = s3-tests-", "iam path prefix = /s3-tests/"]
    for section, name in SECTIONS.items():
        user = USERS[name]
        tenant = "testx" if name == "tenant" else ""
        uid = f"{tenant}${user.uid}" if tenant else user.uid
        lines += [f"[{section}]", f"display_name = {user.uid}", f"user_id = {uid}",
                  f"email = {user.uid}@example.com", f"access_key = {user.key}",
                  f"secret_key = {user.secret}", "api_name = default",
                  *([f"tenant = {tenant}"] if tenant else [])]
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    return path


class Suite:
    def __init__(self, story, python, checkout, pattern):
        self.story, self.python, self.checkout, self.pattern = story, python, checkout, pattern

    def _pytest(self, name, port, *argv, seconds):
        results = self.story.path(f"{name}.xml")
        env = {n: v for n, v in os.environ.items()
               if not n.startswith(("AWS_", "PENSTOCK")) and not n.lower().endswith("_proxy")}
        env["S3TEST_CONF"] = configuration(self.story.path(f"{name}.conf"), port)
        subprocess.run([self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                        f"--junitxml={results}", "-o", "junit_logging=all", *argv],
                       cwd=self.checkout, env=env, stdin=subprocess.DEVNULL,
                       capture_output=True, timeout=seconds)
        return results

    def _read(self, path):
        """{case: (message, transcript)}; a case that was skipped is not there."""
        cases = {}
        for case in xml.parse(path).getroot().iter("testcase"):
            name = case.get("classname").split(".")[-1] + "::" + case.get("name")
            wrong = [f"{child.tag}: {child.get('message') or ''}" for child in case
                     if child.tag in ("failure", "error")]
            text = "\n".join(child.text or "" for child in case)
            if case.find("skipped") is None:
                cases[name] = (wrong[0].replace("\n", " ") if wrong else "", text)
        return cases

    def all(self, name, port):
        chosen = ["-k", self.pattern] if self.pattern else []
        results = self._pytest(name, port, "-m", f"not ({LEFT_OUT})", "-n", "3", *chosen,
                               *(f"s3tests/functional/{f}" for f in FILES), seconds=1500)
        return {case: message for case, (message, _) in self._read(results).items()}

    def some(self, cases, port):
        """These alone, one after the other; again those that fell with radosgw."""
        done = {}
        for _ in range(3):
            left = [c for c in cases if c not in done or FELL.search(done[c][0])]
            if left:
                done.update(self._read(self._pytest(
                    "some", port, "--log-level=DEBUG",
                    *("s3tests/functional/" + c.replace("::", ".py::") for c in left),
                    seconds=900)))
        return done


def again(suite, ports, direct, through, transcripts, label):
    """What differed is run once more: another case may have brought radosgw down."""
    cases = differ(direct, through)
    became = suite.some(cases, ports[1])
    wrong = [case for case in cases if became.get(case, ("was not run", ""))[0]]
    was = suite.some(wrong, ports[0])
    for case in cases:
        through[case], text = became.get(case, ("was not run", ""))
        if case in wrong:
            direct[case], direct_text = was.get(case, ("was not run", ""))
            transcripts.write(f"{label}-{case}", direct=direct_text, through=text)


def penstock(story, gateway, name, **settings):
    main = USERS["main"]
    keys = [{"access_key": u.key, "secret_key": u.secret, "origin_access_key": u.key,
             "origin_secret_key": u.secret} for u in USERS.values()] + [{"anonymous": True}]
    return story.penstock(origin=gateway.url, access_key=None, secret_key=None, keys=keys,
                          origin_access_key=main.key, origin_secret_key=main.secret,
                          freshness=None, browser_uploads="64MiB",
                          cache_dir=story.path(name), **settings)


python, checkout, folder, *pattern = sys.argv[1:]
with Story("conformance: Ceph's s3-tests on radosgw", seconds=6000) as story:
    known = listed(os.path.join(os.path.dirname(os.path.abspath(__file__)), "s3tests.differs"))
    transcripts = Transcripts(folder)
    suite = Suite(story, python, checkout, " ".join(pattern))
    gateway = Radosgw(story, users=USERS)
    direct = suite.all("direct", gateway.port)
    fell = [case for case, message in direct.items() if FELL.search(message)]
    direct.update({case: was for case, (was, _) in suite.some(fell, gateway.port).items()})
    story.note(f"direct: {sum(not m for m in direct.values())} of {len(direct)} pass; "
               f"radosgw fell {gateway.falls} times")
    big = penstock(story, gateway, "big", cache_size="2GiB")
    small = penstock(story, gateway, "small", cache_size="64MiB", extent_size="4MiB")
    for label, server in (("cold", big), ("warm", big), ("evicting", small)):
        through = suite.all(label, server.port)
        again(suite, (gateway.port, server.port), direct, through, transcripts, label)
        verdict(story, label, direct, through, [], known)
        story.note(f"recycled extents: {server.metric('penstock_store_recycled_extents_total'):.0f}, "
                   f"radosgw fell {gateway.falls} times")
    story.note(f"transcripts of what differs: {folder}")
