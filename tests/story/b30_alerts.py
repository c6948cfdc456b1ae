"""The alert rules: promtool accepts them and their tests, each alert has a test and a paragraph in the manual, and each
metric that they name is there. The schema of the Helm chart has every setting."""
import chart
from harness import *

PROMTOOL = os.path.join(TOOLS, "prometheus/usr/bin/promtool")
RULES = os.path.join(chart.CHART, "monitoring", "alerts.yml")
TESTS = sorted(glob.glob(os.path.join(ROOT, "tests", "monitoring", "*_test.yml")))


def read(path):
    with open(path) as f:
        return f.read()


with Story("b30 alert rules") as story:
    server = story.penstock(origin=story.origin("object=bucket/a 1000").url)
    rules, manual = read(RULES), read(os.path.join(ROOT, "man", "penstock-metrics.7.md"))
    alerts = re.findall(r"^  - alert: (\w+)$", rules, re.M)
    story.fact("there are alerts", len(alerts) > 25 and len(set(alerts)) == len(alerts), alerts)
    for word in "summary", "description", "action":
        story.same(f"each alert has a {word}", len(re.findall(rf"^      {word}: ", rules, re.M)), len(alerts))
    tested = set(re.findall(r'alertname="(\w+)"', "".join(map(read, TESTS))))
    story.same("each alert has a test", sorted(set(alerts) ^ tested), [])
    section = re.search(r"\n## What to alert on\n(.*?)\n## ", manual, re.S)[1]
    story.same("the manual has a paragraph on each", sorted(set(alerts) ^ set(re.findall(r"\*\*(Penstock\w+)\*\*", section))), [])
    text = plain(server.admin_port, "GET", "/metrics").body.decode()
    known = set(re.findall(r"^# TYPE (\S+) ", text, re.M))
    named = set(re.findall(r"\b(?:penstock|process)_\w+", re.sub(r"^ +(?:action|description|summary): .*$", "", rules, flags=re.M)))
    story.same("each metric that they name is there", sorted(named - known - {"penstock_stat"}), [])
    story.same("... and each that the manual names", sorted(set(re.findall(r"`(penstock_\w+)", section)) - known), [])
    # A rule that asks for a label's value that no metric has never fires.
    for metric, label, value in re.findall(r'(penstock_\w+)\{(\w+)="(\w+)"\}', rules):
        story.fact(f"{metric} has {label}={value}", f'{metric}{{{label}="{value}"}} ' in text)

    example = run([PENSTOCK, "config", "--example"])[1]
    story.same("values.schema.json has the settings of today (else: scripts/generate)",
               json.loads(read(chart.SCHEMA))["properties"]["settings"], chart.settings_schema(example))

    if not os.path.exists(PROMTOOL):
        raise Skip("promtool is not there: run scripts/tools promtool")
    status, out, err = run([PROMTOOL, "check", "rules", RULES])
    story.fact("promtool accepts the rules", status == 0 and f"{len(alerts) + 2} rules found" in out, out + err)
    story.same("their tests pass", run([PROMTOOL, "test", "rules", *TESTS])[::2], (0, ""))
