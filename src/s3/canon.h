/* canon.h - the canonical request, which signature version 4 signs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * sigv4.c fills in a struct canon in two cases: to verify a client's request (with the head as it
 * came), and to sign a request of Penstock's own. */
#ifndef S3_CANON_H
#define S3_CANON_H

#include "base/arena.h"
#include "s3/request_head.h"

#define CANON_FIELDS_MAX (HTTP_FIELDS_MAX + 64)
struct canon {
    slice method, path, query;
    const struct http_field *fields;
    size_t field_count;             /* at most CANON_FIELDS_MAX */
    slice signed_headers;           /* names in lower case, sorted, joined by ';' */
    slice payload_hash;
    uint64_t used[(CANON_FIELDS_MAX + 63) / 64];    /* one bit for each field that is signed */
};

/* Writes the canonical request, and sets canon->used. Returns OK, or ERR_BAD_URI if the query has
 * more than 100 parameters. */
enum err canon_write(struct arena *keep, struct canon *canon, slice *ret) MUST_USE;
/* Returns true if every field that must be signed (host, x-amz-*) is signed. Call this function and
 * canon_must_be_signed only after canon_write. */
bool canon_all_signed(const struct canon *canon) MUST_USE;
/* Returns true if field i must be signed and is not. */
bool canon_must_be_signed(const struct canon *canon, size_t i);
/* Returns the names of these fields in the form of `signed_headers`, each name once. */
slice canon_signed_names(struct arena *keep, const struct http_field *fields,
                         size_t count) MUST_USE;

#endif
