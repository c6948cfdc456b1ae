/* get.h - one GET or HEAD of an object, decided and delivered. SPDX-License-Identifier: Apache-2.0
 *
 * A get is one read of an object through the cache. It goes through these phases:
 *
 * look ─┬─ metadata ─ fresh? ─┬──────────────┬─ decide ─ first piece ─ ready ─ next, next ...
 *       │                     └─ page/probe ─┤
 *       └─ unknown ─ fetch's answer ─────────┘
 *
 * A get belongs to one loop. After a call has returned ERR_WAIT, changed() is called on that loop
 * when the caller should repeat the call. Version, freshness and conditions are decided once,
 * before `ready`. From then on the get delivers bytes of that version, or an error. */
#ifndef CACHE_GET_H
#define CACHE_GET_H

#include "cache/cache.h"

struct get;

struct get_ask {
    const struct rules *rules;
    const struct identity *who;   /* NULL: the shared identity */
    slice bucket, key, version;   /* live as long as the get; empty version: the current one */
    struct s3_range range;
    unsigned part;                /* partNumber; 0: none. With a part there is no range */
    struct s3_conditions conditions;
    bool head_only;
    bool revalidate;              /* ask even if fresh: for no-cache, and keys that are not plain */
    /* x-amz-checksum-mode: if the metadata has no checksums, it is completed first */
    bool want_checksums;
    bool background;              /* no client waits: revalidate, even within the grace */
    /* The access key of a client whose reads count for its follow jobs, or a null slice. */
    slice reader;
    /* All gets of one list have the same list_id. Their calls to the origin take turns with other
     * calls as if they were one call. 0: the get belongs to no list. */
    uint64_t list_id;
    enum origin_rank rank;        /* of these calls; ORIGIN_READER: a client waits */
    /* The bytes are for a reader that comes soon: what the store does not admit is staged. */
    bool ahead;
    /* Another node asks: no node may be asked on its behalf, and answers that the origin gave before
     * this ageing time don't count. */
    struct get_for_peer {
        bool is;
        uint64_t proved_after_ms;
        bool all_fields;          /* it would like those of an answer without a range */
    } for_peer;
    /* The records that count as cached bytes. RECORDS_NOT_STAGED: staged bytes are fetched again,
     * so that the store can keep them. */
    enum store_records among;
    /* How the bytes are handed out. `at` is memory for them, or NULL if there is none. An object
     * with more bytes is ERR_TOO_LARGE. Where it can, the store reads directly into this memory
     * (store_read). If get_next returns bytes that lie elsewhere, the caller copies them. */
    struct get_memory {
        void *at;
        uint64_t bytes;
        bool lends;               /* as store_to.lends */
    } to;
    const struct trace *trace;    /* of the request, for the calls to the origin; or NULL */
};

/* The source of the bytes, or of the decision. */
enum get_source {
    GET_HIT, GET_STALE, GET_STALE_IF_ERROR, GET_REVALIDATED, GET_PARTIAL, GET_MISS, GET_NEGATIVE
};
const char *get_source_name(enum get_source source);    /* "HIT" ... for X-Cache */

struct get_answer {
    /* OK, ERR_NOT_MODIFIED, ERR_PRECONDITION, ERR_BAD_RANGE, or the err of a refusal. */
    enum err err;
    const struct refusal *refusal;    /* the origin's own answer, or NULL */
    const struct metadata *metadata;    /* NULL if there is a refusal */
    uint64_t first, end;          /* the bytes that get_next will return: [first, end) */
    bool partial;                 /* 206 */
    unsigned parts;               /* for a part: the object's number of parts; 0: it has none */
    slice part_sums;              /* for a part: its checksums, as lines of metadata's fields */
    enum get_source source;
    int64_t validated_s;          /* when the origin last confirmed the version */
};

/* The cost of a get, for the access line and Server-Timing. Complete when the get is over. */
struct get_cost {
    uint64_t cache_bytes, peers_bytes, origin_bytes;    /* by the source of the bytes */
    uint64_t decided_ns, first_ns;    /* from the start to the decision; to the first byte */
};

