/* ghost.c - runs of touches of records that were refused. SPDX-License-Identifier: Apache-2.0
 *
 * A bucket is one cache line: 16 entries of 4 bytes, the entry of the latest touch first. A new
 * entry takes the place of the last one, whose touch is the oldest.
 *
 *     31          17 16        9 8        0
 *     | tag         | last tick | code     |       0: empty, because a tag is never 0
 *
 * A run is a series of touches of one record; touches in one tick are one touch. `gaps` is the
 * number of gaps between its touches, and `took` the number of ticks from the first touch to the
 * last. `code` stands for both numbers. gaps <= took <= 6 gaps, because a slower run ends. gaps <=
 * 12, because a longer run is hot. These are 403 pairs.
 *
 * The tag has 15 bits of the hash. So in 0.05 % of the look-ups, a record takes over the run of
 * another one. Each such run may open an extent for hot records where there are none. With 12 bits,
 * that cost up to 0.016 of the hits in a cache of 16 extents. tests/policy/mean_age.py is the
 * model; each decision is compared with it (test_store_mean_age.c). */
#include "store/ghost.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 64u
#define WAYS 16u                      /* entries in a bucket */
#define TAGS 32767u
#define A_RECORD 2u                   /* entries for each record that the cache can hold */
#define GAP_TICKS 6u                  /* a run ends when its mean gap passes this: 3/8 L */
#define GAPS_MAX 12u                  /* of a run that is not hot */

static_assert(WAYS * sizeof(uint32_t) == LINE_BYTES, "a bucket is a cache line");

struct run {
    uint8_t last;                     /* tick */
    unsigned took, gaps;
};

/* Returns the lowest code of a run with this number of gaps. */
static unsigned first_code(unsigned gaps)
{
    return (GAP_TICKS - 1) * (gaps * (gaps - 1) / 2) + gaps;
}

static uint32_t pack(uint32_t tag, struct run run)
{
    check(run.gaps <= GAPS_MAX && run.gaps <= run.took && run.took <= run.gaps * GAP_TICKS);
    return tag << 17 | (uint32_t)run.last << 9 | (first_code(run.gaps) + run.took - run.gaps);
}

static struct run unpack(uint32_t entry)
{
    unsigned code = entry & 511, gaps = 0;
    while (first_code(gaps + 1) <= code)
        gaps++;
    return (struct run){ (uint8_t)(entry >> 9), code - first_code(gaps) + gaps, gaps };
}

static uint64_t buckets_for(uint64_t records)
{
    uint64_t most = UINT32_MAX / A_RECORD * (uint64_t)WAYS;    /* a bucket's index is 32 bits */
    return (MAX(WAYS, A_RECORD * MIN(records, most)) + WAYS - 1) / WAYS;
}

uint64_t ghost_bytes(uint64_t records)
{
    return buckets_for(records) * LINE_BYTES + LINE_BYTES;
}

void ghost_open(struct ghost *ghost, uint64_t records)
{
    ghost->buckets = buckets_for(records);
    ghost->memory = must_alloc(ghost_bytes(records));
    uintptr_t at = (uintptr_t)ghost->memory;
    ghost->entries = (uint32_t *)((at + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
}

void ghost_close(struct ghost *ghost)
{
    free(ghost->memory);
    *ghost = (struct ghost){ 0 };
}

/* A short run must be fast to be hot: 3 gaps in 3 ticks, 4 in 6, 5 in 10, ... 13 in 78. */
static bool is_hot(const struct run *run)
{
    return run->gaps > 0 && run->took <= run->gaps * (run->gaps - 1) / 2;
}

/* Adds a touch to a run. Returns true if the run is hot now. */
static bool extend(struct run *run, uint8_t tick)
{
    uint8_t since = (uint8_t)(tick - run->last);
    run->last = tick;
    run->took += since;
    run->gaps += since > 0;
    if (run->took > run->gaps * GAP_TICKS)
        run->took = run->gaps = 0;
    return is_hot(run);
}

bool ghost_touch(struct ghost *ghost, uint64_t hash, uint8_t tick)
{
    uint32_t *bucket = &ghost->entries[((hash >> 32) * ghost->buckets >> 32) * WAYS];
    uint32_t tag = 1 + (uint32_t)hash % TAGS;
    size_t at = 0;
    while (at < WAYS && bucket[at] >> 17 != tag)
        at++;
    struct run run = at < WAYS ? unpack(bucket[at]) : (struct run){ tick, 0, 0 };
    bool hot = extend(&run, tick);
    if (hot && at < WAYS) {    /* removes the entry; those behind it move up */
        memmove(&bucket[at], &bucket[at + 1], (WAYS - 1 - at) * sizeof(*bucket));
        bucket[WAYS - 1] = 0;
    } else if (!hot) {
        memmove(&bucket[1], &bucket[0], MIN(at, WAYS - 1) * sizeof(*bucket));
        bucket[0] = pack(tag, run);
    }
    return hot;
}
