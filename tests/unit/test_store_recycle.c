/* test_store_recycle.c - the size is kept, and readers keep what they hold. SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include "store/extent_inside.h"

#define EXTENT (2 * MIB)

/* One record of `len` bytes, written. */
static void append_one(struct extents *all, uint8_t fill, size_t len)
{
    static uint8_t bytes[RECORD_BYTES_MAX];
    memset(bytes, fill, len);
    struct log_item item = { .record = { .kind = KIND_UNITS, .data_len = (uint32_t)len, .etag_hash = 1 },
                             .bytes = { (char *)bytes, len } };
    ok(log_add(all, &item) == OK && log_write(all) == OK);
}

static bool reads(const struct extent *extent, uint8_t fill)
{
    uint8_t got[100];
    return pread(extent_fd(extent), got, sizeof(got), PAGE_BYTES) == sizeof(got) && got[0] == fill &&
           got[99] == fill;
}

/* Small objects with a full unit: each has a header, a head, data, and both kinds of padding. */
TEST(an_append_takes_as_many_records_as_may_be_gathered_of_any_shape)
{
    static uint8_t bytes[UNIT_BYTES + 1];
    struct extents *all = extents_new();
    ok(extents_open(all, unit_folder, 32 * MIB) == OK && log_roll(all) == OK);
    for (unsigned i = 0; i < GATHER_MAX; i++) {
        struct log_item item = {
            .record = { .kind = KIND_WHOLE, .data_len = sizeof(bytes), .head_len = 100, .etag_hash = 1 },
            .head_block = { (char *)bytes, 100 },
            .bytes = { (char *)bytes, sizeof(bytes) },
        };
        ok(log_add(all, &item) == OK);
    }
    ok(log_write(all) == OK);
    extents_free(&all);
}

TEST(a_reader_keeps_a_recycled_extent_alive)
{
    struct extents *all = extents_new();
    ok(extents_open(all, unit_folder, EXTENT) == OK);
    ok(log_roll(all) == OK);
    append_one(all, 'a', UNIT_BYTES);
    struct extent *held = extent_hold(all, 1);
    ok(held != NULL);
    ok(log_roll(all) == OK);
    uint64_t bytes = extents_bytes(all);
    ok(bytes > UNIT_BYTES);
    extent_drop(all, 1);
    ok(extent_hold(all, 1) == NULL);    /* gone for newcomers */
    ok(access(in_folder("extents/00000001"), F_OK) != 0);
    ok(extents_bytes(all) == bytes);    /* but it still takes room */
    append_one(all, 'b', UNIT_BYTES);
    ok(reads(held, 'a'));
    extent_release(&held);
    ok(extents_bytes(all) < bytes);
    extents_free(&all);
}

TEST(a_number_is_never_used_again)
{
    struct extents *all = extents_new();
    ok(extents_open(all, unit_folder, EXTENT) == OK);
    for (uint32_t i = 1; i <= 5; i++) {
        ok(log_roll(all) == OK);
        append_one(all, 'a', 100);
        if (i > 1)
            extent_drop(all, i - 1);
    }
    extents_close(all);
    ok(extents_open(all, unit_folder, EXTENT) == OK && log_roll(all) == OK);
    struct extent *held = extent_hold(all, 6);
    ok(held != NULL && extents_count(all) == 2);
    extent_release(&held);
    extents_free(&all);
}

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

RUN_STORE(STORE_TEST(an_append_takes_as_many_records_as_may_be_gathered_of_any_shape),
          STORE_TEST(a_reader_keeps_a_recycled_extent_alive), STORE_TEST(a_number_is_never_used_again),
          STORE_TEST(the_size_is_kept_and_the_newest_stays), STORE_TEST(packed_objects_leave_with_their_extent),
          STORE_TEST(what_lies_in_an_extent_that_grew_old_is_read_until_it_goes))
