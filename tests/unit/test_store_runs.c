/* test_store_runs.c - folders that were not in service together: which of them missed something.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include "store/runs.h"

#define FOLDERS_MAX 3u

static char paths[FOLDERS_MAX][80];
static struct store_folder folders[FOLDERS_MAX];

/* A letter for each folder. */
static struct unit_store open_these(const char *names)
{
    struct unit_store unit = { 0 };
    struct store_options options = options_of(0, 4 * MIB);
    slice whys[FOLDERS_MAX];
    size_t count = strlen(names);
    for (size_t i = 0; i < count; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%c", unit_folder, names[i]);
        folders[i] = (struct store_folder){ paths[i], 64 * MIB };
    }
    options.folders = folders;
    options.folder_count = count;
    ok(store_open(&options, &unit.keep, &unit.store, whys) == OK);
    unit.box = mailbox_new();
    unit.io = store_io_new(unit.store, unit.box);
    return unit;
}

/* A link to nowhere takes the place of the folder, so that no new folder is made meanwhile. */
static void away(char name)
{
    char path[80], gone[88];
    snprintf(path, sizeof(path), "%s/%c", unit_folder, name);
    snprintf(gone, sizeof(gone), "%s-gone", path);
    ok(rename(path, gone) == 0 && symlink("no/such/folder", path) == 0);
}

static void back(char name)
{
    char path[80], gone[88];
    snprintf(path, sizeof(path), "%s/%c", unit_folder, name);
    snprintf(gone, sizeof(gone), "%s-gone", path);
    ok(unlink(path) == 0 && rename(gone, path) == 0);
}

static bool serves(struct unit_store *unit, size_t folder)
{
    struct store_status status;
    store_folder_status(unit->store, folder, &status);
    return status.serving;
}

/* Sets `key` to one whose metadata lies in this folder. */
static void key_in(struct unit_store *unit, size_t folder, char key[32])
{
    static unsigned number;
    struct object_id id;
    do {
        snprintf(key, 32, "key%u", number++);
        struct object_name name = name_of(key);
        store_object_id(unit->store, &name, &id);
    } while (store_home(unit->store, &id) != unit->store->volumes[folder]);
}

/* An object in each folder. */
static char keys[FOLDERS_MAX][32];

static void put_keys(struct unit_store *unit)
{
    for (size_t i = 0; i < unit->store->volume_count; i++) {
        if (!serves(unit, i))
            continue;
        key_in(unit, i, keys[i]);
        ok(put_object(unit, keys[i], "\"1\"", 10) == OK && !is_unproved(unit, keys[i]));
    }
}

/* True while the list of volumes in a format file is an earlier one. */
static bool moves(struct unit_store *unit)
{
    bool any = false;
    for (size_t i = 0; i < unit->store->volume_count; i++) {
        struct volume *volume = unit->store->volumes[i];
        pthread_mutex_lock(&volume->queue.lock);
        any |= volume->upkeep.moved.active;
        pthread_mutex_unlock(&volume->queue.lock);
    }
    return any;
}

static void run_with(const char *names)
{
    struct unit_store unit = open_these(names);
    soon(!moves(&unit));
    unit_close(&unit);
}

/* The objects are proved at the end of this run. */
static void run_and_put(const char *names)
{
    struct unit_store unit = open_these(names);
    soon(!moves(&unit));
    put_keys(&unit);
    unit_close(&unit);
}

static void first_run(const char *names)
{
    run_and_put(names);
    struct unit_store unit = open_these(names);
    for (size_t i = 0; names[i]; i++)
        ok(!is_unproved(&unit, keys[i]));
    unit_close(&unit);
}

static bool is_restated(struct unit_store *unit, const char *key)
{
    struct metadata *metadata = get_metadata(unit, key);
    bool restated = metadata && metadata->restated;
    metadata_unref(&metadata);
    return restated;
}

/* Opens all, and looks which folders are doubted: one digit for each. */
static void doubted(const char *names, const char *expected)
{
    struct unit_store unit = open_these(names);
    char found[FOLDERS_MAX + 1] = "";
    for (size_t i = 0; names[i]; i++) {
        bool unproved = is_unproved(&unit, keys[i]);
        found[i] = unproved ? '1' : '0';
        ok(unproved == is_restated(&unit, keys[i]));
    }
    same(slice_of(found), slice_of(expected));
    unit_close(&unit);
}

