"""What /metrics says is text that Prometheus' own checker accepts."""
from harness import *

PROMTOOL = os.path.join(os.environ.get("PENSTOCK_TOOLS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "penstock-tools"),
    "prometheus/usr/bin/promtool")

with Story("b09 promtool accepts /metrics") as story:
    if not os.path.exists(PROMTOOL):
        raise Skip("promtool is not there: run scripts/tools promtool")
    origin = story.origin("object=bucket/a 1000", "objects=bucket/full/%d 20 1000000")
    server = story.penstock(origin=origin.url)
    for _ in range(3):
        story.same("a read", server.get("bucket/a").status, 200)
    bad = Client(server.port, ACCESS_KEY, "wrong")
    story.same("a bad signature", bad.get("bucket/a").status, 403)
    story.same("a probe of health", plain(server.port, "GET", "/_/health/ready").status, 200)
    text = plain(server.admin_port, "GET", "/metrics").body
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True,
                             timeout=PATIENCE)
    story.same("promtool finds nothing", (checked.returncode, checked.stdout + checked.stderr),
               (0, b""))
    story.fact("the reads are counted", b'penstock_requests_total{op="GetObject"} 3\n' in text,
               text[:2000])
    story.fact("a refusal is counted once, a probe of health is none",
               b'penstock_http_refused_total{cause="judge"} 1\n' in text
               and b"front_refused" not in text, text[:6000])
    figures = server.metrics()
    story.fact("memory and the start are those of the process",
               int(figures.get("process_resident_memory_bytes", 0)) >
               int(figures.get("penstock_own_memory_bytes", 0)) > 1 << 20 and
               abs(int(figures.get("process_start_time_seconds", 0)) - time.time()) < 60, figures)
    story.fact("the file system's free bytes are told",
               int(figures.get("penstock_store_filesystem_free_bytes", 0)) > 0, figures)
    story.same("all of the size may be used",
               int(figures.get("penstock_store_capacity_bytes", 0)), 2 << 30)

    # ---- a disk that others have filled ----
    squeezed = story.penstock(origin=origin.url, cache_dir=story.path("squeezed"),
                              cache_reserve="1024GiB")
    wait_for("a warning that the cache has no room", lambda: "cache_squeezed" in squeezed.log())
    story.same("nothing may be used", int(squeezed.metrics()["penstock_store_capacity_bytes"]), 0)
    time.sleep(1.5)
    story.same("one warning is enough", squeezed.log().count("cache_squeezed"), 1)

    # ---- a disk that is too full for pinned objects ----
    control = story.path("failpoints")
    full = story.penstock(origin=origin.url, cache_dir=story.path("full"), cache_size="64MiB", extent_size="4MiB",
                          pin_budget=80, freshness="immutable", env={"PENSTOCK_FAILPOINTS": control})
    story.same("all is pinned", full.client.ask("POST", "bucket", query=[("penstock-pin", ""), ("prefix", "")]).status, 200)
    wait_for("all is stored", lambda: all([full.get(f"bucket/full/{i}").cache == "hit" for i in range(20)]))
    with open(control, "w") as f:
        f.write("index-commit enospc 0 2\n")
    story.same("a key is deleted", full.ask("DELETE", "bucket/full/0").status, 204)
    wait_for("the log says that pinned objects were evicted", lambda: "pins_lost" in full.log())
    story.fact("... and a counter has their bytes", full.metric("penstock_pins_lost_bytes_total") > 3000000,
               full.metric("penstock_pins_lost_bytes_total"))

    # ---- what is not stored ----
    os.makedirs(story.path("tree/bucket"))
    young = story.penstock(origin="dir:" + story.path("tree"), cache_dir=story.path("young"))
    with open(story.path("tree/bucket/new"), "wb") as f:
        f.write(b"x" * 1000)
    story.same("a file that may still change is served", young.get("bucket/new").status, 200)
    story.same("... and it is counted why it is not stored",
               young.metrics().get('penstock_not_stored_total{cause="no_store"}'), 1)
