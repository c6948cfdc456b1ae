/* probe.c - finds why a cache folder could not be opened. SPDX-License-Identifier: Apache-2.0
 *
 * This code only looks, and changes nothing. `penstock check` calls it before a start, and serve
 * calls it for the message when a folder can't be opened. Each message says what is wrong, for
 * which user or process, and what to do. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "store/clearing.h"
#include "store/folder.h"
#include "store/mounts.h"
#include "store/store.h"

struct look {
    slice folder;
    struct arena *keep;
    slice why;
};

static enum err judged(struct look *look, enum err err, slice why)
{
    look->why = why;
    return err;
}

static slice user_of(struct arena *keep, uid_t uid)
{
    struct passwd entry, *found = NULL;
    char room[4096];
    if (getpwuid_r(uid, &entry, room, sizeof(room), &found) == 0 && found)
        return arena_copy(keep, slice_of(entry.pw_name));
    return arena_printf(keep, "%u", (unsigned)uid);
}

/* The folder that a path lies in. */
static slice above(struct arena *keep, slice path)
{
    return slice_of(dirname((char *)arena_copy(keep, path).ptr));
}

/* Explains why this user may not write to `path`. If another user owns it, the text has `advice`
 * at its end. */
static enum err refused(struct look *look, const char *path, const struct stat *st, slice advice)
{
    struct arena *keep = look->keep;
    slice us = user_of(keep, geteuid()), owner = user_of(keep, st->st_uid);
    struct statvfs fs;
    if (statvfs(path, &fs) == 0 && (fs.f_flag & ST_RDONLY))
        return judged(look, ERR_IO, S("the folder's file system is mounted read-only; mount it "
                                      "writable, or " SET_ANOTHER));
    if (st->st_uid != geteuid())
        return judged(look, ERR_DENIED, arena_printf(keep, "%s belongs to %.*s, and this user is "
                                                     "%.*s: %.*s", path, SLICE_ARG(owner),
                                                     SLICE_ARG(us), SLICE_ARG(advice)));
    return judged(look, ERR_IO, arena_printf(keep, "this user, %.*s, owns %s, but may not write to "
                                             "it: run chmod u+rwX %s. If the cache folder exists, "
                                             "also run chmod -R u+rwX %.*s", SLICE_ARG(us), path,
                                             path, SLICE_ARG(look->folder)));
}

static enum err look_at_mounts(struct look *look)
{
    struct mounts_missing lost;
    if (!mounts_missing(look->folder.ptr, &mounts_here, look->keep, &lost))
        return OK;
    return judged(look, ERR_IO, arena_printf(look->keep, "%.*s should be a mount, as %.*s says, "
                                             "and nothing is mounted there; mount its disk, or "
                                             SET_ANOTHER, SLICE_ARG(lost.point),
                                             SLICE_ARG(lost.by)));
}

/* For a missing folder: finds out whether it can be made. */
static enum err look_above(struct look *look)
{
    struct stat st;
    slice path = above(look->keep, look->folder), us = user_of(look->keep, geteuid());
    if (stat(path.ptr, &st) != 0)
        return judged(look, ERR_IO, arena_printf(look->keep, "the folder above the cache folder, "
                                                 "%.*s, is not there; make that folder, mount its "
                                                 "disk, or " SET_ANOTHER,
                                                 SLICE_ARG(path)));
    if (faccessat(AT_FDCWD, path.ptr, W_OK | X_OK, AT_EACCESS) == 0)
        return OK;
    return refused(look, path.ptr, &st,
                   arena_printf(look->keep, "run sudo install -d -o %.*s -m 0700 %.*s",
                                SLICE_ARG(us), SLICE_ARG(look->folder)));
}

/* The first folder of the path that this user may not enter. */
static slice closed_above(const struct look *look)
{
    size_t len = 0;
    for (size_t i = 1; i < look->folder.len && !len; i++) {
        if (look->folder.ptr[i] != '/')
            continue;
        slice path = arena_copy(look->keep, slice_sub(look->folder, 0, i));
        if (faccessat(AT_FDCWD, path.ptr, X_OK, AT_EACCESS) != 0)
            len = i;
    }
    return len ? slice_sub(look->folder, 0, len) : look->folder;
}

static enum err look_at_path(struct look *look, bool *ret_there)
{
    struct stat st;
    *ret_there = stat(look->folder.ptr, &st) == 0;
    if (*ret_there && !S_ISDIR(st.st_mode))
        return judged(look, ERR_FORMAT, S("the path is not a folder; " SET_ANOTHER));
    if (*ret_there)
        return OK;
    if (errno == ENOTDIR)
        return judged(look, ERR_FORMAT, S("the folder can't be made, because a part of its path is "
                                          "a file; " SET_ANOTHER));
    if (errno == EACCES) {
        slice us = user_of(look->keep, geteuid()), closed = closed_above(look);
        return judged(look, ERR_DENIED, arena_printf(look->keep, "this user, %.*s, may not enter "
                                                     "%.*s: run chmod a+x %.*s, or " SET_ANOTHER,
                                                     SLICE_ARG(us), SLICE_ARG(closed),
                                                     SLICE_ARG(closed)));
    }
    if (lstat(look->folder.ptr, &st) == 0)
        return judged(look, ERR_IO, S("the path is a link to a folder that is not there; make "
                                      "that folder, or " SET_ANOTHER));
    return look_above(look);
}

