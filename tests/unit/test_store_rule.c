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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
