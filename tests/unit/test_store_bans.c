/* test_store_bans.c - purges: what they hide at once, and delete later.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"
#include "testing_unit.h"

#include <signal.h>
#include <sys/resource.h>

#include "store/inside.h"
#include "store/pin.h"

#define BIG (5 * MIB + 7)

static char prefix_bytes[8][600];

/* The prefix of keys that begin with `key`, or of this one key. */
static slice prefix_of(const char *key, bool whole)
{
    static unsigned turn;
    struct arena keep = { 0 };
    char *to = prefix_bytes[turn++ % countof(prefix_bytes)];
    slice prefix = purge_prefix(&keep, S("http://origin"), S("bucket"), slice_of(key), whole);
    memcpy(to, prefix.ptr, prefix.len);
    arena_free(&keep);
    return (slice){ to, prefix.len };
}

static size_t in_force(struct unit_store *unit)
{
    struct arena keep = { 0 };
    struct purge_state *states;
    size_t count = store_purges(unit->store, &keep, &states);
    arena_free(&keep);
    return count;
}

static uint64_t entries_of(struct unit_store *unit)
{
    struct store_status status;
    store_status(unit->store, &status);
    return status.entries;
}

/* As put_object, by a fill that has seen all purges. */
static enum err put_again(struct unit_store *unit, const char *key, const char *etag, uint64_t size)
{
    struct metadata *metadata = make_metadata(unit, key, etag, size);
    uint8_t *bytes = must_alloc(size + 1);
    enum err e = OK;
    atomic_store(&metadata->compared, store_compared(unit->store));
    object_fill(key, etag, 0, bytes, size);
    for (uint64_t at = 0; !e && (at < size || at == 0); at += RECORD_BYTES_MAX) {
        struct unit_append append = { .refuse = false };
        slice part = slice_sub((slice){ (char *)bytes, size }, at, RECORD_BYTES_MAX);
        append.append = (struct store_append){
            .metadata = metadata, .first_unit = (uint32_t)(at / UNIT_BYTES), .bytes = part,
            .must = true, .with_metadata = at == 0, .compared = store_compared(unit->store),
            .done = append_done };
        sem_init(&append.ended, 0, 0);
        ok(store_append(unit->store, &append.append) == OK);
        commit_now(unit);
        e = append_wait(&append);
    }
    free(bytes);
    metadata_unref(&metadata);
    return e;
}

/* Only the metadata, as after a HEAD. */
static enum err put_metadata(struct unit_store *unit, const char *key, const char *etag,
                             uint64_t size)
{
    struct metadata *metadata = make_metadata(unit, key, etag, size);
    struct unit_append append = { .refuse = false };
    atomic_store(&metadata->compared, store_compared(unit->store));
    append.append = (struct store_append){ .metadata = metadata, .must = true,
                                           .with_metadata = true, .done = append_done,
                                           .compared = store_compared(unit->store) };
    sem_init(&append.ended, 0, 0);
    ok(store_append(unit->store, &append.append) == OK);
    commit_now(unit);
    enum err e = append_wait(&append);
    metadata_unref(&metadata);
    return e;
}

static const char *key_of(const char *prefix, unsigned i)
{
    static char keys[4][32];
    static unsigned turn;
    char *key = keys[turn++ % countof(keys)];
    snprintf(key, sizeof(keys[0]), "%s%u", prefix, i);
    return key;
}

static void put_set(struct unit_store *unit)
{
    ok(put_object(unit, "train/small", "\"1\"", 5000) == OK);
    ok(put_object(unit, "train/big", "\"1\"", BIG) == OK);
    ok(put_object(unit, "val/small", "\"1\"", 5000) == OK);
    ok(put_object(unit, "val/big", "\"1\"", BIG) == OK);
}

static bool has_val(struct unit_store *unit)
{
    return has_object(unit, "val/small", "\"1\"", 5000) && has_object(unit, "val/big", "\"1\"", BIG);
}

static bool has_train(struct unit_store *unit)
{
    struct metadata *small = get_metadata(unit, "train/small"), *big = get_metadata(unit, "train/big");
    bool any = small || big;
    metadata_unref(&small);
    metadata_unref(&big);
    return any;
}

TEST(a_purge_hides_its_prefix_at_once_and_deletes_it_later)
{
    struct unit_store unit = unit_open();
    put_set(&unit);
    uint64_t before = entries_of(&unit);
    struct metadata *held = get_metadata(&unit, "train/big");
    ok(held && purge(&unit, "train/") == OK);
    ok(!has_train(&unit));
    /* a reader that began before finds no byte any more either */
    ok(read_bytes(&unit, held, "train/big", 0, BIG) == 0);
    ok(store_has_units(unit.store, held, 0, 40, RECORDS_ALL) == 0);
    ok(store_next_unit(unit.store, held, 0, 40, RECORDS_ALL) == 40);
    metadata_unref(&held);
    soon(in_force(&unit) == 0);
    ok(entries_of(&unit) == before / 2);
    ok(!has_train(&unit) && has_val(&unit));
    ok(put_again(&unit, "train/big", "\"1\"", BIG) == OK && has_object(&unit, "train/big", "\"1\"", BIG));
    unit_close(&unit);
}

/* The metric penstock_bucket_evicted_bytes_total of the only bucket. */
static uint64_t evicted_bytes(void)
{
    static struct bucket_holds holds[METRIC_BUCKETS_MAX];
    struct arena keep = { 0 };
    struct text text = text_in(&keep);
    const char *family = "\npenstock_bucket_evicted_bytes_total{bucket=\"bucket\"} ";
    metric_buckets_expose(&text, holds);
    text_char(&text, '\0');
    const char *found = strstr(text_slice(&text).ptr, family);
    uint64_t bytes = found ? strtoull(found + strlen(family), NULL, 10) : 0;
    arena_free(&keep);
    return bytes;
}

TEST(what_is_purged_does_not_count_as_evicted)
{
    struct unit_store unit = unit_open_sized(16 * MIB, 2 * MIB);
    put_set(&unit);
    uint64_t before = evicted_bytes();
    ok(purge(&unit, "train/") == OK);
    soon(in_force(&unit) == 0);
    ok(evicted_bytes() == before);
    char key[32];
    for (int i = 0; i < 20; i++) {
        snprintf(key, sizeof(key), "more/%d", i);
        ok(put_again(&unit, key, "\"1\"", MIB) == OK);
    }
    ok(evicted_bytes() > before);
    unit_close(&unit);
}

TEST(a_fill_from_before_a_purge_stores_nothing)
{
    struct unit_store unit = unit_open();
    struct metadata *old = make_metadata(&unit, "train/a", "\"1\"", 5000);
    ok(purge(&unit, "train/") == OK);
    ok(put_object(&unit, "train/a", "\"1\"", 5000) == ERR_CHANGED);
    ok(put_object(&unit, "val/a", "\"1\"", 5000) == OK);
    ok(put_again(&unit, "train/a", "\"1\"", 5000) == OK && has_object(&unit, "train/a", "\"1\"", 5000));
    ok(ban_list_has_metadata(&unit.store->installation.bans, old));
    metadata_unref(&old);
    unit_close(&unit);
    unit = unit_open();    /* nothing of it is on the disk */
    ok(has_object(&unit, "train/a", "\"1\"", 5000));
    unit_close(&unit);
}

/* The same ETag after a purge: what was there before is not part of it, swept or not. */
TEST(old_units_do_not_come_back_to_life)
{
    struct unit_store unit = unit_open();
    put_set(&unit);
    ok(remove_object(&unit, "train/big") == OK);    /* its units stay */
    ok(purge(&unit, "train/") == OK);
    ok(put_metadata(&unit, "train/big", "\"1\"", BIG) == OK);
    ok(read_range(&unit, "train/big", 0, BIG) == 0);
    soon(in_force(&unit) == 0);
    ok(read_range(&unit, "train/big", 0, BIG) == 0);
    struct metadata *metadata = get_metadata(&unit, "train/big");
    ok(metadata && store_has_units(unit.store, metadata, 1, 40, RECORDS_ALL) == 0);
    metadata_unref(&metadata);
    ok(has_val(&unit));
    unit_close(&unit);
}

