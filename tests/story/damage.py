"""damage.py - a disk that loses bits of the index, and a folder that somebody puts back.
SPDX-License-Identifier: Apache-2.0

The layout of LMDB's meta pages stands in src/store/index_pages.c, that of `clean` in man/penstock-format.5.md."""
import os
import struct

META_PAGE, META_BITS = 4096, 152 * 8
AT_ROOT, AT_LAST_PAGE, AT_TRANSACTION = 88 + 40, 136, 144
CLEAN_BYTES, CLEAN_INDEX = 232, 64 + 3 * 32


def crc_table():
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        yield n


TABLE = list(crc_table())


def crc32c(data, seed=0):
    crc = seed ^ 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def data_file(folder):
    return os.path.join(folder, "index/data.mdb")


def flip_bit(path, at, bit):
    """One bit of a file."""
    with open(path, "r+b", buffering=0) as f:
        byte = os.pread(f.fileno(), 1, at)[0]
        os.pwrite(f.fileno(), bytes([byte ^ 1 << bit]), at)


def flip(folder, at, bit):
    """One bit of the index's data file."""
    flip_bit(data_file(folder), at, bit)


def unnoticed(folder):
    """A disk that loses a bit leaves no time behind. We do: so the mark of the clean stop is told the
    time of our change, as if it had never been another."""
    path = os.path.join(folder, "clean")
    with open(path, "rb") as f:
        mark = bytearray(f.read())
    if len(mark) != CLEAN_BYTES:
        return    # of a Penstock that binds nothing
    st = os.stat(data_file(folder))
    struct.pack_into("<QQqQ", mark, CLEAN_INDEX, st.st_dev, st.st_ino, st.st_ctime_ns // 10**9,
                     st.st_ctime_ns % 10**9)
    struct.pack_into("<I", mark, CLEAN_BYTES - 4, crc32c(mark[:-4]))
    with open(path, "r+b") as f:
        f.write(mark)


def metas(folder):
    """Of both meta pages: transaction, root, last page."""
    with open(data_file(folder), "rb") as f:
        pages = f.read(2 * META_PAGE)
    return [tuple(struct.unpack_from("<Q", pages, page * META_PAGE + at)[0]
                  for at in (AT_TRANSACTION, AT_ROOT, AT_LAST_PAGE)) for page in (0, 1)]


def previous_root(folder):
    """The current meta page's root becomes the other's."""
    pages = metas(folder)
    current = 0 if pages[0] > pages[1] else 1
    with open(data_file(folder), "r+b", buffering=0) as f:
        os.pwrite(f.fileno(), struct.pack("<Q", pages[1 - current][1]), current * META_PAGE + AT_ROOT)


def meta_bits(count, rng):
    """(page, byte, bit): `count` of the bits of both meta pages, those first that name the transaction,
    the root and the last page; 0: all."""
    every = [(page, bit // 8, bit % 8) for page in (0, 1) for bit in range(META_BITS)]
    telling = [b for b in every if b[1] // 8 * 8 in (AT_ROOT, AT_LAST_PAGE, AT_TRANSACTION) and b[1] % 8 < 2]
    if not count:
        return every
    return rng.sample(telling, min(len(telling), count * 2 // 3)) + \
        rng.sample(every, count - min(len(telling), count * 2 // 3))
