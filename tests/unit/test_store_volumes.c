/* test_store_volumes.c - a store of several folders. SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include "store/inside.h"

#define FOLDERS 3u

static char paths[FOLDERS][80];
static struct store_folder folders[FOLDERS];

/* A letter for each folder. */
static enum err try_these(struct unit_store *unit, const char *names, uint64_t size, slice *whys)
{
    struct store_options options = options_of(0, 4 * MIB);
    size_t count = strlen(names);
    for (size_t i = 0; i < count; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%c", unit_folder, names[i]);
        folders[i] = (struct store_folder){ paths[i], size };
    }
    options.folders = folders;
    options.folder_count = count;
    options.queue_bytes_max = 512 * MIB;    /* whole objects wait here */
    *unit = (struct unit_store){ 0 };
    enum err e = store_open(&options, &unit->keep, &unit->store, whys);
    if (e)
        return e;
    unit->box = mailbox_new();
    unit->io = store_io_new(unit->store, unit->box);
    return OK;
}

static struct unit_store open_these(const char *names)
{
    struct unit_store unit;
    slice whys[FOLDERS];
    ok(try_these(&unit, names, 128 * MIB, whys) == OK);
    for (size_t i = 0; i < strlen(names); i++)
        same(whys[i], S(""));
    return unit;
}

static struct unit_store open_three(void)
{
    return open_these("abc");
}

static struct object_id unit_id(struct unit_store *unit, const char *key)
{
    struct object_name name = name_of(key);
    struct object_id id;
    store_object_id(unit->store, &name, &id);
    return id;
}

static size_t home_of(struct unit_store *unit, const char *key, uint32_t stripe)
{
    struct object_id id = unit_id(unit, key);
    return route_home(unit->store->installation.route, store_folder_count(unit->store), &id, stripe);
}

/* Sets `key` to one whose stripes 0 and 1 have these homes. */
static const char *key_at(struct unit_store *unit, size_t home, size_t next)
{
    static char keys[8][32];
    static unsigned turn;
    char *key = keys[turn++ % countof(keys)];
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(key, sizeof(keys[0]), "key%u", i);
        if (home_of(unit, key, 0) == home && home_of(unit, key, 1) == next)
            return key;
    }
    fail();
    return NULL;
}

static bool serves(struct unit_store *unit, size_t folder)
{
    struct store_status status;
    store_folder_status(unit->store, folder, &status);
    return status.serving;
}

/* Waits until the folder has gone out of service, and all figures say so. */
static void wait_out(struct unit_store *unit, size_t folder)
{
    struct store_status status = { 0 };
    for (int i = 0; i < 6000 && !status.faults; i++) {
        usleep(10000);
        store_folder_status(unit->store, folder, &status);
    }
    ok(status.faults == 1 && !status.serving);
}

#define SIZE (64 * MIB + 3 * MIB + 5)
#define UNITS (SIZE / UNIT_BYTES + 1)

