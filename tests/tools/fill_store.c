/* fill_store.c - makes a cache folder of many tiny objects, for tests of what many entries cost.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     fill_store FOLDER COUNT ENDPOINT ACCESS_KEY BUCKET PREFIX
 *
 * Object i has the key PREFIX and i in 8 digits, the ETag "fill" and its own key as its bytes. The
 * folder says that all were shown to Penstock's own credentials, of this access key. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/store.h"

#define UNDER_WAY 2000

static sem_t free_slots;
static atomic_uint failed;

struct filling {
    struct store_append append;
    char key[1100];
};

static void done(struct store_append *append, enum err err)
{
    struct filling *filling = (struct filling *)(void *)append;
    if (err)
        atomic_fetch_add(&failed, 1);
    metadata_unref(&append->metadata);
    free(filling);
    sem_post(&free_slots);
}

static enum err put(struct store *store, const struct object_name *base, slice prefix, unsigned i)
{
    struct filling *filling = must_alloc(sizeof(*filling));
    int len = snprintf(filling->key, sizeof(filling->key), "%.*s%08u", SLICE_ARG(prefix), i);
    slice key = { filling->key, (size_t)len };
    struct object_name name = *base;
    name.key = key;
    struct object_id id;
    store_object_id(store, &name, &id);
    struct metadata *metadata = metadata_new(&id, &name, S("\"fill\""),
                                             S("content-type: text/plain\r\n"), key.len, 1700000000,
                                             true);
    atomic_store(&metadata->validated_s, wall_s());
    filling->append = (struct store_append){ .metadata = metadata, .bytes = key,
                                             .with_metadata = true,
                                             .done = done };
    while (sem_wait(&free_slots) != 0)
        ;
    return store_append(store, &filling->append);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: fill_store FOLDER COUNT ENDPOINT ACCESS_KEY BUCKET PREFIX\n");
        return 2;
    }
    struct store_folder folder = { argv[1], 0 };
    struct store_options options = { .folders = &folder, .folder_count = 1, .metadata_bytes = MIB,
                                     .queue_bytes_max = 64 * MIB, .commit_ms_max = 5000,
                                     .engine = DISK_THREADS };
    struct object_name base = { slice_of(argv[3]), slice_of(argv[5]), S(""), S("") };
    struct store_name own = { slice_of(argv[3]), slice_of(argv[4]) };
    struct arena keep = { 0 };
    struct store *store;
    slice why;
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    enum err e = store_open(&options, &keep, &store, &why);
    if (e || why.len) {
        fprintf(stderr, "fill_store: %.*s\n", SLICE_ARG(why));
        return 1;
    }
    store_names(store, &own, 1);
    sem_init(&free_slots, 0, UNDER_WAY);
    uint64_t start = mono_ms();
    for (unsigned i = 0; !e && i < count; i++)
        e = put(store, &base, slice_of(argv[6]), i);
    store_close(&store);
    printf("%u objects in %u ms, %u failed\n", count, (unsigned)(mono_ms() - start),
           atomic_load(&failed));
    arena_free(&keep);
    return e || atomic_load(&failed) ? 1 : 0;
}
