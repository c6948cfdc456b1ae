/* window.h - fetches that a plan begins ahead of its reader. SPDX-License-Identifier: Apache-2.0
 *
 * One connection to an object store brings 50 to 90 MB/s, whatever the network could. So the plan
 * of a large read holds a window of fetches for the bytes behind the one that its reader waits for.
 * A window belongs to a plan (plan.h). */
#ifndef CACHE_WINDOW_H
#define CACHE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define WINDOW_FETCHES 10u            /* most fetches of one object in progress for its windows */
#define WINDOW_AHEAD_MOST (64 * MIB)  /* beyond the end of a range that belongs to a stream */
#define WINDOW_SPANS 32u              /* most spans whose last byte the reader has not passed */

struct fetch;
struct plan;
struct run_source;

/* Bytes that the plan fetches ahead of its reader. */
struct window_span {
    uint64_t first, end;
    struct fetch *fetch;          /* the plan is its reader; NULL: it is over, or has failed */
    uint64_t peer_end;            /* as that of the fetch, once it is over */
};

struct window {
    /* Most fetches of the object that may be in progress now, those of other readers included;
     * 0: the window has not opened. */
    unsigned fetches_max;
    bool over;                    /* it never opens again: the origin ignores ranges */
    uint64_t cut;                 /* where the first span began; 0: none began within a fetch */
    uint64_t ahead;               /* bytes to fetch beyond the end of the range, for a stream */
    bool stored;                  /* the store takes what the reader waited for last */
    uint64_t waited_ns, waited_pos;    /* time and position when the reader first waited */
    uint64_t next;                /* where the next span may begin; 0: no span has begun yet */
    unsigned first, count;        /* the spans in use, as a ring, in the order of the object */
    struct window_span spans[WINDOW_SPANS];
};

/* All under the lock of the object (flight.h). */
/* To be called when the reader waits for bytes of an answer. Widens the window if that may help. */
void window_widen(struct plan *plan);
/* Leaves fetches that are over, forgets spans that were passed, and begins new fetches. */
void window_fill(struct plan *plan);
/* To be called when the plan goes on with a stream (streams.h): opens the window at once. */
void window_go_on(struct plan *plan, unsigned fetches_max, uint64_t ahead);
/* To be called before window_close. Fetches whose bytes are stored then go on without the plan. */
void window_detach(struct plan *plan);
void window_close(struct plan *plan);    /* leaves all fetches */

/* True if the window fetched the byte at the plan's position: then the byte is no cache hit,
 * although it comes from the store. *ret then says where the bytes of its span came from. */
bool window_brought(struct plan *plan, struct run_source *ret);

#endif
