/* restated.c - buckets whose metadata on disk may be wrong. SPDX-License-Identifier: Apache-2.0
 *
 * The file has rows of 16 bytes (id of the bucket, number of the highest extent), then the CRC of
 * the rows. A row with the id zero counts for every bucket. When all rows are used, one such row
 * replaces them. */
#include "store/restated.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_MAX 1024u

struct row {
    struct object_id bucket;
    uint32_t extent;
};
static_assert(sizeof(struct row) == 16, "on disk");

struct restated {
    pthread_mutex_t lock;
    atomic_size_t count;              /* changes under the lock; a hit compares it with 0 */
    bool unwritten;                   /* the file lacks a change of the rows */
    struct row rows[BUCKETS_MAX + 1]; /* and room for the CRC behind them */
};

static const struct object_id every_bucket;

struct restated *restated_new(void)
{
    struct restated *restated = must_alloc(sizeof(*restated));
    pthread_mutex_init(&restated->lock, NULL);
    return restated;
}

void restated_free(struct restated **restated)
{
    pthread_mutex_destroy(&(*restated)->lock);
    free(*restated);
    *restated = NULL;
}

/* ---- under the lock ---- */

static struct row *find(struct restated *restated, const struct object_id *bucket)
{
    for (size_t i = 0; i < restated->count; i++)
        if (memcmp(&restated->rows[i].bucket, bucket, sizeof(*bucket)) == 0)
            return &restated->rows[i];
    return NULL;
}

static void put(struct restated *restated, const struct object_id *bucket, uint32_t extent)
{
    struct row *row = find(restated, bucket);
    if (row && row->extent >= extent)
        return;
    restated->unwritten = true;
    if (!row && restated->count == BUCKETS_MAX) {
        restated->rows[0] = (struct row){ every_bucket, extent };
        restated->count = 1;    /* never 0 meanwhile: a hit reads it without the lock */
        return;
    }
    if (!row)
        row = &restated->rows[restated->count++];
    *row = (struct row){ *bucket, extent };
}

static enum err write_rows(struct restated *restated, const struct folder *folder)
{
    if (!restated->unwritten)
        return OK;
    enum err e = folder_write_rows(folder, "restated", restated->rows, sizeof(struct row),
                                   restated->count);
    restated->unwritten = e != OK;
    return e;
}

/* ---- the interface ---- */

enum err restated_open(struct restated *restated, const struct folder *folder)
{
    pthread_mutex_lock(&restated->lock);
    restated->unwritten = false;
    size_t count;
    enum err read = folder_read_rows(folder->fd, "restated", restated->rows, sizeof(struct row),
                                     BUCKETS_MAX, &count);
    restated->count = count;
    if ((read && read != ERR_NOT_FOUND) || folder->doubted)
        put(restated, &every_bucket, extents_highest(folder->extents));
    enum err e = write_rows(restated, folder);
    pthread_mutex_unlock(&restated->lock);
    return e;
}

enum err restated_look(int folder)
{
    struct row rows[BUCKETS_MAX + 1];
    size_t count;
    return folder_read_rows(folder, "restated", rows, sizeof(struct row), BUCKETS_MAX, &count);
}

enum err restated_add(struct restated *restated, const struct folder *folder,
                      const struct object_id *bucket)
{
    pthread_mutex_lock(&restated->lock);
    put(restated, bucket, extents_highest(folder->extents));
    enum err e = write_rows(restated, folder);
    pthread_mutex_unlock(&restated->lock);
    return e;
}

enum err restated_save(struct restated *restated, const struct folder *folder)
{
    pthread_mutex_lock(&restated->lock);
    enum err e = write_rows(restated, folder);
    pthread_mutex_unlock(&restated->lock);
    return e;
}

bool restated_has(struct restated *restated, const struct object_id *bucket, uint32_t extent)
{
    if (atomic_load_explicit(&restated->count, memory_order_acquire) == 0)
        return false;
    pthread_mutex_lock(&restated->lock);
    const struct row *row = find(restated, bucket), *all = find(restated, &every_bucket);
    bool has = (row && extent <= row->extent) || (all && extent <= all->extent);
    pthread_mutex_unlock(&restated->lock);
    return has;
}

bool restated_is(struct restated *restated, const uint8_t secret[STORE_SECRET_BYTES],
                 const struct metadata *metadata, uint32_t extent)
{
    struct object_id id;
    slice rest = metadata->name;
    struct object_name name = { .endpoint = slice_cut(&rest, '\0') };
    name.bucket = slice_cut(&rest, '\0');
    if (atomic_load_explicit(&restated->count, memory_order_acquire) == 0)
        return false;
    object_id_of(secret, &name, &id);
    return restated_has(restated, &id, extent);
}
