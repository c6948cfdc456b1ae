/* test_store_account.c - which records live, in step with the index.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include <errno.h>
#include <sys/prctl.h>

#include "base/thread.h"
#include "store/age_files.h"
#include "store/ages.h"
#include "store/extent.h"
#include "store/format_files.h"
#include "store/inside.h"
#include "store/leftovers.h"
#include "store/recycle.h"
#include "store/volume_rows.h"

#define EXTENT (2 * MIB)
#define KEYS 24
#define ROUNDS 100
#define TALLIES 8                     /* more than there are */

/* Units of removed objects are deleted in the background (leftovers.h). */
static void wait_for_leftovers(struct volume *volume)
{
    uint64_t until_ms = mono_ms() + 60000;
    while (leftovers_wait(volume) && mono_ms() < until_ms)
        usleep(10000);
    ok(!leftovers_wait(volume));
}

/* No append or removal may be in progress. */
static void live_is_what_the_index_names(struct unit_store *unit)
{
    struct volume *volume = unit->store->volumes[0];
    struct arena keep = { 0 };
    struct tallies *tallies = volume_tallies(volume);
    struct tally_change held[TALLIES] = { { 0 } };
    uint32_t *numbers, dead = 0, live = 0;
    wait_for_leftovers(volume);
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++) {
        struct toc_entry *rows;
        uint32_t row_count;
        uint64_t bytes = 0;
        struct ages *ages = extent_ages(volume->extents, numbers[i]);
        ok(extent_contents(volume->extents, numbers[i], &keep, &rows, &row_count) == OK);
        ok(ages_counted(ages) == row_count);
        for (uint32_t row = 0; row < row_count; row++) {
            struct record record = { .kind = rows[row].kind, .data_len = rows[row].data_len };
            bool named = false;
            struct tally_change *of = &held[ages_tally(ages, row)];
            ok(of < held + TALLIES && of > held);
            for (uint32_t unit_of = 0; unit_of < record_units(&record); unit_of++) {
                struct entry entry;
                uint32_t at;
                bool found = rows[row].kind == KIND_UNITS
                    ? find_unit(volume->index, &rows[row].id, rows[row].first_unit + unit_of,
                                &entry) == OK
                    : index_get_metadata(volume->index, &rows[row].id, &at, &entry) == OK;
                if (found && entry.extent == numbers[i] && entry.ordinal == row) {
                    named = true;
                    bytes += entry.len;
                    of->bytes += rows[row].kind == KIND_HEAD ? 0 : entry.len;
                    of->objects += rows[row].kind != KIND_UNITS;
                }
            }
            ok(ages_is_dead(ages, row) == !named);
            dead += !named;
            live += named;
            of->records += named;
        }
        ok(ages_live_bytes(ages) == bytes);
    }
    ok(live > 0 && dead > 0);
    for (uint16_t i = 0; i < TALLIES; i++) {
        struct tally_change sum = tallies_sum(tallies, i), here = tallies_sum_in(tallies, i, 0);
        ok(held[i].bytes == sum.bytes && held[i].objects == sum.objects &&
           held[i].records == sum.records);
        ok(here.bytes == sum.bytes && here.objects == sum.objects && here.records == sum.records);
    }
    ok(held[1].objects > 0 && held[2].objects > 0 && tallies_sum(tallies, 3).records == 0);
    arena_free(&keep);
}

static void wait_for_count(struct unit_store *unit)
{
    uint64_t until_ms = mono_ms() + 60000;
    struct service *service = &unit->store->volumes[0]->service;
    while (!atomic_load(&service->counted) && mono_ms() < until_ms)
        usleep(20000);
    ok(atomic_load(&service->counted));
}

/* Two buckets in turn. */
static void choose_bucket(int k)
{
    unit_bucket = k % 2 ? "bucket" : "second";
}

#define AT_ONCE 10

