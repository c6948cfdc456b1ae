/* test_store_pins_budget.c - more pinned records than the budget has room for, and a budget that falls.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pins_unit.h"

#include "store/pin_pass.h"
#include "store/pin_walk.h"
#include "testing_unit.h"

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
    pinned_choose(volume_of(&unit), round, &part, 1, false);
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

/* Sets keys[i] to names below `prefix` of objects in this folder, and puts these. */
static void put_in(struct unit_store *unit, size_t volume, const char *prefix, int count,
                   char keys[][40])
{
    char below[40];
    for (int i = 0; i < count; i++) {
        snprintf(below, sizeof(below), "%s%d-", prefix, i);
        key_in(unit, volume, below, keys[i]);
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
    put_in(&unit, 1, "young/", 10, young);
    put_in(&unit, 1, "old/", 6, old);
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

/* The object's metadata lies in the folder that is out, and 20 MB of it in the other one. So the
 * first folder's records of it have no known name, and stay pinned. */
TEST(records_whose_folder_is_out_take_their_part_of_the_budget_after_a_restart)
{
    struct unit_store unit = open_two(2 * SIZE, 8 * SIZE);
    char large[40], key[40];
    int stay = 0;
    pin(&unit, "keep/", true);
    key_of_both(&unit, "keep/large", large);
    ok(put_object(&unit, large, "\"1\"", STRIPE_UNITS * UNIT_BYTES + 20 * MEGABYTE) == OK);
    unit_close(&unit);
    take_away(in_folder("1"));
    unit = open_two(2 * SIZE, 8 * SIZE);
    ok(!pin(&unit, "keep/", true));    /* changes nothing, and waits for the pass */
    struct volume *first = volume_of(&unit);
    ok(must_stay(&unit, first, large, STRIPE_UNITS));
    for (int i = 0; i < 30; i++) {
        char below[40];
        snprintf(below, sizeof(below), "keep/%d-", i);
        key_in(&unit, 0, below, key);
        ok(put_object(&unit, key, "\"1\"", MEGABYTE) == OK);
        stay += must_stay(&unit, first, key, 0);
    }
    uint64_t budget = pinned_budget(first);
    ok(stay == 13 && atomic_load(&first->pinned.bytes) <= budget);
    ok(atomic_load(&first->pinned.bytes) > budget - 12 * MEGABYTE / 10);
    pin(&unit, "keep/", true);
    ok(must_stay(&unit, first, large, STRIPE_UNITS));
    ok(atomic_load(&first->pinned.bytes) <= budget);
    unit_close(&unit);
}

/* As after an opening: no record is pinned yet, and the files of ages say which ones were. */
static void forget_pins(struct volume *volume)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    pthread_mutex_lock(&volume->pinned.lock);
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++) {
        struct extent *extent = extent_ref(volume->extents, numbers[i]);
        struct ages *ages = extent_ages_of(extent);
        uint32_t records = ages_counted(ages);
        uint8_t *live = must_alloc(records + 1);
        for (uint32_t k = 0; k < records; k++)
            live[k] = ages_is_pinned(ages, k) ? AGES_PINNED : 0;
        ages_unpin_all(ages);
        (void)ages_restore_pins(ages, records, live);
        free(live);
        extent_release(&extent);
    }
    atomic_store(&volume->pinned.bytes, 0);
    atomic_store(&volume->pinned.marked, false);
    pthread_mutex_unlock(&volume->pinned.lock);
    arena_free(&keep);
}

#define IN_BUDGET 12                  /* objects of one pin; those of two do not fit */

/* The second folder is out when one pin is removed, another one is added, and a pass learns of
 * both. The objects of the new pin have the lower extents. `opened`: as after an opening of the
 * first folder. */
