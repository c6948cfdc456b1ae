"""What /metrics says is text that Prometheus' own checker accepts."""
from harness import *

PROMTOOL = os.path.join(os.environ.get("PENSTOCK_TOOLS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "penstock-tools"),
    "prometheus/usr/bin/promtool")

with Story("b09 promtool accepts /metrics") as story:
    if not os.path.exists(PROMTOOL):
        raise Skip("promtool is not there: run scripts/tools promtool")
    origin = story.origin("object=bucket/a 1000")
    server = story.penstock(origin=origin.url)
    for _ in range(3):
        story.same("a read", server.get("bucket/a").status, 200)
    text = plain(server.admin_port, "GET", "/metrics").body
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True,
                             timeout=30)
    story.same("promtool finds nothing", (checked.returncode, checked.stdout + checked.stderr),
               (0, b""))
    story.fact("the reads are counted", b'penstock_requests_total{op="GetObject"} 3\n' in text,
               text[:2000])
