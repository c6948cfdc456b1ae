/* xml.h - the few XML documents Penstock reads and writes. SPDX-License-Identifier: Apache-2.0
 *
 * To write a document, the caller appends elements to a text; values are escaped. Documents are
 * read with expat. A document that declares a document type, or has a NUL, is refused. A document
 * has at most 8 MiB and 16 levels; a value has at most 16 KiB, and a tag 4 KiB. The results lie in
 * the arena. ERR_BAD_XML is the only error. The functions do no I/O and read no clock (rule H9 in
 * src/README.md). */
#ifndef S3_XML_H
#define S3_XML_H

#include "base/arena.h"

void xml_escape(struct text *to, slice s);
void xml_element(struct text *to, const char *name, slice value);    /* <name>escaped</name> */

/* One object of a listing. Slices lie in the arena `keep`. */
struct listed {
    slice key;              /* decoded, if encoding-type is url */
    slice etag;             /* with its quotes */
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
/* Reads a ListBucketResult (V1 or V2) with at most 1,000 objects and 1,000 prefixes. */
enum err xml_read_listing(struct arena *keep, slice document, struct listing *ret) MUST_USE;

/* A key of a DeleteObjects body, which has at most 1,000 keys, and possibly none. The version is
 * empty if the body has none for this key. */
struct deletion {
    slice key, version;
};
enum err xml_read_delete(struct arena *keep, slice document, struct deletion **ret,
                         size_t *ret_count) MUST_USE;

/* True if a RestoreObject body restores the object only in its own place. All elements must be
 * known: an unknown element may name another place, as OutputLocation does. */
bool xml_restores_in_place(struct arena *keep, slice document) MUST_USE;

/* The credentials in an AssumeRole...Response of STS. A missing member is empty. */
struct lent {
    slice access_key, secret_key, session_token, expires;
};
enum err xml_read_lent(struct arena *keep, slice document, struct lent *ret) MUST_USE;

/* Reads Code and Message of an <Error> document (also in STS's <ErrorResponse>). For any other
 * valid document it returns OK, with empty slices. */
enum err xml_read_error(struct arena *keep, slice document, slice *ret_code,
                        slice *ret_message) MUST_USE;

#endif