/* A small object whose metadata alone is new: the old bytes are not stored again with it. */
TEST(purged_bytes_are_not_stored_again_with_new_metadata)
{
    struct unit_store unit = unit_open();
    put_set(&unit);
    ok(purge(&unit, "train/") == OK);
    ok(put_metadata(&unit, "train/small", "\"1\"", 5000) == OK);
    ok(read_range(&unit, "train/small", 0, 5000) == 0);
    unit_close(&unit);
}

TEST(a_purge_of_a_key_leaves_longer_keys)
{
    struct unit_store unit = unit_open();
    struct purge_result result;
    slice prefix = prefix_of("a", true);
    ok(put_object(&unit, "a", "\"1\"", 50) == OK && put_object(&unit, "a/b", "\"1\"", 50) == OK);
    ok(put_object(&unit, "ab", "\"1\"", BIG) == OK);
    ok(store_purge(unit.store, &prefix, 1, &result) == OK && !result.any_out);
    ok(!get_metadata(&unit, "a"));
    soon(in_force(&unit) == 0);
    ok(!get_metadata(&unit, "a") && has_object(&unit, "a/b", "\"1\"", 50));
    ok(has_object(&unit, "ab", "\"1\"", BIG));
    unit_close(&unit);
}

/* ---- restarts ---- */

/* Closes the store when the purge of train/ is swept. */
static void ends_without_train(struct unit_store *unit)
{
    ok(!has_train(unit) && has_val(unit));
    soon(in_force(unit) == 0);
    ok(!has_train(unit) && has_val(unit));
    unit_close(unit);
}

/* Purges in a child that ends without a word. */
static void purge_and_die(const char *key)
{
    pid_t child = fork();
    if (child == 0) {
        struct unit_store unit = unit_open();
        _exit(purge(&unit, key) == OK && !has_train(&unit) ? 0 : 1);
    }
    ok(step_of(child) == 0);
}

TEST(a_purge_outlives_a_crash)
{
    struct unit_store unit = unit_open();
    put_set(&unit);
    unit_close(&unit);
    purge_and_die("train/");
    unit = unit_open();
    ends_without_train(&unit);
}

static void lose_index(void)
{
    remove_tree(in_folder("index"));
    unlink(in_folder("clean"));
}

/* The records are still there: a swept purge counts again when they are found again. */
TEST(an_index_that_is_built_anew_does_not_bring_purged_records_back)
{
    struct unit_store unit = unit_open();
    put_set(&unit);
    ok(purge(&unit, "train/") == OK);
    soon(in_force(&unit) == 0);
    unit_close(&unit);
    for (int i = 0; i < 2; i++) {
        lose_index();
        unit = unit_open();
        ends_without_train(&unit);
    }
}

/* Returns true if the file has one purge, and says that it is swept. */
static bool is_swept_in_file(void)
{
    struct arena keep = { 0 };
    struct bans_file file;
    slice bytes;
    int folder = open(unit_folder, O_RDONLY | O_DIRECTORY);
    bool is = folder_read(folder, "bans", MIB, &keep, &bytes) == OK &&
              bans_decode(bytes, &keep, &file) == OK && file.count == 1 && file.rows[0].swept;
    close(folder);
    arena_free(&keep);
    return is;
}

static struct timespec written(void)
{
    struct stat st;
    ok(stat(in_folder("bans"), &st) == 0);
    return st.st_mtim;
}

/* The next opening would trust the marks in the file, so they must go before this one serves. */
TEST(the_file_says_that_a_purge_is_not_swept_before_the_folder_serves)
{
    struct unit_store unit = unit_open();
    put_set(&unit);
    ok(purge(&unit, "train/") == OK);
    soon(is_swept_in_file());
    unit_close(&unit);
    struct timespec before = written();
    lose_index();
    unit = unit_open();
    struct timespec after = written();
    ok(after.tv_sec > before.tv_sec || (after.tv_sec == before.tv_sec && after.tv_nsec > before.tv_nsec));
    unit_close(&unit);
    unit = unit_open();
    ok(!has_train(&unit) && has_val(&unit));
    unit_close(&unit);
}

/* Runs `play` in a child that ends without a word. */
static void in_child(int (*play)(void))
{
    pid_t child = fork();
    if (child == 0)
        _exit(play());
    int step = step_of(child);
    if (step)
        fail_msg("step %d", step);
}

static int put_two(void)
{
    struct unit_store unit = unit_open();
    enum err e = put_object(&unit, "val/first", "\"1\"", 5000);
    e = e ? e : put_object(&unit, "train/small", "\"1\"", 5000);
    return e ? 1 : 0;
}

/* A power cut may lose a page of an extent, but not the index. Then no table has the records behind
 * that page, so no sweep finds them. */
TEST(a_purged_record_behind_a_lost_header_is_not_served_after_the_sweep)
{
    in_child(put_two);
    char zeros[PAGE_BYTES] = { 0 };
    int fd = open(in_folder("extents/00000001"), O_WRONLY);
    ok(fd >= 0 && pwrite(fd, zeros, RECORD_ALIGN, PAGE_BYTES) == RECORD_ALIGN && close(fd) == 0);
    struct unit_store unit = unit_open();
    ok(purge(&unit, "train/") == OK && !has_train(&unit));
    soon(in_force(&unit) == 0);
    ok(!has_train(&unit));
    unit_close(&unit);
    unit = unit_open();
    ok(!has_train(&unit));
    unit_close(&unit);
}

/* Purges train/ in a folder whose first extent was damaged at rest. */
static void purge_ends(void)
{
    struct unit_store unit = unit_open();
    ok(purge(&unit, "train/") == OK && !has_train(&unit));
    soon(in_force(&unit) == 0);
    ok(!has_train(&unit));
    unit_close(&unit);
    unit = unit_open();
    soon(in_force(&unit) == 0);
    ok(!has_train(&unit));
    unit_close(&unit);
}

static void put_small(void)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "val/a", "\"1\"", 5000) == OK);
    ok(put_object(&unit, "val/b", "\"1\"", 5000) == OK);
    ok(put_object(&unit, "train/small", "\"1\"", 5000) == OK);
    ok(put_object(&unit, "train/big", "\"1\"", BIG / 4) == OK);
    unit_close(&unit);
}

/* The index names them, so they are served until the purge. */
TEST(a_purge_ends_although_nobody_can_list_some_records)
{
    put_small();
    hide_rows(1, 1);
    purge_ends();
    struct unit_store unit = unit_open();
    ok(has_object(&unit, "val/a", "\"1\"", 5000));
    unit_close(&unit);
}

TEST(a_purge_ends_although_the_end_of_an_extent_is_damaged)
{
    static const off_t places[] = { -4096, -64, -1 };
    for (size_t i = 0; i < countof(places); i++) {
        put_small();
        flip_at(1, places[i]);
        purge_ends();
        struct unit_store unit = unit_open();
        ok(has_object(&unit, "val/a", "\"1\"", 5000) && has_object(&unit, "val/b", "\"1\"", 5000));
        unit_close(&unit);
        remove_tree(unit_folder);
        ok(mkdir(unit_folder, 0700) == 0);
    }
}

/* Its head page and its footer are damaged. */
TEST(a_purge_ends_although_an_extent_can_not_be_used)
{
    put_small();
    flip_at(1, 8);
    flip_at(1, -1);
    purge_ends();
}

/* A file that Penstock can't open takes the place of the first extent, or the extent comes back. */
static void hide_extent(bool hide)
{
    const char *name = in_folder("extents/00000001"), *hidden = in_folder("extents/hidden");
    if (hide) {
        ok(rename(name, hidden) == 0 && mkdir(name, 0700) == 0);
        return;
    }
    ok(rmdir(name) == 0 && rename(hidden, name) == 0);
}

