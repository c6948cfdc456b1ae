/* test_store_leftovers.c - units of removed and replaced versions leave the index.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include "store/inside.h"
#include "store/leftovers.h"

#define LARGE 3000000u
#define LARGE_UNITS ((LARGE + UNIT_BYTES - 1) / UNIT_BYTES)

static struct object_id id_of(struct unit_store *unit, const char *key)
{
    struct object_name name = name_of(key);
    struct object_id id;
    store_object_id(unit->store, &name, &id);
    return id;
}

static uint32_t units_of(struct volume *volume, const char *key, struct unit_store *unit)
{
    struct object_id id = id_of(unit, key);
    struct entry entry;
    uint32_t at = 0, count = 0;
    while (index_get_next(volume->index, &id, at, &at, &entry) == OK && at != METADATA_UNIT) {
        count++;
        at++;
    }
    return count;
}

static void wait_for_units(struct volume *volume, const char *key, struct unit_store *unit,
                           uint32_t count)
{
    uint64_t until_ms = mono_ms() + 60000;
    while ((units_of(volume, key, unit) != count || leftovers_wait(volume)) && mono_ms() < until_ms)
        usleep(10000);
    ok(units_of(volume, key, unit) == count && !leftovers_wait(volume));
}

static uint64_t live_bytes(struct volume *volume)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    uint64_t bytes = 0;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++)
        bytes += ages_live_bytes(extent_ages(volume->extents, numbers[i]));
    arena_free(&keep);
    return bytes;
}

TEST(the_units_of_a_removed_object_leave_the_index)
{
    struct unit_store unit = unit_open();
    struct volume *volume = unit.store->volumes[0];
    ok(put_object(&unit, "other", "\"1\"", LARGE) == OK);
    uint64_t other = live_bytes(volume);
    ok(put_object(&unit, "k", "\"1\"", LARGE) == OK);
    ok(units_of(volume, "k", &unit) == LARGE_UNITS && live_bytes(volume) > other + LARGE / 2);
    ok(remove_object(&unit, "k") == OK);
    wait_for_units(volume, "k", &unit, 0);
    ok(live_bytes(volume) == other);
    ok(has_object(&unit, "other", "\"1\"", LARGE));
    unit_close(&unit);
}

TEST(the_units_of_a_replaced_version_leave_the_index)
{
    struct unit_store unit = unit_open();
    struct volume *volume = unit.store->volumes[0];
    ok(put_object(&unit, "k", "\"1\"", LARGE) == OK);
    ok(put_object(&unit, "k", "\"2\"", LARGE / 2) == OK);
    wait_for_units(volume, "k", &unit, (LARGE / 2 + UNIT_BYTES - 1) / UNIT_BYTES);
    ok(has_object(&unit, "k", "\"2\"", LARGE / 2));
    ok(put_object(&unit, "k", "\"3\"", 5000) == OK);    /* one WHOLE record */
    wait_for_units(volume, "k", &unit, 1);
    ok(has_object(&unit, "k", "\"3\"", 5000));
    ok(live_bytes(volume) == 5000);
    unit_close(&unit);
}

TEST(new_metadata_of_the_same_version_keeps_the_units)
{
    struct unit_store unit = unit_open();
    struct volume *volume = unit.store->volumes[0];
    struct metadata *metadata = make_metadata(&unit, "k", "\"1\"", LARGE);
    ok(put_object(&unit, "k", "\"1\"", LARGE) == OK);
    struct unit_append append = { .err = OK };
    append_begin(&unit, &append, metadata, 0, S(""), true);
    ok(append_wait(&append) == OK);
    leftovers_add(volume, &metadata->id);
    wait_for_units(volume, "k", &unit, LARGE_UNITS);
    ok(has_object(&unit, "k", "\"1\"", LARGE));
    metadata_unref(&metadata);
    unit_close(&unit);
}

