/* inside.h - struct store, shared by the files of this room alone.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INSIDE_H
#define STORE_INSIDE_H

#include "store/volume_inside.h"

#define BUFFER_BYTES_MAX (1088u * MIB)    /* H8: read buffers of all threads together */

struct store {
    struct store_options options;
    uint8_t secret[STORE_SECRET_BYTES];    /* of the installation; never changes */
    struct volume *volume;
    atomic_size_t buffer_bytes;
    _Atomic uint32_t *lately;         /* marks of bytes read around the page cache (gather.c) */
    size_t lately_count;
};

/* Returns the volume that has the metadata and the small records of this object. */
static inline struct volume *store_home(const struct store *store, const struct object_id *id)
{
    (void)id;
    return store->volume;
}

/* Returns the volume that has this unit of the object. */
static inline struct volume *store_home_of_unit(const struct store *store,
                                                const struct object_id *id, uint32_t unit)
{
    (void)unit;
    return store_home(store, id);
}

#endif
