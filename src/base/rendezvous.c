/* rendezvous.c - weighted rendezvous hashing: which of several holders wins a thing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/rendezvous.h"

#include <string.h>

#define LOG_STEPS 64u
#define FRACTION 32u                  /* logarithms have this many bits after the point */

/* log2(1 + i / 64) */
static const uint64_t log_table[LOG_STEPS + 1] = {
    0x000000000, 0x005b9e5a1, 0x00b5d69bb, 0x010eb38a0, 0x01663f6fb, 0x01bc84241,
    0x02118b11a, 0x02655d3c5, 0x02b803474, 0x0309857a0, 0x0359ebc5b, 0x03a93dc98,
    0x03f782d72, 0x0444c1f6b, 0x049101eac, 0x04dc4933b, 0x05269e12f, 0x0570068e8,
    0x05b888736, 0x06002958c, 0x0646eea24, 0x068cdd82a, 0x06d1fafdd, 0x07164beb5,
    0x0759d4f81, 0x079c9aa88, 0x07dea15a3, 0x081fed45d, 0x086082807, 0x08a064fd5,
    0x08df988f5, 0x091e20ea1, 0x095c01a3a, 0x09993e356, 0x09d5d9fd5, 0x0a11d83f5,
    0x0a4d3c25e, 0x0a8808c38, 0x0ac241135, 0x0afbe7fa1, 0x0b3500472, 0x0b6d8cb54,
    0x0ba58feb2, 0x0bdd0c7ca, 0x0c1404eae, 0x0c4a7ba58, 0x0c80730b0, 0x0cb5ed695,
    0x0ceaecfeb, 0x0d1f73f9c, 0x0d53847ac, 0x0d8720936, 0x0dba4a47b, 0x0ded038e6,
    0x0e1f4e517, 0x0e512c6e5, 0x0e829fb69, 0x0eb3a9f02, 0x0ee44cd5a, 0x0f148a170,
    0x0f446359b, 0x0f73da38e, 0x0fa2f045e, 0x0fd1a708c, 0x100000000,
};

/* Returns -log2(hash / 2^64), between the steps of the table by a straight line. The error is below
 * 5e-5, and the result never grows with the hash. */
static uint64_t number_of(uint64_t hash)
{
    hash |= 1;
    unsigned zeros = (unsigned)__builtin_clzll(hash);
    uint64_t mantissa = hash << zeros << 1;    /* without its leading bit */
    unsigned step = (unsigned)(mantissa >> 58);
    uint64_t rest = mantissa << 6 >> FRACTION;
    uint64_t log = log_table[step] +
                   ((log_table[step + 1] - log_table[step]) * rest >> FRACTION);
    return ((uint64_t)(zeros + 1) << FRACTION) - log;
}

struct draw rendezvous_draw(uint64_t thing, const uint8_t id[HOLDER_ID_BYTES], uint64_t weight)
{
    uint64_t half[2];
    memcpy(half, id, sizeof(half));
    uint64_t holder = rendezvous_mix(half[0] ^ rendezvous_mix(half[1]));
    return (struct draw){ number_of(rendezvous_mix(thing ^ holder)), weight, id };
}

/* Compares number / weight. */
bool rendezvous_wins(const struct draw *a, const struct draw *b)
{
    unsigned __int128 left = (unsigned __int128)a->number * b->weight;
    unsigned __int128 right = (unsigned __int128)b->number * a->weight;
    if (left != right)
        return left < right;
    return memcmp(a->id, b->id, HOLDER_ID_BYTES) < 0;
}