/* ---- folders in service one after the other ---- */

static struct format page_of(char name)
{
    char path[80];
    struct format format;
    const char *why;
    snprintf(path, sizeof(path), "%s/%c", unit_folder, name);
    ok(folder_peek(path, &format, &why) == OK);
    return format;
}

static void one_after_the_other(int starts)
{
    first_run("ab");
    away('b');
    for (int i = 0; i < starts; i++)
        run_and_put("ab");
    back('b');
    away('a');
    run_and_put("ab");
    back('a');
    doubted("ab", "11");
}

TEST(folders_in_service_one_after_the_other_both_missed_a_run)
{
    one_after_the_other(1);
}

TEST(the_number_of_their_runs_does_not_matter)
{
    one_after_the_other(3);
}

TEST(a_folder_that_was_there_all_the_time_keeps_its_proof)
{
    first_run("abc");
    away('c');
    run_and_put("abc");
    run_and_put("abc");
    back('c');
    doubted("abc", "001");
}

TEST(a_folder_that_was_not_configured_missed_a_run)
{
    first_run("abc");
    run_with("ab");
    struct format a = page_of('a'), b = page_of('b'), c = page_of('c');
    ok(runs_missed(&c, &a) && runs_missed(&c, &b));
    ok(!runs_missed(&a, &c) && !runs_missed(&b, &c) && !runs_missed(&a, &b));
    struct unit_store unit = open_these("abc");
    ok(is_unproved(&unit, keys[2]) && is_restated(&unit, keys[2]));
    unit_close(&unit);
}

/* Folder c alone knows that the other two missed its run, and they know nothing of each other's. */
TEST(each_folder_tells_of_its_own_runs)
{
    first_run("abc");
    away('a');
    away('b');
    run_and_put("abc");
    back('a');
    back('b');
    doubted("abc", "110");
}

TEST(a_doubt_ends_with_the_run_in_which_the_folder_is_back)
{
    struct unit_store unit;
    first_run("ab");
    away('b');
    run_with("ab");
    back('b');
    unit = open_these("ab");
    put_keys(&unit);    /* new ones, which are proved */
    unit_close(&unit);
    doubted("ab", "00");
}

/* ---- folders that can't be read ---- */

/* Another process may have used that one alone. */
TEST(a_folder_is_doubted_while_another_one_cannot_be_read)
{
    struct unit_store unit;
    first_run("ab");
    away('b');
    for (int i = 0; i < 2; i++) {
        unit = open_these("ab");
        ok(is_unproved(&unit, keys[0]) && is_restated(&unit, keys[0]));
        ok(store_folder_is_unread(unit.store, 1) && !store_folder_is_unread(unit.store, 0));
        put_keys(&unit);
        unit_close(&unit);
    }
    back('b');
    unit = open_these("ab");
    ok(!is_unproved(&unit, keys[0]) && is_unproved(&unit, keys[1]));
    ok(!store_folder_is_unread(unit.store, 1) && !store_folder_left(unit.store));
    unit_close(&unit);
}

TEST(a_folder_that_left_the_settings_causes_one_doubt)
{
    struct unit_store unit;
    first_run("ab");
    for (int i = 0; i < 2; i++) {
        unit = open_these("a");
        ok(is_unproved(&unit, keys[0]) == (i == 0));
        ok(store_folder_left(unit.store) == (i == 0));
        soon(!moves(&unit));
        put_keys(&unit);
        unit_close(&unit);
    }
}

TEST(a_folder_that_was_never_in_service_causes_no_doubt)
{
    struct unit_store unit;
    ok(symlink("no/such/folder", in_folder("b")) == 0);
    run_and_put("ab");
    unit = open_these("ab");
    ok(!serves(&unit, 1) && !is_unproved(&unit, keys[0]));
    ok(!store_folder_is_unread(unit.store, 1) && !store_folder_left(unit.store));
    unit_close(&unit);
    ok(unlink(in_folder("b")) == 0);
    unit = open_these("ab");
    ok(serves(&unit, 1) && !is_unproved(&unit, keys[0]));
    unit_close(&unit);
}

