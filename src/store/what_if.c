/* what_if.c - the hit ratio that a cache of another size would have.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The rule is no LRU: in random epochs, LRU has no hits and the rule has those of its share. So no
 * formula over reuse intervals fits, and the rule itself is simulated, in miniatures (miniature.h)
 * of 1/2, 1, 2 and 4 times the cache. They get the reads of a hash sample of the records: half to
 * all of SAMPLE_RECORDS of the records that the cache can hold are in the sample. With fewer, the
 * luck of the sample would cost more than 0.03 of the hits. Memory: 0.9 MiB for each cache folder.
 *
 * A sample alone would be wrong by the luck of the hottest records: whether the one with a tenth of
 * all reads is in it. But these records are hits in a cache of any size. So only differences come
 * from the miniatures, and the base is the hit ratio that the cache itself had:
 *
 *     hits (size) = hits of the cache + (hits of the miniature - hits of that of size 1) / rate
 *
 * Sums are kept of two spans of SPAN_TOUCHES sampled reads, so that old reads leave. Nothing is
 * summed while the miniatures fill: until they were fed for twice the time L (sampler.h) since they
 * were made, or were made larger because it turned out that the cache can hold more records. */
#include "store/what_if.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "store/miniature.h"

#define SAMPLE_RECORDS 4096u          /* of the cache; the miniatures have up to 4 times as many */
#define LEAST_RECORDS 16u             /* a cache of fewer records is not simulated */
#define LEAST_IN_EXTENT 8u            /* records, unless a miniature then had too few extents */
#define LEAST_EXTENTS 16u
#define SPAN_TOUCHES 32768u
#define LEAST_TOUCHES 1024u           /* with fewer, nothing is said */
#define WORK_MAX 20000u               /* sampled reads a second; beyond, the sample is halved */
#define COARSEST 4u                   /* halvings */
#define INTAKE 2048u
#define FILL 2.0                      /* intervals that the miniatures take to fill */
#define MUCH 8u                       /* the cache can hold more records by more than 1 / MUCH */
#define OFF UINT64_MAX                /* a mask: no record is in the sample */

static const double factors[] = { 0.5, 1, 2, 4 };
static_assert(countof(factors) == WHAT_IF_SIZES, "a factor for each size");

/* The reads and misses since the last run. */
struct intake {
    uint64_t hashes[INTAKE];
    uint32_t count;
    uint64_t lost;                    /* sampled reads for which there was no place */
    uint64_t reads, misses;           /* of any record, so far */
};

struct span {
    uint64_t reads, misses;           /* of any record */
    uint64_t sampled, lost;
    uint64_t hits[WHAT_IF_SIZES];     /* of the sampled reads, in the miniatures */
};

struct what_if {
    _Atomic uint64_t mask;
    struct intake intake;             /* under the rule's lock */
    uint64_t records, extents;        /* the cache has room for; under the rule's lock */
    /* the recycler's */
    struct intake taken;
    uint64_t fit_records, fit_extents;    /* records, extents at the latest what_if_take */
    struct miniature *minis[WHAT_IF_SIZES];
    unsigned shift, coarser;          /* the sample has one of 2^shift records */
    struct filling {
        uint64_t records, touches;    /* that fill the miniatures; sampled reads since they fill */
        bool over;
    } filling;
    uint64_t begun_reads, begun_misses;   /* at the begin of the span */
    struct span span, before;
    uint64_t second_ms, second_touches;
    /* under result_lock */
    pthread_mutex_t result_lock;
    struct what_if_hits result;
};

struct what_if *what_if_new(uint64_t records)
{
    struct what_if *what_if = must_alloc(sizeof(*what_if));
    what_if->records = records;
    atomic_init(&what_if->mask, OFF);
    pthread_mutex_init(&what_if->result_lock, NULL);
    return what_if;
}

