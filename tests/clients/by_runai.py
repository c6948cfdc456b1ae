"""Run:ai Model Streamer, as vLLM and SGLang load weights with it: its wheels' own Python in front of
their C library, without the package's top, which needs torch. It reads and lists, and never writes.
As a program of its own: story e03. SPDX-License-Identifier: Apache-2.0"""
import ctypes
import hashlib
import importlib.util
import json
import os
import sys
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
        memory = ctypes.create_string_buffer(sum(length for _, length in ranges))
        starts, at = [], 0
        for _, length in ranges:
            starts.append(at)
            at += length
        base = ctypes.addressof(memory)
        lib.runai_request(self.streamer, [path], [len(ranges)], [offset for offset, _ in ranges],
                          [length for _, length in ranges], [base + start for start in starts])
        done = False
        while not done:
            code, _, _, index, done = lib.runai_response(self.streamer, 60_000)
            if code:
                raise OSError(f"range {index} of {path}: {lib.runai_response_str(code).decode()}")
        view = memoryview(memory).cast("B")
        return [view[start:start + length] for start, (_, length) in zip(starts, ranges)]

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


if __name__ == "__main__":
    if sys.argv[1] == "-":
        print(json.dumps(sums(json.load(sys.stdin))), flush=True)
        os._exit(0)    # its threads stay behind
    from sequence import main
    main(Client)