/* ---- copies ---- */

static void copy(char from, char to)
{
    char command[200];
    snprintf(command, sizeof(command), "cp -a %s/%c %s/%c", unit_folder, from, unit_folder, to);
    ok(system(command) == 0);
}

/* The copy stays out of service, but its format file tells of its run. */
TEST(a_folder_whose_copy_was_in_use_is_doubted_once)
{
    struct unit_store unit;
    first_run("a");
    copy('a', 'y');
    run_with("y");
    unit = open_these("ay");
    ok(is_unproved(&unit, keys[0]) && serves(&unit, 0) && !serves(&unit, 1));
    key_in(&unit, 0, keys[0]);
    ok(put_object(&unit, keys[0], "\"1\"", 10) == OK);
    unit_close(&unit);
    unit = open_these("ay");
    ok(!is_unproved(&unit, keys[0]));
    unit_close(&unit);
}

TEST(a_copy_that_was_never_in_use_causes_no_doubt)
{
    struct unit_store unit;
    first_run("a");
    copy('a', 'y');
    unit = open_these("ay");
    ok(!is_unproved(&unit, keys[0]));
    unit_close(&unit);
}

/* Of two states of a folder, the older one comes back. */
TEST(an_older_state_of_a_folder_is_doubted)
{
    first_run("ab");
    copy('b', 'y');
    run_with("ab");
    remove_tree(in_folder("b"));
    ok(rename(in_folder("y"), in_folder("b")) == 0);
    doubted("ab", "01");
}

/* ---- folders that leave while others serve ---- */

TEST(a_folder_that_left_and_came_back_costs_the_others_no_proof)
{
    struct unit_store unit = open_these("abc");
    put_keys(&unit);
    away('b');
    soon(!serves(&unit, 1));
    back('b');
    soon(serves(&unit, 1));
    put_keys(&unit);
    unit_close(&unit);
    doubted("abc", "000");
}

TEST(the_others_write_that_a_folder_left)
{
    struct unit_store unit = open_these("abc");
    put_keys(&unit);
    away('b');
    soon(!serves(&unit, 1));
    struct format first = page_of('a');
    soon(page_of('a').serial > first.shared[1] && page_of('c').serial == page_of('a').serial);
    unit_close(&unit);
    back('b');
    struct format a = page_of('a'), b = page_of('b'), c = page_of('c');
    ok(runs_missed(&b, &a) && runs_missed(&b, &c));
    ok(!runs_missed(&a, &b) && !runs_missed(&c, &b) && !runs_missed(&a, &c));
    doubted("abc", "010");
}

/* ---- the format files ---- */

/* A process that ends without a word, just after it has opened the first folder alone. */
TEST(a_crash_between_two_writes_causes_doubt)
{
    first_run("ab");
    struct format a = page_of('a'), b = page_of('b');
    ok(!runs_missed(&a, &b) && !runs_missed(&b, &a));
    a.serial++;    /* the first write of the next opening */
    ok(!runs_missed(&a, &b) && runs_missed(&b, &a));
    b.serial = b.shared[0] = a.serial;    /* b opens, sees a, and writes first */
    ok(runs_missed(&a, &b) && runs_missed(&b, &a));
    a.shared[1] = a.serial;
    ok(!runs_missed(&a, &b) && !runs_missed(&b, &a));
}

