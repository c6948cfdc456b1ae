/* hints.h - the hints that a node has for the others, until they have them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One queue for all receivers. Each receiver, known by its installation id, has a place in it:
 *
 *      dropped │ e e e e e e e e e e e │ the next hint
 *              first   ^B        ^A    next
 *
 * An entry is dropped when every receiver that is not behind has it, when it is older than keep_ms,
 * or when the queue is full. A receiver is *behind* if an entry was dropped before it got it. Nothing
 * is kept for it alone, until it is heard of again: then it goes on at `first`, and the next batch
 * tells it the age of the latest entry that was dropped. A receiver that is not known yet may have
 * missed what was dropped before, so it is told the same. So a receiver gets all hints, or learns
 * what it may have missed.
 *
 * The queue knows no network and no clock: ageing time (base/clock.h) is an argument. Any
 * thread. */
#ifndef PEERS_HINTS_H
#define PEERS_HINTS_H

#include "peers/hint.h"
#include "peers/rank.h"

struct hints_limits {
    size_t entries, bytes;            /* of the queue (rule H8 in src/README.md) */
    uint64_t keep_ms;
};

struct hints;
struct hints *hints_new(const struct hints_limits *limits) MUST_USE;
void hints_free(struct hints **hints);

/* To be called before the queue is used, if a process before this one has ended with hints that
 * only these nodes had: every other node may have missed some. */
void hints_inherit(struct hints *hints, const uint8_t (*ids)[NODE_ID_BYTES], size_t count,
                   uint64_t now_ms);

/* This node was heard of: from now on, hints are kept for it. */
void hints_meet(struct hints *hints, const uint8_t id[NODE_ID_BYTES]);

/* Adds a valid hint, unless one of the latest entries that were not sent yet is the same. */
void hints_add(struct hints *hints, const struct hint *hint, uint64_t now_ms);

/* The part of the queue that hints_take has put into a batch, for hints_followed. */
struct hints_taken {
    uint64_t next, lost_ms;
    size_t count;
    bool full;                        /* more is there */
};
/* True if there is something for this node. */
bool hints_wait(struct hints *hints, const uint8_t id[NODE_ID_BYTES]);
/* Adds the payload of the next batch for this node to the text. Returns false if there is none. */
bool hints_take(struct hints *hints, const uint8_t id[NODE_ID_BYTES], uint64_t now_ms,
                struct text *to, struct hints_taken *ret) MUST_USE;
/* The node has followed the batch. */
void hints_followed(struct hints *hints, const uint8_t id[NODE_ID_BYTES],
                    const struct hints_taken *taken);

/* True if a hint was added, or inherited nodes may have missed some: then a list of the nodes that
 * have all must outlive the process. Finds these nodes; the list lies in keep. */
bool hints_settled(struct hints *hints, struct arena *keep, uint8_t (**ret)[NODE_ID_BYTES],
                   size_t *ret_count);

#endif
