/* chunked.h - bodies in the framing that S3 calls aws-chunked. SPDX-License-Identifier: Apache-2.0
 *
 *     chunk    HEX-SIZE [;chunk-signature=SIGNATURE] CRLF  bytes CRLF      ... any number
 *     end      0 [;chunk-signature=SIGNATURE] CRLF
 *     trailer  [NAME:VALUE [LF] CRLF [x-amz-trailer-signature:SIGNATURE CRLF]] CRLF
 *
 * Nothing else: sizes are 1 to 16 hex digits; a chunk that is not the last has 8192 bytes or more;
 * with a trailer announced, it is there and has that name (minio-go writes the LF behind it);
 * nothing follows. Pure. Input may be cut anywhere. Output may overlap what it came from, as long
 * as it lies at or before it: a body is decoded in place. Whether the data is right (checksums) is
 * the caller's to find out. */
#ifndef S3_CHUNKED_H
#define S3_CHUNKED_H

#include "s3/sigv4.h"

struct chunked_form {
    slice trailer;                /* the one name that was announced, lower case; empty: none */
    uint64_t length;              /* of the data, as announced */
    struct sigv4_chain *chain;    /* its chunks are signed, NULL: not; stays the caller's */
    bool trailer_must;            /* of a form that ends in a trailer in any case */
};

struct chunked;
struct chunked *chunked_new(const struct chunked_form *form) MUST_USE;
void chunked_free(struct chunked **chunked);
/* What is wrong with the framing: where the line begins that says so, in bytes of the body, and the
 * number of its chunk, from 1. `what` is NULL if nothing is. */
struct chunked_fault {
    const char *what;
    uint64_t at, chunk;
};
/* Takes all of `in`, puts the data in it at `to` and says how much it was. ERR_INCOMPLETE (wrong
 * framing), ERR_CHUNK_SIZE, ERR_SIGNATURE, ERR_TRAILER: then it is over. */
enum err chunked_feed(struct chunked *chunked, slice in, char *to, size_t *ret_len) MUST_USE;
/* That was all. ERR_INCOMPLETE; *ret_why is "" or, if the length is wrong, a sentence. */
enum err chunked_end(struct chunked *chunked, slice *ret_why) MUST_USE;
struct chunked_fault chunked_fault(const struct chunked *chunked);
slice chunked_trailer(const struct chunked *chunked);    /* its value; ptr NULL: there was none */

#endif
