/* folder.h - a cache folder as a whole: lock, format file, clean mark, opening and closing.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_FOLDER_H
#define STORE_FOLDER_H

#include <sys/stat.h>

#include "store/extent.h"

#define STRANGER_MAX 1024u            /* room for a file's name with each byte as %XX */

/* Temporary files of folder_write. */
#define FOLDER_FRESH "fresh"
#define FOLDER_FRESH_NAMES "fresh-names"

struct folder {
    char *path;
    int lock_fd;                      /* -1: this process does not have the lock */
    struct format format;             /* as on disk, while this process has the lock */
    struct stat format_file, index_file;    /* their state when they were opened */
    struct extents *extents;
    struct index *index;
    bool index_stands;                /* the opening changed nothing that a clean stop left */
    bool doubted;                     /* the folder had a note of folder_doubt when it was opened */
    const char *anew;                 /* why it began anew at its opening; static text or "" */
    char stranger[STRANGER_MAX];      /* the name of a foreign file, quoted; or "" */
};

/* The sizes that the settings give. 0: a size that fits the disk, but at least that of the format
 * file. */
struct folder_wish {
    uint64_t size_bytes;
    uint32_t extent_bytes;
    bool unproved;                    /* as after folder_doubt, whose note may not be written yet */
    uint32_t last_generation;         /* of the folder that this process had open; 0: none */
    /* The volume that the folder is, or is made to be, and the list that a new folder gets. */
    const struct route_row *self, *list;
    size_t list_count;
    uint64_t serial;                  /* for the format file */
    uint64_t serial_least;            /* a folder with a lower one is doubted */
};

/* Reads the format file, without the lock. Returns OK; ERR_NOT_FOUND if there is no format file
 * (yet); ERR_GONE if it is damaged; ERR_FORMAT if its version is newer. *ret_why is static text. */
enum err folder_peek(const char *path, struct format *ret, const char **ret_why) MUST_USE;
/* Takes the lock, finds extents and index, rebuilds what is lost, removes the clean mark. `fresh`
 * is the secret for a folder that is made now, or begins anew (folder->anew). Returns OK, or
 * ERR_BUSY, ERR_FORMAT, ERR_IO or ERR_FULL, each with *ret_why. */
enum err folder_open(struct folder *folder, const struct folder_wish *wish,
                     const uint8_t fresh[STORE_SECRET_BYTES], const char **ret_why) MUST_USE;
/* Replaces the list of volumes, or raises the serial, in the format file of an open folder. After
 * an error the folder must be closed. */
enum err folder_set_list(struct folder *folder, const struct route_row *list,
                         size_t count) MUST_USE;
enum err folder_set_serial(struct folder *folder, uint64_t serial) MUST_USE;
/* Leaves a note in a folder that this process does not have open: a write or a refusal happened
 * which the folder does not know. The note stays until a process has opened the folder and applied
 * its names (names.h). If the folder can't be written, there is no note. */
void folder_doubt(const char *path);
void folder_doubt_ends(const char *path);
/* Reads a small file of the folder, in keep. Returns OK, ERR_NOT_FOUND if there is no such file,
 * ERR_GONE if it has more than `max` bytes, or ERR_IO. */
enum err folder_read(const char *path, const char *name, size_t max, struct arena *keep,
                     slice *ret) MUST_USE;
/* Replaces a small file as a whole, and syncs it. Returns OK, ERR_FULL or ERR_IO; the old file then
 * stays. For one thread at a time. */
enum err folder_write(const char *path, const char *name, const void *bytes,
                      size_t len) MUST_USE;
/* Read and write a small file of rows, followed by their CRC. `rows` must have room for one row
 * more than `max`, or than `count`. Reading returns OK, ERR_NOT_FOUND if there is no such file,
 * ERR_GONE if it is damaged, or ERR_IO if it can't be read. After a failure *ret_count is 0. */
enum err folder_read_rows(const char *path, const char *name, void *rows, size_t row_bytes,
                          size_t max, size_t *ret_count) MUST_USE;
enum err folder_write_rows(const char *path, const char *name, void *rows, size_t row_bytes,
                           size_t count) MUST_USE;
/* Returns NULL if the path still leads to the folder that this process has open. Otherwise returns
 * the reason, as static text: the folder was removed, or another folder or an older copy was put in
 * its place. */
const char *folder_why_lost(const struct folder *folder) MUST_USE;
/* If `clean`, seals the newest extent and writes the clean mark. A bad index is thrown away at the
 * next opening. */
void folder_close(struct folder *folder, bool clean);

#endif