static void live_through(struct unit_store *unit, unsigned seed)
{
    char keys[AT_ONCE][16], etag[16];
    struct unit_put puts[AT_ONCE];
    int stored = 0;
    srand(seed);
    for (int i = 0; i < ROUNDS; i += AT_ONCE) {
        for (int k = 0; k < AT_ONCE; k++) {
            snprintf(keys[k], sizeof(keys[k]), "k%d", rand() % KEYS);
            snprintf(etag, sizeof(etag), "\"%d\"", rand() % 3);
            uint64_t size = rand() % 10 < 5 ? (uint64_t)(rand() % 90000)
                                            : (uint64_t)(rand() % 3000000);
            choose_bucket(k);
            puts[k] = put_begin(unit, keys[k], etag, size);
        }
        for (int k = 0; k < AT_ONCE; k++) {
            enum err e = put_wait(&puts[k]);
            ok(e == OK || e == ERR_FULL);    /* on a slow machine, room may come too late */
            stored += e == OK;
        }
        choose_bucket(0);
        ok(remove_object(unit, keys[0]) == OK);
    }
    ok(stored > ROUNDS / 2);
}

TEST(live_records_are_those_that_the_index_names)
{
    struct unit_store unit = unit_open_sized(32 * MIB, EXTENT);
    live_through(&unit, 1);
    live_is_what_the_index_names(&unit);
    unit_close(&unit);
}

/* The entry that follows the last unit of an object is that of its metadata. */
TEST(entries_of_a_row_end_where_an_object_became_shorter)
{
    struct unit_store unit = unit_open_sized(64 * MIB, 4 * MIB);
    struct volume *volume = unit.store->volumes[0];
    struct arena keep = { 0 };
    uint32_t *numbers, found = 0, rows_found = 0;
    ok(put_object(&unit, "k", "\"1\"", 3 * MIB) == OK);
    ok(put_object(&unit, "k", "\"2\"", MIB + 3 * UNIT_BYTES) == OK);
    wait_for_leftovers(volume);
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++) {
        struct toc_entry *rows;
        uint32_t row_count;
        ok(extent_contents(volume->extents, numbers[i], &keep, &rows, &row_count) == OK);
        for (uint32_t row = 0; row < row_count; row++) {
            struct entry entries[RECORD_UNITS + 1] = { [RECORD_UNITS] = { .extent = 7777 } };
            bool failed;
            found += volume_row_entries(volume, numbers[i], row, &rows[row], entries, &failed);
            ok(!failed && entries[RECORD_UNITS].extent == 7777);
            rows_found++;
        }
    }
    ok(found == 8 + 3 + 1 && rows_found >= 3 + 1 + 2 + 1);    /* of units and metadata, both times */
    arena_free(&keep);
    unit_close(&unit);
}

TEST(records_of_an_earlier_process_are_counted)
{
    struct unit_store unit = unit_open_sized(32 * MIB, EXTENT);
    live_through(&unit, 2);
    unit_close(&unit);
    unit = unit_open_sized(32 * MIB, EXTENT);
    wait_for_count(&unit);
    live_is_what_the_index_names(&unit);
    live_through(&unit, 3);
    live_is_what_the_index_names(&unit);
    unit_close(&unit);
}

TEST(changes_while_records_are_counted_are_counted_once)
{
    struct unit_store unit = unit_open_sized(32 * MIB, EXTENT);
    live_through(&unit, 4);
    unit_close(&unit);
    unit = unit_open_sized(32 * MIB, EXTENT);
    live_through(&unit, 5);
    wait_for_count(&unit);
    live_is_what_the_index_names(&unit);
    unit_close(&unit);
}

/* Metadata that is marked gets a new entry for the same record. */
TEST(a_record_whose_entry_is_put_again_keeps_its_age)
{
    struct unit_store unit = unit_open_sized(32 * MIB, EXTENT);
    struct volume *volume = unit.store->volumes[0];
    struct object_name name = name_of("k");
    struct unit_removal mine;
    struct entry entry;
    uint32_t at;
    ok(put_object(&unit, "k", "\"1\"", 1000) == OK);
    removal_prepare(&unit, &mine, &name);
    ok(store_refuse(unit.store, &mine.removal));
    ok(removal_wait(&mine) == OK);
    ok(index_get_metadata(volume->index, &mine.id, &at, &entry) == OK && entry.refused);
    struct ages *ages = extent_ages(volume->extents, entry.extent);
    ok(!ages_is_dead(ages, entry.ordinal));
    ok(ages_stamp(ages, entry.ordinal) == rule_stamp(&volume->rule));
    unit_close(&unit);
}

