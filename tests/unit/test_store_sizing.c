/* test_store_sizing.c - how large a cache folder is where no setting says it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "store/sizing.h"

TEST(a_first_start_takes_four_fifths_of_what_is_free)
{
    ok(sizing_derive(0, 1000 * MIB, 0) == 800 * MIB);
    ok(sizing_derive(0, 0, 0) == SIZE_LEAST);
}

TEST(what_was_derived_grows_when_there_is_more_room_and_stays_when_there_is_not)
{
    ok(sizing_derive(8 * MIB, 1000 * MIB, 0) == 800 * MIB);
    ok(sizing_derive(800 * MIB, 200 * MIB, 800 * MIB) == 800 * MIB);    /* it is full of its own */
    ok(sizing_derive(800 * MIB, 10 * MIB, 100 * MIB) == 800 * MIB);     /* others came */
    ok(sizing_derive(800 * MIB, 1000 * MIB, 800 * MIB) == 1440 * MIB);  /* others went */
    ok(sizing_derive(800 * MIB, 1100 * MIB, 0) == 800 * MIB);    /* a tenth more is no news */
}

TEST(an_extent_is_a_64th_within_its_bounds)
{
    ok(sizing_extent(64 * GIB, 0) == 64 * MIB && sizing_extent(GIB, 0) == 16 * MIB);
    ok(sizing_extent(8 * MIB, 0) == 4 * MIB && sizing_extent(4 * MIB, 0) == 2 * MIB);
    ok(sizing_extent(GIB, 8 * MIB) == 8 * MIB);
}

RUN(cmocka_unit_test(a_first_start_takes_four_fifths_of_what_is_free),
    cmocka_unit_test(what_was_derived_grows_when_there_is_more_room_and_stays_when_there_is_not),
    cmocka_unit_test(an_extent_is_a_64th_within_its_bounds))
