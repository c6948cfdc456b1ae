/* bans.h - the purges of one volume. SPDX-License-Identifier: Apache-2.0
 *
 * A ban covers the records that the volume had when it took the ban: all of the extents up to the
 * highest number, and of the open extents the records up to then. A covered record whose object has
 * the prefix of the ban is never served again. Look-ups compare the entries that they find with the
 * bans, until the sweep (sweep.h) has deleted all covered entries. The file `bans` keeps the ban as
 * long as an extent that it covers remains, because an index that is built anew finds the old
 * records again.
 *
 * Threads: the committer takes bans and writes the file; any thread compares. */
#ifndef STORE_BANS_H
#define STORE_BANS_H

#include "store/ban_list.h"
#include "store/folder.h"

struct bans_row {
    struct ban ban;                   /* its prefix is owned */
    uint64_t bucket;                  /* hash of the bucket; 0: the prefix names no single bucket */
    bool swept;                       /* no entry of the index needs to be compared */
    uint32_t extents, left;           /* of the sweep: the extents to read, and those left */
};

struct bans {
    const uint8_t *secret;            /* of the installation */
    pthread_rwlock_t lock;            /* guards rows and count */
    atomic_uint unswept;              /* rows that look-ups compare */
    struct bans_row *rows;
    size_t count;
    atomic_bool dirty;                /* the file has rows that were removed here */
    _Atomic uint64_t applied, stored; /* the highest serial that look-ups compare; in the file */
    atomic_uint opening;              /* how often the folder was opened */
};

struct bans *bans_new(const uint8_t *secret) MUST_USE;
void bans_free(struct bans **bans);

/* For a folder that was just opened and does not serve yet. Reads the file, gives its bans to the
 * list, and takes the bans of the list that the folder missed: these cover all its records. Returns
 * OK, or ERR_IO or ERR_FULL if the file can't be read or written. */
enum err bans_open(struct bans *bans, struct ban_list *list, const struct folder *folder) MUST_USE;
/* Takes the new bans of the list, and writes the file. Cheap if there is no new ban. Errors: as
 * bans_open. */
enum err bans_follow(struct bans *bans, struct ban_list *list,
                     const struct folder *folder) MUST_USE;
/* Adds the bans in the file of a folder that is not open to the list. If the file can't be read, it
 * has none. */
void bans_peek(const char *path, struct ban_list *list);

/* ---- comparing ---- */

/* Begins a look-up in the index. Returns false if there is no ban to compare. If it returns true,
 * no ban is removed until bans_end. */
static inline bool bans_begin(struct bans *bans)
{
    if (atomic_load_explicit(&bans->unswept, memory_order_acquire) == 0)
        return false;
    pthread_rwlock_rdlock(&bans->lock);
    return true;
}
static inline void bans_end(struct bans *bans, bool begun)
{
    if (begun)
        pthread_rwlock_unlock(&bans->lock);
}
/* Between these two. Returns true if the record was purged. `name` is as metadata->name. */
bool bans_cover(const struct bans *bans, slice name, uint32_t extent, uint32_t ordinal);
/* For a record of units, whose name is not known: true if it may have been purged. A record with
 * the bucket hash 0 may be of any bucket. */
bool bans_may_cover(const struct bans *bans, uint64_t bucket, uint32_t extent, uint32_t ordinal);
/* True if a ban names this bucket alone, and all of it. */
bool bans_row_is_of_bucket(const struct bans_row *row);

/* ---- for the sweep ---- */

/* Copies the rows that are not swept, in keep. */
size_t bans_unswept(struct bans *bans, struct arena *keep, struct bans_row **ret);
/* Notes how far the sweep of these bans has come, from their members extents and left. */
void bans_progress(struct bans *bans, const struct bans_row *rows, size_t count);
/* Notes that all entries that these bans cover are deleted. Does nothing if the folder was opened
 * anew since `opening`. */
void bans_are_swept(struct bans *bans, unsigned opening, const struct bans_row *rows, size_t count);
/* Removes swept bans up to `least` that cover no extent in `numbers`, which are in ascending order.
 * Adds the serials of the rows that stay to `kept`, and returns their number. */
size_t bans_trim(struct bans *bans, uint64_t least, const uint32_t *numbers, size_t count,
                 uint64_t kept[PREFIX_ROWS_MAX]);

#endif
