/* clearing.c - a folder without its format file: whose files are in it, and removing old extents.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Without the secret in the format file no object in the folder can be found. So the files are
 * removed, but only if each name in the folder is one that Penstock gives: an operator who mistypes
 * a path loses nothing. A folder that Penstock has used has extents/. If there is no extents/,
 * files named format or index are foreign. Threads: any may call clearing_look, which only reads.
 * The rest is for the committer, under the lock of the folder. */
#include "store/clearing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "store/extent.h"
#include "store/folder.h"
#include "store/index.h"

typedef bool is_ours(const char *name);

static bool is_before_use(const char *name)
{
    static const char *const ours[] = { "lock", FOLDER_FRESH, FOLDER_FRESH_NAMES, "clean", "doubt",
                                        "lost+found" };
    return slice_is_one_of(slice_of(name), ours, countof(ours));
}

static bool is_in_use(const char *name)
{
    static const char *const ours[] = { "format", "index", "extents", "names", "restated",
                                        "ages", "bans", "pins", "jobs", "peers" };
    return is_before_use(name) || slice_is_one_of(slice_of(name), ours, countof(ours));
}

static bool is_of_index(const char *name)
{
    static const char *const ours[] = { "data.mdb", "lock.mdb", INDEX_SUSPECT };
    return slice_is_one_of(slice_of(name), ours, countof(ours));
}

static bool is_extent(const char *name)
{
    uint32_t number;
    return extent_number_of(name, &number);
}

static bool is_of_ages(const char *name)
{
    static const char *const ours[] = { "rule", "fresh" };
    return is_extent(name) || slice_is_one_of(slice_of(name), ours, countof(ours));
}

/* Returns OK, ERR_NOT_FOUND if the folder is missing, ERR_FORMAT if it is not a folder, or
 * ERR_IO. */
static enum err open_inner(int folder, const char *inner, DIR **ret)
{
    int fd = openat(folder, *inner ? inner : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    *ret = fd < 0 ? NULL : fdopendir(fd);
    if (*ret)
        return OK;
    return errno == ENOENT ? ERR_NOT_FOUND : errno == ENOTDIR ? ERR_FORMAT : ERR_IO;
}

struct search {
    int folder;
    clearing_visit *each;
    void *arg;
};

/* Returns ERR_FORMAT if `each` ended the search, or if the inner folder is a file. */
static enum err search(const struct search *search, const char *inner, is_ours *ours)
{
    DIR *dir;
    struct dirent *item;
    enum err e = open_inner(search->folder, inner, &dir);
    if (e == ERR_FORMAT)
        (void)!search->each(search->arg, inner, "");
    if (e)
        return e;
    while (!e && (item = file_next(dir, &e)))
        if (!ours(item->d_name) && !search->each(search->arg, inner, item->d_name))
            e = ERR_FORMAT;
    closedir(dir);
    return e;
}

struct first {
    struct arena *keep;
    slice *ret;
};

static bool keep_first(void *arg, const char *inner, const char *name)
{
    struct first *first = arg;
    slice word = log_word(first->keep, slice_of(name));
    *first->ret = arena_printf(first->keep, "'%s%s%.*s'", inner, *inner && *name ? "/" : "",
                               SLICE_ARG(word));
    return false;
}

static enum err look(int folder, const char *inner, is_ours *ours, struct arena *keep,
                     slice *ret_stranger)
{
    struct first first = { keep, ret_stranger };
    return search(&(struct search){ folder, keep_first, &first }, inner, ours);
}

enum err clearing_look(int folder, struct arena *keep, slice *ret_stranger)
{
    enum err extents = look(folder, "extents", is_extent, keep, ret_stranger), e;
    if (extents && extents != ERR_NOT_FOUND)
        return extents;
    e = look(folder, "", extents ? is_before_use : is_in_use, keep, ret_stranger);
    if (e || extents)
        return e ? e : ERR_NOT_FOUND;
    e = look(folder, "index", is_of_index, keep, ret_stranger);
    if (!e || e == ERR_NOT_FOUND)    /* files in jobs/ and peers/ stay, so their names do not matter */
        e = look(folder, "ages", is_of_ages, keep, ret_stranger);
    return e == ERR_NOT_FOUND ? OK : e;
}

enum err clearing_each_stranger(int folder, clearing_visit *each, void *arg)
{
    static const struct {
        const char *inner;
        is_ours *ours;
    } inners[] = { { "", is_in_use }, { "extents", is_extent }, { "index", is_of_index },
                   { "ages", is_of_ages } };
    struct search all = { folder, each, arg };
    enum err e = OK;
    for (size_t i = 0; i < countof(inners) && (!e || e == ERR_NOT_FOUND); i++)
        e = search(&all, inners[i].inner, inners[i].ours);
    return e == ERR_NOT_FOUND || e == ERR_FORMAT ? OK : e;
}

/* Removes the files whose names `ours` accepts, except the file of the extent `keep`. */
static enum err remove_files(DIR *dir, is_ours *ours, uint32_t keep)
{
    uint32_t number;
    struct dirent *item;
    enum err e = OK;
    while (!e && (item = file_next(dir, &e)))
        if (ours(item->d_name) && !(extent_number_of(item->d_name, &number) && number == keep) &&
            unlinkat(dirfd(dir), item->d_name, 0) != 0)
            e = ERR_IO;
    return e;
}

enum err clearing_ages(int folder)
{
    DIR *dir;
    enum err e = open_inner(folder, "ages", &dir);
    if (e)
        return e == ERR_NOT_FOUND ? OK : ERR_IO;
    e = remove_files(dir, is_of_ages, 0);
    closedir(dir);
    return e;
}

enum err clearing_extents(int folder, uint32_t *ret_highest)
{
    DIR *dir;
    uint32_t number, far = 0;
    struct dirent *item;
    *ret_highest = 0;
    enum err e = open_inner(folder, "extents", &dir);
    if (e)
        return ERR_IO;
    while ((item = file_next(dir, &e)))
        if (extent_number_of(item->d_name, &number)) {
            uint32_t *highest = number < EXTENT_NUMBER_FAR ? ret_highest : &far;
            *highest = MAX(*highest, number);
        }
    *ret_highest = *ret_highest ? *ret_highest : far;
    rewinddir(dir);
    if (!e)
        e = remove_files(dir, is_extent, *ret_highest);
    closedir(dir);
    return e;
}
