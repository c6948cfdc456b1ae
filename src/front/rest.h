/* rest.h - what is left of an answer that stopped on its way. SPDX-License-Identifier: Apache-2.0
 *
 * An object's bytes of a version that has a strong ETag can be asked for again from where they
 * stopped: by a range, if they are still that version's. */
#ifndef FRONT_REST_H
#define FRONT_REST_H

#include "front/inside.h"
#include "origin/origin.h"

struct rest {
    uint64_t first, end;          /* of the object: where the answer began, and will end */
    uint64_t until;               /* ... and where what was asked for last does */
    slice etag;                   /* empty: it can't be asked for again */
};

bool rest_possible(const struct s3_request *request);    /* of its answer, if that has an ETag */
struct rest rest_of(struct arena *keep, const struct origin_reply *reply);    /* its first head */
/* The fields that ask for at most so many bytes after `got`, in place of those that asked first. */
struct http_field *rest_ask(struct arena *keep, struct rest *rest, uint64_t got, uint64_t most,
                            const struct http_field *fields, size_t count, size_t *ret_count);
/* Is this reply just that? */
bool rest_is(const struct rest *rest, uint64_t got, const struct origin_reply *reply);

#endif
