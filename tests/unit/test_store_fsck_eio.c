/* test_store_fsck_eio.c - a disk that fails while tables are read: nothing is deleted for that.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This file has the functions of base/testing.c, so that a step can fail. */
#include "store_unit.h"

#include <sys/syscall.h>

#include "base/failpoint.h"
#include "base/guard.h"
#include "base/testing.h"
#include "store/inside.h"
#include "store/pin.h"
#include "store/walk.h"

#define SIZE 300000u
#define OBJECTS 40u                   /* in three extents */

/* ---- a disk that fails ---- */

static atomic_int fails_at = -1;      /* enum failpoint */
static atomic_uint skips, visits;     /* visits that still succeed; all visits */
static bool once;                     /* only one visit fails */
static _Atomic uint64_t ahead_ms;     /* of the clock of the sweep, among others */
static atomic_bool hangs_once;        /* the next read of a footer hangs ... */
static sem_t hung, let_go;            /* ... until it is let go */

bool failpoint(enum failpoint where)
{
    if (where == FAIL_FOOTER_READ && atomic_exchange(&hangs_once, false)) {
        sem_post(&hung);
        while (sem_wait(&let_go) != 0)
            ;
    }
    if ((int)where != fails_at)
        return false;
    errno = EIO;
    unsigned visit = visits++;
    return once ? visit == skips : visit >= skips;
}

bool guard_on(enum guard guard) { return (void)guard, true; }
bool testing_daemon(void) { return false; }
uint64_t testing_ahead_ms(void) { return atomic_load(&ahead_ms); }
const char *testing_value(enum testing_value which) { return (void)which, NULL; }

static atomic_ulong bad_inode;        /* of the file; 0: reads do not fail */
static atomic_uint reads, bad_read;   /* of the file; the one that fails */
static atomic_bool all_bad;           /* all reads of the file fail */

ssize_t pread(int fd, void *to, size_t len, off_t at)
{
    struct stat st;
    unsigned long inode = atomic_load(&bad_inode);
    if (inode && fstat(fd, &st) == 0 && st.st_ino == inode &&
        (atomic_fetch_add(&reads, 1) == atomic_load(&bad_read) || atomic_load(&all_bad))) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, to, len, at);
}

/* No read of this extent succeeds; 0: all do again. */
static void lose_extent(uint32_t number)
{
    char name[32];
    struct stat st = { .st_ino = 0 };
    snprintf(name, sizeof(name), "extents/%08x", number);
    ok(!number || stat(in_folder(name), &st) == 0);
    atomic_store(&all_bad, number > 0);
    atomic_store(&bad_inode, st.st_ino);
}

static struct fsck_report fsck(bool repair)
{
    visits = 0;
    return unit_fsck(repair);
}

static const char *key_of(unsigned number)
{
    static char key[32];
    snprintf(key, sizeof(key), "k%u", number);
    return key;
}

static void make_folder(void)
{
    struct unit_store unit = unit_open();
    for (unsigned i = 0; i < OBJECTS; i++)
        ok(put_object(&unit, key_of(i), "\"one\"", SIZE) == OK);
    unit_close(&unit);
}

static void all_is_there(void)
{
    fails_at = -1;
    struct fsck_report report = fsck(false);
    ok(report.checked && fsck_wrong(&report) == 0 && report.totals.records == OBJECTS);
    struct unit_store unit = unit_open();
    for (unsigned i = 0; i < OBJECTS; i++)
        ok(has_object(&unit, key_of(i), "\"one\"", SIZE));
    unit_close(&unit);
}

/* A repair with this failure, at its first visit, its second, and so on, deletes nothing. */
static void deletes_nothing(enum failpoint where, unsigned least)
{
    unsigned found = 0;
    make_folder();
    for (unsigned skip = 0; skip < 12; skip++) {
        fails_at = where;
        skips = skip;
        struct fsck_report report = fsck(true);
        if (visits <= skip)
            break;
        ok(report.findings[FSCK_UNREAD].count || !report.checked || report.why.len);
        ok(!report.repaired && report.why.len > 0);
        found++;
    }
    ok(found >= least);
    all_is_there();
}

TEST(of_a_footer) { deletes_nothing(FAIL_FOOTER_READ, 3); }
TEST(of_records) { deletes_nothing(FAIL_COLD_READ, 3); }
TEST(of_a_small_file) { deletes_nothing(FAIL_FILE_READ, 3); }