/* An extent of which nobody knows the rows is not swept. */
TEST(a_purge_covers_an_extent_that_could_not_be_opened)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "train/small", "\"1\"", 5000) == OK);
    for (unsigned i = 0; i < 5; i++)    /* each row has a name; else the sweep would look for it */
        ok(put_object(&unit, key_of("val/", i), "\"1\"", MIB) == OK);
    unit_close(&unit);
    hide_extent(true);
    unit = unit_open();
    uint64_t swept = metric_read(M_STORE_SWEPT);
    ok(put_object(&unit, "train/late", "\"1\"", 5000) == OK && purge(&unit, "train/") == OK);
    soon(metric_read(M_STORE_SWEPT) > swept);    /* the others are */
    ok(put_again(&unit, "more/1", "\"1\"", 5000) == OK && purge(&unit, "more/") == OK);
    swept = metric_read(M_STORE_SWEPT);
    soon_in_a_hurry(metric_read(M_STORE_SWEPT) > swept);    /* so the first sweep has ended */
    soon_in_a_hurry(!atomic_load(&unit.store->volumes[0]->bans->dirty));
    unit_close(&unit);
    hide_extent(false);
    unit = unit_open();
    ok(!has_train(&unit) && has_object(&unit, "val/0", "\"1\"", MIB));
    soon(in_force(&unit) == 0);
    ok(!has_train(&unit) && has_object(&unit, "val/0", "\"1\"", MIB));
    unit_close(&unit);
}

static void repair(void)
{
    struct fsck_report report = unit_fsck(true);
    ok(report.repaired && fsck_wrong(&report) == 0);
}

/* The repair builds the index anew, and leaves a clean mark. */
TEST(a_repair_does_not_bring_purged_records_back)
{
    struct unit_store unit = unit_open();
    put_set(&unit);
    ok(purge(&unit, "train/") == OK);
    soon(is_swept_in_file());
    unit_close(&unit);
    lose_index();
    repair();
    unit = unit_open();
    ends_without_train(&unit);
}

TEST(a_damaged_file_of_bans_bans_everything)
{
    struct unit_store unit = unit_open();
    put_set(&unit);
    ok(purge(&unit, "other/") == OK);
    unit_close(&unit);
    int fd = open(in_folder("bans"), O_RDWR);
    uint8_t byte;
    ok(fd >= 0 && pread(fd, &byte, 1, 20) == 1);
    byte ^= 1;    /* a part of a time: no value is always another one */
    ok(pwrite(fd, &byte, 1, 20) == 1 && close(fd) == 0);
    unit = unit_open();
    ok(!has_train(&unit) && !get_metadata(&unit, "val/small"));
    ok(put_again(&unit, "val/small", "\"1\"", 5000) == OK);
    soon(metric_read(M_STORE_BANS) == 0);
    ok(entries_of(&unit) == 1 && has_object(&unit, "val/small", "\"1\"", 5000));
    unit_close(&unit);
    unit = unit_open();
    ok(has_object(&unit, "val/small", "\"1\"", 5000));
    unit_close(&unit);
}

/* ---- several folders ---- */

#define FOLDERS 3u

static char paths[FOLDERS][80];
static struct store_folder folders[FOLDERS];

/* A letter for each folder. Half of each may be pinned. */
static struct unit_store open_these(const char *names, uint64_t size)
{
    struct unit_store unit = { 0 };
    slice whys[FOLDERS];
    struct store_options options = options_of(0, 4 * MIB);
    for (size_t i = 0; i < FOLDERS; i++)
        snprintf(paths[i], sizeof(paths[i]), "%s/%c", unit_folder, (char)('a' + i));
    for (size_t i = 0; names[i]; i++)
        folders[i] = (struct store_folder){ paths[names[i] - 'a'], size };
    options.folders = folders;
    options.folder_count = strlen(names);
    options.pin_percent = 50;
    options.queue_bytes_max = 512 * MIB;    /* a whole object waits there */
    options.commit_ms_max = 60000;    /* on a busy machine */
    ok(store_open(&options, &unit.keep, &unit.store, whys) == OK);
    unit.box = mailbox_new();
    unit.io = store_io_new(unit.store, unit.box);
    return unit;
}

/* Opens so many folders, from the first one on. */
static struct unit_store open_folders(size_t count, uint64_t size)
{
    static const char *const names[] = { "", "a", "ab", "abc" };
    return open_these(names[count], size);
}

static struct unit_store open_three(void)
{
    return open_folders(FOLDERS, 128 * MIB);
}

static bool serves(struct unit_store *unit, size_t folder)
{
    struct store_status status;
    store_folder_status(unit->store, folder, &status);
    return status.serving;
}

#define KEYS 30u

static void put_keys(struct unit_store *unit, const char *prefix)
{
    for (unsigned i = 0; i < KEYS; i++)
        ok(put_object(unit, key_of(prefix, i), "\"1\"", 1000) == OK);
}

static unsigned count_keys(struct unit_store *unit, const char *prefix)
{
    unsigned count = 0;
    for (unsigned i = 0; i < KEYS; i++)
        count += has_object(unit, key_of(prefix, i), "\"1\"", 1000);
    return count;
}

/* The units of the second stripe lie in another folder than the metadata, which has the name. */
TEST(units_in_another_folder_than_their_metadata_are_swept_by_their_name)
{
    struct unit_store unit = open_three();
    static const char *const keys[] = { "train/long", "val/long" };
    uint64_t size = 65 * MIB;
    for (size_t i = 0; i < countof(keys); i++)
        ok(put_object(&unit, keys[i], "\"1\"", size) == OK);
    ok(purge(&unit, "train/") == OK);
    soon(in_force(&unit) == 0);
    ok(!get_metadata(&unit, "train/long") && has_object(&unit, "val/long", "\"1\"", size));
    ok(entries_of(&unit) == size / UNIT_BYTES + 1);
    unit_close(&unit);
}

/* A link to nowhere and the folder change places, so that no new folder is made meanwhile. */
static void exchange(size_t folder, const char *gone)
{
    ok(renameat2(AT_FDCWD, paths[folder], AT_FDCWD, gone, RENAME_EXCHANGE) == 0);
}

/* As if its disk were not mounted. */
static void take_away(struct unit_store *unit, size_t folder)
{
    char gone[100];
    _Atomic uint64_t *faults = unit ? &unit->store->volumes[folder]->service.faults : NULL;
    uint64_t before = faults ? atomic_load(faults) : 0;
    snprintf(gone, sizeof(gone), "%s-gone", paths[folder]);
    ok(symlink("no/such/folder", gone) == 0);
    exchange(folder, gone);
    if (unit)    /* the fault is counted when no name of the folder is in RAM any more */
        soon(!serves(unit, folder) && atomic_load(faults) > before);
}

static void bring_back(size_t folder)
{
    char gone[100];
    snprintf(gone, sizeof(gone), "%s-gone", paths[folder]);
    exchange(folder, gone);
    ok(unlink(gone) == 0);
}

/* Closes the store when the purge of train/ is swept. */
static void ends_with_val(struct unit_store *unit)
{
    ok(count_keys(unit, "train/") == 0 && count_keys(unit, "val/") == KEYS);
    soon(in_force(unit) == 0);
    ok(count_keys(unit, "train/") == 0 && count_keys(unit, "val/") == KEYS);
    unit_close(unit);
}

TEST(a_folder_that_was_out_takes_the_purges_that_it_missed)
{
    struct unit_store unit = open_three();
    struct purge_result result;
    slice prefix = prefix_of("train/", false);
    put_keys(&unit, "train/");
    put_keys(&unit, "val/");
    take_away(&unit, 1);
    ok(store_purge(unit.store, &prefix, 1, &result) == OK);
    ok(result.any_out && result.folders[1] && !result.folders[0] && !result.folders[2]);
    ok(count_keys(&unit, "train/") == 0);
    ok(in_force(&unit) == 1);
    bring_back(1);
    soon(serves(&unit, 1));
    ends_with_val(&unit);
}

