/* account.h - which records of a volume are live, in step with its index.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Committer only. */
#ifndef STORE_ACCOUNT_H
#define STORE_ACCOUNT_H

#include "store/volume_inside.h"

/* Commits the transaction of the index. If that succeeds, the extents know which of their records
 * gained or lost entries. Errors: as index_commit. */
enum err account_commit(struct volume *volume) MUST_USE;
/* To be called when these records are on disk, before they are published. */
void account_appended(struct volume *volume, struct append_item *const *items, size_t count);
/* To be called before an extent is dropped: its live records are lost. `evicted`: to make room. */
void account_dropped(struct volume *volume, uint32_t number, bool evicted);
/* Returns the tally of a copy. `name` is that of its object, or empty for units; `before` is the
 * tally that the record had. */
uint16_t account_tally_of_copy(struct volume *volume, const struct record *record, slice name,
                               uint16_t before) MUST_USE;
/* To be called before the transaction that publishes the appended records, and with false if it
 * failed. */
void account_publishes(struct volume *volume, bool publishes);
/* To be called when the commit has ended. */
void account_published(struct volume *volume);
/* To be called when an extent was sealed: its dead records may be room from now on (rule.h). Cheap:
 * only extents that have changed are weighed. */
void account_sealed(struct volume *volume);
/* Counts some records that an earlier process wrote: at most 2,000 of one extent. Returns true if
 * there are more. No transaction may be running. */
bool account_count(struct volume *volume) MUST_USE;
/* To be called when the folder was opened, and when it is closed. */
void account_begin(struct volume *volume);
void account_end(struct volume *volume);

#endif
