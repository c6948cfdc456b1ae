/* inside.h - struct store, shared by the files of this room alone.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INSIDE_H
#define STORE_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "store/folder.h"
#include "store/names.h"
#include "store/publish.h"
#include "store/restated.h"

#define CHANGE_COUNTERS 1024u
#define COMING_COUNTERS 4096u
#define UPDATES_MAX 65536u            /* H8: the most small changes that wait; more are dropped */
#define COMMIT_ENTRIES 100u           /* a commit closes at so many entries ... */
#define COMMIT_BYTES (16 * MIB)       /* ... or at so many bytes of records */
#define SLOW_COMMIT_MS 1000u          /* a longer commit is slow: the disk does not keep up */
#define BUFFER_BYTES_MAX (1088u * MIB)    /* H8: read buffers of all threads together */

/* A change of the index that carries no bytes. */
enum update_kind { UPDATE_FORGET, UPDATE_PROVE, UPDATE_GRANTED };
struct update {
    struct list link;
    enum update_kind kind;
    struct named_entry of;
    uint32_t generation;              /* the store's when the change was queued */
};

struct store {
    struct store_options options;
    struct folder folder;             /* for the committer only */
    struct metadata_cache *metadata_cache;
    struct names *names;
    struct restated *restated;
    struct index *index;
    struct extents *extents;
    uint8_t secret[STORE_SECRET_BYTES];    /* never changes */

    atomic_bool open;
    _Atomic(const char *) why;        /* why the folder is not open; static text */
    _Atomic(const char *) anew;       /* why the folder began anew; static text */
    _Atomic uint64_t busy_since_ms;   /* time of the running commit's latest progress; 0: none */
    atomic_uint generation;
    _Atomic uint64_t size_bytes, reserve_bytes;
    _Atomic uint64_t free_bytes;      /* of the file system, when the committer last looked */
    atomic_bool unproved;    /* a removal or refusal came while the folder was out of service */
    bool doubted;                     /* the folder has a note of that; for the committer only */
    /* The removals since the commit began. The first removed_done of them are committed. For the
     * committer only. */
    struct removed {
        struct object_id id;
        bool refused, bucket;
    } *removed;
    size_t removed_count, removed_done, removed_max;
    atomic_size_t buffer_bytes;
    _Atomic uint32_t *lately;         /* marks of bytes read around the page cache (gather.c) */
    size_t lately_count;
    /* Each counter is raised by a commit that changes metadata of its objects. A thread that reads
     * metadata from the disk into RAM compares the counter before and after. */
    atomic_uint changes[CHANGE_COUNTERS];
    /* Counts metadata that was handed in and is not committed yet. */
    atomic_uint coming[COMING_COUNTERS];

    pthread_mutex_t lock;             /* guards the members below */
    pthread_cond_t more;
    struct list appends, removals, updates;
    struct list committing;           /* removals in the running commit that have no answer yet */
    size_t queued_bytes, queued_entries, update_count;
    uint64_t oldest_ms;               /* when the first append of the queue came */
    bool stopping;
    pthread_cond_t stop;              /* wakes the watch */
    pthread_t committer, watch;
};

static inline atomic_uint *change_counter(struct store *store, const struct object_id *id)
{
    return &store->changes[(id->bytes[2] | (unsigned)id->bytes[3] << 8) % CHANGE_COUNTERS];
}

static inline atomic_uint *coming_counter(struct store *store, const struct object_id *id)
{
    return &store->coming[(id->bytes[2] | (unsigned)id->bytes[3] << 8) % COMING_COUNTERS];
}

static inline bool store_is_serving(struct store *store)
{
    if (!atomic_load_explicit(&store->open, memory_order_acquire) ||
        atomic_load_explicit(&store->unproved, memory_order_relaxed))
        return false;
    uint64_t since = atomic_load_explicit(&store->busy_since_ms, memory_order_relaxed);
    return since == 0 || mono_ms() < since + store->options.commit_ms_max;
}

/* Queues a change for the committer. If too many changes wait, the change is dropped. Any
 * thread. */
void store_update(struct store *store, enum update_kind kind, const struct object_id *id,
                 uint32_t unit, const struct entry *entry);

/* To be called when the committer makes progress. */
static inline void store_still_alive(struct store *store)
{
    atomic_store(&store->busy_since_ms, mono_ms());
}

/* To be called when a commit has changed the metadata of this object. */
static inline void store_changed(struct store *store, const struct object_id *id)
{
    atomic_fetch_add(change_counter(store, id), 1);
}

void *commit_run(void *store);        /* the committer's thread: commit.c */

#endif
