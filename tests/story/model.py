"""model.py - a model as loaders see it: shards in the safetensors format, with random bytes.
SPDX-License-Identifier: Apache-2.0

A shard begins with the length of its header (8 bytes), and its header (JSON: the name, shape and place of each
tensor). The tensors are those of a transformer: matrices of many MiB with norms of a few KiB between them. The last
tensor takes what is left, so a shard has exactly the size that is asked for."""
import glob
import hashlib
import itertools
import json
import os
import struct

from harness import TOOLS

MIB = 1 << 20
HEADS = {"q_proj": 1, "k_proj": 0.25, "v_proj": 0.25, "o_proj": 1}    # rows, as a part of the width
ITEM = 2    # bytes of a BF16
HEADER_MAX = 64 * 1024


def streamer():
    """The Python that has Run:ai Model Streamer; None: scripts/tools has not installed it."""
    found = glob.glob(os.path.join(TOOLS, "runai-*", "bin", "python3"))
    return max(found, key=os.path.getmtime) if found else None


def layer(number, width):
    """The tensors of a layer: (name, shape) ..."""
    yield f"model.layers.{number}.input_layernorm.weight", (width,)
    for name, rows in HEADS.items():
        yield f"model.layers.{number}.self_attn.{name}.weight", (int(rows * width), width)
    yield f"model.layers.{number}.post_attention_layernorm.weight", (width,)
    for name in ("gate_proj", "up_proj", "down_proj"):
        yield f"model.layers.{number}.mlp.{name}.weight", (width * 7 // 2, width)


def bytes_of(shape):
    count = ITEM
    for n in shape:
        count *= n
    return count


def header(tensors, pad_to=0):
    """The beginning of a shard with these tensors, up to the first of them."""
    at, entries = 0, {"__metadata__": {"format": "pt"}}
    for name, shape in tensors:
        entries[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + bytes_of(shape)]}
        at += bytes_of(shape)
    text = json.dumps(entries, separators=(",", ":")).encode()
    text = text.ljust(max(pad_to, (len(text) + 7) // 8 * 8))
    return struct.pack("<Q", len(text)) + text


def tensors_of(first_layer, size):
    """The tensors of a shard of this size, and its header."""
    width = 4096 if size >= 256 * MIB else 512
    tensors, left = [], size - HEADER_MAX
    for name, shape in itertools.chain.from_iterable(layer(n, width) for n in itertools.count(first_layer)):
        if bytes_of(shape) > left:
            break
        tensors.append((name, shape))
        left -= bytes_of(shape)
    rest = ("model.rest.weight", (size // ITEM,))
    pad_to = len(header([*tensors, rest])) - 8
    taken = 8 + pad_to + sum(bytes_of(shape) for _, shape in tensors)
    tensors.append((rest[0], ((size - taken) // ITEM,)))
    return tensors, header(tensors, pad_to)


def write_shard(path, first_layer, size):
    """Writes a shard of `size` bytes; returns {name of a tensor: SHA-256}."""
    tensors, head = tensors_of(first_layer, size)
    sums = {}
    with open(path, "wb") as f:
        f.write(head)
        for name, shape in tensors:
            left, digest = bytes_of(shape), hashlib.sha256()
            while left:
                piece = os.urandom(min(left, 4 * MIB))
                digest.update(piece)
                f.write(piece)
                left -= len(piece)
            sums[name] = digest.hexdigest()
    assert os.path.getsize(path) == size
    return sums


def write(folder, shards, size):
    """Writes a model of so many shards, each of `size` bytes; returns [(path, {name: SHA-256}) ...]."""
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, f"model-{n:05}-of-{shards:05}.safetensors") for n in range(1, shards + 1)]
    return [(path, write_shard(path, 100 * n, size)) for n, path in enumerate(paths)]
