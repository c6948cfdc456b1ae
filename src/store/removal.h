/* removal.h - removals, from the queue to their answer. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_REMOVAL_H
#define STORE_REMOVAL_H

#include "store/volume_inside.h"

/* Takes the waiting removals into the next transaction. */
void removals_take(struct volume *volume);
/* Inside the transaction: publishes the removals that are not committed yet. If `again`, it also
 * publishes those that were committed since the commit began. */
enum err removals_publish(struct volume *volume, bool again) MUST_USE;
/* After the transaction: drops the metadata from RAM, too. */
void removals_settle(struct volume *volume);
void removals_answer(struct volume *volume, enum err err);
/* True if a removal was taken and is not committed. */
bool removals_are_due(const struct volume *volume);
/* To be called when the commit is over. */
void removals_end(struct volume *volume);
/* To be called when a transaction beside the commits is over. Does the same as removals_end, but
 * nothing if appends wait: a removal is made again after the appends that came before it. */
void removals_end_beside(struct volume *volume);
/* The watch calls it when the disk hangs. Answers all removals, so that no write waits for the
 * disk. */
void removals_give_up(struct volume *volume);

#endif
