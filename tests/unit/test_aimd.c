/* test_aimd.c - how the limit of connections follows the answers of an origin.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "origin/aimd.h"

#define BEGIN 5000u

static struct aimd aimd;

/* It grows by 3 in the second between two halvings. */
TEST(the_limit_halves_once_a_second_at_most)
{
    static const unsigned limits[] = { 32, 17, 10, 6, 4, 3, 3, 3 };
    uint64_t now_ms = BEGIN;
    aimd_init(&aimd, 64);
    for (size_t i = 0; i < countof(limits); i++, now_ms += AIMD_SHRINK_MS) {
        ok(aimd_shrink(&aimd, now_ms) && aimd.limit == limits[i]);
        for (unsigned ms = 0; ms < AIMD_SHRINK_MS; ms += 50)
            ok(!aimd_shrink(&aimd, now_ms + ms) && aimd.limit == limits[i]);
    }
    aimd_init(&aimd, 1);
    ok(!aimd_shrink(&aimd, BEGIN) && aimd.limit == 1);
}

/* A row: the setting; the time after a halving; the limit then. */
TEST(the_limit_grows_by_one_at_a_time_up_to_the_setting)
{
    static const struct {
        unsigned most, after_ms, limit;
    } rows[] = {
        { 64, 0, 32 }, { 64, 312, 32 }, { 64, 313, 33 }, { 64, 625, 34 }, { 64, 1000, 35 },
        { 64, 5000, 48 }, { 64, 9999, 63 }, { 64, 10000, 64 }, { 64, 100000, 64 },
        { 1, 0, 1 }, { 1, 100000, 1 }, { 2, 9999, 1 }, { 2, 10000, 2 },
        { 10000, 1, 5000 }, { 10000, 2, 5001 }, { 10000, 1000, 5500 }, { 10000, 10000, 10000 },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        aimd_init(&aimd, rows[i].most);
        aimd_shrink(&aimd, BEGIN);
        aimd_grow(&aimd, BEGIN + rows[i].after_ms);
        if (aimd.limit != rows[i].limit)
            fail_msg("row %zu: %u", i, aimd.limit);
        aimd_init(&aimd, rows[i].most);
        aimd_shrink(&aimd, BEGIN);
        for (unsigned ms = 0; ms <= rows[i].after_ms; ms++) {    /* the same, however often asked */
            unsigned before = aimd.limit;
            aimd_grow(&aimd, BEGIN + ms);
            ok(aimd.limit == before || aimd.limit == before + 1);
        }
        ok(aimd.limit == rows[i].limit);
    }
}

TEST(a_limit_that_is_restored_is_the_setting)
{
    aimd_init(&aimd, 64);
    ok(aimd_shrink(&aimd, BEGIN) && aimd.limit == 32);
    aimd_restore(&aimd);
    ok(aimd.limit == 64);
    aimd_grow(&aimd, BEGIN + 1);
    ok(aimd.limit == 64 && !aimd_shrink(&aimd, BEGIN + 2));    /* within the second of the last */
    ok(aimd_shrink(&aimd, BEGIN + AIMD_SHRINK_MS) && aimd.limit == 32);
}

/* An origin that takes 20 requests at once, and answers each in 50 ms. */
TEST(the_limit_swings_around_what_the_origin_takes)
{
    unsigned refused = 0, served = 0;
    aimd_init(&aimd, 64);
    for (uint64_t now_ms = BEGIN; now_ms < BEGIN + 60000; now_ms += 50) {
        aimd_grow(&aimd, now_ms);
        served += MIN(aimd.limit, 20u);
        if (aimd.limit > 20) {
            refused += aimd.limit - 20;
            aimd_shrink(&aimd, now_ms);
        }
    }
    ok(served > 1200 * 20 * 7 / 10);    /* of the most that it can serve */
    ok(refused < served / 20);          /* without the limit: 44 of 64 */
}

RUN(cmocka_unit_test(the_limit_halves_once_a_second_at_most),
    cmocka_unit_test(the_limit_grows_by_one_at_a_time_up_to_the_setting),
    cmocka_unit_test(a_limit_that_is_restored_is_the_setting),
    cmocka_unit_test(the_limit_swings_around_what_the_origin_takes))
