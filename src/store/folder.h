/* folder.h - a cache folder as a whole: lock, format file, clean mark, opening and closing.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_FOLDER_H
#define STORE_FOLDER_H

#include <sys/stat.h>

#include "store/extent.h"
#include "store/folder_files.h"
#include "store/pins.h"

#define STRANGER_MAX 1024u            /* room for a file's name with each byte as %XX */

struct folder {
    char *path;
    char *point;                      /* the mount point of its file system at the last opening, or NULL */
    /* The folder itself; -1: it is not open. While it is open, the path may begin to lead to
     * another folder. So all its files are opened from here. */
    int fd;
    int lock_fd;                      /* -1: this process does not have the lock */
    struct format format;             /* as on disk, while this process has the lock */
    struct stat format_file, index_file;    /* their state when they were opened */
    struct extents *extents;
    struct index *index;
    bool index_stands;                /* the opening changed nothing that a clean stop left */
    bool doubted;                     /* the folder had a note of folder_doubt when it was opened */
    /* When it was opened: it is an older state of the folder; the serial in its format file, or
     * UINT64_MAX if that file was lost. */
    bool lagging;
    uint64_t last_run;
    const char *anew;                 /* why it began anew at its opening; static text or "" */
    struct pins *pins;                /* of the store; NULL: not known, for fsck */
    uint64_t pins_lost;               /* weight of pinned records that openings gave up for room */
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
    uint64_t serial;                  /* for the format file, unless that has a higher one */
    uint64_t serial_least;            /* a folder with a lower one is doubted */
};

/* Reads the format file, without the lock. Returns OK; ERR_NOT_FOUND if there is no format file
 * (yet); ERR_GONE if it is damaged; ERR_FORMAT if its version is newer. *ret_why is static text. */
enum err folder_peek(const char *path, struct format *ret, const char **ret_why) MUST_USE;
enum err folder_peek_at(int folder, struct format *ret, const char **ret_why) MUST_USE;
/* Takes the lock, finds extents and index, rebuilds what is lost, removes the clean mark. The
 * caller may have the folder and its lock open already, in folder->fd and lock_fd; folder_close
 * closes both. `fresh` is the secret for a folder that is made now, or begins anew (folder->anew).
 * Returns OK, or ERR_BUSY, ERR_FORMAT, ERR_IO, ERR_FULL, or ERR_LIMIT if no file descriptor is left,
 * each with *ret_why. */
enum err folder_open(struct folder *folder, const struct folder_wish *wish,
                     const uint8_t fresh[STORE_SECRET_BYTES], const char **ret_why) MUST_USE;
/* To be called when a small file could not be opened because no file descriptor is left (ERR_LIMIT).
 * Closes the file of an idle extent, so that the caller can try again. If there is none, counts the
 * failure and returns false. A lack of descriptors says nothing about the folder, so it stays in
 * service. */
bool folder_frees_file(const struct folder *folder) MUST_USE;
/* As folder_write (folder_files.h), but closes the files of idle extents if no descriptor is left. */
enum err folder_replace(const struct folder *folder, const char *name, const void *bytes,
                        size_t len) MUST_USE;
#define FOLDER_NO_FILES \
    "Penstock found no file descriptor or memory left for the folder; check the machine's " \
    "memory, and raise Penstock's limit of open files (LimitNOFILE in the unit, or ulimit -n), " \
    "or lower connections_max"
/* Replace the format file of an open folder, or the list of volumes in it. After another error than
 * ERR_FULL and ERR_LIMIT the folder must be closed. */
enum err folder_set_format(struct folder *folder, const struct format *next) MUST_USE;
enum err folder_set_list(struct folder *folder, const struct route_row *list,
                         size_t count) MUST_USE;
/* Makes room on a full disk: drops an unusable file in extents/, or else the oldest extent, of an open
 * folder that does not serve yet. The highest one stays. Returns false if there is no other. */
bool folder_give_oldest(struct folder *folder);
/* Leaves a note in the folder: a write or a refusal happened which the folder does not know. If the
 * folder is not open, its path leads to it, unless that folder has another secret. The note stays
 * until a process has opened the folder and applied its names (names.h). If the folder can't be
 * written, there is no note, and the result is false. The note in an open folder needs no file
 * descriptor. */
bool folder_doubt(const struct folder *folder, const uint8_t secret[STORE_SECRET_BYTES]);
void folder_doubt_ends(const struct folder *folder);    /* for an open folder */
/* Returns NULL if the path still leads to the folder that this process has open. Otherwise returns
 * the reason, as static text: the folder was removed, or another folder or an older copy was put in
 * its place. */
const char *folder_why_lost(const struct folder *folder) MUST_USE;
/* If `clean`, seals the newest extent and writes the clean mark. A bad index is thrown away at the
 * next opening. */
void folder_close(struct folder *folder, bool clean);

#endif
