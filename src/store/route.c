/* route.c - weighted rendezvous: which volume has which part of an object.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each volume draws a number for each stripe of an object, by a hash of both. The number is
 * distributed exponentially, with the volume's weight as its rate, and the lowest number wins. So
 * each volume wins a share of its weight. A volume that is added takes only the stripes that it
 * wins, and a volume that is removed loses only its own: all other stripes stay where they are.
 *
 * The result must be the same on every machine and with every compiler, because it says where bytes
 * lie on disk. So there is no floating point here. Pure; any thread. */
#include "store/route.h"

#include <assert.h>
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

static_assert(sizeof(struct object_id) == 12, "an id is read as one number of 64 bits and one of 32");

/* Each bit of the value changes about half of the bits of the result (the last step of
 * MurmurHash3). */
static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 33) * 0xff51afd7ed558ccdu;
    value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53u;
    return value ^ value >> 33;
}

/* Returns -log2(hash / 2^64), between the steps of the table by a straight line. The error is below
 * 5e-5, and the result never grows with the hash. */
static uint64_t draw(uint64_t hash)
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

struct drawn {
    const struct route_row *row;
    uint64_t number;
};

/* Compares number / weight; a weight of 0 never wins. If both are equal, the lower id wins. */
static bool is_lower(const struct drawn *a, const struct drawn *b)
{
    unsigned __int128 left = (unsigned __int128)a->number * b->row->weight;
    unsigned __int128 right = (unsigned __int128)b->number * a->row->weight;
    if (left != right)
        return left < right;
    return memcmp(a->row->id, b->row->id, sizeof(a->row->id)) < 0;
}

const struct route_row *route_find(const struct route_row *rows, size_t count,
                                   const uint8_t id[VOLUME_ID_BYTES])
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].weight && memcmp(rows[i].id, id, VOLUME_ID_BYTES) == 0)
            return &rows[i];
    return NULL;
}

size_t route_home(const struct route_row *rows, size_t count, const struct object_id *id,
                  uint32_t stripe)
{
    uint64_t low, volume[2];
    uint32_t high;
    size_t home = 0;
    check(count > 0);
    if (count == 1)
        return 0;
    memcpy(&low, id->bytes, sizeof(low));
    memcpy(&high, id->bytes + sizeof(low), sizeof(high));
    uint64_t key = mix(low ^ mix((uint64_t)high << 32 | stripe));
    struct drawn best = { 0 };
    for (size_t i = 0; i < count; i++) {
        memcpy(volume, rows[i].id, sizeof(volume));
        struct drawn mine = { &rows[i], draw(mix(key ^ mix(volume[0] ^ mix(volume[1])))) };
        if (i == 0 || is_lower(&mine, &best)) {
            best = mine;
            home = i;
        }
    }
    return home;
}
