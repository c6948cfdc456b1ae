/* budget.h - divides the bytes of the setting `memory`. SPDX-License-Identifier: Apache-2.0
 *
 * A budget is the largest number of bytes that one use of memory may take: request bodies, for
 * example. Each budget is a row of budget.def. */
#ifndef BASE_BUDGET_H
#define BASE_BUDGET_H

#include "base/base.h"

enum budget {
#define BUDGET(id, ...) BUDGET_##id,
#include "base/budget.def"
    BUDGET_COUNT
};

struct budget_row {
    const char *name;           /* "memory_slots" */
    unsigned share;             /* percent of the memory above MEMORY_LEAST */
    uint64_t least, most;
    const char *holds, *full;   /* what uses the budget, and what happens when it is full */
};
extern const struct budget_row budget_rows[BUDGET_COUNT];

/* The sum of `least` over all budgets, and so the smallest possible `memory`. */
#define MEMORY_LEAST (64 * MIB)

struct budgets {
    uint64_t bytes[BUDGET_COUNT];
};

/* Divides `memory`, which must be at least MEMORY_LEAST. The sum of the budgets is at most
 * `memory`. */
struct budgets budgets_divide(uint64_t memory) MUST_USE;
/* Returns the default of the setting `memory`. `allowed` is the memory that this process may
 * use. */
uint64_t budgets_default(uint64_t allowed) MUST_USE;

#endif
