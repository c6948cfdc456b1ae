/* memory.c - the setting `memory`: where its value is from, and how it is divided.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/memory.h"

#include <inttypes.h>

#include "base/cores.h"

/* What tests set, and who still sets a budget by its old name. */
static const uint64_t *said_of(const struct config *config, enum budget budget)
{
    const uint64_t *const said[BUDGET_COUNT] = {
#define BUDGET(id, ...) &config->budget_##id,
#include "base/budget.def"
    };
    return said[budget];
}

struct memory memory_of(const struct config *config, struct arena *keep)
{
    struct memory_allowed allowed = memory_allowed("");
    struct memory memory = { .allowed_bytes = allowed.bytes,
                             .allowed_by = arena_copy(keep, slice_of(allowed.by)) };
    const struct setting_where *where = &config->where[setting_at(SCOPE_GLOBAL, S("memory"))];
    memory.bytes = config->memory_bytes ? config->memory_bytes : budgets_default(allowed.bytes);
    const char *share = memory.bytes == allowed.bytes / 2 ? "half"
                        : memory.bytes == MEMORY_LEAST    ? "the least there is, out"
                                                          : "the most that is taken";
    memory.from = config->memory_bytes
        ? config_where(where, keep)
        : arena_printf(keep, "default: %s of %" PRIu64 " MiB, %s", share, allowed.bytes / MIB,
                       allowed.by);
    memory.budgets = budgets_divide(memory.bytes);
    for (size_t i = 0; i < BUDGET_COUNT; i++)
        if (*said_of(config, (enum budget)i))
            memory.budgets.bytes[i] = *said_of(config, (enum budget)i);
    return memory;
}

slice memory_warning(const struct config *config, struct arena *keep)
{
    struct memory memory = memory_of(config, keep);
    if (memory.bytes <= memory.allowed_bytes / 4 * 3)
        return S("");
    return arena_printf(keep, "memory is %" PRIu64 " MiB, and %.*s allows %" PRIu64 " MiB, which page "
                        "cache, connections and libraries need a part of: under load the kernel may "
                        "kill Penstock. Set memory to %s", memory.bytes / MIB,
                        SLICE_ARG(memory.allowed_by), memory.allowed_bytes / MIB,
                        memory.allowed_bytes / 2 >= MEMORY_LEAST
                            ? "half of that, or leave it out"
                            : "64MiB, the least, and allow 128 MiB or more");
}
