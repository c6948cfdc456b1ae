/* test_store_unusable.c - files in extents/ that can't be extents of the folder.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Another program may have made such a file, or an extent is damaged. Its records are misses. Other
 * tests are about errors of the folder extents/ itself. */
#include "store_unit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>

#include "store/clearing.h"
#include "store/extent.h"
#include "store/format.h"
#include "store/fsck.h"

#define EXTENT (2 * MIB)
#define CACHE (12 * MIB)
#define SIZE 100000u

static void put_many(struct unit_store *unit, const char *set, int count)
{
    char key[32];
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "%s%d", set, i);
        ok(put_object(unit, key, "\"1\"", SIZE) == OK);
    }
}

/* ---- longer than an extent can be ---- */

static off_t length;

/* As a kill leaves the newest extent: without its table of contents. Then it is made longer. */
static void cut_and_stretch(const char *path)
{
    uint8_t bytes[TOC_FOOTER_BYTES];
    struct toc_footer footer;
    struct stat st;
    int fd = open(path, O_RDWR);
    ok(fd >= 0 && fstat(fd, &st) == 0);
    ok(pread(fd, bytes, sizeof(bytes), st.st_size - (off_t)sizeof(bytes)) == (ssize_t)sizeof(bytes));
    ok(toc_footer_decode(bytes, &footer) == OK);
    ok(ftruncate(fd, (off_t)footer.offset) == 0 && ftruncate(fd, length) == 0);
    close(fd);
}

/* At 512 GiB the number of records that fit in the file no longer fits in 32 bits. */
TEST(an_extent_that_is_longer_than_any_can_be_is_a_miss)
{
    static const off_t lengths[] = { 512 * (off_t)GIB - 128, 512 * (off_t)GIB, 1025 * (off_t)GIB,
                                     129 * (off_t)MIB };
    for (size_t i = 0; i < countof(lengths); i++) {
        struct unit_store unit = unit_open_sized(CACHE, EXTENT);
        put_many(&unit, "a", 10);
        unit_close(&unit);
        length = lengths[i];
        ok(each_extent(cut_and_stretch) == 1);
        unit = unit_open_sized(CACHE, EXTENT);
        ok(serving(&unit) && count_there(&unit, "a", 10, SIZE) == 0);
        put_many(&unit, "b", 10);
        ok(count_there(&unit, "b", 10, SIZE) == 10);
        unit_close(&unit);
        remove_tree(unit_folder);
    }
}

/* The table of contents would make it longer than an extent can be. */
TEST(an_extent_that_is_almost_too_long_stays_usable_with_its_table)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    put_many(&unit, "a", 10);
    unit_close(&unit);
    length = 128 * (off_t)MIB - 100;
    ok(each_extent(cut_and_stretch) == 1);
    for (int i = 0; i < 3; i++) {
        unit = unit_open_sized(CACHE, EXTENT);
        ok(serving(&unit) && count_there(&unit, "a", 10, SIZE) == 10);
        ok(store_folder_unusable(unit.store, 0) == 0);
        unit_close(&unit);
    }
}

/* ---- a folder that can't be listed, a file that can't be unlinked ---- */

static int items_left = -1;           /* until readdir fails; -1: it does not fail */
static bool has_failed;

/* Takes the place of the C library's function. */
struct dirent *readdir(DIR *dir)
{
    static struct dirent *(*next)(DIR *dir);
    if (items_left == 0) {
        has_failed = true;
        errno = EIO;
        return NULL;
    }
    items_left -= items_left > 0;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "readdir");
    return next(dir);
}

static const struct format format = { .extent_bytes = 2 * MIB };

static struct extents *extents_of_four(void)
{
    struct extents *all = extents_new(0);
    ok(find_extents(all, &format) == OK);
    for (int i = 0; i < 4; i++)
        ok(open_extent_roll(all) == OK);
    return all;
}

TEST(a_folder_that_can_t_be_listed_to_its_end_is_not_opened)
{
    struct extents *all = extents_of_four();
    extents_close(all);
    for (items_left = 0; items_left < 6;) {
        int before = items_left;
        ok(find_extents(all, &format) == ERR_IO && extents_count(all) == 0);
        items_left = before + 1;
    }
    items_left = -1;
    ok(find_extents(all, &format) == OK && extents_count(all) == 4);
    extents_free(&all);
}

/* Such a folder may seem empty, but must not be cleared or used. */
TEST(a_folder_that_can_t_be_listed_to_its_end_is_not_cleared)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    put_many(&unit, "a", 10);
    unit_close(&unit);
    struct arena keep = { 0 };
    slice stranger;
    uint32_t highest;
    int folder = open(unit_folder, O_RDONLY | O_DIRECTORY);
    for (items_left = 0; items_left < 3;) {
        int before = items_left;
        ok(clearing_look(folder, &keep, &stranger) == ERR_IO);
        items_left = before + 1;
    }
    items_left = 0;
    ok(clearing_extents(folder, &highest) == ERR_IO && clearing_ages(folder) == ERR_IO);
    items_left = -1;
    close(folder);
    arena_free(&keep);
    unit = unit_open_sized(CACHE, EXTENT);
    ok(count_there(&unit, "a", 10, SIZE) == 10);
    unit_close(&unit);
}