/* The reason why stored metadata may answer a get, or may not. */
enum judgement {
    JUDGED_CONFIRMED,             /* yes: the origin confirmed it during this get */
    JUDGED_FRESH,                 /* yes: confirmed, and ttl is not over */
    JUDGED_IMMUTABLE,             /* yes: such a copy never expires */
    JUDGED_STALE,                 /* yes: within grace; it is revalidated meanwhile */
    JUDGED_EXPIRED,               /* no: ttl and grace are over */
    JUDGED_UNPROVED,              /* no: not confirmed since an unclean stop, or in this process */
    JUDGED_NOT_PERMITTED,         /* no: nothing proves that the identity may read it */
    JUDGED_NEWEST,                /* no: the client or the settings ask for the newest answer */
    JUDGED_RESTATED,              /* no: a write may have changed the metadata since */
    JUDGED_INCOMPLETE,            /* no: it lacks checksums that the client wants */
    JUDGED_VERSION_EXPIRED,       /* no: a version that the client names must be confirmed */
    JUDGEMENTS
};

/* The outcome that a get would have now, found without a call to the origin. */
struct get_forecast {
    const struct metadata *metadata;  /* the metadata of the object; NULL: none is stored */
    enum judgement judgement;         /* if there is metadata */
    int64_t confirmed_s;              /* when the origin confirmed it, ageing time; 0: not known */
    int64_t permitted_s;              /* the right to read is still proved for so long; 0: not */
    bool all_permitted;               /* the origin knows no identities: no proof is needed */
    bool in_flight;                   /* a fetch of the object is in progress */
    struct peers *peers;              /* NULL: there are none */
    /* Why they are not asked for bytes of this version, and of any object of its origin; or NULL. */
    const char *why_no_peers, *why_no_fleet;
    /* Of the metadata, if there is any. As this process knows it: the index may get it later. */
    bool proved;                      /* needs no revalidation because of an unclean stop */
    bool refused;                     /* the latest answer to the shared identity was a refusal */
    bool unshared;                    /* no answer, and no proof for the shared identity on disk */
};

struct get *get_start(struct cache_loop *loop, const struct get_ask *ask,
                      void (*changed)(void *arg), void *arg) MUST_USE;
/* Returns OK with the decision, or ERR_WAIT. */
enum err get_decide(struct get *get, const struct get_answer **ret) MUST_USE;
/* To be called instead of get_decide: explains the get, and does nothing else. OK or ERR_WAIT. */
enum err get_forecast(struct get *get, struct get_forecast *ret) MUST_USE;
/* Returns OK with the next bytes, which are valid until the next call or the end of the get;
 * ERR_WAIT; or another error if the rest can't be delivered. Must not be called after the last
 * byte. */
enum err get_next(struct get *get, slice *ret) MUST_USE;
/* True if the bytes that get_next handed out last lie in a file, at this offset. They do not change
 * there while they are valid. */
bool get_run_file(const struct get *get, int *ret_fd, uint64_t *ret_offset);
/* Copies these of the bytes that get_next handed out last. Returns ERR_FAULT if `to` can't be
 * written, or ERR_IO if the bytes lay in a file, which another program truncated. */
enum err get_run_copy(const struct get *get, slice bytes, void *to, enum copy_use use) MUST_USE;
/* True if readers hold more memory than they should. A caller with several gets in progress should
 * then end those that it can spare. */
bool gets_are_scarce(const struct cache_loop *loop);
/* How long ago the origin gave the answers that prove version and right, for a get of the shared
 * identity that was decided without an error; in milliseconds. UINT64_MAX: not known. */
uint64_t get_age_ms(const struct get *get);
const struct get_cost *get_cost(const struct get *get);
/* True while the disk may write to ask.to.at. It may do so after the end of the get, until the
 * loop's store_io is freed. A caller that needs the memory back waits for changed() first. */
bool get_writes(const struct get *get);
/* Ends the get, at any time. A fetch whose record the store admitted goes on to the end of the
 * record (rule H6 in src/README.md). */
void get_end(struct get **get);

#endif
