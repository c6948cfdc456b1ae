/* test_store_apart.c - one cache folder does not hold up another, and knows what the other has.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A folder "hangs" while the test holds a lock that a thread of this folder has while it waits for
 * the disk. */
#include "store_unit.h"

#include "store/extent_inside.h"
#include "store/inside.h"
#include "store/pin.h"
#include "store/pin_pass.h"
#include "store/pinned.h"

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
    options.pin_percent = 50;
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

/* ---- pins ---- */

static void pin(struct unit_store *unit, const char *prefix)
{
    struct pin_name name = { S("http://origin"), S("bucket"), slice_of(prefix) };
    bool changed;
    ok(store_pin(unit->store, &name, 1, true, &changed) == OK);
}

static uint64_t pinned(struct unit_store *unit)
{
    struct pin_bytes bytes;
    store_pin_bytes(unit->store, &bytes);
    return bytes.pinned;
}

/* While one of its locks is taken, folder 1 hangs. Then folder 0 makes room, and pins what comes. */
static void pins_go_on_while(void (*hang)(struct volume *volume, bool hangs))
{
    struct unit_store unit = open_two(16 * MIB);
    struct volume *good = unit.store->volumes[0], *bad = unit.store->volumes[1];
    char keys[2][32], later[32];
    key_at(&unit, "keep/", 0, 0, keys[0]);
    key_at(&unit, "keep/", 1, 1, keys[1]);
    key_at(&unit, "keep/", 0, 0, later);
    ok(put_object(&unit, keys[0], "\"1\"", 300000) == OK);
    ok(put_object(&unit, keys[1], "\"1\"", 300000) == OK);
    pin(&unit, "keep/");
    uint64_t before = pinned(&unit);
    unit_close(&unit);
    unit = open_two(16 * MIB);
    good = unit.store->volumes[0];
    bad = unit.store->volumes[1];
    soon(pinned_is_known(good) && pinned_is_known(bad));
    uint64_t given_up = metric_read(M_PINS_GIVEN_UP);
    while (extent_close_idle(bad->extents))
        ;    /* its tables are read from the disk */
    hang(bad, true);
    pin_pass_want(unit.store->pin_pass);
    soon(atomic_load(&good->pinned.passing));
    soon(pinned_is_known(good));
    ok(metric_read(M_PINS_GIVEN_UP) > given_up);
    ok(put_object(&unit, later, "\"1\"", 300000) == OK);
    fill(&unit, 0, 16);
    hang(bad, false);
    soon(pinned_is_known(bad) && volume_is_serving(bad));
    pin(&unit, "keep/");
    ok(has_object(&unit, keys[0], "\"1\"", 300000));
    ok(has_object(&unit, later, "\"1\"", 300000));
    soon(has_object(&unit, keys[1], "\"1\"", 300000));
    soon(pinned(&unit) == before / 2 * 3);
    unit_close(&unit);
}

static void take(pthread_mutex_t *lock, bool takes)
{
    if (takes)
        pthread_mutex_lock(lock);
    else
        pthread_mutex_unlock(lock);
}

static void hang_recycler(struct volume *volume, bool hangs)
{
    take(&volume->recycler.lock, hangs);
}

TEST(pins_go_on_while_the_recycler_of_another_folder_hangs)
{
    pins_go_on_while(hang_recycler);
}

static void hang_commit(struct volume *volume, bool hangs)
{
    take(&volume->pinned.lock, hangs);
}

TEST(pins_go_on_while_a_commit_of_another_folder_hangs)
{
    pins_go_on_while(hang_commit);
}

/* Files of extents can't be opened. */
static void hang_files(struct volume *volume, bool hangs)
{
    if (hangs)
        pthread_rwlock_wrlock(&volume->extents->folder_lock);
    else
        pthread_rwlock_unlock(&volume->extents->folder_lock);
}

TEST(pins_go_on_while_reads_of_another_folder_hang)
{
    pins_go_on_while(hang_files);
}

/* ---- names ---- */

static bool is_counted(struct volume *volume)
{
    return atomic_load(&volume->service.counted);
}

/* Bytes in folder 0 that count for the limit of this object. */
static uint64_t bytes_of(struct unit_store *unit, const char *key)
{
    struct tallies *tallies = unit->store->installation.tallies;
    struct metadata *metadata = make_metadata(unit, key, "\"1\"", LARGE);
    struct tally_change sum = tallies_sum_in(tallies, tallies_of_name(tallies, metadata->name), 0);
    metadata_unref(&metadata);
    return (uint64_t)sum.bytes;
}

