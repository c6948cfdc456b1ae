/* test_store_stage.c - records that are fetched ahead of their readers: their share, and their end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"
#include "testing_unit.h"

#include "store/extent_inside.h"
#include "store/give.h"
#include "store/pin.h"
#include "store/pinned.h"
#include "store/stage.h"

#define EXTENT (2 * MIB)
#define CACHE (64 * MIB)
#define AHEAD (4 * MIB)
#define SHARE (AHEAD + 3 * EXTENT)
#define SIZE 100000u
#define FITS ((int)(EXTENT / SIZE))   /* objects of an extent; one less, because of its table */
#define LARGE (2 * MIB)
#define OBJECTS 2000                  /* more than the cache can hold */

static struct volume *volume_of(struct unit_store *unit)
{
    return unit->store->volumes[0];
}

/* Stores an object as a fetch does. */
static enum err store_object(struct unit_store *unit, const char *set, int number, bool staged)
{
    char key[32];
    uint8_t *bytes = must_alloc(SIZE);
    snprintf(key, sizeof(key), "%s%d", set, number);
    struct metadata *metadata = make_metadata(unit, key, "\"1\"", SIZE);
    object_fill(key, "\"1\"", 0, bytes, SIZE);
    atomic_store(&metadata->compared, store_compared(unit->store));
    enum err e = append_now(unit, (struct store_append){
        .metadata = metadata, .with_metadata = true, .bytes = { (char *)bytes, SIZE },
        .staged = staged, .compared = store_compared(unit->store) });
    metadata_unref(&metadata);
    free(bytes);
    return e;
}

/* The same, if the store admits it, or takes it ahead of its reader. */
static bool offer(struct unit_store *unit, const char *set, int number, bool ahead)
{
    char key[32];
    snprintf(key, sizeof(key), "%s%d", set, number);
    struct metadata *metadata = make_metadata(unit, key, "\"1\"", SIZE);
    bool staged = false;
    bool stores = ahead ? store_admits_ahead(unit->store, metadata, 0, &staged)
                        : store_admits(unit->store, metadata, 0);
    metadata_unref(&metadata);
    return stores && store_object(unit, set, number, staged) == OK;
}

/* A cache that is full of objects a0, a1, ... Returns their number. */
static int fill(struct unit_store *unit)
{
    int count = 0;
    while (count < OBJECTS && offer(unit, "a", count, false))
        count++;
    ok(count > 500 && count < OBJECTS);
    return count;
}

static bool read_one(struct unit_store *unit, const char *set, int number)
{
    char key[32];
    snprintf(key, sizeof(key), "%s%d", set, number);
    return has_object(unit, key, "\"1\"", SIZE);
}

/* Returns the bytes of all staging extents. */
static uint64_t staged(struct unit_store *unit, unsigned *ret_count)
{
    struct extents *extents = volume_of(unit)->extents;
    struct arena keep = { 0 };
    uint32_t *numbers;
    uint64_t bytes = 0;
    size_t count = extents_numbers(extents, &keep, &numbers);
    *ret_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct extent *extent = extent_ref(extents, numbers[i]);
        bool staging = extent && extent_is_staging(extent);
        *ret_count += staging;
        bytes += staging ? extent_size(extent) : 0;
        extent_release(&extent);
    }
    arena_free(&keep);
    return bytes;
}

static unsigned staging_extents(struct unit_store *unit)
{
    unsigned count;
    (void)staged(unit, &count);
    return count;
}

static uint64_t used(struct unit_store *unit)
{
    struct store_status status;
    store_status(unit->store, &status);
    return status.used_bytes;
}

static uint64_t entries(struct unit_store *unit)
{
    struct store_status status;
    store_status(unit->store, &status);
    return status.entries;
}

TEST(without_a_job_nothing_is_staged)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit);
    ok(!offer(&unit, "s", 0, true) && store_object(&unit, "s", 0, true) == ERR_FULL);
    store_keep_ahead(unit.store, AHEAD);
    ok(offer(&unit, "s", 1, true) && read_one(&unit, "s", 1));
    ok(staging_extents(&unit) == 1 && count_there(&unit, "a", count, SIZE) >= count - FITS);
    unit_close(&unit);
}

