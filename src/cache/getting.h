/* getting.h - struct get, for the files that implement it. SPDX-License-Identifier: Apache-2.0
 *
 * A get is one GET or HEAD of an object, as the cache answers it (get.h). It goes from phase to
 * phase: get.c finds the metadata and decides, validate.c asks the origin about a version, and
 * plan.c brings the bytes. "Under the lock" means the lock of the object (flight.h). */
#ifndef CACHE_GETTING_H
#define CACHE_GETTING_H

#include "base/metric.h"
#include "cache/fresh.h"
#include "cache/get.h"
#include "cache/parts.h"
#include "cache/plan.h"

#define GET_MAGIC 0x6765743031303131u

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

/* The search for the object's metadata. */
struct search {
    struct store_op *op;          /* the disk reads the metadata; its end calls changed() */
    enum get_phase found;         /* the phase that follows if the store has the metadata */
    unsigned restarts;            /* because the origin had another version */
    bool looked_again;            /* at most once: a fetch that has ended may have left metadata */
    bool distrust;                /* the stored metadata is of another version */
    bool alone;                   /* the shared fetch was refused to another identity: now alone */
    bool upgrade;                 /* the HEAD is for checksums that the metadata lacks */
};

/* The pages of a listing that the get waits for, one after the other (validate.c). */
struct page_wait {
    struct list_page *page;       /* NULL: none now */
    enum list_page_state state;   /* the result of the latest page for the key, when it has ended */
    int64_t seen_s;               /* when the metadata was last confirmed before that page */
    unsigned count;               /* of pages that have ended */
};

/* The proof that the identity may read: judged once, for the whole get (permit.c). */
struct permit {
    bool has;
    uint64_t version;             /* ... while the metadata is of this version */
    bool ages;                    /* more than half of the proof's time is over */
};

/* The part of a multipart upload that the client wants, if it wants one. */
struct part_wanted {
    struct part place;            /* where it lies */
    unsigned asked;               /* number of HEADs that asked for its place */
};

/* A wait of a client, from the first ERR_WAIT on. */
struct get_wait {
    uint64_t since_ns;            /* 0: the get does not wait */
    enum metric what;             /* M_WAIT_DISK, M_WAIT_MISS or M_WAIT_ORIGIN */
};

struct get {
    uint64_t magic;
    struct get_ask ask;
    struct reading of;
    uint64_t began_ns;
    enum get_phase phase;
    struct ticket *ticket;
    struct search search;
    struct metadata *metadata;
    bool validated;               /* the origin, or a node of the fleet, confirmed it during this get */
    struct page_wait pages;
    struct part_wanted part;
    struct permit permit;
    struct plan plan;             /* waits for metadata, too, by the plan's sources */
    struct refusal *refusal;
    struct get_answer answer;
    struct get_cost cost;
    struct get_wait wait;
};

/* True if the answer must be as new as the request: no earlier answer of the origin counts. */
static inline bool get_wants_newest(const struct get *get)
{
    return get->ask.revalidate || get->ask.rules->freshness == FRESH_ALWAYS;
}

/* Returns when a write may last have changed the metadata of this version without a new version
 * (epoch_restate for the key, or epoch_bucket_restate_begins). All 0: never. */
struct epoch_restated restated_of(struct cache *cache, const struct object_name *name) MUST_USE;
/* Returns the moment before which no answer of the origin counts for this get: that of restated_of,
 * or ask.for_peer.proved_after_ms. All 0: there is none. */
struct epoch_restated get_restated(const struct get *get) MUST_USE;

/* Judges get->metadata. The get stays as it is, except for what permit_has notes. */
enum judgement get_judge(struct get *get) MUST_USE;
/* True if get->metadata may answer although the origin fails. */
bool get_serves_outage(struct get *get) MUST_USE;

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

void get_let_go(struct get *get);              /* ends its waits; releases what it reads from */
/* Revalidates the metadata of this get in the background, at most once at a time for an object. If
 * by_head, sends a HEAD as the identity of the get, even if the metadata is fresh. */
void background_start(struct get *get, bool by_head);

#endif
