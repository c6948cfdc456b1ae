/* ages.h - the age of each record of an extent, and how much of the extent is live.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A record has a stamp, a byte: the tick of its last read (mean_age.h), or of its append. It also
 * has the number of its entries in the index. When its last entry is deleted, the record is dead,
 * and its stamp becomes as old as a stamp can be. Records of metadata alone have no age: they stay
 * while their object has units.
 *
 * The entries of a record that an earlier process wrote are not known at first, unless a file has
 * their number (age_files.h). They are counted in the order of the records (ages_count). Changes of
 * a record that is not counted yet are ignored, because the count will see them. A record also has
 * the number of its tally (tallies.h), and the extent has a sum for each tally of its records. A
 * record takes four bytes and a bit of RAM. Records of a bucket that expires have a fifth byte: the
 * slice of their last read.
 *
 * Threads: any thread may call ages_touch and read the totals. All other functions are for the
 * committer, or for a caller that has stopped it. */
#ifndef STORE_AGES_H
#define STORE_AGES_H

#include <stdatomic.h>

#include "base/base.h"
#include "store/tallies.h"

struct ages;

/* Records from number `records` on have no age. If the extent may still get records, `records` is
 * the largest number that it can have. Memory is then used page by page, as records are added. */
struct ages *ages_new(uint32_t records) MUST_USE;
void ages_free(struct ages **ages);

/* Sets the stamp of a record. Cheap: it writes only if the stamp differs. */
void ages_touch(struct ages *ages, uint32_t ordinal, uint8_t stamp);

/* A record: its first stamp, the stamp that it gets when it is dead, whether it has metadata alone,
 * and its tally. */
struct ages_record {
    uint8_t stamp, dead;
    bool metadata;
    uint16_t tally;
};
/* The slice of a record's last read (tallies.h); 0: not known. Any thread. */
uint8_t ages_read(const struct ages *ages, uint32_t ordinal);
void ages_set_read(struct ages *ages, uint32_t ordinal, uint8_t when);

/* Adds a record that was appended in this process. */
void ages_add(struct ages *ages, uint32_t ordinal, const struct ages_record *record);

/* Entries of the index that name a record. */
struct ages_entries {
    uint32_t count, objects;          /* objects: 1 if one of them is an object's metadata */
    uint64_t bytes, data_bytes;       /* as in struct entry; without those of metadata alone */
};
/* To be called when an entry begins to name the record, or ceases to. Both return the change. */
struct tally_change ages_entry_added(struct ages *ages, uint32_t ordinal,
                                     const struct ages_entries *entry);
struct tally_change ages_entry_removed(struct ages *ages, uint32_t ordinal,
                                       const struct ages_entries *entry, uint8_t dead);
/* Counts the next record of an extent from an earlier process, with its entries in the index. A
 * record that has a stamp already keeps it. */
struct tally_change ages_count(struct ages *ages, const struct ages_record *record,
                               const struct ages_entries *entries);
/* Gives a tally to the next record whose entries came from a file (ages_restore). */
struct tally_change ages_adopt(struct ages *ages, uint16_t tally,
                               const struct ages_entries *entries);
/* Returns the number of records that have a tally, and are in the sums. */
uint32_t ages_tallied(const struct ages *ages);
/* Gives a record another tally. Returns the record's part of the old one. */
struct tally_change ages_move(struct ages *ages, uint32_t ordinal, uint16_t tally,
                              const struct ages_entries *entries);
/* Returns the number of records that are counted. */
uint32_t ages_counted(const struct ages *ages);
/* While `counting`, the extent may have records that are not counted. Any thread may ask. */
void ages_set_counting(struct ages *ages, bool counting);
bool ages_are_counting(const struct ages *ages);

/* Copies the stamps and the live units (format_files.h) of the first `count` counted records. Any
 * thread; a record that changes meanwhile is copied before or after its change. */
void ages_copy(const struct ages *ages, uint32_t count, uint8_t *stamps, uint8_t *live);
/* Sets the stamps of the first records of an extent from an earlier process. If `live` is not NULL,
 * these records are counted, too. Nothing may be counted yet. */
void ages_restore(struct ages *ages, uint32_t count, const uint8_t *stamps, const uint8_t *live,
                  uint64_t live_bytes);

/* Returns the bytes of data that the index names, and the number of its entries. */
uint64_t ages_live_bytes(const struct ages *ages);
uint64_t ages_entries(const struct ages *ages);
uint8_t ages_stamp(const struct ages *ages, uint32_t ordinal);
/* True if a file gave the stamp of a record that is not counted yet. */
bool ages_is_stamped(const struct ages *ages, uint32_t ordinal);
/* Returns the number of records that can have an age. */
uint32_t ages_limit(const struct ages *ages);
bool ages_is_dead(const struct ages *ages, uint32_t ordinal);
/* True if the record is counted, and the index names it. Any thread. */
bool ages_is_live(const struct ages *ages, uint32_t ordinal);
/* Returns the number of a record's entries in the index; 0 if it is not known. */
uint32_t ages_live(const struct ages *ages, uint32_t ordinal);
uint16_t ages_tally(const struct ages *ages, uint32_t ordinal);    /* any thread */
/* Returns the sums of the extent's live records, one for each tally. Valid until a change. */
size_t ages_sums(const struct ages *ages, const struct tally_change **ret);