/* The list of a job may be wrong: nobody reads what it brings. */
TEST(staged_records_never_take_more_than_their_share)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit);
    uint64_t most = 0;
    unsigned extents;
    store_keep_ahead(unit.store, AHEAD);
    for (int i = 0; i < 400; i++) {
        ok(offer(&unit, "s", i, true));
        most = MAX(most, staged(&unit, &extents));
        ok(extents_staging_bytes(volume_of(&unit)->extents) == staged(&unit, &extents));
        ok(used(&unit) <= CACHE);
    }
    ok(most > AHEAD && most <= SHARE);
    ok(count_there(&unit, "a", count, SIZE) >= count - (int)(SHARE / EXTENT) * FITS);
    for (int i = 400 - (int)(AHEAD / SIZE); i < 400; i++)    /* the latest are there */
        ok(read_one(&unit, "s", i));
    ok(!read_one(&unit, "s", 0));
    unit_close(&unit);
}

/* In a full cache, for a job that is ahead of its reader. */
static void fill_and_stage(struct unit_store *unit, int count)
{
    fill(unit);
    store_keep_ahead(unit->store, AHEAD);
    for (int i = 0; i < count; i++)
        ok(offer(unit, "s", i, true));
}

/* Bytes that come later would be stored without metadata, and a restart would lose them. */
TEST(evicted_records_leave_no_metadata_in_ram)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    struct metadata *metadata;
    char key[32];
    fill_and_stage(&unit, 200);
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof(key), "s%d", i);
        metadata = make_metadata(&unit, key, "\"1\"", SIZE);
        bool there = store_has_units(unit.store, metadata, 0, 1, RECORDS_ALL) == 1;
        ok(i || !there);
        ok(store_knows(unit.store, &metadata->id, NULL) == there);
        metadata_unref(&metadata);
    }
    unit_close(&unit);
}

TEST(the_share_is_at_most_half_of_the_size)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    store_keep_ahead(unit.store, CACHE);
    ok(stage_share(volume_of(&unit)) == CACHE / 2);
    store_keep_ahead(unit.store, 1);
    ok(stage_share(volume_of(&unit)) == 1 + 1 + 3 * EXTENT);
    store_keep_ahead(unit.store, 0);
    ok(stage_share(volume_of(&unit)) == 0);
    unit_close(&unit);
}

/* The folder of the second call came into service after the first one. */
TEST(each_call_sets_the_share_of_all_folders)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    store_keep_ahead(unit.store, AHEAD);
    uint64_t share = stage_share(volume_of(&unit));
    stage_want(volume_of(&unit), 1);
    store_keep_ahead(unit.store, AHEAD);
    ok(stage_share(volume_of(&unit)) == share && share > AHEAD);
    unit_close(&unit);
}

/* Returns how many staged records were read. */
static uint32_t records_read(struct unit_store *unit)
{
    struct extents *extents = volume_of(unit)->extents;
    struct arena keep = { 0 };
    uint32_t *numbers, sum = 0;
    size_t count = extents_numbers(extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++) {
        struct extent *extent = extent_ref(extents, numbers[i]);
        sum += extent && extent_is_staging(extent) ? extent_records_read(extent) : 0;
        extent_release(&extent);
    }
    arena_free(&keep);
    return sum;
}

/* Such a read is that of a job, not of its reader. */
TEST(a_read_ahead_of_the_reader_is_no_use)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    struct unit_answer answer = { 0 };
    struct store_op *op = NULL;
    store_keep_ahead(unit.store, AHEAD);
    ok(store_object(&unit, "s", 0, true) == OK && records_read(&unit) == 0);
    struct metadata *metadata = get_metadata(&unit, "s0");
    enum err e = store_read(unit.io, metadata, 0, SIZE, (struct store_to){ .ahead = true },
                            bytes_came, &answer, &answer.held, &op);
    while (e == ERR_WAIT && !answer.came)
        unit_turn(&unit);
    ok(answer.held.bytes.len > 0 && records_read(&unit) == 0);
    object_bytes_release(&answer.held);
    metadata_unref(&metadata);
    ok(read_one(&unit, "s", 0) && records_read(&unit) == 1);
    unit_close(&unit);
}

/* Stores units of a large object as a fetch does, with these flags. 0 units: the metadata alone. */
static enum err store_units(struct unit_store *unit, const char *key, uint32_t first,
                            uint32_t units, struct store_append as)
{
    struct metadata *metadata = make_metadata(unit, key, "\"1\"", LARGE);
    size_t len = units * UNIT_BYTES;
    uint8_t *bytes = must_alloc(len + 1);
    object_fill(key, "\"1\"", (uint64_t)first * UNIT_BYTES, bytes, len);
    as.metadata = metadata;
    as.with_metadata = !first;
    as.first_unit = first;
    as.bytes = (slice){ (char *)bytes, len };
    as.compared = store_compared(unit->store);
    enum err e = append_now(unit, as);
    metadata_unref(&metadata);
    free(bytes);
    return e;
}

