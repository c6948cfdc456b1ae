/* test_store_pins.c - pinned prefixes: the table, and objects that stay.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pins_unit.h"
#include "testing_unit.h"

#include "store/pin_pass.h"
#include "store/walk.h"

/* ---- the table ---- */

static void set(struct pins *pins, const char *prefix, bool pinned, bool was)
{
    bool before;
    ok(pins_set(pins, slice_of(prefix), pinned, &before) == OK && before == was);
}

static bool have(struct pins *pins, const char *name)
{
    return pins_have(pins, slice_of(name));
}

TEST(a_name_is_pinned_by_any_of_its_prefixes)
{
    struct pins *pins = pins_new();
    ok(pins_are_none(pins) && !have(pins, "a") && pins_version(pins) == 0);
    set(pins, "a/", true, false);
    set(pins, "a/b/c/", true, false);
    set(pins, "a/b/c/d", true, false);
    set(pins, "b", true, false);
    set(pins, "a/b/c/", true, true);
    ok(pins_version(pins) == 4);
    ok(have(pins, "a/") && have(pins, "a/z") && have(pins, "a/b/c/e") && have(pins, "b"));
    ok(have(pins, "a/b/c/dd") && have(pins, "a/b/a") && !have(pins, "a") && !have(pins, "A/"));
    ok(!have(pins, "c") && !have(pins, ""));
    set(pins, "a/", false, true);
    ok(!have(pins, "a/z") && have(pins, "a/b/c/e") && !have(pins, "a/b/c") && have(pins, "a/b/c/dz"));
    set(pins, "", true, false);
    ok(have(pins, "") && have(pins, "c") && have(pins, "\xff"));
    pins_free(&pins);
    ok(pins == NULL);
}

/* Against the plain question, on random short names of few letters. */
TEST(any_set_of_prefixes_is_found)
{
    srand(7);
    for (int round = 0; round < 300; round++) {
        struct pins *pins = pins_new();
        char prefixes[12][6], name[8];
        bool pinned[12];
        for (int i = 0; i < 12; i++) {
            int len = rand() % 5;
            for (int k = 0; k < len; k++)
                prefixes[i][k] = (char)('a' + rand() % 2);
            prefixes[i][len] = '\0';
            bool was;
            pinned[i] = rand() % 3 > 0;
            for (int k = 0; k < i; k++)
                if (strcmp(prefixes[k], prefixes[i]) == 0)
                    pinned[k] = pinned[i];
            ok(pins_set(pins, slice_of(prefixes[i]), pinned[i], &was) == OK);
        }
        for (int i = 0; i < 64; i++) {
            int len = rand() % 7;
            bool want = false;
            for (int k = 0; k < len; k++)
                name[k] = (char)('a' + rand() % 2);
            name[len] = '\0';
            for (int k = 0; k < 12; k++)
                want |= pinned[k] && strncmp(name, prefixes[k], strlen(prefixes[k])) == 0;
            ok(have(pins, name) == want);
        }
        pins_free(&pins);
    }
}

static bool merge_file(struct pins *to, struct pins *from)
{
    struct arena keep = { 0 };
    struct pin *rows;
    size_t count;
    uint64_t serial, version;
    ok(pins_decode(pins_file(from, &keep, &version), &keep, &rows, &count, &serial) == OK);
    bool same = pins_merge(to, rows, count, serial);
    arena_free(&keep);
    return same;
}

TEST(the_row_with_the_higher_serial_counts)
{
    struct pins *a = pins_new(), *b = pins_new();
    set(a, "x", true, false);
    set(a, "y", true, false);
    ok(merge_file(b, a) && have(b, "x") && have(b, "y"));
    set(b, "x", false, true);
    set(b, "z", true, false);
    ok(!merge_file(b, a) && !have(b, "x"));    /* an older file changes nothing, and lacks rows */
    ok(merge_file(a, b) && !have(a, "x") && have(a, "z"));
    uint64_t version = pins_version(a);
    ok(merge_file(a, b) && pins_version(a) == version);
    pins_free(&a);
    pins_free(&b);
}

TEST(a_full_table_forgets_what_is_unpinned_and_nothing_else)
{
    struct pins *pins = pins_new();
    char name[16];
    bool was;
    for (unsigned i = 0; i < PREFIX_ROWS_MAX; i++) {
        snprintf(name, sizeof(name), "p%04u", i);
        set(pins, name, true, false);
    }
    ok(pins_set(pins, S("more"), true, &was) == ERR_LIMIT && !have(pins, "more"));
    set(pins, "p0007", false, true);
    set(pins, "more", true, false);
    ok(pins_set(pins, S("another"), true, &was) == ERR_LIMIT);
    ok(have(pins, "more") && have(pins, "p0008") && !have(pins, "p0007"));
    pins_free(&pins);
}

/* ---- objects ---- */

/* Objects that nobody reads again. */
static void stream(struct unit_store *unit, const char *prefix, unsigned megabytes)
{
    put_many(unit, prefix, (int)megabytes, 1000 * 1000);
}

