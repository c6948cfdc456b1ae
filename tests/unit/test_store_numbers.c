/* test_store_numbers.c - the numbers of lost extents are never used again.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The index may keep entries of lost extents. If another extent got such a number, the entries would
 * count for its records. For example, a purge would take live records for dead ones. */
#include "store_unit.h"

#include <lmdb.h>

#define SIZE 5000u
#define COUNT 20
#define ROOM (64 * MIB)

static void put_one(struct unit_store *unit, int number, const char *etag)
{
    char key[32];
    snprintf(key, sizeof(key), "key%d", number);
    ok(put_object(unit, key, etag, SIZE) == OK);
}

static int known(struct unit_store *unit)
{
    int count = 0;
    char key[32];
    for (int i = 0; i < COUNT; i++) {
        snprintf(key, sizeof(key), "key%d", i);
        count += knows(unit, key);
    }
    return count;
}

static bool is_swept(struct unit_store *unit)
{
    struct arena keep = { 0 };
    struct purge_state *states;
    size_t count = store_purges(unit->store, &keep, &states);
    arena_free(&keep);
    return count == 0;
}

/* Half of the objects are in the first extent, the others in the newest one. */
static struct unit_store store_them(void)
{
    struct unit_store unit = unit_open_sized(ROOM, 4 * MIB);
    for (int i = 0; i < COUNT / 2; i++)
        put_one(&unit, i, "\"1\"");
    ok(put_object(&unit, "large", "\"1\"", 6 * MIB) == OK);
    for (int i = COUNT / 2; i < COUNT; i++)
        put_one(&unit, i, "\"1\"");
    return unit;
}

static int store_and_die(void)
{
    (void)store_them();
    _exit(0);
}

static uint32_t highest_file(void)
{
    DIR *dir = opendir(in_folder("extents"));
    uint32_t highest = 0, number;
    for (struct dirent *item; dir && (item = readdir(dir));)
        if (extent_number_of(item->d_name, &number))
            highest = MAX(highest, number);
    closedir(dir);
    return highest;
}

static void lose_highest(void)
{
    char name[32];
    snprintf(name, sizeof(name), "extents/%08x", highest_file());
    ok(unlink(in_folder(name)) == 0);
}

static void lose_one(const char *path)
{
    ok(unlink(path) == 0);
}

static void lose_all(void)
{
    ok(each_extent(lose_one) > 1);
}

/* After a loss, new versions of the objects are stored, in another order, and not looked up before:
 * a look-up of a lost object deletes its entry. */
static void purges_all(uint32_t lost)
{
    struct unit_store unit = unit_open_sized(ROOM, 4 * MIB);
    for (int i = COUNT - 1; i >= 0; i--)
        put_one(&unit, i, "\"2\"");
    ok(known(&unit) == COUNT);
    ok(purge(&unit, "key") == OK);
    ok(known(&unit) == 0);
    soon(is_swept(&unit));
    ok(known(&unit) == 0);
    unit_close(&unit);
    unit = unit_open_sized(ROOM, 4 * MIB);
    ok(known(&unit) == 0 && highest_file() > lost);
    unit_close(&unit);
}

static void purges_all_after(void (*lose)(void), bool killed)
{
    if (killed) {
        pid_t child = fork();
        if (child == 0)
            store_and_die();
        ok(step_of(child) == 0);
    } else {
        struct unit_store unit = store_them();
        unit_close(&unit);
    }
    uint32_t lost = highest_file();
    lose();
    purges_all(lost);
}

TEST(a_purge_after_all_extents_were_lost_is_complete)
{
    purges_all_after(lose_all, false);
}

TEST(a_purge_after_the_highest_extent_was_lost_is_complete)
{
    purges_all_after(lose_highest, false);
}

TEST(a_purge_after_a_crash_that_lost_all_extents_is_complete)
{
    purges_all_after(lose_all, true);
}

TEST(a_purge_after_a_crash_that_lost_the_highest_extent_is_complete)
{
    purges_all_after(lose_highest, true);
}

/* The old purge covers the records of the lost extents, but none of a later extent. */
TEST(a_purge_covers_nothing_later_although_index_and_extents_are_lost)
{
    struct unit_store unit = store_them();
    ok(purge(&unit, "key") == OK);
    unit_close(&unit);
    uint32_t lost = highest_file();
    lose_all();
    remove_tree(in_folder("index"));
    unit = unit_open_sized(ROOM, 4 * MIB);
    ok(put_object(&unit, "other", "\"1\"", SIZE) == OK && highest_file() > lost);
    unit_close(&unit);
}

/* ---- the row of the index ---- */

