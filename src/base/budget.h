/* budget.h - the memory of the setting `memory`, divided. SPDX-License-Identifier: Apache-2.0 */
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
    unsigned share;             /* in percent, of the memory above all leasts */
    uint64_t least, most;
    const char *holds, *full;   /* words for people */
};
extern const struct budget_row budget_rows[BUDGET_COUNT];

/* The sum of all leasts: the smallest `memory` there is. */
#define MEMORY_LEAST (64 * MIB)

struct budgets {
    uint64_t bytes[BUDGET_COUNT];
};

/* Divides at least MEMORY_LEAST. The sum of the budgets is never above `memory`. */
struct budgets budgets_divide(uint64_t memory) MUST_USE;
/* The value of `memory` if it is not set. allowed: the memory that this process may use. */
uint64_t budgets_default(uint64_t allowed) MUST_USE;

#endif
