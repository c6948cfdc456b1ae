/* test_store_folder.c - what others do to a cache folder, and what changed settings ask of it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include <signal.h>
#include <sys/file.h>

#include "store/inside.h"

static uint64_t used(struct unit_store *unit)
{
    struct store_status status;
    store_status(unit->store, &status);
    return status.used_bytes;
}

static const char *key_of(int i)
{
    static char key[32];
    snprintf(key, sizeof(key), "k%d", i);
    return key;
}

/* Five at a time: a commit is as long for one. */
static void put_some(struct unit_store *unit, int from, int to, size_t size)
{
    struct unit_put puts[5];
    for (int at = from; at < to; at += (int)countof(puts)) {
        int until = MIN(to, at + (int)countof(puts));
        for (int i = at; i < until; i++)
            puts[i - at] = put_begin(unit, key_of(i), "\"1\"", size);
        for (int i = at; i < until; i++)
            ok(put_wait(&puts[i - at]) == OK);
        for (int i = at; i < until; i++)
            ok(has_object(unit, key_of(i), "\"1\"", size));
    }
}

static void leave_file(const char *name)
{
    int fd = open(in_folder(name), O_WRONLY | O_CREAT, 0600);
    ok(fd >= 0 && write(fd, name, strlen(name)) > 0);
    close(fd);
}

/* ---- strangers among the extents ---- */

TEST(names_we_would_never_give_an_extent_are_left_alone)
{
    struct unit_store unit = unit_open_sized(8 * MIB, 2 * MIB);
    put_some(&unit, 0, 1, 1000);
    unit_close(&unit);
    leave_file("extents/0000000a");
    leave_file("extents/0000000A");
    leave_file("extents/ffffffff");
    leave_file("extents/fffffffe");
    unit = unit_open_sized(8 * MIB, 2 * MIB);
    ok(has_object(&unit, "k0", "\"1\"", 1000));
    put_some(&unit, 1, 20, 900000);    /* through several extents, and round */
    unit_close(&unit);
    ok(access(in_folder("extents/ffffffff"), F_OK) == 0 &&
       access(in_folder("extents/0000000A"), F_OK) == 0);
}

TEST(an_extent_that_cannot_be_opened_costs_only_what_lay_in_it)
{
    struct unit_store unit = unit_open_sized(8 * MIB, 2 * MIB);
    put_some(&unit, 0, 1, 1000);
    unit_close(&unit);
    ok(symlink("/no/such/file", in_folder("extents/00000f00")) == 0);
    unit = unit_open_sized(8 * MIB, 2 * MIB);
    ok(serving(&unit) && has_object(&unit, "k0", "\"1\"", 1000));
    put_some(&unit, 1, 3, 1000);
    ok(access(in_folder("extents/00000f01"), F_OK) == 0);    /* its number stays used */
    unit_close(&unit);
}

/* ---- another size than before ---- */

TEST(a_lower_size_takes_effect_without_a_write)
{
    struct unit_store unit = unit_open_sized(64 * MIB, 2 * MIB);
    put_some(&unit, 0, 20, 900000);
    ok(used(&unit) > 15 * MIB);
    unit_close(&unit);
    unit = unit_open_sized(8 * MIB, 2 * MIB);
    soon(used(&unit) <= 8 * MIB);
    ok(serving(&unit) && has_object(&unit, "k19", "\"1\"", 900000));
    unit_close(&unit);
}

TEST(an_old_extent_as_large_as_the_new_size_makes_way)
{
    struct unit_store unit = unit_open_sized(64 * MIB, 16 * MIB);
    put_some(&unit, 0, 15, 900000);
    ok(each_extent(NULL) == 1);
    unit_close(&unit);
    unit = unit_open_sized(8 * MIB, 2 * MIB);
    put_some(&unit, 15, 20, 900000);
    soon(used(&unit) <= 8 * MIB);
    ok(serving(&unit) && has_object(&unit, "k19", "\"1\"", 900000));
    unit_close(&unit);
}

/* ---- writes that the folder does not see ---- */

