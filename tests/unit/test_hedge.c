/* test_hedge.c - when a request to an origin is sent a second time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "origin/hedge.h"

static struct hedge hedge;
static uint64_t now_ms;

static void begin(void)
{
    hedge = (struct hedge){ 0 };
    now_ms = 1000000;
}

static void note(unsigned count, uint64_t ms)
{
    while (count--)
        hedge_note(&hedge, ms * 1000, now_ms);
}

static unsigned delay(void)
{
    return hedge_delay_ms(&hedge, now_ms);
}

/* True if `ms` is `want`, or above by no more than the width of a bucket. */
static bool about(unsigned ms, unsigned want)
{
    return ms >= want && ms <= want + want / 8 + 1;
}

TEST(no_request_is_hedged_before_enough_samples)
{
    begin();
    ok(delay() == 0 && !hedge_spend(&hedge));
    note(HEDGE_SAMPLES - 1, 100);
    ok(delay() == 0);
    note(1, 100);
    ok(about(delay(), 200));
}

/* Each row: 1,000 answers, and the delay. */
TEST(the_delay_is_the_95th_percentile_or_twice_the_median)
{
    static const struct {
        unsigned slow;              /* of 1,000 */
        unsigned usual_ms, slow_ms, delay_ms;
    } rows[] = {
        { 0, 30, 300, 60 }, { 20, 30, 300, 60 }, { 49, 30, 300, 60 },
        { 51, 30, 300, 300 },       /* as many slow answers could not all be hedged */
        { 51, 30, 40, 60 }, { 501, 30, 300, 600 },
        { 0, 1, 300, HEDGE_FLOOR_MS }, { 20, 1, 300, HEDGE_FLOOR_MS }, { 51, 1, 5, HEDGE_FLOOR_MS },
        { 0, 12, 300, 24 }, { 0, 60000, 60000, 120000 },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        begin();
        note(1000 - rows[i].slow, rows[i].usual_ms);
        note(rows[i].slow, rows[i].slow_ms);
        if (!about(delay(), rows[i].delay_ms))
            fail_msg("row %zu: %u ms", i, delay());
    }
}

TEST(any_time_has_a_bucket_that_is_at_most_an_eighth_wide)
{
    static const uint64_t odd_us[] = { 0, 1, 1023, UINT64_MAX / 2000, UINT64_MAX };
    for (uint64_t us = 12000; us < 60000000; us += us / 50) {
        begin();
        for (unsigned i = 0; i < HEDGE_SAMPLES; i++)
            hedge_note(&hedge, us, now_ms);
        uint64_t twice_us = (uint64_t)delay() * 1000;
        if (twice_us < 2 * us || twice_us > 2 * us + us / 4 + 1000)
            fail_msg("%u ms after %llu us", delay(), (unsigned long long)us);
    }
    for (size_t i = 0; i < countof(odd_us); i++) {
        begin();
        for (unsigned k = 0; k < HEDGE_SAMPLES; k++)
            hedge_note(&hedge, odd_us[i], now_ms);
        ok(delay() == (i < 3 ? HEDGE_FLOOR_MS : 134218));
    }
}

TEST(hedges_are_at_most_3_percent_of_the_answers)
{
    unsigned hedges = 0;
    begin();
    for (unsigned answers = 1; answers <= 100000; answers++, now_ms += 7) {
        note(1, 30);
        if (hedge_spend(&hedge) && ++hedges % 3 == 0)
            hedge_won(&hedge);
        ok(hedges * 100 <= answers * 3);
    }
    ok(hedges == 3000);
}

TEST(hedges_that_do_not_win_are_few)
{
    unsigned hedges = 0;
    begin();
    for (unsigned answers = 1; answers <= 100000; answers++, now_ms += 7) {
        note(1, 30);
        hedges += hedge_spend(&hedge);
    }
    ok(hedges > 100 && hedges < 700);    /* 0.3 %, and a few each time that the counts halve */
}

TEST(few_hedges_can_be_saved)
{
    unsigned hedges = 0;
    begin();
    note(100000, 30);
    while (hedge_spend(&hedge))
        hedges++;
    ok(hedges == HEDGE_BUDGET_MAX);
}

TEST(what_is_minutes_ago_counts_little)
{
    begin();
    note(1000, 30);
    now_ms += HEDGE_HALF_MS;
    ok(about(delay(), 60));
    note(400, 300);    /* beside 500 */
    ok(about(delay(), 300));
    now_ms += HEDGE_HALF_MS;
    note(400, 300);    /* 250 at 30 ms, 600 at 300 ms */
    ok(about(delay(), 600));
}

TEST(an_origin_with_few_requests_is_not_hedged)
{
    begin();
    note(2 * HEDGE_SAMPLES, 30);
    now_ms += HEDGE_HALF_MS;
    ok(delay() != 0);
    now_ms += HEDGE_HALF_MS;
    ok(delay() == 0);    /* a half of what it needs */
    now_ms += 1000ull * HEDGE_HALF_MS;
    ok(delay() == 0 && hedge.samples == 0);
    for (unsigned i = 0; i < 1000; i++, now_ms += HEDGE_HALF_MS / (HEDGE_SAMPLES / 3)) {
        note(1, 30);
        ok(delay() == 0);
    }
}

/* A clock that goes back, as a test of a machine may show, changes nothing. */
TEST(an_earlier_time_is_harmless)
{
    begin();
    note(HEDGE_SAMPLES, 30);
    now_ms = 5;
    ok(about(delay(), 60));
    note(100, 30);
    ok(about(delay(), 60));
}

/* An origin has a few slow answers. Each is hedged, the second answer wins, and the request counts
 * with its whole time. Then the whole origin becomes slow. */
TEST(hedged_requests_keep_the_histogram_true)
{
    begin();
    for (unsigned i = 0; i < 2000; i++) {
        unsigned late_ms = delay();
        bool hedged = i % 50 == 0 && late_ms && hedge_spend(&hedge);
        note(1, hedged ? late_ms + 30 : i % 50 ? 30 : 300);
        ok(i < HEDGE_SAMPLES || about(late_ms, 60));
    }
    unsigned before = delay(), hedges = 0;
    for (unsigned i = 0; i < 4000; i++, now_ms += 20) {
        bool hedged = hedge_spend(&hedge);
        hedges += hedged;
        note(1, hedged ? delay() + 200 : 200);
    }
    ok(about(before, 60) && about(delay(), 400));
    ok(hedges <= 4000 * 3 / 100 + HEDGE_BUDGET_MAX);
}

RUN(cmocka_unit_test(no_request_is_hedged_before_enough_samples),
    cmocka_unit_test(the_delay_is_the_95th_percentile_or_twice_the_median),
    cmocka_unit_test(any_time_has_a_bucket_that_is_at_most_an_eighth_wide),
    cmocka_unit_test(hedges_are_at_most_3_percent_of_the_answers),
    cmocka_unit_test(hedges_that_do_not_win_are_few),
    cmocka_unit_test(few_hedges_can_be_saved),
    cmocka_unit_test(what_is_minutes_ago_counts_little),
    cmocka_unit_test(an_origin_with_few_requests_is_not_hedged),
    cmocka_unit_test(an_earlier_time_is_harmless),
    cmocka_unit_test(hedged_requests_keep_the_histogram_true))