/* Deletes the row, or stores this value in it. */
static void set_row(const uint32_t value[2])
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    static char name[] = "highest";
    MDB_val key = { sizeof(name), name }, row = { 8, (void *)(uintptr_t)value };
    ok(mdb_env_create(&env) == 0 && mdb_env_open(env, in_folder("index"), 0, 0600) == 0);
    ok(mdb_txn_begin(env, NULL, 0, &txn) == 0 && mdb_dbi_open(txn, NULL, 0, &dbi) == 0);
    ok((value ? mdb_put(txn, dbi, &key, &row, 0) : mdb_del(txn, dbi, &key, NULL)) == 0);
    ok(mdb_txn_commit(txn) == 0);
    mdb_env_close(env);
    unlink(in_folder("index/lock.mdb"));
    unlink(in_folder("clean"));
}

/* The keys of the two other rows lie between those of these entries. */
TEST(no_walk_takes_the_other_rows_for_entries)
{
    struct index *index = index_new();
    struct object_id ids[] = { { "a" }, { "z" } }, id = { { 0 } };
    struct entry entry = { .len = 1 };
    struct index_row rows[4];
    uint32_t unit = 0, count;
    ok(index_open(index, in_folder("index"), 64 * MIB) == OK && index_size(index).entries == 0);
    ok(index_begin(index) == OK);
    for (size_t i = 0; i < countof(ids); i++) {
        entry.extent = 5 + (uint32_t)i;
        ok(index_put(index, &ids[i], 0, &entry) == OK);
    }
    ok(index_highest(index) == 0 && index_commit(index) == OK && index_highest(index) == 6);
    ok(index_size(index).entries == 2);
    ok(index_get_rows(index, &id, 0, 4, rows, &count) == OK && count == 2);
    ok(memcmp(rows, &ids[0], sizeof(id)) == 0 && memcmp(&rows[1], &ids[1], sizeof(id)) == 0);
    ok(index_begin(index) == OK);
    ok(index_find_from(index, &id, 0, &id, &unit, &entry) == OK && entry.extent == 5);
    ok(index_find_from(index, &ids[0], 1, &id, &unit, &entry) == OK && entry.extent == 6);
    ok(index_find_from(index, &ids[1], 1, &id, &unit, &entry) == ERR_NOT_FOUND);
    ok(index_find_next(index, &ids[0], 1, &unit, &entry) == ERR_NOT_FOUND);
    ok(index_raise_highest(index, 9) == OK);
    index_abort(index);
    ok(index_begin(index) == OK && index_raise_highest(index, 8) == OK);
    ok(index_commit(index) == OK && index_highest(index) == 8);
    index_close(index);
    ok(index_open_to_read(index, in_folder("index")) == OK);
    ok(index_highest(index) == 8 && index_size(index).entries == 2);
    index_free(&index);
}

TEST(an_index_of_an_earlier_build_has_no_row_and_gets_one)
{
    struct unit_store unit = store_them();
    unit_close(&unit);
    set_row(NULL);
    struct fsck_report report = unit_fsck(false);
    ok(fsck_found_wrong(&report) == 0);
    unit = unit_open_sized(ROOM, 4 * MIB);
    ok(known(&unit) == COUNT);
    unit_close(&unit);
    uint32_t lost = highest_file();
    lose_all();
    purges_all(lost);
}

TEST(with_a_damaged_row_the_index_is_built_anew)
{
    static const uint32_t damaged[][2] = { { 2, 0 }, { 0, 0xFFFFFFFF }, { 0xF0, ~0xF1u } };
    struct unit_store unit = store_them();
    unit_close(&unit);
    for (size_t i = 0; i < countof(damaged); i++) {
        set_row(damaged[i]);
        struct fsck_report report = unit_fsck(false);
        ok(report.findings[FSCK_INDEX].count == 1);
        unit = unit_open_sized(ROOM, 4 * MIB);
        ok(known(&unit) == COUNT && is_unproved(&unit, "key0"));
        unit_close(&unit);
        report = unit_fsck(false);
        ok(fsck_found_wrong(&report) == 0);
    }
}

TEST(a_repair_keeps_the_highest_number)
{
    struct unit_store unit = store_them();
    unit_close(&unit);
    uint32_t lost = highest_file();
    lose_all();
    struct fsck_report report = unit_fsck(true);
    ok(report.repaired && report.findings[FSCK_NOWHERE].count > 0);
    purges_all(lost);
}

RUN_STORE(STORE_TEST(a_purge_after_all_extents_were_lost_is_complete),
          STORE_TEST(a_purge_after_the_highest_extent_was_lost_is_complete),
          STORE_TEST(a_purge_after_a_crash_that_lost_all_extents_is_complete),
          STORE_TEST(a_purge_after_a_crash_that_lost_the_highest_extent_is_complete),
          STORE_TEST(a_purge_covers_nothing_later_although_index_and_extents_are_lost),
          STORE_TEST(no_walk_takes_the_other_rows_for_entries),
          STORE_TEST(an_index_of_an_earlier_build_has_no_row_and_gets_one),
          STORE_TEST(with_a_damaged_row_the_index_is_built_anew),
          STORE_TEST(a_repair_keeps_the_highest_number))
