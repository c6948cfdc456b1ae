/* getting.h - struct get, for the files that implement it. SPDX-License-Identifier: Apache-2.0
 *
 * A get is one GET or HEAD of an object, as the cache answers it (get.h). It goes from phase to
 * phase: get.c finds the metadata and decides, validate.c asks the origin about a version, and
 * pull.c delivers the bytes. "Under the lock" means the lock of the object (flight.h). */
#ifndef CACHE_GETTING_H
#define CACHE_GETTING_H

#include "cache/fresh.h"
#include "cache/get.h"
#include "cache/inside.h"
#include "cache/parts.h"

#define GET_MAGIC 0x6765743031303131u

#define COPY_BYTES 65536u         /* a reader's own copy while slots are scarce */
#define SHORT_COPY_BYTES 16384u   /* the same while read buffers are scarce */
#define AHEAD_READS 5u            /* pieces of READ_BYTES_MAX at most: the next, and 4 after it */

enum get_phase {
    GET_LOOK,            /* looks for the object's metadata */
    GET_FRESH,           /* the metadata is there: may it answer? */
    GET_PAGE,            /* waits for a list page around the key */
    GET_PAGE_OVER,       /* the metadata was looked up again: renewed or not? */
    GET_PROBE,           /* needs a HEAD */
    GET_PROVE,           /* the HEAD does not prove the right to the bytes: needs a GET */
    GET_UNKNOWN,         /* there is no metadata: joins or starts a GET */
    GET_ANSWER,          /* waits for the answer to the HEAD or GET */
    GET_DECIDE,          /* fixes conditions and range */
    GET_FIRST,           /* waits for the first bytes, so that X-Cache is true */
    GET_READY
};

/* A read of the store: begun, or ended and not taken yet. */
struct ahead_read {
    struct get *get;
    struct store_op *op;          /* NULL: it has ended */
    uint64_t pos, end;            /* in the object */
    enum err err;                 /* how it ended */
    struct object_bytes held;
};

/* The queue of these reads, from the get's pos on and without a hole (read_ahead.c). */
struct read_ahead {
    struct ahead_read reads[AHEAD_READS];
    unsigned first, count;
    unsigned more;                /* so many reads may be in the queue after the first */
    bool disk_was_asked;          /* the last read that began was not in the page cache */
    bool awaited;                 /* get_pull waits for the first read */
};

struct get {
    uint64_t magic;
    struct cache_loop *loop;
    struct flights *flights;
    struct get_ask ask;
    void (*changed)(void *arg);
    void *changed_arg;
    struct object_name name;
    struct object_id id;
    struct asker asker;
    uint64_t began_ms;             /* ageing time, as fetch->sent_ms */
    uint64_t began_ns;
    enum get_phase phase;
    enum get_phase found;          /* the phase that follows if the store has the metadata */

    /* its waits, and its references */
    struct ticket *ticket;
    struct waiter waiter;
    struct store_op *op;
    struct list_page *page;
    struct inflight *inflight;    /* NULL until it is needed */
    struct fetch *fetch;          /* the get is its reader */
    struct flight *flight;        /* the get reads from it */

    struct metadata *metadata;
    bool validated;               /* the origin confirmed the metadata during this get */
    enum list_page_state page_state;    /* the result of the page for the key, when it has ended */
    int64_t seen_s;               /* when the metadata was last confirmed before the page */
    unsigned pages;
    struct part part;             /* the part that the client wants */
    unsigned part_asked;          /* number of HEADs that asked for the part's place */
    bool upgrade;                 /* the HEAD is for checksums that the metadata lacks */
    bool looked_again;            /* at most once: a fetch that has ended may have left metadata */
    bool distrust;                /* the stored metadata is of another version */
    unsigned restarts;
    bool permitted;               /* the identity may read: judged once, for the whole get ... */
    uint64_t permitted_version;   /* ... while the metadata is of this version (permit.c) */
    bool permit_ages;             /* ... and more than half of the proof's time is over */
    bool alone;                   /* the shared fetch was refused to another identity: now alone */

