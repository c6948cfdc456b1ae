#!/usr/bin/env python3
# make_rank.py - writes tests/vectors/rank.txt: which nodes rank first. SPDX-License-Identifier: Apache-2.0
#
# Weighted rendezvous as src/peers/rank.c has it, on its own: with the Python package of xxHash, and with a table of
# logarithms that is computed here. All texts are in hex. "node ID WEIGHT" is the next node;
# "place SEGMENT ENDPOINT BUCKET KEY VERSION BEST..." has the indexes of the best four nodes, and - for an empty text.
#
#   python3 -m venv v && v/bin/pip install xxhash && v/bin/python tests/vectors/make_rank.py
import decimal
import hashlib
import os

import xxhash

ALL = 2**64 - 1
FRACTION = 32


def log2_fixed(number):
    """Returns log2(number) with 32 bits after the point."""
    with decimal.localcontext() as context:
        context.prec = 60
        log2 = number.ln() / decimal.Decimal(2).ln()
        return int((log2 * 2**FRACTION).to_integral_value(decimal.ROUND_HALF_EVEN))


TABLE = [log2_fixed(1 + decimal.Decimal(i) / 64) for i in range(65)]


def mix(value):
    value = (value ^ value >> 33) * 0xff51afd7ed558ccd & ALL
    value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53 & ALL
    return value ^ value >> 33


def draw(value):
    """Returns about -log2(value / 2^64), with 32 bits after the point."""
    value |= 1
    zeros = 64 - value.bit_length()
    mantissa = value << zeros << 1 & ALL
    step, rest = mantissa >> 58, (mantissa << 6 & ALL) >> FRACTION
    log = TABLE[step] + ((TABLE[step + 1] - TABLE[step]) * rest >> FRACTION)
    return (zeros + 1 << FRACTION) - log


def rank(nodes, texts, segment):
    place = 0
    for text in texts:
        place = xxhash.xxh3_64_intdigest(text, seed=place)
    place = mix(place ^ mix(segment))

    def key(i):
        name, weight = nodes[i]
        low, high = (int.from_bytes(name[at:at + 8], 'little') for at in (0, 8))
        number = draw(mix(place ^ mix(low ^ mix(high))))
        # number / weight, exactly: all weights divide this product
        return number * (SCALE // weight), name

    return sorted(range(len(nodes)), key=key)[:4]


WEIGHTS = [100, 100, 1, 1000, 50, 200, 100, 400]
SCALE = 1000 * 400 * 200 * 50
NODES = [(hashlib.sha256(b'node %d' % i).digest()[:16], weight) for i, weight in enumerate(WEIGHTS)]
NODES.append((b'\0' * 16, 100))
NODES.append((b'\xff' * 16, 100))
# Lengths at which XXH3 changes its way: 0, 3, 8, 16, 128, 240 bytes and more.
LENGTHS = [1, 2, 3, 4, 8, 9, 16, 17, 31, 64, 128, 129, 200, 240, 241, 256, 512, 1023, 1024]


def places():
    for length in LENGTHS:
        key = b''.join(hashlib.sha256(b'key %d %d' % (length, i)).digest() for i in range(32))[:length]
        yield (b'https://s3.eu-central-1.amazonaws.com', b'bucket-%d' % length, key, b''), length * 7
        yield (b'http://10.0.0.1:9000', b'data', key, hashlib.sha256(key).hexdigest().encode()[:32]), 0
    for segment in (0, 1, 2, 3, 255, 256, 65536, 655359, 2**32 - 1, 2**32, 2**63, ALL):
        yield (b'https://s3.example', b'models', b'llama/model-00001-of-00030.safetensors', b''), segment
    yield (b'', b'', b'', b''), 0
    for texts in ((b'a', b'bc', b'd', b''), (b'ab', b'c', b'd', b''), (b'a', b'bc', b'', b'd')):
        yield texts, 0


def shown(text):
    return text.hex() or '-'


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'rank.txt'), 'w') as f:
    for name, weight in NODES:
        f.write(f'node {name.hex()} {weight}\n')
    for texts, segment in places():
        best = rank(NODES, texts, segment)
        f.write(' '.join(['place', str(segment), *map(shown, texts), *map(str, best)]) + '\n')
