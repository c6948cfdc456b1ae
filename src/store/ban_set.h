/* ban_set.h - the purges that look-ups compare: a set that never changes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A look-up takes a reference to the set before it reads the index, and compares what it finds. It
 * holds no lock meanwhile, because reading the index may wait for the disk. When the bans of a
 * volume change, a new set takes the place of the old one. A look-up that still has the old set
 * began before the change. Threads: any. */
#ifndef STORE_BAN_SET_H
#define STORE_BAN_SET_H

#include <stdatomic.h>

#include "base/read_epoch.h"
#include "store/format_files.h"

struct ban_set;

struct bans_row {
    struct ban ban;                   /* its prefix is owned */
    uint64_t bucket;                  /* hash of the bucket; 0: the prefix names no single bucket */
    bool swept;                       /* no entry of the index needs to be compared */
    uint32_t extents, left;           /* of the sweep: to read; and left */
    /* Of a sweep that could not decide all. failed: an extent or a name could not be read. unread:
     * an extent can't be opened. lacks: bit n means that volume n was out of service, and has names
     * that are needed. */
    bool failed, unread;
    uint64_t lacks;
};

/* The place of the set that is compared now. */
struct ban_set_place {
    struct read_epochs *epochs;
    _Atomic(struct ban_set *) set;    /* NULL: nothing is compared */
};

void ban_set_place_init(struct ban_set_place *place);
void ban_set_place_end(struct ban_set_place *place);
/* Makes a set of the rows that are not swept, and puts it in the place. One thread at a time. Waits
 * only for look-ups that are taking a reference. */
void ban_set_replace(struct ban_set_place *place, const struct bans_row *rows, size_t count);

/* Takes a reference to the present set. Returns NULL if nothing needs to be compared. */
struct ban_set *ban_set_ref(struct ban_set_place *place) MUST_USE;
void ban_set_unref(struct ban_set **set);

/* Returns true if the record was purged. `name` is as metadata->name. NULL has no bans. */
bool ban_set_covers(const struct ban_set *set, slice name, uint32_t extent, uint32_t ordinal);
/* For a record whose name may not be known (empty): true if it may have been purged, by the hash of
 * its bucket. A record with the bucket hash 0 may be of any bucket. */
bool ban_set_may_cover(const struct ban_set *set, slice name, uint64_t bucket, uint32_t extent,
                       uint32_t ordinal);
bool bans_row_may_cover(const struct bans_row *row, slice name, uint64_t bucket, uint32_t extent,
                        uint32_t ordinal);

#endif
