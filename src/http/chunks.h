/* chunks.h - takes the chunked coding off a request body. SPDX-License-Identifier: Apache-2.0
 *
 * The decoder is stricter than RFC 9112 asks: sizes are bare hex digits, lines end in CR LF, and
 * there are no chunk extensions and no trailer fields. It refuses a body that two readers could end
 * at different bytes. So for every reader the bytes behind a body are a request of their own.
 * Pure. */
#ifndef HTTP_CHUNKS_H
#define HTTP_CHUNKS_H

#include "base/slice.h"

struct chunks {                         /* all zeroes: at the beginning */
    int step;
    unsigned digits;
    uint64_t left;
};

/* `bytes` are the next bytes of the coded body. The *ret_decoded bytes of the body among them are
 * moved to their front. OK: the body is complete, and the *ret_rest bytes that came behind it lie
 * right behind the decoded. ERR_MORE: all bytes were used. Otherwise ERR_BAD_HEAD. */
enum err chunks_decode(struct chunks *chunks, char *bytes, size_t len, size_t *ret_decoded,
                       size_t *ret_rest) MUST_USE;

#endif
