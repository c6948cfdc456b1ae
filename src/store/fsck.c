/* fsck.c - checks cache folders that no process uses, and repairs them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A check reads the folder by the code that Penstock itself uses, and changes nothing: the index is
 * opened without LMDB's lock file, and the extents only to read records. Files are read without
 * filling the page cache. The order is: the format file, small files, the index, the extents with
 * their records against the index, the entries of the index against the records.
 *
 * If a repair is wanted and possible, it follows (fsck_repair.c), then a second check, which does
 * not read data again. fsck.def has all findings. */
#include "store/fsck.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "store/clearing.h"
#include "store/fsck_inside.h"
#include "store/installation.h"

#define COLD_BYTES (4 * MIB)          /* of one read of the disk */

const struct fsck_words fsck_words[FSCK_KINDS] = {
#define NOTED FSCK_NOTED
#define WRONG FSCK_WRONG
#define BY_HAND FSCK_BY_HAND
#define FSCK(id, name, grade, what, start) { name, grade, what, start },
#include "store/fsck.def"
#undef NOTED
#undef WRONG
#undef BY_HAND
};

void fsck_note(struct fsck *fsck, enum fsck_kind kind, const char *fmt, ...)
{
    struct fsck_finding *finding = &fsck->report->findings[kind];
    char text[512];
    va_list args;
    if (finding->count++ >= FSCK_EXAMPLES)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    finding->examples[finding->count - 1] = arena_copy(fsck->keep, slice_of(text));
}

