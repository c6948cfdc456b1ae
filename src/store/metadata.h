/* metadata.h - one version of an object, without its bytes. SPDX-License-Identifier: Apache-2.0
 *
 * Metadata never changes after it was made, except for its atomic members: when the origin last
 * confirmed it, and to whom. Any thread may share it by reference. Recently used metadata lies in
 * RAM (struct metadata_cache), within a byte budget. */
#ifndef STORE_METADATA_H
#define STORE_METADATA_H

#include <stdatomic.h>

#include "base/slice.h"
#include "store/index_memo.h"

/* The keyed hash of endpoint, bucket, key and version. */
struct object_id {
    uint8_t bytes[12];
};

/* The full name of an object. version empty: the current version. */
struct object_name {
    slice endpoint, bucket, key, version;
};

/* Metadata keeps a name as one text: the parts, with a NUL between each two. */
size_t object_name_bytes(const struct object_name *name);
slice object_name_write(const struct object_name *name, char *to);    /* returns the text in `to` */

struct metadata {
    struct object_id id;
    /* metadata_etag_hash(etag). A unit belongs to this metadata if its etag_hash is equal. */
    uint64_t etag_hash;
    uint64_t size;
    int64_t modified_s;           /* Last-Modified, unix seconds */
    bool full;                    /* made from a 200 or a HEAD, so `fields` is complete */
    /* True: the metadata proves no right of the shared identity. It was learned in the name of a
     * client, or the shared identity was refused since. Set before the metadata is shared. */
    bool unshared;
    /* endpoint NUL bucket NUL key NUL version: compared on every read */
    slice name;
    slice etag;                   /* as the origin wrote it, with quotes */
    /* "name: value\r\n"..., lower-case names: the headers that clients get */
    slice fields;
    _Atomic int64_t validated_s;  /* ageing_s() when the origin last confirmed it; 0: not known */
    /* The origin's latest answer to the shared identity, in the form of cache/permit.c. The value
     * only grows (raise_32). GRANTED_REFUSED: the answer was a refusal. 0: not known in this
     * process. */
    _Atomic uint32_t granted;
    atomic_bool revalidating;     /* a revalidation runs in the background */
    /* True: the metadata must be revalidated once before it is served (penstock-format(5)). */
    atomic_bool unproved;
    /* The serial of the newest purge that its name was compared with (ban_list.h). */
    _Atomic uint64_t compared;
    bool restated;                /* a write may have made the metadata wrong (restated.h) */
    atomic_uint refs;
    struct index_memo memo;       /* of the object's entry */
};

#define GRANTED_REFUSED 1u

/* Copies everything. */
struct metadata *metadata_new(const struct object_id *id, const struct object_name *name,
                              slice etag, slice fields, uint64_t size, int64_t modified_s,
                              bool full) MUST_USE;
struct metadata *metadata_ref(struct metadata *metadata) MUST_USE;
void metadata_unref(struct metadata **metadata);
size_t metadata_bytes(const struct metadata *metadata);        /* for budgets */
/* Compares the whole name, not its hash. */
bool metadata_has_name(const struct metadata *metadata, const struct object_name *name);
/* The ptr of the result is NULL if there is no such field. */
slice metadata_field(const struct metadata *metadata, slice name);
uint64_t metadata_etag_hash(slice etag);                       /* quotes included; never 0 */
/* 64 bits made of size and Last-Modified. An index entry has them, so that it can be compared with
 * a line of a listing. */
uint64_t metadata_mark(uint64_t size, int64_t modified_s);
/* True if the metadata is of the version with this ETag and mark. */
bool metadata_is_of(const struct metadata *metadata, uint64_t etag_hash, uint64_t mark);
bool metadata_is_same(const struct metadata *a, const struct metadata *b);    /* of one version */

/* Metadata in RAM, sharded; metadata that was not used lately is evicted first. Any thread. */
struct metadata_cache;
struct metadata_cache *metadata_cache_new(size_t budget_bytes) MUST_USE;
void metadata_cache_free(struct metadata_cache **cache);
/* Returns a reference, or NULL. */
struct metadata *metadata_cache_get(struct metadata_cache *cache,
                                    const struct object_id *id) MUST_USE;
/* Takes a reference of its own, and replaces older metadata of the object. */
void metadata_cache_put(struct metadata_cache *cache, struct metadata *metadata);
void metadata_cache_drop(struct metadata_cache *cache, const struct object_id *id);
void metadata_cache_clear(struct metadata_cache *cache);
size_t metadata_cache_bytes(const struct metadata_cache *cache);

#endif
