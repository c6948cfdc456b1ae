/* raise.h - raises or lowers an atomic number. SPDX-License-Identifier: Apache-2.0
 *
 * The number keeps the highest (or lowest) value, whatever the order of the calls. Each function
 * returns the value that the number has afterwards. Any thread. */
#ifndef BASE_RAISE_H
#define BASE_RAISE_H

#include <stdatomic.h>

#include "base/base.h"

static inline uint64_t raise_64(_Atomic uint64_t *at, uint64_t to)
{
    uint64_t now = atomic_load(at);
    while (now < to && !atomic_compare_exchange_weak(at, &now, to))
        ;
    return MAX(now, to);
}

static inline uint64_t lower_64(_Atomic uint64_t *at, uint64_t to)
{
    uint64_t now = atomic_load(at);
    while (now > to && !atomic_compare_exchange_weak(at, &now, to))
        ;
    return MIN(now, to);
}

static inline uint32_t raise_32(_Atomic uint32_t *at, uint32_t to)
{
    uint32_t now = atomic_load(at);
    while (now < to && !atomic_compare_exchange_weak(at, &now, to))
        ;
    return MAX(now, to);
}

#endif
