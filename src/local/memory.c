/* memory.c - the table of the kinds of registered memory. SPDX-License-Identifier: Apache-2.0
 *
 * Each kind is one row of memory.def. Any thread may call these functions. */
#include "local/memory.h"

#include <jansson.h>

#define MEMORY(id, name, table) extern const struct memory_kind table;
#include "local/memory.def"
#undef MEMORY

static const struct {
    const char *name;
    const struct memory_kind *kind;
} kinds[] = {
#define MEMORY(id, name, table) [id] = { name, &table },
#include "local/memory.def"
#undef MEMORY
};

const struct memory_kind *memory_kind(enum memory kind)
{
    check(kind < MEMORY_KINDS);
    return kinds[kind].kind;
}

struct json_t *memory_kinds_page(const struct local *local)
{
    json_t *page = json_object();
    for (enum memory kind = 0; kind < MEMORY_KINDS; kind++) {
        const char *why = kinds[kind].kind->why_off(local);
        json_object_set_new(page, kinds[kind].name, why ? json_sprintf("off: %s", why)
                                                        : json_string("on"));
    }
    return page;
}
