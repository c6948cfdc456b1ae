/* test_store_replaced.c - a cache folder that is open, while its path leads to another folder; and
 * a folder that is removed or replaced while it is opened. SPDX-License-Identifier: Apache-2.0
 *
 * The path leads to another folder after an unmount, after another disk was mounted over the
 * folder, or after the folder was moved. Nothing may be written to the folder that the path leads
 * to then. If files vanish during an opening, it may fail. The next one must succeed. */
#include "store_unit.h"

#include <stdarg.h>
#include <sys/syscall.h>

#include "store/ban_list.h"
#include "store/bans.h"
#include "store/folder.h"
#include "store/names.h"
#include "store/restated.h"

static const uint8_t secret[STORE_SECRET_BYTES] = { 7 };
static char moved[80];

/* ---- system calls: something may happen to the folder before one of them ---- */

static void (*happens)(void);         /* NULL: nothing, or it has happened */
static unsigned calls, happens_at;

static void step(void)
{
    if (!happens || calls++ != happens_at)
        return;
    void (*call)(void) = happens;
    happens = NULL;
    call();
}

#define MODE_OF(flags, mode)                                                                   \
    do {                                                                                       \
        va_list rest;                                                                          \
        va_start(rest, flags);                                                                 \
        mode = (flags) & O_CREAT ? va_arg(rest, mode_t) : 0;                                   \
        va_end(rest);                                                                          \
    } while (0)

