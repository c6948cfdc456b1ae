/* record_set.h - sets of an extent's records: a bit for each ordinal.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The words are atomic, because the recycler reads a set while other threads change it. Nothing else
 * depends on the order of these changes, so they are relaxed. Any thread. */
#ifndef STORE_RECORD_SET_H
#define STORE_RECORD_SET_H

#include <stdatomic.h>

#include "base/base.h"

/* The bytes of a set for this number of records. */
static inline size_t record_set_bytes(uint32_t records)
{
    return (records / 64 + 1) * sizeof(_Atomic uint64_t);
}

/* A set that is NULL is empty. */
static inline bool record_set_has(const _Atomic uint64_t *set, uint32_t ordinal)
{
    return set &&
           atomic_load_explicit(&set[ordinal / 64], memory_order_relaxed) >> ordinal % 64 & 1;
}

/* Returns false if it was there already. */
static inline bool record_set_put(_Atomic uint64_t *set, uint32_t ordinal)
{
    uint64_t bit = 1ull << ordinal % 64;
    return !(atomic_fetch_or_explicit(&set[ordinal / 64], bit, memory_order_relaxed) & bit);
}

static inline void record_set_drop(_Atomic uint64_t *set, uint32_t ordinal)
{
    atomic_fetch_and_explicit(&set[ordinal / 64], ~(1ull << ordinal % 64), memory_order_relaxed);
}

#endif
