/* kind.h - what every kind of origin is made of; for this room only.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kind is a row of the table in origin.c. It embeds struct origin in what it keeps for an origin,
 * and struct origin_hook in what it keeps for a call. Callbacks go through the hook and nowhere else: it holds the contract
 * (one head, then bodies, then one done) and counts for the metrics.
 * A cancel may race with the end: call->priv is read and emptied under a lock (origin.c), so a
 * kind's resume and cancel only ever see a live hook. They and start are called with that lock held
 * and may take the kind's own locks; callbacks and hook_done are called with no lock held. */
#ifndef ORIGIN_KIND_H
#define ORIGIN_KIND_H

#include <pthread.h>
#include <stdatomic.h>

#include "origin/origin.h"

struct origin_hook;
struct origin_kind {
    struct url_kind url;                /* how its URLs look, and what the settings must know */
    bool read_only;
    /* What all origins of the kind have in common: threads, connections. Made for the first of
     * them; freed once all have stopped, and freeing returns when every call is done. */
    void *(*shared_new)(unsigned threads);
    void (*shared_free)(void *take_shared);
    /* Opens an origin; its kind is set by the caller. On failure *ret_why is a sentence for people,
     * in keep. */
    enum err (*open)(void *shared, const struct origin_options *options, struct arena *keep,
                     struct origin **ret, slice *ret_why);
    void (*start)(struct origin *origin, struct origin_call *call);
    void (*resume)(struct origin_hook *hook);
    void (*cancel)(struct origin_hook *hook);
    void (*ask_again)(struct origin_hook *hook);    /* NULL: they ask by themselves */
    /* each may be NULL; stop: the threads that carry calls are about to end */
    void (*health)(struct origin *origin, struct arena *keep, struct origin_keys *ret);
    uint64_t (*renamed_ms)(const struct origin *origin);    /* NULL: never */
    void (*stop)(struct origin *origin);
    void (*free)(struct origin *origin);    /* no call is left */
};
extern const struct origin_kind s3_kind, dir_kind;

#define ORIGIN_MAGIC 0x0419140eu
struct origin {
    unsigned magic;
    const struct origin_kind *kind;
    struct list link;
    char *name, *endpoint;
    atomic_uint_fast64_t calls;         /* under way */
    _Atomic int64_t answered_s;         /* its last answer, of any status; 0: none */
    atomic_bool failing;                /* the last call failed, and by the origin's doing */
    pthread_mutex_t lock;               /* for what follows */
    int64_t failed_s;                   /* the last failure, */
    int64_t failing_s;                  /* ... the first since it last answered; 0: it does */
    char why[300];
};

#define HOOK_MAGIC 0x4007ca11u
struct origin_hook {
    unsigned magic;
    struct origin *origin;
    struct origin_call *call;
    bool headed;
    int status;
    const char *why;                    /* more than the err says of its end; NULL */
};

void hook_on(struct origin_hook *hook, struct origin *origin, struct origin_call *call);
void hook_head(struct origin_hook *hook, const struct origin_reply *reply);
enum origin_take hook_body(struct origin_hook *hook, slice bytes);
/* The call belongs to its caller again; what holds the hook is the kind's to free. */
void hook_done(struct origin_hook *hook, enum err err);

/* A field of the call by its lower-case name; ptr NULL if it is absent. */
slice call_field(const struct origin_call *call, slice name);

#endif
