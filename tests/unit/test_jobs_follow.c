/* test_jobs_follow.c - positions in a list that is read. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "unit.h"

#include "base/clock.h"
#include "jobs/follow.h"

static struct follow *follow;

static void begin(unsigned items)
{
    follow = follow_new();
    for (unsigned i = 0; i < items; i++)
        ok(follow_add(follow, 1000 + i) == i);
}

static bool is_read(unsigned item)
{
    return follow_read(follow, 1000 + item);
}

TEST(reads_in_order_move_the_position)
{
    begin(10);
    for (unsigned i = 0; i < 10; i++) {
        ok(follow_position(follow) == i && !follow_is_past(follow, i));
        ok(is_read(i) && !is_read(i) && follow_is_past(follow, i));
    }
    ok(follow_position(follow) == 10);
    follow_free(&follow);
}

TEST(reads_out_of_order_leave_it_at_the_oldest_unread_item)
{
    begin(10);
    ok(is_read(2) && is_read(1) && follow_position(follow) == 0);
    ok(follow_is_past(follow, 2) && !follow_is_past(follow, 0));
    ok(is_read(0) && follow_position(follow) == 3);
    ok(!follow_read(follow, 7));
    follow_free(&follow);
}

TEST(an_item_far_behind_is_passed)
{
    begin(5000);
    for (unsigned i = 1; i <= FOLLOW_BEHIND + 7; i++)
        ok(is_read(i));
    ok(follow_position(follow) == 0);    /* 8 of the latest reads are of item 1,024 or later ones */
    follow_brought(follow, 0, 50);
    ok(is_read(FOLLOW_BEHIND + 8));
    ok(follow_position(follow) == FOLLOW_BEHIND + 9);
    ok(follow_is_past(follow, 0) && !is_read(0));
    ok(follow_use(follow)->passed == 50 && follow_use(follow)->ahead == 0);
    follow_free(&follow);
}

TEST(what_the_readers_have_left_behind_is_not_ahead_of_them)
{
    begin(3000);
    for (unsigned i = 0; i < 3000; i++)
        follow_brought(follow, i, 1);
    for (unsigned i = 0; i < 16; i++)
        ok(is_read(500 + i));    /* the readers have reached item 508 */
    ok(follow_use(follow)->behind == 500 && follow_use(follow)->ahead == 3000 - 516);
    ok(follow_use(follow)->read == 16 && follow_position(follow) == 0);
    ok(follow_is_past(follow, 499) && !follow_is_past(follow, 516));
    ok(is_read(499) && follow_use(follow)->behind == 499 && follow_use(follow)->read == 17);
    for (unsigned i = 0; i < 16; i++)
        ok(is_read(2000 + i));
    ok(follow_use(follow)->passed + follow_use(follow)->behind == 2000 - 17);
    ok(follow_position(follow) == 2008 - FOLLOW_BEHIND);
    ok(follow_use(follow)->passed == 2008 - FOLLOW_BEHIND - 17);
    ok(follow_use(follow)->ahead == 3000 - 2016);
    follow_free(&follow);
}

TEST(a_few_reads_far_ahead_move_nothing_and_eight_of_sixteen_do)
{
    begin(60000);
    for (unsigned i = 0; i < 40; i++)
        ok(is_read(i));
    for (unsigned i = 0; i < 7; i++)
        ok(is_read(50000 + i) && follow_position(follow) == 40);
    for (unsigned i = 40; i < 60; i++)
        ok(is_read(i));
    ok(follow_position(follow) == 60);
    for (unsigned i = 0; i < 8; i++) {
        ok(follow_position(follow) == 60);
        ok(is_read(40000 + 100 * i));
    }
    ok(follow_position(follow) == 40000 - FOLLOW_BEHIND);
    ok(follow_use(follow)->items_read == 75);
    follow_free(&follow);
}

TEST(readers_that_leave_out_more_than_half_are_noticed)
{
    begin(40000);
    for (unsigned i = 0; i < 40000; i++)
        follow_brought(follow, i, 1);
    ok(follow_judge(follow, 1000) == 0);
    for (unsigned i = 0; i < 12000; i++)
        ok(i % 3 != 0 || is_read(i));    /* two of three are left out */
    unsigned wasted = follow_judge(follow, 1000);
    ok(wasted == 1 && follow_judge(follow, 1000) == 1);    /* no new window: no new judgement */
    for (unsigned i = 12000; i < 16000; i++)
        ok(i % 3 != 0 || is_read(i));
    ok(follow_judge(follow, 1000) == 2);
    for (unsigned i = 16000; i < 26000; i++)
        ok(is_read(i));
    ok(follow_judge(follow, 1000) == 0);
    follow_free(&follow);
}

TEST(a_read_counts_for_the_oldest_occurrence)
{
    follow = follow_new();
    for (unsigned i = 0; i < 6; i++)
        ok(follow_add(follow, i % 2 ? 5 : 5 + 65536) == i);    /* two names, one chain */
    ok(follow_read(follow, 5) && follow_is_past(follow, 1) && !follow_is_past(follow, 3));
    ok(follow_read(follow, 5) && follow_is_past(follow, 3) && follow_position(follow) == 0);
    ok(follow_read(follow, 5 + 65536) && follow_position(follow) == 2);
    ok(follow_read(follow, 5) && !follow_read(follow, 5));
    follow_free(&follow);
}

