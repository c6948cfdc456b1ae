/* inside.h - struct store, shared by the files of this room alone.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INSIDE_H
#define STORE_INSIDE_H

#include "store/installation.h"
#include "store/volume_inside.h"

#define BUFFER_BYTES_MAX (1088u * MIB)    /* H8: read buffers of all threads together */

struct store {
    struct store_options options;     /* without the folders */
    /* The secret, and how the route sees each volume. */
    struct installation installation;
    /* In the order of the settings. Neither they nor the route change while the store is open,
     * whether a volume serves or not. */
    struct volume *volumes[VOLUMES_MAX];
    size_t volume_count;
    _Atomic uint64_t ahead_bytes;     /* that jobs keep ahead of readers (store_keep_ahead) */
    struct pins *pins;
    struct pin_pass *pin_pass;
    atomic_size_t buffer_bytes;
    _Atomic uint32_t *lately;         /* marks of bytes read around the page cache (gather.c) */
    size_t lately_count;
    pthread_t sweep;                  /* 0: not started */
    struct locker *locker;
    pthread_mutex_t readers_lock;     /* guards `readers` */
    struct list readers;              /* the store_io of each thread that reads */
};

static inline struct store *store_of(const struct volume *volume)
{
    return container_of(volume->options.installation, struct store, installation);
}

/* Returns the volume that has this unit of the object. */
static inline struct volume *store_home_of_unit(const struct store *store,
                                                const struct object_id *id, uint32_t unit)
{
    return store->volumes[route_home(store->installation.route, store->volume_count, id,
                                      unit / STRIPE_UNITS)];
}

/* Returns the volume that has the metadata of this object, and its first stripe. */
static inline struct volume *store_home(const struct store *store, const struct object_id *id)
{
    return store_home_of_unit(store, id, 0);
}

/* Bytes of extents in all volumes. */
static inline uint64_t store_bytes(const struct store *store)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < store->volume_count; i++)
        bytes += extents_bytes(store->volumes[i]->extents);
    return bytes;
}

#endif
