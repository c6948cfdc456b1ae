/* test_store_fsck.c - what fsck finds in a folder, and what a repair leaves.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"


#include "store/folder.h"
#include "store/fsck.h"

#define SIZE 300000u

/* ---- a folder with objects ---- */

static const char *key_of(unsigned number)
{
    static char key[32];
    snprintf(key, sizeof(key), "k%u", number);
    return key;
}

/* k0 to k9, and one larger object. k0 was overwritten, k1 removed. */
static void make_folder(void)
{
    struct unit_store unit = unit_open();
    for (unsigned i = 0; i < 10; i++)
        ok(put_object(&unit, key_of(i), "\"one\"", SIZE) == OK);
    ok(put_object(&unit, "large", "\"one\"", 5 * MIB + 17) == OK);
    ok(put_object(&unit, "k0", "\"two\"", SIZE) == OK);
    ok(remove_object(&unit, "k1") == OK);
    unit_close(&unit);
}

static struct fsck_report fsck(bool repair, bool quick)
{
    static struct arena keep;
    const char *folder = unit_folder;
    struct fsck_ask ask = { .folders = &folder, .count = 1, .repair = repair, .quick = quick };
    struct fsck_report report;
    arena_free(&keep);
    fsck_run(&ask, &keep, &report);
    return report;
}

/* The number of kinds that were found and are wrong. */
static unsigned wrong_kinds(const struct fsck_report *report)
{
    unsigned count = 0;
    for (int i = 0; i < FSCK_KINDS; i++)
        count += fsck_words[i].grade != FSCK_NOTED && report->findings[i].count > 0;
    return count;
}

static uint64_t found(const struct fsck_report *report, enum fsck_kind kind)
{
    return report->findings[kind].count;
}

/* A check finds this kind alone; a repair leaves nothing. */
static void finds_and_repairs(enum fsck_kind kind)
{
    struct fsck_report report = fsck(false, false);
    ok(report.checked && !report.why.len && !report.repaired);
    ok(found(&report, kind) > 0 && wrong_kinds(&report) == 1 && fsck_wrong(&report) > 0);
    report = fsck(true, false);
    same(report.why, S(""));
    ok(report.repaired && found(&report, kind) > 0 && fsck_wrong(&report) == 0);
    report = fsck(false, false);
    ok(report.checked && wrong_kinds(&report) == 0);
}