/* ---- files of ages ---- */

static bool is_counted(struct unit_store *unit)
{
    struct volume *volume = unit->store->volumes[0];
    struct arena keep = { 0 };
    uint32_t *numbers;
    bool counted = true;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++)
        counted = counted && !ages_are_counting(extent_ages(volume->extents, numbers[i]));
    arena_free(&keep);
    return counted;
}

/* Gives each record that lives another age. No tick passes in these tests. */
static uint32_t set_stamps(struct unit_store *unit, bool set)
{
    struct volume *volume = unit->store->volumes[0];
    struct arena keep = { 0 };
    uint32_t *numbers, others = 0;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++) {
        struct ages *ages = extent_ages(volume->extents, numbers[i]);
        for (uint32_t row = 0; row < ages_counted(ages); row++) {
            uint8_t stamp = (uint8_t)-((row + numbers[i]) % 90);
            if (ages_is_dead(ages, row))
                continue;
            if (set)
                ages_touch(ages, row, stamp);
            others += ages_stamp(ages, row) != stamp;
        }
    }
    arena_free(&keep);
    return others;
}

static struct unit_store with_stamps(unsigned seed)
{
    struct unit_store unit = unit_open_sized(32 * MIB, EXTENT);
    live_through(&unit, seed);
    ok(set_stamps(&unit, true) == 0);
    return unit;
}

TEST(after_a_clean_stop_nothing_is_counted_anew)
{
    struct unit_store unit = with_stamps(6);
    for (int i = 0; i < 3; i++) {
        unit_close(&unit);
        unit = unit_open_sized(32 * MIB, EXTENT);
        ok(is_counted(&unit));
        wait_for_count(&unit);    /* of the tallies */
        live_is_what_the_index_names(&unit);
        ok(set_stamps(&unit, false) == 0);
    }
    live_through(&unit, 7);
    live_is_what_the_index_names(&unit);
    unit_close(&unit);
}

TEST(after_an_unclean_stop_only_the_ages_stand)
{
    struct unit_store unit = with_stamps(8);
    unit_close(&unit);
    ok(unlink(in_folder("clean")) == 0);
    unit = unit_open_sized(32 * MIB, EXTENT);
    ok(!is_counted(&unit));
    wait_for_count(&unit);
    ok(is_counted(&unit));
    live_is_what_the_index_names(&unit);
    ok(set_stamps(&unit, false) == 0);
    unit_close(&unit);
}

/* Calls `each` with the path of every file in a folder of the cache folder. */
static void each_file(const char *name, void (*each)(const char *path, const char *name))
{
    DIR *dir = opendir(in_folder(name));
    ok(dir != NULL);
    for (struct dirent *item; (item = readdir(dir));) {
        char path[600];
        snprintf(path, sizeof(path), "%s/%s/%s", unit_folder, name, item->d_name);
        if (item->d_name[0] != '.')
            each(path, item->d_name);
    }
    closedir(dir);
}

static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 20];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t len = read(in, bytes, sizeof(bytes));
    ok(len > 0 && write(out, bytes, (size_t)len) == len);
    close(in);
    close(out);
}

static void keep_old(const char *path, const char *name)
{
    char to[600];
    snprintf(to, sizeof(to), "%s-old/%s", unit_folder, name);
    copy_file(path, to);
}

static void put_old_back(const char *path, const char *name)
{
    char from[600];
    snprintf(from, sizeof(from), "%s-old/%s", unit_folder, name);
    if (access(from, F_OK) == 0)
        copy_file(from, path);
}

/* A file of an earlier clean stop names its opening, so its counts are old. */
TEST(counts_of_an_older_stop_are_not_believed)
{
    struct unit_store unit = with_stamps(9);
    char old[80];
    snprintf(old, sizeof(old), "%s-old", unit_folder);
    ok(mkdir(old, 0700) == 0);
    unit_close(&unit);
    each_file("ages", keep_old);
    unit = unit_open_sized(32 * MIB, EXTENT);
    live_through(&unit, 10);
    unit_close(&unit);
    each_file("ages", put_old_back);
    remove_tree(old);
    unit = unit_open_sized(32 * MIB, EXTENT);
    wait_for_count(&unit);
    live_is_what_the_index_names(&unit);
    unit_close(&unit);
}

