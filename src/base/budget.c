/* budget.c - divides the bytes of the setting `memory`. SPDX-License-Identifier: Apache-2.0
 *
 * One table gives each budget its share. The memory is divided once, at the start. Budgets do not
 * borrow from each other: the lender could not get the memory back in time. */
#include "base/budget.h"

#include <assert.h>

/* The default of `memory` is half of the allowed memory. The other half is for connections,
 * threads, libraries and the page cache, through which cached bytes and the index are read.
 * DEFAULT_MOST is near 1,616 MiB, the sum of all budgets in version 0.1, when each budget had its
 * own setting. */
#define DEFAULT_MOST (1536 * MIB)

const struct budget_row budget_rows[BUDGET_COUNT] = {
#define BUDGET(id, name, share, least, most, holds, full) { name, share, least, most, holds, full },
#include "base/budget.def"
};

enum {
    SHARES = 0
#define BUDGET(id, name, share, ...) + (share)
#include "base/budget.def"
};
static_assert(SHARES == 100, "the sum of the shares must be 100 percent");

#define BUDGET(id, name, share, least, ...) + (least)
static_assert(MEMORY_LEAST == 0
#include "base/budget.def"
    , "MEMORY_LEAST must be the sum of the budgets' smallest sizes");

struct budgets budgets_divide(uint64_t memory)
{
    struct budgets budgets;
    check(memory >= MEMORY_LEAST);
    uint64_t above = memory - MEMORY_LEAST;
    for (size_t i = 0; i < BUDGET_COUNT; i++) {
        const struct budget_row *row = &budget_rows[i];
        budgets.bytes[i] = MIN(row->least + above / 100 * row->share / MIB * MIB, row->most);
    }
    return budgets;
}

uint64_t budgets_default(uint64_t allowed)
{
    return MAX(MIN(allowed / 2, DEFAULT_MOST), MEMORY_LEAST);
}
