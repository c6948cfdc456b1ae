/* kind.h - the interface that every kind of origin fills in; for this room only.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kind is a row of kind.def. It embeds struct origin in what it keeps for an origin,
 * and struct origin_hook in what it keeps for a call. Callbacks go through the hook and nowhere
 * else: it holds the contract (one head, then bodies, then one done) and counts for the metrics. A
 * cancel may race with the end of a call. call->priv is read and emptied under a lock (origin.c),
 * so resume and cancel of a kind only see a live hook. start, resume and cancel are called with
 * that lock held, and may take locks of the kind. A kind holds no lock when it calls callbacks or
 * hook_done. */
#ifndef ORIGIN_KIND_H
#define ORIGIN_KIND_H

#include <pthread.h>
#include <stdatomic.h>

#include "origin/origin.h"

struct origin_hook;
struct origin_kind {
    struct url_kind url;                /* how its URLs look, and what the settings must know */
    bool read_only;
    /* The threads and connections that all origins of the kind share. They are made for the first
     * origin, and freed while all origins still stand. Freeing returns when every call is done. */
    void *(*shared_new)(unsigned threads);
    void (*shared_free)(void *take_shared);
    /* Opens an origin; its kind is set by the caller. On failure *ret_why is a sentence for people,
     * in keep. */
    enum err (*open)(void *shared, const struct origin_options *options, struct arena *keep,
                     struct origin **ret, slice *ret_why);
    void (*start)(struct origin *origin, struct origin_call *call);
    void (*resume)(struct origin_hook *hook);
    void (*cancel)(struct origin_hook *hook);
    void (*ask_again)(struct origin_hook *hook);    /* NULL: the kind asks may_send by itself */
    /* Each of the next two may be NULL. */
    void (*health)(struct origin *origin, struct arena *keep, struct origin_keys *ret);
    uint64_t (*owner_changed_ms)(const struct origin *origin);    /* NULL: never */
    void (*free)(struct origin *origin);    /* called when no call is left */
};
#define KIND(name) extern const struct origin_kind name;
#include "origin/kind.def"

#define ORIGIN_MAGIC 0x0419140eu
struct origin {
    unsigned magic;
    const struct origin_kind *kind;
    struct list link;
    char *name, *endpoint;
    atomic_uint_fast64_t calls;         /* number under way */
    _Atomic int64_t answered_s;         /* time of the last answer, of any status; 0: none */
    atomic_bool failing;                /* the last call failed, and the fault was the origin's */
    pthread_mutex_t lock;               /* for the members below */
    int64_t failed_s;                   /* time of the last failure */
    int64_t failing_s;                  /* the first failure since the last answer; 0: none */
    char why[300];
};

#define HOOK_MAGIC 0x4007ca11u
struct origin_hook {
    unsigned magic;
    struct origin *origin;
    struct origin_call *call;
    bool headed;
    int status;
    const char *why;                    /* details of the failure, beyond its err; or NULL */
};

void hook_on(struct origin_hook *hook, struct origin *origin, struct origin_call *call);
void hook_head(struct origin_hook *hook, const struct origin_reply *reply);
enum origin_take hook_body(struct origin_hook *hook, slice bytes);
/* Ends a call: it belongs to its caller again. The kind frees its own struct around the hook. */
void hook_done(struct origin_hook *hook, enum err err);

/* The value of a field that the call sends, by its lower-case name; ptr NULL if it is absent. */
slice call_field(const struct origin_call *call, slice name);

#endif