TEST(what_is_pinned_outlives_20_times_the_cache_and_goes_when_it_is_unpinned)
{
    struct unit_store unit = open_with(50);
    put_many(&unit, "keep/small", 50, 20000);
    put_many(&unit, "keep/large", 5, 3 * MIB + 100);
    put_many(&unit, "other/", 10, 500000);
    ok(pin(&unit, "keep/", true) && !pin(&unit, "keep/", true));
    uint64_t before = weight(&unit).pinned;
    ok(before > 16 * MIB && before < 18 * MIB && weight(&unit).budget == SIZE / 100 * 50);
    stream(&unit, "noise", rounds_of(20, 5) * 64);
    ok(count_many(&unit, "keep/small", 50, 20000) == 50);
    ok(count_many(&unit, "keep/large", 5, 3 * MIB + 100) == 5);
    ok(count_many(&unit, "other/", 10, 500000) == 0);
    ok(weight(&unit).pinned == before && metric_read(M_PINS_LOST) == 0);
    ok(pin(&unit, "keep/", false) && weight(&unit).pinned == 0);
    stream(&unit, "more", rounds_of(5, 3) * 64);
    ok(count_many(&unit, "keep/small", 50, 20000) + count_many(&unit, "keep/large", 5, 3 * MIB + 100) == 0);
    unit_close(&unit);
}

TEST(what_comes_is_pinned_and_a_restart_forgets_nothing)
{
    struct unit_store unit = open_with(50);
    pin(&unit, "keep/", true);
    put_many(&unit, "keep/", 10, 1000 * 1000);
    uint64_t before = weight(&unit).pinned;
    ok(before > 10000000);
    for (int round = 0; round < 2; round++) {
        stream(&unit, "noise", 3 * 64);
        unit_close(&unit);
        unit = open_with(50);
        stream(&unit, "more", 3 * 64);    /* perhaps before the pass has ended */
        ok(count_many(&unit, "keep/", 10, 1000 * 1000) == 10);
    }
    ok(weight(&unit).pinned == before);
    unit_close(&unit);
}

TEST(what_does_not_fit_in_the_budget_is_an_ordinary_object)
{
    struct unit_store unit = open_with(25);
    pin(&unit, "keep/", true);
    uint64_t over = metric_read(M_PINS_OVER);
    put_many(&unit, "keep/", 30, 1000 * 1000);
    struct pin_bytes bytes = weight(&unit);
    ok(bytes.pinned <= bytes.budget && bytes.pinned > bytes.budget - 1200000);
    ok(metric_read(M_PINS_OVER) > over);
    stream(&unit, "noise", 10 * 64);
    int left = count_many(&unit, "keep/", 30, 1000 * 1000);
    ok(left == 16);
    /* A write of a pinned object is pinned in place of the old version. */
    for (int i = 0; i < 40; i++)
        ok(put_object(&unit, "keep/3", i % 2 ? "\"1\"" : "\"2\"", 1000 * 1000) == OK);
    ok(weight(&unit).pinned == bytes.pinned);
    unit_close(&unit);
    uint64_t unpinned = metric_read(M_PINS_UNPINNED);
    unit = open_with(12);    /* a smaller budget: what fits */
    pin(&unit, "keep/", true);
    unpinned = metric_read(M_PINS_UNPINNED) - unpinned;
    ok(unpinned > 8000000 && unpinned < 10000000);
    ok(store_folder_unpinned(unit.store, 0) == unpinned);
    bytes = weight(&unit);
    ok(bytes.pinned <= bytes.budget && bytes.pinned > bytes.budget - 1200000);
    unit_close(&unit);
}

TEST(a_pin_of_everything_leaves_room_for_the_recycler)
{
    struct unit_store unit = open_with(80);
    pin(&unit, "", true);
    stream(&unit, "a", 2 * 64);
    struct pin_bytes bytes = weight(&unit);
    ok(bytes.budget == SIZE - 4 * EXTENT && bytes.pinned <= bytes.budget);
    int first = count_many(&unit, "a", 128, 1000 * 1000);
    ok(first >= 46);
    stream(&unit, "b", 2 * 64);
    ok(count_many(&unit, "a", 48, 1000 * 1000) >= 46);
    unit_close(&unit);
}

TEST(units_without_metadata_do_not_stay_pinned)
{
    struct unit_store unit = open_with(50);
    pin(&unit, "keep/", true);
    put_many(&unit, "keep/", 4, 4 * MIB);
    uint64_t before = weight(&unit).pinned;
    ok(remove_object(&unit, "keep/0") == OK && remove_object(&unit, "keep/1") == OK);
    pin(&unit, "keep/", true);
    ok(weight(&unit).pinned < before * 51 / 100 && weight(&unit).pinned > before * 49 / 100);
    unit_close(&unit);
}

static void *unpin_keep(void *arg)
{
    ok(pin(arg, "keep/", false));
    return NULL;
}

