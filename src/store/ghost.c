/* ghost.c - runs of touches of records that were refused. SPDX-License-Identifier: Apache-2.0
 *
 * A bucket is one cache line: 16 entries of 4 bytes, the entry of the latest touch first. A new
 * entry takes the place of the last one, whose touch is the oldest. An entry has 12 bits of the
 * hash, so in 0.4 % of the look-ups a record takes over a stranger's run. That costs a wrong
 * admission now and then, and no wrong bytes.
 *
 *     31        20 19       12 11        4 3    0
 *     | tag       | start     | last      | gaps |       0: empty, because a tag is never 0
 *
 * The run of a record: the tick of its first touch, the tick of its last touch, and the number of
 * gaps between ticks with a touch. Touches in one tick are one touch. tests/policy/mean_age.py is
 * the model; each decision is compared with it (test_store_mean_age.c). */
#include "store/ghost.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 64u
#define WAYS 16u                      /* entries in a bucket */
#define TAGS 4095u
#define A_RECORD 2u                   /* entries for each record that the cache can hold */
#define GAP_TICKS 6u                  /* a run ends when its mean gap passes this: 3/8 L */
#define GAPS_MIN 3u                   /* gaps of the shortest hot run */

static_assert(WAYS * sizeof(uint32_t) == LINE_BYTES, "a bucket is a cache line");

struct run {
    uint8_t start, last;              /* ticks */
    unsigned gaps;
};

static uint32_t pack(uint32_t tag, struct run run)
{
    return tag << 20 | (uint32_t)run.start << 12 | (uint32_t)run.last << 4 | run.gaps;
}

static struct run unpack(uint32_t entry)
{
    return (struct run){ (uint8_t)(entry >> 12), (uint8_t)(entry >> 4), entry & 15 };
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

/* A short run must be a fast one: 3 gaps in 3 ticks, 4 in 6, 5 in 10, ... 13 in 78. */
static bool is_hot(unsigned gaps, unsigned took)
{
    return gaps >= GAPS_MIN && took <= gaps * (gaps - 1) / 2;
}

/* Adds a touch to a run. Returns true if the run is hot now. */
static bool extend(struct run *run, uint8_t tick)
{
    unsigned took = (uint8_t)(tick - run->start);
    run->gaps += tick != run->last;
    if (took > run->gaps * GAP_TICKS) {
        run->start = tick;
        run->gaps = took = 0;
    }
    run->last = tick;
    return is_hot(run->gaps, took);
}

bool ghost_touch(struct ghost *ghost, uint64_t hash, uint8_t tick)
{
    uint32_t *bucket = &ghost->entries[((hash >> 32) * ghost->buckets >> 32) * WAYS];
    uint32_t tag = 1 + (uint32_t)hash % TAGS;
    size_t at = 0;
    while (at < WAYS && bucket[at] >> 20 != tag)
        at++;
    struct run run = at < WAYS ? unpack(bucket[at]) : (struct run){ tick, tick, 0 };
    bool hot = extend(&run, tick);
    if (hot && at < WAYS) {    /* the entry goes, and those behind it move up */
        memmove(&bucket[at], &bucket[at + 1], (WAYS - 1 - at) * sizeof(*bucket));
        bucket[WAYS - 1] = 0;
    } else if (!hot) {
        memmove(&bucket[1], &bucket[0], MIN(at, WAYS - 1) * sizeof(*bucket));
        check(run.gaps < 16);    /* a run of 13 gaps that has not ended is hot */
        bucket[0] = pack(tag, run);
    }
    return hot;
}