static void replace_pin(bool opened)
{
    struct unit_store unit = open_two(SIZE, SIZE);
    struct volume *first = volume_of(&unit);
    char old[IN_BUDGET][40], new[IN_BUDGET][40];
    bool was;
    pin(&unit, "old/", true);
    put_in(&unit, 0, "new/", IN_BUDGET, new);
    put_in(&unit, 0, "old/", IN_BUDGET, old);
    take_away(in_folder("1"));
    soon(is_out(unit.store->volumes[1]));
    pthread_mutex_lock(&first->recycler.lock);
    uint64_t number = pin_pass_want(unit.store->pin_pass);
    soon(atomic_load(&first->pinned.passing));
    if (opened)
        forget_pins(first);
    ok(pins_set(unit.store->pins, S("http://origin\0bucket\0old/"), false, &was) == OK && was);
    ok(pins_set(unit.store->pins, S("http://origin\0bucket\0new/"), true, &was) == OK && !was);
    pthread_mutex_unlock(&first->recycler.lock);
    soon(pin_pass_is_done(unit.store->pin_pass, number));
    for (int i = 0; i < IN_BUDGET; i++)
        ok(must_stay(&unit, first, new[i], 0) && !must_stay(&unit, first, old[i], 0));
    ok(atomic_load(&first->pinned.bytes) > IN_BUDGET * MEGABYTE);
    ok(atomic_load(&first->pinned.bytes) < (IN_BUDGET + 1) * MEGABYTE);
    unit_close(&unit);
}

TEST(a_pin_takes_the_room_that_an_unpin_leaves_while_a_folder_is_out)
{
    replace_pin(false);
}

TEST(a_pin_takes_the_room_that_an_unpin_leaves_in_a_folder_that_was_just_opened)
{
    replace_pin(true);
}

/* ---- a budget that falls ---- */

/* Puts 14 objects of the older pin and 28 others into all extents, and pins them all. */
static void put_mixed(struct unit_store *unit)
{
    char key[40];
    pin(unit, "old/", true);
    pin(unit, "", true);
    for (int i = 0; i < 42; i++) {
        snprintf(key, sizeof(key), "%s%d", i % 3 ? "young/" : "old/", i / 3 + (i % 3 == 2 ? 14 : 0));
        ok(put_object(unit, key, "\"1\"", MEGABYTE) == OK);
    }
    ok(weight(unit).pinned > 42 * MEGABYTE);
}

static void await_turns(struct unit_store *unit, unsigned count)
{
    uint64_t until = turns(volume_of(unit)) + count;
    while (turns(volume_of(unit)) < until)
        usleep(10000);
}

/* Waits until the cache does not shrink, and then for a few more turns. Returns false after a
 * minute. */
static bool has_shrunk(struct unit_store *unit)
{
    struct volume *volume = volume_of(unit);
    struct store_status status;
    bool exceeded = true;
    for (int i = 0; i < 6000 && exceeded; i++) {
        usleep(10000);
        store_status(unit->store, &status);
        exceeded = status.used_bytes > atomic_load(&volume->space.size_bytes) ||
                   status.free_bytes < status.reserve_bytes;
    }
    uint64_t copied = metric_read(M_STORE_COPIED);
    await_turns(unit, 6);
    return !exceeded && metric_read(M_STORE_COPIED) == copied;
}

/* Otherwise the recycler would copy pinned records from one extent to the other without end. */
TEST(a_size_that_falls_below_the_pinned_bytes_unpins_the_youngest)
{
    struct unit_store unit = open_with(80);
    put_mixed(&unit);
    uint64_t lost = metric_read(M_PINS_LOST), copied = metric_read(M_STORE_COPIED);
    atomic_store(&volume_of(&unit)->space.size_bytes, 34 * MIB);
    ok(has_shrunk(&unit));
    ok(count_many(&unit, "old/", 14, MEGABYTE) == 14 && metric_read(M_PINS_LOST) == lost);
    ok(metric_read(M_STORE_COPIED) - copied < 34 * MIB);
    struct pin_bytes bytes = weight(&unit);
    ok(bytes.budget == 18 * MIB && bytes.pinned <= bytes.budget && bytes.pinned > 14 * MEGABYTE);
    unit_close(&unit);
}

/* ---- copies that regain space ---- */

#define MANY 400

/* Puts objects whose names `name_key` writes, many of them at once. */
static void put_named(struct unit_store *unit, int count, uint64_t size,
                      void (*name_key)(int number, char key[1000]))
{
    char (*keys)[1000] = must_alloc(MANY * sizeof(*keys));
    struct unit_put *puts = must_alloc(MANY * sizeof(*puts));
    int many = (int)MIN((uint64_t)MANY, 8 * MIB / size);
    for (int i = 0; i < count; i += many) {
        int end = MIN(count - i, many);
        for (int k = 0; k < end; k++) {
            name_key(i + k, keys[k]);
            puts[k] = put_begin(unit, keys[k], "\"1\"", size);
        }
        for (int k = 0; k < end; k++)
            ok(put_wait(&puts[k]) == OK);
    }
    free(puts);
    free(keys);
}