/* The pass begins after the committer has taken the record, and before it notes that it wrote it. */
TEST(a_record_that_the_committer_has_in_hand_at_the_last_unpin_is_not_pinned)
{
    struct unit_store unit = open_with(50);
    pthread_t thread;
    pin(&unit, "keep/", true);
    hold_next(FAIL_APPEND);
    struct unit_put put = put_begin(&unit, "keep/late", "\"1\"", 100000);
    soon(is_held(FAIL_APPEND));
    ok(pthread_create(&thread, NULL, unpin_keep, &unit) == 0);
    soon(atomic_load(&unit.store->volumes[0]->pinned.passing));
    let_go(FAIL_APPEND);
    ok(put_wait(&put) == OK);
    pthread_join(thread, NULL);
    ok(!must_stay(&unit, unit.store->volumes[0], "keep/late", 0) && weight(&unit).pinned == 0);
    unit_close(&unit);
}

TEST(a_smaller_cache_keeps_what_is_pinned)
{
    struct unit_store unit = open_with(50);
    for (int i = 0; i < 12; i++) {    /* spread over all extents */
        char key[40];
        snprintf(key, sizeof(key), "keep/%d", i);
        ok(put_object(&unit, key, "\"1\"", 1000 * 1000) == OK);
        snprintf(key, sizeof(key), "noise%d-", i);
        put_many(&unit, key, 4, 1000 * 1000);
    }
    pin(&unit, "keep/", true);
    unit_close(&unit);
    struct store_options options = options_of(32 * MIB, EXTENT);
    struct store_status status;
    options.pin_percent = 50;
    ok(unit_try(&unit, options) == OK);
    for (int i = 0; i < 1000; i++) {
        store_status(unit.store, &status);
        if (status.used_bytes <= 32 * MIB)
            break;
        usleep(10000);
    }
    ok(status.used_bytes <= 32 * MIB);
    ok(count_many(&unit, "keep/", 12, 1000 * 1000) == 12 && metric_read(M_PINS_LOST) == 0);
    unit_close(&unit);
}

/* ---- more pins than the budget has room for ---- */

#define SHOWN 64

/* The pinned objects of a walk, by prefix and number. */
struct shown {
    char prefix[8];
    bool pinned[SHOWN];
    int count;
};

static enum err show(void *arg, const struct walk_object *object)
{
    struct shown *shown = arg;
    int number = atoi(object->key.ptr + strlen(shown->prefix));    /* the name ends with NUL */
    ok(number >= 0 && number < SHOWN);
    shown->pinned[number] = object->pinned_bytes == object->size;
    shown->count += shown->pinned[number];
    return OK;
}

static struct shown pinned_of(struct unit_store *unit, const char *prefix)
{
    struct shown shown = { .count = 0 };
    struct walk_gaps gaps;
    snprintf(shown.prefix, sizeof(shown.prefix), "%s", prefix);
    ok(store_walk(unit->store, &(struct walk_ask){ .endpoint = S("http://origin"),
                                                   .bucket = S("bucket"), .prefix = slice_of(prefix),
                                                   .visit = show, .arg = &shown }, &gaps) == OK);
    return shown;
}

static bool same_pinned(const struct shown *a, const struct shown *b)
{
    return memcmp(a->pinned, b->pinned, sizeof(a->pinned)) == 0;
}

/* The younger pin has the lower extents, so a search in the order of the extents meets it first. */
TEST(the_older_pin_goes_first_at_a_restart_too)
{
    struct unit_store unit = open_with(25);
    put_many(&unit, "young/", 20, 1000 * 1000);
    put_many(&unit, "old/", 10, 1000 * 1000);
    pin(&unit, "old/", true);
    pin(&unit, "", true);
    struct shown old = pinned_of(&unit, "old/"), young = pinned_of(&unit, "young/");
    ok(old.count == 10 && young.count == 6);
    for (int round = 0; round < 2; round++) {
        unit_close(&unit);
        unit = open_with(25);
        ok(!pin(&unit, "", true));    /* changes nothing, and waits for the pass */
        struct shown now = pinned_of(&unit, "old/"), then = pinned_of(&unit, "young/");
        ok(same_pinned(&old, &now) && same_pinned(&young, &then));
    }
    unit_close(&unit);
}

/* The older pin had no room when its objects came: the next pass takes the room from the younger. */
TEST(an_older_pin_takes_the_room_of_a_younger_one)
{
    struct unit_store unit = open_with(25);
    pin(&unit, "old/", true);
    put_many(&unit, "young/", 20, 1000 * 1000);
    pin(&unit, "young/", true);
    ok(pinned_of(&unit, "young/").count == 16);
    put_many(&unit, "old/", 10, 1000 * 1000);
    ok(pinned_of(&unit, "old/").count == 0);
    pin(&unit, "old/", true);
    ok(pinned_of(&unit, "old/").count == 10 && pinned_of(&unit, "young/").count == 6);
    struct pin_bytes bytes = weight(&unit);
    ok(bytes.pinned <= bytes.budget && bytes.pinned > bytes.budget - 1200000);
    unit_close(&unit);
}

/* The pinned objects do not lie in the extents with the lowest numbers. */
static void pin_the_first_16(struct unit_store *unit)
{
    pin(unit, "keep/", true);
    put_many(unit, "keep/", 30, 1000 * 1000);
    for (int i = 0; i < 16; i++) {    /* the second time, the old version has left its room */
        char key[40];
        snprintf(key, sizeof(key), "keep/%d", i / 2);
        ok(put_object(unit, key, "\"1\"", 1000 * 1000) == OK);
    }
}

