/* test_store_route.c - shares, moves and fixed results of the route.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/rendezvous.c"
#include "store/route.c"

#define IDS 100000u

static struct object_id id_of(uint32_t number)
{
    struct object_id id = { { 0 } };
    uint64_t text = number * 0x9E3779B97F4A7C15u;
    memcpy(id.bytes, &text, sizeof(text));
    memcpy(id.bytes + 8, &number, sizeof(number));
    return id;
}

static void rows_make(struct route_row *rows, size_t count, uint64_t weight)
{
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct route_row){ .weight = weight };
        memset(rows[i].id, (int)(0x10 + i), sizeof(rows[i].id));
    }
}

static double share_of(const struct route_row *rows, size_t count, size_t which)
{
    uint32_t won = 0;
    for (uint32_t i = 0; i < IDS; i++) {
        struct object_id id = id_of(i);
        won += route_home(rows, count, &id, 0) == which;
    }
    return (double)won / IDS;
}

static bool is_near(double got, double want, double part)
{
    return got >= want * (1 - part) && got <= want * (1 + part);
}

TEST(shares_equal_the_weights)
{
    static const uint64_t weights[] = { 3, 1, 2, 14 };    /* in 100 GiB */
    struct route_row rows[countof(weights)];
    rows_make(rows, countof(rows), 1);
    for (size_t i = 0; i < countof(rows); i++)
        rows[i].weight = weights[i] * 100 * GIB;
    for (size_t i = 0; i < countof(rows); i++)
        ok(is_near(share_of(rows, countof(rows), i), (double)weights[i] / 20, 0.02));
}

TEST(the_stripes_of_an_object_are_shared_like_objects)
{
    struct route_row rows[3];
    struct object_id id = id_of(7);
    uint32_t won[3] = { 0 };
    rows_make(rows, 3, GIB);
    for (uint32_t stripe = 0; stripe < IDS; stripe++)
        won[route_home(rows, 3, &id, stripe)]++;
    for (size_t i = 0; i < 3; i++)
        ok(is_near((double)won[i] / IDS, 1.0 / 3, 0.02));
}

/* What moves goes to the volume that was added, or comes from the one that is removed. */
TEST(a_volume_that_is_added_moves_its_own_share_alone)
{
    struct route_row rows[5];
    uint32_t moved = 0;
    rows_make(rows, 5, 10 * GIB);
    for (uint32_t i = 0; i < IDS; i++) {
        struct object_id id = id_of(i);
        size_t before = route_home(rows, 4, &id, i % 3), after = route_home(rows, 5, &id, i % 3);
        ok(after == before || after == 4);
        moved += after != before;
    }
    ok(is_near((double)moved / IDS, 0.2, 0.02));
}

TEST(the_order_of_the_list_does_not_matter)
{
    struct route_row rows[3], turned[3];
    rows_make(rows, 3, GIB);
    rows[1].weight = 5 * GIB;
    turned[0] = rows[2];
    turned[1] = rows[0];
    turned[2] = rows[1];
    static const size_t place[] = { 1, 2, 0 };
    for (uint32_t i = 0; i < 1000; i++) {
        struct object_id id = id_of(i);
        ok(route_home(turned, 3, &id, i) == place[route_home(rows, 3, &id, i)]);
    }
}

TEST(the_lowest_and_the_highest_hash_draw_within_bounds)
{
    ok(number_of(0) == number_of(1) && number_of(1) == (uint64_t)64 << FRACTION);
    ok(number_of(UINT64_MAX) > 0);
    ok(number_of(UINT64_MAX / 2 + 1) == (uint64_t)1 << FRACTION);
    uint64_t last = UINT64_MAX;
    for (uint64_t hash = 1; hash < UINT64_MAX / 2; hash += hash / 100 + 1) {
        ok(number_of(hash) <= last);
        last = number_of(hash);
    }
}

/* The largest weights that sizes allow do not overflow. */
TEST(weights_may_be_as_large_as_a_disk)
{
    struct route_row rows[64];
    uint32_t won = 0;
    rows_make(rows, 64, UINT64_MAX);
    rows[63].weight = 1;
    for (uint32_t i = 0; i < 10000; i++) {
        struct object_id id = id_of(i);
        won += route_home(rows, 64, &id, 0) == 63;
    }
    ok(won == 0);
}

/* Bytes lie where these results say: another result loses what is cached. */
TEST(results_never_change)
{
    static const uint8_t homes[] = { 2, 2, 1, 1, 2, 2, 3, 2, 2, 0, 0, 2, 1, 2, 2, 0,
                                     2, 1, 2, 0, 1, 2, 2, 2, 3, 1, 2, 3, 2, 2, 2, 2 };
    struct route_row rows[4];
    rows_make(rows, 4, GIB);
    rows[2].weight = 3 * GIB;
    for (uint32_t i = 0; i < countof(homes); i++) {
        struct object_id id = id_of(i);
        ok(route_home(rows, 4, &id, i / 4) == homes[i]);
    }
}

RUN(cmocka_unit_test(shares_equal_the_weights),
    cmocka_unit_test(the_stripes_of_an_object_are_shared_like_objects),
    cmocka_unit_test(a_volume_that_is_added_moves_its_own_share_alone),
    cmocka_unit_test(the_order_of_the_list_does_not_matter),
    cmocka_unit_test(the_lowest_and_the_highest_hash_draw_within_bounds),
    cmocka_unit_test(weights_may_be_as_large_as_a_disk),
    cmocka_unit_test(results_never_change))