/* The purge in force at this place. */
static struct purge_state state_at(struct unit_store *unit, size_t place)
{
    struct arena keep = { 0 };
    struct purge_state *states, none = { .serial = 0 };
    none = store_purges(unit->store, &keep, &states) > place ? states[place] : none;
    arena_free(&keep);
    return none;
}

/* The first purge in force. */
static struct purge_state state_of(struct unit_store *unit)
{
    return state_at(unit, 0);
}

static unsigned count_set(const bool set[VOLUMES_MAX])
{
    unsigned count = 0;
    for (size_t i = 0; i < VOLUMES_MAX; i++)
        count += set[i];
    return count;
}

/* A key whose second stripe lies in another folder than the name. */
static const char *split_key(struct unit_store *unit, const char *prefix, size_t *ret_home)
{
    for (unsigned i = 0;; i++) {
        struct object_id id;
        struct object_name name = name_of(key_of(prefix, i));
        store_object_id(unit->store, &name, &id);
        const struct volume *home = store_home(unit->store, &id);
        *ret_home = home->number;
        if (store_home_of_unit(unit->store, &id, STRIPE_UNITS) != home)
            return key_of(prefix, i);
    }
}

TEST(a_purge_says_which_folders_wait_for_names_in_a_folder_that_is_out)
{
    struct unit_store unit = open_three();
    struct purge_result result;
    slice prefix = prefix_of("train/", false);
    size_t home;
    ok(put_object(&unit, split_key(&unit, "train/", &home), "\"1\"", 65 * MIB) == OK);
    take_away(&unit, home);
    ok(store_purge(unit.store, &prefix, 1, &result) == OK && result.folders[home]);
    soon(count_set(state_of(&unit).folders) == 2 && count_set(state_of(&unit).waiting) == 1);
    struct purge_state state = state_of(&unit);
    ok(state.folders[home] && !state.waiting[home]);
    ok(count_set(state.out) == 1 && state.out[home]);
    bring_back(home);
    soon(serves(&unit, home));
    state = state_of(&unit);
    ok(count_set(state.waiting) == 0 && count_set(state.out) == 0);
    unit_close(&unit);
}

TEST(a_purge_of_another_bucket_waits_for_no_names)
{
    struct unit_store unit = open_three();
    struct purge_result result;
    struct arena keep = { 0 };
    slice prefix = prefix_of("train/", false);
    slice other = purge_prefix(&keep, S("http://origin"), S("other"), S(""), false);
    size_t home;
    ok(put_object(&unit, split_key(&unit, "train/", &home), "\"1\"", 65 * MIB) == OK);
    take_away(&unit, home);
    ok(store_purge(unit.store, &prefix, 1, &result) == OK);
    soon(count_set(state_of(&unit).waiting) == 1);
    ok(store_purge(unit.store, &other, 1, &result) == OK);
    soon_in_a_hurry(count_set(state_at(&unit, 1).folders) == 1);
    struct purge_state first = state_of(&unit), second = state_at(&unit, 1);
    ok(count_set(first.folders) == 2 && count_set(first.waiting) == 1);
    ok(second.serial == result.serial && second.folders[home] && second.out[home]);
    arena_free(&keep);
    unit_close(&unit);
}

/* It is away at the purge, and at the next start; then it is back at a start, or while Penstock
 * runs. The other folders keep the purge for it. */
static void misses_a_purge(bool back_at_start)
{
    struct unit_store unit = open_three();
    put_keys(&unit, "train/");
    put_keys(&unit, "val/");
    take_away(&unit, 1);
    ok(purge(&unit, "train/") == OK);
    unit_close(&unit);
    if (back_at_start) {
        bring_back(1);
        unit = open_three();
    } else {
        unit = open_three();
        ok(!serves(&unit, 1));
        soon(count_keys(&unit, "val/") > 0);
        bring_back(1);
        soon(serves(&unit, 1));
    }
    ends_with_val(&unit);
}

TEST(a_folder_that_returns_at_a_start_takes_the_purges_that_it_missed)
{
    misses_a_purge(true);
}

TEST(a_folder_that_returns_long_after_a_start_takes_the_purges_that_it_missed)
{
    misses_a_purge(false);
}

#define RECORDS 20u
#define RECORD_SIZE 300000u

/* Stores objects at once; some find no room. */
static void put_records(struct unit_store *unit, const char *prefix, unsigned first)
{
    struct unit_append appends[RECORDS] = { { .refuse = false } };
    uint8_t *bytes = must_alloc(RECORDS * RECORD_SIZE);
    for (unsigned i = 0; i < RECORDS; i++) {
        const char *key = key_of(prefix, first + i);
        uint8_t *mine = bytes + i * RECORD_SIZE;
        struct metadata *metadata = make_metadata(unit, key, "\"1\"", RECORD_SIZE);
        atomic_store(&metadata->compared, store_compared(unit->store));
        object_fill(key, "\"1\"", 0, mine, RECORD_SIZE);
        appends[i].append = (struct store_append){
            .metadata = metadata, .bytes = { (char *)mine, RECORD_SIZE }, .must = true,
            .with_metadata = true, .compared = store_compared(unit->store), .done = append_done };
        sem_init(&appends[i].ended, 0, 0);
        if (store_append(unit->store, &appends[i].append) != OK)
            appends[i].refuse = true;
    }
    commit_now(unit);
    for (unsigned i = 0; i < RECORDS; i++) {
        if (!appends[i].refuse)
            (void)!append_wait(&appends[i]);
        metadata_unref(&appends[i].append.metadata);
    }
    free(bytes);
}

/* ---- folders that were not there ---- */

#define SMALL_FOLDER (32 * MIB)

/* The number of bans in the list, which the thread of the sweep changes. */
static size_t listed(struct unit_store *unit)
{
    struct ban_list *list = &unit->store->installation.bans;
    pthread_mutex_lock(&list->lock);
    size_t count = list->count;
    pthread_mutex_unlock(&list->lock);
    return count;
}

/* True if the file of each folder has all changes of the list. */
static bool is_written(struct unit_store *unit)
{
    uint64_t version = ban_list_version(&unit->store->installation.bans);
    for (size_t i = 0; i < unit->store->volume_count; i++)
        if (atomic_load(&unit->store->volumes[i]->bans->written) != version)
            return false;
    return true;
}

/* Stores objects until no extent is left that the purges cover, so that they are forgotten. */
static void forget_purges(struct unit_store *unit)
{
    uint64_t end_ms = mono_ms() + 60000;
    for (unsigned i = 0; mono_ms() < end_ms && listed(unit); i++)
        put_records(unit, "new/", i * RECORDS);
    ok(listed(unit) == 0);
    soon(is_written(unit));
}

/* The last folder is not configured at the purge. When it returns, no folder knows the purge. */
TEST(a_folder_that_returns_after_a_purge_was_forgotten_serves_nothing_old)
{
    struct unit_store unit = open_folders(FOLDERS, SMALL_FOLDER);
    put_keys(&unit, "train/");
    put_keys(&unit, "val/");
    unit_close(&unit);
    unit = open_folders(2, SMALL_FOLDER);
    ok(purge(&unit, "train/") == OK);
    forget_purges(&unit);
    unit_close(&unit);
    for (int i = 0; i < 2; i++) {
        unit = open_folders(FOLDERS, SMALL_FOLDER);
        ok(count_keys(&unit, "train/") == 0);
        for (size_t k = 0; k < FOLDERS; k++)
            ok((*store_folder_emptied(unit.store, k) != '\0') == (i == 0 && k == 2));
        soon(metric_read(M_STORE_BANS) == 0);
        ok(count_keys(&unit, "train/") == 0);
        if (i == 0)
            for (unsigned k = 0; k < KEYS; k++)
                soon(put_again(&unit, key_of("late/", k), "\"1\"", 1000) == OK);    /* moved.c */
        ok(count_keys(&unit, "late/") == KEYS);
        unit_close(&unit);
    }
}

