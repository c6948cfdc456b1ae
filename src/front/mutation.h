/* mutation.h - the keys that a write may change, and its steps in the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each write that the origin answers (pass_write.c) has a mutation. It begins before the origin is
 * called, and ends before the client has all of the answer (rule H7 in src/README.md). */
#ifndef FRONT_MUTATION_H
#define FRONT_MUTATION_H

#include "front/inside.h"

/* Only the loop writes the members. `order` is set before the origin call, in which the origin's
 * thread reads it. The mutation of a read is all zeros. */
struct mutation {
    struct write_key *keys;       /* all keys that the write may change */
    size_t key_count;
    slice bucket;                 /* valid once the mutation has begun */
    struct write *write;          /* its steps in the cache; NULL: not begun, or over */
    struct write_order order;     /* shows whether a later write of these keys has begun */
    bool regrants;                /* the write changes who may read objects of its bucket */
    struct hint hint;             /* for the other nodes, once for each key; what 0: none */
    struct peers *peers;          /* they; may be NULL */
};

/* Finds the keys in the head of the call, in its form, and among those that its body lists. Copies
 * of the keys lie in `keep`, and so must the list. */
void mutation_find_keys(struct mutation *mutation, struct arena *keep, const struct call *call,
                        const struct intake_keys *listed);
/* Begins the write in the cache: marks the epochs of the keys, and starts the removal of their
 * metadata. call->rules must be set. `keep` and `bucket` must live as long as the mutation.
 * changed() is called on the loop when the removal is committed, unless mutation_may_go is true at
 * once. */
void mutation_begin(struct mutation *mutation, struct arena *keep, const struct call *call,
                    slice bucket, void (*changed)(void *arg), void *arg);
/* True if the write has begun, and may be sent to the origin. */
bool mutation_may_go(const struct mutation *mutation);
/* Raises the epochs of the keys (cache/epoch.h), and tells the other nodes (peers/hint.h), whatever
 * the outcome of the write. Does nothing if the mutation has not begun, or is over. */
void mutation_end(struct mutation *mutation);

#endif
