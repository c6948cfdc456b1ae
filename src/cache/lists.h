/* lists.h - equal lists share an answer. SPDX-License-Identifier: Apache-2.0
 *
 * Workers of a job begin by listing the same bucket at the same time. Two calls are equal if the
 * origin sees no difference: identity, operation, bucket, query and headers. Equal calls join one
 * call in progress, and its answer may be used again within list_time. A write in that bucket
 * through Penstock ends both (H7): a list that began before the end of the write is neither joined
 * nor used again. A refusal to list the bucket ends both for its identity. An answer is passed on
 * unchanged. Knows origins, and no HTTP server. */
#ifndef CACHE_LISTS_H
#define CACHE_LISTS_H

#include "cache/cache.h"

struct lists;
struct lists *lists_new(struct cache *cache, uint64_t reuse_ms, size_t bytes_max) MUST_USE;
void lists_free(struct lists **lists);    /* with nothing in progress */

/* Slices live until list_start returns, rules as long as the cache. */
struct list_ask {
    const struct rules *rules;
    const struct identity *who;   /* NULL: the shared identity */
    enum s3_op op;
    slice bucket, query;          /* the query as it will be sent */
    const struct http_field *fields;
    size_t field_count;
    bool newest;                  /* the client sent no-cache: no call from before it is used */
};

struct list_answer {
    enum err err;                 /* ERR_LIMIT: too large to keep; the caller may ask itself */
    int status;
    const struct http_field *fields;    /* all of the origin's */
    size_t field_count;
    slice body;
    bool reused;                  /* it was kept from an earlier call */
};

/* A reader of a list; belongs to a loop. changed() comes when the answer is there. NULL: there is
 * no room for one more (H8), and the caller may ask the origin itself. */
struct list_get;
struct list_get *list_start(struct cache_loop *loop, const struct list_ask *ask,
                            void (*changed)(void *arg), void *arg) MUST_USE;
/* ERR_WAIT, or OK with the answer, valid until the end. */
enum err list_answer(struct list_get *get, const struct list_answer **ret) MUST_USE;
void list_end(struct list_get **get);    /* any time */

#endif
