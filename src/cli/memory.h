/* memory.h - the setting `memory`: its value, the source of the value, and its parts.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MEMORY_H
#define CLI_MEMORY_H

#include "base/budget.h"
#include "base/config.h"

struct memory {
    uint64_t bytes;             /* the setting, or its default on this machine */
    slice from;                 /* its source: a setting, or "default: half of ..." */
    uint64_t allowed_bytes;     /* memory that this process may use */
    slice allowed_by;           /* the file that limits it, or "this machine's RAM" */
    struct budgets budgets;
    uint64_t locked_bytes;      /* the setting memory_locked, or its default */
};

/* Reads the limits of the machine and of this process's cgroups. */
struct memory memory_of(const struct config *config, struct arena *keep) MUST_USE;
/* Returns a sentence if the setting is more than three quarters of what this process may use,
 * otherwise an empty slice. */
slice memory_warning(const struct memory *memory, struct arena *keep) MUST_USE;

#endif