/* Folder b misses a purge, and makes another one while folder a is away. */
static void misses_an_older_purge(bool back_at_start)
{
    struct unit_store unit = open_folders(2, SMALL_FOLDER);
    put_keys(&unit, "train/");
    put_keys(&unit, "val/");
    take_away(&unit, 1);
    ok(purge(&unit, "train/") == OK);
    unit_close(&unit);
    bring_back(1);
    take_away(NULL, 0);
    unit = open_folders(2, SMALL_FOLDER);
    ok(purge(&unit, "other/") == OK);
    ok(count_keys(&unit, "train/") > 0);    /* nobody can know better; they are in RAM now */
    if (back_at_start)
        unit_close(&unit);
    bring_back(0);
    if (back_at_start)
        unit = open_folders(2, SMALL_FOLDER);
    soon(serves(&unit, 0) && serves(&unit, 1));
    soon(count_keys(&unit, "train/") == 0);
    ends_with_val(&unit);
}

TEST(a_folder_takes_a_purge_that_is_older_than_its_newest_one)
{
    misses_an_older_purge(true);
}

TEST(a_folder_takes_such_a_purge_also_while_it_serves)
{
    misses_an_older_purge(false);
}

static void pin(struct unit_store *unit, const char *key)
{
    struct pin_name name = { S("http://origin"), S("bucket"), slice_of(key) };
    bool changed;
    ok(store_pin(unit->store, &name, 1, true, &changed) == OK && changed);
}

/* A run of these folders, with a purge that no folder needs any more at its end. */
static void purge_and_forget(const char *names, const char *key)
{
    struct unit_store unit = open_these(names, SMALL_FOLDER);
    ok(purge(&unit, key) == OK);
    forget_purges(&unit);
    unit_close(&unit);
}

/* One digit for each folder: 1 if all its records were banned at its opening. */
static void emptied(struct unit_store *unit, const char *expected)
{
    char found[FOLDERS + 1] = "";
    for (size_t i = 0; i < unit->store->volume_count; i++)
        found[i] = *store_folder_emptied(unit->store, i) ? '1' : '0';
    same(slice_of(found), slice_of(expected));
}

/* Each of two folders forgets a purge that the other one lacks. The pin keeps the objects: they are
 * copied from the extents that the purge covers. */
TEST(of_two_folders_that_both_forgot_a_purge_neither_serves_anything_old)
{
    struct unit_store unit = open_these("ab", SMALL_FOLDER);
    pin(&unit, "keep/");
    put_keys(&unit, "keep/");
    unsigned all = count_keys(&unit, "keep/");
    unit_close(&unit);
    purge_and_forget("a", "keep/");
    purge_and_forget("b", "other/");
    unit = open_these("b", SMALL_FOLDER);
    ok(all == KEYS && count_keys(&unit, "keep/") > 0);    /* nobody can know better */
    unit_close(&unit);
    unit = open_these("ab", SMALL_FOLDER);
    ok(count_keys(&unit, "keep/") == 0);
    emptied(&unit, "11");
    unit_close(&unit);
    unit = open_these("ab", SMALL_FOLDER);
    ok(count_keys(&unit, "keep/") == 0);
    emptied(&unit, "00");
    unit_close(&unit);
}

/* Folder b has the newest of the purges that folder a forgot, but not the other one. */
TEST(a_folder_that_lacks_an_older_one_of_the_forgotten_purges_serves_nothing_old)
{
    struct unit_store unit = open_these("abc", SMALL_FOLDER);
    put_keys(&unit, "train/");
    unit_close(&unit);
    static const struct { const char *names, *key; } runs[] = {
        { "a", "train/" }, { "b", "other/" }, { "bc", NULL }, { "ac", NULL } };
    for (size_t i = 0; i < countof(runs); i++) {
        unit = open_these(runs[i].names, SMALL_FOLDER);
        ok(!runs[i].key || purge(&unit, runs[i].key) == OK);
        ok(listed(&unit) == 1 + (i == 3));
        unit_close(&unit);
    }
    unit = open_these("a", SMALL_FOLDER);
    forget_purges(&unit);
    unit_close(&unit);
    unit = open_these("ab", SMALL_FOLDER);
    ok(count_keys(&unit, "train/") == 0);
    emptied(&unit, "01");
    unit_close(&unit);
}

/* Folder a goes on with what it has, because it was there at each purge. */
TEST(a_folder_is_emptied_once_for_all_purges_that_it_lacks)
{
    struct unit_store unit = open_these("ab", SMALL_FOLDER);
    pin(&unit, "keep/");
    put_keys(&unit, "keep/");
    unit_close(&unit);
    purge_and_forget("ab", "other/");
    purge_and_forget("a", "other/");
    for (int i = 0; i < 3; i++) {
        unit = open_these("ab", SMALL_FOLDER);
        emptied(&unit, i == 0 ? "01" : "00");
        unsigned left = count_keys(&unit, "keep/");
        ok(left > 0 && left < KEYS);
        ok(purge(&unit, "other/") == OK);
        forget_purges(&unit);
        emptied(&unit, i == 0 ? "01" : "00");
        ok(count_keys(&unit, "keep/") == left);
        unit_close(&unit);
    }
}

/* The process ends when folder a has written that a purge is forgotten, and folder b has not. */
TEST(a_crash_while_a_purge_is_forgotten_empties_no_folder)
{
    struct unit_store unit = open_these("ab", SMALL_FOLDER);
    put_keys(&unit, "val/");
    unit_close(&unit);
    purge_and_forget("ab", "other/");
    unit = open_these("ab", SMALL_FOLDER);
    ok(purge(&unit, "other/") == OK);
    ok(link(in_folder("b/bans"), in_folder("earlier")) == 0);    /* it is replaced, never changed */
    forget_purges(&unit);
    unit_close(&unit);
    ok(rename(in_folder("earlier"), in_folder("b/bans")) == 0);
    for (int i = 0; i < 2; i++) {
        unit = open_these("ab", SMALL_FOLDER);
        emptied(&unit, "00");
        soon(is_written(&unit));
        unit_close(&unit);
    }
}

/* Folders a and b are out when folder c returns, which does not know either. The mark of folder a is
 * the first one in this process, or a second one. */
static void finds_out_late(bool has_mark)
{
    struct unit_store unit = open_these("abc", SMALL_FOLDER);
    pin(&unit, "train/");
    put_keys(&unit, "train/");
    unit_close(&unit);
    if (has_mark)
        purge_and_forget("abc", "other/");
    purge_and_forget("ab", "train/");
    take_away(NULL, 0);
    take_away(NULL, 1);
    unit = open_these("abc", SMALL_FOLDER);
    ok(!serves(&unit, 0) && !serves(&unit, 1) && serves(&unit, 2));
    ok(count_keys(&unit, "train/") > 0);    /* nobody can know better */
    bring_back(0);
    soon(serves(&unit, 0));
    soon(*store_folder_emptied(unit.store, 2));
    ok(count_keys(&unit, "train/") == 0);
    emptied(&unit, "001");
    bring_back(1);
    soon(serves(&unit, 1) && is_written(&unit));
    emptied(&unit, "001");
    unit_close(&unit);
    for (int i = 0; i < 2; i++) {
        unit = open_these("abc", SMALL_FOLDER);
        ok(count_keys(&unit, "train/") == 0);
        emptied(&unit, "000");
        unit_close(&unit);
    }
}

TEST(a_folder_that_finds_out_late_that_a_purge_was_forgotten_serves_nothing_old)
{
    finds_out_late(false);
}

TEST(a_folder_that_finds_out_late_that_another_purge_was_forgotten_serves_nothing_old)
{
    finds_out_late(true);
}

/* A folder in an older state lacks the purges that were forgotten since, also if Penstock runs while
 * the older state takes its place. */
