/* test_recent.c - what the last minute brought. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "cli/recent.c"

static struct recent recent;

static void setup(void)
{
    recent = (struct recent){ 0 };
    recent_init(&recent, 0);
}

static void read_some(uint64_t hits, uint64_t misses)
{
    metric_add(M_CACHE_HIT, hits);
    metric_add(M_CACHE_MISS, misses);
    metric_add(M_FRONT_FROM_CACHE, hits * 100);
    metric_add(M_FRONT_FROM_ORIGIN, misses * 100);
}

TEST(at_first_all_there_was_since_the_start_counts)
{
    setup();
    read_some(3, 1);
    uint64_t ms;
    struct gains last = recent_gains(&recent, 5000, &ms);
    ok(ms == 5000 && last.of[GAIN_HITS] == 3 && last.of[GAIN_READS] == 4);
}

TEST(the_last_minute_is_what_came_in_it)
{
    setup();
    uint64_t ms, now_ms = 1000;
    for (unsigned second = 0; second < 300; second++, now_ms += 1000) {
        recent_look(&recent, now_ms);
        read_some(second < 240 ? 5 : 2, 1);
    }
    struct gains last = recent_gains(&recent, now_ms, &ms);
    ok(ms == 60000 && last.of[GAIN_HITS] == 120 && last.of[GAIN_READS] == 180);
    ok(last.of[GAIN_CACHE_BYTES] == 12000 && last.of[GAIN_ORIGIN_BYTES] == 6000);
}

TEST(before_a_minute_has_passed_it_is_what_came_so_far)
{
    setup();
    uint64_t ms;
    read_some(7, 0);
    recent_look(&recent, 2000);
    read_some(1, 1);
    struct gains last = recent_gains(&recent, 2500, &ms);
    ok(ms == 2500 && last.of[GAIN_HITS] == 8 && last.of[GAIN_READS] == 9);
}

TEST(looks_that_came_late_make_it_longer_never_shorter)
{
    setup();
    uint64_t ms;
    read_some(1, 0);
    recent_look(&recent, 90000);
    struct gains last = recent_gains(&recent, 90500, &ms);
    ok(ms == 90500 && last.of[GAIN_HITS] == 1);
}

TEST(items_of_the_fill_socket_are_reads)
{
    struct gains before = gains_now();
    metric_add(M_FILL_ITEMS_HIT, 99);
    metric_add(M_FILL_ITEMS_MISS, 1);
    metric_add(M_FILL_BYTES, 1000);
    metric_add(M_FILL_FROM_CACHE, 900);
    metric_add(M_FILL_FROM_PEERS, 90);
    struct gains now = gains_now();
    static const uint64_t gained[GAIN_COUNT] = {
        [GAIN_HITS] = 99, [GAIN_READS] = 100, [GAIN_CACHE_BYTES] = 900, [GAIN_PEERS_BYTES] = 90,
        [GAIN_ORIGIN_BYTES] = 10,
        [GAIN_GIVEN_BYTES] = 1000,
    };
    for (size_t i = 0; i < GAIN_COUNT; i++)
        ok(now.of[i] - before.of[i] == gained[i]);
}

RUN(cmocka_unit_test(at_first_all_there_was_since_the_start_counts),
    cmocka_unit_test(the_last_minute_is_what_came_in_it),
    cmocka_unit_test(before_a_minute_has_passed_it_is_what_came_so_far),
    cmocka_unit_test(looks_that_came_late_make_it_longer_never_shorter),
    cmocka_unit_test(items_of_the_fill_socket_are_reads))
