"""What botocore signs verifies, in every shape it can be given; with one change in a signed part it
does not.

    s01_signatures.py [COUNT [SEED]]    (2,000 requests, half of them presigned; with --worker: the signing half)
"""
import os
import random
import subprocess
import sys
import time

ACCESS, SECRET = "AKIDRANDOM", "secret/with+all=of/it"
HOST = "127.0.0.1:9000"


# ---- the half that signs: runs under a Python that has botocore ----

def worker(count, seed):
    try:
        from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials
    except ImportError:
        return 77
    from urllib.parse import quote
    rnd = random.Random(seed)
    letters = "abcXYZ019-._~ +/%&=?#;:@!$'()*,[]{}|\\^`\"<>éß日本😀"
    plain = "abcdefghijklmnopqrstuvwxyz0123456789"

    def text(most, least=0, of=letters):
        return "".join(rnd.choice(of) for _ in range(rnd.randint(least, most)))

    def make():
        path = "/bucket" + rnd.choice(["", "/", "/" + quote(text(40, 1), safe="/-._~")])
        params = []
        for _ in range(rnd.choice([0, 0, 1, 2, 5])):
            name = quote(text(6, 1), safe="-._~")
            params.append(name + rnd.choice(["", "=", "=" + quote(text(12), safe="-._~")]))
        presigned = rnd.random() < 0.5
        if presigned:    # botocore keeps one of each name, and moves the others about
            params = list({p.split("=")[0]: p for p in params if "=" in p
                           and p[-1] != "="}.values())
        url = f"http://{HOST}{path}" + ("?" + "&".join(params) if params else "")
        request = AWSRequest(method=rnd.choice(["GET", "HEAD", "PUT", "POST", "DELETE"]), url=url,
                             data=b"")
        for _ in range(rnd.choice([0, 1, 2, 4])):
            value = "  ".join(text(8, 1, "abcXYZ019=,;:é") for _ in range(rnd.randint(1, 3)))
            request.headers.add_header(rnd.choice(["x-amz-meta-", "X-Amz-Meta-",
                                                   "X-Other-"]) + text(3, 1, plain),
                                       rnd.choice(["", " "]) + value)
        token = text(200, 1, plain + "+/=") if rnd.random() < 0.5 else None
        region = rnd.choice(["us-east-1", "eu-central-1", "auto", "local"])
        credentials = Credentials(ACCESS, SECRET, token)
        if presigned:
            auth = S3SigV4QueryAuth(credentials, "s3", region, expires=rnd.choice([900, 604800]))
        else:
            auth = S3SigV4Auth(credentials, "s3", region)
            hashed = rnd.choice(["UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
                                 "%064x" % rnd.getrandbits(256)])
            auth.payload = lambda request: hashed
        auth.add_auth(request)
        lines = [f"{request.method} {request.url[len('http://' + HOST):]} HTTP/1.1",
                 f"Host: {HOST}"]
        lines += [f"{n}: {v}" for n, v in request.headers.items() if n.lower() != "host"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    for _ in range(count):
        head = make()
        sys.stdout.buffer.write(b"%d\n" % len(head) + head)
    return 0


# ---- the half that changes, and asks ----

def frames(data):
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        size = int(data[at:end])
        yield data[end + 1:end + 1 + size]
        at = end + 1 + size


def mutated(rnd, head):
    """One letter or digit of a signed part becomes another; case alone would change nothing in an
    escape."""
    first, _, rest = head.partition(b"\r\n")
    unsigned = head.find(b"AWS4-HMAC-SHA256 Credential=")    # the key's name and the words around are not signed
    while True:
        at = rnd.randrange(len(head) - 4)
        if not head[at:at + 1].isalnum() or unsigned >= 0 and unsigned <= at < unsigned + 40:
            continue
        other = rnd.choice(b"abcdefghijkmnpqrsuwyz23456789")
        if bytes([other]).lower() != head[at:at + 1].lower():
            return head[:at] + bytes([other]) + head[at + 1:]


def verdicts(tool, heads):
    data = b"".join(b"%d\n" % len(head) + head for head in heads)
    ended = subprocess.run([tool, ACCESS, SECRET, str(int(time.time()))], input=data,
                           stdout=subprocess.PIPE, check=True)
    return ended.stdout.decode().split()


def main():
    import harness
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    tool = harness.find_binary("VERIFY_RANDOM", "tests/tools/verify_random",
                               "build*/tests/tools/verify_random")
    if not tool and harness.SCRIPTED:
        tool = os.path.join(os.path.dirname(harness.SCRIPTED), "..", "tools", "verify_random")
    with harness.Story("s01 botocore's signatures verify, changed ones don't") as story:
        if not tool or not os.access(tool, os.X_OK):
            raise harness.Skip("verify_random is not built: run make")
        python = harness.tool("python3")
        signed = subprocess.run([python, __file__, "--worker", str(count), str(seed)],
                                stdout=subprocess.PIPE)
        if signed.returncode == 77:
            raise harness.Skip("there is no botocore")
        story.same("all were signed", signed.returncode, 0)
        rnd = random.Random(seed)
        heads = list(frames(signed.stdout))
        good = verdicts(tool, heads)
        wrong = [(v, h) for v, h in zip(good, heads) if v != "ok"]
        story.fact("every one verifies", len(good) == count and not wrong,
                   f"seed {seed}: {wrong[:1]}")
        heads = [mutated(rnd, head) for head in heads]
        bad = verdicts(tool, heads)
        passed = [h for v, h in zip(bad, heads) if v == "ok"]
        story.fact("every one with a change is refused", len(bad) == count and not passed,
                   f"seed {seed}: {passed[:1]}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        sys.exit(worker(int(sys.argv[2]), int(sys.argv[3])))
    main()