static void spoil_file(const char *path, const char *name)
{
    (void)name;
    int fd = open(path, O_RDWR);
    ok(fd >= 0 && pwrite(fd, "x", 1, 30) == 1);
    close(fd);
}

static void is_there(const char *path, const char *name)
{
    (void)path;
    uint32_t number;
    char extent[32];
    snprintf(extent, sizeof(extent), "extents/%s", name);
    ok(!extent_number_of(name, &number) || access(in_folder(extent), F_OK) == 0);
}

TEST(damaged_files_of_ages_are_lost_and_strays_go)
{
    struct unit_store unit = with_stamps(11);
    unit_close(&unit);
    each_file("ages", is_there);
    each_file("ages", spoil_file);
    copy_file(in_folder("format"), in_folder("ages/0000ffff"));
    unit = unit_open_sized(32 * MIB, EXTENT);
    ok(!is_counted(&unit));
    wait_for_count(&unit);
    live_is_what_the_index_names(&unit);
    each_file("ages", is_there);
    unit_close(&unit);
}

static struct mean_age_saved saved_of(struct unit_store *unit)
{
    struct mean_age_saved saved;
    struct rule *mine = &unit->store->volumes[0]->rule;
    pthread_mutex_lock(&mine->lock);
    mean_age_save(mine->policy, &saved);
    pthread_mutex_unlock(&mine->lock);
    return saved;
}

TEST(the_rule_goes_on_where_it_stopped)
{
    struct mean_age_saved rule = { 300, 120000, 70, true, false }, back;
    struct unit_store unit = unit_open_sized(32 * MIB, EXTENT);
    struct rule *mine = &unit.store->volumes[0]->rule;
    pthread_mutex_lock(&mine->lock);
    ok(mean_age_restore(mine->policy, &rule));
    pthread_mutex_unlock(&mine->lock);
    ok(put_object(&unit, "k", "\"1\"", 1000) == OK);
    unit_close(&unit);
    unit = unit_open_sized(32 * MIB, EXTENT);
    back = saved_of(&unit);
    ok(back.m1 == rule.m1 && back.m2 == rule.m2 && back.tick >= 70 && back.known);
    unit_close(&unit);
    spoil_file(in_folder("ages/rule"), "rule");
    unit = unit_open_sized(32 * MIB, EXTENT);
    back = saved_of(&unit);
    ok(!back.known && back.tick == 0);
    unit_close(&unit);
}

/* ---- ages alone ---- */

TEST(stamps_of_metadata_are_left_out)
{
    struct ages *ages = ages_new(1000);
    for (uint32_t i = 0; i < 1100; i++)
        ages_add(ages, i, &(struct ages_record){ (uint8_t)i, 0, i % 5 == 0, 1 });
    ages_touch(ages, 1, 77);
    ages_touch(ages, 1000, 77);    /* beyond the records that have an age */
    struct ages_stamps stamps = ages_stamps(ages);
    ok(stamps.count == 1000 && ages_stamp(ages, 1) == 77 && ages_stamp(ages, 1000) == 0);
    for (uint32_t i = 0; i < stamps.count; i++) {
        ok((atomic_load(&stamps.left_out[i / 64]) >> i % 64 & 1) == (i % 5 == 0));
        ok(atomic_load(&stamps.stamps[i]) == (i == 1 ? 77 : (uint8_t)i));
    }
    ages_free(&ages);
    ok(ages == NULL);
}