/* Wherever a list breaks off, the check does not call the folder right. */
TEST(a_check_of_a_folder_that_can_t_be_listed_to_its_end_says_so)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    put_many(&unit, "a", 10);
    unit_close(&unit);
    struct arena keep = { 0 };
    const char *folder = unit_folder;
    struct fsck_ask ask = { .folders = &folder, .count = 1, .quick = true };
    struct fsck_report report;
    has_failed = true;
    for (int items = 0; has_failed; items++) {
        items_left = items;
        has_failed = false;
        fsck_run(&ask, &keep, &report);
        ok((report.why.len > 0 || report.findings[FSCK_UNREAD].count > 0) == has_failed);
    }
    items_left = -1;
    arena_free(&keep);
}

/* Purges must stay in force for it: the next opening may find it again. */
TEST(a_file_that_can_t_be_unlinked_counts_as_unopened)
{
    struct extents *all = extents_of_four();
    extent_drop(all, 1);
    ok(unlink(in_folder("extents/00000002")) == 0);
    extent_drop(all, 2);    /* gone already */
    ok(extents_unopened(all) == 0);
    ok(unlink(in_folder("extents/00000003")) == 0 &&
       mkdir(in_folder("extents/00000003"), 0700) == 0);
    extent_drop(all, 3);
    ok(extents_unopened(all) == 1 && extents_count(all) == 1);
    extents_close(all);
    ok(extents_unopened(all) == 0);
    ok(rmdir(in_folder("extents/00000003")) == 0);
    ok(find_extents(all, &format) == OK && extents_unopened(all) == 0);
    extents_free(&all);
}

/* ---- foreign files ---- */

static void make_foreign(const char *name)
{
    int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_EXCL, 0600);
    ok(fd >= 0 && write(fd, "foreign", 7) == 7 && close(fd) == 0);
}

/* Extents get the next numbers all the same. */
TEST(a_foreign_file_with_the_highest_number_does_not_stop_new_extents)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    put_many(&unit, "a", 10);
    unit_close(&unit);
    make_foreign("extents/f0000000");
    ok(mkdir(in_folder("extents/effffffe"), 0700) == 0);
    for (int i = 0; i < 2; i++) {
        unit = unit_open_sized(CACHE, EXTENT);
        struct extents *extents = unit.store->volumes[0]->extents;
        ok(serving(&unit) && store_folder_unusable(unit.store, 0) == 1);
        put_many(&unit, i ? "b" : "c", 10);
        ok(extents_highest(extents) > 1 && extents_highest(extents) < 100);
        ok(count_there(&unit, "a", 10, SIZE) == 10 && count_there(&unit, "c", 10, SIZE) == 10);
        unit_close(&unit);
    }
}

/* A number below does count. Own extents then come so far that all numbers count. */
TEST(a_foreign_file_among_the_last_numbers_leaves_some)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    unit_close(&unit);
    make_foreign("extents/dfffffff");
    unit = unit_open_sized(CACHE, EXTENT);
    put_many(&unit, "a", 10);
    ok(extents_highest(unit.store->volumes[0]->extents) >= 0xE0000000u);
    unit_close(&unit);
    make_foreign("extents/e0001000");
    unit = unit_open_sized(CACHE, EXTENT);
    ok(count_there(&unit, "a", 10, SIZE) == 10);
    put_many(&unit, "b", 20);
    ok(extents_highest(unit.store->volumes[0]->extents) > 0xE0001000u);
    unit_close(&unit);
}

/* One step after the other on a disk of 6 MiB; returns the number of the step that failed. */
static int fill_by_foreign_file(void)
{
    struct unit_store unit = unit_open_sized(4 * MIB, EXTENT);
    put_many(&unit, "a", 10);
    unit_close(&unit);
    char page[4096] = { 0 };
    int fd = open(in_folder("extents/00000500"), O_WRONLY | O_CREAT, 0600);
    while (write(fd, page, sizeof(page)) > 0)
        ;
    if (fd < 0 || errno != ENOSPC || close(fd) != 0)
        return 1;
    if (unit_try(&unit, options_of(4 * MIB, EXTENT)) != OK)
        return 2;
    soon(serving(&unit));
    soon(access(in_folder("extents/00000500"), F_OK) != 0);
    put_many(&unit, "b", 5);
    if (count_there(&unit, "b", 5, SIZE) != 5)
        return 3;
    unit_close(&unit);
    return 0;
}

TEST(a_foreign_file_that_fills_the_disk_goes)
{
    if (!on_small_disk(fill_by_foreign_file))
        skip();
}

RUN(STORE_TEST(an_extent_that_is_longer_than_any_can_be_is_a_miss),
    STORE_TEST(an_extent_that_is_almost_too_long_stays_usable_with_its_table),
    STORE_TEST(a_folder_that_can_t_be_listed_to_its_end_is_not_opened),
    STORE_TEST(a_check_of_a_folder_that_can_t_be_listed_to_its_end_says_so),
    STORE_TEST(a_folder_that_can_t_be_listed_to_its_end_is_not_cleared),
    STORE_TEST(a_file_that_can_t_be_unlinked_counts_as_unopened),
    STORE_TEST(a_foreign_file_with_the_highest_number_does_not_stop_new_extents),
    STORE_TEST(a_foreign_file_among_the_last_numbers_leaves_some),
    STORE_TEST(a_foreign_file_that_fills_the_disk_goes))
