/* memory.h - the setting `memory`: where its value is from, and how it is divided.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MEMORY_H
#define CLI_MEMORY_H

#include "base/budget.h"
#include "base/config.h"

struct memory {
    uint64_t bytes;             /* the setting, or its default here */
    slice from;                 /* "default: half of 512 MiB, /sys/fs/cgroup/memory.max", or a place in the settings */
    uint64_t allowed_bytes;     /* to this process */
    slice allowed_by;           /* the file that says so, or "this machine's RAM" */
    struct budgets budgets;
};

struct memory memory_of(const struct config *config, struct arena *keep) MUST_USE;
/* A sentence if it is more than fits here, else empty. */
slice memory_warning(const struct config *config, struct arena *keep) MUST_USE;

#endif