void what_if_free(struct what_if **what_if)
{
    if (!*what_if)
        return;
    for (size_t i = 0; i < WHAT_IF_SIZES; i++)
        miniature_free(&(*what_if)->minis[i]);
    pthread_mutex_destroy(&(*what_if)->result_lock);
    free(*what_if);
    *what_if = NULL;
}

/* ---- intake ---- */

uint64_t what_if_mask(const struct what_if *what_if)
{
    return atomic_load_explicit(&what_if->mask, memory_order_relaxed);
}

void what_if_note(struct what_if *what_if, uint64_t hash)
{
    struct intake *intake = &what_if->intake;
    if (hash & what_if_mask(what_if))
        return;
    if (intake->count < INTAKE)
        intake->hashes[intake->count++] = hash;
    else
        intake->lost++;
}

void what_if_missed(struct what_if *what_if)
{
    what_if->intake.misses++;
}

void what_if_follow(struct what_if *what_if, uint64_t records)
{
    what_if->records = records;
}

void what_if_take(struct what_if *what_if, uint64_t reads, uint64_t extents)
{
    struct intake *from = &what_if->intake, *to = &what_if->taken;
    memcpy(to->hashes, from->hashes, from->count * sizeof(*from->hashes));
    to->count = from->count;
    to->lost = from->lost;
    to->reads = reads;
    to->misses = from->misses;
    from->count = 0;
    from->lost = 0;
    what_if->fit_records = what_if->records;
    what_if->fit_extents = extents;
}

/* ---- the size of the sample ---- */

static uint64_t target(const struct what_if *what_if)
{
    return SAMPLE_RECORDS >> what_if->coarser;
}

static double records_of(const struct what_if *what_if, size_t size)
{
    return factors[size] * (double)what_if->fit_records / (double)(UINT64_C(1) << what_if->shift);
}

static bool fits(const struct what_if *what_if)
{
    uint64_t records = what_if->fit_records >> what_if->shift;
    if (!what_if->minis[0])
        return what_if->fit_records < LEAST_RECORDS;
    return what_if->fit_records >= LEAST_RECORDS && records <= target(what_if) * 5 / 4 &&
           (!what_if->shift || records >= target(what_if) * 3 / 8);
}

/* The number of records in an extent of a miniature: as few as keep the number of extents that the
 * cache has. But the mean age of fewer than some records says little. */
static uint32_t extent_records(const struct what_if *what_if)
{
    uint64_t records = what_if->fit_records >> what_if->shift;
    uint64_t most = MAX(1u, records / LEAST_EXTENTS);
    return (uint32_t)MIN(MAX(records / MAX(1u, what_if->fit_extents), LEAST_IN_EXTENT), most);
}

static void begin_filling(struct what_if *what_if)
{
    what_if->filling = (struct filling){ .records = what_if->fit_records };
    what_if->span = what_if->before = (struct span){ 0 };
}

/* Forgets all, and begins with another sample. */
static void begin_anew(struct what_if *what_if)
{
    bool off = what_if->fit_records < LEAST_RECORDS;
    what_if->shift = 0;
    while (what_if->fit_records >> what_if->shift > target(what_if))
        what_if->shift++;
    for (size_t i = 0; i < WHAT_IF_SIZES; i++) {
        miniature_free(&what_if->minis[i]);
        uint32_t most = (uint32_t)(factors[i] * (double)target(what_if) * 5 / 4);
        if (!off)
            what_if->minis[i] = miniature_new(most, extent_records(what_if));
    }
    begin_filling(what_if);
    what_if->taken.count = 0;
    uint64_t mask = off ? OFF : (UINT64_C(1) << what_if->shift) - 1;
    atomic_store_explicit(&what_if->mask, mask, memory_order_relaxed);
}

