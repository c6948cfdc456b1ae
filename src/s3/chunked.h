/* chunked.h - bodies in the framing that S3 calls aws-chunked. SPDX-License-Identifier: Apache-2.0
 *
 *     chunk    HEX-SIZE [;chunk-signature=SIGNATURE] CRLF  bytes CRLF      ... any number
 *     end      0 [;chunk-signature=SIGNATURE] CRLF
 *     trailer  [NAME:VALUE [LF] CRLF [x-amz-trailer-signature:SIGNATURE CRLF]] CRLF
 *
 * Nothing else is valid. Sizes are 1 to 16 hex digits. Every chunk but the last has at least 8192
 * bytes. If the header x-amz-trailer announces a trailer, the trailer must be there and have the
 * announced name. Only minio-go writes the LF after the trailer's value. Nothing may follow the
 * end. The functions do no I/O and read no clock (rule H9 in src/README.md).
 *
 * The input may be cut anywhere. The output may overlap the input if the output begins at or before
 * the beginning of the input. So a body can be decoded in place. The caller verifies the
 * checksums of the data. */
#ifndef S3_CHUNKED_H
#define S3_CHUNKED_H

#include "s3/sigv4.h"

struct chunked_form {
    slice trailer;                /* the announced name, in lower case; empty: none */
    uint64_t length;              /* the announced length of the data */
    struct sigv4_chain *chain;    /* verifies signed chunks; owned by the caller; NULL: unsigned */
    bool trailer_must;            /* a body that ends without a trailer is refused */
};

struct chunked;
struct chunked *chunked_new(const struct chunked_form *form) MUST_USE;
void chunked_free(struct chunked **chunked);
/* A fault of the framing: the offset of the faulty line in the body, and the number of the chunk,
 * counted from 1. `what` is NULL if there is no fault. */
struct chunked_fault {
    const char *what;
    uint64_t at, chunk;
};
/* Takes all of `in`, writes its data to `to`, and sets *ret_len to the data's length. Returns OK,
 * ERR_INCOMPLETE (wrong framing), ERR_CHUNK_SIZE, ERR_SIGNATURE or ERR_TRAILER. An error ends the
 * decoding. */
enum err chunked_feed(struct chunked *chunked, slice in, char *to, size_t *ret_len) MUST_USE;
/* Call it when the input has ended. Returns OK, or ERR_INCOMPLETE if the body is not complete, or
 * its data does not have the announced length. *ret_why is then a sentence for people, or "". */
enum err chunked_end(struct chunked *chunked, slice *ret_why) MUST_USE;
struct chunked_fault chunked_fault(const struct chunked *chunked);
slice chunked_trailer(const struct chunked *chunked);    /* the value; ptr NULL: none came */

#endif
