/* test_store_expire.c - records that were not read for a time are removed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"
#include "testing_unit.h"

#include "store/expire.h"
#include "store/extent_inside.h"
#include "store/inside.h"

#define EXTENT (2 * MIB)
#define EXPIRE_MS 32000000u           /* a slice has 1,000 s: real time does not end it */
#define SLICE_MS (EXPIRE_MS / EXPIRE_SLICES)
#define OBJECTS 40                    /* in each folder, in several extents */
#define BYTES 300000

static struct store_limits limits = { .expire_ms = EXPIRE_MS };

static char paths[2][80];
static struct store_folder folders[2];

static struct unit_store open_folders(size_t count)
{
    struct unit_store unit = { 0 };
    struct store_options options = options_of(0, EXTENT);
    slice whys[2];
    for (size_t i = 0; i < count; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%c", unit_folder, 'a' + (int)i);
        folders[i] = (struct store_folder){ paths[i], 64 * MIB };
    }
    limits.bucket = S("bucket");
    limits.prefix = S("");
    options.folders = folders;
    options.folder_count = count;
    options.limits = &limits;
    options.limit_count = 1;
    ok(store_open(&options, &unit.keep, &unit.store, whys) == OK);
    unit.box = mailbox_new();
    unit.io = store_io_new(unit.store, unit.box);
    return unit;
}

static size_t count_all(struct unit_store *unit, size_t count)
{
    char key[32];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "k%zu", i);
        found += knows(unit, key);
    }
    return found;
}

/* The recycler looks by itself only once a second. It may be about to see a new slice that this
 * thread has seen already, so two looks must agree. */
static bool is_passed(struct volume *volume)
{
    bool due = expire_is_due(volume);
    usleep(5000);
    due |= expire_is_due(volume);
    if (due)
        pthread_cond_signal(&volume->rule.more);
    return !due;
}

static bool has_passed(struct volume *volume)
{
    bool passed = false;
    for (uint64_t until = mono_ms() + 60000; !passed && mono_ms() < until;)
        passed = is_passed(volume);
    return passed;
}

/* Waits until each recycler of the folders from `first` on has made a pass in the present slice. */
static void wait_for_pass(struct unit_store *unit, size_t first)
{
    for (size_t i = first; i < unit->store->volume_count; i++)
        ok(has_passed(unit->store->volumes[i]));
}

/* Time passes slice by slice, or in one step. */
static void pass_time(struct unit_store *unit, unsigned slices, bool at_once)
{
    for (unsigned i = 0; i < (at_once ? 1 : slices); i++) {
        atomic_fetch_add(&unit_ahead_ms, SLICE_MS * (at_once ? slices : 1));
        wait_for_pass(unit, 0);
    }
}

/* A pass then gives each record its slice. */
static void put_all(struct unit_store *unit, size_t count)
{
    char key[32];
    struct unit_put puts[2 * OBJECTS];
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "k%zu", i);
        puts[i] = put_begin(unit, key, "\"1\"", BYTES);
    }
    for (size_t i = 0; i < count; i++)
        ok(put_wait(&puts[i]) == OK);
    pass_time(unit, 1, true);
}

TEST(what_is_read_stays_and_the_rest_expires)
{
    struct unit_store unit = open_folders(2);
    put_all(&unit, 2 * OBJECTS);
    pass_time(&unit, EXPIRE_SLICES - 2, true);
    ok(count_all(&unit, 2 * OBJECTS) == 2 * OBJECTS);
    ok(has_object(&unit, "k7", "\"1\"", BYTES));
    pass_time(&unit, 4, false);
    ok(count_all(&unit, 2 * OBJECTS) == 1 && has_object(&unit, "k7", "\"1\"", BYTES));
    pass_time(&unit, EXPIRE_SLICES + 2, false);
    ok(count_all(&unit, 2 * OBJECTS) == 0);
    unit_close(&unit);
}

TEST(after_a_long_time_at_once_all_expires_but_what_was_read_since)
{
    struct unit_store unit = open_folders(1);
    put_all(&unit, OBJECTS);
    atomic_store(&unit.store->volumes[0]->pinned.passing, true);    /* no pass of expiry now */
    atomic_fetch_add(&unit_ahead_ms, (uint64_t)SLICE_MS * (2 * EXPIRE_NUMBERS + 3));
    (void)tallies_expire_turn(volume_tallies(unit.store->volumes[0]));
    ok(has_object(&unit, "k3", "\"1\"", BYTES));
    atomic_store(&unit.store->volumes[0]->pinned.passing, false);
    wait_for_pass(&unit, 0);
    ok(count_all(&unit, OBJECTS) == 1 && knows(&unit, "k3"));
    unit_close(&unit);
}

/* A clock that never falls is a promise of the system; a record must not pay if it is broken. */
TEST(a_clock_that_was_set_back_expires_nothing_early)
{
    struct unit_store unit = open_folders(1);
    atomic_fetch_add(&unit_ahead_ms, (uint64_t)SLICE_MS * 1000);
    put_all(&unit, OBJECTS);
    atomic_fetch_sub(&unit_ahead_ms, (uint64_t)SLICE_MS * 500);
    wait_for_pass(&unit, 0);
    pass_time(&unit, EXPIRE_SLICES - 2, false);
    ok(count_all(&unit, OBJECTS) == OBJECTS);
    pass_time(&unit, 4, false);
    ok(count_all(&unit, OBJECTS) == 0);
    unit_close(&unit);
}

