/* chunked.h - bodies in the framing that S3 calls aws-chunked. SPDX-License-Identifier: Apache-2.0
 *
 *     chunk    HEX-SIZE [;chunk-signature=SIGNATURE] CRLF  bytes CRLF      ... any number
 *     end      0 [;chunk-signature=SIGNATURE] CRLF
 *     trailer  [NAME:VALUE [LF] CRLF [x-amz-trailer-signature:SIGNATURE CRLF]] CRLF
 *
 * Nothing else is valid. Sizes are 1 to 16 hex digits. Every chunk but the last has at least 8192
 * bytes. An announced trailer must be there and have the announced name (minio-go writes the LF
 * behind it). Nothing may follow the end. Pure.
 *
 * Input may be cut anywhere. Output may overlap the input if it lies at or before it, so a body can
 * be decoded in place. The caller verifies the data (checksums). */
#ifndef S3_CHUNKED_H
#define S3_CHUNKED_H

#include "s3/sigv4.h"

struct chunked_form {
    slice trailer;                /* the announced name, in lower case; empty: none */
    uint64_t length;              /* the announced length of the data */
    struct sigv4_chain *chain;    /* verifies signed chunks; NULL: unsigned. The caller owns it */
    bool trailer_must;            /* this form always ends in a trailer */
};

struct chunked;
struct chunked *chunked_new(const struct chunked_form *form) MUST_USE;
void chunked_free(struct chunked **chunked);
/* A fault of the framing: the offset of its line in the body, and the number of its chunk, counted
 * from 1. `what` is NULL if there is no fault. */
struct chunked_fault {
    const char *what;
    uint64_t at, chunk;
};
/* Takes all of `in`, writes its data to `to`, and sets *ret_len to the data's length.
 * ERR_INCOMPLETE (wrong framing), ERR_CHUNK_SIZE, ERR_SIGNATURE or ERR_TRAILER ends the
 * decoding. */
enum err chunked_feed(struct chunked *chunked, slice in, char *to, size_t *ret_len) MUST_USE;
/* Tells that the input has ended. ERR_INCOMPLETE; *ret_why is a sentence if the length is wrong,
 * otherwise "". */
enum err chunked_end(struct chunked *chunked, slice *ret_why) MUST_USE;
struct chunked_fault chunked_fault(const struct chunked *chunked);
slice chunked_trailer(const struct chunked *chunked);    /* the value; ptr NULL: no trailer came */

#endif
