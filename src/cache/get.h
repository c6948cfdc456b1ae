/* get.h - one GET or HEAD of an object, decided and delivered. SPDX-License-Identifier: Apache-2.0
 *
 * look ─┬─ metadata ─ fresh? ─┬──────────────┬─ decide ─ first piece ─ ready ─ next, next ...
 *       │                     └─ page/probe ─┤
 *       └─ unknown ─ fetch's answer ─────────┘
 *
 * Belongs to one loop. changed() is called on it whenever a call that said ERR_WAIT is worth
 * repeating. Version, freshness and conditions are fixed once, before ready; from then on the bytes
 * are of that version or there is an error. */
#ifndef CACHE_GET_H
#define CACHE_GET_H

#include "cache/cache.h"

struct get;

struct get_ask {
    const struct rules *rules;
    const struct identity *who;   /* NULL: the shared identity */
    slice bucket, key, version;   /* live as long as the get; version empty: what is current */
    struct s3_range range;
    unsigned part;                /* partNumber; 0: none. Then there is no range */
    struct s3_conditions conditions;
    bool head_only;
    bool revalidate;              /* the client sent no-cache */
    /* x-amz-checksum-mode: metadata without them is completed first */
    bool want_checksums;
    bool background;              /* no client waits: revalidate, also within the grace */
    /* The same for all gets of one list: their calls to the origin take turns with other calls as
     * if they were one. 0: the get belongs to no list. */
    uint64_t list_id;
    /* NULL, or memory for the bytes; an object with more bytes is ERR_TOO_LARGE. The store reads
     * straight there where it can (store_read). The caller copies bytes that get_next hands out
     * from elsewhere. */
    void *to;
    uint64_t to_bytes;
};

/* What the bytes, or the decision, came from. */
enum get_source { GET_HIT, GET_STALE, GET_REVALIDATED, GET_PARTIAL, GET_MISS, GET_NEGATIVE };
const char *get_source_name(enum get_source source);    /* "HIT" ... for X-Cache */

struct get_answer {
    enum err err;                 /* OK, ERR_NOT_MODIFIED, _PRECONDITION, _BAD_RANGE, a refusal's */
    const struct refusal *refusal;    /* the origin's own answer, or NULL */
    const struct metadata *metadata;    /* NULL with a refusal */
    uint64_t first, end;          /* bytes that follow: [first, end) */
    bool partial;                 /* 206 */
    unsigned parts;               /* for a part: the object's number of parts; 0: it has none */
    slice part_sums;              /* for a part: its checksums, as lines of metadata's fields */
    enum get_source source;
    int64_t validated_s;          /* when the origin last confirmed the version */
};

/* The cost of a get, for the access line and Server-Timing. Complete when the get is over. */
struct get_cost {
    uint64_t cache_bytes, origin_bytes;
    uint64_t decided_ns, first_ns;    /* since the start: decided; first byte there */
};

struct get *get_start(struct cache_loop *loop, const struct get_ask *ask,
                      void (*changed)(void *arg), void *arg) MUST_USE;
/* ERR_WAIT, or OK with the decision. */
enum err get_decide(struct get *get, const struct get_answer **ret) MUST_USE;
/* OK with the next bytes, valid until the next call or the end; ERR_WAIT; or the reason why the
 * rest can't be had. Must not be called after the last byte. */
enum err get_next(struct get *get, slice *ret) MUST_USE;
/* True if readers hold more memory than they should. A caller with several gets in progress should
 * then end those that it can spare. */
bool gets_are_scarce(const struct cache_loop *loop);
const struct get_cost *get_cost(const struct get *get);
/* True while the disk may write to ask.to. It may do so after the end of the get, until the loop's
 * store_io is freed. A caller that needs the memory back waits for changed() first. */
bool get_writes(const struct get *get);
void get_end(struct get **get);   /* any time; an admitted fetch goes on to its record's end (H6) */

#endif
