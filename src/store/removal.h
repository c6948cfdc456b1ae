/* removal.h - removals, from the queue to their answer. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_REMOVAL_H
#define STORE_REMOVAL_H

#include "store/volume_inside.h"

/* Takes the waiting removals into the next transaction. */
void removals_take(struct volume *volume);
/* Inside the transaction: publishes the removals from `first` on. */
enum err removals_publish(struct volume *volume, size_t first) MUST_USE;
/* To be called before an append is published: publishes again the removals, from *at on, that were
 * committed before the append with this number was queued. Moves *at to the next removal. */
enum err removals_publish_before(struct volume *volume, uint64_t append, size_t *at) MUST_USE;
/* After the transaction: drops the metadata from RAM, too. */
void removals_settle(struct volume *volume);
void removals_answer(struct volume *volume, enum err err);
/* True if a removal was taken and is not committed. */
bool removals_are_due(const struct volume *volume);
/* To be called when a commit, or a transaction beside the commits, is over and its removals are
 * answered. Keeps those that must be made again, because appends from before them still wait. */
void removals_end(struct volume *volume);
/* Under the queue's lock: true if somebody waits for a queued removal, or if too many removals that
 * nobody waits for are queued. */
bool removals_press(const struct volume *volume);
/* The watch calls it when the disk hangs. Answers the removals that somebody waits for, so that no
 * write waits for the disk. If too many removals that nobody waits for are queued, answers all. */
void removals_give_up(struct volume *volume);

#endif
