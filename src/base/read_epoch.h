/* read_epoch.h - memory that is read without a lock. SPDX-License-Identifier: Apache-2.0
 *
 * A reader follows pointers that a writer may remove. Before it follows them, the reader enters a
 * read epoch. A writer removes the last pointer to the memory, waits until each reader that may
 * have followed this pointer has left its epoch, and only then frees the memory. (The field's name
 * for this is read-copy-update.)
 *
 * A reader must load, and a writer must store, those pointers with memory_order_seq_cst. Inside an
 * epoch, a reader must take no lock, make no call that may block, and enter no second epoch,
 * because a writer waits for the end of the epoch. Any thread may be a reader or a writer. */
#ifndef BASE_READ_EPOCH_H
#define BASE_READ_EPOCH_H

#include "base/base.h"

struct read_epochs;
struct read_epoch;

struct read_epochs *read_epochs_new(void) MUST_USE;
void read_epochs_free(struct read_epochs **epochs);

struct read_epoch *read_epoch_enter(struct read_epochs *epochs) MUST_USE;
void read_epoch_leave(struct read_epoch *epoch);

/* Returns after each reader that was in an epoch at the time of the call has left that epoch. */
void read_epochs_wait(struct read_epochs *epochs);

#endif
