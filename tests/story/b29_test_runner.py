"""How scripts/test runs and counts: the longest first, as many at once as there are places for; how far it is; what
was late is tried again alone, and fails if it is late again."""
from harness import *

SECONDS = """# name, seconds, CPU seconds
long 1.2 0.1
middle 0.6 0.1
short 0.2 0.02
alone 0.2 0.2
"""


def runner(story, name, script):
    """The lines that a run prints whose tests are these. Its tree and its work folder are the story's."""
    tree = story.path(name)
    os.makedirs(os.path.join(tree, "tests"))
    with open(os.path.join(tree, "tests", "seconds"), "w") as f:
        f.write(SECONDS)
    done = subprocess.run(["bash", "-c", f"set -u; root={tree}; . {ROOT}/scripts/tools; . {ROOT}/scripts/runner; "
                           f"runner_start; {script}; runner_end"], env={**os.environ, "TMPDIR": tree},
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines(), done.stderr


with Story("b29 the runner of tests") as story:
    notes = story.path("notes")
    note = f'begin() {{ echo "$1 begins" >>{notes}; sleep "$2"; echo "$1 ends" >>{notes}; }}; export -f begin; '

    def add(name, seconds):
        return f'queue_add {name} one {name} 20 bash -c "begin {name} {seconds}"; '

    def order():
        with open(notes) as f:
            said = [line.split() for line in f.read().splitlines()]
        os.unlink(notes)
        return said
    status, lines, err = runner(story, "queue", "PLACES=1; " + note + add("short", 0) + add("long", 0) + add("middle", 0)
                                + "planned alone; queue_run; one alone 20 true")
    story.same("the longest runs first", [name for name, what in order() if what == "begins"], ["long", "middle", "short"])
    story.same("all passed", (status, lines[-1], err), (0, "4 passed, 0 failed, 0 skipped", ""))
    story.same("each line says how far the run is", [re.sub(r".*\((\d of \d), .* left\)$", r"\1", line) for line in lines[:4]],
               ["1 of 4", "2 of 4", "3 of 4", "4 of 4"])
    story.same("how long each took is kept", sorted(line.split()[0] for line in open(
        glob.glob(story.path("queue/penstock-test-*/seconds"))[0])), ["alone", "long", "middle", "short"])


    runner(story, "waiting", note + add("short", 3) + add("long", 3) + add("middle", 3) + "queue_run")
    story.same("tests that mostly wait run beside each other", [what for _, what in order()], 3 * ["begins"] + 3 * ["ends"])
    runner(story, "busy", note + "cpu_of[one]=4 seconds_of[one]=2 cpu_of[two]=4 seconds_of[two]=2; "
           + add("one", 0.5) + add("two", 0.5) + "queue_run")
    story.same("two that keep the cores busy do not", [what for _, what in order()], 2 * ["begins", "ends"])

    late = 'bash -c "echo WRONG it took too long; exit 75"'
    status, lines, _ = runner(story, "late", f"one slow 20 {late}")
    story.fact("LATE says what that means", re.match(
        r"LATE slow  only facts about time were wrong, so this test runs again alone at the end: it took too long$", lines[0]),
        lines[0])
    story.fact("late twice is a failure", status == 1 and "1 failed" in lines[-1]
               and any(line.startswith("FAIL slow  facts about time were wrong twice") for line in lines), lines)
    seen = story.path("seen")
    status, lines, _ = runner(story, "once", f'one slow 20 bash -c "[ -e {seen} ] || {{ touch {seen}; exit 75; }}"')
    story.same("late once is not", (status, lines[-1]), (0, "1 passed, 0 failed, 0 skipped"))
    status, lines, _ = runner(story, "skip", "one lacking 20 bash -c 'echo skip  no such tool; exit 77'; one bad 20 false")
    story.same("a skipped one says why, a failed one where its log is",
               (lines[0], lines[1].split(", see ")[0], lines[-1]),
               ("SKIP lacking  no such tool", "FAIL bad  ", "0 passed, 1 failed, 1 skipped"))
