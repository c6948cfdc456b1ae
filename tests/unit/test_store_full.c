/* test_store_full.c - a folder without space for its index stays in service.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"
#include "testing_unit.h"

#include "store/inside.h"
#include "store/leftovers.h"

#define EXTENT (2 * MIB)

static uint64_t faults(struct unit_store *unit)
{
    struct store_status status;
    store_status(unit->store, &status);
    return status.faults;
}

static bool knows(struct unit_store *unit, const char *key)
{
    struct metadata *metadata = get_metadata(unit, key);
    bool known = metadata != NULL;
    metadata_unref(&metadata);
    return known;
}

static void put_some(struct unit_store *unit, int count)
{
    char key[32];
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        ok(put_object(unit, key, "\"1\"", 300000) == OK);
    }
}

/* The removal goes into a commit with an append, or alone, or beside the commits. */
static void a_removal_finds_no_room(int objects, int failures, bool with_append)
{
    struct unit_store unit = unit_open_sized(16 * MIB, EXTENT);
    put_some(&unit, objects);
    ok(put_object(&unit, "gone", "\"1\"", 1000) == OK);
    struct unit_put put = { 0 };
    fail_next(FAIL_INDEX_COMMIT, 0, failures, ENOSPC);
    if (with_append)
        put = put_begin(&unit, "new", "\"1\"", 1000);
    ok(remove_object(&unit, "gone") == OK && !knows(&unit, "gone"));
    if (with_append)
        ok(put_wait(&put) == ERR_FULL || knows(&unit, "new"));
    ok(faults(&unit) == 0 && serving(&unit));
    ok(put_object(&unit, "later", "\"1\"", 1000) == OK && has_object(&unit, "later", "\"1\"", 1000));
    unit_close(&unit);
    unit = unit_open_sized(16 * MIB, EXTENT);
    ok(!knows(&unit, "gone") && knows(&unit, "later"));
    unit_close(&unit);
}

TEST(a_removal_is_made_alone_if_a_commit_finds_no_room_and_no_extent_may_go)
{
    a_removal_finds_no_room(0, 1, false);
    a_removal_finds_no_room(0, 1, true);
}

TEST(extents_go_until_a_removal_finds_room)
{
    a_removal_finds_no_room(30, 1, true);
    a_removal_finds_no_room(30, 3, true);
    a_removal_finds_no_room(30, 5, false);
}

/* Leftovers are deleted in transactions that take waiting removals along. */
TEST(a_removal_that_was_taken_along_by_leftovers_is_made_alone)
{
    struct unit_store unit = unit_open_sized(64 * MIB, EXTENT);
    struct volume *volume = unit.store->volumes[0];
    for (int round = 0; round < 20; round++) {
        ok(put_object(&unit, "large", round % 2 ? "\"1\"" : "\"2\"", 3 * MIB) == OK);
        ok(put_object(&unit, "gone", "\"1\"", 1000) == OK);
        ok(remove_object(&unit, "large") == OK);
        fail_next(FAIL_INDEX_COMMIT, round % 3, 1, ENOSPC);
        ok(remove_object(&unit, "gone") == OK && !knows(&unit, "gone"));
        soon(!leftovers_wait(volume));
        fail_next(FAIL_INDEX_COMMIT, 0, 0, 0);
        ok(faults(&unit) == 0);
    }
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(a_removal_is_made_alone_if_a_commit_finds_no_room_and_no_extent_may_go),
          STORE_TEST(extents_go_until_a_removal_finds_room),
          STORE_TEST(a_removal_that_was_taken_along_by_leftovers_is_made_alone))