static void returns_in_an_older_state(bool at_start)
{
    char command[300];
    struct unit_store unit = open_these("ab", SMALL_FOLDER);
    put_keys(&unit, "train/");
    unit_close(&unit);
    snprintf(command, sizeof(command), "cp -a %s %s", in_folder("b"), in_folder("older"));
    ok(system(command) == 0);
    unit = open_these("ab", SMALL_FOLDER);
    ok(purge(&unit, "train/") == OK);
    forget_purges(&unit);
    if (at_start)
        unit_close(&unit);
    take_away(at_start ? NULL : &unit, 1);
    remove_tree(in_folder("b-gone"));
    ok(rename(in_folder("older"), in_folder("b-gone")) == 0);
    bring_back(1);
    if (at_start)
        unit = open_these("ab", SMALL_FOLDER);
    soon(serves(&unit, 1));
    emptied(&unit, "01");
    ok(count_keys(&unit, "train/") == 0);
    unit_close(&unit);
}

TEST(an_older_state_of_a_folder_serves_nothing_that_was_purged_since)
{
    returns_in_an_older_state(true);
}

TEST(an_older_state_that_takes_the_place_of_a_folder_serves_nothing_that_was_purged_since)
{
    returns_in_an_older_state(false);
}

/* Folder a begins anew. Its file of purges stays, and tells that folder b lacks one. */
TEST(a_folder_that_lost_its_format_file_tells_of_the_purges_that_it_forgot)
{
    struct unit_store unit = open_these("ab", SMALL_FOLDER);
    pin(&unit, "keep/");
    put_keys(&unit, "keep/");
    unit_close(&unit);
    purge_and_forget("ab", "other/");
    purge_and_forget("a", "keep/");
    ok(unlink(in_folder("a/format")) == 0);
    unit = open_these("ab", SMALL_FOLDER);
    ok(serves(&unit, 0) && serves(&unit, 1) && count_keys(&unit, "keep/") == 0);
    unit_close(&unit);
}

TEST(no_folder_in_service_refuses_a_purge_that_would_be_lost)
{
    struct unit_store unit = open_three();
    put_keys(&unit, "train/");
    for (size_t i = 0; i < FOLDERS; i++)
        take_away(&unit, i);
    ok(purge(&unit, "train/") == ERR_IO);
    for (size_t i = 0; i < FOLDERS; i++)
        bring_back(i);
    soon(serves(&unit, 0) && serves(&unit, 1) && serves(&unit, 2));
    ok(count_keys(&unit, "train/") == 0);    /* this process knows it all the same */
    unit_close(&unit);
}

/* ---- limits ---- */

/* Purges so many keys p/N, by turns of 500. */
static void purge_keys(struct unit_store *unit, unsigned first, unsigned count)
{
    enum { TURN = 500 };
    static char texts[TURN][64];
    slice prefixes[TURN];
    struct purge_result result;
    for (unsigned i = 0; i < count; i += TURN) {
        for (unsigned k = 0; k < TURN; k++) {
            slice prefix = prefix_of(key_of("p/", first + i + k), true);
            memcpy(texts[k], prefix.ptr, prefix.len);
            prefixes[k] = (slice){ texts[k], prefix.len };
        }
        ok(store_purge(unit->store, prefixes, TURN, &result) == OK);
    }
}

/* The cache has room, so no extent ever goes: each purge is needed for an index that is built
 * anew. */
TEST(purging_goes_on_when_more_purges_are_needed_than_the_file_has_rows_for)
{
    struct unit_store unit;
    struct store_options options = options_of(64 * MIB, 4 * MIB);
    options.commit_ms_max = 60000;    /* so many at once, on a busy machine */
    ok(unit_try(&unit, options) == OK);
    uint64_t merged = metric_read(M_STORE_BANS_MERGED);
    ok(put_object(&unit, "p/1", "\"1\"", 1000) == OK && put_object(&unit, "p/9000", "\"1\"", 1000) == OK);
    ok(put_object(&unit, "keep", "\"1\"", 1000) == OK && put_object(&unit, "p/keep", "\"1\"", 1000) == OK);
    ok(put_object(&unit, "p/keep-big", "\"1\"", BIG) == OK);
    for (unsigned i = 0; i < 6000; i += 1000) {
        purge_keys(&unit, i, 1000);
        soon(in_force(&unit) == 0);
    }
    ok(metric_read(M_STORE_BANS_MERGED) > merged);
    ok(purge(&unit, "q/") == OK);
    ok(!get_metadata(&unit, "p/1") && has_object(&unit, "p/9000", "\"1\"", 1000));
    ok(has_object(&unit, "p/keep", "\"1\"", 1000) && has_object(&unit, "p/keep-big", "\"1\"", BIG));
    soon(in_force(&unit) == 0);
    unit_close(&unit);
    ok(unit_try(&unit, options) == OK);
    ok(!get_metadata(&unit, "p/1") && has_object(&unit, "p/9000", "\"1\"", 1000));
    ok(has_object(&unit, "p/keep", "\"1\"", 1000) && has_object(&unit, "p/keep-big", "\"1\"", BIG));
    unit_close(&unit);
    lose_index();    /* then a merged purge removes more, but never less */
    ok(unit_try(&unit, options) == OK);
    ok(!get_metadata(&unit, "p/1") && has_object(&unit, "keep", "\"1\"", 1000));
    soon(in_force(&unit) == 0);
    ok(!get_metadata(&unit, "p/1") && has_object(&unit, "keep", "\"1\"", 1000));
    unit_close(&unit);
}

TEST(a_wider_purge_takes_the_place_of_others_and_too_long_ones_are_refused)
{
    struct unit_store unit = unit_open();
    struct purge_result result;
    ok(put_object(&unit, "keep", "\"1\"", 1000) == OK);    /* so that the bans cover an extent */
    purge_keys(&unit, 0, 1000);
    ok(listed(&unit) == 1000);
    ok(purge(&unit, "p/") == OK && listed(&unit) == 1);
    ok(purge(&unit, "p/") == OK && listed(&unit) == 1);    /* the same again */
    ok(purge(&unit, "q/") == OK && listed(&unit) == 2);
    soon(in_force(&unit) == 0);
    ok(has_object(&unit, "keep", "\"1\"", 1000));
    slice prefix = { must_alloc(PREFIX_BYTES_MAX + 1), PREFIX_BYTES_MAX + 1 };
    ok(store_purge(unit.store, &prefix, 1, &result) == ERR_TOO_LARGE);
    free((char *)prefix.ptr);
    unit_close(&unit);
}

/* ---- more purges than a file has rows, by folders that were not there at the same time ---- */

#define NUMBERS 4200u                 /* of keys; a purge for each is more than the list takes */
#define VICTIM_STEP 140u

/* Purges every second key, by turns. */
static void purge_every_second(struct unit_store *unit, unsigned first)
{
    enum { TURN = 500 };
    static char texts[TURN][64];
    slice prefixes[TURN];
    struct purge_result result;
    for (unsigned i = first; i < NUMBERS;) {
        size_t count = 0;
        for (; count < TURN && i < NUMBERS; i += 2, count++) {
            slice prefix = prefix_of(key_of("p/", 1000 + i), true);
            memcpy(texts[count], prefix.ptr, prefix.len);
            prefixes[count] = (slice){ texts[count], prefix.len };
        }
        ok(store_purge(unit->store, prefixes, count, &result) == OK);
    }
}

static unsigned count_victims(struct unit_store *unit)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NUMBERS; i += VICTIM_STEP)
        count += has_object(unit, key_of("p/", 1000 + i), "\"1\"", 1000);
    return count;
}

/* Folder a has purges that folder b misses. Then b makes newer ones without a. Together they are
 * too many, so each purge of a is merged with one of b, which b has swept already. */