/* Folder 0 has units whose names are in folder 1, and a new limit needs these names. */
TEST(commits_go_on_while_the_folder_with_the_names_hangs)
{
    struct store_limits limit = { .bucket = S("bucket"), .prefix = S("large"),
                                  .quota_bytes = 1024 * MIB };
    struct unit_store unit = open_two(16 * MIB);
    char large[32], later[32];
    key_at(&unit, "large", 1, 0, large);
    key_at(&unit, "later", 0, 0, later);
    ok(put_part(&unit, large, 65 * MIB) == OK);
    unit_close(&unit);
    unit = open_two(16 * MIB);    /* nothing is in RAM */
    struct volume *good = unit.store->volumes[0], *bad = unit.store->volumes[1];
    soon(is_counted(good) && is_counted(bad));
    while (extent_close_idle(bad->extents))
        ;
    hang_files(bad, true);
    store_set_limits(unit.store, &limit, 1);
    soon(atomic_load(&good->upkeep.counting.stalled_ms) > 0);
    for (int i = 0; i < 4; i++)
        ok(put_object(&unit, later, i % 2 ? "\"1\"" : "\"2\"", 300000) == OK);
    ok(volume_is_serving(good) && !is_counted(good));
    hang_files(bad, false);
    soon(is_counted(good));
    ok(bytes_of(&unit, large) == MIB);
    unit_close(&unit);
}

/* ---- removals ---- */

/* Nobody can look whether the folder has another version while it hangs. */
TEST(a_removal_that_nobody_waits_for_outlasts_a_hang)
{
    struct unit_store unit = open_two(16 * MIB);
    struct volume *bad = unit.store->volumes[1];
    struct unit_removal removal;
    char older[32], other[32];
    key_at(&unit, "older", 1, 1, older);
    key_at(&unit, "other", 1, 1, other);
    ok(put_object(&unit, older, "\"1\"", 300000) == OK);
    struct metadata *newer = make_metadata(&unit, older, "\"2\"", 300000);
    uint64_t faults = atomic_load(&bad->service.faults);
    hang_commit(bad, true);
    struct unit_put put = put_begin(&unit, other, "\"1\"", 300000);
    soon(volume_is_good(bad) && volume_is_late(bad));
    struct store_versions others = store_versions_but(newer);
    ok(store_may_have(unit.store, &newer->id, &others));
    struct object_name name = name_of(older);
    removal_prepare(&unit, &removal, &name);
    removal.removal.unawaited = true;
    store_remove(unit.store, &removal.removal);
    usleep(3 * COMMIT_MS * 1000);    /* the watch would have given it up by then */
    ok(sem_trywait(&removal.ended) != 0);
    hang_commit(bad, false);
    ok(removal_wait(&removal) == OK && put_wait(&put) == OK);
    soon(has_object(&unit, other, "\"1\"", 300000));
    ok(!has_object(&unit, older, "\"1\"", 300000));
    ok(atomic_load(&bad->service.faults) == faults);
    metadata_unref(&newer);
    unit_close(&unit);
}

/* A reader may find metadata before its entry is evicted, and bring it into RAM after the removal was
 * queued. The commit then finds no entry. */
TEST(a_removal_of_a_version_finds_it_in_ram_alone)
{
    struct unit_store unit = open_two(16 * MIB);
    struct volume *home = unit.store->volumes[1];
    struct unit_removal removals[2];
    char keys[2][32];
    for (int i = 0; i < 2; i++) {
        key_at(&unit, "key", 1, 1, keys[i]);
        struct metadata *older = make_metadata(&unit, keys[i], "\"1\"", 300000);
        struct object_name name = name_of(keys[i]);
        removal_prepare(&unit, &removals[i], &name);
        removals[i].removal.versions = i ? store_versions_but(older) : store_version_of(older);
        pthread_mutex_lock(&home->pinned.lock);    /* a commit waits for it */
        store_remove(unit.store, &removals[i].removal);
        metadata_cache_put(home->known.cache, older);
        pthread_mutex_unlock(&home->pinned.lock);
        ok(removal_wait(&removals[i]) == OK);
        struct metadata *left = metadata_cache_get(home->known.cache, &older->id);
        ok((left != NULL) == (i == 1));
        metadata_unref(&left);
        metadata_unref(&older);
    }
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(a_removal_of_a_version_finds_it_in_ram_alone),
          STORE_TEST(a_removal_that_nobody_waits_for_outlasts_a_hang),
          STORE_TEST(commits_go_on_while_the_folder_with_the_names_hangs),
          STORE_TEST(pins_go_on_while_the_recycler_of_another_folder_hangs),
          STORE_TEST(pins_go_on_while_a_commit_of_another_folder_hangs),
          STORE_TEST(pins_go_on_while_reads_of_another_folder_hang),
          STORE_TEST(metadata_stays_while_another_folder_has_units_of_its_object))
