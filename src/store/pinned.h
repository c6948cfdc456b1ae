/* pinned.h - the pinned records of a volume, and its copy of the table of pins.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_PINNED_H
#define STORE_PINNED_H

#include "store/pins.h"
#include "store/volume_inside.h"

/* ---- for the committer ---- */

/* To be called when the folder is being opened: reads the file `pins`, and forgets which records
 * were pinned. Returns OK, or ERR_IO if the disk does not give the file. */
enum err pinned_open(struct volume *volume) MUST_USE;
/* To be called when the folder is in service: asks for a pass if the folder needs one. */
void pinned_opened(struct volume *volume);
/* To be called between two commits, whether the folder is in service or not. Writes the file if the
 * table has changed. Returns false if the folder must go out of service. */
bool pinned_turn(struct volume *volume) MUST_USE;
/* True if the budget has fallen below the pinned bytes, and the pass that unpins what does not fit
 * has not ended yet: until then, no extent with pinned records should go. */
bool pinned_awaits_fall(struct volume *volume);
/* To be called before an extent is dropped. */
void pinned_dropped(struct volume *volume, uint32_t extent);
/* To be called when a record was appended, after ages_add, under the lock of the pins. */
void pinned_appended(struct volume *volume, struct ages *ages, const struct record *record);
/* To be called when a record that must stay was copied, as pinned_appended. */
void pinned_copied(struct volume *volume, struct ages *ages, const struct record *record);
/* To be called when its commit has ended. */
void pinned_settled(struct volume *volume, const struct record *record);

/* ---- any thread ---- */

/* To be called when pinned records were evicted. Counts their weight if any prefix is pinned. */
void pinned_lost(struct volume *volume, uint64_t bytes);

/* True if a record of this object is to be pinned: its name is, and the budget has room. */
bool pinned_wants(struct volume *volume, slice name);
/* The weight that pinned records may have (ages.h). */
uint64_t pinned_budget(struct volume *volume);
/* Returns true if it is known which records are pinned, so that extents may be recycled. Under the
 * lock of the recycler. */
bool pinned_is_known(struct volume *volume);
/* Returns the bytes of the entry if its record is pinned, otherwise 0. */
uint64_t pinned_bytes_of(struct volume *volume, const struct entry *entry);

/* ---- for the pass (pin_pass.c) ---- */

/* True if no pass over the volume has ended since its folder was opened, or since one left it
 * out. */
bool pinned_is_left_out(const struct volume *volume);
/* True if it was left out, and there is something to do: there are pins, or records that are pinned
 * or were pinned before. */
bool pinned_needs_pass(struct volume *volume);

/* Stops the recycler, and waits until the committer has taken a turn: it has written the file, and
 * judges its appends by the present table. Returns false if the folder is out of service. *moved_ms
 * is set to the time while the folder makes progress. *ret_round is for the functions below. */
bool pinned_begin(struct volume *volume, _Atomic uint64_t *moved_ms, uint64_t *ret_round) MUST_USE;
/* The budget as a pass divides it between the pins, by their rank: rank 0 is the oldest pin. Of
 * the records of a pin, those that were pinned before the pass go first. */
struct pin_share {
    uint64_t before, others;
};
/* How a pass looks at the records of a volume. */
enum pin_look {
    LOOK_NONE,                        /* it leaves the bits as they are */
    LOOK_COUNT,                       /* it adds the records to the shares */
    LOOK_TRY,                         /* so, too; and pins all records, as long as there is room */
    LOOK_CHOOSE,                      /* it pins the records that have a share */
};
/* A volume's part in a pass. */
struct pin_part {
    enum pin_look look;
    bool holds;                       /* some names are not known, so no record is unpinned */
    struct pin_share *shares;         /* one for each rank */
    bool frees;                       /* it has unpinned records, which left room */
    uint64_t over;                    /* weight of the records that found no room */
    uint64_t lost;                    /* ... of those that were pinned before */
};
/* A record that the pass has found, and the weight of its entries. */
struct pin_found {
    uint32_t extent, ordinal;
    uint64_t weight;
};
/* Under the lock of the pins. */
void pinned_see(struct volume *volume, struct pin_part *part, size_t rank,
                const struct pin_found *found);
/* Sees a record that was pinned before, whether its name is known or not. A pass that counts marks
 * it as seen. If the pass holds such records, it pins this one. Under the lock of the pins. */
void pinned_see_before(struct volume *volume, struct pin_part *part, const struct pin_found *found);
/* Unpins a record whose name is known, and not pinned. Such a record need not wait until all names are
 * known. Under the lock of the pins. */
void pinned_disown(struct volume *volume, struct pin_part *part, const struct pin_found *found);
/* The pass begins to look at the volume again, to choose: makes shares of the counted weights.
 * Records that were appended and pinned since its begin keep their room. So do all records that were
 * pinned before, if some names are not known (`holds`). */
void pinned_choose(struct volume *volume, uint64_t round, struct pin_part *part, size_t ranks,
                   bool holds);
/* Lets the recycler work again. After PASS_FULL, unpins the records that were not seen. After
 * PASS_PARTIAL, some names are not known, so it unpins no record. */
enum pass_end { PASS_FAILED, PASS_PARTIAL, PASS_FULL };
void pinned_end(struct volume *volume, uint64_t round, enum pass_end end);
/* Does the same after PASS_FAILED, but never waits. Returns false if the volume's lock is not
 * free. */
bool pinned_give_up(struct volume *volume, uint64_t round) MUST_USE;
/* True if the file has the table of this version. */
bool pinned_has_written(struct volume *volume, uint64_t version);

#endif
