/* store.c - the interface of the room: gives each object to the volume that has it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The secret of the installation never changes. It is that of the folder if the format file can be
 * read at the start, even while another process holds the folder. Otherwise it is a new secret,
 * which a folder that is made later gets. So the id of an object stays the same. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "store/inside.h"

#define LATELY_MIN 1024u              /* marks, each of a read of about a unit */
#define LATELY_MAX (1u << 20)

/* ---- life ---- */

static struct store *store_new(const struct store_options *options)
{
    struct store *store = must_alloc(sizeof(*store));
    store->options = *options;
    store->lately_count = LATELY_MIN;
    while (store->lately_count < LATELY_MAX &&
           store->lately_count * UNIT_BYTES < options->memory_bytes / 2)
        store->lately_count *= 2;
    store->lately = must_alloc(store->lately_count * sizeof(*store->lately));
    return store;
}

static void find_secret(struct store *store)
{
    struct format format;
    const char *why;
    if (folder_peek(store->options.folder, &format, &why) == OK)
        memcpy(store->secret, format.secret, sizeof(store->secret));
    else
        secret_make(store->secret);
}

enum err store_open(const struct store_options *options, struct arena *keep, struct store **ret,
                    slice *ret_why)
{
    struct store *store = store_new(options);
    find_secret(store);
    store->volume = volume_new(&(struct volume_options){
        .folder = options->folder, .size_bytes = options->size_bytes,
        .reserve_bytes = options->reserve_bytes, .extent_bytes = options->extent_bytes,
        .metadata_bytes = options->metadata_bytes, .queue_bytes_max = options->queue_bytes_max,
        .commit_ms_max = options->commit_ms_max, .memory_bytes = options->memory_bytes,
    }, store->secret);
    enum err e = volume_start(store->volume, keep, ret_why);
    if (e)
        store_close(&store);
    else
        *ret = store;
    return e;
}

void store_close(struct store **store)
{
    struct store *mine = *store;
    *store = NULL;
    if (!mine)
        return;
    volume_free(&mine->volume);
    free(mine->lately);
    free(mine);
}

/* ---- of all objects ---- */

void store_status(struct store *store, struct store_status *ret)
{
    volume_status(store->volume, ret);
}

void store_names(struct store *store, const struct store_name *list, size_t count)
{
    volume_names(store->volume, list, count);
}

void store_object_id(const struct store *store, const struct object_name *name,
                     struct object_id *ret)
{
    object_id_of(store->secret, name, ret);
}

uint64_t store_capacity(struct store *store)
{
    return volume_capacity(store->volume);
}

void store_restate(struct store *store, struct store_removal *removal)
{
    volume_restate(store->volume, removal);
}

/* ---- of one object ---- */

uint32_t store_has_units(struct store *store, const struct metadata *metadata, uint32_t first,
                         uint32_t count)
{
    return volume_has_units(store_home_of_unit(store, &metadata->id, first), metadata, first,
                            count);
}

uint32_t store_next_unit(struct store *store, const struct metadata *metadata, uint32_t first,
                         uint32_t count)
{
    return volume_next_unit(store_home_of_unit(store, &metadata->id, first), metadata, first,
                            count);
}

bool store_admits(struct store *store, const struct object_id *id, uint64_t bytes)
{
    return volume_admits(store_home(store, id), id, bytes);
}

enum err store_append(struct store *store, struct store_append *append)
{
    return volume_append(store_home_of_unit(store, &append->metadata->id, append->first_unit),
                         append);
}

void store_remove(struct store *store, struct store_removal *removal)
{
    volume_remove(store->volume, removal);
}

bool store_knows(struct store *store, const struct object_id *id)
{
    return volume_knows(store_home(store, id), id);
}

enum store_renewal store_renew(struct store *store, const struct object_id *id,
                               const struct store_vouch *vouch)
{
    return volume_renew(store_home(store, id), id, vouch);
}

uint32_t store_grant(struct store *store, const struct object_id *id, const struct metadata *only,
                     uint32_t granted, bool forgive)
{
    return volume_grant(store_home(store, id), id, only, granted, forgive);
}

bool store_refuse(struct store *store, struct store_removal *removal)
{
    return volume_refuse(store_home(store, removal->ids), removal);
}
