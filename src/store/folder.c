/* folder.c - a cache folder as a whole: lock, format file, clean mark, opening and closing.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The steps of an opening have this order, so that after a crash at any point too little may be
 * trusted, but never too much:
 *   take the lock; read the format file, or make one in an empty folder or in one that lost it
 *   (clearing.c); read and remove the clean mark;
 *   find the extents by name and footer; open the index, or throw it away and build it from the
 *   extents;
 *   add the records of unsealed extents that the index lacks, and seal these extents;
 *   learn from the index the highest number that an extent had, because its file may be lost;
 *   write the opening number + 1 to the index, then, with the generation, to the format file, which
 *   becomes one of version 2 here.
 * The number in the index must be that of the format file, or one more. Any other index is not the
 * latest one of this folder.
 *
 * An entry is proved if its generation is the current one. An unclean start raises the generation,
 * and a rebuild writes entries with the generation before. So all entries become unproved at once,
 * without a walk. When the ten bits of the generation are used up, the index is built anew. An
 * opening is clean only if the mark of the last stop is valid (clean.h): the opening of a copy, of
 * an older state, or with a damaged meta page is unclean. */
#include "store/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/metric.h"
#include "store/age_files.h"
#include "store/clean.h"
#include "store/clearing.h"
#include "store/extent_inside.h"
#include "store/give.h"
#include "store/mounts.h"
#include "store/publish.h"
#include "store/sizing.h"
#include "store/store.h"

#define BATCH 10000u                  /* records in one transaction of a rebuild */
#define PATH_MAX_HERE 4096
#define DISK_IS_FULL                                                                           \
    "the folder can't be made or written to, because its file system is full or "              \
    "a disk quota is used up; make room there, or " SET_ANOTHER

struct path {
    char text[PATH_MAX_HERE];
};

static struct path path_in(const char *folder, const char *name)
{
    struct path path;
    int len = snprintf(path.text, sizeof(path.text), "%s/%s", folder, name);
    if (len >= (int)sizeof(path.text))
        path.text[0] = '\0';    /* an empty path opens nothing */
    return path;
}

bool folder_frees_file(const struct folder *folder)
{
    bool freed = extent_close_idle(folder->extents);
    metric_add(M_STORE_NO_FD, !freed);
    return freed;
}

enum err folder_replace(const struct folder *folder, const char *name, const void *bytes,
                        size_t len)
{
    enum err e;
    do
        e = folder_write(folder->fd, name, bytes, len);
    while (e == ERR_LIMIT && folder_frees_file(folder));
    return e;
}

/* ---- the format file ---- */

enum err folder_peek_at(int folder, struct format *ret, const char **ret_why)
{
    *ret_why = "the file 'format' in the folder can't be read; check its rights, and the disk";
    int fd = file_open(folder, "format", O_RDONLY);
    if (fd < 0 && errno == FILE_ODD)
        *ret_why = "'format' in the folder must be an ordinary file, but is a link, FIFO, device "
                   "or folder; put the right file there, or empty the cache folder";
    if (fd < 0 && file_err(errno) == ERR_LIMIT)
        *ret_why = FOLDER_NO_FILES;
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO;
    char bytes[FORMAT_BYTES_MAX];
    ssize_t len = pread(fd, bytes, sizeof(bytes), 0);
    close(fd);
    return len < 0 ? ERR_IO : format_decode((slice){ bytes, (size_t)len }, ret, ret_why);
}

enum err folder_peek(const char *path, struct format *ret, const char **ret_why)
{
    int folder = folder_dir(path);
    *ret_why = "the folder can't be opened; check its rights, and the disk";
    if (folder < 0)
        return errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO;
    enum err e = folder_peek_at(folder, ret, ret_why);
    close(folder);
    return e;
}

static enum err write_format(const struct folder *folder, const struct format *format)
{
    uint8_t bytes[FORMAT_BYTES_MAX];
    return folder_replace(folder, "format", bytes, format_encode(format, bytes));
}