static struct unit_store open_small_extents(uint64_t size_bytes)
{
    struct unit_store unit;
    struct store_options options = options_of(size_bytes, 2 * MIB);
    options.pin_percent = 80;
    ok(unit_try(&unit, options) == OK);
    return unit;
}

#define OLD_SIZE 200000u              /* ten of them fill an extent */
#define EXTENTS 60

/* Of the first two extents, one object is pinned, and of each other one, seven. */
static void mixed_key(int number, char key[1000])
{
    bool old = number % 10 < (number < 20 ? 1 : 7);
    snprintf(key, 1000, "%s%d", old ? "old/" : "young/", number);
}

/* All that is pinned fits. The copies of the first two extents are small, and a copy of these would
 * regain nothing. */
TEST(a_smaller_cache_copies_the_extents_whose_copies_regain_most)
{
    struct unit_store unit = open_small_extents(160 * MIB);
    char key[1000];
    int left = 0;
    pin(&unit, "old/", true);
    put_named(&unit, 10 * EXTENTS, OLD_SIZE, mixed_key);
    uint64_t pinned = weight(&unit).pinned, copied = metric_read(M_STORE_COPIED);
    uint64_t lost = metric_read(M_PINS_LOST);
    ok(pinned > (2 + 7 * (EXTENTS - 2)) * OLD_SIZE);
    atomic_store(&volume_of(&unit)->space.size_bytes, 100 * MIB);
    ok(weight(&unit).budget > pinned);
    ok(has_shrunk(&unit));
    ok(weight(&unit).pinned == pinned && metric_read(M_PINS_LOST) == lost);
    ok(metric_read(M_STORE_COPIED) - copied < 60 * MIB);
    for (int i = 0; i < 10 * EXTENTS; i++) {
        mixed_key(i, key);
        left += has_object(&unit, key, "\"1\"", OLD_SIZE);
    }
    ok(left >= 2 + 7 * (EXTENTS - 2));
    unit_close(&unit);
}

/* A name of 900 bytes lies in a record twice, and counts in no weight. */
static void long_key(int number, char key[1000])
{
    memset(key, 'k', 900);
    snprintf(key + 900, 100, "%d", number);
}

/* The budget has room for the weight of these records, and the extents do not. */
TEST(copies_that_regain_nothing_come_to_an_end)
{
    struct unit_store unit = open_small_extents(32 * MIB);
    pin(&unit, "", true);
    put_named(&unit, 11000, 100, long_key);
    struct store_status status;
    store_status(unit.store, &status);
    ok(status.used_bytes > 22 * MIB);
    uint64_t written = metric_read(M_STORE_APPENDED), lost = metric_read(M_PINS_LOST);
    atomic_store(&volume_of(&unit)->space.size_bytes, 20 * MIB);
    ok(weight(&unit).budget > weight(&unit).pinned);
    ok(has_shrunk(&unit));
    ok(metric_read(M_STORE_APPENDED) - written < 16 * MIB && metric_read(M_PINS_LOST) > lost);
    unit_close(&unit);
}

/* ---- a disk that other files fill ---- */

/* Takes space until this much is free. The file has no name. Returns its descriptor, or -1. */
static int take_space(uint64_t left)
{
    struct store_space space;
    int fd = open(unit_folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || store_space(unit_folder, &space) != OK || space.free_bytes < left ||
        posix_fallocate(fd, 0, (off_t)(space.free_bytes - left)) != 0)
        return -1;
    return fd;
}

