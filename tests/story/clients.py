"""clients.py - the same small tree for every client's story. SPDX-License-Identifier: Apache-2.0"""
from harness import *


def make_tree(story, bucket="photos", count=40, big=12 * MIB):
    """A directory origin's tree: returns {key: sha256}."""
    sums = {}
    names = [f"set/{i:03d}.bin" for i in range(count)] + ["set/with space.bin", "set/plus+sign.bin",
                                                          "set/größe-日本.bin", "set/big.bin"]
    for name in names:
        path = story.path(f"tree/{bucket}/{name}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        body = story.random.randbytes(big if name.endswith("big.bin") else story.random.randrange(1, 200_000))
        with open(path, "wb") as f:
            f.write(body)
        os.utime(path, (1700000000, 1700000000))
        sums[name] = hashlib.sha256(body).hexdigest()
    return sums


def boto3_reads(story, server, python, bucket, prefix, sums):
    """Runs boto3_reads.py under this Python and takes over its facts."""
    status, out, err = run([python, os.path.join(HERE, "boto3_reads.py"), bucket, prefix,
                            *(f"{k}:{v}" for k, v in sums.items())],
                           {**server.client_env(), "STORY_FOLDER": story.folder}, 100)
    for line in out.splitlines():
        story.fact(line.partition(" ")[2], line.startswith("ok "), line)
    story.same("boto3 came to its end", status, 0)
    if status != 0:
        story.note(err[-1500:])


def files_right(story, text, folder, sums, strip):
    """Every file of a downloaded folder has the sum it should."""
    bad = []
    for name, want in sums.items():
        try:
            with open(os.path.join(folder, name[len(strip):]), "rb") as f:
                if hashlib.sha256(f.read()).hexdigest() != want:
                    bad.append(name)
        except OSError:
            bad.append(name + " (absent)")
    story.fact(text, not bad, f"{len(bad)} wrong: {bad[:3]}")