TEST(a_removal_while_the_folder_was_out_is_remembered_over_a_restart)
{
    struct unit_store unit = unit_open();
    put_some(&unit, 0, 2, 1000);
    unit_close(&unit);
    int fd = open(in_folder("lock"), O_RDWR);    /* a lock of another open file is another's */
    ok(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    ok(unit_try(&unit, options_of(64 * MIB, 4 * MIB)) == OK && !serving(&unit));
    ok(remove_object(&unit, "k0") == ERR_IO);
    unit_close(&unit);
    close(fd);
    ok(access(in_folder("clean"), F_OK) == 0);
    unit = unit_open();
    ok(is_unproved(&unit, "k0") && is_unproved(&unit, "k1"));
    unit_close(&unit);
    unit = unit_open();
    ok(is_unproved(&unit, "k0"));    /* until somebody proves it */
    put_some(&unit, 2, 3, 1000);
    ok(!is_unproved(&unit, "k2"));
    unit_close(&unit);
}

/* Another process has a lease of the index's file, so an opening to write waits until that process
 * ends, which it does when the pipe is closed. Returns -1 if this file system has no leases. */
static pid_t hold_up_openings(int *ret_pipe)
{
    int both[2], ready[2];
    char byte = 0;
    ok(pipe(both) == 0 && pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(in_folder("index/data.mdb"), O_RDONLY);
        close(both[1]);
        signal(SIGIO, SIG_IGN);
        byte = fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
        _exit(write(ready[1], &byte, 1) == 1 && read(both[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(both[0]);
    *ret_pipe = both[1];
    ok(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    return byte ? pid : -1;
}

/* Returns true if a process waits for the end of the lease of this file. */
static bool is_waited_for(const char *path)
{
    char line[200], inode[40];
    bool waited = false;
    struct stat st;
    ok(stat(path, &st) == 0);
    snprintf(inode, sizeof(inode), ":%ju ", (uintmax_t)st.st_ino);
    FILE *locks = fopen("/proc/locks", "r");
    while (locks && fgets(line, sizeof(line), locks))
        waited |= strstr(line, "BREAKING") && strstr(line, inode);
    if (locks)
        fclose(locks);
    return waited;
}

TEST(an_opening_that_hangs_holds_up_no_removal)
{
    int hold, status;
    struct unit_store unit = unit_open();
    unit_close(&unit);
    pid_t pid = hold_up_openings(&hold);
    if (pid < 0)
        skip();
    int fd = open(in_folder("lock"), O_RDWR);
    ok(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    struct store_options options = options_of(64 * MIB, 4 * MIB);
    options.commit_ms_max = 120000;    /* a removal that waited for it would be given up after that */
    ok(unit_try(&unit, options) == OK && !serving(&unit));
    close(fd);
    soon(is_waited_for(in_folder("index/data.mdb")));    /* by the next attempt */
    uint64_t start = mono_ms();
    ok(remove_object(&unit, "k") == ERR_IO && mono_ms() - start < 60000);
    ok(is_waited_for(in_folder("index/data.mdb")));
    close(hold);
    ok(waitpid(pid, &status, 0) == pid && status == 0);
    soon(serving(&unit));
    unit_close(&unit);
}

/* The folder is opened because removals were given up, and the opening takes so long that more are
 * given up meanwhile. Otherwise a folder under steady removals would be opened for ever. */
TEST(removals_that_are_given_up_during_an_opening_cause_no_other_opening)
{
    struct unit_store unit;
    struct store_options options = options_of(64 * MIB, 4 * MIB);
    struct store_status status;
    options.commit_ms_max = 500;
    ok(unit_try(&unit, options) == OK);
    struct volume *volume = unit.store->volumes[0];
    put_some(&unit, 0, 2, 1000);
    pthread_mutex_lock(&volume->bans->order);    /* the opening takes it */
    atomic_store(&volume->service.unproved, true);
    soon(atomic_load(&volume->service.opening_since_ms));
    ok(remove_object(&unit, "k0") == ERR_IO);
    pthread_mutex_unlock(&volume->bans->order);
    soon(serving(&unit));
    store_status(unit.store, &status);
    ok(status.faults == 1 && is_unproved(&unit, "k0") && is_unproved(&unit, "k1"));
    put_some(&unit, 2, 3, 1000);
    ok(!is_unproved(&unit, "k2") && remove_object(&unit, "k1") == OK);
    unit_close(&unit);
    unit = unit_open();
    ok(is_unproved(&unit, "k0") && !get_metadata(&unit, "k1") && !is_unproved(&unit, "k2"));
    unit_close(&unit);
}

/* ---- a folder that goes away ---- */

TEST(a_folder_removed_under_us_is_made_anew)
{
    struct unit_store unit = unit_open();
    put_some(&unit, 0, 3, 1000);
    remove_tree(unit_folder);
    soon(access(in_folder("format"), F_OK) == 0 && serving(&unit));
    ok(!get_metadata(&unit, "k0"));
    struct store_status status;
    store_status(unit.store, &status);
    ok(strstr(status.anew, "removed or moved away"));
    put_some(&unit, 3, 5, 1000);
    unit_close(&unit);
    unit = unit_open();
    store_status(unit.store, &status);
    ok(*status.anew == '\0');
    ok(has_object(&unit, "k4", "\"1\"", 1000));
    unit_close(&unit);
}

static int play_full_at_start(void)
{
    static const char zeroes[4096];
    struct unit_store unit = unit_open_sized(6 * MIB, 2 * MIB);
    put_some(&unit, 0, 3, 900000);
    unit_close(&unit);
    int fd = open(in_folder("filler"), O_WRONLY | O_CREAT, 0600);
    while (write(fd, zeroes, sizeof(zeroes)) > 0)
        ;
    close(fd);
    if (unit_try(&unit, options_of(6 * MIB, 2 * MIB)) != OK || !serving(&unit))
        return 1;
    if (!has_object(&unit, "k2", "\"1\"", 900000))
        return 2;
    unit_close(&unit);
    return 0;
}

TEST(a_disk_that_is_full_at_the_start_costs_the_oldest_extent)
{
    if (!on_small_disk(play_full_at_start))
        skip();
}

/* ---- a format file that is lost ---- */

#define COPY_LEN 120                  /* of one copy in a format file that lists one volume */
#define FORMAT_LEN (2 * COPY_LEN + 4)

/* What damage leaves of these bytes; -1: no file. */
static void damage_format(const uint8_t bytes[], ssize_t len)
{
    ok(unlink(in_folder("format")) == 0);
    int fd = len < 0 ? -1 : open(in_folder("format"), O_WRONLY | O_CREAT, 0600);
    ok(len < 0 || (fd >= 0 && write(fd, bytes, (size_t)len) == len));
    if (fd >= 0)
        close(fd);
}

static void read_format(uint8_t ret[FORMAT_LEN + 1])
{
    int fd = open(in_folder("format"), O_RDONLY);
    ok(fd >= 0 && read(fd, ret, FORMAT_LEN + 1) == FORMAT_LEN);
    close(fd);
}

static uint32_t highest;

static void note_highest(const char *path)
{
    highest = MAX(highest, (uint32_t)strtoul(strrchr(path, '/') + 1, NULL, 16));
}

static uint32_t highest_extent(void)
{
    highest = 0;
    each_extent(note_highest);
    return highest;
}

static slice began_anew(struct unit_store *unit)
{
    struct store_status status;
    store_status(unit->store, &status);
    return slice_of(status.anew);
}

/* The folder holds k0 and more, and its format file is damaged now. */
static void starts_anew(const char *why)
{
    uint32_t before = highest_extent();
    struct unit_store unit = unit_open_sized(8 * MIB, 2 * MIB);
    ok(serving(&unit) && slice_eq(began_anew(&unit), slice_of(why)));
    ok(!get_metadata(&unit, "k0") && used(&unit) <= 4096);
    put_some(&unit, 0, 3, 900000);
    ok(each_extent(NULL) <= 3 && highest_extent() > before);
    unit_close(&unit);
    unit = unit_open_sized(8 * MIB, 2 * MIB);
    same(began_anew(&unit), S(""));
    ok(has_object(&unit, "k2", "\"1\"", 900000));
    unit_close(&unit);
}

#define DAMAGED "the file 'format' was damaged"
#define MISSING "the file 'format' was missing"

TEST(a_folder_whose_format_file_is_lost_starts_anew)
{
    static const uint8_t zeroes[FORMAT_LEN];
    uint8_t good[FORMAT_LEN + 1] = { 0 };
    struct unit_store unit = unit_open_sized(8 * MIB, 2 * MIB);
    put_some(&unit, 0, 5, 900000);
    unit_close(&unit);
    for (unsigned at = 0; at < COPY_LEN; at += at < 16 ? 1 : 7) {
        read_format(good);
        good[at] ^= 1;
        good[COPY_LEN + at] ^= 1;
        damage_format(good, FORMAT_LEN);
        starts_anew(DAMAGED);
    }
    damage_format(zeroes, FORMAT_LEN);
    starts_anew(DAMAGED);
    damage_format(zeroes, 0);
    starts_anew(DAMAGED);
    read_format(good);
    damage_format(good, 40);
    starts_anew(DAMAGED);
    read_format(good);
    damage_format(good, FORMAT_LEN - 3);
    starts_anew(DAMAGED);
    damage_format(NULL, -1);
    starts_anew(MISSING);
}

static void is_refused_for(const char *name)
{
    struct unit_store unit;
    size_t extents = each_extent(NULL);
    leave_file(name);
    ok(unit_try(&unit, options_of(8 * MIB, 2 * MIB)) == ERR_FORMAT);
    ok(memmem(unit.why.ptr, unit.why.len, name, strlen(name)) != NULL);
    arena_free(&unit.keep);
    ok(access(in_folder(name), F_OK) == 0 && access(in_folder("index/data.mdb"), F_OK) == 0);
    ok(unlink(in_folder(name)) == 0 && extents > 0 && each_extent(NULL) == extents);
}

TEST(nothing_is_cleared_where_a_stranger_keeps_a_file)
{
    struct unit_store unit = unit_open_sized(8 * MIB, 2 * MIB);
    put_some(&unit, 0, 5, 900000);
    unit_close(&unit);
    damage_format(NULL, -1);
    is_refused_for("thesis.tex");
    is_refused_for("extents/thesis.tex");
    is_refused_for("extents/0000000A");
    is_refused_for("index/thesis.tex");
    starts_anew(MISSING);
}

/* Somebody's LMDB, in a folder of that name: without extents it can't be ours. */
TEST(an_index_without_extents_is_a_strangers)
{
    struct unit_store unit;
    ok(mkdir(in_folder("index"), 0700) == 0);
    leave_file("index/data.mdb");
    ok(unit_try(&unit, options_of(8 * MIB, 2 * MIB)) == ERR_FORMAT);
    ok(memmem(unit.why.ptr, unit.why.len, "'index'", 7) != NULL);
    arena_free(&unit.keep);
    ok(access(in_folder("index/data.mdb"), F_OK) == 0);
}

TEST(a_crash_while_it_starts_anew_costs_nothing_more)
{
    uint32_t before = 0;
    for (unsigned round = 0; round < 40; round++) {
        struct unit_store unit = unit_open_sized(8 * MIB, 2 * MIB);
        put_some(&unit, 0, 5, 900000);
        unit_close(&unit);
        ok(highest_extent() > before);    /* no number came again */
        before = highest_extent();
        damage_format(NULL, -1);
        pid_t child = fork();
        if (child == 0) {
            unit = unit_open_sized(8 * MIB, 2 * MIB);
            pause();
        }
        usleep(round * 100);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        unit = unit_open_sized(8 * MIB, 2 * MIB);
        ok(serving(&unit) && !get_metadata(&unit, "k0"));
        unit_close(&unit);
    }
}

/* ---- an index that is broken where no trap helps ---- */

TEST(an_index_that_a_process_died_of_is_built_anew)
{
    struct unit_store unit = unit_open();
    put_some(&unit, 0, 3, 1000);
    unit_close(&unit);
    pid_t child = fork();
    if (child == 0) {
        unit = unit_open();
        raise(SIGABRT);    /* as malloc() does when somebody wrote beyond his page */
    }
    int status;
    ok(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    ok(access(in_folder("index/suspect"), F_OK) == 0);
    struct stat before, after;
    ok(stat(in_folder("index/data.mdb"), &before) == 0);
    /* or its inode may come again */
    ok(link(in_folder("index/data.mdb"), in_folder("held")) == 0);
    unit = unit_open();
    ok(stat(in_folder("index/data.mdb"), &after) == 0 && before.st_ino != after.st_ino);
    ok(has_object(&unit, "k2", "\"1\"", 1000) && is_unproved(&unit, "k2"));
    ok(access(in_folder("index/suspect"), F_OK) != 0);
    unit_close(&unit);
}

/* In the list of free pages (nodes with keys of 8 bytes), page numbers become enormous. */
static unsigned spoil_free_list(void)
{
    unsigned spoilt = 0;
    uint8_t page[4096];
    int fd = open(in_folder("index/data.mdb"), O_RDWR);
    for (off_t at = 2 * 4096;
         fd >= 0 && pread(fd, page, sizeof(page), at) == sizeof(page); at += 4096) {
        uint16_t flags, lower, upper;
        memcpy(&flags, page + 10, 2);
        memcpy(&lower, page + 12, 2);
        memcpy(&upper, page + 14, 2);
        bool listed = flags == 2 && lower <= upper && upper <= 4096;
        for (unsigned slot = 16; listed && slot < lower; slot += 2) {
            uint16_t node, len, key;
            memcpy(&node, page + slot, 2);
            memcpy(&len, page + (node & 0xFFF), 2);
            memcpy(&key, page + (node & 0xFFF) + 6, 2);
            for (unsigned i = 16; key == 8 && i + 8 <= len && node + 16u + i <= 4096; i += 8) {
                /* behind metadata and key: a count, then numbers */
                page[node + 8 + i + 5] = 0x10;
                spoilt++;
            }
        }
        ok(pwrite(fd, page, sizeof(page), at) == sizeof(page));
    }
    close(fd);
    return spoilt;
}

TEST(free_pages_far_beyond_the_map_are_a_bad_index_and_not_a_bad_disk)
{
    struct unit_store unit = unit_open();
    put_some(&unit, 0, 8, 1000);
    unit_close(&unit);
    ok(spoil_free_list() > 0);
    ok(unit_try(&unit, options_of(64 * MIB, 4 * MIB)) == OK);
    soon(serving(&unit));
    ok(put_object(&unit, "more", "\"1\"", 1000) == OK && remove_object(&unit, "k1") == OK);
    soon(serving(&unit) && put_object(&unit, "again", "\"1\"", 1000) == OK);
    ok(has_object(&unit, "again", "\"1\"", 1000));
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(names_we_would_never_give_an_extent_are_left_alone),
          STORE_TEST(an_extent_that_cannot_be_opened_costs_only_what_lay_in_it),
          STORE_TEST(a_lower_size_takes_effect_without_a_write),
          STORE_TEST(an_old_extent_as_large_as_the_new_size_makes_way),
          STORE_TEST(a_removal_while_the_folder_was_out_is_remembered_over_a_restart),
          STORE_TEST(an_opening_that_hangs_holds_up_no_removal),
          STORE_TEST(removals_that_are_given_up_during_an_opening_cause_no_other_opening),
          STORE_TEST(a_folder_removed_under_us_is_made_anew),
          STORE_TEST(a_disk_that_is_full_at_the_start_costs_the_oldest_extent),
          STORE_TEST(a_folder_whose_format_file_is_lost_starts_anew),
          STORE_TEST(nothing_is_cleared_where_a_stranger_keeps_a_file),
          STORE_TEST(an_index_without_extents_is_a_strangers),
          STORE_TEST(a_crash_while_it_starts_anew_costs_nothing_more),
          STORE_TEST(an_index_that_a_process_died_of_is_built_anew),
          STORE_TEST(free_pages_far_beyond_the_map_are_a_bad_index_and_not_a_bad_disk))