/* Without metadata, nobody finds the units that the log has. */
TEST(metadata_of_large_objects_stays_when_staged_units_go)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    const struct store_append read = { .staged = true, .read = true };
    fill(&unit);
    store_keep_ahead(unit.store, AHEAD);
    ok(store_units(&unit, "large", 0, 8, read) == OK);
    ok(staging_extents(&unit) == 1 && records_read(&unit) == 1);
    ok(store_units(&unit, "large", 8, 8, (struct store_append){ .must = true }) == OK);
    ok(read_range(&unit, "large", 0, LARGE) == LARGE);
    unit_close(&unit);
    unit = unit_open_sized(CACHE, EXTENT);
    soon(!staging_extents(&unit));
    ok(read_range(&unit, "large", 0, LARGE) == 0);
    ok(read_range(&unit, "large", MIB, LARGE) == MIB);
    unit_close(&unit);
}

/* The rule admitted the records, but the room was used up since. The metadata waits for room. */
TEST(a_large_object_without_room_is_staged_and_its_metadata_is_not)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    const struct store_append ahead = { .ahead = true };
    fill(&unit);
    ok(store_units(&unit, "refused", 0, 8, ahead) == ERR_FULL);    /* there is no job */
    store_keep_ahead(unit.store, AHEAD);
    ok(store_units(&unit, "large", 0, 8, ahead) == OK);
    ok(read_range(&unit, "large", 0, LARGE) == MIB);
    ok(staging_extents(&unit) == 1 && used(&unit) <= CACHE);
    unit_close(&unit);
    unit = unit_open_sized(CACHE, EXTENT);
    soon(!staging_extents(&unit));
    ok(knows(&unit, "large") && read_range(&unit, "large", 0, LARGE) == 0);
    unit_close(&unit);
}

/* The metadata of an object above 64 MiB may lie in another folder than the bytes. */
TEST(metadata_alone_is_never_staged)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    fill(&unit);
    store_keep_ahead(unit.store, AHEAD);
    for (int i = 0; i < 40; i++) {
        char key[32];
        snprintf(key, sizeof(key), "large%d", i);
        ok(store_units(&unit, key, 0, 0, (struct store_append){ .staged = true }) == OK);
        ok(knows(&unit, key));
        ok(staging_extents(&unit) == 0 && used(&unit) <= CACHE);
    }
    unit_close(&unit);
}

/* The job is 20 objects ahead of its reader, which is much less than its window. */
TEST(extents_that_readers_have_passed_make_room)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit);
    unsigned most = 0;
    store_keep_ahead(unit.store, AHEAD);
    for (int i = 0; i < 600; i++) {
        ok(store_object(&unit, "s", i, true) == OK);
        if (i >= 20 && i % 50)    /* one in 50 is read by nobody */
            ok(read_one(&unit, "s", i - 20));
        most = MAX(most, staging_extents(&unit));
    }
    ok(most >= 2 && most <= 4);
    ok(count_there(&unit, "a", count, SIZE) >= count - 4 * FITS);
    unit_close(&unit);
}

/* A record may have several items of a list, or two jobs may bring it. */
TEST(what_one_reader_has_passed_stays_for_another_one)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit), slow = (int)(AHEAD / SIZE) - 5;
    store_keep_ahead(unit.store, AHEAD);
    for (int i = 0; i < 200; i++) {
        ok(store_object(&unit, "s", i, true) == OK);
        ok(i < 2 || read_one(&unit, "s", i - 2));
        ok(i < slow || read_one(&unit, "s", i - slow));
        ok(staging_extents(&unit) <= AHEAD / EXTENT + 2);
    }
    ok(count_there(&unit, "a", count, SIZE) >= count - (int)(AHEAD / EXTENT + 2) * FITS);
    unit_close(&unit);
}

