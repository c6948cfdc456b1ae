/* rest.h - the rest of an answer whose origin call ended early. SPDX-License-Identifier: Apache-2.0
 *
 * The origin call of an answer ends early if another call gets its connection (pass_answer.c). If
 * an object has a strong ETag, a range request with If-Match gets the rest of the same version. */
#ifndef FRONT_REST_H
#define FRONT_REST_H

#include "origin/origin.h"

/* `yielded` and `waits` are only for the loop. The loop writes the other members while no origin
 * call runs. During the first call, the origin's thread writes the version and the range of the
 * answer (rest_begin); during later calls, it only reads them (rest_is). */
struct rest {
    bool possible;                /* the request allows it; set before the first origin call */
    slice etag;                   /* the version; empty: the rest cannot be requested */
    uint64_t first, end;          /* the whole answer's range of the object: [first, end) */
    uint64_t until;               /* the end of the latest requested range, exclusive */
    uint64_t got;                 /* bytes of the answer that came in earlier origin calls */
    uint64_t range_bytes;         /* the size of the next range, once the answer has yielded */
    bool yielded;                 /* another call got the connection: the rest comes in ranges */
    bool waits;                   /* the next range is requested when the relay has room */
    struct arena asking;          /* holds the fields of the latest request for a range */
};

/* True if the request is a GET of an object, and not of a part. The rest of its answer can then be
 * requested if the answer has a length and a strong ETag. */
bool rest_possible(const struct s3_request *request);
/* Finds the version and the range of the answer, if the rest is possible. `reply` is the answer to
 * the first request. */
void rest_begin(struct rest *rest, struct arena *keep, const struct origin_reply *reply);
void rest_free(struct rest *rest);
/* Returns the fields of a request for at most range_bytes after the first `got` bytes. They are
 * valid until the next call. `fields` are those of the first request. */
struct http_field *rest_ask(struct rest *rest, const struct http_field *fields, size_t count,
                            size_t *ret_count);
/* True if the reply has exactly the requested range. */
bool rest_is(const struct rest *rest, const struct origin_reply *reply);

#endif
