"""sequence.py - what every client does, whatever it is. SPDX-License-Identifier: Apache-2.0

A client is an object with some of the methods put, get, part, size, copy, delete, names, presign;
what it lacks, it can't do. play() returns {step: what came of it}: the same for all endpoints, if
they are alike. Bytes are told by their SHA-256. Python clients run this under a Python that has
them: each of by_*.py is a process of its own."""
import hashlib
import json
import os
import ssl
import sys
import urllib.request

PART = (1_000_000, 1_099_999)


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def fetch(url, bundle):
    """A presigned URL, as a browser would."""
    context = ssl.create_default_context(cafile=bundle) if bundle else None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                         urllib.request.HTTPSHandler(context=context))
    with opener.open(url, timeout=20) as answer:
        return hashlib.sha256(answer.read()).hexdigest()


def play(client, told):
    seen, small, large, prefix = {}, told["small"], told["large"], told["prefix"]
    here = os.path.join(told["folder"], "got")
    names = {name: f"{prefix}/{name}" for name in ("small.bin", "large.bin", "copied.bin")}

    def step(name, needs, work):
        if not hasattr(client, needs):
            return
        try:
            seen[name] = work()
        except Exception as failure:    # noqa: BLE001 (it is the finding)
            seen[name] = f"failed: {failure.__class__.__name__}: {failure}"[:600]

    def got(name):
        if os.path.exists(here):
            os.unlink(here)
        client.get(names[name], here)
        return digest(here)

    def presigned():
        url = client.presign(names["small.bin"])
        if not hasattr(client, "fetch"):
            return fetch(url, told["ca"])
        client.fetch(url, here)
        return digest(here)

    def part():
        if os.path.exists(here):
            os.unlink(here)
        client.part(names["large.bin"], here, *PART)
        return digest(here)

    def listed():
        return sorted(os.path.basename(n) for n in client.names(prefix + "/"))

    step("put small", "put", lambda: client.put(small, names["small.bin"]) and None)
    step("put large", "put", lambda: client.put(large, names["large.bin"]) and None)
    step("list", "names", listed)
    step("part, cold", "part", part)
    step("get, cold", "get", lambda: got("large.bin"))
    step("get, warm", "get", lambda: got("large.bin"))
    step("part, warm", "part", part)
    step("get small", "get", lambda: got("small.bin"))
    step("size", "size", lambda: int(client.size(names["large.bin"])))
    step("copy", "copy", lambda: client.copy(names["small.bin"], names["copied.bin"]) and None)
    if hasattr(client, "copy"):
        step("get the copy", "get", lambda: got("copied.bin"))
    step("presigned", "presign", presigned)
    step("delete", "delete", lambda: client.delete(names["small.bin"]) and None)
    step("list after", "names", listed)
    return seen


def main(connect):
    """A Python client's process: endpoint and files come as JSON, what was seen goes back."""
    told = json.loads(sys.argv[1])
    print(json.dumps(play(connect(told), told)), flush=True)
    os._exit(0)    # some leave threads behind
