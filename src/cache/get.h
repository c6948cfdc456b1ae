/* get.h - one GET or HEAD of an object, decided and delivered. SPDX-License-Identifier: Apache-2.0
 *
 * look ─┬─ head ─ fresh? ─┬──────────────┬─ decide ─ first piece ─ ready ─ next, next ...
 *       │                 └─ page/probe ─┤
 *       └─ unknown ─ fetch's answer ─────┘
 *
 * Belongs to one loop. changed() is called on it whenever a call that said ERR_WAIT is worth
 * repeating. Version, freshness and conditions are fixed once, before ready; from then on the bytes
 * are of that version or there is an error. */
#ifndef CACHE_GET_H
#define CACHE_GET_H

#include "cache/cache.h"

struct get;

struct get_ask {
    const struct place *place;
    const struct identity *who;   /* NULL: the shared identity */
    slice bucket, key, version;   /* live as long as the get; version empty: what is current */
    struct s3_range range;
    unsigned part;                /* partNumber; 0: none. Then there is no range */
    struct s3_conditions conditions;
    bool head_only;
    bool revalidate;              /* the client said no-cache */
    bool want_checksums;          /* x-amz-checksum-mode: a head without them is completed first */
    bool background;              /* nobody waits: within its grace, ask about it */
    /* Names who asks for many at once, a list: what they miss takes turns with what others miss, as
     * if it were one. 0: it is alone. */
    uint64_t party;
    /* NULL, or memory for the answer; ERR_TOO_LARGE where it has more bytes. What the store can read
     * straight there, it does (store_read); what get_next hands out from elsewhere, the caller
     * copies. */
    void *to;
    uint64_t to_bytes;
};

/* What the bytes, or the decision, came from. */
enum get_source { GET_HIT, GET_STALE, GET_REVALIDATED, GET_PARTIAL, GET_MISS, GET_NEGATIVE };
const char *get_source_name(enum get_source source);    /* "HIT" ... for X-Cache */

struct get_answer {
    enum err err;                 /* OK, ERR_NOT_MODIFIED, _PRECONDITION, _BAD_RANGE, a refusal's */
    const struct refusal *refusal;    /* the origin's own words, or NULL */
    const struct head *head;      /* NULL with a refusal */
    uint64_t first, end;          /* bytes that follow: [first, end) */
    bool partial;                 /* 206 */
    unsigned parts;               /* of a part: how many the object has; 0: not uploaded in parts */
    slice part_sums;              /* of a part: its checksums, as lines of a head's fields */
    enum get_source source;
    int64_t validated_s;          /* when the origin last vouched for it */
};

/* What it cost, for the access line and Server-Timing. Complete when the get is over. */
struct get_cost {
    uint64_t cache_bytes, origin_bytes;
    uint64_t decided_ns, first_ns;    /* since the start: decided; first byte there */
};

struct get *get_start(struct cache_loop *loop, const struct get_ask *ask,
                      void (*changed)(void *arg), void *arg) MUST_USE;
/* ERR_WAIT, or OK with the decision. */
enum err get_decide(struct get *get, const struct get_answer **ret) MUST_USE;
/* The next bytes, valid until the next call or the end; ERR_WAIT; any other: they can't be had any
 * more. Not to be called when all have been handed out. */
enum err get_next(struct get *get, slice *ret) MUST_USE;
/* Readers hold more memory than they should: who has several gets under way should hold as little as
 * can be. */
bool gets_are_scarce(const struct cache_loop *loop);
const struct get_cost *get_cost(const struct get *get);
/* The disk may be writing to ask.to, and may go on so when the get has ended, until the reader of
 * its loop is freed: who needs that memory back waits for changed(). */
bool get_writes(const struct get *get);
void get_end(struct get **get);   /* any time; an admitted fetch ends its record without it (H6) */

#endif