/* In place of the first extent's file there is a folder: it can be opened, and not read. */
static void spoil_first(struct unit_store *unit)
{
    struct extents *extents = unit->store->volumes[0]->extents;
    char path[300], folder[120];
    while (extent_close_idle(extents))
        ;
    snprintf(folder, sizeof(folder), "%s/extents", paths[0]);
    snprintf(path, sizeof(path), "%s/00000001", folder);
    ok(unlink(path) == 0 && mkdir(path, 0700) == 0);
}

TEST(an_extent_that_cannot_be_read_does_not_stop_the_others)
{
    struct unit_store unit = open_folders(1);
    put_all(&unit, OBJECTS);
    size_t lost = 0;
    spoil_first(&unit);
    pass_time(&unit, EXPIRE_SLICES + 2, true);
    lost = count_all(&unit, OBJECTS);
    ok(lost > 0 && lost < 10);
    ok(serving(&unit));
    unit_close(&unit);
}

TEST(a_pass_that_finds_no_room_ends_and_is_made_again_in_the_next_slice)
{
    struct unit_store unit = open_folders(1);
    struct volume *volume = unit.store->volumes[0];
    put_all(&unit, OBJECTS);
    fail_next(FAIL_INDEX_COMMIT, 0, 1000000, ENOSPC);
    atomic_fetch_add(&unit_ahead_ms, (uint64_t)SLICE_MS * (EXPIRE_SLICES + 2));
    usleep(100000);
    bool soon_over = has_passed(volume);
    ok(count_all(&unit, OBJECTS) == OBJECTS && serving(&unit));
    fail_next(FAIL_INDEX_COMMIT, 0, 0, 0);
    ok(soon_over);
    pass_time(&unit, 1, true);
    ok(count_all(&unit, OBJECTS) == 0);
    unit_close(&unit);
}

TEST(a_folder_that_hangs_does_not_stop_another)
{
    struct unit_store unit = open_folders(2);
    put_all(&unit, 2 * OBJECTS);
    pthread_mutex_lock(&unit.store->volumes[0]->recycler.lock);
    atomic_fetch_add(&unit_ahead_ms, (uint64_t)SLICE_MS * (EXPIRE_SLICES + 2));
    wait_for_pass(&unit, 1);
    size_t left = count_all(&unit, 2 * OBJECTS);
    ok(left > 0 && left < 2 * OBJECTS);
    pthread_mutex_unlock(&unit.store->volumes[0]->recycler.lock);
    wait_for_pass(&unit, 0);
    ok(count_all(&unit, 2 * OBJECTS) == 0);
    unit_close(&unit);
}

TEST(a_new_time_counts_from_its_reload_on)
{
    struct unit_store unit = open_folders(1);
    put_all(&unit, OBJECTS);
    pass_time(&unit, EXPIRE_SLICES - 2, true);
    struct store_limits twice = limits;
    twice.expire_ms = 2 * EXPIRE_MS;
    store_set_limits(unit.store, &twice, 1);
    pass_time(&unit, 2 * EXPIRE_SLICES - 4, false);
    ok(count_all(&unit, OBJECTS) == OBJECTS);
    pass_time(&unit, 8, false);
    ok(count_all(&unit, OBJECTS) == 0);
    unit_close(&unit);
}

/* A pass may have given records slices of the old time. */
TEST(a_time_that_changes_during_a_look_is_new_at_the_next_one)
{
    struct unit_store unit = open_folders(1);
    struct tallies *tallies = volume_tallies(unit.store->volumes[0]);
    put_all(&unit, 1);
    uint16_t tally = 1;
    pthread_mutex_lock(&unit.store->volumes[0]->recycler.lock);
    ok(tallies_expire_now(tallies, tally) && !tallies_expiry(tallies, tally, 0).anew);
    (void)!tallies_expire_begin(tallies, 0);
    struct store_limits twice = limits;
    twice.expire_ms = 2 * EXPIRE_MS;
    store_set_limits(unit.store, &twice, 1);
    tallies_expire_seen(tallies, 0);
    ok(tallies_expiry(tallies, tally, 0).anew);
    pthread_mutex_unlock(&unit.store->volumes[0]->recycler.lock);
    ok(has_passed(unit.store->volumes[0]) && !tallies_expiry(tallies, tally, 0).anew);
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(a_time_that_changes_during_a_look_is_new_at_the_next_one),
          STORE_TEST(what_is_read_stays_and_the_rest_expires),
          STORE_TEST(after_a_long_time_at_once_all_expires_but_what_was_read_since),
          STORE_TEST(a_clock_that_was_set_back_expires_nothing_early),
          STORE_TEST(an_extent_that_cannot_be_read_does_not_stop_the_others),
          STORE_TEST(a_pass_that_finds_no_room_ends_and_is_made_again_in_the_next_slice),
          STORE_TEST(a_folder_that_hangs_does_not_stop_another),
          STORE_TEST(a_new_time_counts_from_its_reload_on))