static enum err look_at_rights(struct look *look)
{
    static const char *const inside[] = { "", "/lock", "/format", "/extents", "/index",
                                          "/index/data.mdb" };
    slice us = user_of(look->keep, geteuid());
    slice advice = arena_printf(look->keep, "run sudo chown -R %.*s %.*s, or " SET_ANOTHER,
                                SLICE_ARG(us), SLICE_ARG(look->folder));
    for (size_t i = 0; i < countof(inside); i++) {
        struct stat st;
        const char *path = arena_printf(look->keep, "%.*s%s", SLICE_ARG(look->folder),
                                        inside[i]).ptr;
        if (stat(path, &st) == 0 &&
            faccessat(AT_FDCWD, path, R_OK | W_OK | (S_ISDIR(st.st_mode) ? X_OK : 0),
                      AT_EACCESS) != 0)
            return refused(look, path, &st, advice);
    }
    return OK;
}

static enum err look_at_kinds(struct look *look, int folder)
{
    static const char *const others[] = { "bans", "restated" };
    for (size_t i = 0; i < FOLDER_NEEDED + countof(others); i++) {
        const char *name = i < FOLDER_NEEDED ? folder_needed[i] : others[i - FOLDER_NEEDED];
        const char *odd = folder_odd(folder, name);
        if (odd)
            return judged(look, ERR_IO, arena_printf(look->keep, "%.*s/%s is %s, which Penstock "
                                                     "does not open; put the right file or folder "
                                                     "there. If you no longer have it, remove "
                                                     "the wrong one: Penstock then makes a new "
                                                     "one, and may lose cached objects or forget "
                                                     "purges",
                                                     SLICE_ARG(look->folder), name, odd));
    }
    return OK;
}

static enum err look_at_contents(struct look *look, int folder)
{
    struct format format;
    const char *why;
    slice stranger;
    enum err e = folder_peek_at(folder, &format, &why);
    if (e == ERR_FORMAT)
        return judged(look, e, slice_of(why));
    bool lost = e == ERR_NOT_FOUND || e == ERR_GONE;
    if (lost && clearing_look(folder, look->keep, &stranger) == ERR_FORMAT)
        return judged(look, ERR_FORMAT, arena_printf(look->keep, "the folder holds %.*s, which is "
                                                     "not Penstock's; " SET_EMPTY,
                                                     SLICE_ARG(stranger)));
    return OK;
}

/* Takes a shared lock for a moment, to find out whether another process has the lock. */
static enum err look_at_lock(struct look *look, int folder)
{
    int fd = file_open(folder, "lock", O_RDWR);
    bool held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return held ? judged(look, ERR_BUSY, S("another process uses the folder; stop that process, or "
                                           SET_ANOTHER)) : OK;
}

bool store_has_secret(const char *folder)
{
    struct format format;
    const char *why;
    return folder_peek(folder, &format, &why) == OK;
}

bool store_is_of(const char *folder, const char *first)
{
    struct format mine, others;
    const char *why;
    return !first || folder_peek(folder, &mine, &why) != OK ||
           folder_peek(first, &others, &why) != OK ||
           memcmp(mine.secret, others.secret, sizeof(mine.secret)) == 0;
}

bool store_is_copy_of(const char *folder, const char *other)
{
    struct format mine, others;
    const char *why;
    return folder_peek(folder, &mine, &why) == OK && folder_peek(other, &others, &why) == OK &&
           mine.version == FORMAT_VERSION && others.version == FORMAT_VERSION &&
           memcmp(mine.volume, others.volume, sizeof(mine.volume)) == 0;
}

static enum err look_inside(struct look *look)
{
    int folder = folder_dir(look->folder.ptr);
    if (folder < 0)
        return OK;    /* look_at_rights has found no reason */
    enum err e = look_at_kinds(look, folder);
    if (!e)
        e = look_at_contents(look, folder);
    if (!e)
        e = look_at_lock(look, folder);
    close(folder);
    return e;
}

enum err store_probe(const char *folder, struct arena *keep, slice *ret_why)
{
    struct look look = { .folder = slice_of(folder), .keep = keep, .why = S("") };
    bool there = false;
    enum err e = look_at_mounts(&look);
    if (!e)
        e = look_at_path(&look, &there);
    if (!e && there)
        e = look_at_rights(&look);
    if (!e && there)
        e = look_inside(&look);
    *ret_why = look.why;
    return e;
}