static bool are_the_first_16(struct unit_store *unit)
{
    struct shown shown = pinned_of(unit, "keep/");
    for (int i = 0; i < 30; i++)
        if (shown.pinned[i] != (i < 16))
            return false;
    return true;
}

TEST(a_restart_pins_the_records_that_were_pinned_before)
{
    struct unit_store unit = open_with(25);
    pin_the_first_16(&unit);
    ok(are_the_first_16(&unit));
    unit_close(&unit);
    unit = open_with(25);
    pin(&unit, "keep/", true);
    ok(are_the_first_16(&unit));
    unit_close(&unit);
}

static bool are_pins_saved(struct volume *volume)
{
    pthread_mutex_lock(&volume->recycler.lock);
    bool saved = !atomic_load(&volume->pinned.unsaved) && !volume->recycler.round.count;
    pthread_mutex_unlock(&volume->recycler.lock);
    return saved;
}

#define FAILURES 1000000

/* Waits until the write of each file has failed, or no file is left to write. */
static void fail_all_files(struct volume *volume)
{
    int left = atomic_load(&unit_fails[FAIL_AGES_WRITE].times);
    int most = left - 2 * (int)extents_count(volume->extents) - 2;
    soon(atomic_load(&unit_fails[FAIL_AGES_WRITE].times) <= most || are_pins_saved(volume));
    fail_next(FAIL_AGES_WRITE, 0, 0, 0);
}

/* `full`: the writes of the files of ages fail until all records are pinned. */
static void start_after_kill(bool full)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct unit_store unit = open_with(25);
        if (full)
            fail_next(FAIL_AGES_WRITE, 0, FAILURES, ENOSPC);
        pin_the_first_16(&unit);
        if (full)
            fail_all_files(unit.store->volumes[0]);
        soon(are_pins_saved(unit.store->volumes[0]));
        _exit(0);
    }
    ok(waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < 2; i++) {
        struct unit_store unit = open_with(25);
        pin(&unit, "keep/", true);
        ok(are_the_first_16(&unit));
        unit_close(&unit);
    }
}

TEST(so_does_a_start_after_a_kill)
{
    start_after_kill(false);
}

TEST(files_that_could_not_be_written_on_a_full_disk_are_written_later)
{
    start_after_kill(true);
}

/* ---- the stop ---- */

static void *pin_late(void *arg)
{
    struct unit_store *unit = arg;
    struct pin_name name = { S("http://origin"), S("bucket"), S("late/") };
    bool changed;
    return store_pin(unit->store, &name, 1, true, &changed) == ERR_STOPPING ? arg : NULL;
}

/* The lock of the pins holds up the pass, as a disk might. */
TEST(a_stop_ends_the_wait_for_a_pass_that_does_not_end)
{
    struct unit_store unit = open_with(50);
    struct pinned *pinned = &unit.store->volumes[0]->pinned;
    pthread_t thread;
    void *result;
    pthread_mutex_lock(&pinned->lock);
    ok(pthread_create(&thread, NULL, pin_late, &unit) == 0);
    soon(!pins_are_none(unit.store->pins));
    store_pin_end(unit.store);
    pthread_join(thread, &result);
    pthread_mutex_unlock(&pinned->lock);
    ok(result == &unit);
    unit_close(&unit);
}

/* ---- several volumes ---- */

/* A letter for each folder that the settings have. No folder counts as slow before `commit_ms`. */
static struct unit_store open_patiently(const char *names, uint32_t commit_ms)
{
    static char paths[3][80];
    static struct store_folder folders[3];
    struct unit_store unit = { 0 };
    struct store_options options = options_of(0, EXTENT);
    slice whys[3];
    options.folder_count = strlen(names);
    for (size_t i = 0; i < options.folder_count; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%c", unit_folder, names[i]);
        folders[i] = (struct store_folder){ paths[i], 256 * MIB };
    }
    options.folders = folders;
    options.queue_bytes_max = 512 * MIB;    /* a whole object waits here */
    options.commit_ms_max = commit_ms;
    options.pin_percent = 50;
    ok(store_open(&options, &unit.keep, &unit.store, whys) == OK);
    unit.box = mailbox_new();
    unit.io = store_io_new(unit.store, unit.box);
    return unit;
}

static struct unit_store open_these(const char *names)
{
    return open_patiently(names, 5000);
}

/* Pins or unpins the prefix while the committer of the first folder is in a long turn, so that the
 * pass leaves this folder out. */
