/* test_store_odd.c - something that is no ordinary file has the name of one of a cache folder's files.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Neither a start nor fsck may wait for it, follow it, or change what a link leads to. */
#include "store_unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "store/folder.h"

#define SIZE 300000u
#define TARGET "the bytes of another program"

static char outside[80];              /* a file that links lead to */

enum odd { LINK, FIFO, SOCKET, FOLDER, ODDS };

static void make_odd(const char *path, enum odd odd)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char target[200];
    snprintf(target, sizeof(target), "../%s", outside);
    if (strchr(path + strlen(unit_folder) + 1, '/'))
        snprintf(target, sizeof(target), "../../%s", outside);
    if (odd == LINK)
        ok(symlink(target, path) == 0);
    else if (odd == FIFO)
        ok(mkfifo(path, 0600) == 0);
    else if (odd == FOLDER)
        ok(mkdir(path, 0700) == 0);
    if (odd != SOCKET)
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ok(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    ok(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    close(fd);
}

static void make_outside(void)
{
    snprintf(outside, sizeof(outside), "%s-outside", unit_folder);
    int fd = open(outside, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ok(fd >= 0 && write(fd, TARGET, strlen(TARGET)) == (ssize_t)strlen(TARGET));
    close(fd);
}

static bool outside_is_untouched(void)
{
    char bytes[100] = "";
    int fd = open(outside, O_RDONLY);
    bool same = fd >= 0 && read(fd, bytes, sizeof(bytes)) == (ssize_t)strlen(TARGET) &&
                memcmp(bytes, TARGET, strlen(TARGET)) == 0;
    close(fd);
    return same;
}

static void make_folder(void)
{
    struct unit_store unit = unit_open();
    for (unsigned i = 0; i < 4; i++)
        ok(put_object(&unit, i % 2 ? "odd" : "even", "\"1\"", SIZE) == OK);
    unit_close(&unit);
}

static const char *aside(void)
{
    static char path[80];
    snprintf(path, sizeof(path), "%s-aside", unit_folder);
    return path;
}

/* Moves away what has the name, and puts something odd there. */
static void put_odd(const char *name, enum odd odd)
{
    ok(rename(in_folder(name), aside()) == 0 || errno == ENOENT);
    make_odd(in_folder(name), odd);
}

static void put_back(const char *name)
{
    if (rmdir(in_folder(name)) != 0)
        (void)!unlink(in_folder(name));
    ok(rename(aside(), in_folder(name)) == 0 || errno == ENOENT);
}

static bool names_it(slice text, const char *name)
{
    return text.len && memmem(text.ptr, text.len, name, strlen(name)) != NULL;
}

/* A start does not use the folder, and says which file is wrong; fsck does, too. */
static void keeps_the_folder_out(const char *name, enum odd odd)
{
    struct unit_store unit;
    put_odd(name, odd);
    struct fsck_report report = unit_fsck(true);
    ok(!report.checked && !report.repaired && names_it(report.why, name));
    ok(unit_try(&unit, options_of(64 * MIB, 4 * MIB)) == OK);
    ok(!serving(&unit) && names_it(unit.why, name));
    unit_close(&unit);
    ok(outside_is_untouched());
    put_back(name);
}

/* fsck names it, and a repair leaves it. A start uses the folder. */
static void is_taken_for_lost(const char *name, enum odd odd)
{
    struct unit_store unit;
    put_odd(name, odd);
    struct fsck_report report = unit_fsck(false);
    ok(report.checked && report.findings[FSCK_ODD].count == 1 && fsck_wrong(&report) >= 1);
    ok(names_it(report.findings[FSCK_ODD].examples[0], name));
    report = unit_fsck(true);
    ok(report.findings[FSCK_ODD].count == 1);
    ok(unit_try(&unit, options_of(64 * MIB, 4 * MIB)) == OK);
    ok(serving(&unit));
    ok(put_object(&unit, "new", "\"1\"", SIZE) == OK && has_object(&unit, "new", "\"1\"", SIZE));
    unit_close(&unit);
    ok(outside_is_untouched());
    put_back(name);
}

static void all_kinds(const char *name, void (*outcome)(const char *name, enum odd odd))
{
    make_outside();
    make_folder();
    alarm(60);    /* the test ends if anything waits for the FIFO */
    for (int odd = 0; odd < ODDS; odd++)
        outcome(name, (enum odd)odd);
    alarm(0);
    unlink(outside);
}

TEST(odd_format) { all_kinds("format", keeps_the_folder_out); }
TEST(odd_lock) { all_kinds("lock", keeps_the_folder_out); }
TEST(odd_index_data) { all_kinds("index/data.mdb", keeps_the_folder_out); }
TEST(odd_names) { all_kinds("names", is_taken_for_lost); }
TEST(odd_pins) { all_kinds("pins", is_taken_for_lost); }
TEST(odd_clean) { all_kinds("clean", is_taken_for_lost); }
TEST(odd_doubt) { all_kinds("doubt", is_taken_for_lost); }
TEST(odd_extent) { all_kinds("extents/00000001", is_taken_for_lost); }
TEST(odd_ages) { all_kinds("ages/00000001", is_taken_for_lost); }
TEST(odd_rule) { all_kinds("ages/rule", is_taken_for_lost); }
TEST(odd_fresh_ages) { all_kinds("ages/fresh", is_taken_for_lost); }

/* These are written at each opening; a folder in their place can't be replaced. */
static void replaced_if_no_folder(const char *name, enum odd odd)
{
    struct unit_store unit;
    if (odd != FOLDER) {
        is_taken_for_lost(name, odd);
        return;
    }
    put_odd(name, odd);
    ok(unit_fsck(true).findings[FSCK_ODD].count == 1);
    ok(unit_try(&unit, options_of(64 * MIB, 4 * MIB)) == OK);
    ok(!serving(&unit) && unit.why.len > 0);
    unit_close(&unit);
    put_back(name);
}

/* A start replaces anything but a folder, so fsck names only a folder. */
static void is_named_if_a_folder(const char *name, enum odd odd)
{
    put_odd(name, odd);
    struct fsck_report report = unit_fsck(false);
    ok(report.checked && report.findings[FSCK_LOCK].count == (odd == FOLDER));
    ok(report.findings[FSCK_ODD].count == 0);
    struct unit_store unit;
    ok(unit_try(&unit, options_of(64 * MIB, 4 * MIB)) == OK);
    ok(serving(&unit) == (odd != FOLDER));
    unit_close(&unit);
    ok(outside_is_untouched());
    put_back(name);
}

TEST(odd_index_lock) { all_kinds("index/lock.mdb", is_named_if_a_folder); }
TEST(odd_restated) { all_kinds("restated", replaced_if_no_folder); }
TEST(odd_fresh) { all_kinds("fresh", replaced_if_no_folder); }

/* Purges must not be forgotten, so the folder stays out. */
static void bans_are_needed(const char *name, enum odd odd)
{
    struct unit_store unit;
    put_odd(name, odd);
    struct fsck_report report = unit_fsck(true);
    ok(report.checked && report.findings[FSCK_ODD].count == 1);
    ok(unit_try(&unit, options_of(64 * MIB, 4 * MIB)) == OK);
    ok(!serving(&unit) && names_it(unit.why, name));
    unit_close(&unit);
    ok(outside_is_untouched());
    put_back(name);
}

TEST(odd_bans) { all_kinds("bans", bans_are_needed); }

TEST(odd_inner_folders)
{
    static const char *const names[] = { "extents", "index", "ages" };
    make_outside();
    make_folder();
    alarm(60);
    for (size_t i = 0; i < countof(names); i++)
        for (int odd = 0; odd < FOLDER; odd++)
            keeps_the_folder_out(names[i], (enum odd)odd);
    alarm(0);
    struct unit_store unit = unit_open();
    ok(has_object(&unit, "odd", "\"1\"", SIZE));
    unit_close(&unit);
    unlink(outside);
}

RUN(STORE_TEST(odd_format), STORE_TEST(odd_lock), STORE_TEST(odd_index_data),
    STORE_TEST(odd_names), STORE_TEST(odd_pins), STORE_TEST(odd_clean),
    STORE_TEST(odd_doubt), STORE_TEST(odd_extent), STORE_TEST(odd_ages), STORE_TEST(odd_rule),
    STORE_TEST(odd_fresh_ages), STORE_TEST(odd_index_lock), STORE_TEST(odd_restated), STORE_TEST(odd_fresh), STORE_TEST(odd_bans),
    STORE_TEST(odd_inner_folders))
