"""The functional tests of MinIO's Go client, against MinIO and through Penstock: what passes directly
passes through. SPDX-License-Identifier: Apache-2.0

    miniogo.py MINIO TESTS FOLDER [CASE ...]    transcripts of what differs are written to FOLDER

TESTS is the program that scripts/tools makes of them: it runs the test that it is told. Each runs in
a process and a folder of its own, on both sides at once."""
from compare import *

SECONDS_MAX = 240    # for one test; the slowest takes a few seconds on an idle machine


def read_result(text, status):
    """"" if a test passed. One that finds a call not implemented says NA: that is not passed."""
    wrong, passed = [], False
    for line in text.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        result = said.get("status") if isinstance(said, dict) else None
        passed = passed or result == "PASS"
        if result in ("FAIL", "NA"):
            wrong.append(f"{result}: {said.get('function')}: {said.get('message') or said.get('alert')}: {said.get('error', '')}")
    if status is None:
        wrong.append(f"took more than {SECONDS_MAX} s")
    elif status:
        wrong.append(f"exit status {status}")
    return " ".join(" / ".join(wrong).split()) if wrong or passed else "says nothing"


def one(story, case, side, port):
    """(message, transcript) of one test on one side."""
    folder = story.path(f"{case}-{side}")
    os.makedirs(folder)
    env = {n: v for n, v in os.environ.items() if not n.startswith(("AWS_", "PENSTOCK", "MINT_", "NOTIFY_"))}
    env.update(SERVER_ENDPOINT=f"127.0.0.1:{port}", ACCESS_KEY=ORIGIN_KEY, SECRET_KEY=ORIGIN_SECRET,
               ENABLE_HTTPS="0", ENABLE_KMS="0", MINT_MODE="full", RUN_ON_FAIL="1", TMPDIR=folder)
    log = os.path.join(folder, "log")
    with open(log, "wb") as f:
        process = subprocess.Popen([tests, case], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=f, stderr=f)
        try:
            status = process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = None
    with open(log, encoding="utf-8", errors="replace") as f:
        text = f.read()
    shutil.rmtree(folder)
    return read_result(text, status), text


minio, tests, folder, *wanted = sys.argv[1:]
with Story("conformance: the tests of MinIO's Go client", seconds=3600) as story:
    known = listed(os.path.join(os.path.dirname(os.path.abspath(__file__)), "miniogo.differs"))
    transcripts = Transcripts(folder)
    cases = subprocess.run([tests], capture_output=True, text=True, check=True).stdout.split()
    cases = [case for case in cases if not wanted or any(fnmatch.fnmatchcase(case, name) for name in wanted)]
    check(cases, f"there is no test by the name {' '.join(wanted)}")
    origin = Minio(story, minio)
    server = story.penstock(origin=origin.url, access_key=None, secret_key=None, freshness=None, browser_uploads="64MiB",
                            keys=[{"access_key": ORIGIN_KEY, "secret_key": ORIGIN_SECRET}, {"anonymous": True}])
    direct, through = {}, {}
    for case in cases:
        (direct[case], was), (through[case], became) = together(
            lambda: one(story, case, "direct", origin.port), lambda: one(story, case, "through", server.port),
            seconds=SECONDS_MAX + 20)
        if differ({case: direct[case]}, through):    # once more: it may have been an accident
            through[case], became = one(story, case, "again", server.port)
        if differ({case: direct[case]}, through):
            transcripts.write(case, direct=was, through=became, penstock=server.log()[-20000:])
        print(f"      {case}: direct {direct[case] or 'passed'}, through {through[case] or 'passed'}"[:400], flush=True)
    verdict(story, "minio-go", direct, through, [], known)
    for name in sorted(known):
        if not wanted and not any(reason_of(one, {name: "it"}) for one in differ(direct, through)):
            story.note(f"{name} is listed and did not differ")
    story.note(f"transcripts of what differs: {folder}")
