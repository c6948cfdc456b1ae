/* mounts.c - finds a file system that should be mounted at or above a path, and is not.
 * SPDX-License-Identifier: Apache-2.0
 *
 * If a cache folder is made at a mount point before the disk is mounted, it fills the root disk,
 * and the later mount hides it. fstab and systemd's mount units name the mount points;
 * /proc/self/mounts has the ones that are in use. Paths are compared as written, and with their
 * links resolved. */
#include "store/mounts.h"

#include <glob.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define FILE_BYTES_MAX (4 * MIB)    /* of a mount unit */
#define LINE_BYTES_MAX (64 * KIB)   /* of fstab; getmntent_r skips the rest of a longer line */

const struct mounts_files mounts_here = {
    .fstab = "/etc/fstab",
    .mounts = "/proc/self/mounts",
    .booted = "/run/systemd/system",
    .unit_dirs = (const char *const[]){ "/etc/systemd/system", "/run/systemd/system",
                                        "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
                                        "/lib/systemd/system", NULL },
    .own_dirs = 2,
};

struct search {
    struct arena *keep;
    const struct mounts_files *files;
    slice mounted;                    /* see points_in */
    slice written, resolved;          /* the path */
};

/* ---- paths ---- */

static slice without_slash(slice path)
{
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    return path;
}

/* Resolves the links in that part of the path that exists. */
static slice resolve(struct arena *keep, slice path)
{
    for (size_t len = path.len; len > 0; len--) {
        char real[PATH_MAX];
        bool ends = len == path.len || path.ptr[len] == '/';
        if (ends && realpath(arena_copy(keep, slice_sub(path, 0, len)).ptr, real))
            return arena_printf(keep, "%s%.*s", strcmp(real, "/") == 0 ? "" : real,
                                SLICE_ARG(slice_from(path, len)));
    }
    return path;
}

static bool covers(slice point, slice path)
{
    return slice_starts(path, point) &&
           (path.len == point.len || point.len == 1 || path.ptr[point.len] == '/');
}

/* ---- expected and present mounts ---- */

/* Returns the mount points that a file in the format of fstab names, each with a NUL behind it. */
static slice points_in(struct arena *keep, const char *path)
{
    struct text text = text_in(keep);
    struct mntent entry;
    char line[LINE_BYTES_MAX];
    FILE *file = setmntent(path, "re");
    while (file && getmntent_r(file, &entry, line, sizeof(line)))
        text_add(&text, (slice){ entry.mnt_dir, strlen(entry.mnt_dir) + 1 });
    if (file)
        endmntent(file);
    return text.len ? text_slice(&text) : S("");
}

static bool is_mounted(const struct search *search, slice point)
{
    bool found = false;
    for (slice rest = search->mounted; rest.len && !found;)
        found = slice_eq(slice_cut(&rest, '\0'), point);
    return found;
}

static bool is_missing(const struct search *search, slice path, const char *by,
                       struct mounts_missing *ret)
{
    slice point = without_slash(path);
    if (!slice_starts(point, S("/")))    /* "none", for swap */
        return false;
    slice real = resolve(search->keep, point);
    bool above = covers(point, search->written) || covers(real, search->resolved);
    *ret = (struct mounts_missing){ point, arena_copy(search->keep, slice_of(by)) };
    return above && !is_mounted(search, point) && !is_mounted(search, real);
}

static bool fstab_misses(const struct search *search, struct mounts_missing *ret)
{
    const char *fstab = search->files->fstab;
    for (slice rest = points_in(search->keep, fstab); rest.len;)
        if (is_missing(search, slice_cut(&rest, '\0'), fstab, ret))
            return true;
    return false;
}

static bool matches(const char *pattern)
{
    glob_t found;
    bool any = glob(pattern, GLOB_NOESCAPE, NULL, &found) == 0;
    if (any)
        globfree(&found);
    return any;
}

/* Returns true if systemd uses this unit. A unit of the same name in an earlier folder overrides
 * it. If the administrator did not write the unit, another one must want or require it:
 * distributions ship units for mounts that a machine may not have. */
static bool unit_counts(const struct search *search, const char *path, size_t dir)
{
    const struct mounts_files *files = search->files;
    const char *name = strrchr(path, '/') + 1;
    bool wanted = dir < files->own_dirs;
    for (size_t i = 0; files->unit_dirs[i]; i++) {
        struct stat st;
        const char *here = files->unit_dirs[i];
        if (i < dir && lstat(arena_printf(search->keep, "%s/%s", here, name).ptr, &st) == 0)
            return false;
        wanted = wanted || matches(arena_printf(search->keep, "%s/*.wants/%s", here, name).ptr) ||
                 matches(arena_printf(search->keep, "%s/*.requires/%s", here, name).ptr);
    }
    return wanted;
}

/* Returns the mount point of a unit, from a line such as "Where=/nvme". The result is empty if the
 * unit can't be read. */
static slice where_of(struct arena *keep, const char *path)
{
    slice unit;
    (void)!file_read(path, FILE_BYTES_MAX, keep, &unit);
    while (unit.ptr) {
        slice value = slice_cut(&unit, '\n'), name = slice_trim(slice_cut(&value, '='));
        if (slice_eq(name, S("Where")))
            return slice_trim(value);
    }
    return S("");
}

static bool units_miss(const struct search *search, size_t dir, struct mounts_missing *ret)
{
    glob_t found;
    bool missing = false;
    const char *pattern = arena_printf(search->keep, "%s/*.mount",
                                       search->files->unit_dirs[dir]).ptr;
    if (glob(pattern, 0, NULL, &found) != 0)
        return false;
    for (size_t i = 0; i < found.gl_pathc && !missing; i++)
        missing = unit_counts(search, found.gl_pathv[i], dir) &&
                  is_missing(search, where_of(search->keep, found.gl_pathv[i]),
                             found.gl_pathv[i], ret);
    globfree(&found);
    return missing;
}

bool mounts_missing(const char *path, const struct mounts_files *files, struct arena *keep,
                    struct mounts_missing *ret)
{
    struct search search = { .keep = keep, .files = files };
    search.mounted = points_in(keep, files->mounts);
    search.written = without_slash(slice_of(path));
    search.resolved = resolve(keep, search.written);
    if (!search.mounted.len)
        return false;
    bool missing = fstab_misses(&search, ret), units = access(files->booted, F_OK) == 0;
    for (size_t i = 0; units && files->unit_dirs[i] && !missing; i++)
        missing = units_miss(&search, i, ret);
    return missing;
}

slice mounts_point(const char *path, const struct mounts_files *files, struct arena *keep)
{
    slice resolved = resolve(keep, without_slash(slice_of(path))), found = S("");
    for (slice rest = points_in(keep, files->mounts); rest.len;) {
        slice point = slice_cut(&rest, '\0');
        if (point.len > found.len && covers(point, resolved))
            found = point;
    }
    return found;
}

bool mounts_gone(slice point, const struct mounts_files *files)
{
    struct arena keep = { 0 };
    struct search search = { .keep = &keep, .mounted = points_in(&keep, files->mounts) };
    bool gone = point.len && search.mounted.len && !is_mounted(&search, point);
    arena_free(&keep);
    return gone;
}