static void pin_without_first(struct unit_store *unit, const char *prefix, bool pinned)
{
    struct volume *slow = unit->store->volumes[0];
    sem_t hang, held;
    struct unit_append append = { .hang = &hang, .held = &held };
    char key[40];
    sem_init(&hang, 0, 0);
    sem_init(&held, 0, 0);
    key_in(unit, 0, "slow/", key);
    struct metadata *metadata = make_metadata(unit, key, "\"1\"", 4);
    append_begin(unit, &append, metadata, 0, S("wxyz"), true);
    while (sem_wait(&held) != 0)
        ;
    atomic_store(&slow->service.busy_since_ms, 1);    /* for very long */
    ok(pin(unit, prefix, pinned) && !volume_is_serving(slow));
    ok(!pinned || !pinned_is_known(slow));
    sem_post(&hang);
    ok(append_wait(&append) == OK);
    metadata_unref(&metadata);
}

TEST(a_folder_that_a_pass_left_out_takes_part_in_another_one)
{
    struct unit_store unit = open_these("ab");
    struct volume *slow = unit.store->volumes[0];
    char key[40];
    pin_without_first(&unit, "other/", true);
    soon(pinned_is_known(slow));
    key_in(&unit, 0, "keep/", key);    /* not the first pass */
    ok(put_object(&unit, key, "\"1\"", 100000) == OK);
    pin_without_first(&unit, "keep/", true);
    soon(must_stay(&unit, slow, key, 0) && pinned_is_known(slow));
    unit_close(&unit);
}

/* Puts `count` objects below `prefix` in each of the two volumes. */
static void put_in_both(struct unit_store *unit, const char *prefix, int count)
{
    char below[40], key[40];
    for (int i = 0; i < 2 * count; i++) {
        snprintf(below, sizeof(below), "%s%d-", prefix, i / 2);
        key_in(unit, (size_t)i % 2, below, key);
        ok(put_object(unit, key, "\"1\"", 100000) == OK);
    }
}

/* True if a record is pinned, or must stay because it was. */
static bool holds_records(struct volume *volume)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    bool holds = false;
    pthread_mutex_lock(&volume->pinned.lock);
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++) {
        struct extent *extent = extent_ref(volume->extents, numbers[i]);
        for (uint32_t k = 0; extent && k < ages_limit(extent_ages_of(extent)); k++)
            holds |= ages_must_stay(extent_ages_of(extent), k);
        extent_release(&extent);
    }
    pthread_mutex_unlock(&volume->pinned.lock);
    arena_free(&keep);
    return holds;
}

TEST(a_folder_that_the_pass_of_the_last_unpin_left_out_frees_its_records_soon)
{
    struct unit_store unit = open_these("ab");
    pin(&unit, "keep/", true);
    put_in_both(&unit, "keep/", 1);
    ok(holds_records(unit.store->volumes[0]));
    pin_without_first(&unit, "keep/", false);
    soon(!holds_records(unit.store->volumes[0]));
    unit_close(&unit);
}

TEST(the_last_unpin_frees_all_records_while_a_folder_is_out_and_those_of_the_folder_later)
{
    struct unit_store unit = open_these("ab");
    struct volume *stays = unit.store->volumes[0], *fails = unit.store->volumes[1];
    pin(&unit, "keep/", true);
    put_in_both(&unit, "keep/", 3);
    ok(holds_records(stays) && holds_records(fails));
    soon(are_pins_saved(fails));
    take_away(in_folder("b"));
    soon(is_out(fails));
    pin(&unit, "keep/", false);
    ok(!holds_records(stays));
    bring_back(in_folder("b"));
    soon(volume_is_serving(fails));
    soon(!holds_records(fails));
    unit_close(&unit);
}

/* True if the record with the object's metadata and first bytes must stay. */
static bool stays_in(struct unit_store *unit, struct volume *volume, const char *key)
{
    return must_stay(unit, volume, key, 0);
}

/* The folder that is out of service has the metadata of an object that has records in the other
 * folder. The name of these records is not known, so they stay until the folder is back. */
TEST(an_unpin_frees_the_records_whose_names_are_known_while_a_folder_is_out)
{
    struct unit_store unit = open_these("ab");
    struct volume *stays = unit.store->volumes[0], *fails = unit.store->volumes[1];
    char goes[40], other[40], both[40];
    key_in(&unit, 0, "keep/", goes);
    key_in(&unit, 0, "other/", other);
    key_of_both(&unit, "keep/large", both);
    pin(&unit, "keep/", true);
    pin(&unit, "other/", true);
    ok(put_object(&unit, goes, "\"1\"", 3 * MIB) == OK && put_object(&unit, other, "\"1\"", 3 * MIB) == OK);
    ok(put_object(&unit, both, "\"1\"", 65 * MIB) == OK);
    soon(are_pins_saved(fails));
    take_away(in_folder("b"));
    soon(is_out(fails));
    uint64_t before = atomic_load(&stays->pinned.bytes);
    pin(&unit, "keep/", false);
    ok(!stays_in(&unit, stays, goes) && !must_stay(&unit, stays, goes, 2 * MIB / UNIT_BYTES));
    ok(stays_in(&unit, stays, other) && must_stay(&unit, stays, both, STRIPE_UNITS));
    ok(before - atomic_load(&stays->pinned.bytes) >= 3 * MIB);
    bring_back(in_folder("b"));
    soon(volume_is_serving(fails));
    soon(!must_stay(&unit, stays, both, STRIPE_UNITS));
    ok(stays_in(&unit, stays, other));
    unit_close(&unit);
}