static void change_byte(const char *path, off_t at)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);
    ok(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 0x10;
    ok(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

static off_t size_of(const char *path)
{
    struct stat st;
    ok(stat(path, &st) == 0);
    return st.st_size;
}

/* Finds these bytes in the extents. */
static bool find_bytes(const void *bytes, size_t len, char path[100], off_t *ret_at)
{
    for (unsigned number = 1; number < 10; number++) {
        snprintf(path, 100, "%s/extents/%08x", unit_folder, number);
        int fd = open(path, O_RDONLY);
        if (fd < 0)
            continue;
        size_t size = (size_t)size_of(path);
        char *all = must_alloc(size + 1);
        ok(read(fd, all, size) == (ssize_t)size);
        close(fd);
        char *at = memmem(all, size, bytes, len);
        *ret_at = at ? at - all : 0;
        free(all);
        if (at)
            return true;
    }
    return false;
}

/* Changes a byte of the data of an object, at the beginning of a block. */
static void damage_object(const char *key, const char *etag, uint64_t at)
{
    uint8_t bytes[64];
    char path[100];
    off_t where;
    object_fill(key, etag, at, bytes, sizeof(bytes));
    ok(find_bytes(bytes, sizeof(bytes), path, &where));
    change_byte(path, where + 20);
}

/* ---- nothing is wrong ---- */

struct files {
    char names[64][300];
    struct stat stats[64];
    size_t count;
};

static void note_files(const char *path, struct files *files)
{
    DIR *dir = opendir(path);
    for (struct dirent *item; dir && (item = readdir(dir));) {
        if (strcmp(item->d_name, "..") == 0)
            continue;
        ok(files->count < countof(files->names));
        char *name = files->names[files->count];
        snprintf(name, sizeof(files->names[0]), "%s/%s", path, item->d_name);
        ok(lstat(name, &files->stats[files->count++]) == 0);
        if (S_ISDIR(files->stats[files->count - 1].st_mode) && strcmp(item->d_name, ".") != 0)
            note_files(name, files);
    }
    if (dir)
        closedir(dir);
}

TEST(a_check_changes_nothing_and_the_folder_stays_clean)
{
    static struct files before, after;
    make_folder();
    before.count = after.count = 0;
    note_files(unit_folder, &before);
    struct fsck_report report = fsck(false, false);
    note_files(unit_folder, &after);
    same(report.why, S(""));
    ok(report.checked && wrong_kinds(&report) == 0 && found(&report, FSCK_UNCLEAN) == 0);
    ok(report.totals.records >= 12 && report.totals.entries > 0);
    ok(report.totals.proved_entries == report.totals.entries);
    ok(before.count == after.count && before.count > 5);
    for (size_t i = 0; i < before.count; i++) {
        ok(strcmp(before.names[i], after.names[i]) == 0);
        ok(before.stats[i].st_ctim.tv_sec == after.stats[i].st_ctim.tv_sec &&
           before.stats[i].st_ctim.tv_nsec == after.stats[i].st_ctim.tv_nsec &&
           before.stats[i].st_ino == after.stats[i].st_ino);
    }
    report = fsck(true, false);    /* nothing to repair */
    ok(report.checked && !report.repaired);
    struct unit_store unit = unit_open();
    ok(!is_unproved(&unit, "k0") && has_object(&unit, "k0", "\"two\"", SIZE));
    unit_close(&unit);
}

TEST(records_that_were_replaced_are_normal)
{
    make_folder();
    struct fsck_report report = fsck(false, false);
    ok(report.totals.dead_records >= 2 && wrong_kinds(&report) == 0);
}

/* ---- records ---- */

TEST(a_damaged_record_is_named_and_forgotten)
{
    make_folder();
    damage_object("k3", "\"one\"", 65536);
    struct fsck_report report = fsck(false, true);
    ok(wrong_kinds(&report) == 0);    /* --quick reads no data */
    finds_and_repairs(FSCK_RECORD);
    struct unit_store unit = unit_open();
    uint64_t bad = metric_read(M_STORE_CRC_BAD);
    ok(!get_metadata(&unit, "k3"));
    ok(has_object(&unit, "k4", "\"one\"", SIZE) && has_object(&unit, "large", "\"one\"", 5 * MIB + 17));
    ok(metric_read(M_STORE_CRC_BAD) == bad);
    ok(is_unproved(&unit, "k4"));    /* the generation rose */
    unit_close(&unit);
}

TEST(damage_of_a_record_that_nothing_uses_is_noted)
{
    make_folder();
    damage_object("k0", "\"one\"", 0);
    struct fsck_report report = fsck(false, false);
    ok(found(&report, FSCK_DEAD_RECORD) == 1 && wrong_kinds(&report) == 0);
}

TEST(a_damaged_header_is_found_in_quick_checks_too)
{
    make_folder();
    char path[100];
    off_t at;
    ok(find_bytes("PSTR", 4, path, &at));
    change_byte(path, at + 60);
    struct fsck_report report = fsck(false, true);
    ok(found(&report, FSCK_RECORD) + found(&report, FSCK_DEAD_RECORD) == 1);
}

/* ---- extents ---- */

TEST(a_damaged_table_is_written_anew)
{
    make_folder();
    char path[100];
    snprintf(path, sizeof(path), "%s/extents/%08x", unit_folder, 1);
    change_byte(path, size_of(path) - 4096 + 8);
    finds_and_repairs(FSCK_TABLE);
}

TEST(an_extent_of_another_volume_is_removed)
{
    make_folder();
    char path[100];
    snprintf(path, sizeof(path), "%s/extents/%08x", unit_folder, 1);
    change_byte(path, size_of(path) - 64 + 50);    /* of the volume id in the footer */
    change_byte(path, 20);
    struct fsck_report report = fsck(true, false);
    ok(found(&report, FSCK_FOREIGN) == 1 && found(&report, FSCK_NOWHERE) > 0);
    ok(report.repaired && fsck_wrong(&report) == 0 && access(path, F_OK) != 0);
}

TEST(the_number_of_an_unusable_extent_is_not_used_again)
{
    make_folder();
    char path[100], next[100];
    unsigned highest = 9;
    do
        snprintf(path, sizeof(path), "%s/extents/%08x", unit_folder, highest--);
    while (access(path, F_OK) != 0);
    snprintf(next, sizeof(next), "%s/extents/%08x", unit_folder, highest + 2);
    ok(truncate(path, 100) == 0);
    struct fsck_report report = fsck(true, false);
    ok(found(&report, FSCK_FOREIGN) == 1 && report.repaired && fsck_wrong(&report) == 0);
    ok(access(path, F_OK) != 0 && access(next, F_OK) == 0);
}

TEST(a_foreign_file_with_the_highest_number_is_removed)
{
    make_folder();
    const char *path = in_folder("extents/f0000000");
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    ok(fd >= 0 && write(fd, "foreign", 7) == 7 && close(fd) == 0);
    struct fsck_report report = fsck(true, false);
    ok(found(&report, FSCK_FOREIGN) == 1 && report.repaired && fsck_wrong(&report) == 0);
    ok(access(path, F_OK) != 0);
}

/* ---- the index ---- */

TEST(entries_of_an_extent_that_is_gone_are_removed)
{
    make_folder();
    char path[100];
    snprintf(path, sizeof(path), "%s/extents/%08x", unit_folder, 1);
    ok(unlink(path) == 0);
    finds_and_repairs(FSCK_NOWHERE);
}

static struct object_id id_of_key(const char *key)
{
    struct format format;
    const char *why;
    struct object_name name = name_of(key);
    struct object_id id;
    ok(folder_peek(unit_folder, &format, &why) == OK);
    object_id_of(format.secret, &name, &id);
    return id;
}

TEST(an_entry_that_names_the_record_of_another_object_is_found)
{
    struct index *index = index_new();
    struct object_id k2 = id_of_key((make_folder(), "k2")), k3 = id_of_key("k3");
    struct entry entry;
    ok(index_open(index, in_folder("index"), 64 * MIB) == OK && index_begin(index) == OK);
    ok(index_find(index, &k2, 0, &entry) == OK && index_put(index, &k3, 0, &entry) == OK);
    ok(index_commit(index) == OK);
    index_free(&index);
    unlink(in_folder("clean"));
    finds_and_repairs(FSCK_NOWHERE);
    struct unit_store unit = unit_open();
    ok(has_object(&unit, "k2", "\"one\"", SIZE) && !get_metadata(&unit, "k3"));
    unit_close(&unit);
}

TEST(a_damaged_index_is_built_anew)
{
    make_folder();
    for (off_t at = 2 * 4096; at < size_of(in_folder("index/data.mdb")); at += 64)
        change_byte(in_folder("index/data.mdb"), at);
    unlink(in_folder("clean"));
    finds_and_repairs(FSCK_INDEX);
    struct unit_store unit = unit_open();
    ok(has_object(&unit, "k4", "\"one\"", SIZE) && is_unproved(&unit, "k4"));
    unit_close(&unit);
}

TEST(a_rebuilt_index_has_no_entry_of_a_damaged_record)
{
    make_folder();
    damage_object("k3", "\"one\"", 0);
    ok(unlink(in_folder("index/data.mdb")) == 0 && unlink(in_folder("clean")) == 0);
    struct fsck_report report = fsck(true, false);
    ok(found(&report, FSCK_INDEX) == 1 && found(&report, FSCK_RECORD) == 1);
    ok(report.repaired && fsck_wrong(&report) == 0);
    struct unit_store unit = unit_open();
    ok(!get_metadata(&unit, "k3") && has_object(&unit, "k4", "\"one\"", SIZE));
    unit_close(&unit);
}

/* ---- small files ---- */

TEST(a_damaged_restated_becomes_one_for_every_bucket)
{
    make_folder();
    int fd = open(in_folder("restated"), O_WRONLY | O_CREAT, 0600);
    ok(fd >= 0 && write(fd, "what is this?", 13) == 13);
    close(fd);
    unlink(in_folder("clean"));
    finds_and_repairs(FSCK_RESTATED);
    struct unit_store unit = unit_open();
    struct metadata *metadata = get_metadata(&unit, "k4");
    ok(metadata && metadata->restated);
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(files_of_others_are_noted_and_stay)
{
    make_folder();
    int fd = open(in_folder("extents/notes.txt"), O_WRONLY | O_CREAT, 0600);
    ok(fd >= 0);
    close(fd);
    damage_object("k3", "\"one\"", 0);
    struct fsck_report report = fsck(true, false);
    ok(found(&report, FSCK_STRAY) == 1 && report.repaired);
    same(report.findings[FSCK_STRAY].examples[0], S("extents/notes.txt"));
    ok(access(in_folder("extents/notes.txt"), F_OK) == 0);
}

TEST(a_damaged_copy_of_the_format_is_repaired_and_two_are_left_to_a_start)
{
    make_folder();
    change_byte(in_folder("format"), 20);
    struct fsck_report report = fsck(true, false);
    ok(report.repaired && found(&report, FSCK_FORMAT_COPY) == 1 && fsck_wrong(&report) == 0);
    report = fsck(false, false);
    ok(report.checked && wrong_kinds(&report) == 0);
    change_byte(in_folder("format"), 20);
    change_byte(in_folder("format"), size_of(in_folder("format")) / 2 + 20);
    report = fsck(true, false);
    ok(report.checked && !report.repaired && found(&report, FSCK_FORMAT) == 1);
    ok(fsck_wrong(&report) == 1);
}

TEST(a_copied_folder_has_a_wrong_mark)
{
    make_folder();
    struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } };
    ok(utimensat(AT_FDCWD, in_folder("format"), times, 0) == 0);
    finds_and_repairs(FSCK_MARK);
}

/* ---- who may be there ---- */

TEST(a_folder_in_use_is_not_checked)
{
    make_folder();
    struct unit_store unit = unit_open();
    struct fsck_report report = fsck(true, false);
    ok(!report.checked && !report.repaired);
    char want[64];
    snprintf(want, sizeof(want), "process %d (", getpid());
    ok(slice_starts(report.why, slice_of(want)));
    unit_close(&unit);
    ok(fsck(false, false).checked);
}

TEST(a_folder_of_others_is_not_touched)
{
    struct fsck_report report = fsck(true, false);
    ok(!report.checked && report.why.len && access(in_folder("lock"), F_OK) != 0);
}

TEST(only_its_owner_repairs_a_folder)
{
    make_folder();
    damage_object("k3", "\"one\"", 0);
    if (geteuid() != 0 || chown(unit_folder, 12345, 12345) != 0)
        skip();
    struct fsck_report report = fsck(true, false);
    ok(report.checked && !report.repaired && report.why.len && found(&report, FSCK_RECORD) == 1);
    ok(chown(unit_folder, 0, 0) == 0);
    ok(fsck(true, false).repaired);
}

RUN(STORE_TEST(a_check_changes_nothing_and_the_folder_stays_clean),
    STORE_TEST(records_that_were_replaced_are_normal),
    STORE_TEST(a_damaged_record_is_named_and_forgotten),
    STORE_TEST(damage_of_a_record_that_nothing_uses_is_noted),
    STORE_TEST(a_damaged_header_is_found_in_quick_checks_too),
    STORE_TEST(a_damaged_table_is_written_anew),
    STORE_TEST(an_extent_of_another_volume_is_removed),
    STORE_TEST(the_number_of_an_unusable_extent_is_not_used_again),
    STORE_TEST(a_foreign_file_with_the_highest_number_is_removed),
    STORE_TEST(entries_of_an_extent_that_is_gone_are_removed),
    STORE_TEST(an_entry_that_names_the_record_of_another_object_is_found),
    STORE_TEST(a_damaged_index_is_built_anew),
    STORE_TEST(a_rebuilt_index_has_no_entry_of_a_damaged_record),
    STORE_TEST(a_damaged_restated_becomes_one_for_every_bucket),
    STORE_TEST(files_of_others_are_noted_and_stay),
    STORE_TEST(a_damaged_copy_of_the_format_is_repaired_and_two_are_left_to_a_start),
    STORE_TEST(a_copied_folder_has_a_wrong_mark),
    STORE_TEST(a_folder_in_use_is_not_checked),
    STORE_TEST(a_folder_of_others_is_not_touched),
    STORE_TEST(only_its_owner_repairs_a_folder))
