"""Run:ai Model Streamer, as vLLM and SGLang load weights with it: its wheels' own Python in front of
their C library, without the package's top, which needs torch. It reads and lists, and never writes.
As a program of its own: story e03, and scripts/bench large. SPDX-License-Identifier: Apache-2.0"""
import ctypes
import hashlib
import importlib.util
import json
import os
import sys
import time
import types

NAME = "runai_model_streamer"
found = importlib.util.find_spec(NAME)
top = sys.modules[NAME] = types.ModuleType(NAME)    # in place of the one that imports torch
top.__path__ = list(found.submodule_search_locations)
from runai_model_streamer.libstreamer import libstreamer as lib  # noqa: E402
from runai_model_streamer.s3_utils.s3_utils import S3Credentials  # noqa: E402


class Streamer:
    """Endpoint and credentials come by the environment, as in a container."""

    def __init__(self):
        self.streamer = lib.runai_start()
        lib.runai_set_credentials(self.streamer, S3Credentials(
            region_name="us-east-1", endpoint=os.environ["AWS_ENDPOINT_URL"]))

    def read(self, path, ranges):
        """The bytes of each (offset, length), read as one submission."""
        return self.read_files([(path, ranges)])[0]

    def read_files(self, wanted):
        """The same for several files, which are one submission: [(path, ranges) ...]."""
        ranges = [span for _, spans in wanted for span in spans]
        memory = ctypes.create_string_buffer(sum(length for _, length in ranges))
        starts, at = [], 0
        for _, length in ranges:
            starts.append(at)
            at += length
        base = ctypes.addressof(memory)
        lib.runai_request(self.streamer, [path for path, _ in wanted], [len(spans) for _, spans in wanted],
                          [offset for offset, _ in ranges], [length for _, length in ranges],
                          [base + start for start in starts])
        done = False
        while not done:
            code, _, file, index, done = lib.runai_response(self.streamer, 60_000)
            if code:
                raise OSError(f"range {index} of {wanted[file][0]}: {lib.runai_response_str(code).decode()}")
        view = memoryview(memory).cast("B")
        pieces = iter([view[start:start + length] for start, (_, length) in zip(starts, ranges)])
        return [[next(pieces) for _ in spans] for _, spans in wanted]

    def load(self, paths):
        """The tensors of safetensors shards, as vLLM loads a model: the length of each header, then the headers, then
        all tensors. Returns [{name: bytes} ...]."""
        lengths = self.read_files([(path, [(0, 8)]) for path in paths])
        heads = [(path, [(8, int.from_bytes(length, "little"))]) for path, (length,) in zip(paths, lengths)]
        wanted, names = [], []
        for (path, [(_, length)]), (text,) in zip(heads, self.read_files(heads)):
            spans = {name: entry["data_offsets"] for name, entry in json.loads(bytes(text)).items()
                     if name != "__metadata__"}
            wanted.append((path, [(8 + length + first, end - first) for first, end in spans.values()]))
            names.append(list(spans))
        return [dict(zip(tensors, pieces)) for tensors, pieces in zip(names, self.read_files(wanted))]

    def names(self, prefix):
        seen = []
        lib.runai_list_files(self.streamer, prefix, lambda path, size: seen.append((path, size)))
        return seen


class Client:
    def __init__(self, told):
        self.base, self.streamer = f"s3://{told['bucket']}/", Streamer()

    def sizes(self, prefix):
        return {path.removeprefix(self.base): size
                for path, size in self.streamer.names(self.base + prefix)}

    def names(self, prefix):
        return list(self.sizes(prefix))

    def write(self, key, path, first, last):
        with open(path, "wb") as f:
            f.write(self.streamer.read(self.base + key, [(first, last + 1 - first)])[0])

    def part(self, key, path, first, last):
        self.write(key, path, first, last)

    def get(self, key, path):
        self.write(key, path, 0, self.sizes(key)[key] - 1)


def sums(told):
    """The SHA-256 of each range of a list; a batch of them is one submission."""
    streamer = Streamer()
    batches = [told["ranges"][i:i + told["batch"]]
               for i in range(0, len(told["ranges"]), told["batch"])]
    return [[hashlib.sha256(piece).hexdigest()
             for batch in batches for piece in streamer.read(path, batch)]
            for path in told["paths"]]


def load(told):
    """Loads a model; the SHA-256 of each tensor, and how long the load took."""
    began = time.monotonic()
    shards = Streamer().load(told["paths"])
    took = time.monotonic() - began
    return {"s": took, "sums": [{name: hashlib.sha256(tensor).hexdigest() for name, tensor in shard.items()}
                                for shard in shards]}


if __name__ == "__main__":
    if sys.argv[1] in ("-", "load"):
        told = json.load(sys.stdin)
        print(json.dumps(load(told) if sys.argv[1] == "load" else sums(told)), flush=True)
        os._exit(0)    # its threads stay behind
    from sequence import main
    main(Client)
