/* removal.h - removals, from the queue to their answer. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_REMOVAL_H
#define STORE_REMOVAL_H

#include "store/inside.h"

/* What waits goes along with the batch that is taken. Under the store's lock. */
void removals_take(struct store *store);
/* In its transaction. */
enum err removals_publish(struct store *store) MUST_USE;
/* That is committed: RAM forgets them too. */
void removals_settle(struct store *store);
void removals_answer(struct store *store, enum err err);
/* The watch's: nobody is to wait for a disk that hangs. */
void removals_give_up(struct store *store);

#endif