TEST(a_merge_loses_no_purge_that_a_folder_never_took)
{
    struct unit_store unit = open_folders(2, SMALL_FOLDER);
    for (unsigned i = 0; i < NUMBERS; i += VICTIM_STEP)
        ok(put_object(&unit, key_of("p/", 1000 + i), "\"1\"", 1000) == OK);
    take_away(&unit, 1);
    purge_every_second(&unit, 0);
    soon(metric_read(M_STORE_BANS) == 0);
    unit_close(&unit);
    bring_back(1);
    take_away(NULL, 0);
    unit = open_folders(2, SMALL_FOLDER);
    purge_every_second(&unit, 1);
    ok(count_victims(&unit) > 0);    /* nobody can know better */
    soon(metric_read(M_STORE_BANS) == 0);
    unit_close(&unit);
    bring_back(0);
    uint64_t merged = metric_read(M_STORE_BANS_MERGED);
    unit = open_folders(2, SMALL_FOLDER);
    ok(metric_read(M_STORE_BANS_MERGED) > merged);
    ok(count_victims(&unit) == 0);
    soon(metric_read(M_STORE_BANS) == 0);
    ok(count_victims(&unit) == 0);
    unit_close(&unit);
}

/* Each row must be covered by a row that is as new, and no prefix may be longer. */
static void try_merge(struct ban_row *rows, size_t count, size_t most, bool all_settled)
{
    struct ban_row *before = must_alloc(count * sizeof(*before));
    for (size_t i = 0; i < count; i++) {
        before[i] = rows[i];
        before[i].prefix.ptr = must_strndup(rows[i].prefix.ptr, rows[i].prefix.len);
    }
    size_t left = ban_rows_merge(rows, count, most);
    ok(left <= most && left > 0);
    for (size_t i = 0; i < count; i++) {
        bool covered = false, itself = false;
        for (size_t k = 0; k < left; k++) {
            covered |= rows[k].serial >= before[i].serial && slice_starts(before[i].prefix, rows[k].prefix);
            itself |= rows[k].serial == before[i].serial && slice_eq(before[i].prefix, rows[k].prefix);
        }
        ok(covered && (all_settled || before[i].settled || itself));
        free((char *)before[i].prefix.ptr);
    }
    for (size_t k = 0; k < left; k++) {
        ok(k == 0 || rows[k].serial > rows[k - 1].serial);
        free((char *)rows[k].prefix.ptr);
    }
    free(before);
}

TEST(merged_bans_cover_all_that_was_banned)
{
    for (unsigned round = 0; round < 200; round++) {
        size_t count = 2 + round % 60, most = 1 + (round * 7) % (count - 1), unsettled = 0;
        struct ban_row *rows = must_alloc(count * sizeof(*rows));
        for (size_t i = 0; i < count; i++) {
            char text[32];
            uint32_t hash = (uint32_t)(round * 131 + i) * 2654435761u;
            int len = snprintf(text, sizeof(text), "o%c%c/%u", (int)('a' + hash % 3),
                               (int)('a' + hash / 8 % 3), hash >> 20);
            rows[i] = (struct ban_row){ .serial = 10 * (i + 1), .arrived = 10 * (i + 1),
                                        .settled = round % 2 || (hash >> 10) % 8,
                                        .prefix = { must_strndup(text, (size_t)len), (size_t)len } };
            unsettled += !rows[i].settled;
        }
        try_merge(rows, count, most, unsettled >= most);
        free(rows);
    }
}

/* ---- copies ---- */

/* A cache that is always full: purges come while the recycler copies what is read. */
TEST(no_copy_of_a_purged_record_outlives_the_purge)
{
    struct unit_store unit = unit_open_sized(32 * MIB, 4 * MIB);
    uint64_t copied = metric_read(M_STORE_COPIED);
    for (unsigned round = 0; round < rounds_of(20, 5); round++) {
        put_records(&unit, "train/", 0);
        for (unsigned i = 0; i < RECORDS; i++)    /* touched, so that they are copied */
            (void)!read_range(&unit, key_of("train/", i), 0, RECORD_SIZE);
        for (unsigned i = 0; i < 3; i++)
            put_records(&unit, "val/", (round * 3 + i) * RECORDS);
        ok(purge(&unit, "train/") == OK);
        for (unsigned i = 0; i < RECORDS; i++)
            ok(!get_metadata(&unit, key_of("train/", i)));
        if (round % 4 == 0)
            soon(in_force(&unit) == 0);
        for (unsigned i = 0; i < RECORDS; i++)
            ok(!get_metadata(&unit, key_of("train/", i)));
    }
    ok(metric_read(M_STORE_COPIED) > copied);
    unit_close(&unit);
}

static void stop_sweep(struct unit_store *unit)
{
    struct ban_list *list = &unit->store->installation.bans;
    pthread_mutex_lock(&list->lock);
    list->stopping = true;
    pthread_cond_broadcast(&list->changed);
    pthread_mutex_unlock(&list->lock);
}

/* Units have no name. The recycler asks for it before it drops units of a bucket with a purge. */
TEST(units_of_another_prefix_are_copied_while_a_purge_is_not_swept)
{
    struct unit_store unit;
    struct store_options options = options_of(48 * MIB, 4 * MIB);
    struct pin_name pin = { S("http://origin"), S("bucket"), S("val/") };
    uint64_t copied = metric_read(M_STORE_COPIED), until = mono_ms() + 60000;
    bool changed;
    options.pin_percent = 50;
    options.commit_ms_max = 60000;    /* on a busy machine */
    ok(unit_try(&unit, options) == OK);
    ok(put_object(&unit, "val/big", "\"1\"", BIG) == OK);
    ok(put_object(&unit, "train/big", "\"1\"", BIG) == OK);
    ok(store_pin(unit.store, &pin, 1, true, &changed) == OK);
    stop_sweep(&unit);
    ok(purge(&unit, "train/") == OK);
    for (unsigned i = 0; metric_read(M_STORE_COPIED) < copied + BIG && mono_ms() < until; i++)
        put_records(&unit, "new/", i * RECORDS);
    ok(metric_read(M_STORE_COPIED) >= copied + BIG && in_force(&unit) == 1);
    ok(has_object(&unit, "val/big", "\"1\"", BIG) && !get_metadata(&unit, "train/big"));
    unit_close(&unit);
}

/* A purge by another thread. */
struct purger {
    struct unit_store *unit;
    atomic_bool ended;
};

static void *purge_train(void *arg)
{
    struct purger *purger = arg;
    ok(purge(purger->unit, "train/") == OK);
    atomic_store(&purger->ended, true);
    return NULL;
}

/* The committer is busy, so the volume has not taken the ban that the list has already. */
TEST(metadata_read_while_a_purge_waits_for_the_committer_is_not_served_later)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "train/a", "\"1\"", 5000) == OK);
    unit_close(&unit);
    unit = unit_open();
    sem_t hang;
    sem_init(&hang, 0, 0);
    struct metadata *other = make_metadata(&unit, "val/x", "\"1\"", 10);
    struct unit_append append = { .hang = &hang };
    append_begin(&unit, &append, other, 0, S("0123456789"), true);
    uint64_t before = store_compared(unit.store);
    struct purger purger = { .unit = &unit };
    pthread_t thread;
    pthread_create(&thread, NULL, purge_train, &purger);
    soon(store_compared(unit.store) > before);
    struct metadata *early = get_metadata(&unit, "train/a");
    ok(early != NULL);
    metadata_unref(&early);
    sem_post(&hang);
    pthread_join(thread, NULL);
    ok(append_wait(&append) == OK);
    metadata_unref(&other);
    struct metadata *late = get_metadata(&unit, "train/a");
    soon(in_force(&unit) == 0);
    struct metadata *swept = get_metadata(&unit, "train/a");
    ok(!late && !swept);
    metadata_unref(&late);
    metadata_unref(&swept);
    unit_close(&unit);
}

/* ---- look-ups that take long ---- */

struct look_up {
    struct bans *bans;
    atomic_bool ended;
};

static void *look_up_once(void *arg)
{
    struct look_up *look_up = arg;
    struct ban_set *set = ban_set_ref(&look_up->bans->place);
    ban_set_unref(&set);
    atomic_store(&look_up->ended, true);
    return NULL;
}

/* A page fault in the index may stop one thread while it compares. A purge then waits for nobody,
 * and nobody for the purge. */
