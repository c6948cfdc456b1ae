/* test_store_what_if.c - the hit ratio of a cache of another size, compared with the simulation.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each trace of tests/policy/make_decisions.py is replayed on four logs of extents: of half, once,
 * twice and four times the size. test_store_mean_age.c shows that such a log makes each decision of
 * the simulation. The estimate gets the reads of the log of the same size, and must tell what the
 * others did. */
#include "mean_age_unit.h"

#include <math.h>

#include "store/what_if.h"

#define PIECE 500u
#define NEAR 0.03                     /* the mean error */
#define FAR 0.2                       /* any error */

static const double factors[] = { 0.5, 1, 2, 4 };

struct replayed {
    const struct decided *d;
    struct trace *trace;
    struct log *logs[WHAT_IF_SIZES];
    struct what_if *what_if;
    uint32_t hits[TOUCHES / PIECE + 1][WHAT_IF_SIZES];    /* after each piece */
    double sums[WHAT_IF_SIZES], last[WHAT_IF_SIZES], most[WHAT_IF_SIZES];    /* of errors */
    unsigned compared;
};

static void touch_all(struct replayed *r, uint32_t i)
{
    const struct decided *d = r->d;
    uint32_t key = next_key(r->trace), before = r->logs[WHAT_IF_SAME]->hits;
    for (size_t k = 0; k < WHAT_IF_SIZES; k++) {
        if (is_event(i, d->purge_from, d->purge_step))
            purge(r->logs[k]);
        if (is_event(i, d->restart_from, d->restart_step))
            restart(r->logs[k]);
        get(r->logs[k], key);
    }
    what_if_note(r->what_if, mix(key));
    if (r->logs[WHAT_IF_SAME]->hits == before)
        what_if_missed(r->what_if);
}

/* Compares the estimate with what the logs did in the same reads. */
static void compare(struct replayed *r, uint32_t piece)
{
    struct what_if_hits found;
    what_if_hits(r->what_if, &found);
    if (found.reads == 0)
        return;
    uint32_t begin = piece - (uint32_t)(found.reads / PIECE);
    ok((uint32_t)found.reads % PIECE == 0 && found.reads > 0);
    for (size_t k = 0; k < WHAT_IF_SIZES; k++) {
        double hits = r->hits[piece][k] - r->hits[begin][k];
        r->last[k] = (found.hits[k] - hits) / found.reads;
        r->sums[k] += fabs(r->last[k]);
        r->most[k] = MAX(r->most[k], fabs(r->last[k]));
    }
    r->compared++;
}

static void report(const struct replayed *r)
{
    print_message("%-12s", r->d->name);
    for (size_t k = 0; k < WHAT_IF_SIZES; k++)
        print_message("  %gx: %.3f, off by %.3f, at most %.3f;", factors[k],
                      (double)r->logs[k]->hits / TOUCHES, r->sums[k] / r->compared, r->most[k]);
    print_message("\n");
}

/* Pins are left out: the estimate knows none. */
static void estimate(const struct decided *d)
{
    struct replayed *r = must_alloc(sizeof(*r));
    r->d = d;
    r->trace = trace_new(d->kind);
    for (size_t k = 0; k < WHAT_IF_SIZES; k++)
        r->logs[k] = log_make(d->share * factors[k], d->records, false);
    r->what_if = what_if_new(r->logs[WHAT_IF_SAME]->budget);
    for (uint32_t i = 0, piece = 0; i < TOUCHES; i++) {
        touch_all(r, i);
        if ((i + 1) % PIECE)
            continue;
        what_if_take(r->what_if, i + 1, r->logs[WHAT_IF_SAME]->extents_max);
        what_if_run(r->what_if, i);    /* a read in a millisecond: no limit of work is reached */
        piece++;
        for (size_t k = 0; k < WHAT_IF_SIZES; k++)
            r->hits[piece][k] = r->logs[k]->hits;
        compare(r, piece);
    }
    report(r);
    ok(r->compared > TOUCHES / PIECE / 2);
    for (size_t k = 0; k < WHAT_IF_SIZES; k++) {
        ok(r->sums[k] / r->compared <= NEAR && r->most[k] <= FAR);
        log_end(r->logs[k]);
    }
    what_if_free(&r->what_if);
    free(r->trace);
    free(r);
}

#define NEAR_THE_SIMULATION(test, at) \
    TEST(test) { estimate(&decided[at]); }
