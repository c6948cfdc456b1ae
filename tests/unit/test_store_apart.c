/* test_store_apart.c - one cache folder does not hold up another, and knows what the other has.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A folder "hangs" while the test holds a lock that a thread of this folder has while it waits for
 * the disk. */
#include "store_unit.h"

#include "store/extent_inside.h"
#include "store/inside.h"
#include "store/leftovers.h"

#define FOLDERS 2u
#define EXTENT (2 * MIB)
#define AT_ONCE 8
#define COMMIT_MS 500u                /* a folder that hangs for so long is out of service */
#define LARGE (64 * MIB + 3 * MIB)    /* two stripes */

static char paths[FOLDERS][80];
static struct store_folder folders[FOLDERS];

static struct unit_store open_two(uint64_t size)
{
    struct unit_store unit = { 0 };
    struct store_options options = options_of(0, EXTENT);
    slice whys[FOLDERS];
    for (size_t i = 0; i < FOLDERS; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%c", unit_folder, 'a' + (int)i);
        folders[i] = (struct store_folder){ paths[i], size };
    }
    options.folders = folders;
    options.folder_count = FOLDERS;
    options.commit_ms_max = COMMIT_MS;
    ok(store_open(&options, &unit.keep, &unit.store, whys) == OK);
    unit.box = mailbox_new();
    unit.io = store_io_new(unit.store, unit.box);
    return unit;
}

static size_t home_of(struct unit_store *unit, const char *key, uint32_t stripe)
{
    struct object_name name = name_of(key);
    struct object_id id;
    store_object_id(unit->store, &name, &id);
    return route_home(unit->store->installation.route, FOLDERS, &id, stripe);
}

/* Writes a name to `key` that begins with `start`, and whose stripes 0 and 1 have these homes. */
static void key_at(struct unit_store *unit, const char *start, size_t home, size_t next, char key[32])
{
    static unsigned number;
    do
        snprintf(key, 32, "%s%u", start, number++);
    while (home_of(unit, key, 0) != home || home_of(unit, key, 1) != next);
}

/* Puts 1 MiB of an object of LARGE bytes, from `start` on, with its metadata. */
static enum err put_part(struct unit_store *unit, const char *key, uint64_t start)
{
    struct metadata *metadata = make_metadata(unit, key, "\"1\"", LARGE);
    uint8_t *bytes = must_alloc(MIB);
    struct unit_append append = { .refuse = false };
    object_fill(key, "\"1\"", start, bytes, MIB);
    append_begin(unit, &append, metadata, (uint32_t)(start / UNIT_BYTES),
                 (slice){ (char *)bytes, MIB }, true);
    enum err e = append_wait(&append);
    metadata_unref(&metadata);
    free(bytes);
    return e;
}

static bool knows(struct unit_store *unit, const char *key)
{
    struct metadata *metadata = get_metadata(unit, key);
    bool known = metadata != NULL;
    metadata_unref(&metadata);
    return known;
}

/* Puts small objects at home in this folder, until it has evicted so many extents. */
static void fill(struct unit_store *unit, size_t folder, uint64_t evictions)
{
    struct volume *volume = unit->store->volumes[folder];
    uint64_t end = atomic_load(&volume->recycler.recycled) + evictions;
    struct unit_put puts[AT_ONCE];
    char key[32];
    for (int i = 0; i < 200 && atomic_load(&volume->recycler.recycled) < end; i++) {
        for (int k = 0; k < AT_ONCE; k++) {
            key_at(unit, "filler", folder, folder, key);
            puts[k] = put_begin(unit, key, "\"1\"", 200000);
        }
        for (int k = 0; k < AT_ONCE; k++)
            ok(put_wait(&puts[k]) == OK);
    }
    ok(atomic_load(&volume->recycler.recycled) >= end);
}

/* ---- units in other folders ---- */

TEST(metadata_stays_while_another_folder_has_units_of_its_object)
{
    struct unit_store unit = open_two(16 * MIB);
    char key[32], without[32];
    key_at(&unit, "large", 0, 1, key);
    key_at(&unit, "large", 0, 0, without);
    ok(put_part(&unit, key, 65 * MIB) == OK && put_part(&unit, without, 65 * MIB) == OK);
    fill(&unit, 0, 16);
    unit_close(&unit);
    unit = open_two(16 * MIB);    /* nothing is in RAM */
    ok(knows(&unit, key) && read_range(&unit, key, 65 * MIB, 66 * MIB) == MIB);
    ok(!knows(&unit, without));    /* all its units were at home, and were evicted */
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(metadata_stays_while_another_folder_has_units_of_its_object))
