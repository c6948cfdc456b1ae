/* canon.h - the canonical request, which SigV4 signs. SPDX-License-Identifier: Apache-2.0
 *
 * Filled in by sigv4.c, for requests as clients sent them (raw) and for our own. */
#ifndef S3_CANON_H
#define S3_CANON_H

#include "base/arena.h"
#include "s3/head.h"

#define CANON_FIELDS_MAX (HTTP_FIELDS_MAX + 64)
struct canon {
    slice method, path, query;
    const struct http_field *fields;
    size_t field_count;             /* at most CANON_FIELDS_MAX */
    slice signed_headers;           /* names in lower case, sorted, joined by ';' */
    slice payload_hash;
    uint64_t used[(CANON_FIELDS_MAX + 63) / 64];    /* a bit for each field that a signed name named */
};

/* ERR_BAD_URI: more than 100 parameters. Notes in canon->used what was signed. */
enum err canon_write(struct arena *keep, struct canon *canon, slice *ret) MUST_USE;
/* Once written: is everything signed that S3 trusts without asking (host, x-amz-*)? */
bool canon_all_signed(const struct canon *canon) MUST_USE;
bool canon_must_be_signed(const struct canon *canon, size_t i);    /* and field i isn't */
/* The names of these fields as `signed_headers` wants them, each once. */
slice canon_signed_names(struct arena *keep, const struct http_field *fields,
                         size_t count) MUST_USE;

#endif
