/* test_store_recycle.c - the size is kept. SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#define EXTENT (2 * MIB)

TEST(the_size_is_kept_and_the_newest_stays)
{
    struct unit_store unit = unit_open_sized(8 * MIB, EXTENT);
    struct store_status status;
    char key[32];
    uint64_t before = metric_read(M_STORE_RECYCLED);
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        ok(put_object(&unit, key, "\"1\"", 300000 + 40000 * (i % 10)) == OK);
        ok(has_object(&unit, key, "\"1\"", 300000 + 40000 * (i % 10)));
        store_status(unit.store, &status);
        ok(status.used_bytes <= 8 * MIB && status.serving);
    }
    ok(metric_read(M_STORE_RECYCLED) > before);
    ok(status.entries < 40);    /* entries left with their extents */
    ok(read_range(&unit, "k0", 0, 1) == 0);
    ok(has_object(&unit, "k39", "\"1\"", 300000 + 40000 * 9));
    unit_close(&unit);
    unit = unit_open_sized(8 * MIB, EXTENT);
    ok(has_object(&unit, "k39", "\"1\"", 300000 + 40000 * 9) && !get_head(&unit, "k0"));
    unit_close(&unit);
}

TEST(packed_objects_leave_with_their_extent)
{
    struct unit_store unit = unit_open_sized(4 * MIB, EXTENT);
    struct store_status status;
    struct unit_append *appends = must_alloc(500 * sizeof(*appends));
    static char bytes[20000];
    char key[32];
    int here = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 500; i++) {
            snprintf(key, sizeof(key), "r%d-%d", round, i);
            struct head *head = make_head(&unit, key, "\"1\"", sizeof(bytes));
            append_begin(&unit, &appends[i], head, 0, (slice){ bytes, sizeof(bytes) }, true);
        }
        for (int i = 0; i < 500; i++) {
            ok(append_wait(&appends[i]) == OK);
            head_unref(&appends[i].append.head);
        }
    }
    unit_close(&unit);
    unit = unit_open_sized(4 * MIB, EXTENT);    /* no head is in RAM now */
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "r%d-%d", i / 500, i % 500);
        struct head *head = get_head(&unit, key);
        here += head != NULL;
        head_unref(&head);
    }
    store_status(unit.store, &status);
    ok(here > 50 && here < 210 && status.entries == (uint64_t)here);
    free(appends);
    unit_close(&unit);
}

TEST(what_lies_in_an_extent_that_grew_old_is_read_until_it_goes)
{
    struct unit_store unit = unit_open_sized(6 * MIB, EXTENT);
    char key[32];
    for (int i = 0; i < 30; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        ok(put_object(&unit, key, "\"1\"", MIB) == OK);
        for (int back = 0; back <= i && back < 8; back++) {    /* right bytes or none: checked inside */
            snprintf(key, sizeof(key), "k%d", i - back);
            uint64_t got = read_range(&unit, key, 0, MIB);
            ok(got == MIB || back > 0);
        }
    }
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(the_size_is_kept_and_the_newest_stays),
          STORE_TEST(packed_objects_leave_with_their_extent),
          STORE_TEST(what_lies_in_an_extent_that_grew_old_is_read_until_it_goes))
