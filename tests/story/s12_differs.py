"""Where an answer is not the origin's, penstock-s3(7) says so: on versitygw, and on MinIO and moto where
scripts/tools has made them (minio, moto)."""
from differs import *


def moto(story):
    """moto's S3; None where it is not installed."""
    found = sorted(glob.glob(os.path.join(TOOLS, "moto-*", "bin", "moto_server")))
    if not found:
        return None
    port = free_port()
    Process(story, "moto", [found[-1], "-p", str(port)])
    return port


def minio(story):
    found = glob.glob(os.path.join(TOOLS, f"minio-{pinned('minio')}", "bin", "minio"))
    return Minio(story, found[0]).port if found else None


with Story("s12 answers that are not the origin's", seconds=300) as story:
    for name, start in (("versitygw", lambda story: story.versity(versioning=True).port), ("MinIO", minio), ("moto", moto)):
        port = start(story)
        if not port:
            story.note(f"{name} is not installed: scripts/tools {name.lower()}")
            continue
        direct = Client(port, ORIGIN_KEY, ORIGIN_SECRET)
        wait_for(f"{name} answers", lambda: direct.ask("GET", "").status == 200)
        server = story.penstock(origin=f"http://127.0.0.1:{port}", freshness=None, browser_uploads="1MiB",
                                cache_dir=story.path(f"cache-{name}"))
        judge(story, name, direct, server.client)
        server.stop()