static enum err throw_index_away(const struct folder *folder)
{
    unlinkat(folder->fd, "index/data.mdb", 0);
    unlinkat(folder->fd, "index/lock.mdb", 0);
    unlinkat(folder->fd, "index/" INDEX_SUSPECT, 0);
    return unlinkat(folder->fd, "index", AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENOTEMPTY
               ? OK : ERR_IO;
}

/* The highest extent stays as an empty file, so that no number is used again. It is a new file with
 * the old name, so readers of the old file are not disturbed. */
static enum err throw_extents_away(const struct folder *folder)
{
    char name[32];
    uint32_t highest;
    enum err e = clearing_extents(folder->fd, &highest);
    snprintf(name, sizeof(name), "extents/%08x", highest);
    if (!e && highest)
        e = folder_write(folder->fd, name, "", 0);
    if (!e)
        e = clearing_ages(folder->fd);
    return e ? e : folder_sync(folder->fd, "extents");
}

/* For a folder without a format file. A new folder stays as it is. A folder of Penstock has lost
 * the secret in that file, which addresses all its objects, so they are removed. The new format
 * file is written last: after a crash, all this happens again. */
static enum err clear(struct folder *folder, const char *why, const char **ret_why)
{
    struct arena keep = { 0 };
    slice stranger = { "", 0 };
    *ret_why = "the folder holds files that are not Penstock's; " SET_EMPTY;
    enum err e = clearing_look(folder->fd, &keep, &stranger);
    snprintf(folder->stranger, sizeof(folder->stranger), "%.*s", SLICE_ARG(stranger));
    arena_free(&keep);
    if (e == ERR_NOT_FOUND)
        return OK;
    if (e == ERR_FORMAT)
        return e;
    *ret_why = "the file 'format' of the folder is lost, and the old cache there can't be removed; "
               "empty the folder, or " SET_ANOTHER;
    folder->anew = why;
    if (!e)
        e = throw_index_away(folder);
    return e ? e : throw_extents_away(folder);
}

/* If something else has the name, that is a note, too. */
static bool leave_doubt(int folder)
{
    return (mknodat(folder, "doubt", S_IFREG | 0600, 0) == 0 || errno == EEXIST) &&
           fsync(folder) == 0;
}

static enum err make_format(struct folder *folder, const uint8_t secret[STORE_SECRET_BYTES],
                            const char *why, const char **ret_why)
{
    enum err e = clear(folder, why, ret_why);
    folder->format = (struct format){ .generation = 1 };
    memcpy(folder->format.secret, secret, STORE_SECRET_BYTES);
    return e;
}

/* Makes a new folder, or one of format version 1, a volume. A new folder has nothing that another
 * volume could have instead, so it begins with the present list. A folder of version 1 was alone;
 * a later opening finds its extents as they are. */
static void make_volume(struct format *format, const struct folder_wish *wish, bool is_new)
{
    memcpy(format->volume, wish->self->id, sizeof(format->volume));
    format->version = FORMAT_VERSION;
    format->weight = (uint32_t)wish->self->weight;
    format->volume_count = is_new ? (uint32_t)wish->list_count : 1;
    memcpy(format->volumes, is_new ? wish->list : wish->self,
           format->volume_count * sizeof(format->volumes[0]));
}

/* The folder is one of the settings, and no other process uses it. This process goes on without it, so
 * the folder misses writes. The process that uses it next must know that. */
static enum err doubt_and_leave(const struct folder *folder)
{
    (void)leave_doubt(folder->fd);
    return ERR_BUSY;
}

static enum err learn_format(struct folder *folder, const struct folder_wish *wish,
                             const uint8_t fresh[STORE_SECRET_BYTES], const char **ret_why)
{
    struct format *format = &folder->format;
    enum err e = folder_peek_at(folder->fd, format, ret_why);
    bool is_new = e == ERR_NOT_FOUND || e == ERR_GONE;
    folder->anew = "";
    folder->stranger[0] = '\0';
    if (is_new && !wish->self->weight) {
        *ret_why = "another folder was at this path when Penstock started; restart Penstock to "
                   "use the folder that is there now";
        return ERR_BUSY;
    }
    if (is_new)
        e = make_format(folder, fresh, e == ERR_GONE ? *ret_why : "the file 'format' was missing",
                        ret_why);
    if (e)
        return e;
    if (memcmp(format->secret, fresh, sizeof(format->secret)) != 0) {
        *ret_why = "this folder belongs to another installation of Penstock: the secret in its "
                   "file 'format' differs from the secret that the cache folders had when Penstock "
                   "started. If the wrong disk is mounted here, mount the right disk; otherwise, "
                   "empty this folder. If this is the only cache folder, a restart makes Penstock "
                   "use this folder and its objects";
        return doubt_and_leave(folder);
    }
    if (format->version == FORMAT_VERSION &&
        (!wish->self->weight || memcmp(format->volume, wish->self->id, sizeof(format->volume)) != 0)) {
        *ret_why = "one of three things has happened: (1) this folder is a copy of another cache "
                   "folder: empty this folder; (2) this folder was absent, and Penstock began a "
                   "new cache folder in its place: empty this folder; (3) another folder was at "
                   "this path when Penstock started: put that folder back, or restart Penstock";
        return doubt_and_leave(folder);
    }
    format->size_bytes = wish->size_bytes ? MAX(wish->size_bytes, SIZE_LEAST)
                                          : store_derived_size(folder->path, folder->path);
    format->extent_bytes = sizing_extent(format->size_bytes, wish->extent_bytes);
    if (format->version != FORMAT_VERSION)
        make_volume(format, wish, is_new);
    folder->lagging = !is_new && format->serial < wish->serial_least;
    folder->last_run = is_new ? UINT64_MAX : format->serial;
    format->serial = MAX(wish->serial, format->serial);
    *ret_why = "the file 'format' in the folder can't be written; check the folder's rights, and "
               "the health of its disk";
    return is_new ? write_format(folder, format) : OK;
}

/* Returns static text, because other threads read it later. */
static const char *why_no_folder(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return "Penstock's user lacks the right to make the folder or to write to it; make the "
               "folder if it is missing, and give it to that user (chown), or " SET_ANOTHER;
    case EROFS:
        return "the folder can't be made or written to, because its file system is mounted "
               "read-only; mount the file system writable, or " SET_ANOTHER;
    case ENOSPC:
    case EDQUOT:
        return DISK_IS_FULL;
    case ENOTDIR:
        return "the folder can't be made, because a part of its path is a file; " SET_ANOTHER;
    case ENOENT:
        return "the folder above the cache folder is not there; make that folder, mount its disk, "
               "or " SET_ANOTHER;
    case EMFILE:
    case ENFILE:
        return FOLDER_NO_FILES;
    case ENAMETOOLONG:
    case ELOOP:
        return "the folder's path is too long, or its links form a circle; " SET_ANOTHER;
    case FILE_ODD:
        return "'lock' in the folder must be an ordinary file, but is a link, FIFO, device or "
               "folder; remove it";
    case EIO:
        return "the disk of the folder failed (EIO); check that disk and the kernel log, or "
               SET_ANOTHER;
    default:
        return "the folder can't be made or written to; check its path, its disk and the kernel "
               "log, or " SET_ANOTHER;
    }
}

