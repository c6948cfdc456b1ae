"""A cold read costs what a direct one costs: curl, 30 ms and 100 MB/s a connection, in turns.
Arguments: MiB (128), pairs (3), the most it may be of direct (1.15)."""
from harness import *

SIZE = (int(sys.argv[1]) if len(sys.argv) > 1 else 128) * MIB
PAIRS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
MOST = float(sys.argv[3]) if len(sys.argv) > 3 else 1.15

with Story(f"p01 {SIZE // MIB} MiB cold by curl, {PAIRS} pairs", seconds=60 + PAIRS * (20 + SIZE // (20 * MIB))) as story:
    if not shutil.which("curl"):
        raise Skip("there is no curl")
    origin = story.origin("first_byte_ms=30", "bandwidth=100000000")
    server = story.penstock(origin=origin.url, cache_size=f"{max(GIB, 2 * SIZE * (PAIRS + 1))}")

    def curl(port, key):
        signed = ["--aws-sigv4", "aws:amz:us-east-1:s3", "-u", f"{ACCESS_KEY}:{SECRET_KEY}", "-H",
                  f"x-amz-content-sha256: {hashlib.sha256(b'').hexdigest()}"] if port == server.port else []
        status, out, err = run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{size_download} %{time_total}", *signed,
                                f"http://127.0.0.1:{port}/{key}"], seconds=120)
        words = out.split()
        check(status == 0 and words[0] == "200" and int(words[1]) == SIZE, f"curl: {status} {out} {err}")
        return float(words[2])

    ratios, direct, ours = [], [], []
    for pair in range(PAIRS):
        key = f"bucket/{pair}/size-{SIZE}-x"
        turns = [("direct", origin.port), ("ours", server.port)]
        took = {name: curl(port, key) for name, port in (turns if pair % 2 else turns[::-1])}
        direct.append(took["direct"])
        ours.append(took["ours"])
        ratios.append(took["ours"] / took["direct"])
    middle = sorted(ratios)[len(ratios) // 2]
    story.note(f"median {middle:.4f} of direct ({min(ratios):.4f} to {max(ratios):.4f}); "
               f"ours {min(ours):.3f} to {max(ours):.3f} s, direct {min(direct):.3f} to {max(direct):.3f} s")
    story.in_time(f"at most {MOST} of direct", middle <= MOST, f"{middle:.4f}")
