/* guess.c - whether an object of unknown size is likely larger than a segment.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A folder is what comes before the last slash of a key. Folders that share a row guess alike. */
#include "cache/guess.h"

#include <stdatomic.h>

#define ROWS 4096u

static atomic_bool larger_last[ROWS];

static atomic_bool *row_of(const struct object_name *name)
{
    slice folder = name->key;
    while (folder.len && folder.ptr[folder.len - 1] != '/')
        folder.len--;
    uint64_t hash = metadata_etag_hash(folder) * 31 + metadata_etag_hash(name->bucket);
    return &larger_last[hash % ROWS];
}

void guess_note(const struct object_name *name, bool larger)
{
    atomic_store(row_of(name), larger);
}

bool guess_is_larger(const struct object_name *name)
{
    return atomic_load(row_of(name));
}
