"""curl signs by itself and reads."""
from clients import *

with Story("b06 curl --aws-sigv4 reads a directory") as story:
    sums = make_tree(story, count=3)
    server = story.penstock(origin="dir:" + story.path("tree"))

    def curl(path, *more):
        return run(["curl", "-sS", "--path-as-is", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user",
                    f"{server.client.key}:{server.client.secret}", "-o", story.path("out"), "-w",
                    "%{http_code} %{size_download}", *more, f"{server.endpoint}/{path}"])

    status, out, err = curl("photos/set/big.bin", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD")
    story.same("a whole object", (status, out, err), (0, f"200 {12 * MIB}", ""))
    with open(story.path("out"), "rb") as f:
        story.same("its SHA-256", hashlib.sha256(f.read()).hexdigest(), sums["set/big.bin"])
    story.same("a range", curl("photos/set/big.bin", "-r", "5-104", "-H",
                               "x-amz-content-sha256: UNSIGNED-PAYLOAD")[1],
               "206 100")
    target = presign("GET", server.client.host, "/photos/set/000.bin", server.client.key,
                     server.client.secret)
    status, out, err = run(["curl", "-sS", "-o", story.path("out"), "-w", "%{http_code}",
                            server.endpoint + target])
    story.same("a presigned URL", out, "200")