DIR *fsck_list(const struct fsck *fsck, const char *inner)
{
    int fd = openat(fsck->folder, inner, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? NULL : fdopendir(fd);
}

struct dirent *fsck_next(struct fsck *fsck, DIR *dir, const char *inner)
{
    enum err e = OK;
    struct dirent *item = file_next(dir, &e);
    if (e)
        fsck_note(fsck, FSCK_UNREAD, "%s: the list of its files", inner);
    return item;
}

bool fsck_has(const struct fsck *fsck, const char *name)
{
    return faccessat(fsck->folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Counts the findings of these grades. */
static uint64_t count_grades(const struct fsck_report *report, enum fsck_grade least, bool left)
{
    uint64_t count = 0;
    for (size_t i = 0; i < FSCK_KINDS; i++)
        if (fsck_words[i].grade >= least)
            count += left && report->repaired ? report->left[i] : report->findings[i].count;
    return count;
}

uint64_t fsck_found_wrong(const struct fsck_report *report)
{
    return count_grades(report, FSCK_WRONG, false);
}

uint64_t fsck_wrong(const struct fsck_report *report)
{
    return count_grades(report, FSCK_WRONG, true);
}

uint64_t fsck_by_hand(const struct fsck_report *report)
{
    return count_grades(report, FSCK_BY_HAND, true);
}

/* ---- before the check of a folder ---- */

static bool fails(struct fsck *fsck, slice why)
{
    fsck->report->why = why;
    return false;
}

/* A running Penstock has made the file. So if the file is missing, a check needs no lock. A repair
 * makes it. */
static bool take_lock(struct fsck *fsck)
{
    struct arena *keep = fsck->keep;
    const char *path = fsck->report->path;
    char name[17];
    if (fsck->lock_fd >= 0)
        return true;
    bool makes = fsck->ask->repair && fsck_is_owner(fsck);
    fsck->lock_fd = file_open(fsck->folder, "lock", makes ? O_RDWR | O_CREAT : O_RDONLY);
    if (fsck->lock_fd < 0)    /* fsck_kinds_are_right was called */
        return errno == ENOENT ||
               fails(fsck, arena_printf(keep, "%s/lock can't be opened (%s). If the reason is a "
                                              "missing right, run fsck as the user of the service "
                                              "(without --repair, root may run it, too)", path,
                                    strerror(errno)));
    if (flock(fsck->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    if (errno != EWOULDBLOCK)
        return fails(fsck, arena_printf(keep, "%s/lock can't be locked (%s), probably because the "
                                        "file system lacks flock. Put the cache folder on a local "
                                        "file system", path, strerror(errno)));
    pid_t pid = lock_holder(fsck->lock_fd, name);
    return fails(fsck, pid ? arena_printf(keep, "process %d (%s) uses the folder: stop that "
                                          "process first. (A running Penstock verifies its records "
                                          "itself, in the background, unless "
                                          "scrub_time is 0.)", (int)pid,
                                          *name ? name : "in another container")
                           : S("another process uses the folder: stop that process first. (A "
                               "running Penstock verifies its records itself, in the background, "
                               "unless scrub_time is 0.)"));
}

static bool open_folder(struct fsck *fsck)
{
    if (fsck->folder < 0)
        fsck->folder = folder_dir(fsck->report->path);
    return fsck->folder >= 0 ||
           fails(fsck, arena_printf(fsck->keep, "the folder can't be read (%s); check its path and "
                                    "its rights", strerror(errno)));
}

/* Returns false if the folder can't be checked, or if there is nothing more to check. */
static bool read_format(struct fsck *fsck)
{
    const char *why = "";
    slice stranger = S("");
    enum err e = folder_peek_at(fsck->folder, &fsck->format, &why);
    fsck->report->version = e ? 0 : fsck->format.version;
    fsck->report->generation = e ? 0 : fsck->format.generation;
    if (e == OK)
        return true;
    if (e == ERR_FORMAT || e == ERR_IO)
        return fails(fsck, arena_copy(fsck->keep, slice_of(why)));
    enum err seen = e == ERR_NOT_FOUND ? clearing_look(fsck->folder, fsck->keep, &stranger) : OK;
    if (seen == ERR_FORMAT)
        return fails(fsck, arena_printf(fsck->keep, "the folder has no file 'format', and holds "
                                        "%.*s, which is not Penstock's; check the path. If this is "
                                        "a cache folder, move the files of other programs out of "
                                        "it", SLICE_ARG(stranger)));
    if (seen)
        return fails(fsck, seen == ERR_NOT_FOUND
                           ? S("the folder holds no cache: it is new, or was emptied")
                           : S("the folder can't be read; check its rights, and the disk"));
    fsck->report->checked = true;
    fsck_note(fsck, FSCK_FORMAT, "format: %s", e == ERR_GONE ? why : "missing");
    return false;
}

/* ---- the folders among each other ---- */

struct sibling {
    bool known;
    struct format format;
};

static struct sibling *read_siblings(const struct fsck_ask *ask)
{
    struct sibling *siblings = must_alloc(ask->count * sizeof(*siblings));
    for (size_t i = 0; i < ask->count; i++) {
        const char *why;
        siblings[i].known = folder_peek(ask->folders[i], &siblings[i].format, &why) == OK;
    }
    return siblings;
}

static const struct sibling *first_known(const struct sibling *siblings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (siblings[i].known)
            return &siblings[i];
    return NULL;
}

/* Returns false if a start would make another list of these folders. The result is true if one of
 * them is new, because the list is then not known. */
static bool is_present_list(const struct sibling *siblings, size_t count,
                            const struct format *format)
{
    struct route_row *rows = must_alloc((count + 1) * sizeof(*rows));
    size_t known = 0;
    bool same = true;
    for (size_t i = 0; i < count; i++) {
        if (!siblings[i].known || siblings[i].format.version < 2)
            continue;
        rows[known].weight = siblings[i].format.weight;
        memcpy(rows[known++].id, siblings[i].format.volume, VOLUME_ID_BYTES);
    }
    if (known == count)
        same = installation_is_same_list(rows, count, format->volumes, format->volume_count);
    free(rows);
    return same;
}

static void check_siblings(struct fsck *fsck, const struct sibling *siblings, size_t mine)
{
    const struct format *format = &fsck->format;
    const struct sibling *first = first_known(siblings, fsck->ask->count);
    if (first && memcmp(first->format.secret, format->secret, sizeof(format->secret)) != 0)
        fsck_note(fsck, FSCK_STRANGE, "format");
    if (format->version < 2)
        return;
    for (size_t i = 0; i < fsck->ask->count; i++) {
        const struct format *other = &siblings[i].format;
        if (!siblings[i].known || i == mine || other->version < 2)
            continue;
        if (i < mine && memcmp(other->volume, format->volume, VOLUME_ID_BYTES) == 0)
            fsck_note(fsck, FSCK_TWIN, "%s", fsck->ask->folders[i]);
        if (runs_missed(format, other))
            fsck_note(fsck, FSCK_LAGS, "%s", fsck->ask->folders[i]);
    }
    if (!is_present_list(siblings, fsck->ask->count, format))
        fsck_note(fsck, FSCK_LIST, "at the last use, the list had %u folders",
                  format->volume_count);
}

/* ---- one folder ---- */

static void fsck_begin(struct fsck *fsck)
{
    fsck->extents = extents_new(0);
    fsck->index = index_new();
    cold_init(&fsck->cold, COLD_BYTES);
}

static void close_contents(struct fsck *fsck)
{
    index_close(fsck->index);
    extents_close(fsck->extents);
}

static void fsck_end(struct fsck *fsck)
{
    close_contents(fsck);
    for (size_t i = 0; i < fsck->list_count; i++) {
        free(fsck->list[i].records);
        free(fsck->list[i].named);
    }
    free(fsck->list);
    index_free(&fsck->index);
    extents_free(&fsck->extents);
    cold_free(&fsck->cold);
}

static bool check_contents(struct fsck *fsck)
{
    fsck_open_index(fsck);
    if (fsck_has(fsck, "extents") &&
        extents_open(fsck->extents, fsck->folder, &fsck->format) != OK)
        return fails(fsck, S("the folder 'extents' can't be read; check its rights, the disk, and "
                             "the limit of open files"));
    fsck_extents(fsck);
    fsck_entries(fsck);
    fsck_ages(fsck);
    return true;
}

static void check_folder(struct fsck *fsck, const struct sibling *siblings, size_t mine)
{
    /* read again under the lock, which only a cache folder gets */
    if (!open_folder(fsck) || !fsck_kinds_are_right(fsck) || !read_format(fsck) ||
        !take_lock(fsck) || !read_format(fsck))
        return;
    if (fsck->format.one_copy_damaged)
        fsck_note(fsck, FSCK_FORMAT_COPY, "format");
    check_siblings(fsck, siblings, mine);
    fsck_files(fsck);
    fsck->report->checked = check_contents(fsck);
}

static void check_again(const struct fsck *before, const struct sibling *siblings, size_t mine)
{
    struct fsck_report *report = must_alloc(sizeof(*report));
    struct fsck_ask ask = *before->ask;
    ask.progress = NULL;
    struct fsck fsck = { .ask = &ask, .report = report, .keep = before->keep, .quick = true,
                         .folder = before->folder, .lock_fd = before->lock_fd };
    report->path = before->report->path;
    fsck_begin(&fsck);
    check_folder(&fsck, siblings, mine);
    fsck_end(&fsck);
    for (size_t i = 0; i < FSCK_KINDS; i++)
        before->report->left[i] = report->findings[i].count;
    if (!report->checked)
        before->report->why = report->why;
    before->report->generation = report->generation;
    free(report);
}

static void run_one(const struct fsck_ask *ask, size_t mine, const struct sibling *siblings,
                    struct arena *keep, struct fsck_report *report)
{
    struct fsck fsck = { .ask = ask, .report = report, .keep = keep, .quick = ask->quick,
                         .folder = -1, .lock_fd = -1 };
    const char *why;
    *report = (struct fsck_report){ .path = ask->folders[mine] };
    fsck_begin(&fsck);
    check_folder(&fsck, siblings, mine);
    close_contents(&fsck);
    if (ask->repair && report->findings[FSCK_UNREAD].count) {
        report->why = S("fsck could not read all of the folder, so fsck does not know what is "
                        "damaged. Check the rights, the disk and the kernel log, then run fsck "
                        "--repair again");
    } else if (ask->repair && report->checked && fsck_can_repair(report)) {
        if (fsck_repair(&fsck, &why) != OK)
            report->why = slice_of(why);
        if (report->repaired)
            check_again(&fsck, siblings, mine);
    }
    fsck_end(&fsck);
    if (fsck.lock_fd >= 0)
        close(fsck.lock_fd);
    if (fsck.folder >= 0)
        close(fsck.folder);
}

void fsck_run(const struct fsck_ask *ask, struct arena *keep, struct fsck_report *ret)
{
    struct sibling *siblings = read_siblings(ask);
    for (size_t i = 0; i < ask->count; i++)
        run_one(ask, i, siblings, keep, &ret[i]);
    free(siblings);
}