TEST(a_record_dies_with_its_last_entry)
{
    struct ages *ages = ages_new(100);
    const struct ages_entries large = { 1, 0, 100, 100 }, small = { 1, 1, 50, 0 };
    const struct tally_change *sums;
    struct tally_change change;
    ages_add(ages, 0, &(struct ages_record){ .stamp = 7, .tally = 4 });
    change = ages_entry_added(ages, 0, &large);
    ok(change.tally == 4 && change.records == 1 && change.bytes == 100 && change.objects == 0);
    change = ages_entry_added(ages, 0, &small);
    ok(change.records == 0 && change.bytes == 0 && change.objects == 1);
    ok(ages_sums(ages, &sums) == 1 && sums[0].tally == 4 && sums[0].records == 1);
    change = ages_entry_removed(ages, 0, &large, 200);
    ok(change.records == 0 && change.bytes == -100);
    ok(ages_stamp(ages, 0) == 7 && ages_live_bytes(ages) == 50 && !ages_is_dead(ages, 0));
    change = ages_entry_removed(ages, 0, &small, 200);
    ok(change.records == -1 && change.objects == -1 && sums[0].records == 0);
    ok(ages_stamp(ages, 0) == 200 && ages_live_bytes(ages) == 0 && ages_is_dead(ages, 0));
    (void)ages_entry_added(ages, 9, &small);    /* not known: for a later count */
    (void)ages_entry_removed(ages, 9, &small, 200);
    ok(ages_live_bytes(ages) == 0 && ages_counted(ages) == 1);
    (void)ages_count(ages, &(struct ages_record){ 5, 200, false, 2 },
                     &(struct ages_entries){ 2, 0, 300, 300 });
    ok(ages_live_bytes(ages) == 300 && ages_counted(ages) == 2 && ages_stamp(ages, 1) == 5);
    ok(ages_sums(ages, &sums) == 2 && sums[1].bytes == 300 && ages_tally(ages, 1) == 2);
    change = ages_move(ages, 1, 4, &(struct ages_entries){ 2, 0, 300, 300 });
    ok(change.tally == 2 && change.bytes == -300 && change.records == -1);
    ok(sums[1].bytes == 0 && sums[0].bytes == 300 && ages_tally(ages, 1) == 4);
    ages_free(&ages);
}

/* The table of contents of the extent gives the bits no order: the highest one counts. */
TEST(a_pass_ends_for_all_records_up_to_the_highest_that_was_pinned)
{
    static const uint32_t pinned[] = { 700, 0, 63, 64, 999 };
    struct ages *ages = ages_new(1000);
    for (uint32_t i = 0; i < 1000; i++)
        ages_add(ages, i, &(struct ages_record){ .stamp = 1 });
    for (size_t i = 0; i < countof(pinned); i++)
        ages_see(ages, pinned[i], 10);
    ages_end_pass(ages, false);
    for (size_t i = 0; i < countof(pinned); i++)
        ok(ages_is_pinned(ages, pinned[i]) && ages_was_pinned(ages, pinned[i]));
    ok(ages_pinned_bytes(ages) == 10 * countof(pinned));
    ages_see(ages, 64, 10);
    ages_see_fresh(ages);
    ages_see(ages, 999, 10);
    ages_end_pass(ages, false);
    for (size_t i = 0; i < countof(pinned); i++)
        ok(ages_must_stay(ages, pinned[i]) == (pinned[i] == 999));
    ages_unpin_all(ages);
    ok(!ages_must_stay(ages, 999) && ages_pinned_bytes(ages) == 0);
    ages_free(&ages);
}

static bool is_resident(const volatile void *at)
{
    unsigned char resident;
    uintptr_t page = (uintptr_t)at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    ok(mincore((void *)page, 1, &resident) == 0);
    return resident & 1;
}

/* With TSan, all allocated memory is resident from the start, so this shows nothing. */
TEST(the_end_of_a_pass_touches_no_memory_of_records_that_were_never_pinned)
{
    const uint32_t records = AGES_RECORDS_MAX;
    ok(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);    /* pages are small */
    struct ages *ages = ages_new(records);
    ages_add(ages, 5, &(struct ages_record){ .stamp = 1 });
    ages_see(ages, 5, 10);
    const _Atomic uint64_t *later = &ages_stamps(ages).pinned[records / 64 / 2];
    bool lazy = !is_resident(later);
    ages_see_fresh(ages);
    ages_see(ages, 5, 10);
    ages_end_pass(ages, false);
    ages_unpin_all(ages);
    ok(!lazy || !is_resident(later));
    ages_free(&ages);
}