/* A look at the ages of all extents takes long in a large folder. */
TEST(one_look_at_all_ages_serves_for_several_extents)
{
    struct unit_store unit = unit_open_sized(2 * CACHE, EXTENT);
    int count = fill(&unit);
    struct volume *volume = volume_of(&unit);
    unsigned extents;
    store_keep_ahead(unit.store, CACHE);
    for (int i = 0; i < 15 * FITS; i++)
        ok(store_object(&unit, "s", i, true) == OK);
    uint64_t gone = (uint64_t)(count - count_there(&unit, "a", count, SIZE)) / FITS;
    uint64_t looks = volume->space.staging.victims.looks;
    ok(gone >= 10 && looks > 0 && looks <= gone / 2);
    ok(staged(&unit, &extents) <= stage_share(volume) && used(&unit) <= 2 * CACHE);
    unit_close(&unit);
}

/* ---- extents that are held ---- */

struct readers {
    struct volume *volume;
    struct extent *extents[64];
    size_t count;
};

static struct readers hold_all(struct unit_store *unit)
{
    struct readers readers = { .volume = volume_of(unit) };
    struct extents *extents = readers.volume->extents;
    struct arena keep = { 0 };
    uint32_t *numbers;
    size_t count = extents_numbers(extents, &keep, &numbers);
    for (size_t i = 0; i < count && readers.count < countof(readers.extents); i++)
        if (extent_hold(extents, numbers[i], &readers.extents[readers.count]) == OK)
            readers.count++;
    arena_free(&keep);
    return readers;
}

static void release_all(struct readers *readers)
{
    while (readers->count)
        extent_release(&readers->extents[--readers->count]);
}

static uint64_t evicted(const struct volume *volume)
{
    return atomic_load(&volume->recycler.recycled);
}

/* Until then they take their space. */
TEST(an_eviction_without_room_is_the_last_one_until_readers_release_the_extent)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    fill(&unit);
    store_keep_ahead(unit.store, AHEAD);
    struct readers readers = hold_all(&unit);
    uint64_t before = evicted(readers.volume);
    ok(store_object(&unit, "s", 0, true) == ERR_FULL && evicted(readers.volume) == before + 1);
    ok(used(&unit) <= CACHE);
    release_all(&readers);
    ok(store_object(&unit, "s", 1, true) == OK && evicted(readers.volume) == before + 1);
    unit_close(&unit);
}

static void *release_after_eviction(void *arg)
{
    struct readers *readers = arg;
    for (uint64_t before = evicted(readers->volume); evicted(readers->volume) == before;)
        usleep(100);
    usleep(200000);    /* on a busy machine */
    release_all(readers);
    return NULL;
}

TEST(staging_waits_a_moment_for_readers_of_the_evicted_extent)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    pthread_t thread;
    fill(&unit);
    store_keep_ahead(unit.store, AHEAD);
    struct readers readers = hold_all(&unit);
    uint64_t before = evicted(readers.volume);
    ok(pthread_create(&thread, NULL, release_after_eviction, &readers) == 0);
    usleep(20000);
    ok(store_object(&unit, "s", 0, true) == OK && evicted(readers.volume) == before + 1);
    pthread_join(thread, NULL);
    unit_close(&unit);
}

static int key_count(struct unit_store *unit, int count)
{
    int found = 0;
    for (int i = 0; i < count; i++)
        found += read_one(unit, "s", i);
    return found;
}

/* Their bytes count in the quota. */
TEST(a_quota_without_room_drops_extents_that_readers_have_passed)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    fill_and_stage(&unit, 60);
    ok(key_count(&unit, 60) == 60);
    unsigned extents = staging_extents(&unit);
    usleep(700000);
    ok(extents > 2 && staging_extents(&unit) == extents);
    stage_over_quota(volume_of(&unit));
    soon(staging_extents(&unit) == 1);    /* the open one */
    unit_close(&unit);
}

