/* lists.h - equal list calls share an answer. SPDX-License-Identifier: Apache-2.0
 *
 * The workers of a job often list the same bucket at the same time. Two calls are equal if the
 * origin sees no difference: identity, operation, bucket, query and headers are the same. Equal
 * calls join one call in progress, and its answer may be used again within "list_time". After a
 * write in the bucket through Penstock (rule H7 in src/README.md), a list call that began before
 * the end of the write is neither joined nor used again. After a refusal to list the bucket, the
 * same holds for list calls of the identity that was refused. The client gets the answer unchanged.
 * This file knows origins, and no HTTP server. */
#ifndef CACHE_LISTS_H
#define CACHE_LISTS_H

#include "cache/cache.h"

struct lists;
struct lists *lists_new(struct cache *cache, uint64_t reuse_ms, size_t bytes_max) MUST_USE;
void lists_free(struct lists **lists);    /* nothing may be in progress */

/* Slices live until list_start returns, rules as long as the cache. */
struct list_ask {
    const struct rules *rules;
    const struct identity *who;   /* NULL: the shared identity */
    enum s3_op op;
    slice bucket, query;          /* the query as it will be sent */
    const struct http_field *fields;
    size_t field_count;
    bool newest;                  /* the client sent no-cache: no earlier call is used */
    const struct trace *trace;    /* of the request; NULL: none */
};

struct list_answer {
    enum err err;                 /* ERR_LIMIT: too large to keep; the caller may ask the origin */
    int status;
    const struct http_field *fields;    /* all fields of the origin's answer */
    size_t field_count;
    slice body;
    bool reused;                  /* the answer was kept from an earlier call */
};

/* A reader of a list, which belongs to a loop. changed() is called when the answer is there.
 * Returns NULL if there is no room for one more reader (H8); the caller may then ask the origin
 * itself. */
struct list_get;
struct list_get *list_start(struct cache_loop *loop, const struct list_ask *ask,
                            void (*changed)(void *arg), void *arg) MUST_USE;
/* Returns OK with the answer, which is valid until list_end, or ERR_WAIT. */
enum err list_answer(struct list_get *get, const struct list_answer **ret) MUST_USE;
void list_end(struct list_get **get);    /* any time */

#endif
