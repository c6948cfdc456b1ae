/* ages.h - the age of each record of an extent, and how much of the extent is live.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A record has a stamp, a byte: the tick of its last read (policy.h), or of its append. It also has
 * the number of its entries in the index. A record whose last entry goes is dead, and its stamp
 * becomes as old as a stamp can be. Records of metadata alone have no age: they stay while their
 * object has units.
 *
 * The entries of a record that an earlier process wrote are not known at first, unless a file says
 * them (age_files.h). They are counted in the order of the records (ages_count). Changes of a record
 * that is not counted yet are ignored, because the count will see them. Two bytes and a bit of RAM
 * a record.
 *
 * Threads: any thread may call ages_touch and read the totals. All other functions are for the
 * committer, or for a caller that has stopped it. */
#ifndef STORE_AGES_H
#define STORE_AGES_H

#include <stdatomic.h>

#include "base/base.h"

struct ages;

/* Records from number `records` on have no age. Memory is used only for those that come. */
struct ages *ages_new(uint32_t records) MUST_USE;
void ages_free(struct ages **ages);

/* Sets the stamp of a record. Cheap: it writes only if the stamp differs. */
void ages_touch(struct ages *ages, uint32_t ordinal, uint8_t stamp);

/* Adds a record that was appended in this process. `metadata`: it has metadata alone. */
void ages_add(struct ages *ages, uint32_t ordinal, uint8_t stamp, bool metadata);
/* An entry of the index with `bytes` of data names the record from now on, or no longer. `dead` is
 * the stamp that a dead record gets. */
void ages_entry_added(struct ages *ages, uint32_t ordinal, uint32_t bytes);
void ages_entry_removed(struct ages *ages, uint32_t ordinal, uint32_t bytes, uint8_t dead);
/* Counts the next record of an extent from an earlier process: `entries` of its entries are in the
 * index, with `bytes` of data. A record that has a stamp already keeps it. */
void ages_count(struct ages *ages, uint8_t stamp, bool metadata, uint32_t entries, uint64_t bytes,
                uint8_t dead);
/* Returns the number of records that are counted. */
uint32_t ages_counted(const struct ages *ages);
/* While `counting`, the extent may have records that are not counted. Any thread may ask. */
void ages_set_counting(struct ages *ages, bool counting);
bool ages_are_counting(const struct ages *ages);

/* Copies the stamps and the live units (format_files.h) of the first `count` counted records. Any
 * thread; what changes meanwhile is copied before or after the change. */
void ages_copy(const struct ages *ages, uint32_t count, uint8_t *stamps, uint8_t *live);
/* Sets the stamps of the first records of an extent from an earlier process. If `live` is not NULL,
 * these records are counted, too. Nothing may be counted yet. */
void ages_restore(struct ages *ages, uint32_t count, const uint8_t *stamps, const uint8_t *live,
                  uint64_t live_bytes);

/* Returns the bytes of data that the index names, and the number of its entries. */
uint64_t ages_live_bytes(const struct ages *ages);
uint64_t ages_entries(const struct ages *ages);
uint8_t ages_stamp(const struct ages *ages, uint32_t ordinal);
bool ages_is_dead(const struct ages *ages, uint32_t ordinal);
/* True if the record is counted, and the index names it. Any thread. */
bool ages_is_live(const struct ages *ages, uint32_t ordinal);

/* The stamps of all counted records. Those of metadata alone are marked in `left_out`, a bit each.
 * Valid as long as the ages are. Any thread. */
struct ages_stamps {
    _Atomic uint8_t *stamps;
    const _Atomic uint64_t *left_out;
    uint32_t count;
};
struct ages_stamps ages_stamps(struct ages *ages);

#endif