/* ---- folders that are out in turn ---- */

static void goes_out(struct unit_store *unit, size_t volume)
{
    struct volume *fails = unit->store->volumes[volume];
    soon(are_pins_saved(fails));
    take_away(fails->folder.path);
    soon(is_out(fails));
}

static void comes_back(struct unit_store *unit, size_t volume)
{
    bring_back(unit->store->volumes[volume]->folder.path);
    soon(volume_is_serving(unit->store->volumes[volume]));
}

/* Puts a pinned object with metadata in the second folder and units in the first one. It is
 * unpinned while the first folder is out. Another prefix of the bucket stays pinned. */
static void unpin_while_out(struct unit_store *unit, char key[40])
{
    key_of_both(unit, "keep/large", key);
    pin(unit, "other/", true);
    pin(unit, "keep/", true);
    ok(put_object(unit, key, "\"1\"", 65 * MIB) == OK);
    ok(must_stay(unit, unit->store->volumes[0], key, STRIPE_UNITS));
    goes_out(unit, 0);
    pin(unit, "keep/", false);
}

static void await_pass(struct unit_store *unit)
{
    ok(pin_pass_wait(unit->store->pin_pass) == OK);
}

/* The third folder, which has nothing of the object, keeps each pass from knowing all names. */
TEST(a_folder_that_missed_an_unpin_learns_of_it_from_a_folder_that_has_the_name)
{
    struct unit_store unit = open_these("abc");
    char key[40];
    unpin_while_out(&unit, key);
    goes_out(&unit, 2);
    comes_back(&unit, 0);
    await_pass(&unit);
    ok(!must_stay(&unit, unit.store->volumes[0], key, STRIPE_UNITS));
    unit_close(&unit);
}

TEST(a_folder_that_missed_an_unpin_learns_of_it_when_the_folder_with_the_name_is_back)
{
    struct unit_store unit = open_these("abc");
    char key[40];
    unpin_while_out(&unit, key);
    goes_out(&unit, 1);
    comes_back(&unit, 0);
    await_pass(&unit);
    ok(must_stay(&unit, unit.store->volumes[0], key, STRIPE_UNITS));
    goes_out(&unit, 2);
    comes_back(&unit, 1);
    await_pass(&unit);
    ok(!must_stay(&unit, unit.store->volumes[0], key, STRIPE_UNITS));
    unit_close(&unit);
}

/* The folder with the name is out when the other one is back. */
TEST(a_folder_that_missed_an_unpin_frees_its_records_if_their_bucket_has_no_pin)
{
    struct unit_store unit = open_these("ab");
    struct pin_name elsewhere = { S("http://origin"), S("elsewhere"), S("") };
    char key[40];
    bool changed;
    ok(store_pin(unit.store, &elsewhere, 1, true, &changed) == OK && changed);
    unpin_while_out(&unit, key);
    pin(&unit, "other/", false);
    goes_out(&unit, 1);
    comes_back(&unit, 0);
    await_pass(&unit);
    ok(!must_stay(&unit, unit.store->volumes[0], key, STRIPE_UNITS));
    unit_close(&unit);
}

/* Asks for a pass. */
typedef void asks(struct unit_store *unit);

/* Makes a pass that takes at least last_ms, and calls `meanwhile` while it runs. Returns a time at
 * which the pause after it still lasts, if no pass without a pause is wanted. */
static uint64_t slow_pass(struct unit_store *unit, uint64_t last_ms, asks *meanwhile)
{
    struct volume *volume = unit->store->volumes[0];
    pthread_mutex_lock(&volume->recycler.lock);
    uint64_t number = pin_pass_want(unit->store->pin_pass);
    soon(atomic_load(&volume->pinned.passing));
    uint64_t begun_ms = mono_ms();
    if (meanwhile)
        meanwhile(unit);
    soon(mono_ms() >= begun_ms + last_ms);
    uint64_t ends_ms = mono_ms();
    pthread_mutex_unlock(&volume->recycler.lock);
    soon(pin_pass_is_done(unit->store->pin_pass, number));
    return ends_ms + (ends_ms - begun_ms);
}

/* Makes a pass that takes a while, and asks for more passes in the pause after it. Returns false if
 * the machine was too slow to ask before the end of the pause. */
static bool ask_in_pause(struct unit_store *unit, uint64_t last_ms)
{
    struct volume *volume = unit->store->volumes[0];
    uint64_t number, rounds = atomic_load(&volume->pinned.rounds);
    uint64_t pause_ms = slow_pass(unit, last_ms, NULL);
    for (int i = 0; i < 5; i++) {
        number = pin_pass_want(unit->store->pin_pass);
        usleep(20000);
    }
    bool in_pause = mono_ms() < pause_ms;
    soon(pin_pass_is_done(unit->store->pin_pass, number));
    ok(!in_pause || atomic_load(&volume->pinned.rounds) == rounds + 4);
    return in_pause;
}