/* A job that must bring what stays looks only at other records. */
TEST(staged_records_can_be_left_out)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    store_keep_ahead(unit.store, AHEAD);
    struct metadata *metadata = make_metadata(&unit, "large", "\"1\"", LARGE);
    struct unit_answer answer = { 0 };
    struct store_op *op = NULL;
    const struct store_to to = { .among = RECORDS_NOT_STAGED };
    ok(store_units(&unit, "large", 0, 8, (struct store_append){ .staged = true }) == OK);
    ok(store_units(&unit, "large", 8, 8, (struct store_append){ .must = true }) == OK);
    ok(store_has_units(unit.store, metadata, 0, 16, RECORDS_ALL) == 16);
    ok(store_has_units(unit.store, metadata, 0, 16, RECORDS_NOT_STAGED) == 0);
    ok(store_has_units(unit.store, metadata, 8, 8, RECORDS_NOT_STAGED) == 8);
    ok(store_next_unit(unit.store, metadata, 1, 15, RECORDS_ALL) == 1);
    ok(store_next_unit(unit.store, metadata, 1, 15, RECORDS_NOT_STAGED) == 8);
    ok(store_read(unit.io, metadata, 0, MIB, to, bytes_came, &answer, &answer.held, &op) ==
       ERR_NOT_FOUND);
    ok(records_read(&unit) == 0);
    ok(store_object(&unit, "s", 0, true) == OK);
    metadata_unref(&metadata);
    metadata = make_metadata(&unit, "s0", "\"1\"", SIZE);
    ok(store_has_units(unit.store, metadata, 0, 1, RECORDS_NOT_STAGED) == 0);
    ok(store_object(&unit, "s", 0, false) == OK);    /* fetched again */
    ok(store_has_units(unit.store, metadata, 0, 1, RECORDS_NOT_STAGED) == 1);
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(the_next_opening_drops_what_was_staged)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    fill_and_stage(&unit, 60);
    ok(key_count(&unit, 60) == 60);
    int count = count_there(&unit, "a", OBJECTS, SIZE);
    unit_close(&unit);
    unit = unit_open_sized(CACHE, EXTENT);
    soon(!staging_extents(&unit) && !extents_staging_bytes(volume_of(&unit)->extents));
    ok(key_count(&unit, 60) == 0 && count_there(&unit, "a", OBJECTS, SIZE) == count);
    ok(entries(&unit) == (uint64_t)count);
    soon(offer(&unit, "b", 0, false));    /* their room is for all */
    unit_close(&unit);
}

TEST(a_while_after_the_last_job_all_of_it_goes)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    fill_and_stage(&unit, 60);
    store_keep_ahead(unit.store, 0);
    usleep(1200000);
    ok(key_count(&unit, 60) == 60);
    store_keep_ahead(unit.store, AHEAD);    /* the next job: the time begins again */
    atomic_fetch_add(&unit_ahead_ms, 100000);
    usleep(1200000);
    ok(staging_extents(&unit) >= 3);
    store_keep_ahead(unit.store, 0);
    atomic_fetch_add(&unit_ahead_ms, 100000);
    soon(!staging_extents(&unit));
    ok(key_count(&unit, 60) == 0 && entries(&unit) == (uint64_t)count_there(&unit, "a", OBJECTS, SIZE));
    unit_close(&unit);
}

/* The recycler neither copies them nor takes them for room. */
TEST(records_that_the_rule_admits_take_no_staged_ones)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    fill_and_stage(&unit, 38);
    unsigned extents = staging_extents(&unit);
    for (int i = 0; i < 120; i++) {
        char key[32];
        snprintf(key, sizeof(key), "must%d", i);
        ok(put_object(&unit, key, "\"1\"", 300000) == OK);
        ok(used(&unit) <= CACHE);
    }
    ok(key_count(&unit, 38) == 38 && staging_extents(&unit) == extents);
    unit_close(&unit);
}

TEST(a_full_disk_takes_staging_extents_first)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    uint64_t stays;
    fill_and_stage(&unit, 60);
    struct extents *extents = volume_of(&unit)->extents;
    ok(extents_is_staging(extents, give_choose(extents, false, &stays)) && stays == 0);
    unit_close(&unit);
}

static bool pin(struct unit_store *unit, const char *prefix)
{
    struct pin_name name = { S("http://origin"), S("bucket"), slice_of(prefix) };
    bool changed;
    return store_pin(unit->store, &name, 1, true, &changed) == OK && changed;
}

TEST(pinned_records_are_neither_taken_nor_staged)
{
    struct unit_store unit;
    struct store_options options = options_of(CACHE, EXTENT);
    options.pin_percent = 50;
    ok(unit_try(&unit, options) == OK);
    fill_and_stage(&unit, 10);
    ok(pin(&unit, "a") && pin(&unit, "s"));
    uint64_t pinned = atomic_load(&volume_of(&unit)->pinned.bytes);
    ok(pinned > CACHE / 3);
    for (int i = 10; i < 300; i++)
        (void)offer(&unit, "t", i, true);
    ok(atomic_load(&volume_of(&unit)->pinned.bytes) == pinned);
    ok(atomic_load(&volume_of(&unit)->pinned.lost) == 0);
    unit_close(&unit);
}