/* A batch has 250 entries; an object may have more, and so may many objects. */
TEST(many_units_go_in_several_batches)
{
    struct unit_store unit = unit_open_sized(256 * MIB, 4 * MIB);
    struct volume *volume = unit.store->volumes[0];
    struct metadata *metadata = make_metadata(&unit, "k", "\"1\"", 64 * MIB);
    slice bytes = { must_alloc(RECORD_BYTES_MAX), RECORD_BYTES_MAX };
    for (uint32_t first = 0; first < 64 * MIB / UNIT_BYTES; first += RECORD_UNITS) {
        struct unit_append append = { .err = OK };
        append_begin(&unit, &append, metadata, first, bytes, first == 0);
        ok(append_wait(&append) == OK);
    }
    ok(units_of(volume, "k", &unit) == 64 * MIB / UNIT_BYTES);
    uint64_t before = metric_read(M_STORE_LEFTOVERS);
    ok(remove_object(&unit, "k") == OK);
    wait_for_units(volume, "k", &unit, 0);
    ok(live_bytes(volume) == 0);
    ok(metric_read(M_STORE_LEFTOVERS) - before == 64 * MIB / UNIT_BYTES);
    metadata_unref(&metadata);
    free((char *)bytes.ptr);
    unit_close(&unit);
}

TEST(the_queue_of_leftovers_has_a_limit)
{
    struct unit_store unit = unit_open();
    struct volume *volume = unit.store->volumes[0];
    struct object_id *ids = must_alloc(70000 * sizeof(*ids));
    ok(put_object(&unit, "k", "\"1\"", 10) == OK);
    uint64_t before = metric_read(M_STORE_LEFTOVERS_LIMITED);
    for (size_t i = 0; i < 70000; i++)
        leftovers_add_stripes(volume, &ids[i]);
    ok(metric_read(M_STORE_LEFTOVERS_LIMITED) > before);
    wait_for_units(volume, "k", &unit, 1);
    free(ids);
    unit_close(&unit);
}

/* ---- stripes in other folders ---- */

static struct unit_store open_two(void)
{
    static char paths[2][80];
    static struct store_folder folders[2];
    struct store_options options = options_of(0, 4 * MIB);
    struct unit_store unit = { 0 };
    slice whys[2];
    for (unsigned i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%u", unit_folder, i);
        folders[i] = (struct store_folder){ paths[i], 64 * MIB };
    }
    options.folders = folders;
    options.folder_count = 2;
    ok(store_open(&options, &unit.keep, &unit.store, whys) == OK);
    unit.box = mailbox_new();
    unit.io = store_io_new(unit.store, unit.box);
    return unit;
}

/* Finds a key whose first two stripes lie in two folders. */
static struct volume *of_second_stripe(struct unit_store *unit, char key[16])
{
    for (unsigned i = 0;; i++) {
        snprintf(key, 16, "k%u", i);
        struct object_id id = id_of(unit, key);
        struct volume *second = store_home_of_unit(unit->store, &id, STRIPE_UNITS);
        if (second != store_home(unit->store, &id))
            return second;
    }
}

TEST(stripes_in_another_folder_leave_its_index)
{
    struct unit_store unit = open_two();
    char key[16];
    struct volume *second = of_second_stripe(&unit, key);
    struct metadata *metadata = make_metadata(&unit, key, "\"1\"", 100 * MIB);
    slice bytes = { must_alloc(RECORD_BYTES_MAX), RECORD_BYTES_MAX };
    struct unit_append append = { .err = OK };
    append_begin(&unit, &append, metadata, STRIPE_UNITS, bytes, true);
    ok(append_wait(&append) == OK);
    ok(units_of(second, key, &unit) == RECORD_UNITS);
    ok(remove_object(&unit, key) == OK);
    wait_for_units(second, key, &unit, 0);
    ok(live_bytes(second) == 0);
    metadata_unref(&metadata);
    free((char *)bytes.ptr);
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(the_units_of_a_removed_object_leave_the_index),
          STORE_TEST(the_units_of_a_replaced_version_leave_the_index),
          STORE_TEST(new_metadata_of_the_same_version_keeps_the_units),
          STORE_TEST(many_units_go_in_several_batches),
          STORE_TEST(the_queue_of_leftovers_has_a_limit),
          STORE_TEST(stripes_in_another_folder_leave_its_index))
