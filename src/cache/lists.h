/* lists.h - lists that are alike share an answer. SPDX-License-Identifier: Apache-2.0
 *
 * Workers of a job begin by listing the same bucket at the same time: those calls that are alike in
 * all that the origin sees (identity, operation, bucket, query, headers) are one while it is under
 * way, and its answer may be used again within list_time. A write through us in that bucket ends
 * both (H7): a list that began before it had finished is neither joined nor used again; nor is one
 * from before the origin refused this identity a list of the bucket. An answer is handed on as it
 * came. Knows origins, and no HTTP server. */
#ifndef CACHE_LISTS_H
#define CACHE_LISTS_H

#include "cache/cache.h"

struct lists;
struct lists *lists_new(struct cache *cache, uint64_t reuse_ms, size_t bytes_max) MUST_USE;
void lists_free(struct lists **lists);    /* nothing may be under way */

/* Slices live until list_start returns, place as long as the cache. */
struct list_ask {
    const struct place *place;
    const struct identity *who;   /* NULL: the shared identity */
    enum s3_op op;
    slice bucket, query;          /* the query as it will be sent */
    const struct http_field *fields;
    size_t field_count;
    bool newest;                  /* the client said no-cache: nothing that was asked before */
};

struct list_answer {
    enum err err;                 /* ERR_LIMIT: too large to be held here; the asker may pass */
    int status;
    const struct http_field *fields;    /* all that the origin said */
    size_t field_count;
    slice body;
    bool reused;                  /* it was here, whole */
};

/* One who asks; belongs to a loop. changed() when the answer is there. NULL: there is no room to
 * hold one more (H8), the asker may ask the origin itself. */
struct list_get;
struct list_get *list_start(struct cache_loop *loop, const struct list_ask *ask,
                            void (*changed)(void *arg), void *arg) MUST_USE;
/* ERR_WAIT, or OK with the answer, valid until the end. */
enum err list_answer(struct list_get *get, const struct list_answer **ret) MUST_USE;
void list_end(struct list_get **get);    /* any time */

#endif