TEST(a_look_up_that_hangs_stops_neither_a_purge_nor_other_look_ups)
{
    struct unit_store unit = unit_open();
    struct look_up other = { .bans = unit.store->volumes[0]->bans };
    struct purger purger = { .unit = &unit };
    pthread_t threads[2];
    struct ban_set *set = NULL;
    put_set(&unit);
    while (!set) {    /* before the sweep ends */
        ok(purge(&unit, "train/") == OK);
        set = ban_set_ref(&other.bans->place);
    }
    pthread_create(&threads[0], NULL, purge_train, &purger);
    soon(atomic_load(&purger.ended));
    soon(in_force(&unit) == 0);
    pthread_create(&threads[1], NULL, look_up_once, &other);
    soon(atomic_load(&other.ended));
    ok(ban_set_covers(set, S("http://origin\0bucket\0train/x"), 1, 0));
    ban_set_unref(&set);
    for (size_t i = 0; i < countof(threads); i++)
        pthread_join(threads[i], NULL);
    ok(!has_train(&unit) && has_val(&unit));
    unit_close(&unit);
}

static int purge_after_half_an_append(void)
{
    struct unit_store unit = unit_open();
    struct stat st;
    if (put_object(&unit, "val/first", "\"1\"", MIB) != OK ||
        stat(in_folder("extents/00000001"), &st) != 0)
        return 2;
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit all, some;
    getrlimit(RLIMIT_FSIZE, &all);
    some = all;
    some.rlim_cur = (rlim_t)st.st_size + 16384;
    if (setrlimit(RLIMIT_FSIZE, &some) != 0)
        return 3;
    struct unit_put one = put_begin(&unit, "train/small", "\"1\"", 5000);
    struct unit_put two = put_begin(&unit, "train/other", "\"1\"", 900000);
    if (put_wait(&one) == OK || put_wait(&two) == OK)
        return 4;
    if (setrlimit(RLIMIT_FSIZE, &all) != 0)
        return 5;
    if (knows(&unit, "train/small"))
        return 6;
    return purge(&unit, "train/") == OK ? 0 : 7;
}

/* The disk had room for a part of an append: its first record is whole. The log stays open. */
TEST(a_purge_covers_the_records_of_an_append_that_failed)
{
    in_child(purge_after_half_an_append);
    struct unit_store unit = unit_open();
    ok(has_object(&unit, "val/first", "\"1\"", MIB));
    ok(!knows(&unit, "train/small"));
    unit_close(&unit);
}

static int open_it(void)
{
    struct unit_store unit = unit_open();
    unit_close(&unit);
    return 0;
}

/* A hostile extent: its only record begins between two multiples of 64, and its table says so. */
TEST(a_record_at_an_odd_offset_does_not_end_the_process)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "val/first", "\"1\"", 5000) == OK);
    unit_close(&unit);
    struct toc_footer footer = footer_of(1);
    struct toc_entry row;
    uint8_t bytes[16384], end[TOC_FOOTER_BYTES];
    int fd = open(in_folder("extents/00000001"), O_RDWR);
    ok(footer.count == 1 && pread(fd, &row, sizeof(row), footer.offset) == (ssize_t)sizeof(row));
    size_t len = toc_entry_record_bytes(&row);
    ok(len <= sizeof(bytes) && pread(fd, bytes, len, row.offset) == (ssize_t)len);
    row.offset += 8;
    ok(row.offset + len <= footer.offset && pwrite(fd, bytes, len, row.offset) == (ssize_t)len);
    footer.rows_crc = crc32c(0, &row, sizeof(row));
    toc_footer_encode(&footer, end);
    ok(pwrite(fd, &row, sizeof(row), footer.offset) == (ssize_t)sizeof(row));
    off_t at = lseek(fd, 0, SEEK_END) - (off_t)sizeof(end);
    ok(pwrite(fd, end, sizeof(end), at) == (ssize_t)sizeof(end));
    close(fd);
    lose_index();
    in_child(open_it);
}

RUN_STORE(STORE_TEST(a_purge_covers_the_records_of_an_append_that_failed),
          STORE_TEST(a_record_at_an_odd_offset_does_not_end_the_process),
          STORE_TEST(a_purge_hides_its_prefix_at_once_and_deletes_it_later),
          STORE_TEST(what_is_purged_does_not_count_as_evicted),
          STORE_TEST(a_fill_from_before_a_purge_stores_nothing),
          STORE_TEST(old_units_do_not_come_back_to_life),
          STORE_TEST(purged_bytes_are_not_stored_again_with_new_metadata),
          STORE_TEST(a_purge_of_a_key_leaves_longer_keys), STORE_TEST(a_purge_outlives_a_crash),
          STORE_TEST(an_index_that_is_built_anew_does_not_bring_purged_records_back),
          STORE_TEST(the_file_says_that_a_purge_is_not_swept_before_the_folder_serves),
          STORE_TEST(a_purged_record_behind_a_lost_header_is_not_served_after_the_sweep),
          STORE_TEST(a_purge_covers_an_extent_that_could_not_be_opened),
          STORE_TEST(a_purge_ends_although_nobody_can_list_some_records),
          STORE_TEST(a_purge_ends_although_the_end_of_an_extent_is_damaged),
          STORE_TEST(a_purge_ends_although_an_extent_can_not_be_used),
          STORE_TEST(a_repair_does_not_bring_purged_records_back),
          STORE_TEST(a_damaged_file_of_bans_bans_everything),
          STORE_TEST(units_in_another_folder_than_their_metadata_are_swept_by_their_name),
          STORE_TEST(a_purge_says_which_folders_wait_for_names_in_a_folder_that_is_out),
          STORE_TEST(a_purge_of_another_bucket_waits_for_no_names),
          STORE_TEST(a_folder_that_was_out_takes_the_purges_that_it_missed),
          STORE_TEST(a_folder_that_returns_at_a_start_takes_the_purges_that_it_missed),
          STORE_TEST(a_folder_that_returns_long_after_a_start_takes_the_purges_that_it_missed),
          STORE_TEST(no_folder_in_service_refuses_a_purge_that_would_be_lost),
          STORE_TEST(a_folder_that_returns_after_a_purge_was_forgotten_serves_nothing_old),
          STORE_TEST(of_two_folders_that_both_forgot_a_purge_neither_serves_anything_old),
          STORE_TEST(a_folder_that_lacks_an_older_one_of_the_forgotten_purges_serves_nothing_old),
          STORE_TEST(a_folder_is_emptied_once_for_all_purges_that_it_lacks),
          STORE_TEST(a_crash_while_a_purge_is_forgotten_empties_no_folder),
          STORE_TEST(a_folder_that_finds_out_late_that_a_purge_was_forgotten_serves_nothing_old),
          STORE_TEST(a_folder_that_finds_out_late_that_another_purge_was_forgotten_serves_nothing_old),
          STORE_TEST(a_folder_that_lost_its_format_file_tells_of_the_purges_that_it_forgot),
          STORE_TEST(an_older_state_of_a_folder_serves_nothing_that_was_purged_since),
          STORE_TEST(an_older_state_that_takes_the_place_of_a_folder_serves_nothing_that_was_purged_since),
          STORE_TEST(a_folder_takes_a_purge_that_is_older_than_its_newest_one),
          STORE_TEST(a_folder_takes_such_a_purge_also_while_it_serves),
          STORE_TEST(purging_goes_on_when_more_purges_are_needed_than_the_file_has_rows_for),
          STORE_TEST(a_merge_loses_no_purge_that_a_folder_never_took),
          STORE_TEST(a_wider_purge_takes_the_place_of_others_and_too_long_ones_are_refused),
          STORE_TEST(merged_bans_cover_all_that_was_banned),
          STORE_TEST(no_copy_of_a_purged_record_outlives_the_purge),
          STORE_TEST(units_of_another_prefix_are_copied_while_a_purge_is_not_swept),
          STORE_TEST(metadata_read_while_a_purge_waits_for_the_committer_is_not_served_later),
          STORE_TEST(a_look_up_that_hangs_stops_neither_a_purge_nor_other_look_ups))