TEST(passes_that_are_asked_for_in_the_pause_after_a_pass_become_one)
{
    struct unit_store unit = open_with(50);
    uint64_t last_ms = 1000;
    pin(&unit, "keep/", true);
    while (last_ms < 60000 && !ask_in_pause(&unit, last_ms))
        last_ms *= 2;
    unit_close(&unit);
}

/* Makes a pass that takes a while, and asks for the next one in the pause after it, or `early`:
 * while it runs. Returns false if the machine was too slow to see that the next pass began before
 * the end of the pause. */
static bool begins_in_pause(struct unit_store *unit, uint64_t last_ms, asks *ask, bool early)
{
    struct volume *volume = unit->store->volumes[0];
    uint64_t rounds = atomic_load(&volume->pinned.rounds) + 2;
    uint64_t pause_ms = slow_pass(unit, last_ms, early ? ask : NULL);
    if (!early)
        ask(unit);
    soon(atomic_load(&volume->pinned.rounds) > rounds);
    bool in_pause = mono_ms() < pause_ms;
    await_pass(unit);    /* no other pass is wanted then */
    return in_pause;
}

static bool has_no_pause(struct unit_store *unit, asks *ask, bool early)
{
    bool in_pause = false;
    for (unsigned i = 0; i < 6 && !in_pause; i++)    /* a longer walk is given up */
        in_pause = begins_in_pause(unit, MIN(500u << i, 4000u), ask, early);
    return in_pause;
}

static void ask_for_undo(struct unit_store *unit)
{
    pin_pass_want_now(unit->store->pin_pass);
}

TEST(a_pass_that_undoes_a_pin_has_no_pause_before_it)
{
    struct unit_store unit = open_with(50);
    pin(&unit, "keep/", true);
    ok(has_no_pause(&unit, ask_for_undo, false));
    ok(has_no_pause(&unit, ask_for_undo, true));
    unit_close(&unit);
}

/* As an opening does. */
static void ask_for_folder(struct unit_store *unit)
{
    struct volume *volume = unit->store->volumes[0];
    atomic_store(&volume->pinned.marked, false);
    pinned_opened(volume);
}

TEST(a_pass_for_a_folder_that_was_opened_has_no_pause_before_it)
{
    struct unit_store unit = open_with(50);
    pin(&unit, "keep/", true);
    ok(has_no_pause(&unit, ask_for_folder, false));
    unit_close(&unit);
}

/* Each time the cache shrinks, so that its budget is too small for the pinned records. */
static void ask_for_shrink(struct unit_store *unit)
{
    struct volume *volume = unit->store->volumes[0];
    uint64_t size = atomic_load(&volume->space.size_bytes);
    atomic_store(&volume->space.size_bytes, MIN(size, 34 * MIB) - 2 * MIB);
}

TEST(a_pass_that_a_shrinking_cache_waits_for_has_no_pause_before_it)
{
    struct unit_store unit = open_with(80);
    pin(&unit, "keep/", true);
    put_many(&unit, "keep/", 20, 1000 * 1000);
    ok(has_no_pause(&unit, ask_for_shrink, false));
    unit_close(&unit);
}

TEST(a_folder_that_missed_the_last_unpin_frees_its_records_when_it_is_opened)
{
    struct unit_store unit = open_these("ab");
    pin(&unit, "keep/", true);
    put_in_both(&unit, "keep/", 3);
    unit_close(&unit);
    unit = open_these("a");
    pin(&unit, "keep/", false);
    unit_close(&unit);
    unit = open_these("ab");
    soon(!holds_records(unit.store->volumes[0]) && !holds_records(unit.store->volumes[1]));
    unit_close(&unit);
}

/* The walk waits in the first volume until the second one has failed and is back. So it finds no
 * name in the second one, which has the name of an object with records in the first. The test holds
 * up the next walk. */
TEST(a_folder_that_fails_and_returns_while_a_pass_runs_costs_no_pins)
{
    struct unit_store unit = open_patiently("ab", 600000);
    struct volume *stays = unit.store->volumes[0], *fails = unit.store->volumes[1];
    char both[40];
    pin(&unit, "keep/", true);
    put_in_both(&unit, "keep/", 1);
    key_of_both(&unit, "keep/large", both);
    ok(put_object(&unit, both, "\"1\"", 65 * MIB) == OK);
    ok(must_stay(&unit, stays, both, STRIPE_UNITS));

    pthread_mutex_lock(&fails->recycler.lock);
    uint64_t begun = stays->pinned.rounds + 1;
    pin_pass_want(unit.store->pin_pass);
    soon(stays->pinned.rounds == begun && atomic_load(&fails->pinned.passing));
    pthread_mutex_lock(&stays->recycler.lock);
    pthread_mutex_lock(&stays->pinned.lock);
    pthread_mutex_unlock(&fails->recycler.lock);
    uint64_t before = turns(fails);
    soon(turns(fails) > before + 3);
    take_away(in_folder("b"));
    soon(is_out(fails));
    bring_back(in_folder("b"));
    soon(volume_is_serving(fails));
    pthread_mutex_unlock(&stays->pinned.lock);
    soon(stays->pinned.rounds > begun);
    ok(must_stay(&unit, stays, both, STRIPE_UNITS));
    pthread_mutex_unlock(&stays->recycler.lock);
    soon(!atomic_load(&stays->pinned.passing));
    unit_close(&unit);
}

