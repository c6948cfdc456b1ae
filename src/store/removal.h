/* removal.h - removals, from the queue to their answer. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_REMOVAL_H
#define STORE_REMOVAL_H

#include "store/inside.h"

/* What waits goes along with the transaction that is about to be made. */
void removals_take(struct store *store);
/* In it: those that are not committed yet. `again`: and those that were, since the batch began. */
enum err removals_publish(struct store *store, bool again) MUST_USE;
/* It is committed: RAM forgets them too. */
void removals_settle(struct store *store);
void removals_answer(struct store *store, enum err err);
/* Are there any that were taken, and not committed? */
bool removals_are_due(const struct store *store);
/* The batch is over. */
void removals_end(struct store *store);
/* The watch's: nobody is to wait for a disk that hangs. */
void removals_give_up(struct store *store);

#endif