TEST(an_object_of_two_stripes_lies_in_two_folders_and_is_read_as_one)
{
    struct unit_store unit = open_three();
    char key[32];
    snprintf(key, sizeof(key), "%s", key_at(&unit, 0, 2));
    ok(put_object(&unit, key, "\"1\"", SIZE) == OK);
    struct entry entry;
    struct object_id id = unit_id(&unit, key);
    ok(find_unit(unit.store->volumes[0]->index, &id, STRIPE_UNITS - 1, &entry) == OK);
    ok(find_unit(unit.store->volumes[0]->index, &id, STRIPE_UNITS, &entry) != OK);
    ok(find_unit(unit.store->volumes[2]->index, &id, STRIPE_UNITS, &entry) == OK);
    unit_close(&unit);
    unit = open_three();    /* the same folders have it after a restart */
    ok(has_object(&unit, key, "\"1\"", SIZE));
    ok(read_range(&unit, key, 64 * MIB - 1000, 64 * MIB + 1000) == 2000);
    struct metadata *metadata = get_metadata(&unit, key);
    ok(read_bytes(&unit, metadata, key, 64 * MIB - 1000, 64 * MIB + 1000) == 1000);
    ok(store_has_units(unit.store, metadata, 0, UNITS, RECORDS_ALL) == UNITS);
    ok(store_has_units(unit.store, metadata, 500, 20, RECORDS_ALL) == 20);
    ok(store_has_units(unit.store, metadata, 0, 2 * UNITS, RECORDS_ALL) == UNITS);
    ok(store_next_unit(unit.store, metadata, 511, 10, RECORDS_ALL) == 511);
    ok(store_next_unit(unit.store, metadata, 512, 10, RECORDS_ALL) == 512);
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(a_search_among_units_of_another_version_ends_after_so_many_look_ups)
{
    struct unit_store unit = open_three();
    char key[32];
    snprintf(key, sizeof(key), "%s", key_at(&unit, 0, 2));
    ok(put_object(&unit, key, "\"1\"", SIZE) == OK);
    struct metadata *other = make_metadata(&unit, key, "\"2\"", SIZE);
    struct volume *const *volumes = unit.store->volumes;
    uint32_t looks = 600;
    ok(volume_next_unit(volumes[0], other, 0, STRIPE_UNITS, RECORDS_ALL, &looks) == STRIPE_UNITS);
    ok(looks == 600 - STRIPE_UNITS);
    looks = 10;
    ok(volume_next_unit(volumes[0], other, 0, STRIPE_UNITS, RECORDS_ALL, &looks) == 10);
    ok(looks == 0);
    ok(volume_next_unit(volumes[2], other, STRIPE_UNITS, 20, RECORDS_ALL, &looks) ==
       STRIPE_UNITS);
    /* fewer than its limit */
    ok(store_next_unit(unit.store, other, 0, UNITS, RECORDS_ALL) == UNITS);
    metadata_unref(&other);
    unit_close(&unit);
}

/* An append of [start, start + 1 MiB) of an object of SIZE. */
static enum err append_one(struct unit_store *unit, const char *key, uint64_t start,
                           bool with_metadata, bool refuse)
{
    struct metadata *metadata = make_metadata(unit, key, "\"1\"", SIZE);
    uint8_t *bytes = must_alloc(MIB);
    struct unit_append append = { .refuse = refuse };
    object_fill(key, "\"1\"", start, bytes, MIB);
    append_begin(unit, &append, metadata, (uint32_t)(start / UNIT_BYTES),
                 (slice){ (char *)bytes, MIB }, with_metadata);
    enum err e = append_wait(&append);
    metadata_unref(&metadata);
    free(bytes);
    return e;
}

TEST(metadata_that_comes_with_a_later_stripe_goes_to_its_own_folder)
{
    struct unit_store unit = open_three();
    const char *key = key_at(&unit, 1, 2), *refused = key_at(&unit, 0, 1);
    ok(append_one(&unit, key, 65 * MIB, true, false) == OK);
    ok(read_range(&unit, key, 65 * MIB, 67 * MIB) == MIB);
    struct metadata *metadata = get_metadata(&unit, key);
    ok(store_has_units(unit.store, metadata, 520, 20, RECORDS_ALL) == 8);
    ok(store_next_unit(unit.store, metadata, 0, UNITS, RECORDS_ALL) == 520);
    ok(store_next_unit(unit.store, metadata, 528, 3, RECORDS_ALL) == 531);
    metadata_unref(&metadata);
    ok(append_one(&unit, refused, 65 * MIB, true, true) == ERR_CHANGED);
    ok(!get_metadata(&unit, refused));
    unit_close(&unit);
}

/* Nothing is published of an append when its folder is out, and done() does not come twice. */
TEST(an_append_of_two_folders_fails_if_one_of_them_is_out)
{
    struct unit_store unit = open_three();
    const char *key = key_at(&unit, 1, 2);
    char moved[100];
    snprintf(moved, sizeof(moved), "%s-gone", paths[1]);
    ok(rename(paths[1], moved) == 0);
    int file = open(paths[1], O_CREAT | O_EXCL | O_WRONLY, 0600);    /* no folder is made there */
    ok(file >= 0 && close(file) == 0);
    wait_out(&unit, 1);
    ok(!serves(&unit, 1) && serves(&unit, 0) && serves(&unit, 2));
    ok(append_one(&unit, key, 65 * MIB, true, false) == ERR_IO);
    ok(!get_metadata(&unit, key));
    ok(unlink(paths[1]) == 0 && rename(moved, paths[1]) == 0);
    unit_close(&unit);
}

#define REMOVED 60u

static enum err remove_all(struct unit_store *unit, uint64_t *ret_ms)
{
    struct object_id ids[REMOVED];
    char key[32];
    for (unsigned i = 0; i < REMOVED; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        ids[i] = unit_id(unit, key);
    }
    struct unit_removal mine = { .removal = { .ids = ids, .count = REMOVED,
                                              .done = removal_done } };
    sem_init(&mine.ended, 0, 0);
    uint64_t start = mono_ms();
    store_remove(unit->store, &mine.removal);
    while (sem_wait(&mine.ended) != 0)
        ;
    *ret_ms = mono_ms() - start;
    ok(sem_trywait(&mine.ended) != 0);    /* once */
    sem_destroy(&mine.ended);
    return mine.err;
}

static void put_all(struct unit_store *unit)
{
    char key[32];
    struct unit_put puts[REMOVED];
    for (unsigned i = 0; i < REMOVED; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        puts[i] = put_begin(unit, key, "\"1\"", 1000);
    }
    for (unsigned i = 0; i < REMOVED; i++)
        ok(put_wait(&puts[i]) == OK);
}

static unsigned count_all(struct unit_store *unit, size_t home, unsigned *ret_of)
{
    char key[32];
    unsigned found = 0;
    *ret_of = 0;
    for (unsigned i = 0; i < REMOVED; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        if (home_of(unit, key, 0) != home)
            continue;
        ++*ret_of;
        found += has_object(unit, key, "\"1\"", 1000);
    }
    return found;
}

TEST(a_removal_of_many_is_answered_once_when_all_folders_have_committed)
{
    struct unit_store unit = open_three();
    unsigned of;
    uint64_t ms;
    put_all(&unit);
    for (size_t home = 0; home < FOLDERS; home++)
        ok(count_all(&unit, home, &of) == of && of > 5);
    ok(remove_all(&unit, &ms) == OK);
    for (size_t home = 0; home < FOLDERS; home++)
        ok(count_all(&unit, home, &of) == 0);
    unit_close(&unit);
    unit = open_three();
    for (size_t home = 0; home < FOLDERS; home++)
        ok(count_all(&unit, home, &of) == 0);
    unit_close(&unit);
}

/* The hung one serves nothing from then on, and comes back unproved. The others do not wait. */
TEST(a_folder_that_hangs_answers_for_its_own_keys_alone)
{
    struct unit_store unit = open_three();
    struct metadata *metadata = make_metadata(&unit, key_at(&unit, 1, 0), "\"1\"", 4);
    sem_t stuck_until;
    unsigned of;
    uint64_t ms;
    struct unit_append append = { .hang = &stuck_until };
    sem_init(&stuck_until, 0, 0);
    put_all(&unit);
    uint64_t start = mono_ms();
    append_begin(&unit, &append, metadata, 0, S("wxyz"), true);
    ok(commit_has_taken(&unit, 1));
    ok(remove_object(&unit, key_at(&unit, 0, 0)) == OK && serves(&unit, 1));    /* it did not wait for that one */
    ok(remove_all(&unit, &ms) == ERR_IO && mono_ms() - start > 1000);
    ok(!serves(&unit, 1) && serves(&unit, 0) && serves(&unit, 2));
    for (size_t home = 0; home < FOLDERS; home++)
        ok(count_all(&unit, home, &of) == 0);
    ok(put_object(&unit, key_at(&unit, 2, 2), "\"1\"", 1000) == OK);
    sem_post(&stuck_until);
    ok(append_wait(&append) == OK);
    for (int i = 0; i < 6000 && !serves(&unit, 1); i++)
        usleep(10000);
    struct metadata *other = get_metadata(&unit, key_at(&unit, 1, 0));
    ok(!other || atomic_load(&other->unproved));
    metadata_unref(&other);
    metadata_unref(&metadata);
    unit_close(&unit);
}

#define STOPPED_MS 4000u              /* more than the process may take for a commit */

/* A removal comes right after the process was stopped in the middle of a commit. */
static int play_stopped(void)
{
    struct unit_store unit;
    struct store_options options = options_of(64 * MIB, 4 * MIB);
    options.commit_ms_max = STOPPED_MS - 500;
    sem_t hang, held;
    struct unit_append append = { .hang = &hang, .held = &held };
    struct unit_removal removal;
    sem_init(&hang, 0, 0);
    sem_init(&held, 0, 0);
    if (unit_try(&unit, options) != OK || put_object(&unit, "gone", "\"1\"", 1000) != OK)
        return 1;
    struct metadata *metadata = make_metadata(&unit, "k", "\"1\"", 4);
    append_begin(&unit, &append, metadata, 0, S("wxyz"), true);
    while (sem_wait(&held) != 0)
        ;
    uint64_t began_ms = mono_ms();
    raise(SIGSTOP);
    if (mono_ms() - began_ms < STOPPED_MS)
        return 2;
    removal_begin(&unit, &removal, "gone");
    while (!serving(&unit) && sem_trywait(&removal.ended) != 0)
        usleep(1000);    /* the watch finds out that the process was stopped, or gives up */
    if (!serving(&unit))
        _exit(3);
    sem_post(&hang);
    if (removal_wait(&removal) != OK || append_wait(&append) != OK || faults(&unit) ||
        knows(&unit, "gone"))
        _exit(4);    /* the committer may still use the stack */
    metadata_unref(&metadata);
    unit_close(&unit);
    return 0;
}

TEST(a_stop_of_the_whole_process_is_no_hanging_disk)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(play_stopped());
    ok(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    usleep((STOPPED_MS + 100) * 1000);
    ok(kill(child, SIGCONT) == 0);
    int step = step_of(child);
    if (step)
        fail_msg("step %d", step);
}

static bool is_restated(struct unit_store *unit, const char *key)
{
    struct metadata *metadata = get_metadata(unit, key);
    ok(metadata);
    bool restated = metadata->restated;
    metadata_unref(&metadata);
    return restated;
}

TEST(a_restated_bucket_is_restated_in_all_folders)
{
    struct unit_store unit = open_three();
    struct object_name name = name_of("");
    struct object_id id;
    char keys[FOLDERS][32];
    for (size_t i = 0; i < FOLDERS; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%s", key_at(&unit, i, 0));
        ok(put_object(&unit, keys[i], "\"1\"", 10) == OK && !is_restated(&unit, keys[i]));
    }
    store_object_id(unit.store, &name, &id);
    struct unit_removal mine = { .removal = { .ids = &id, .count = 1, .done = removal_done } };
    sem_init(&mine.ended, 0, 0);
    store_restate(unit.store, &mine.removal);
    while (sem_wait(&mine.ended) != 0)
        ;
    ok(mine.err == OK && sem_trywait(&mine.ended) != 0);
    sem_destroy(&mine.ended);
    unit_close(&unit);
    unit = open_three();
    for (size_t i = 0; i < FOLDERS; i++)
        ok(is_restated(&unit, keys[i]));
    unit_close(&unit);
}

TEST(figures_are_sums_and_a_folder_that_is_lost_is_told)
{
    struct unit_store unit = open_three();
    struct store_status sum, one;
    uint64_t used = 0, entries = 0;
    char moved[100];
    put_all(&unit);
    store_status(unit.store, &sum);
    for (size_t i = 0; i < FOLDERS; i++) {
        store_folder_status(unit.store, i, &one);
        ok(one.serving && one.entries > 0 && one.size_bytes == 128 * MIB);
        same(slice_of(one.folder), slice_of(paths[i]));
        used += one.used_bytes;
        entries += one.entries;
    }
    ok(sum.serving && sum.size_bytes == 3 * 128 * MIB && sum.used_bytes == used);
    ok(sum.entries == entries && entries == REMOVED && *sum.why == '\0');
    soon(metric_read(M_STORE_SERVING) == FOLDERS && metric_read(M_STORE_ENTRIES) == REMOVED);
    soon(metric_read(M_STORE_BYTES) == used);
    snprintf(moved, sizeof(moved), "%s-gone", paths[2]);
    ok(rename(paths[2], moved) == 0);
    wait_out(&unit, 2);
    store_status(unit.store, &sum);
    ok(sum.serving && *sum.why && sum.faults == 1 && store_capacity(unit.store) > 0);
    same(slice_of(sum.folder), slice_of(paths[2]));
    ok(metric_read(M_STORE_SERVING) == FOLDERS - 1);
    struct volume *out = unit.store->volumes[2];    /* the bytes of its extents are not known now */
    int file = open(paths[2], O_CREAT | O_WRONLY, 0600);
    atomic_store(&out->space.room_bytes, 12345);
    atomic_store(&out->space.free_bytes, 0);
    soon(atomic_load(&out->space.free_bytes));
    ok(atomic_load(&out->space.room_bytes) == 12345);
    ok(close(file) == 0 && unlink(paths[2]) == 0);
    unsigned of;
    ok(count_all(&unit, 0, &of) == of && count_all(&unit, 2, &of) == 0);
    ok(rename(moved, paths[2]) == 0);
    for (int i = 0; i < 6000 && !serves(&unit, 2); i++)
        usleep(10000);
    ok(count_all(&unit, 2, &of) == of);
    unit_close(&unit);
    ok(metric_read(M_STORE_SERVING) == 0 && metric_read(M_STORE_BYTES) == 0);
}

/* Puts objects until the quota of their bucket is used up, and some more. */
static void put_beyond(struct unit_store *unit, const char *prefix, uint64_t quota)
{
    for (unsigned i = 0; i < 2 * quota / MIB; i++) {
        char key[32];
        snprintf(key, sizeof(key), "%s%u", prefix, i);
        enum err e = put_object(unit, key, "\"1\"", MIB);
        ok(e == OK || e == ERR_FULL || e == ERR_IO);
    }
}

static uint64_t bytes_of_bucket(struct unit_store *unit)
{
    struct tallies *tallies = unit->store->installation.tallies;
    struct metadata *metadata = make_metadata(unit, "k", "\"1\"", 0);
    struct tally_change sum = tallies_sum(tallies, tallies_of_name(tallies, metadata->name));
    metadata_unref(&metadata);
    return (uint64_t)sum.bytes;
}

TEST(a_quota_holds_while_a_folder_goes_out_of_service_and_comes_back)
{
    const struct store_limits limit = { .bucket = S("bucket"), .quota_bytes = 24 * MIB };
    static struct bucket_holds holds[METRIC_BUCKETS_MAX];
    struct unit_store unit = open_three();
    char moved[100];
    store_set_limits(unit.store, &limit, 1);
    put_beyond(&unit, "a", 24 * MIB);
    ok(bytes_of_bucket(&unit) == 24 * MIB);
    snprintf(moved, sizeof(moved), "%s-gone", paths[2]);
    int file = open(moved, O_CREAT | O_WRONLY, 0600);    /* no folder can be made in its place */
    ok(file >= 0 && close(file) == 0);
    ok(renameat2(AT_FDCWD, paths[2], AT_FDCWD, moved, RENAME_EXCHANGE) == 0);
    wait_out(&unit, 2);
    uint64_t here = bytes_of_bucket(&unit);
    ok(here > 0 && here < 24 * MIB);
    put_beyond(&unit, "b", 24 * MIB);
    ok(bytes_of_bucket(&unit) == here);
    store_bucket_holds(unit.store, holds);
    ok(holds[metric_bucket(S("bucket"))].bytes == here);
    ok(renameat2(AT_FDCWD, paths[2], AT_FDCWD, moved, RENAME_EXCHANGE) == 0);
    for (int i = 0; i < 6000 && !serves(&unit, 2); i++)
        usleep(10000);
    put_beyond(&unit, "c", 24 * MIB);
    soon(atomic_load(&unit.store->volumes[2]->service.counted));
    put_beyond(&unit, "d", 24 * MIB);
    ok(bytes_of_bucket(&unit) == 24 * MIB);
    unit_close(&unit);
}

/* ---- lists of volumes ---- */

static void wait_list(struct unit_store *unit)
{
    for (size_t i = 0; i < store_folder_count(unit->store); i++)
        for (int n = 0; n < 6000 && atomic_load(&unit->store->volumes[i]->service.open); n++) {
            struct volume *volume = unit->store->volumes[i];
            pthread_mutex_lock(&volume->queue.lock);
            bool active = volume->upkeep.moved.active;
            pthread_mutex_unlock(&volume->queue.lock);
            if (!active)
                break;
            usleep(10000);
        }
}

static unsigned count_here(struct unit_store *unit, bool *homes_agree)
{
    char key[32];
    unsigned found = 0;
    *homes_agree = true;
    for (unsigned i = 0; i < REMOVED; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        struct metadata *metadata = get_metadata(unit, key);
        found += metadata != NULL;
        metadata_unref(&metadata);
        struct object_id id = unit_id(unit, key);
        for (size_t k = 0; k < store_folder_count(unit->store); k++) {
            struct entry entry;
            bool there = find_unit(unit->store->volumes[k]->index, &id, 0, &entry) == OK;
            *homes_agree = *homes_agree && (!there || k == home_of(unit, key, 0));
        }
    }
    return found;
}

TEST(folders_may_change_places_and_paths)
{
    struct unit_store unit = open_three();
    bool agree;
    char from[100], to[100];
    put_all(&unit);
    unit_close(&unit);
    unit = open_these("cab");
    ok(count_here(&unit, &agree) == REMOVED && agree);
    unit_close(&unit);
    snprintf(from, sizeof(from), "%s/b", unit_folder);
    snprintf(to, sizeof(to), "%s/x", unit_folder);
    ok(rename(from, to) == 0);
    unit = open_these("axc");
    ok(count_here(&unit, &agree) == REMOVED && agree);
    unit_close(&unit);
}

/* The number of volumes in the folder's list on disk. */
static uint32_t listed(const char *path)
{
    struct format format;
    const char *why;
    return folder_peek(path, &format, &why) == OK ? format.volume_count : 0;
}

TEST(an_added_folder_costs_its_own_share_alone_and_so_does_one_that_is_removed)
{
    struct unit_store unit = open_these("ab");
    bool agree;
    put_all(&unit);
    unit_close(&unit);
    unit = open_three();
    wait_list(&unit);
    unsigned kept = count_here(&unit, &agree), moved = 0;
    char key[32];
    for (unsigned i = 0; i < REMOVED; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        moved += home_of(&unit, key, 0) == 2;
    }
    ok(agree && moved > 0 && kept == REMOVED - moved);
    soon(listed(paths[0]) == 3);
    put_all(&unit);
    unit_close(&unit);
    unit = open_these("ab");
    wait_list(&unit);
    ok(count_here(&unit, &agree) == REMOVED - moved && agree);
    soon(listed(paths[0]) == 2);
    unit_close(&unit);
}

/* What moved away, was written there, and comes back with the list, is not found as it was. */
TEST(an_entry_that_moved_away_does_not_come_back)
{
    struct unit_store unit = open_these("ab");
    char key[32] = "";
    put_all(&unit);
    unit_close(&unit);
    unit = open_three();
    for (unsigned i = 0; !*key; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        if (home_of(&unit, key, 0) != 2)
            *key = '\0';
    }
    wait_list(&unit);
    ok(put_object(&unit, key, "\"2\"", 1000) == OK && has_object(&unit, key, "\"2\"", 1000));
    unit_close(&unit);
    unit = open_these("ab");
    ok(!get_metadata(&unit, key));
    unit_close(&unit);
}

TEST(a_folder_that_was_away_for_a_process_comes_back_with_doubt)
{
    struct unit_store unit = open_three();
    char keys[FOLDERS][32], moved[100];
    slice whys[FOLDERS];
    for (size_t i = 0; i < FOLDERS; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%s", key_at(&unit, i, 0));
        ok(put_object(&unit, keys[i], "\"1\"", 10) == OK);
    }
    unit_close(&unit);
    unit = open_three();
    for (size_t i = 0; i < FOLDERS; i++)
        ok(!is_unproved(&unit, keys[i]) && !is_restated(&unit, keys[i]));
    unit_close(&unit);
    snprintf(moved, sizeof(moved), "%s-gone", paths[1]);
    ok(rename(paths[1], moved) == 0);
    ok(symlink("nowhere/at/all", paths[1]) == 0);    /* nor can it be made */
    ok(try_these(&unit, "abc", 128 * MIB, whys) == OK && whys[1].len);
    ok(is_unproved(&unit, keys[0]) && !get_metadata(&unit, keys[1]));    /* see test_store_runs */
    for (size_t i = 0; i < FOLDERS; i += 2)
        ok(put_object(&unit, keys[i], "\"1\"", 10) == OK);
    unit_close(&unit);
    ok(unlink(paths[1]) == 0 && rename(moved, paths[1]) == 0);
    unit = open_three();
    ok(!is_unproved(&unit, keys[0]) && !is_unproved(&unit, keys[2]));
    ok(is_unproved(&unit, keys[1]) && is_restated(&unit, keys[1]));
    unit_close(&unit);
    unit = open_three();
    ok(!is_unproved(&unit, keys[0]));
    unit_close(&unit);
}

/* One that fails while the others serve, and of which the next process knows only by its serial. */
TEST(a_folder_that_failed_and_is_back_in_the_next_process_is_doubted)
{
    struct unit_store unit = open_three();
    char key[32], moved[100];
    snprintf(key, sizeof(key), "%s", key_at(&unit, 1, 0));
    ok(put_object(&unit, key, "\"1\"", 10) == OK);
    snprintf(moved, sizeof(moved), "%s-gone", paths[1]);
    ok(rename(paths[1], moved) == 0);
    ok(symlink("nowhere/at/all", paths[1]) == 0);
    wait_out(&unit, 1);
    ok(remove_object(&unit, key) == ERR_IO);
    struct format here, gone;
    const char *why;
    ok(folder_peek(moved, &gone, &why) == OK);
    soon(folder_peek(paths[0], &here, &why) == OK && here.serial > gone.serial);    /* the others write it */
    unit_close(&unit);
    ok(folder_peek(paths[0], &here, &why) == OK && folder_peek(moved, &gone, &why) == OK);
    ok(here.serial > gone.serial);
    ok(unlink(paths[1]) == 0 && rename(moved, paths[1]) == 0);
    unit = open_three();
    ok(is_unproved(&unit, key) && is_restated(&unit, key));
    unit_close(&unit);
}

/* A removal is committed in the folder that is made meanwhile: the old one does not know. */
TEST(a_folder_that_comes_back_in_place_of_a_younger_one_is_doubted)
{
    struct unit_store unit = open_three();
    char key[32], moved[100];
    snprintf(key, sizeof(key), "%s", key_at(&unit, 1, 0));
    ok(put_object(&unit, key, "\"1\"", 10) == OK && !is_restated(&unit, key));
    snprintf(moved, sizeof(moved), "%s-gone", paths[1]);
    ok(rename(paths[1], moved) == 0);
    wait_out(&unit, 1);
    for (int i = 0; i < 6000 && !serves(&unit, 1); i++)    /* a new folder */
        usleep(10000);
    ok(!get_metadata(&unit, key) && remove_object(&unit, key) == OK);
    /* at once: Penstock still writes to the new one */
    ok(renameat2(AT_FDCWD, paths[1], AT_FDCWD, moved, RENAME_EXCHANGE) == 0);
    struct metadata *metadata = NULL;
    for (int i = 0; i < 6000 && !metadata; i++) {
        usleep(10000);
        metadata = get_metadata(&unit, key);
    }
    ok(metadata && atomic_load(&metadata->unproved) && metadata->restated);
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(an_empty_folder_in_place_of_one_gets_its_share_and_nothing_else_moves)
{
    struct unit_store unit = open_three();
    bool agree;
    unsigned of;
    put_all(&unit);
    (void)count_all(&unit, 1, &of);
    unit_close(&unit);
    remove_tree(paths[1]);
    unit = open_three();
    ok(count_here(&unit, &agree) == REMOVED - of && agree);
    put_all(&unit);
    ok(count_here(&unit, &agree) == REMOVED && agree);
    unit_close(&unit);
}

/* They miss what is written meanwhile, so the next process that uses them doubts them. */
TEST(a_folder_of_another_installation_and_a_copy_stay_out)
{
    struct unit_store unit = open_these("x");
    slice whys[FOLDERS];
    bool agree;
    ok(put_object(&unit, "mine", "\"1\"", 10) == OK);
    unit_close(&unit);
    unit = open_these("x");
    ok(!is_unproved(&unit, "mine") && !is_restated(&unit, "mine"));
    unit_close(&unit);
    unit = open_these("ab");
    put_all(&unit);
    unit_close(&unit);
    ok(try_these(&unit, "abx", 128 * MIB, whys) == OK && !whys[0].len && whys[2].len);
    ok(slice_find(whys[2], S("another installation")) < whys[2].len);
    ok(count_here(&unit, &agree) == REMOVED && agree && !serves(&unit, 2));
    unit_close(&unit);
    char copy[200];
    snprintf(copy, sizeof(copy), "cp -r %s/a %s/y", unit_folder, unit_folder);
    ok(system(copy) == 0);
    ok(try_these(&unit, "aby", 128 * MIB, whys) == OK && whys[2].len);
    ok(slice_find(whys[2], S("copy of another")) < whys[2].len);
    ok(count_here(&unit, &agree) == REMOVED && agree && !serves(&unit, 2));
    unit_close(&unit);
    unit = open_these("x");
    ok(is_unproved(&unit, "mine") && is_restated(&unit, "mine"));
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(an_object_of_two_stripes_lies_in_two_folders_and_is_read_as_one),
          STORE_TEST(a_search_among_units_of_another_version_ends_after_so_many_look_ups),
          STORE_TEST(metadata_that_comes_with_a_later_stripe_goes_to_its_own_folder),
          STORE_TEST(an_append_of_two_folders_fails_if_one_of_them_is_out),
          STORE_TEST(a_removal_of_many_is_answered_once_when_all_folders_have_committed),
          STORE_TEST(a_folder_that_hangs_answers_for_its_own_keys_alone),
          STORE_TEST(a_stop_of_the_whole_process_is_no_hanging_disk),
          STORE_TEST(a_restated_bucket_is_restated_in_all_folders),
          STORE_TEST(figures_are_sums_and_a_folder_that_is_lost_is_told),
          STORE_TEST(a_quota_holds_while_a_folder_goes_out_of_service_and_comes_back),
          STORE_TEST(folders_may_change_places_and_paths),
          STORE_TEST(an_added_folder_costs_its_own_share_alone_and_so_does_one_that_is_removed),
          STORE_TEST(an_entry_that_moved_away_does_not_come_back),
          STORE_TEST(a_folder_that_was_away_for_a_process_comes_back_with_doubt),
          STORE_TEST(a_folder_that_failed_and_is_back_in_the_next_process_is_doubted),
          STORE_TEST(a_folder_that_comes_back_in_place_of_a_younger_one_is_doubted),
          STORE_TEST(an_empty_folder_in_place_of_one_gets_its_share_and_nothing_else_moves),
          STORE_TEST(a_folder_of_another_installation_and_a_copy_stay_out))
