/* kind.h - the interface that every kind of origin fills in. Only files of src/origin and src/peers
 * include it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kind (S3 server or directory) is a row of kind.def. It embeds struct origin in its own struct
 * for an origin, and struct origin_hook in its own struct for a call. It makes all callbacks
 * through the hook: the hook enforces the contract (one head, then bodies, then one done) and
 * counts for the metrics. A cancel may race with the end of a call. So call->priv is read and set
 * to NULL under a lock (origin.c), and a kind's resume and cancel only see a live hook. start,
 * resume, cancel and ask_again are called with that lock held, and may take locks of the kind. A
 * kind must hold no lock when it makes callbacks or calls hook_done. */
#ifndef ORIGIN_KIND_H
#define ORIGIN_KIND_H

#include <pthread.h>
#include <stdatomic.h>

#include "origin/origin.h"

struct origin_hook;
struct origin_kind {
    struct url_kind url;                /* the form of its URLs, and facts for the settings */
    bool read_only;
    /* The threads and connections that all origins of the kind share. They are made for the first
     * origin, and freed before the origins are freed. shared_free returns when every call has
     * ended. */
    void *(*shared_new)(unsigned threads);
    void (*shared_free)(void *take_shared);
    /* Opens an origin; the caller sets origin->kind. On failure *ret_why is a sentence for people,
     * in keep. */
    enum err (*open)(void *shared, const struct origin_options *options, struct arena *keep,
                     struct origin **ret, slice *ret_why);
    void (*start)(struct origin *origin, struct origin_call *call);
    void (*resume)(struct origin_hook *hook);
    void (*cancel)(struct origin_hook *hook);
    /* See origin_ask_again. NULL: the kind calls may_send only right before it answers, and never
     * while a call waits. */
    void (*ask_again)(struct origin_hook *hook);
    /* health, owner_changed_ms and owner may be NULL. */
    void (*health)(struct origin *origin, struct arena *keep, struct origin_keys *ret);
    uint64_t (*owner_changed_ms)(const struct origin *origin);    /* NULL: it never changes */
    slice (*owner)(const struct origin *origin);
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
    atomic_uint_fast64_t calls;         /* calls in progress */
    unsigned busy_calls;                /* with so many calls it is busy (origin_is_busy) */
    _Atomic int64_t answered_s;         /* time of the last answer, with any status; 0: none */
    atomic_bool failing;                /* the last call failed, by the origin's fault */
    pthread_mutex_t lock;               /* guards the members below */
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
    const char *why;  /* details of a failure, beyond its enum err; or NULL */
    struct span *span;                  /* of a call that is recorded; else NULL */
    uint64_t body_bytes;                /* of the answer, taken so far */
};

void hook_on(struct origin_hook *hook, struct origin *origin, struct origin_call *call);

/* For a source of bytes that comes before an origin, and is none (peers/): it makes the callbacks of
 * the call itself, and nothing is counted. `origin` has a magic and a kind alone, for resume, cancel
 * and ask_again. enter() begins the work; a cancel comes only after it. hook_detach comes before the
 * call of done(). hook_pass_on detaches the call, and starts it at an origin, as if it had never been
 * elsewhere; no callback but may_send may have been called. It returns false, and does nothing, if
 * *canceled is set. The call's trace is that of the first request; hook_ask_next makes it that of
 * another request, and so does hook_pass_on. */
void hook_attach(struct origin_hook *hook, struct origin *origin, struct origin_call *call,
                 void (*enter)(struct origin_hook *hook));
void hook_detach(struct origin_hook *hook);
void hook_ask_next(struct origin_hook *hook);
bool hook_pass_on(struct origin_hook *hook, struct origin *origin,
                  const atomic_bool *canceled) MUST_USE;
void hook_head(struct origin_hook *hook, const struct origin_reply *reply);
enum origin_take hook_body(struct origin_hook *hook, slice bytes);
/* Ends a call: it belongs to its caller again. The kind then frees its own struct around the
 * hook. */
void hook_done(struct origin_hook *hook, enum err err);

/* client_span.c: the span of a call (base/span.h). The hook calls these functions. */
void client_span_begin(struct origin_hook *hook);
void client_span_head(struct origin_hook *hook, const struct origin_reply *reply);
void client_span_end(struct origin_hook *hook, enum err err);

/* Returns the value of a field that the call sends, by its lower-case name. The ptr is NULL if
 * there is no such field. */
slice call_field(const struct origin_call *call, slice name);

#endif
