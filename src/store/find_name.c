/* find_name.c - the name of an object of which only the id is known.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Records of units have no name. Their object's metadata has it, and lies in the volume of the
 * object's first stripe, which may be another one. */
#include "store/find_name.h"

#include <string.h>

#include "store/inside.h"

static bool in_memory(struct volume *home, const struct object_id *id, struct arena *keep,
                      slice *ret)
{
    struct metadata *metadata = metadata_cache_get(home->known.cache, id);
    bool found = metadata != NULL;
    if (found)
        *ret = arena_copy(keep, metadata->name);
    metadata_unref(&metadata);
    return found;
}

/* Reads the record's header, then its metadata block. */
static bool read_block(const struct extent *extent, const struct object_id *id,
                       const struct entry *entry, struct arena *keep, slice *ret)
{
    uint8_t header[RECORD_HEADER_MAX];
    struct record record;
    uint32_t len = record_header_bytes(entry->whole ? entry->len : 0);
    if (len > sizeof(header) || !extent_read(extent, header, len, entry->offset) ||
        record_decode((slice){ (char *)header, len }, &record) != OK ||
        record.metadata_len > METADATA_BLOCK_MAX || memcmp(&record.id, id, sizeof(*id)) != 0)
        return false;
    uint8_t *block = arena_alloc(keep, record.metadata_len + 1);
    *ret = (slice){ (char *)block, record.metadata_len };
    return extent_read(extent, block, record.metadata_len, entry->offset + len) &&
           record.metadata_crc == block_crc(id, record.etag_hash, METADATA_UNIT, block,
                                            record.metadata_len);
}

bool find_name(struct volume *volume, const struct object_id *id, struct arena *keep, slice *ret)
{
    struct volume *home = store_home(store_of(volume), id);
    struct extent *extent = NULL;
    struct toc_name name;
    struct entry entry;
    uint32_t unit;
    slice block;
    if (in_memory(home, id, keep, ret))
        return true;
    bool found = index_get_metadata(home->index, id, &unit, &entry) == OK &&
                 extent_hold(home->extents, entry.extent, &extent) == OK &&    /* H1 */
                 read_block(extent, id, &entry, keep, &block) && toc_name_of(block, &name);
    if (found)
        *ret = name.name;
    extent_release(&extent);
    return found;
}
