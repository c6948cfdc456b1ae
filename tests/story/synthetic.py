"""synthetic.py - the bytes of scripted-origin's objects. SPDX-License-Identifier: Apache-2.0

The twin of tests/origin/objects.c, where the function is written down. About 3 GB/s."""

from hashlib import sha256

BLOCK = 65536
PAGE = 4096

_PATTERN = b"".join(sha256(b"penstock pattern %d" % i).digest() for i in range(BLOCK // 32)) * 2


def block(key, version, number):
    """One 64 KiB block of "bucket/key"."""
    if isinstance(key, str):
        key = key.encode()
    digest = sha256(b"%s\0%d\0%d" % (key, version, number)).digest()
    turn = digest[0] << 8 | digest[1]
    pieces = []
    for page in range(turn, turn + BLOCK, PAGE):
        pieces.append(digest)
        pieces.append(_PATTERN[page + 32:page + PAGE])
    return b"".join(pieces)


def expect(key, version, first, length):
    """Bytes [first, first + length) of version `version` of "bucket/key"."""
    start = first // BLOCK
    blocks = [block(key, version, n) for n in range(start, (first + length + BLOCK - 1) // BLOCK)]
    at = first - start * BLOCK
    return b"".join(blocks)[at:at + length]


def whose(data, keys, versions=(1, 2, 3), blocks=4096):
    """For a failure's message: which page of which object do these wrong bytes begin with?"""
    for key in keys:
        for version in versions:
            for number in range(blocks):
                if sha256(b"%s\0%d\0%d" % (key.encode(), version, number)).digest() == data[:32]:
                    return f"{key} version {version} block {number}"
    return "nobody's we know"


def etag(key, version):
    return '"' + sha256(b"%s\0%d\0etag" % (key.encode(), version)).hexdigest()[:32] + '"'