static void flip(const char *name, off_t at)
{
    uint8_t byte;
    int fd = open(in_folder(name), O_RDWR);
    ok(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 0x10;
    ok(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

/* LMDB finds a fault in its map, which may be one of the disk. */
TEST(of_the_index)
{
    make_folder();
    for (off_t at = 0; at < 8192; at += 32)
        flip("index/data.mdb", at);
    fails_at = FAIL_INDEX_READ;
    skips = 0;
    struct fsck_report report = fsck(true);
    ok(report.findings[FSCK_UNREAD].count == 1 && !report.findings[FSCK_INDEX].count);
    ok(!report.repaired && report.why.len > 0);
    ok(access(in_folder("index/suspect"), F_OK) != 0);
    fails_at = -1;
    report = fsck(true);
    ok(report.repaired && fsck_wrong(&report) == 0);
    all_is_there();
}

static enum err look(void *arg, const struct walk_object *object)
{
    *(unsigned *)arg += object->cached_bytes > 0;
    return OK;
}

/* Returns the number of objects that the walk finds. */
static unsigned walk(struct unit_store *unit, struct walk_gaps *ret)
{
    unsigned seen = 0;
    struct walk_ask ask = { .endpoint = S("http://origin"), .bucket = S("bucket"), .prefix = S(""),
                            .visit = look, .arg = &seen };
    ok(store_walk(unit->store, &ask, ret) == OK);
    return seen;
}

/* A purge whose sweep missed records would be forgotten too early. */
TEST(a_table_that_is_read_in_part_does_not_count_as_read)
{
    struct walk_gaps gaps;
    make_folder();
    struct unit_store unit = unit_open();
    lose_extent(1);
    ok(walk(&unit, &gaps) < OBJECTS && gaps.extents == 1 && gaps.any);
    lose_extent(0);
    ok(walk(&unit, &gaps) == OBJECTS && !gaps.any);
    unit_close(&unit);
}

/* The number of records is known from the opening. */
TEST(the_headers_of_all_records_count_as_a_table)
{
    struct walk_gaps gaps;
    make_folder();
    struct unit_store unit = unit_open();
    fails_at = FAIL_FOOTER_READ;
    skips = visits = 0;
    ok(walk(&unit, &gaps) == OBJECTS && !gaps.any && visits > 0);
    fails_at = -1;
    unit_close(&unit);
}

/* A sweep that could not read all is repeated after 10 s, so the clock runs faster meanwhile. It
 * never gains so much that a sweep which waits 10 minutes for an extent is repeated. */
static size_t purges_of(struct unit_store *unit)
{
    struct purge_state *states;
    atomic_fetch_add(&ahead_ms, atomic_load(&ahead_ms) < 240000 ? 100u : 0u);
    return store_purges(unit->store, &unit->keep, &states);
}

/* Purges all but k0 to k9 while the disk fails; `lost` can not be read at all. */
static void purge_ends(bool from_the_start, uint32_t lost)
{
    make_folder();
    skips = 0;
    fails_at = from_the_start ? FAIL_FOOTER_READ : -1;
    struct unit_store unit = unit_open();
    fails_at = FAIL_FOOTER_READ;
    lose_extent(lost);
    for (int i = 1; i < 4; i++) {
        char key[8];
        snprintf(key, sizeof(key), "k%d", i);
        ok(purge(&unit, key) == OK);
    }
    soon(purges_of(&unit) == 0);
    unit_close(&unit);
    fails_at = -1;
    lose_extent(0);
    unit = unit_open();
    soon(purges_of(&unit) == 0);
    for (unsigned i = 0; i < OBJECTS; i++)
        if (i / 10 > 0 && i / 10 < 4)
            ok(!knows(&unit, key_of(i)));
        else if (!lost && (i < 1 || i > 3))
            ok(has_object(&unit, key_of(i), "\"one\"", SIZE));
    unit_close(&unit);
    remove_tree(unit_folder);
    ok(mkdir(unit_folder, 0700) == 0);
}

TEST(a_purge_ends_although_the_disk_gives_no_table)
{
    purge_ends(false, 0);
    purge_ends(true, 0);
    purge_ends(false, 1);
}

/* The check reads all, and finds a damaged extent. Then the disk fails in the opening for the
 * repair: the extents whose footers can't be read stay. */
TEST(an_extent_that_only_the_repair_can_not_read_stays)
{
    make_folder();
    struct stat st;
    ok(stat(in_folder("extents/00000001"), &st) == 0);
    flip("extents/00000001", st.st_size - 20);
    flip("extents/00000001", 8);
    fails_at = FAIL_FOOTER_READ;
    skips = UINT32_MAX;
    struct fsck_report report = fsck(false);
    unsigned of_check = visits;
    ok(report.findings[FSCK_FOREIGN].count == 1);
    skips = of_check;
    (void)fsck(true);
    ok(visits > of_check);
    for (int number = 1; number <= 3; number++) {
        char name[40];
        snprintf(name, sizeof(name), "extents/%08x", number);
        ok(access(in_folder(name), F_OK) == 0);
    }
    fails_at = -1;
    report = fsck(true);
    ok(report.repaired && fsck_wrong(&report) == 0);
    ok(access(in_folder("extents/00000001"), F_OK) != 0);
}

/* ---- a name that can't be read ---- */

/* Cuts off the table of contents, as if the process had been killed before it sealed the extent. */
static void cut_table(uint32_t offset)
{
    ok(truncate(in_folder("extents/00000001"), offset) == 0);
}

static unsigned named_objects(struct unit_store *unit)
{
    unsigned seen = 0;
    struct walk_ask ask = { .endpoint = S("http://origin"), .bucket = S("bucket"), .prefix = S(""),
                            .visit = look, .arg = &seen };
    struct walk_gaps gaps;
    ok(store_walk(unit->store, &ask, &gaps) == OK && !gaps.any);
    return seen;
}

/* A table without these names would hide the objects from each walk, and from purges. */
TEST(an_extent_is_not_sealed_without_a_name_that_the_disk_does_not_give)
{
    struct toc_footer footer;
    struct stat st;
    struct unit_store unit = unit_open();
    for (unsigned i = 0; i < OBJECTS; i++)
        ok(put_object(&unit, key_of(i), "\"one\"", SIZE) == OK);
    ok(extent_footer(unit.store->volumes[0]->extents, 1, &footer) == OK);
    unit_close(&unit);
    ok(stat(in_folder("extents/00000001"), &st) == 0);
    unsigned failing = 0, most;
    do {
        cut_table(footer.offset);
        atomic_store(&reads, 0);
        atomic_store(&bad_read, failing++);
        atomic_store(&bad_inode, st.st_ino);
        if (unit_try(&unit, options_of(64 * MIB, 4 * MIB)) == OK)
            unit_close(&unit);
        most = atomic_load(&reads);
        atomic_store(&bad_inode, 0);
        unit = unit_open();
        ok(named_objects(&unit) == OBJECTS);
        unit_close(&unit);
    } while (failing < most && failing < 60);
    ok(failing > 10);
}

/* Returns the number of pins. */
static size_t pins_of(struct unit_store *unit)
{
    struct pin_name all = { S("http://origin"), S("bucket"), S("") };
    struct pins_row *rows;
    return store_pins(unit->store, &all, &unit->keep, &rows);
}

/* The file that can't be read may have the only copy of the table: without it, the next pin would
 * replace the table, and records would be evicted as if they were not pinned. */
TEST(a_folder_whose_pins_can_not_be_read_is_not_in_service)
{
    struct store_status status;
    struct pin_name name = { S("http://origin"), S("bucket"), S("kept/") };
    struct unit_store unit = unit_open();
    bool changed;
    ok(store_pin(unit.store, &name, 1, true, &changed) == OK && changed);
    unit_close(&unit);
    once = true;
    for (skips = 0; skips < 12; skips++) {
        visits = 0;
        fails_at = FAIL_FILE_READ;
        if (unit_try(&unit, options_of(64 * MIB, 4 * MIB)) == OK) {
            store_status(unit.store, &status);
            ok(!status.serving || pins_of(&unit) == 1);
            unit_close(&unit);
        }
        bool failed = visits > skips;
        fails_at = -1;
        unit = unit_open();
        ok(pins_of(&unit) == 1);
        unit_close(&unit);
        if (!failed)
            break;
    }
    once = false;
    ok(skips >= 2 && skips < 12);
}

/* One read of the disk is lost for ever. All later ones are answered. */
TEST(a_folder_takes_part_in_passes_again_although_a_walk_in_it_never_ends)
{
    struct pin_name name = { S("http://origin"), S("bucket"), S("k") };
    struct store_options options = options_of(64 * MIB, 4 * MIB);
    struct unit_store unit;
    bool changed;
    make_folder();
    sem_init(&hung, 0, 0);
    sem_init(&let_go, 0, 0);
    options.commit_ms_max = 500;
    options.pin_percent = 50;
    ok(unit_try(&unit, options) == OK);
    struct volume *volume = unit.store->volumes[0];
    while (!atomic_load(&volume->service.counted))    /* no other thread reads footers */
        usleep(1000);
    atomic_store(&hangs_once, true);
    ok(store_pin(unit.store, &name, 1, true, &changed) == OK && changed);
    ok(sem_trywait(&hung) == 0);
    uint64_t until_ms = mono_ms() + 30000;
    while (!atomic_load(&volume->pinned.marked) && mono_ms() < until_ms)
        usleep(1000);
    ok(atomic_load(&volume->pinned.marked));
    sem_post(&let_go);
    unit_close(&unit);
}

RUN(STORE_TEST(a_folder_takes_part_in_passes_again_although_a_walk_in_it_never_ends),
    STORE_TEST(an_extent_is_not_sealed_without_a_name_that_the_disk_does_not_give), STORE_TEST(a_folder_whose_pins_can_not_be_read_is_not_in_service), STORE_TEST(of_a_footer), STORE_TEST(of_records), STORE_TEST(of_a_small_file),
    STORE_TEST(of_the_index), STORE_TEST(a_table_that_is_read_in_part_does_not_count_as_read),
    STORE_TEST(the_headers_of_all_records_count_as_a_table),
    STORE_TEST(a_purge_ends_although_the_disk_gives_no_table),
    STORE_TEST(an_extent_that_only_the_repair_can_not_read_stays))