/* A small cache has a tick every few milliseconds. */
TEST(all_files_of_ages_are_written_every_10_s_at_most)
{
    struct unit_store unit = unit_open();
    struct volume *volume = unit.store->volumes[0];
    struct age_round *round = &volume->recycler.round;
    pthread_mutex_lock(&volume->recycler.lock);
    ok(round->count == 0 && !atomic_load(&volume->pinned.unsaved));
    atomic_store(&round->begun, mean_age_tick(volume->rule.policy) - MEAN_AGE_TICKS / 4);
    round->all_ms = mono_ms() + 1000000;
    ok(!age_files_are_due(volume));
    round->all_ms = mono_ms() - 10000;
    ok(age_files_are_due(volume));
    atomic_store(&round->begun, mean_age_tick(volume->rule.policy));
    ok(!age_files_are_due(volume));
    pthread_mutex_unlock(&volume->recycler.lock);
    unit_close(&unit);
}

/* A cache of 8 TiB has 65,536 extents. */
TEST(each_extent_is_looked_at_once_to_count_its_records)
{
    struct unit_store unit = unit_open_sized(64 * MIB, EXTENT);
    char key[16];
    for (int i = 0; i < 24; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        ok(put_object(&unit, key, "\"1\"", MIB) == OK);
    }
    unit_close(&unit);
    ok(unlink(in_folder("clean")) == 0);
    unit = unit_open_sized(64 * MIB, EXTENT);
    wait_for_count(&unit);
    size_t count = each_extent(NULL);
    ok(count >= 20 && unit.store->volumes[0]->upkeep.counting.looks == count);
    unit_close(&unit);
}

/* Pins that no file has yet are saved as soon as the folder can be opened, whichever round failed. */
static void keeps_unsaved(bool all)
{
    struct unit_store unit = unit_open();
    struct volume *volume = unit.store->volumes[0];
    struct age_round *round = &volume->recycler.round;
    uint64_t tick = mean_age_tick(volume->rule.policy);
    recycle_stop(volume);    /* this thread makes its steps */
    atomic_store(&volume->recycler.paused, false);
    ok(rename(in_folder("ages"), in_folder("away")) == 0 || errno == ENOENT);
    int fd = open(in_folder("ages"), O_WRONLY | O_CREAT, 0600);
    ok(fd >= 0 && close(fd) == 0);
    atomic_store(&volume->pinned.unsaved, true);
    atomic_store(&round->begun, all ? tick - MEAN_AGE_TICKS / 4 : tick);
    round->all_ms = mono_ms() - 10000;
    round->begun_ms = mono_ms() - 1000;
    ok(age_files_are_due(volume));
    age_files_step(volume);
    ok(atomic_load(&volume->pinned.unsaved) && !round->count);
    ok(unlink(in_folder("ages")) == 0);
    round->begun_ms = mono_ms() - 1000;
    ok(age_files_are_due(volume));
    age_files_step(volume);
    ok(!atomic_load(&volume->pinned.unsaved));
    volume->rule.stopping = false;
    ok(thread_start(&volume->recycler.thread, recycle_run, volume, "recycle"));
    unit_close(&unit);
}

TEST(a_round_that_can_not_open_its_folder_comes_again)
{
    keeps_unsaved(false);
    keeps_unsaved(true);
}

RUN_STORE(STORE_TEST(live_records_are_those_that_the_index_names),
          STORE_TEST(entries_of_a_row_end_where_an_object_became_shorter),
          STORE_TEST(a_round_that_can_not_open_its_folder_comes_again),
          STORE_TEST(each_extent_is_looked_at_once_to_count_its_records),
          STORE_TEST(all_files_of_ages_are_written_every_10_s_at_most),
          STORE_TEST(records_of_an_earlier_process_are_counted),
          STORE_TEST(changes_while_records_are_counted_are_counted_once),
          STORE_TEST(a_record_whose_entry_is_put_again_keeps_its_age),
          STORE_TEST(after_a_clean_stop_nothing_is_counted_anew),
          STORE_TEST(after_an_unclean_stop_only_the_ages_stand),
          STORE_TEST(counts_of_an_older_stop_are_not_believed),
          STORE_TEST(damaged_files_of_ages_are_lost_and_strays_go),
          STORE_TEST(the_rule_goes_on_where_it_stopped),
          STORE_TEST(stamps_of_metadata_are_left_out),
          STORE_TEST(a_record_dies_with_its_last_entry),
          cmocka_unit_test(a_pass_ends_for_all_records_up_to_the_highest_that_was_pinned),
          cmocka_unit_test(the_end_of_a_pass_touches_no_memory_of_records_that_were_never_pinned))