/* Finds how many counted records have an age, and how many of them are dead. */
struct ages_dead {
    uint32_t records, dead;
};
struct ages_dead ages_dead(const struct ages *ages);
/* How much of the extent the recycler regains without evicting a record (account.c). */
enum ages_waste { WASTE_LITTLE, WASTE_MUCH, WASTE_ALL };
void ages_set_waste(struct ages *ages, enum ages_waste waste);
enum ages_waste ages_waste(const struct ages *ages);    /* any thread */

/* The stamps of all counted records. `left_out` has a bit for each record of metadata alone, and
 * `pinned` one for each pinned record. Valid as long as the ages are. Any thread. */
struct ages_stamps {
    _Atomic uint8_t *stamps;
    const _Atomic uint64_t *left_out, *pinned;
    uint32_t count;
};
struct ages_stamps ages_stamps(struct ages *ages);

/* ---- pins ----
 *
 * A pinned record has a bit. Its weight is the sum of its entries' weights, and it loses the bit
 * with its last entry. A pass over the tables of contents (pin_pass.c) sees each record to pin. At
 * its end, the records that were not seen are unpinned. A second bit says that the record was
 * pinned before the pass, which then prefers it. A file keeps this bit (age_files.h), so it is
 * known in the next process, too. Any thread may call the first four functions. The rest is for a
 * caller that has the lock of the volume's pins (pinned.h). */

/* About the space on the disk that an entry with `bytes` of data takes: with its record's header,
 * metadata, and row in the table of contents. */
static inline uint64_t pin_weight(uint32_t bytes)
{
    return (uint64_t)bytes + 1024;
}

bool ages_is_pinned(const struct ages *ages, uint32_t ordinal);
/* True if the record was pinned when the latest pass ended, or was pinned since when it was
 * appended. */
bool ages_was_pinned(const struct ages *ages, uint32_t ordinal);
/* True if the record must stay: it is pinned; or it was, and no pass has unpinned it. */
static inline bool ages_must_stay(const struct ages *ages, uint32_t ordinal)
{
    return ages_is_pinned(ages, ordinal) || ages_was_pinned(ages, ordinal);
}
uint64_t ages_pinned_bytes(const struct ages *ages);
/* Returns the number of records that were pinned before (ages_was_pinned), and are not pinned now.
 * Any thread. */
uint64_t ages_held(const struct ages *ages);
/* Pins a record that the index does not name yet. `seen`: a pass runs, and the record is fresh. */
void ages_pin_new(struct ages *ages, uint32_t ordinal, bool seen);
/* Unpins such a record if no entry names it. */
void ages_unpin_dead(struct ages *ages, uint32_t ordinal);
bool ages_is_seen(const struct ages *ages, uint32_t ordinal);
/* Pins a record, if it is not pinned, and marks it as seen by the pass. `bytes` is its weight. */
void ages_see(struct ages *ages, uint32_t ordinal, uint64_t bytes);
/* Pins a record that was pinned before, although the pass has not seen it. */
void ages_hold(struct ages *ages, uint32_t ordinal, uint64_t bytes);
/* Marks a record as seen, and does not pin it: for a pass that counts before it pins. */
void ages_mark_seen(struct ages *ages, uint32_t ordinal, uint64_t bytes);
/* Unpins a record. `bytes` is the weight of its entries. */
void ages_unpin(struct ages *ages, uint32_t ordinal, uint64_t bytes);
uint64_t ages_seen_bytes(const struct ages *ages);
/* The pass begins again: it has seen only fresh records, those that were appended and pinned since
 * its begin. The pass may not find them, because the index may not name them yet. */
void ages_see_fresh(struct ages *ages);
bool ages_is_fresh(const struct ages *ages, uint32_t ordinal);
/* Ends a pass: unpins the records that were not seen, unless `keep`. */
void ages_end_pass(struct ages *ages, bool keep);
void ages_unpin_all(struct ages *ages);
/* Restores which records were pinned, from a file. Returns true if some were. */
bool ages_restore_pins(struct ages *ages, uint32_t count, const uint8_t *live);
/* True if pinned records changed since the latest ages_pins_saved. Any thread. */
bool ages_are_pins_unsaved(const struct ages *ages);
/* ages_pins_saved is to be called before ages_copy, and ages_pins_unsaved if the copy was then not
 * saved. Any thread. */
void ages_pins_saved(struct ages *ages);
void ages_pins_unsaved(struct ages *ages);

#endif
