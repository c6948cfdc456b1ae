/* plan.h - brings the bytes of one version to one get, from where they are.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plan is a window over the *sources* of a get's bytes: bytes that are being fetched
 * (flight.h), the store, and the origin. It hands out *runs*: consecutive bytes from one source,
 * in the order of the object. A plan belongs to a get, and is used on the loop of this get
 * alone. */
#ifndef CACHE_PLAN_H
#define CACHE_PLAN_H

#include "cache/inside.h"
#include "cache/streams.h"
#include "cache/window.h"

#define AHEAD_READS 5u            /* pieces of READ_BYTES_MAX at most: the next, and 4 after it */

/* The identity that reads, and the object that it reads. Set when a get starts. */
struct reading {
    struct cache_loop *loop;
    struct flights *flights;
    const struct rules *rules;
    struct object_name name;
    struct object_id id;
    struct asker asker;
    bool lends;                   /* as store_to.lends */
    uint64_t began_ms;            /* ageing time, as fetch->sent.at_ms */
    void (*changed)(void *arg);   /* to be called when the get should go on */
    void *changed_arg;
};

/* The number of the identity. An origin's answer counts for the identity that asked. */
static inline uint64_t reading_who(const struct reading *reading)
{
    return identity_id(reading->asker.who);
}

/* The get's part in what is in progress for its object. All members change under the lock of the
 * object; but while the get waits for a listing page, the waiter is in a list of that page. A get
 * uses them before it has a decision, too, because a fetch brings metadata and bytes. */
struct sources {
    struct waiter waiter;
    struct inflight *inflight;    /* NULL until it is needed */
    struct fetch *fetch;          /* the get is its reader */
    struct flight *flight;        /* the get reads from it */
    bool slow;                    /* a fetch has outrun the get */
};

/* Bytes that were pulled, and that get_next has not handed out yet. */
struct run {
    slice bytes;
    bool is_cached;               /* they came from the store */
    uint64_t peer_end;            /* otherwise: as that of their flight */
    struct object_bytes held;     /* holds them, if they came from the store */
    char *copy;                   /* holds them, if slots or read buffers were scarce */
};

struct plan;

/* A read of the store: begun, or ended and not taken yet. */
struct ahead_read {
    struct plan *plan;
    struct store_op *op;          /* NULL: it has ended */
    uint64_t pos, end;            /* in the object */
    enum err err;                 /* how it ended */
    struct object_bytes held;
};

/* The queue of these reads, from the plan's pos on and without a hole (read_ahead.c). */
struct read_ahead {
    struct ahead_read reads[AHEAD_READS];
    unsigned first, count;
    unsigned more;                /* so many reads may be in the queue after the first */
    bool disk_was_asked;          /* the last read that began was not in the page cache */
    bool awaited;                 /* plan_pull waits for the first read */
};

struct plan {
    const struct reading *of;
    struct sources sources;
    /* set by plan_begin */
    struct metadata *metadata;    /* the version; the reference is the get's. NULL: not begun */
    uint64_t first, pos, end;     /* the bytes [pos, end) are still to be handed out */
    char *to;                     /* the reader's memory for the byte at `first`; NULL: none */
    /* set by plan_pull */
    struct run run;               /* the bytes at pos */
    struct read_ahead ahead;
    struct window window;
    unsigned tries;               /* failed fetches since the last byte, if the window has opened */
    struct refusal *refusal;      /* of the origin, if that is why plan_pull failed */
};

void plan_init(struct plan *plan, const struct reading *of, struct ticket *ticket);
void plan_hook_in(struct plan *plan);          /* sets sources.inflight; under the lock */
/* The answer is decided: the plan will hand out [first, end) of this version. */
void plan_begin(struct plan *plan, struct metadata *metadata, uint64_t first, uint64_t end,
                void *to);
/* Sets `run` to the bytes at pos. Returns OK, ERR_WAIT (changed() will be called), ERR_CHANGED (the
 * origin has another version), or the reason why there are no bytes. */
enum err plan_pull(struct plan *plan) MUST_USE;
/* Says where the bytes of the run came from, by offsets in the object: those before peer_end came
 * from another node, those from there to origin_end from the origin, and the others from the cache.
 * Bytes that the plan itself fetched are no bytes of the cache, although the run may come from the
 * store. To be called before plan_advance. */
struct run_source {
    uint64_t peer_end, origin_end;
};
struct run_source plan_run_source(struct plan *plan);
/* The run was handed out: the plan goes on behind it, and may read ahead. The bytes of the run stay
 * valid until the next plan_pull or plan_let_go. */
void plan_advance(struct plan *plan);
/* Leaves all that is in progress, and drops what was read ahead. */
void plan_let_go(struct plan *plan);
void plan_close(struct plan *plan);    /* to be called after plan_let_go: releases the run */

/* Returns the span to fetch from the unit of `from` up to `to`, or up to the next unit that is
 * stored, is being fetched, or is too far away for one fetch. Under the lock. */
struct fetch_span plan_gap(const struct plan *plan, uint64_t from, uint64_t to);

/* ---- read_ahead.c ---- */
/* Gets the store's bytes at pos, up to `end`. Returns OK with *ret, or ERR_WAIT: changed() is
 * called when the bytes are there. Any other result is that of store_read; what was read ahead
 * is then dropped. `to` is memory for the bytes, as for store_read. */
enum err read_ahead_take(struct plan *plan, uint64_t end, struct store_to to,
                         struct object_bytes *ret) MUST_USE;
void read_ahead_go_on(struct plan *plan);    /* begins reads of the next bytes, if that pays */
void read_ahead_drop(struct plan *plan);

#endif
