/* folder.h - a cache folder as a whole: lock, format file, clean mark, opening and closing.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_FOLDER_H
#define STORE_FOLDER_H

#include <sys/stat.h>

#include "store/extent.h"
#include "store/index.h"

#define STRANGER_MAX 1024u            /* a file's name, each byte as %XX at most */

struct folder {
    char *path;
    int lock_fd;                      /* -1: not ours now */
    struct format format;             /* as it stands on disk while the folder is ours */
    struct stat format_file, index_file;    /* as they were opened */
    struct extents *extents;
    struct index *index;
    bool doubted;            /* something went by that it was not told of, before it was opened */
    const char *anew;                 /* why it began anew when it was opened; static text, "" */
    char stranger[STRANGER_MAX];      /* the file that is not ours, quoted; "" */
};

/* What was asked for by settings; 0: a size that fits the disk, at least what the format file says. */
struct folder_wish {
    uint64_t size_bytes;
    uint32_t extent_bytes;
    bool unproved;                    /* folder_doubt, perhaps not yet written */
    uint32_t last_generation;         /* of what this process had open before; 0: nothing */
};

/* Without the lock: what the format file says. ERR_NOT_FOUND: there is none (yet); ERR_GONE: it
 * is damaged; ERR_FORMAT: it is newer. *ret_why: static text. */
enum err folder_peek(const char *path, struct format *ret, const char **ret_why) MUST_USE;
/* Takes the lock, finds extents and index, rebuilds what is lost, removes the clean mark. `fresh`
 * is the secret of a folder that is made now, or begins anew (folder->anew). ERR_BUSY, ERR_FORMAT,
 * ERR_IO, ERR_FULL, each with *ret_why. */
enum err folder_open(struct folder *folder, const struct folder_wish *wish,
                     const uint8_t fresh[STORE_SECRET_BYTES], const char **ret_why) MUST_USE;
/* Leaves a note in a folder that is not ours now: a write, or a refusal, went by that it knows
 * nothing of. Kept until it has been opened, whoever's that is, and the names are told; a folder
 * that can't be written can't be told. */
void folder_doubt(const char *path);
void folder_doubt_ends(const char *path);
/* A small file of rows, with the CRC of them behind. There is room for one row more than `max`, or
 * than `count`. ERR_NOT_FOUND: there is no such file; ERR_GONE, ERR_IO: it is damaged, or can't be
 * read. On failure *ret_count is 0. */
enum err folder_read_rows(const char *path, const char *name, void *rows, size_t row_bytes,
                          size_t max, size_t *ret_count) MUST_USE;
enum err folder_write_rows(const char *path, const char *name, void *rows, size_t row_bytes,
                           size_t count) MUST_USE;
/* NULL: what a newcomer finds under its path is what we have open. Else why not: it was removed,
 * or another, or an older copy of it, was put in its place. Static text. */
const char *folder_why_lost(const struct folder *folder) MUST_USE;
/* `clean`: seals, and leaves the clean mark. An index that is bad is thrown away at the next
 * opening. */
void folder_close(struct folder *folder, bool clean);

#endif