TEST(bytes_are_ahead_until_they_are_read)
{
    begin(10);
    follow_brought(follow, 0, 7);
    follow_brought(follow, 1, 11);
    ok(follow_use(follow)->ahead == 18 && follow_use(follow)->read == 0);
    ok(is_read(0) && follow_use(follow)->ahead == 11 && follow_use(follow)->read == 7);
    ok(is_read(3));
    follow_brought(follow, 3, 13);    /* the reader came while it was on its way */
    ok(follow_use(follow)->ahead == 11 && follow_use(follow)->read == 20);
    follow_brought(follow, 0, 1);     /* long past */
    ok(follow_use(follow)->ahead == 11 && follow_use(follow)->read == 20);
    follow_free(&follow);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* Returns the eighth of 16 numbers, the largest first. */
static uint64_t eighth(const uint64_t *numbers)
{
    uint64_t sorted[16];
    memcpy(sorted, numbers, sizeof(sorted));
    qsort(sorted, 16, sizeof(*sorted), compare);
    return sorted[7];
}

/* The same against a list that is searched from its start, with names that are in it often. */
TEST(a_long_random_list_agrees_with_a_slow_model)
{
    enum { ITEMS = 200000, NAMES = 30000 };
    uint32_t *names = calloc(ITEMS, sizeof(*names));
    bool *read = calloc(ITEMS, sizeof(*read));
    uint64_t position = 0, high = 0, added = 0, seed = 1, latest[16], reads = 0;
    follow = follow_new();
    for (unsigned i = 0; i < ITEMS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        names[i] = (uint32_t)(seed >> 33) % NAMES;
    }
    for (unsigned round = 0; round < 60000; round++) {
        while (added < ITEMS && added < position + 3000)
            added = follow_add(follow, names[added]) + 1;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t jump = round % 3000 < 40 ? 1500 : 0;
        uint64_t wants = position + jump + (seed >> 33) % 40, found = position;
        if (wants >= added)
            break;
        while (found < added && (read[found] || names[found] != names[wants]))
            found++;
        ok(follow_read(follow, names[wants]) == (found < added));
        if (found < added) {
            read[found] = true;
            high = MAX(high, found + 1);
            latest[reads++ % 16] = found;
        }
        uint64_t reached = reads < 16 ? 0 : eighth(latest);
        while (position < high && (read[position] || reached > position + FOLLOW_BEHIND))
            position++;
        ok(follow_position(follow) == position);
    }
    ok(position > 40000 && position > reads);    /* some were passed */
    follow_free(&follow);
    free(names);
    free(read);
}

TEST(a_list_of_one_key_takes_no_longer)
{
    uint64_t until = mono_ms() + 10000;
    follow = follow_new();
    for (unsigned round = 0; round < 20; round++) {
        while (!follow_is_full(follow))
            (void)follow_add(follow, 7);
        while (follow_position(follow) < follow_end(follow))
            ok(follow_read(follow, 7));
    }
    ok(!follow_read(follow, 7) && follow_use(follow)->items_read == 20 * FOLLOW_ITEMS);
    ok(mono_ms() < until);
    follow_free(&follow);
}

TEST(a_full_ring_takes_no_more)
{
    begin(FOLLOW_ITEMS);
    ok(follow_is_full(follow));
    ok(is_read(0) && follow_add(follow, 1) == FOLLOW_ITEMS);
    ok(follow_end(follow) == FOLLOW_ITEMS + 1);
    ok(follow_is_full(follow));
    for (unsigned i = 0; i < 8; i++)
        ok(is_read(FOLLOW_ITEMS - 8 + i));
    ok(follow_position(follow) == 1);
    for (unsigned i = 0; i < 7; i++)
        ok(is_read(FOLLOW_ITEMS - 16 + i));
    ok(follow_position(follow) == FOLLOW_ITEMS - 8 - FOLLOW_BEHIND);
    ok(follow_read(follow, 1) && !follow_is_full(follow));
    follow_free(&follow);
}

RUN(cmocka_unit_test(reads_in_order_move_the_position),
    cmocka_unit_test(reads_out_of_order_leave_it_at_the_oldest_unread_item),
    cmocka_unit_test(an_item_far_behind_is_passed),
    cmocka_unit_test(what_the_readers_have_left_behind_is_not_ahead_of_them),
    cmocka_unit_test(a_few_reads_far_ahead_move_nothing_and_eight_of_sixteen_do),
    cmocka_unit_test(readers_that_leave_out_more_than_half_are_noticed),
    cmocka_unit_test(a_read_counts_for_the_oldest_occurrence),
    cmocka_unit_test(bytes_are_ahead_until_they_are_read),
    cmocka_unit_test(a_long_random_list_agrees_with_a_slow_model),
    cmocka_unit_test(a_list_of_one_key_takes_no_longer),
    cmocka_unit_test(a_full_ring_takes_no_more))
