/* rest.h - the rest of an answer whose origin call ended early. SPDX-License-Identifier: Apache-2.0
 *
 * The origin call of an answer ends early if another call gets its connection (pass_answer.c). If
 * an object has a strong ETag, a range request with If-Match gets the rest of the same version. */
#ifndef FRONT_REST_H
#define FRONT_REST_H

#include "origin/origin.h"

struct rest {
    uint64_t first, end;          /* the whole answer's range of the object: [first, end) */
    uint64_t until;               /* the end of the latest requested range, exclusive */
    slice etag;                   /* empty: the rest cannot be requested */
};

/* True if the request is a GET of an object, and not of a part. The rest of its answer can then be
 * requested if the answer has a length and a strong ETag. */
bool rest_possible(const struct s3_request *request);
/* `reply` is the answer to the first request of the pass. */
struct rest rest_of(struct arena *keep, const struct origin_reply *reply);
/* Returns the fields of a request for at most `most` bytes after the first `got` bytes. `fields`
 * are those of the first request. */
struct http_field *rest_ask(struct arena *keep, struct rest *rest, uint64_t got, uint64_t most,
                            const struct http_field *fields, size_t count, size_t *ret_count);
/* True if the reply has exactly the requested range. */
bool rest_is(const struct rest *rest, uint64_t got, const struct origin_reply *reply);

#endif
