/* chunks.h - takes the chunked coding off a request body. SPDX-License-Identifier: Apache-2.0
 *
 * The decoder is stricter than RFC 9112 asks: sizes are bare hex digits, lines end in CR LF, and
 * there are no chunk extensions and no trailer fields. It refuses a body if two parsers could
 * disagree about the byte at which the body ends. So every parser finds the next request at the same byte.
 * The functions do no I/O. */
#ifndef HTTP_CHUNKS_H
#define HTTP_CHUNKS_H

#include "base/slice.h"

struct chunks {                         /* all zeroes at the beginning of a body */
    int step;
    unsigned digits;
    uint64_t left;
};

/* Decodes the next bytes of the coded body in place: moves the bytes of the body to the front of
 * `bytes`, and sets *ret_decoded to their number. Returns OK if the body is complete. Bytes that
 * came after the end of the body then follow the decoded bytes; *ret_rest is their number. Returns
 * ERR_MORE if the body needs more bytes, and ERR_BAD_HEAD if the coding is malformed. */
enum err chunks_decode(struct chunks *chunks, char *bytes, size_t len, size_t *ret_decoded,
                       size_t *ret_rest) MUST_USE;

#endif
