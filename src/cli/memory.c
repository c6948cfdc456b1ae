/* memory.c - the setting `memory`: its value, the source of the value, and its parts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/memory.h"

#include <assert.h>
#include <inttypes.h>

#include "base/cores.h"

#define LOCKED_SHARE 4u    /* the most of the allowed memory that is locked */

/* If a test or an old setting gives the size of a single budget, this size replaces the budget's
 * share of `memory`. No such budget may be larger than the memory of the machine or the cgroup: the
 * budget of grants (proofs that a client may read an object) is allocated at the start, and a
 * budget of 64 TiB would end the process. */
static void take_given(const struct config *config, uint64_t allowed_bytes, struct budgets *budgets)
{
    const uint64_t given[] = {
#define BUDGET(id, ...) config->budget_##id,
#include "base/budget.def"
    };
    static_assert(countof(given) == BUDGET_COUNT, "a member for each budget");
    for (size_t i = 0; i < BUDGET_COUNT; i++)
        if (given[i])
            budgets->bytes[i] = MIN(given[i], allowed_bytes);
}

struct memory memory_of(const struct config *config, struct arena *keep)
{
    struct memory_allowed allowed = memory_allowed("");
    struct memory memory = { .allowed_bytes = allowed.bytes,
                             .allowed_by = arena_copy(keep, slice_of(allowed.by)) };
    const struct setting_where *where = &config->where[setting_at(SCOPE_GLOBAL, S("memory"))];
    memory.bytes = config->memory_bytes ? config->memory_bytes : budgets_default(allowed.bytes);
    check(memory.bytes >= MEMORY_LEAST);
    const char *bound = memory.bytes == MEMORY_LEAST ? "least" : "most";
    slice but = memory.bytes == allowed.bytes / 2
        ? S("") : arena_printf(keep, ", but at %s %" PRIu64 " MiB", bound, memory.bytes / MIB);
    memory.from = config->memory_bytes
        ? config_where(where, keep)
        : arena_printf(keep, "default: half of the limit of %" PRIu64 " MiB (from %s)%.*s",
                       allowed.bytes / MIB, allowed.by, SLICE_ARG(but));
    memory.locked_bytes = allowed.bytes / LOCKED_SHARE;
    if (config->memory_locked_bytes)
        memory.locked_bytes = MIN(memory.locked_bytes, config->memory_locked_bytes);
    memory.budgets = budgets_divide(memory.bytes);
    take_given(config, allowed.bytes, &memory.budgets);
    return memory;
}

/* Old settings may give budgets that are together larger than `memory`. */
static uint64_t budgets_sum(const struct budgets *budgets)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < BUDGET_COUNT; i++)
        sum += budgets->bytes[i];
    return sum;
}

slice memory_warning(const struct memory *memory, struct arena *keep)
{
    uint64_t sum = budgets_sum(&memory->budgets), bytes = MAX(sum, memory->bytes);
    if (bytes <= memory->allowed_bytes / 4 * 3)
        return S("");
    bool half = memory->allowed_bytes / 2 >= MEMORY_LEAST;
    const char *is = sum > memory->bytes ? "the old settings of single budgets give" : "memory is";
    return arena_printf(keep, "%s %" PRIu64 " MiB, and %.*s allows %" PRIu64 " MiB. Page "
                        "cache, connections and libraries need memory, too, so the kernel may kill "
                        "Penstock under load. %s memory to %s%.*s%s", is, bytes / MIB,
                        SLICE_ARG(memory->allowed_by), memory->allowed_bytes / MIB,
                        sum > memory->bytes ? "Remove the old settings, and set" : "Set",
                        half ? "at most half of " : "64MiB, its minimum, and raise ",
                        SLICE_ARG(memory->allowed_by),
                        half ? ", or leave memory out" : " to 128 MiB or more");
}