/* A small cache that is read very fast would cost too much. */
static void limit_work(struct what_if *what_if, uint64_t now_ms)
{
    if (now_ms - what_if->second_ms >= 1000) {
        what_if->second_ms = now_ms;
        what_if->second_touches = 0;
    }
    what_if->second_touches += what_if->taken.count;
    if (what_if->second_touches <= WORK_MAX || what_if->coarser == COARSEST)
        return;
    what_if->coarser++;
    what_if->second_touches = 0;
    begin_anew(what_if);
}

/* ---- sums ---- */

static void begin_span(struct what_if *what_if)
{
    what_if->span = (struct span){ 0 };
    what_if->begun_reads = what_if->taken.reads;
    what_if->begun_misses = what_if->taken.misses;
}

static void add_span(struct what_if_hits *to, const struct what_if *what_if,
                     const struct span *span)
{
    double rate = 1 / (double)(UINT64_C(1) << what_if->shift);
    double noted = (double)span->sampled / (double)MAX(1u, span->sampled + span->lost);
    double hits = (double)(span->reads - MIN(span->reads, span->misses));
    to->reads += (double)span->reads;
    for (size_t i = 0; i < WHAT_IF_SIZES && span->sampled; i++)
        to->hits[i] += hits + ((double)span->hits[i] - (double)span->hits[WHAT_IF_SAME]) /
                                  (rate * noted);
}

static void publish(struct what_if *what_if)
{
    struct what_if_hits result = { 0 };
    if (what_if->span.sampled + what_if->before.sampled >= LEAST_TOUCHES) {
        add_span(&result, what_if, &what_if->before);
        add_span(&result, what_if, &what_if->span);
    }
    for (size_t i = 0; i < WHAT_IF_SIZES; i++)
        result.hits[i] = MAX(0, MIN(result.hits[i], result.reads));
    pthread_mutex_lock(&what_if->result_lock);
    what_if->result = result;
    pthread_mutex_unlock(&what_if->result_lock);
}

static void simulate(struct what_if *what_if)
{
    struct span *span = &what_if->span;
    for (uint32_t k = 0; k < what_if->taken.count; k++)
        for (size_t i = 0; i < WHAT_IF_SIZES; i++)
            span->hits[i] += miniature_touch(what_if->minis[i], what_if->taken.hashes[k]);
    span->sampled += what_if->taken.count;
    span->lost += what_if->taken.lost;
    span->reads = what_if->taken.reads - what_if->begun_reads;
    span->misses = what_if->taken.misses - what_if->begun_misses;
}

static void fill(struct what_if *what_if)
{
    struct filling *filling = &what_if->filling;
    double interval = miniature_interval(what_if->minis[WHAT_IF_FOURFOLD]);
    filling->touches += what_if->taken.count;
    filling->over = interval > 0 && (double)filling->touches >= FILL * interval;
    if (filling->over)
        begin_span(what_if);
}

/* Ends a span that is full, or the time in which the miniatures fill. */
static void turn(struct what_if *what_if)
{
    if (what_if->fit_records > what_if->filling.records + what_if->filling.records / MUCH) {
        begin_filling(what_if);
    } else if (!what_if->filling.over) {
        fill(what_if);
    } else if (what_if->span.sampled >= SPAN_TOUCHES) {
        what_if->before = what_if->span;
        begin_span(what_if);
    }
}

void what_if_run(struct what_if *what_if, uint64_t now_ms)
{
    if (!fits(what_if))
        begin_anew(what_if);
    limit_work(what_if, now_ms);
    if (!what_if->minis[0])
        return;
    for (size_t i = 0; i < WHAT_IF_SIZES; i++)
        miniature_resize(what_if->minis[i], (uint32_t)records_of(what_if, i));
    simulate(what_if);
    turn(what_if);
    if (what_if->filling.over)
        publish(what_if);
}

void what_if_hits(struct what_if *what_if, struct what_if_hits *ret)
{
    pthread_mutex_lock(&what_if->result_lock);
    *ret = what_if->result;
    pthread_mutex_unlock(&what_if->result_lock);
}
