/* pace.h - shares a bandwidth fairly between the nodes that ask.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The answers to all nodes together send at most `rate` bytes a second. An answer takes bytes
 * before each send (pace_take). If there are none, it waits in the queue of its node. Of the nodes
 * with waiting answers, the one that was sent the least comes next. So a node that asks much slows
 * itself and not the others. A node that did not wait for some time may catch up by
 * PACE_CREDIT_BYTES.
 *
 * There is no thread. The answer that comes next is the only one that looks at the clock: its owner
 * calls pace_take each PACE_LOOK_MS (pace_is_next). Any other waiting answer is woken when it comes
 * next.
 *
 * Answers that are promised more than PACE_OWED_MS of the rate would come too slowly. So pace_enter
 * refuses a further one, unless its node has less than its part of that. Time is an argument. Any
 * thread may call these functions. */
#ifndef PEERS_PACE_H
#define PEERS_PACE_H

#include "base/list.h"
#include "peers/rank.h"

#define PACE_LOOK_MS 5u
/* An answer may take so much at a time: the bytes of a twentieth of a second, but at least one frame
 * and at most one send of peer_answer.c. */
#define PACE_TAKE_MS 50u
#define PACE_TAKE_BYTES_MIN 65536u
#define PACE_TAKE_BYTES_MAX (1024u * 1024u)
#define PACE_CREDIT_BYTES PACE_TAKE_BYTES_MAX
#define PACE_OWED_MS 2000u            /* more than an answer of a segment needs at its best */

struct pace;
struct pace *pace_new(uint64_t rate) MUST_USE;      /* bytes a second; 0: no limit */
void pace_free(struct pace **pace);                 /* when all answers have left */
void pace_set(struct pace *pace, uint64_t rate);

/* An answer. The caller sets `wake` and `arg`; the rest is zero at first. */
struct paced {
    void (*wake)(void *arg);          /* called under a lock: must only post to another thread */
    void *arg;
    struct pace_node *of;             /* NULL: the answer has not entered, or there was no limit */
    struct list link;                 /* while it waits: in of->queue */
    bool waits;
    uint64_t owed;                    /* bytes that it has entered with and not taken */
};
/* For an answer of `bytes` to this node. Returns false if there is no room for it. */
bool pace_enter(struct pace *pace, struct paced *paced, const uint8_t node[NODE_ID_BYTES],
                uint64_t bytes) MUST_USE;
/* The answer has so many bytes, and not those that it has entered with. */
void pace_resize(struct pace *pace, struct paced *paced, uint64_t bytes);
/* Returns how many of the bytes may be sent now. If it returns 0, the answer waits. */
size_t pace_take(struct pace *pace, struct paced *paced, size_t bytes, uint64_t now_ns) MUST_USE;
/* True if the answer waits, and comes next. */
bool pace_is_next(struct pace *pace, const struct paced *paced) MUST_USE;
/* For an answer that comes next, and can't send now: it leaves the queue until its next
 * pace_take. */
void pace_step_back(struct pace *pace, struct paced *paced);
void pace_leave(struct pace *pace, struct paced *paced);    /* safe at any time, also twice */

#endif