TEST(a_volume_that_was_away_learns_the_pins_from_its_sibling)
{
    struct unit_store unit = open_these("ab");
    pin(&unit, "x/", true);
    pin(&unit, "y/", true);
    unit_close(&unit);
    unit = open_these("a");
    pin(&unit, "x/", false);
    pin(&unit, "z/", true);
    unit_close(&unit);
    unit = open_these("ba");
    bool missing[VOLUMES_MAX];
    pin(&unit, "z/", true);    /* changes nothing, and waits for the files */
    store_pins_missing(unit.store, missing);
    ok(!missing[0] && !missing[1]);
    unit_close(&unit);
    unit = open_these("b");
    struct arena keep = { 0 };
    struct pins_row *rows;
    struct pin_name name = { S("http://origin"), S("bucket"), S("") };
    ok(store_pins(unit.store, &name, &keep, &rows) == 2);
    same(rows[0].prefix, S("y/"));
    same(rows[1].prefix, S("z/"));
    arena_free(&keep);
    unit_close(&unit);
}

/* Its metadata lies in one volume, and each stripe of 64 MiB in one of the two. */
static enum err pinned_is_all(void *arg, const struct walk_object *object)
{
    (void)arg;
    ok(object->cached_bytes == object->size && object->pinned_bytes == object->size);
    return OK;
}

TEST(all_stripes_of_an_object_are_pinned)
{
    struct unit_store unit = open_these("ab");
    put_many(&unit, "keep/", 1, 70 * MIB);
    pin(&unit, "keep/", true);
    unit_close(&unit);
    unit = open_these("ab");
    pin(&unit, "keep/", true);
    struct walk_gaps gaps;
    ok(store_walk(unit.store, &(struct walk_ask){ .endpoint = S("http://origin"), .bucket = S("bucket"),
                                             .prefix = S(""), .visit = pinned_is_all }, &gaps) == OK);
    unit_close(&unit);
}

RUN_STORE(cmocka_unit_test(a_name_is_pinned_by_any_of_its_prefixes),
          cmocka_unit_test(any_set_of_prefixes_is_found),
          cmocka_unit_test(the_row_with_the_higher_serial_counts),
          cmocka_unit_test(a_full_table_forgets_what_is_unpinned_and_nothing_else),
          STORE_TEST(what_is_pinned_outlives_20_times_the_cache_and_goes_when_it_is_unpinned),
          STORE_TEST(what_comes_is_pinned_and_a_restart_forgets_nothing),
          STORE_TEST(what_does_not_fit_in_the_budget_is_an_ordinary_object),
          STORE_TEST(a_pin_of_everything_leaves_room_for_the_recycler),
          STORE_TEST(units_without_metadata_do_not_stay_pinned),
          STORE_TEST(a_record_that_the_committer_has_in_hand_at_the_last_unpin_is_not_pinned),
          STORE_TEST(a_smaller_cache_keeps_what_is_pinned),
          STORE_TEST(the_older_pin_goes_first_at_a_restart_too),
          STORE_TEST(an_older_pin_takes_the_room_of_a_younger_one),
          STORE_TEST(a_restart_pins_the_records_that_were_pinned_before),
          STORE_TEST(so_does_a_start_after_a_kill),
          STORE_TEST(files_that_could_not_be_written_on_a_full_disk_are_written_later),
          STORE_TEST(a_stop_ends_the_wait_for_a_pass_that_does_not_end),
          STORE_TEST(a_folder_that_a_pass_left_out_takes_part_in_another_one),
          STORE_TEST(a_folder_that_the_pass_of_the_last_unpin_left_out_frees_its_records_soon),
          STORE_TEST(the_last_unpin_frees_all_records_while_a_folder_is_out_and_those_of_the_folder_later),
          STORE_TEST(an_unpin_frees_the_records_whose_names_are_known_while_a_folder_is_out),
          STORE_TEST(a_folder_that_missed_an_unpin_learns_of_it_from_a_folder_that_has_the_name),
          STORE_TEST(a_folder_that_missed_an_unpin_learns_of_it_when_the_folder_with_the_name_is_back),
          STORE_TEST(a_folder_that_missed_an_unpin_frees_its_records_if_their_bucket_has_no_pin),
          STORE_TEST(passes_that_are_asked_for_in_the_pause_after_a_pass_become_one),
          STORE_TEST(a_pass_that_undoes_a_pin_has_no_pause_before_it),
          STORE_TEST(a_pass_for_a_folder_that_was_opened_has_no_pause_before_it),
          STORE_TEST(a_pass_that_a_shrinking_cache_waits_for_has_no_pause_before_it),
          STORE_TEST(a_folder_that_missed_the_last_unpin_frees_its_records_when_it_is_opened),
          STORE_TEST(a_folder_that_fails_and_returns_while_a_pass_runs_costs_no_pins),
          STORE_TEST(a_volume_that_was_away_learns_the_pins_from_its_sibling),
          STORE_TEST(all_stripes_of_an_object_are_pinned))
