/* read_epoch.c - memory that is read without a lock. SPDX-License-Identifier: Apache-2.0
 *
 * A reader takes a slot for the length of its epoch. The counter of a slot is odd while a reader
 * has it. A writer looks at each counter once, and waits for each odd one until it has changed.
 *
 * Why that is enough: entering a slot, loading a pointer, removing a pointer and looking at a slot
 * are all sequentially consistent. If the writer finds a slot even, the next reader of that slot
 * enters it after the pointer was removed, so it does not find the pointer. If the writer finds the
 * slot odd, it waits; the reader's last store releases all that it did in the epoch.
 *
 * Each thread begins its search for a free slot at a slot of its own. So two threads share no cache
 * line until more than SLOTS threads have ever read. */
#include "base/read_epoch.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 64u

struct read_epoch {
    _Alignas(64) _Atomic uint64_t count;    /* odd: a reader is in this epoch */
};

struct read_epochs {
    struct read_epoch slots[SLOTS];
};

struct read_epochs *read_epochs_new(void)
{
    struct read_epochs *epochs = aligned_alloc(_Alignof(struct read_epochs), sizeof(*epochs));
    check(epochs != NULL);
    memset(epochs, 0, sizeof(*epochs));
    return epochs;
}

void read_epochs_free(struct read_epochs **epochs)
{
    if (!*epochs)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        check(atomic_load(&(*epochs)->slots[i].count) % 2 == 0);
    free(*epochs);
    *epochs = NULL;
}

struct read_epoch *read_epoch_enter(struct read_epochs *epochs)
{
    static atomic_uint threads;
    static _Thread_local unsigned mine;    /* 1 + the slot where its search begins */
    if (!mine)
        mine = 1 + atomic_fetch_add(&threads, 1) % SLOTS;
    for (unsigned i = mine - 1;; i = (i + 1) % SLOTS) {
        struct read_epoch *slot = &epochs->slots[i];
        uint64_t count = atomic_load_explicit(&slot->count, memory_order_relaxed);
        if (count % 2 == 0 && atomic_compare_exchange_strong(&slot->count, &count, count + 1))
            return slot;
        if (i == (mine - 1 + SLOTS / 2) % SLOTS)
            sched_yield();
    }
}

void read_epoch_leave(struct read_epoch *epoch)
{
    uint64_t count = atomic_load_explicit(&epoch->count, memory_order_relaxed);
    check(count % 2 == 1);
    atomic_store_explicit(&epoch->count, count + 1, memory_order_release);
}

void read_epochs_wait(struct read_epochs *epochs)
{
    for (size_t i = 0; i < SLOTS; i++) {
        uint64_t seen = atomic_load(&epochs->slots[i].count);
        while (seen % 2 && atomic_load(&epochs->slots[i].count) == seen)
            sched_yield();
    }
}