/* An overwritten or purged object is gone, wherever it was. */
TEST(staged_records_are_removed_and_purged)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    fill_and_stage(&unit, 30);
    ok(remove_object(&unit, "s3") == OK && !read_one(&unit, "s", 3) && read_one(&unit, "s", 4));
    ok(purge(&unit, "s") == OK && key_count(&unit, 30) == 0);
    for (int i = 0; i < 30; i++)
        ok(offer(&unit, "s", i, true) && read_one(&unit, "s", i));
    unit_close(&unit);
}

/* ---- kills ---- */

static int point;                     /* where the child dies */
static void die(void) { _exit(0); }

static void child(int visit)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    store_keep_ahead(unit.store, AHEAD);
    for (int i = 0; i < 400; i++) {
        if (i == visit)
            call_at((enum failpoint)point, die);
        (void)!store_object(&unit, "s", i, true);
        (void)read_one(&unit, "s", i - 10);
    }
    _exit(1);
}

TEST(a_kill_at_any_step_leaves_right_bytes_and_no_staged_ones)
{
    static const enum failpoint points[] = { FAIL_EXTENT_MAKE, FAIL_EXTENT_HEAD, FAIL_APPEND,
                                             FAIL_APPENDED, FAIL_SEAL, FAIL_SEALED,
                                             FAIL_INDEX_COMMIT, FAIL_INDEX_COMMITTED, FAIL_DROP,
                                             FAIL_DROPPED };
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit), rest = 0;
    for (size_t i = 0; i < countof(points); i++) {
        point = points[i];
        int before = rest ? count_there(&unit, "a", count, SIZE) : count;
        unit_close(&unit);
        pid_t pid = fork();
        if (pid == 0)
            child(90 + 7 * (int)i);
        ok(step_of(pid) == 0);
        unit = unit_open_sized(CACHE, EXTENT);
        (void)key_count(&unit, 400);    /* right bytes or none: checked inside */
        soon(!staging_extents(&unit));
        ok(key_count(&unit, 400) == 0);
        ok(count_there(&unit, "a", count, SIZE) >= before - (int)(SHARE / EXTENT) * FITS);
        char set[8];
        snprintf(set, sizeof(set), "f%zu-", i);
        soon(!offer(&unit, set, rest++, false));    /* full again */
    }
    unit_close(&unit);
}

TEST(a_failed_write_costs_the_records_alone)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    fill(&unit);
    store_keep_ahead(unit.store, AHEAD);
    ok(offer(&unit, "s", 0, true));
    fail_next(FAIL_APPEND, 0, 1, ENOSPC);
    ok(!offer(&unit, "s", 1, true));
    ok(offer(&unit, "s", 2, true) && read_one(&unit, "s", 2) && read_one(&unit, "s", 0));
    ok(faults(&unit) == 0);
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(without_a_job_nothing_is_staged),
          STORE_TEST(staged_records_never_take_more_than_their_share),
          STORE_TEST(evicted_records_leave_no_metadata_in_ram),
          STORE_TEST(the_share_is_at_most_half_of_the_size),
          STORE_TEST(each_call_sets_the_share_of_all_folders),
          STORE_TEST(a_read_ahead_of_the_reader_is_no_use),
          STORE_TEST(metadata_of_large_objects_stays_when_staged_units_go),
          STORE_TEST(a_large_object_without_room_is_staged_and_its_metadata_is_not),
          STORE_TEST(metadata_alone_is_never_staged),
          STORE_TEST(a_quota_without_room_drops_extents_that_readers_have_passed),
          STORE_TEST(extents_that_readers_have_passed_make_room),
          STORE_TEST(what_one_reader_has_passed_stays_for_another_one),
          STORE_TEST(one_look_at_all_ages_serves_for_several_extents),
          STORE_TEST(an_eviction_without_room_is_the_last_one_until_readers_release_the_extent),
          STORE_TEST(staging_waits_a_moment_for_readers_of_the_evicted_extent),
          STORE_TEST(staged_records_can_be_left_out),
          STORE_TEST(the_next_opening_drops_what_was_staged),
          STORE_TEST(a_while_after_the_last_job_all_of_it_goes),
          STORE_TEST(records_that_the_rule_admits_take_no_staged_ones),
          STORE_TEST(a_full_disk_takes_staging_extents_first),
          STORE_TEST(pinned_records_are_neither_taken_nor_staged),
          STORE_TEST(staged_records_are_removed_and_purged),
          STORE_TEST(a_kill_at_any_step_leaves_right_bytes_and_no_staged_ones),
          STORE_TEST(a_failed_write_costs_the_records_alone))