/* Makes only the last part of the path: if a folder above is missing, its disk may be missing. */
static enum err make_folder(struct folder *folder, const char **ret_why)
{
    struct arena keep = { 0 };
    struct mounts_missing lost;
    bool unmounted = mounts_missing(folder->path, &mounts_here, &keep, &lost);
    arena_free(&keep);
    *ret_why = "nothing is mounted where the folder's disk should be; mount the disk, or "
               SET_ANOTHER;
    if (unmounted)
        return ERR_IO;
    *ret_why = "the folder's disk was unmounted while Penstock ran; mount it again. To use the "
               "disk on which this path lies now, restart Penstock";
    if (folder->point && mounts_gone(slice_of(folder->point), &mounts_here))
        return ERR_IO;
    if (mkdir(folder->path, 0700) == 0 || errno == EEXIST)
        return OK;
    *ret_why = why_no_folder(errno);
    return errno == ENOTDIR ? ERR_FORMAT : ERR_IO;
}

static enum err open_dir(struct folder *folder, const char **ret_why)
{
    struct stat st;
    folder->fd = folder_dir(folder->path);
    if (folder->fd >= 0)
        return OK;
    if (file_err(errno) == ERR_LIMIT)
        return ERR_LIMIT;
    *ret_why = "the path is not a folder; " SET_ANOTHER;
    if (stat(folder->path, &st) == 0 && !S_ISDIR(st.st_mode))
        return ERR_FORMAT;
    *ret_why = "the folder can't be opened; check its rights, and those of the folders above; if "
               "the folder is a link, check its target, too";
    return ERR_IO;
}

