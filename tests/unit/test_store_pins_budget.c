/* test_store_pins_budget.c - more pinned records than the budget has room for, and a budget that falls.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pins_unit.h"

#include "store/pin_walk.h"

#define MEGABYTE 1000000u             /* an object; four of them fill an extent */

static struct volume *volume_of(struct unit_store *unit)
{
    return unit->store->volumes[0];
}

/* ---- a pass that looks twice ---- */

static struct pin_found record_of(struct unit_store *unit, const char *key)
{
    struct object_name name = name_of(key);
    struct object_id id;
    struct entry entry;
    store_object_id(unit->store, &name, &id);
    ok(find_unit(volume_of(unit)->index, &id, 0, &entry) == OK);
    return (struct pin_found){ entry.extent, entry.ordinal, pin_weight(entry.len) };
}

static void see(struct unit_store *unit, struct pin_part *part, const char *key)
{
    struct pin_found found = record_of(unit, key);
    pthread_mutex_lock(&volume_of(unit)->pinned.lock);
    pinned_see(volume_of(unit), part, 0, &found);
    pthread_mutex_unlock(&volume_of(unit)->pinned.lock);
}

static void see_many(struct unit_store *unit, struct pin_part *part, const char *prefix, int count)
{
    char key[40];
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "%s%d", prefix, i);
        see(unit, part, key);
    }
}

/* The test makes the steps of a pass (pin_walk.c). The first reading does not see the record that
 * comes late, and the second one need not either: the index may not name it yet. */
TEST(a_record_that_comes_while_a_pass_runs_stays_pinned_and_takes_no_room_of_others)
{
    struct unit_store unit = open_with(25);
    struct pin_share shares[1] = { { 0, 0 } };
    struct pin_part part = { .look = LOOK_COUNT, .shares = shares };
    _Atomic uint64_t moved;
    uint64_t round;
    atomic_init(&moved, 0);
    pin(&unit, "keep/", true);
    put_many(&unit, "keep/", 10, MEGABYTE);
    uint64_t one = weight(&unit).pinned / 10;
    ok(pinned_begin(volume_of(&unit), &moved, &round));
    see_many(&unit, &part, "keep/", 10);
    put_many(&unit, "keep/late", 1, MEGABYTE);
    see(&unit, &part, "keep/late0");
    ok(shares[0].before == 10 * one);
    pinned_choose(volume_of(&unit), round, &part, 1);
    see_many(&unit, &part, "keep/", 10);
    ok(part.lost == 0 && part.over == 0);
    pinned_end(volume_of(&unit), round, PASS_FULL);
    ok(weight(&unit).pinned == 11 * one && must_stay(&unit, volume_of(&unit), "keep/late0", 0));
    unit_close(&unit);
}

/* ---- two readings, of which one does not know all names ---- */

/* Two folders, of these sizes. */
static struct unit_store open_two(uint64_t first_bytes, uint64_t second_bytes)
{
    static char paths[2][80];
    static struct store_folder folders[2];
    struct unit_store unit = { 0 };
    struct store_options options = options_of(0, EXTENT);
    slice whys[2];
    for (size_t i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%zu", unit_folder, i);
        folders[i] = (struct store_folder){ paths[i], i ? second_bytes : first_bytes };
    }
    options.folders = folders;
    options.folder_count = 2;
    options.queue_bytes_max = 512 * MIB;
    options.commit_ms_max = 600000;    /* no folder counts as slow before */
    options.pin_percent = 25;
    ok(store_open(&options, &unit.keep, &unit.store, whys) == OK);
    unit.box = mailbox_new();
    unit.io = store_io_new(unit.store, unit.box);
    return unit;
}

/* Sets keys[i] to names below `prefix` of objects in the second folder, and puts these. */
static void put_in_second(struct unit_store *unit, const char *prefix, int count, char keys[][40])
{
    char below[40];
    for (int i = 0; i < count; i++) {
        snprintf(below, sizeof(below), "%s%d-", prefix, i);
        key_in(unit, 1, below, keys[i]);
        ok(put_object(unit, keys[i], "\"1\"", MEGABYTE) == OK);
    }
}

static void *walk_run(void *arg)
{
    static const bool skip[VOLUMES_MAX];
    pin_walk(arg, skip);
    return NULL;
}

static uint64_t seen_bytes(struct volume *volume)
{
    pthread_mutex_lock(&volume->pinned.lock);
    uint64_t bytes = volume->pinned.seen_bytes;
    pthread_mutex_unlock(&volume->pinned.lock);
    return bytes;
}

/* True if the walk is in the first folder, and goes nowhere for a while. */
static bool waits_in_first(struct pin_walk *walk)
{
    uint64_t moved_ms = atomic_load(&walk->moved_ms);
    usleep(200000);
    pthread_mutex_lock(&walk->lock);
    bool waits = walk->at == 0 && atomic_load(&walk->moved_ms) == moved_ms;
    pthread_mutex_unlock(&walk->lock);
    return waits;
}

/* The first folder does not serve when the first reading ends, so the pass does not choose in the
 * second one. It serves at the end. The younger pin has the lower extents in the second folder, whose
 * budget falls while the walk begins. The test holds up the walk when it begins to choose in the
 * first folder. */
TEST(records_lose_no_pin_if_names_were_unknown_at_the_first_reading_only)
{
    struct unit_store unit = open_two(SIZE, SIZE);
    struct volume *first = unit.store->volumes[0], *second = unit.store->volumes[1];
    char young[10][40], old[6][40], key[40];
    sem_t hang, held;
    struct unit_append append = { .hang = &hang, .held = &held };
    struct pin_walk walk = { .store = unit.store };
    pthread_t thread;
    put_in_second(&unit, "young/", 10, young);
    put_in_second(&unit, "old/", 6, old);
    pin(&unit, "old/", true);
    pin(&unit, "young/", true);
    ok(must_stay(&unit, second, old[5], 0) && must_stay(&unit, second, young[9], 0));

    atomic_store(&first->pinned.marked, false);
    pthread_mutex_init(&walk.lock, NULL);
    atomic_init(&walk.moved_ms, 0);
    pthread_mutex_lock(&second->recycler.lock);
    ok(pthread_create(&thread, NULL, walk_run, &walk) == 0);
    soon(atomic_load(&second->pinned.passing));
    sem_init(&hang, 0, 0);
    sem_init(&held, 0, 0);
    key_in(&unit, 0, "other/", key);
    struct metadata *metadata = make_metadata(&unit, key, "\"1\"", 4);
    append_begin(&unit, &append, metadata, 0, S("wxyz"), true);
    while (sem_wait(&held) != 0)
        ;
    atomic_store(&first->service.busy_since_ms, 1);    /* for very long */
    pthread_mutex_lock(&first->pinned.lock);
    atomic_store(&second->space.size_bytes, 40 * MIB);
    pthread_mutex_unlock(&second->recycler.lock);
    soon(seen_bytes(second) > 9 * MEGABYTE);
    soon(waits_in_first(&walk));
    atomic_store(&first->service.busy_since_ms, 0);
    pthread_mutex_unlock(&first->pinned.lock);
    pthread_join(thread, NULL);
    for (int i = 0; i < 6; i++)
        ok(must_stay(&unit, second, old[i], 0));
    sem_post(&hang);
    ok(append_wait(&append) == OK);
    metadata_unref(&metadata);
    pthread_mutex_destroy(&walk.lock);
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(a_record_that_comes_while_a_pass_runs_stays_pinned_and_takes_no_room_of_others),
          STORE_TEST(records_lose_no_pin_if_names_were_unknown_at_the_first_reading_only))