    uint64_t pos, end;            /* the bytes that get_next still has to hand out */
    slice ready;                  /* pulled, and not handed out yet */
    struct object_bytes held;     /* holds `ready`, if it came from the store */
    char *copy;                   /* holds `ready`, if slots or read buffers were scarce */
    bool held_is_cached;
    struct read_ahead ahead;
    bool slow;                    /* a fetch has outrun it */
    struct refusal *refusal;
    struct get_answer answer;
    struct get_cost cost;
};

/* True if the answer must be as new as the request: no earlier answer of the origin counts. */
static inline bool get_wants_newest(const struct get *get)
{
    return get->ask.revalidate || get->ask.rules->freshness == FRESH_ALWAYS;
}

/* Returns when a write may last have changed the metadata of this version without a new version
 * (epoch_restate for the key, or epoch_bucket_restate_begins). All 0: never. */
struct epoch_restated get_restated(const struct get *get) MUST_USE;

/* Judges get->metadata. The get stays as it is, except for what permit_has notes. */
enum judgement get_judge(struct get *get) MUST_USE;
/* True if get->metadata may answer although the origin is down. */
bool get_serves_outage(struct get *get) MUST_USE;

/* The number of the get's identity. An origin's answer counts for the identity that asked. */
static inline uint64_t get_who(const struct get *get)
{
    return identity_id(get->asker.who);
}

/* Each of these ends a phase. get_go sets the next phase. get_refuse and get_fail set GET_READY,
 * with a refusal. */
enum err get_go(struct get *get, enum get_phase phase) MUST_USE;
enum err get_refuse(struct get *get, const struct refusal *refusal) MUST_USE;
enum err get_fail(struct get *get, enum err err) MUST_USE;
enum err get_restart(struct get *get) MUST_USE;    /* the origin has another version */

/* The first phase: finds the metadata, in a fetch in progress or in the store. */
enum err get_look(struct get *get) MUST_USE;
/* Looks for the metadata in the store. The next phase is `found`, or GET_UNKNOWN if there is none.
 * Returns OK or ERR_WAIT. */
enum err get_find(struct get *get, enum get_phase found) MUST_USE;

/* The phases of validate.c. They return OK or ERR_WAIT. */
enum err get_wait_for_page(struct get *get) MUST_USE;
enum err get_judge_page(struct get *get) MUST_USE;
enum err get_probe_start(struct get *get) MUST_USE;
enum err get_prove(struct get *get) MUST_USE;
/* Judges the get's HEAD, which is over. Sets the next phase and returns OK, or returns ERR_CHANGED.
 * Under the lock. */
enum err get_judge_probe(struct get *get) MUST_USE;

/* Sets `ready` to the bytes at pos. Returns OK, ERR_WAIT, ERR_CHANGED, or the reason why there are
 * no bytes. If that is a refusal of the origin, get->refusal is set. */
enum err get_pull(struct get *get) MUST_USE;
void get_hook_in(struct get *get);             /* sets get->inflight; under the lock */
void get_let_go(struct get *get);              /* ends its waits, and releases what it reads from */
/* Revalidates the metadata of this get in the background, at most once at a time for an object. If
 * by_head, sends a HEAD as the identity of the get, even if the metadata is fresh. */
void background_start(struct get *get, bool by_head);

/* ---- read_ahead.c ---- */
/* Gets the store's bytes at pos, up to `end`. Returns OK with *ret, or ERR_WAIT: the get's
 * changed() is called when the bytes are there. Any other result is that of store_read; what was
 * read ahead is then dropped. `to` is memory for the bytes, as for store_read. */
enum err read_ahead_take(struct get *get, uint64_t end, void *to,
                         struct object_bytes *ret) MUST_USE;
void read_ahead_go_on(struct get *get);    /* begins reads of the bytes after these, if that pays */
void read_ahead_drop(struct get *get);

/* ---- permit.c ---- */
void permit_ask_as(struct get *get, const struct identity *who);    /* after name and id are set */
/* True if there is proof that the get's identity may read this version. */
bool permit_has(struct get *get);
/* An answer to this get has proven that its identity may read the version of get->metadata. */
void permit_let(struct get *get);
/* Until when the proof of the right to read counts, in ageing time; 0: there is no proof. */
uint64_t permit_until_ms(const struct get *get, uint64_t now_ms) MUST_USE;
/* True if the answer to this fetch, which is in progress, will count for this get, too. */
bool permit_shares(struct get *get, const struct fetch *fetch);

#endif