/* Remembers on which file system the folder lies. fstab need not name it: it may be mounted by hand,
 * or by the runtime of a container. */
static void note_point(struct folder *folder)
{
    struct arena keep = { 0 };
    slice point = mounts_point(folder->path, &mounts_here, &keep);
    if (point.len) {
        free(folder->point);
        folder->point = must_strndup(point.ptr, point.len);
    }
    arena_free(&keep);
}

static enum err take_lock(struct folder *folder, const char **ret_why)
{
    enum err e = folder->fd < 0 ? make_folder(folder, ret_why) : OK;
    if (!e && folder->fd < 0) {
        e = open_dir(folder, ret_why);
        if (!e)
            note_point(folder);
    }
    if (e || folder->lock_fd >= 0)
        return e;
    folder->lock_fd = file_open(folder->fd, "lock", O_RDWR | O_CREAT);
    if (folder->lock_fd < 0) {
        *ret_why = why_no_folder(errno);
        return ERR_IO;
    }
    if (flock(folder->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return OK;
    *ret_why = errno == EWOULDBLOCK
        ? "another process uses the folder; stop that process, or " SET_ANOTHER
        : "the file 'lock' in the folder can't be locked, probably because the file system lacks "
          "flock; set a folder of a local file system in cache_dir or cache_dirs";
    return errno == EWOULDBLOCK ? ERR_BUSY : ERR_IO;
}

/* ---- building the index ---- */

struct build {
    struct index *index;
    uint32_t generation;
    bool only_missing;
    uint32_t in_batch;
};

static enum err build_one(void *arg, const struct record *record, uint32_t offset)
{
    struct build *build = arg;
    enum err e = build->only_missing
                     ? publish_found(build->index, record, offset, build->generation)
                     : publish_record(build->index, record, offset, build->generation, true);
    if (e || ++build->in_batch < BATCH)
        return e;
    build->in_batch = 0;
    e = index_commit(build->index);
    return e ? e : index_begin(build->index);
}

/* If `everything`: adds all records in the order of their appends, so that the later one wins.
 * Otherwise: adds the records of unsealed extents that the index lacks. */
static enum err build_from_extents(struct folder *folder, bool everything)
{
    struct arena keep = { 0 };
    struct build build = { .index = folder->index, .only_missing = !everything };
    build.generation = (folder->format.generation + GENERATIONS - 1) % GENERATIONS;
    uint32_t *numbers;
    size_t count = extents_numbers(folder->extents, &keep, &numbers);
    enum err e = index_begin(folder->index);
    for (size_t i = 0; !e && i < count; i++)
        if (everything || !extent_is_sealed(folder->extents, numbers[i])) {
            folder->index_stands = false;
            e = extent_each_record(folder->extents, numbers[i], build_one, &build);
            e = e == ERR_NOT_FOUND ? OK : e;
        }
    if (!folder->index_stands)
        (void)failpoint(FAIL_INDEX_BUILD);
    if (!e)
        e = index_commit(folder->index);
    index_abort(folder->index);
    for (size_t i = 0; !e && i < count; i++)
        if (!extent_is_sealed(folder->extents, numbers[i]))    /* after a failure, scanned again */
            (void)!extent_seal_old(folder->extents, numbers[i]);
    arena_free(&keep);
    return e;
}

/* An entry takes about 92 bytes of the index, and the smallest record 128 bytes of an extent. So a
 * map as large as the extents is never full. If the size was lowered, the map must be larger than
 * the present file, because even deletions need room. Address space costs nothing. */
static uint64_t map_bytes(const struct folder *folder)
{
    struct stat st;
    uint64_t there = 0;
    if (fstatat(folder->fd, "index/data.mdb", &st, 0) == 0)
        there = (uint64_t)st.st_size;
    uint64_t grown = (uint64_t)SIZE_EXTENTS_MAX * folder->format.extent_bytes;
    return MAX(MAX(folder->format.size_bytes, grown), there) + 64 * MIB;
}

/* Returns true if the generations are used up. The index must be built anew then. */
static bool raise_generation(struct format *format)
{
    format->generation++;
    bool used_up = format->generation == GENERATIONS;
    if (used_up)
        format->generation = 1;
    return used_up;
}

/* Opens the index. *ret_lost: it is new, or of another opening. An index that is one opening ahead
 * was left by a crash between the two writes of set_opening. Or the folder was copied while it was
 * in use, the format file before the index. Entries may then have the generation that this opening
 * has raised to, so the generation rises again. */
static enum err open_index(struct folder *folder, bool *ret_lost)
{
    uint64_t opening = 0, mine = folder->format.opening;
    char path[FOLDER_PATH_MAX];
    enum err e = folder_path_of(folder->fd, folder->path, "index", path);
    if (!e)
        e = index_open(folder->index, path, map_bytes(folder));
    if (!e)
        e = index_begin(folder->index);
    if (!e)
        e = index_opening(folder->index, &opening);
    index_abort(folder->index);
    *ret_lost = mine > 0 && opening != mine &&
                (opening != mine + 1 || raise_generation(&folder->format));
    if (!e && fstatat(folder->fd, "index/data.mdb", &folder->index_file, 0) != 0)
        e = ERR_IO;
    return e;
}

static enum err find_index(struct folder *folder, bool anew)
{
    bool lost = false;
    if (anew || index_is_bad(folder->index) ||
        faccessat(folder->fd, "index/" INDEX_SUSPECT, F_OK, 0) == 0)
        (void)!throw_index_away(folder);
    enum err e = open_index(folder, &lost);
    if (e ? index_is_bad(folder->index) : lost) {
        index_close(folder->index);
        e = throw_index_away(folder);
        if (!e)
            e = open_index(folder, &lost);
    }
    if (!e)
        e = build_from_extents(folder, lost || anew);
    if (e && !anew && index_is_bad(folder->index)) {
        index_close(folder->index);
        return find_index(folder, true);
    }
    return e;
}

enum err folder_set_format(struct folder *folder, const struct format *next)
{
    enum err e = write_format(folder, next);
    if (!e && fstatat(folder->fd, "format", &folder->format_file, 0) != 0)
        e = ERR_IO;
    if (!e)
        folder->format = *next;
    return e;
}

enum err folder_set_list(struct folder *folder, const struct route_row *list, size_t count)
{
    struct format next = folder->format;
    check(count > 0 && count <= countof(next.volumes));
    next.volume_count = (uint32_t)count;
    memcpy(next.volumes, list, count * sizeof(*list));
    for (size_t i = 0; i < count; i++)
        next.shared[i] = format_shared(&folder->format, list[i].id);
    return folder_set_format(folder, &next);
}

static enum err set_opening(struct folder *folder)
{
    struct format next = folder->format;
    next.opening++;
    extents_raise_highest(folder->extents, index_highest(folder->index));
    enum err e = index_begin(folder->index);
    if (!e)
        e = index_set_opening(folder->index, next.opening);
    if (!e)
        e = index_raise_highest(folder->index, extents_highest(folder->extents));
    if (!e)
        e = index_commit(folder->index);
    index_abort(folder->index);
    return e ? e : folder_set_format(folder, &next);
}

/* True if some prefix may be pinned. The folder's own file may be the only one that has it. */
static bool may_have_pins(const struct folder *folder)
{
    bool same;
    return !folder->pins || pins_read(folder->pins, folder->fd, &same) == ERR_IO ||
           !pins_are_none(folder->pins);
}

/* Returns the approximate weight of the extent's records that were pinned. */
static uint64_t held_in(struct folder *folder, uint32_t number)
{
    struct arena keep = { 0 };
    struct toc_entry *rows = NULL;
    uint32_t count = 0;
    enum err e = extent_contents(folder->extents, number, &keep, &rows, &count);
    uint64_t held = give_held(folder->extents, number, rows, e ? 0 : count);
    arena_free(&keep);
    return held;
}

/* As the committer would do later. The entries of the extent are misses, and the index forgets them
 * when they are read. */
bool folder_give_oldest(struct folder *folder)
{
    uint64_t stays;
    bool pins = may_have_pins(folder);
    if (pins)
        age_files_read_pins(folder->fd, folder->extents);
    uint32_t victim = give_choose(folder->extents, pins, &stays);
    uint64_t lost = victim && stays && pins ? held_in(folder, victim) : 0;
    metric_add(M_PINS_LOST, lost);
    folder->pins_lost += lost;
    if (victim)
        extent_drop(folder->extents, victim);
    return victim > 0;
}

/* Returns true if the opening may be tried again: after an extent made room, or without the index,
 * if its last writes found it bad. */
static bool may_open_again(struct folder *folder, enum err e, bool *was_bad)
{
    if (e == ERR_FULL) {
        index_close(folder->index);
        return folder_give_oldest(folder);
    }
    if (!e || *was_bad || !index_is_bad(folder->index))
        return false;
    *was_bad = true;
    index_close(folder->index);
    return true;
}

/* ---- the whole ---- */

/* LMDB would follow a link, and wait at a FIFO. */
static enum err look_at_kinds(const struct folder *folder, const char **ret_why)
{
    for (size_t i = 0; i < FOLDER_NEEDED; i++)
        if (folder_odd(folder->fd, folder_needed[i])) {
            *ret_why = "'extents', 'index', 'ages', 'format' or 'index/data.mdb' in the folder is "
                       "a link, a FIFO, or something else that Penstock does not open: penstock "
                       "fsck says which of them; put the right file or folder in its place";
            return ERR_IO;
        }
    return OK;
}

static enum err give_up(struct folder *folder, enum err e, const char **ret_why)
{
    folder_close(folder, false);
    if (e == ERR_LIMIT)
        *ret_why = FOLDER_NO_FILES;
    if (e == ERR_FULL)    /* and no extent was left that could go */
        *ret_why = DISK_IS_FULL;
    return e;
}

enum err folder_open(struct folder *folder, const struct folder_wish *wish,
                     const uint8_t fresh[STORE_SECRET_BYTES], const char **ret_why)
{
    enum err e = take_lock(folder, ret_why);
    if (!e)
        e = look_at_kinds(folder, ret_why);
    if (!e)
        e = learn_format(folder, wish, fresh, ret_why);
    if (e)
        return give_up(folder, e, ret_why);
    folder->doubted = wish->unproved || folder->lagging ||
                      faccessat(folder->fd, "doubt", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (folder->lagging)    /* after a crash in the middle, the next opening doubts, too */
        (void)leave_doubt(folder->fd);
    bool clean = clean_take(folder->fd, folder->format.opening) && !folder->doubted;
    folder->index_stands = clean;
    bool used_up = !clean && raise_generation(&folder->format);
    /* An older copy of the folder. Work in progress still compares generations by their number. */
    if (!clean && folder->format.generation == wish->last_generation)
        used_up |= raise_generation(&folder->format);
    *ret_why = "the folder 'extents' in the cache folder can't be read; check its rights, and the "
               "disk";
    e = extents_open(folder->extents, folder->fd, &folder->format);
    if (!e) {
        *ret_why = "the folder 'index' in the cache folder can't be read or written; check its "
                   "rights, and the health of the disk";
        bool was_bad = false;
        do {
            e = find_index(folder, used_up || *folder->anew);
            if (!e)
                e = set_opening(folder);
        } while (may_open_again(folder, e, &was_bad));
    }
    if (e)
        return give_up(folder, e, ret_why);
    if (folder->last_run == UINT64_MAX && wish->last_generation && !*folder->anew)
        folder->anew = "the folder was removed or moved away while Penstock used it, and Penstock "
                       "made a new one at its path";
    *ret_why = "";
    return OK;
}

bool folder_doubt(const struct folder *folder, const uint8_t secret[STORE_SECRET_BYTES])
{
    struct format format;
    const char *why;
    if (folder->fd >= 0)
        return leave_doubt(folder->fd);
    int fd = folder_dir(folder->path);
    enum err e = fd < 0 ? ERR_IO : folder_peek_at(fd, &format, &why);
    /* the path may lead to the folder of another installation now, or to any other folder */
    bool left = !e && memcmp(format.secret, secret, STORE_SECRET_BYTES) == 0 && leave_doubt(fd);
    if (fd >= 0)
        close(fd);
    return left;
}

void folder_doubt_ends(const struct folder *folder)
{
    unlinkat(folder->fd, "doubt", 0);    /* after a failure, the next opening doubts again */
}

static bool is_file(const char *path, const struct stat *file)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_ino == file->st_ino && st.st_dev == file->st_dev;
}

/* Penstock never changes the format file in place. So an unchanged change time shows that no other
 * program did. */
static bool is_format(const char *path, const struct stat *file)
{
    struct stat st;
    return is_file(path, file) && stat(path, &st) == 0 &&
           st.st_ctim.tv_sec == file->st_ctim.tv_sec && st.st_ctim.tv_nsec == file->st_ctim.tv_nsec;
}

const char *folder_why_lost(const struct folder *folder)
{
    struct path lock = path_in(folder->path, "lock");
    struct stat held;
    bool there = access(lock.text, F_OK) == 0;
    if (!there && errno == EACCES)
        return "Penstock's user may no longer open the folder; check its rights, and those of the "
               "folders above";
    if (!there || fstat(folder->lock_fd, &held) != 0)
        return "the folder was removed, or its disk was unmounted; if the folder has a disk of its "
               "own, mount that disk again";
    if (is_file(lock.text, &held) &&
        is_format(path_in(folder->path, "format").text, &folder->format_file) &&
        is_file(path_in(folder->path, "index/data.mdb").text, &folder->index_file))
        return NULL;
    return "the folder's files were replaced, or another folder was put in its place; keep other "
           "programs out of the folder";
}

void folder_close(struct folder *folder, bool clean)
{
    struct metas metas;
    if (clean) {
        /* after a failure, the next opening scans the extent */
        (void)!open_extent_seal(folder->extents, OPEN_LOG);
        (void)!open_extent_seal(folder->extents, OPEN_COPY);
        (void)!open_extent_seal(folder->extents, OPEN_STAGING);
        clean = index_metas(folder->index, &metas) && !folder_why_lost(folder);
    }
    index_close(folder->index);
    extents_close(folder->extents);
    if (clean)    /* without the mark, the stop counts as unclean */
        (void)!clean_leave(folder->fd, folder->format.opening, &metas);
    if (folder->lock_fd >= 0)
        close(folder->lock_fd);
    folder->lock_fd = -1;
    if (folder->fd >= 0)
        close(folder->fd);
    folder->fd = -1;
}
