/* xml.h - the few XML documents Penstock reads and writes. SPDX-License-Identifier: Apache-2.0
 *
 * Writing is an escaper and a growing text. Reading uses expat: entity declarations are refused,
 * and a document has at most 8 MiB, 16 levels, 16 KiB in a value and 4 KiB in a tag, and no NUL.
 * The results lie in the arena. ERR_BAD_XML is the only error. Pure. */
#ifndef S3_XML_H
#define S3_XML_H

#include "base/arena.h"

void xml_escape(struct text *to, slice s);
void xml_element(struct text *to, const char *name, slice value);    /* <name>escaped</name> */

/* One object of a listing. Slices live in the arena given to the reader. */
struct listed {
    slice key, etag;        /* the ETag with its quotes; the key, decoded if encoding-type is url */
    uint64_t size;
    int64_t modified_s;
};
struct listing {
    struct listed *objects;
    size_t object_count;
    bool truncated;
    slice next_token;       /* NextContinuationToken or NextMarker */
    slice *prefixes;
    size_t prefix_count;
};
/* Reads a ListBucketResult (V1 or V2). At most 1,000 objects and as many prefixes. */
enum err xml_read_listing(struct arena *keep, slice document, struct listing *ret) MUST_USE;

/* The keys of a DeleteObjects body: at most 1,000, and possibly none. The version is empty if the
 * body names none. */
struct deletion {
    slice key, version;
};
enum err xml_read_delete(struct arena *keep, slice document, struct deletion **ret,
                         size_t *ret_count) MUST_USE;

/* True if a RestoreObject body restores only the object itself, in its place. It must consist of
 * known elements: an unknown one may name another place, as OutputLocation does. */
bool xml_restores_in_place(struct arena *keep, slice document) MUST_USE;

/* The credentials in an AssumeRole...Response of STS. A missing one is empty. */
struct lent {
    slice access_key, secret_key, session_token, expires;
};
enum err xml_read_lent(struct arena *keep, slice document, struct lent *ret) MUST_USE;

/* Reads Code and Message of an <Error> document (also in STS's <ErrorResponse>). For any other
 * document: OK, with empty slices. */
enum err xml_read_error(struct arena *keep, slice document, slice *ret_code,
                        slice *ret_message) MUST_USE;

#endif