/* Another program leaves 10 MiB less than the reserve. */
static int play_squeezed(void)
{
    struct unit_store unit;
    struct store_options options = options_of(SIZE, EXTENT);
    options.pin_percent = 80;
    options.reserve_bytes = 64 * MIB;
    if (unit_try(&unit, options) != OK)
        return 1;
    put_mixed(&unit);
    uint64_t lost = metric_read(M_PINS_LOST), copied = metric_read(M_STORE_COPIED);
    int fd = take_space(54 * MIB);
    if (fd < 0)
        return 2;
    await_turns(&unit, 3);    /* the committer has measured the free space */
    if (!has_shrunk(&unit))
        return 3;
    if (count_many(&unit, "old/", 14, MEGABYTE) != 14 || metric_read(M_PINS_LOST) != lost)
        return 4;
    if (metric_read(M_STORE_COPIED) - copied >= 34 * MIB)
        return 5;
    if (!serving(&unit) || count_many(&unit, "young/", 28, MEGABYTE) < 4)
        return 6;
    close(fd);
    unit_close(&unit);
    return 0;
}

TEST(other_files_that_take_the_reserve_unpin_the_youngest_and_nothing_is_copied_without_end)
{
    if (!on_disk_of("size=176m", play_squeezed))
        skip();
}

/* ---- a full disk before the first pass ---- */

/* The commit of a removal finds no room, so extents go. The test holds up the recycler, and so the
 * pass. Before, `change` is called. Returns the number of extents that went. */
static uint64_t evict_before_pass(struct unit_store *unit, void (*change)(struct volume *volume))
{
    struct volume *volume = volume_of(unit);
    uint64_t evicted = atomic_load(&volume->recycler.recycled);
    pthread_mutex_lock(&volume->recycler.lock);
    change(volume);
    fail_next(FAIL_INDEX_COMMIT, 0, 2, ENOSPC);
    ok(remove_object(unit, "keep/gone") == OK && serving(unit));
    evicted = atomic_load(&volume->recycler.recycled) - evicted;
    pthread_mutex_unlock(&volume->recycler.lock);
    return evicted;
}

TEST(extents_whose_records_were_pinned_go_last_before_the_first_pass)
{
    struct unit_store unit = open_with(50);
    pin(&unit, "keep/", true);
    put_many(&unit, "keep/", 8, MEGABYTE);
    put_many(&unit, "other/", 30, MEGABYTE);
    uint64_t lost = metric_read(M_PINS_LOST);
    ok(evict_before_pass(&unit, forget_pins) > 0);
    ok(count_many(&unit, "keep/", 8, MEGABYTE) == 8 && metric_read(M_PINS_LOST) == lost);
    ok(count_many(&unit, "other/", 30, MEGABYTE) < 30);
    unit_close(&unit);
}

TEST(records_that_were_pinned_and_go_before_the_first_pass_are_counted)
{
    struct unit_store unit = open_with(80);
    pin(&unit, "", true);
    put_many(&unit, "keep/", 38, MEGABYTE);
    uint64_t lost = metric_read(M_PINS_LOST);
    ok(evict_before_pass(&unit, forget_pins) > 0);
    int left = count_many(&unit, "keep/", 38, MEGABYTE);
    lost = metric_read(M_PINS_LOST) - lost;
    ok(left < 38 && lost >= (uint64_t)(38 - left) * MEGABYTE);
    ok(lost < (uint64_t)(38 - left + 1) * MEGABYTE);
    ok(store_folder_pins_lost(unit.store, 0) == lost);
    unit_close(&unit);
}

/* Changes only the table: the records stay pinned until the next pass. */
static void unpin_table(struct volume *volume)
{
    bool was;
    ok(pins_set(volume->options.pins, S("http://origin\0bucket\0"), false, &was) == OK && was);
}

TEST(records_that_nobody_pins_any_more_are_not_counted_if_they_go_before_the_pass)
{
    struct unit_store unit = open_with(80);
    pin(&unit, "", true);
    put_many(&unit, "keep/", 38, MEGABYTE);
    uint64_t lost = metric_read(M_PINS_LOST);
    ok(evict_before_pass(&unit, unpin_table) > 0);
    ok(count_many(&unit, "keep/", 38, MEGABYTE) < 38 && metric_read(M_PINS_LOST) == lost);
    unit_close(&unit);
}

/* A folder whose index is built anew. Its opening finds no room for the file of purges. `unpinned`:
 * the prefix is unpinned before, but no pass has seen this. */
/* Opens the folder without its index, and lets the write of the purges fail for lack of space. A purge
 * that was swept and dropped from the file before the stop needs no write: then there is no failure. */
