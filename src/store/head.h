/* head.h - what is known of one version of an object. SPDX-License-Identifier: Apache-2.0
 *
 * A head never changes once made, but for when it was last confirmed; it is shared by reference
 * from any thread. Recently used ones lie in RAM (struct heads), by a byte budget. */
#ifndef STORE_HEAD_H
#define STORE_HEAD_H

#include <stdatomic.h>

#include "base/slice.h"

/* The keyed hash of endpoint, bucket, key and version. */
struct object_id {
    uint8_t bytes[12];
};

/* Whose object it is. version: empty for "whatever is current". */
struct object_name {
    slice endpoint, bucket, key, version;
};

struct head {
    struct object_id id;
    /* head_etag_hash(etag): units belong to this head if theirs is equal */
    uint64_t etag_hash;
    uint64_t size;
    int64_t modified_s;           /* Last-Modified, unix seconds */
    bool full;                    /* FULL: learnt from a 200 or a HEAD, so `fields` lacks nothing */
    /* learnt in the name of a client of its own rights, or refused since to Penstock's own (shared)
     * identity: that has shown no right to it. Set before anybody else sees the head. */
    bool unshared;
    /* endpoint NUL bucket NUL key NUL version: compared on every read */
    slice name;
    slice etag;                   /* as the origin wrote it, with quotes */
    /* "name: value\r\n"..., lower-case names: headers worth echoing */
    slice fields;
    _Atomic int64_t validated_s;  /* wall clock when the origin last vouched for it; 0: not known */
    /* what the origin last said to the shared identity, as cache/permit.c writes it: it only grows
     * (shown_raise); SHOWN_REFUSED is in it if that was a refusal; 0: not known, in this process */
    _Atomic uint32_t shown;
    atomic_bool revalidating;     /* somebody asks the origin about it behind the readers' backs */
    /* must be revalidated once before it is served (penstock-format(5)) */
    atomic_bool unproved;
    bool restated;                /* on disk, it may say what is not so any more (restated.h) */
    atomic_uint refs;
};

#define SHOWN_REFUSED 1u

/* The higher one stays, in whatever order they come. Any thread. */
static inline uint32_t shown_raise(_Atomic uint32_t *shown, uint32_t to)
{
    uint32_t before = atomic_load(shown);
    while (before < to && !atomic_compare_exchange_weak(shown, &before, to))
        ;
    return before < to ? to : before;
}

/* Copies everything. */
struct head *head_new(const struct object_id *id, const struct object_name *name, slice etag,
                      slice fields, uint64_t size, int64_t modified_s, bool full) MUST_USE;
struct head *head_ref(struct head *head) MUST_USE;
void head_unref(struct head **head);
size_t head_bytes(const struct head *head);                    /* for budgets */
/* whole key, not its hash */
bool head_is_named(const struct head *head, const struct object_name *name);
slice head_field(const struct head *head, slice name);         /* empty with ptr NULL if absent */
uint64_t head_etag_hash(slice etag);                           /* quotes included; never 0 */
/* What a listing can be compared with in the index alone: 64 bits of size and Last-Modified. */
uint64_t head_mark(uint64_t size, int64_t modified_s);
/* Is it of the version with this ETag and mark? */
bool head_is_of(const struct head *head, uint64_t etag_hash, uint64_t mark);
bool head_is_same(const struct head *a, const struct head *b);    /* of one version? */

/* Heads in RAM: sharded, least recently used go first (CLOCK is fine). Any thread. */
struct heads;
struct heads *heads_new(size_t budget_bytes) MUST_USE;
void heads_free(struct heads **heads);
/* a reference or NULL */
struct head *heads_get(struct heads *heads, const struct object_id *id) MUST_USE;
/* takes a reference of its own; replaces */
void heads_put(struct heads *heads, struct head *head);
void heads_drop(struct heads *heads, const struct object_id *id);
void heads_clear(struct heads *heads);
size_t heads_bytes(const struct heads *heads);

#endif
