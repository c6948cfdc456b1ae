/* removal.h - removals, from the queue to their answer. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_REMOVAL_H
#define STORE_REMOVAL_H

#include "store/inside.h"

/* Takes the waiting removals into the next transaction. */
void removals_take(struct store *store);
/* Inside the transaction: publishes the removals that are not committed yet. If `again`, it also
 * publishes those that were committed since the commit began. */
enum err removals_publish(struct store *store, bool again) MUST_USE;
/* After the transaction: drops the metadata from RAM, too. */
void removals_settle(struct store *store);
void removals_answer(struct store *store, enum err err);
/* True if a removal was taken and is not committed. */
bool removals_are_due(const struct store *store);
/* To be called when the commit is over. */
void removals_end(struct store *store);
/* The watch calls it when the disk hangs. Answers all removals, so that no write waits for the
 * disk. */
void removals_give_up(struct store *store);

#endif