static void write_page(char name, const struct format *format)
{
    char path[100];
    uint8_t bytes[FORMAT_BYTES_MAX];
    size_t len = format_encode(format, bytes);
    snprintf(path, sizeof(path), "%s/%c/format", unit_folder, name);
    int fd = open(path, O_WRONLY | O_TRUNC);
    ok(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
}

/* As after a start with a folder that was used elsewhere, while the clock was ahead. */
TEST(a_folder_from_the_future_is_not_ahead_of_the_present_run)
{
    first_run("ab");
    struct format b = page_of('b');
    b.serial += UINT64_C(1) << 50;
    write_page('b', &b);
    struct unit_store unit = open_these("ab");
    ok(is_unproved(&unit, keys[0]));
    put_keys(&unit);
    unit_close(&unit);
    ok(page_of('a').serial > b.serial && page_of('b').serial == page_of('a').serial);
    away('b');
    unit = open_these("ab");
    back('b');
    b = page_of('b');
    b.serial += UINT64_C(1) << 50;
    write_page('b', &b);
    soon(serves(&unit, 1));
    soon(page_of('a').serial > b.serial);
    unit_close(&unit);
    ok(page_of('b').serial == page_of('a').serial);
}

/* ---- folders in use ---- */

static void number_volumes(struct route_row *rows)
{
    for (uint8_t i = 0; i < 3; i++)
        rows[i] = (struct route_row){ .id = { i }, .weight = 1 };
}

/* After a crash, its file must still lack the shared run (bans.c). */
TEST(a_folder_that_lacks_purges_shares_no_run)
{
    struct installation *all = must_alloc(sizeof(*all));
    struct format format = { .serial = 5, .volume_count = 3, .shared = { 0, 5, 5 } };
    number_volumes(all->route);
    number_volumes(format.volumes);
    all->count = 3;
    atomic_store(&all->runs.serial, 9);
    for (size_t i = 0; i < 3; i++)
        atomic_store(&all->runs.serving[i], true);
    ban_list_init(&all->bans);
    ban_list_missed(&all->bans, 2);
    ok(runs_note(all, &format) && format.serial == 9 && format.shared[1] == 9 && format.shared[2] == 5);
    atomic_store(&all->bans.missed[2], false);
    ok(runs_note(all, &format) && format.shared[2] == 9 && !runs_note(all, &format));
    ban_list_end(&all->bans);
    free(all);
}

TEST(a_folder_that_is_opened_late_tells_which_others_missed_a_run)
{
    struct installation *all = must_alloc(sizeof(*all));
    struct format format = { .volume_count = 3, .shared = { 0, 7, 5 } };
    bool missed[VOLUMES_MAX];
    number_volumes(all->route);
    number_volumes(format.volumes);
    all->count = 3;
    atomic_store(&all->runs.began[1], 8);
    atomic_store(&all->runs.began[2], 8);
    runs_missed_of(all, 0, &format, 7, missed);
    ok(!missed[0] && !missed[1] && missed[2] && !missed[3]);
    atomic_store(&all->runs.began[1], 6);    /* an older state of the folder */
    runs_missed_of(all, 0, &format, 7, missed);
    ok(!missed[0] && missed[1] && missed[2] && atomic_load(&all->runs.began[0]) == 7);
    free(all);
}

RUN_STORE(STORE_TEST(folders_in_service_one_after_the_other_both_missed_a_run),
          STORE_TEST(the_number_of_their_runs_does_not_matter),
          STORE_TEST(a_folder_that_was_there_all_the_time_keeps_its_proof),
          STORE_TEST(a_folder_that_was_not_configured_missed_a_run),
          STORE_TEST(each_folder_tells_of_its_own_runs),
          STORE_TEST(a_doubt_ends_with_the_run_in_which_the_folder_is_back),
          STORE_TEST(a_folder_is_doubted_while_another_one_cannot_be_read),
          STORE_TEST(a_folder_that_left_the_settings_causes_one_doubt),
          STORE_TEST(a_folder_that_was_never_in_service_causes_no_doubt),
          STORE_TEST(a_folder_whose_copy_was_in_use_is_doubted_once),
          STORE_TEST(a_copy_that_was_never_in_use_causes_no_doubt),
          STORE_TEST(an_older_state_of_a_folder_is_doubted),
          STORE_TEST(a_folder_that_left_and_came_back_costs_the_others_no_proof),
          STORE_TEST(the_others_write_that_a_folder_left),
          STORE_TEST(a_crash_between_two_writes_causes_doubt),
          STORE_TEST(a_folder_from_the_future_is_not_ahead_of_the_present_run),
          STORE_TEST(a_folder_that_lacks_purges_shares_no_run),
          STORE_TEST(a_folder_that_is_opened_late_tells_which_others_missed_a_run))