int open(const char *path, int flags, ...)
{
    mode_t mode;
    MODE_OF(flags, mode);
    step();
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    mode_t mode;
    MODE_OF(flags, mode);
    step();
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

int mkdir(const char *path, mode_t mode)
{
    step();
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
    step();
    return (int)syscall(SYS_mkdirat, folder, path, mode);
}

int unlinkat(int folder, const char *path, int flags)
{
    step();
    return (int)syscall(SYS_unlinkat, folder, path, flags);
}

int renameat(int from, const char *name, int to, const char *new_name)
{
    step();
    return (int)syscall(SYS_renameat2, from, name, to, new_name, 0);
}

int faccessat(int folder, const char *path, int mode, int flags)
{
    (void)flags;    /* the user is the same */
    step();
    return (int)syscall(SYS_faccessat, folder, path, mode);
}

ssize_t pread(int fd, void *to, size_t len, off_t at)
{
    step();
    return syscall(SYS_pread64, fd, to, len, at);
}

ssize_t pwrite(int fd, const void *from, size_t len, off_t at)
{
    step();
    return syscall(SYS_pwrite64, fd, from, len, at);
}

/* These are steps only: no power fails here. */
int fsync(int fd) { return (void)fd, step(), 0; }
int fdatasync(int fd) { return (void)fd, step(), 0; }

/* ---- folders ---- */

static enum err open_after(struct folder *folder, uint32_t last_generation)
{
    struct route_row self = { .weight = 1, .id = { 5 } };
    struct folder_wish wish = { .size_bytes = 64 * MIB, .extent_bytes = 4 * MIB, .self = &self,
                                .list = &self, .list_count = 1, .serial = 1,
                                .last_generation = last_generation };
    const char *why;
    return folder_open(folder, &wish, secret, &why);
}

static enum err open_it(struct folder *folder)
{
    return open_after(folder, 0);
}

static struct folder closed(void)
{
    return (struct folder){ .path = unit_folder, .fd = -1, .lock_fd = -1, .index = index_new(),
                            .extents = extents_new(0) };
}

static struct folder open_new(void)
{
    struct folder folder = closed();
    ok(open_it(&folder) == OK);
    return folder;
}

static void end(struct folder *folder)
{
    folder_close(folder, true);
    index_free(&folder->index);
    extents_free(&folder->extents);
    free(folder->point);
}

static void replace_by_an_empty_one(void)
{
    snprintf(moved, sizeof(moved), "%s-moved", unit_folder);
    ok(rename(unit_folder, moved) == 0 && mkdir(unit_folder, 0700) == 0);
}

static size_t files_in(const char *path)
{
    size_t count = 0;
    DIR *dir = opendir(path);
    for (struct dirent *item; dir && (item = readdir(dir));)
        count += item->d_name[0] != '.';
    closedir(dir);
    return count;
}

static bool moved_has(const char *name)
{
    char path[120];
    snprintf(path, sizeof(path), "%s/%s", moved, name);
    return access(path, F_OK) == 0;
}

TEST(what_is_written_goes_to_the_open_folder)
{
    struct folder folder = open_new();
    struct restated *restated = restated_new();
    struct names *names = names_new();
    static struct ban_list list;
    struct bans *bans = bans_new(secret, 0);
    struct object_id bucket = { { 3 } };
    struct format format;
    slice prefix = S("http://o\0bucket\0");
    size_t merged;
    uint64_t serial;
    const char *why;
    ban_list_init(&list);
    ok(restated_open(restated, &folder) == OK && bans_open(bans, &list, &folder, NULL) == OK);
    replace_by_an_empty_one();

    struct format next = folder.format;
    next.serial = 77;
    ok(folder_set_format(&folder, &next) == OK);
    ok(restated_add(restated, &folder, &bucket) == OK);
    names_set(names, secret, &(struct store_name){ S("http://o"), S("me") }, 1);
    names_apply(names, &folder);
    ok(ban_list_add(&list, &prefix, 1, &serial, &merged) == OK);
    ok(bans_follow(bans, &list, &folder) == OK);
    ok(open_extent_begin(folder.extents, OPEN_LOG) == OK);
    folder_doubt(&folder, secret);
    ok(folder_why_lost(&folder) != NULL);

    ok(files_in(unit_folder) == 0);
    ok(folder_peek(moved, &format, &why) == OK && format.serial == 77);
    ok(moved_has("restated") && moved_has("names") && moved_has("bans") && moved_has("doubt"));
    ok(moved_has("extents/00000001"));
    end(&folder);
    ok(files_in(unit_folder) == 0);
    ok(!moved_has("clean"));    /* the stop was not clean: the folder was lost */
    ban_list_end(&list);
    bans_free(&bans);
    names_free(&names);
    restated_free(&restated);
    remove_tree(moved);
}

TEST(a_doubt_is_not_left_in_the_folder_of_another_installation)
{
    static const uint8_t other[STORE_SECRET_BYTES] = { 8 };
    struct folder folder = open_new();
    end(&folder);
    folder_doubt(&folder, other);
    ok(access(in_folder("doubt"), F_OK) != 0);
    folder_doubt(&folder, secret);
    ok(access(in_folder("doubt"), F_OK) == 0);
}

TEST(the_index_is_that_of_the_folder_and_not_of_the_path)
{
    struct folder folder = closed();
    folder.fd = folder_dir(unit_folder);
    ok(folder.fd >= 0);
    replace_by_an_empty_one();
    ok(open_it(&folder) == OK);
    ok(files_in(unit_folder) == 0 && moved_has("index/data.mdb") && moved_has("lock"));
    end(&folder);
    ok(files_in(unit_folder) == 0);
    remove_tree(moved);
}

/* ---- what happens while the folder is opened ---- */

static void remove_it(void)
{
    remove_tree(unit_folder);
}

static void replace_what_was_removed(void)
{
    remove_tree(unit_folder);
    ok(mkdir(unit_folder, 0700) == 0);
}

static void remove_one(const char *name)
{
    if (unlink(in_folder(name)) != 0)
        remove_tree(in_folder(name));
}

static void empty_it(void)
{
    static const char *const names[] = { "format", "lock", "index", "extents", "ages", "doubt",
                                         "clean", FOLDER_FRESH };
    for (size_t i = 0; i < countof(names); i++)
        remove_one(names[i]);
}

static void remove_format(void) { remove_one("format"); }
static void remove_lock(void) { remove_one("lock"); }
static void remove_index(void) { remove_one("index"); }
static void remove_index_file(void) { remove_one("index/data.mdb"); }
static void remove_extents(void) { remove_one("extents"); }

static const struct happening {
    const char *name;
    void (*call)(void);
} all_happenings[] = {
    { "moved, replaced by an empty one", replace_by_an_empty_one },
    { "removed, replaced by an empty one", replace_what_was_removed },
    { "removed", remove_it },
    { "emptied", empty_it },
    { "'format' removed", remove_format },
    { "'lock' removed", remove_lock },
    { "'index' removed", remove_index },
    { "'index/data.mdb' removed", remove_index_file },
    { "'extents' removed", remove_extents },
};

/* Makes the folder that is then opened: a new one, or one with an extent. */
static void make_folder(bool is_new)
{
    remove_tree(unit_folder);
    remove_tree(moved);
    ok(mkdir(unit_folder, 0700) == 0);
    if (is_new)
        return;
    struct folder folder = open_new();
    ok(open_extent_begin(folder.extents, OPEN_LOG) == OK);
    end(&folder);
}

/* Returns true if the folder is open, and its path leads to it. */
static bool opens(struct folder *folder)
{
    enum err e = open_after(folder, 1);
    bool lost = !e && folder_why_lost(folder);
    if (lost)
        folder_close(folder, false);
    return !e && !lost;
}

/* Returns false if the opening makes fewer calls. */
static bool happens_before(unsigned call, bool is_new, const struct happening *what)
{
    make_folder(is_new);
    struct folder folder = closed();
    calls = 0;
    happens_at = call;
    happens = what->call;
    bool opened = opens(&folder), happened = !happens;
    happens = NULL;
    if (!opened && !opens(&folder))
        fail_msg("%s folder %s before call %u", is_new ? "new" : "old", what->name, call);
    end(&folder);
    return happened;
}

static void at_each_call(bool is_new)
{
    snprintf(moved, sizeof(moved), "%s-moved", unit_folder);
    for (size_t i = 0; i < countof(all_happenings); i++) {
        unsigned call = 0;
        while (happens_before(call, is_new, &all_happenings[i]))
            call++;
        ok(call > 20);    /* the calls of an opening are seen here */
    }
    remove_tree(moved);
}

TEST(a_new_folder_that_is_replaced_at_any_call_of_an_opening_opens_at_the_next)
{
    at_each_call(true);
}

TEST(an_old_folder_that_is_replaced_at_any_call_of_an_opening_opens_at_the_next)
{
    at_each_call(false);
}

RUN(STORE_TEST(what_is_written_goes_to_the_open_folder),
    STORE_TEST(a_doubt_is_not_left_in_the_folder_of_another_installation),
    STORE_TEST(the_index_is_that_of_the_folder_and_not_of_the_path),
    STORE_TEST(a_new_folder_that_is_replaced_at_any_call_of_an_opening_opens_at_the_next),
    STORE_TEST(an_old_folder_that_is_replaced_at_any_call_of_an_opening_opens_at_the_next))