static struct unit_store reopen_without_room(struct unit_store *unit, bool unpinned)
{
    struct purge_result result;
    slice name = S("http://origin\0bucket\0gone\0");
    ok(store_purge(unit->store, &name, 1, &result) == OK);
    soon(metric_read(M_STORE_BANS) == 0);
    soon(!atomic_load(&volume_of(unit)->bans->dirty));
    if (unpinned)
        unpin_table(volume_of(unit));
    soon(pinned_has_written(volume_of(unit), pins_version(unit->store->pins)));
    unit_close(unit);
    remove_tree(in_folder("index"));
    unlink(in_folder("clean"));
    fail_next(FAIL_BANS_WRITE, 0, 1, ENOSPC);
    return open_with(80);
}

static struct unit_store open_without_room(const char *prefix, bool unpinned)
{
    struct unit_store unit = open_with(80);
    pin(&unit, prefix, true);
    put_many(&unit, "keep/", 8, MEGABYTE);
    put_many(&unit, "other/", 12, MEGABYTE);
    bool failed = false;
    for (int i = 0; i < 5 && !failed; i++) {
        unit = reopen_without_room(&unit, unpinned && i == 0);
        ok(serving(&unit));
        failed = atomic_load(&unit_fails[FAIL_BANS_WRITE].times) == 0;
    }
    ok(failed);
    return unit;
}

TEST(an_opening_without_room_gives_no_pinned_records_if_there_are_others)
{
    uint64_t lost = metric_read(M_PINS_LOST);
    struct unit_store unit = open_without_room("keep/", false);
    ok(count_many(&unit, "keep/", 8, MEGABYTE) == 8 && metric_read(M_PINS_LOST) == lost);
    ok(count_many(&unit, "other/", 12, MEGABYTE) < 12);
    unit_close(&unit);
}

TEST(an_opening_without_room_counts_the_pinned_records_that_it_gives)
{
    uint64_t lost = metric_read(M_PINS_LOST);
    struct unit_store unit = open_without_room("", false);
    int left = count_many(&unit, "keep/", 8, MEGABYTE) + count_many(&unit, "other/", 12, MEGABYTE);
    ok(left < 20 && metric_read(M_PINS_LOST) - lost >= (uint64_t)(20 - left) * MEGABYTE);
    ok(store_folder_pins_lost(unit.store, 0) == metric_read(M_PINS_LOST) - lost);
    unit_close(&unit);
}

TEST(an_opening_without_room_counts_no_records_that_nobody_pins_any_more)
{
    uint64_t lost = metric_read(M_PINS_LOST);
    struct unit_store unit = open_without_room("", true);
    int left = count_many(&unit, "keep/", 8, MEGABYTE) + count_many(&unit, "other/", 12, MEGABYTE);
    ok(left < 20 && metric_read(M_PINS_LOST) == lost);
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(a_record_that_comes_while_a_pass_runs_stays_pinned_and_takes_no_room_of_others),
          STORE_TEST(records_lose_no_pin_if_names_were_unknown_at_the_first_reading_only),
          STORE_TEST(records_whose_folder_is_out_take_their_part_of_the_budget_after_a_restart),
          STORE_TEST(a_pin_takes_the_room_that_an_unpin_leaves_while_a_folder_is_out),
          STORE_TEST(a_pin_takes_the_room_that_an_unpin_leaves_in_a_folder_that_was_just_opened),
          STORE_TEST(a_size_that_falls_below_the_pinned_bytes_unpins_the_youngest),
          STORE_TEST(a_smaller_cache_copies_the_extents_whose_copies_regain_most),
          STORE_TEST(copies_that_regain_nothing_come_to_an_end),
          STORE_TEST(other_files_that_take_the_reserve_unpin_the_youngest_and_nothing_is_copied_without_end),
          STORE_TEST(extents_whose_records_were_pinned_go_last_before_the_first_pass),
          STORE_TEST(records_that_were_pinned_and_go_before_the_first_pass_are_counted),
          STORE_TEST(records_that_nobody_pins_any_more_are_not_counted_if_they_go_before_the_pass),
          STORE_TEST(an_opening_without_room_gives_no_pinned_records_if_there_are_others),
          STORE_TEST(an_opening_without_room_counts_the_pinned_records_that_it_gives),
          STORE_TEST(an_opening_without_room_counts_no_records_that_nobody_pins_any_more))
