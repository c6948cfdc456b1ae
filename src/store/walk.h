/* walk.h - the objects that the cache has, by their names. SPDX-License-Identifier: Apache-2.0
 *
 * No index of names exists. A walk reads the tables of contents of all extents in sequence, and
 * asks the index about each row, so it finds what a request would find. It waits for the disk, and
 * takes seconds for millions of objects. So it must not run on a loop. */
#ifndef STORE_WALK_H
#define STORE_WALK_H

#include "store/route.h"
#include "store/store.h"

/* One version of an object whose metadata is in the cache. Valid during the visit. */
struct walk_object {
    slice key, version;               /* version empty: the current one */
    uint64_t etag_hash;               /* metadata_etag_hash of its ETag; 0: not known */
    uint64_t size;                    /* of the object */
    uint64_t cached_bytes;            /* the bytes of the object that the cache has */
    uint64_t pinned_bytes;            /* the pinned ones of these bytes */
    double age;                       /* explain.h; if the caller wants it */
};
/* An error ends the walk. */
typedef enum err walk_visit(void *arg, const struct walk_object *object);

/* The part of the store that a walk visits. */
struct walk_ask {
    slice endpoint, bucket, prefix;
    bool wants_age;
    walk_visit *visit;
    /* True if the walk must end with ERR_STOPPING. NULL: it never must. Asked often; cheap. */
    bool (*is_over)(void *arg);
    void *arg;                        /* of both */
};

/* The parts of the cache that the walk could not read. */
struct walk_gaps {
    bool folders[VOLUMES_MAX];        /* by the order of the settings: out of service */
    uint32_t extents;                 /* could not be opened */
    uint32_t unnamed;                 /* extents with objects whose names are not known (version 1) */
    bool any;
};

/* Visits the objects in the order in which they lie on disk. An object that the recycler moves
 * meanwhile may be visited twice; one that is stored or removed meanwhile, once or not at all.
 * Returns OK, ERR_STOPPING, or the error of a visit. Any thread; at most one volume is held at a
 * time, and memory is that of one table of contents. */
enum err store_walk(struct store *store, const struct walk_ask *ask,
                    struct walk_gaps *ret) MUST_USE;

#endif
