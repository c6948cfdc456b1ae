/* test_store_rule.c - what a volume tells the rule of its records and its room.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "store/mean_age.c"
#include "store/rule.c"

static struct rule rule;

static int setup(void **state)
{
    (void)state;
    memset(&rule, 0, sizeof(rule));
    rule_init(&rule, 1000);
    atomic_init(&rule.room_left, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rule_end(&rule);
    return 0;
}

/* Touches so many refused records in each of four ticks. Returns the number of hot ones. */
static unsigned hot_of(uint64_t records)
{
    unsigned hot = 0;
    for (unsigned tick = 0; tick < 4; tick++) {
        for (uint64_t i = 0; i < records; i++) {
            struct object_id id = { { 1 } };
            memcpy(id.bytes + 4, &i, 4);
            memcpy(id.bytes, &i, 4);
            hot += mean_age_is_hot(rule.policy, mean_age_hash(&id, 0));
        }
        atomic_fetch_add(&rule.policy->tick, 1);
    }
    return hot;
}

TEST(a_cache_of_many_small_records_remembers_as_many_refused_ones)
{
    ok(hot_of(8000) < 800);    /* the guess was 1,000 records: most runs are forgotten */
    rule_follow(&rule, 8000);
    ok(hot_of(8000) > 7900);
}

TEST(a_guess_that_hardly_differs_forgets_nothing)
{
    rule_follow(&rule, 1999);
    rule_follow(&rule, 251);
    ok(rule.records == 1000);
    rule_follow(&rule, 2000);
    ok(rule.records == 2000);
    rule_follow(&rule, 499);
    ok(rule.records == 499);
}

TEST(a_guess_of_no_records_is_followed_at_once)
{
    rule_end(&rule);
    memset(&rule, 0, sizeof(rule));
    rule_init(&rule, 0);    /* cache_size is not set */
    rule_follow(&rule, 8000);
    ok(hot_of(8000) > 7900);
}

TEST(what_is_queued_is_no_room_for_the_next_record)
{
    atomic_store(&rule.room_left, 1000);
    ok(rule_admits(&rule, 1, false));
    rule_take_room(&rule, 600);
    ok(rule_admits(&rule, 2, false));
    rule_take_room(&rule, 600);
    ok(!rule_has_room(&rule) && !rule_admits(&rule, 3, false));
}

TEST(dead_records_are_room_for_any_record)
{
    ok(!rule_admits(&rule, 1, false) && !rule_has_room(&rule) && !rule_waits_for_room(&rule, false));
    atomic_store(&rule.waste.much, 1);
    ok(rule_has_room(&rule) && rule_admits(&rule, 2, false) && rule.wanted == RECYCLE_FOR_ANY);
    rule.wanted = ADMIT_NO;
    ok(rule_waits_for_room(&rule, false) && rule.wanted == RECYCLE_FOR_ANY);
}

/* The extent that is recycled loses its records one by one. */
TEST(dead_records_are_no_room_while_room_is_made_for_hot_records)
{
    atomic_store(&rule.waste.much, 1);
    want(&rule, RECYCLE_FOR_HOT, false);
    ok(!rule_admits(&rule, 1, false));
    want(&rule, RECYCLE_FOR_HOT, true);
    ok(!rule_admits(&rule, 2, false));
}

TEST(a_disk_without_space_for_copies_counts_only_extents_that_are_all_dead)
{
    atomic_store(&rule.waste.much, 1);
    atomic_store(&rule.waste.no_copies, true);
    ok(!rule_admits(&rule, 1, false));
    atomic_store(&rule.waste.all, 1);
    ok(rule_admits(&rule, 1, false));
}

/* A rule that knows L, so that a tick is 100 touches. */
static void know_interval(void)
{
    ok(mean_age_restore(rule.policy, &(struct mean_age_saved){ 1600, 1600.0 * 1600, 1000, true,
                                                               false }));
}

static void touch_for_ticks(unsigned ticks)
{
    for (unsigned i = 0; i < ticks; i++) {
        atomic_store(&rule.due, mean_age_count(rule.policy, 100));
        rule_advance(&rule);
    }
}

/* Otherwise the oldest stamps would wrap, and count as young. */
TEST(ticks_wait_for_a_sweep_that_is_overdue)
{
    know_interval();
    touch_for_ticks(10);
    ok(mean_age_tick(rule.policy) == 1000 && !rule_is_swept(&rule));    /* no stamp was swept yet */
    rule.swept = 1000;
    ok(rule_is_swept(&rule));
    touch_for_ticks(500);
    ok(mean_age_tick(rule.policy) == 1000 + MEAN_AGE_UNSWEPT && !rule_is_swept(&rule));
    ok(atomic_load(&rule.due));    /* so the recycler sweeps */
    rule.swept = 1003;             /* the tick in which that sweep began */
    ok(!rule_is_swept(&rule));
    touch_for_ticks(500);
    ok(mean_age_tick(rule.policy) == 1003 + MEAN_AGE_UNSWEPT);
    rule.swept = mean_age_tick(rule.policy);
    touch_for_ticks(1);
    ok(mean_age_tick(rule.policy) == 1004 + MEAN_AGE_UNSWEPT && !atomic_load(&rule.due));
}

/* ---- the ring ---- */

#define ROUNDS 3000u
static pthread_barrier_t round_begins, round_ends;

static void *put_many(void *arg)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&round_begins);
        for (uint64_t k = 0; k < RULE_RING / 2; k++)
            (void)ring_put(&rule.ring, k, k);
        pthread_barrier_wait(&round_ends);
    }
    return arg;
}

/* A place that was never filled would stop the ring for ever. */
TEST(threads_that_put_touches_at_the_same_time_leave_no_gap)
{
    pthread_t threads[2];
    pthread_barrier_init(&round_begins, NULL, countof(threads) + 1);
    pthread_barrier_init(&round_ends, NULL, countof(threads) + 1);
    for (size_t i = 0; i < countof(threads); i++)
        ok(pthread_create(&threads[i], NULL, put_many, NULL) == 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&round_begins);
        pthread_barrier_wait(&round_ends);
        rule_drain(&rule);
    }
    for (size_t i = 0; i < countof(threads); i++)
        pthread_join(threads[i], NULL);
    ok(rule.ring.tail == atomic_load(&rule.ring.head));
    ok(rule.ring.tail == ROUNDS * countof(threads) * (RULE_RING / 2));
    pthread_barrier_destroy(&round_begins);
    pthread_barrier_destroy(&round_ends);
}

#define RULE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE_TEST(a_cache_of_many_small_records_remembers_as_many_refused_ones),
        RULE_TEST(a_guess_that_hardly_differs_forgets_nothing),
        RULE_TEST(a_guess_of_no_records_is_followed_at_once),
        RULE_TEST(what_is_queued_is_no_room_for_the_next_record),
        RULE_TEST(dead_records_are_room_for_any_record),
        RULE_TEST(dead_records_are_no_room_while_room_is_made_for_hot_records),
        RULE_TEST(a_disk_without_space_for_copies_counts_only_extents_that_are_all_dead),
        RULE_TEST(ticks_wait_for_a_sweep_that_is_overdue),
        RULE_TEST(threads_that_put_touches_at_the_same_time_leave_no_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
