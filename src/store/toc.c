/* toc.c - a table of contents in memory. SPDX-License-Identifier: Apache-2.0
 *
 * Entries and names grow at their ends. The names lie one behind the other, as in the file, so a
 * reader goes through both in sequence. One thread at a time. */
#include "store/toc.h"

#include <stdlib.h>
#include <string.h>

/* Returns the list with room for `want` items. */
static void *with_room(void *list, size_t *capacity, size_t want, size_t item_bytes)
{
    if (want <= *capacity)
        return list;
    *capacity = MAX(MAX(want, 2 * *capacity), 256);
    list = realloc(list, *capacity * item_bytes);
    check(list != NULL);
    return list;
}

void toc_add_name(struct toc *toc, const struct toc_name *name)
{
    size_t len = toc_name_bytes(name);
    toc->names = with_room(toc->names, &toc->names_capacity, toc->names_len + len, 1);
    toc_name_encode(name, toc->names + toc->names_len);
    toc->names_len += len;
}

void toc_add(struct toc *toc, const struct toc_entry *entry, const struct toc_name *name)
{
    size_t capacity = toc->capacity;
    toc->entries = with_room(toc->entries, &capacity, toc->count + 1u, sizeof(*toc->entries));
    toc->capacity = (uint32_t)capacity;
    toc->entries[toc->count++] = *entry;
    if (toc_entry_has_name(entry))
        toc_add_name(toc, name);
}

void toc_copy(const struct toc *toc, uint32_t count, size_t names_len, struct toc *ret)
{
    check(count <= toc->count && names_len <= toc->names_len);
    *ret = (struct toc){ .count = count, .capacity = count, .names_len = names_len,
                         .names_capacity = names_len };
    ret->entries = must_alloc(count * sizeof(*ret->entries) + 1);
    ret->names = must_alloc(names_len + 1);
    if (count)
        memcpy(ret->entries, toc->entries, count * sizeof(*ret->entries));
    if (names_len)
        memcpy(ret->names, toc->names, names_len);
}

void toc_free(struct toc *toc)
{
    free(toc->entries);
    free(toc->names);
    *toc = (struct toc){ .count = 0 };
}

struct toc_cursor toc_begin(const struct toc *toc)
{
    return (struct toc_cursor){ toc, { (const char *)toc->names, toc->names_len }, 0 };
}

bool toc_next(struct toc_cursor *cursor, struct toc_row *ret)
{
    if (cursor->ordinal == cursor->toc->count)
        return false;
    *ret = (struct toc_row){ .entry = &cursor->toc->entries[cursor->ordinal],
                             .ordinal = cursor->ordinal };
    cursor->ordinal++;
    if (toc_entry_has_name(ret->entry) && !toc_name_take(&cursor->names, &ret->name))
        ret->name = (struct toc_name){ 0, { "", 0 } };    /* version 1 has no names */
    return true;
}

bool toc_names_fit(const struct toc *toc)
{
    slice names = { (const char *)toc->names, toc->names_len };
    struct toc_name name;
    for (uint32_t i = 0; i < toc->count; i++)
        if (toc_entry_has_name(&toc->entries[i]) && !toc_name_take(&names, &name))
            return false;
    return names.len == 0;
}
