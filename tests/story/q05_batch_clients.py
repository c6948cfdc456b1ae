"""curl and boto3's session sign a batch; tar readers read its answer."""
from batches import document, frames, read_frames, read_tar
from authority import *
from clients import *

BOTO3 = """
import json, sys, tarfile, urllib.request
import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
endpoint, bucket, keys = sys.argv[1], sys.argv[2], sys.argv[3:]
session = boto3.Session()
request = AWSRequest("POST", f"{endpoint}/{bucket}?penstock-batch", data=json.dumps({"items": keys}))
S3SigV4Auth(session.get_credentials(), "s3", session.region_name).add_auth(request)
answer = urllib.request.urlopen(urllib.request.Request(request.url, request.data.encode(), dict(request.headers)))
with tarfile.open(fileobj=answer, mode="r|") as tar:
    for member in tar:
        print(member.name, member.size, sum(tar.extractfile(member).read()))
"""

with Story("q05 clients of batches") as story:
    long = "long/" + "n" * 150
    origin = story.origin("objects=train/%04d.jpg 5 70000", "objects=train/%04d.cls 5 2", "object=train/" + long + " 700",
                          "object=train/with space 9", "object=train/empty 0")
    ours, tls_port = Authority(story, "ours"), free_port()
    cert, key = ours.sign("first")
    server = story.penstock(origin=origin.url, tls_listen=f"127.0.0.1:{tls_port}", tls_cert_file=cert, tls_key_file=key)
    keys = [f"{i:04d}.{kind}" for i in range(5) for kind in ("jpg", "cls")] + [long, "with space", "empty"]
    wanted = {key: expect(f"train/{key}", 1, 0, size) for key, size in
              [(k, 70000 if k.endswith("jpg") else 2 if k.endswith("cls") else 700) for k in keys[:-2]]
              + [("with space", 9), ("empty", 0)]}
    with open(story.path("list"), "wb") as f:
        f.write(document(keys))

    # ---- https: many runs of bytes in one write, as the socket takes them ----
    through = Client(tls_port, tls=ours.client())
    for _ in range(2):
        got = frames(through, "train", keys * 30)
        story.fact("by https it is the same", [i.body for i in got] == [wanted[k] for k in keys * 30], got)

    # ---- curl ----
    def curl(name, *more):
        return run(["curl", "-sS", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{server.client.key}:{server.client.secret}",
                    "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "--data-binary", "@" + story.path(name), "-o", story.path("out.tar"), "-w", "%{http_code} %{content_type}",
                    *more, f"{server.endpoint}/train?penstock-batch="])
    status, out, err = curl("list")
    story.same("curl --aws-sigv4 gets a batch", (status, out, err), (0, "200 application/x-tar", ""))
    with open(story.path("out.tar"), "rb") as f:
        data = f.read()
    story.same("python's tarfile reads it as a stream", {i.key: i.body for i in read_tar(data)}, wanted)
    story.same("... and by seeking", [(i.key, i.body) for i in read_tar(data, "r:")], [(k, wanted[k]) for k in keys])
    with open(story.path("framed"), "wb") as f:
        f.write(document(keys, form="frames"))
    story.same("frames by curl", curl("framed", "--http1.0")[1],
               "200 application/vnd.penstock.frames")
    with open(story.path("out.tar"), "rb") as f:
        items, whole = read_frames(f.read())
    story.same("... are whole, also by HTTP/1.0", (whole, [i.body for i in items]), (True, [wanted[k] for k in keys]))

    # ---- on the same host nothing is paced, whatever the host is set to ----
    def algorithms(port, host):
        """The congestion control of a connection and of its listening sockets, as ss shows them."""
        wire = Wire(port, host=host)
        wire.send(server.client.head_of("GET", "train/0000.cls", sign_it=False))
        wire.read()
        there = f"sport = :{port} and dport = :{wire.socket.getsockname()[1]}"
        told = [run(["ss", "-inH", *ask])[1].split() for ask in (["-t", there], ["-tl", f"sport = :{port}"])]
        wire.close()
        return [{word for word in words if word in known} for words in told]

    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as f:
        known = set(f.read().split())
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as f:
        usual = f.read().strip()
    if shutil.which("ss"):
        # Linux paces a connection to its end that has begun with an algorithm which paces, so its listening socket must not have one.
        story.same("a connection on the loopback is not paced from its beginning on", algorithms(server.port, "127.0.0.1"), [{"reno"}, {"reno"}])
        outside = [address for address in run(["hostname", "-I"])[1].split() if "." in address]
        if outside:
            open_to_all = story.penstock(origin=origin.url, listen=f"0.0.0.0:{free_port()}")
            story.same("a connection of another host has what this host is set to", algorithms(open_to_all.port, outside[0])[0], {usual})

    # ---- readers of tar ----
    curl("list")
    for name in ("tar", "bsdtar"):
        if not shutil.which(name):
            story.note(f"{name} is not installed")
            continue
        folder = story.path(f"by-{name}")
        os.mkdir(folder)
        status, out, err = run([name, "-xf", story.path("out.tar"), "-C", folder])
        story.same(f"{name} unpacks it", (status, out, err), (0, "", ""))
        found = {}
        for key in keys:
            with open(os.path.join(folder, key), "rb") as f:
                found[key] = f.read()
        story.same("... into the same bytes", found, wanted)

    # ---- boto3's session ----
    target = presign("POST", server.client.host, "/train", server.client.key, server.client.secret,
                     query=[("penstock-batch", "")])
    reply = plain(server.port, "POST", target, body=document(["0001.cls"], form="frames"))
    story.same("a presigned batch", (reply.status, read_frames(reply.body)[0][0].body), (200, wanted["0001.cls"]))
    status, out, err = run([tool("python3"), "-c", BOTO3, server.endpoint, "train", *keys], env=server.client_env())
    story.same("botocore signs one, tarfile reads its answer", (status, out.splitlines(), err),
               (0, [f"{key} {len(wanted[key])} {sum(wanted[key])}" for key in keys], ""))