NEAR_THE_SIMULATION(epochs_in_random_order, 0)
NEAR_THE_SIMULATION(epochs_in_shards, 1)
NEAR_THE_SIMULATION(changes_of_the_data_set, 2)
NEAR_THE_SIMULATION(skewed_requests, 3)
NEAR_THE_SIMULATION(keys_that_never_return, 4)
NEAR_THE_SIMULATION(a_set_that_shrinks_and_grows, 5)
NEAR_THE_SIMULATION(purges_of_a_quarter, 6)
NEAR_THE_SIMULATION(restarts, 7)

/* ---- limits ---- */

/* Reads `count` keys in order, so many times. */
static void read_keys(struct what_if *what_if, uint64_t *reads, uint64_t count, uint64_t epochs,
                      uint64_t now_ms)
{
    for (uint64_t i = 0; i < count * epochs; i++) {
        what_if_note(what_if, mix(i % count));
        if (++*reads % PIECE == 0) {
            what_if_take(what_if, *reads, 64);
            what_if_run(what_if, now_ms);
        }
    }
}

TEST(a_small_cache_that_is_read_fast_is_sampled_less)
{
    struct what_if *what_if = what_if_new(2000);
    uint64_t reads = 0;
    read_keys(what_if, &reads, 1000, 1, 1);
    ok(what_if_mask(what_if) == 0);
    read_keys(what_if, &reads, 1000, 30, 2);    /* 30,000 reads in a second */
    ok(what_if_mask(what_if) == 0);             /* of half as many: 2,048 is still all */
    for (uint64_t second = 1; second < 8; second++)
        read_keys(what_if, &reads, 1000, 300, 1000 * second);
    ok(what_if_mask(what_if) == 7);             /* never fewer than 4,096 / 16 = 256 records */
    what_if_free(&what_if);
}

TEST(a_cache_of_few_records_is_not_simulated)
{
    struct what_if *what_if = what_if_new(15);
    struct what_if_hits found;
    uint64_t reads = 0;
    read_keys(what_if, &reads, 30, 1000, 1);
    what_if_hits(what_if, &found);
    ok(found.reads == 0 && what_if_mask(what_if) == UINT64_MAX);
    what_if_free(&what_if);
}

TEST(reads_without_a_place_are_counted_as_lost)
{
    struct what_if *what_if = what_if_new(3000);
    struct what_if_hits found;
    uint64_t reads = 0;
    what_if_take(what_if, 0, 64);
    what_if_run(what_if, 0);
    for (uint64_t run = 1; run < 40; run++) {
        for (uint64_t i = 0; i < 6000; i++, reads++)    /* three times the places */
            what_if_note(what_if, mix(i % 1000));
        what_if_take(what_if, reads, 64);
        what_if_run(what_if, 1000 * run);
    }
    what_if_hits(what_if, &found);
    ok(found.reads > 0);
    for (size_t k = 0; k < WHAT_IF_SIZES; k++)
        ok(found.hits[k] > 0.99 * found.reads);    /* 1,000 of 1,500 and more records */
    what_if_free(&what_if);
}

TEST(a_cache_that_shrinks_is_followed)
{
    struct what_if *what_if = what_if_new(4000);
    struct what_if_hits found;
    uint64_t reads = 0, random = 1;
    for (uint64_t i = 0; i < 200000; i++) {
        if (i == 100000)
            what_if_follow(what_if, 2000);
        random = mix(random);
        what_if_note(what_if, mix(random % 4000));
        if (i > 100000 && random >> 32 & 1)
            what_if_missed(what_if);
        if (++reads % PIECE)
            continue;
        what_if_take(what_if, reads, 64);
        what_if_run(what_if, i);
    }
    what_if_hits(what_if, &found);
    ok(found.reads > 0 && fabs(found.hits[WHAT_IF_SAME] / found.reads - 0.5) < 0.05);
    ok(fabs(found.hits[WHAT_IF_HALF] / found.reads - 0.25) < 0.05);
    ok(found.hits[WHAT_IF_DOUBLE] / found.reads > 0.95);
    what_if_free(&what_if);
}

RUN(cmocka_unit_test(a_small_cache_that_is_read_fast_is_sampled_less),
    cmocka_unit_test(a_cache_of_few_records_is_not_simulated),
    cmocka_unit_test(reads_without_a_place_are_counted_as_lost),
    cmocka_unit_test(a_cache_that_shrinks_is_followed),
    cmocka_unit_test(epochs_in_random_order), cmocka_unit_test(epochs_in_shards),
    cmocka_unit_test(changes_of_the_data_set), cmocka_unit_test(skewed_requests),
    cmocka_unit_test(keys_that_never_return), cmocka_unit_test(a_set_that_shrinks_and_grows),
    cmocka_unit_test(purges_of_a_quarter), cmocka_unit_test(restarts))
