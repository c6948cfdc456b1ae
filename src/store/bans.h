/* bans.h - the purges of one volume. SPDX-License-Identifier: Apache-2.0
 *
 * A ban covers the records that the volume had when it took the ban: all of the extents up to the
 * highest number, and of the open extents the records up to then. A covered record whose object has
 * the prefix of the ban is never served again. Look-ups compare the entries that they find with the
 * bans, until the sweep (sweep.h) has deleted all covered entries. The file `bans` keeps the ban as
 * long as an extent that it covers remains, because an index that is built anew finds the old
 * records again.
 *
 * Threads: the committer takes bans and writes the file; any thread compares (ban_set.h). */
#ifndef STORE_BANS_H
#define STORE_BANS_H

#include "store/ban_list.h"
#include "store/ban_set.h"
#include "store/folder.h"

struct bans {
    const uint8_t *secret;            /* of the installation */
    pthread_mutex_t lock;             /* guards rows, count and forgotten */
    /* Held while the committer takes bans, and while a copy gets its ordinal (recycle.c). Before
     * the other lock. */
    pthread_mutex_t order;
    struct ban_set_place place;       /* what look-ups compare */
    atomic_uint unswept;              /* the number of these */
    struct bans_row *rows;            /* in ascending order of their serials */
    size_t count;
    uint64_t forgotten;               /* as in the list, when the volume last followed it */
    size_t number;                    /* of the volume, in the order of the settings */
    atomic_bool dirty;                /* the file has other rows */
    _Atomic uint64_t applied, stored; /* the highest serial that look-ups compare; in the file */
    /* The highest serial for which the file could not be written because no file descriptor was
     * left. The committer tries again at again_ms, also if the disk was full. */
    _Atomic uint64_t refused;
    uint64_t again_ms;                /* for the committer only, like `full` */
    struct bans_full {
        uint64_t since_ms;            /* when the disk became too full for the file; 0: it is not */
        unsigned given;               /* extents evicted since then to make room for the file */
    } full;
    _Atomic uint64_t followed, written;    /* versions of the list: of the rows; of the file */
    atomic_uint opening;              /* how often the folder was opened */
    _Atomic(const char *) emptied;    /* why all records were banned; static text, or "" */
};

struct bans *bans_new(const uint8_t *secret, size_t number) MUST_USE;
void bans_free(struct bans **bans);

/* For a folder that was just opened and does not serve yet. Reads the file, gives its bans to the
 * list, and takes the bans of the list that the folder missed: these cover all its records. If
 * nobody knows which bans the folder missed, all its records are banned. `missed` has a place for
 * each folder of the settings: it missed a run of this one (runs_missed_of). NULL: none did. Returns
 * OK, or ERR_IO, ERR_FULL or ERR_LIMIT (no file descriptor) if the file can't be read or written. */
enum err bans_open(struct bans *bans, struct ban_list *list, const struct folder *folder,
                   const bool *missed) MUST_USE;
/* Makes the rows those of the list, and writes the file. Cheap if nothing has changed. Errors: as
 * bans_open. After any error, look-ups compare the new bans, and the next call writes the file. */
enum err bans_follow(struct bans *bans, struct ban_list *list,
                     const struct folder *folder) MUST_USE;
/* The list learns from the file of a folder that is not open. A file that can't be read has no
 * bans. `missed`: as for bans_open. */
void bans_peek(const struct bans *bans, const char *path, struct ban_list *list,
               const bool *missed);

/* True if a ban names this bucket alone, and all of it. */
bool bans_row_is_of_bucket(const struct bans_row *row);

/* As ban_set_may_cover, but compares also the bans that are swept. Any thread. */
bool bans_may_cover(struct bans *bans, slice name, uint64_t bucket, uint32_t extent,
                    uint32_t ordinal);

/* ---- for the sweep ---- */

/* Copies the rows that are not swept, in keep. */
size_t bans_unswept(struct bans *bans, struct arena *keep, struct bans_row **ret);
/* Notes how far the sweep of these bans has come, from their members extents and left. */
void bans_progress(struct bans *bans, const struct bans_row *rows, size_t count);
/* Notes for each of these bans that all entries that it covers are deleted; or, from its members
 * failed, unread and lacks, why not. Does nothing if the folder was opened anew since `opening`. */
void bans_sweep_ended(struct bans *bans, unsigned opening, const struct bans_row *rows,
                      size_t count);
/* Finds the bans of the list that the volume still needs: they are not swept, or cover one of the
 * extents in `numbers`, which are in ascending order. Adds their serials to `needed`, and returns
 * their number. A row of this volume alone that is not needed is removed. */
size_t bans_needed(struct bans *bans, const uint32_t *numbers, size_t count,
                   uint64_t needed[PREFIX_ROWS_MAX]);
/* Finds the serials of the bans that are swept, in ascending order. */
size_t bans_swept(struct bans *bans, uint64_t ret[PREFIX_ROWS_MAX]);

#endif
