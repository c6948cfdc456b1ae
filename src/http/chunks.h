/* chunks.h - the chunked coding of a request body, taken apart. SPDX-License-Identifier: Apache-2.0
 *
 * Stricter than RFC 9112 asks: sizes are bare hex digits, lines end in CR LF, no chunk extensions
 * and no trailer fields. Whatever two readers could end at different bytes is refused, so that what
 * comes behind a body is a request of its own. Pure. */
#ifndef HTTP_CHUNKS_H
#define HTTP_CHUNKS_H

#include "base/slice.h"

struct chunks {                         /* all zeroes: at the beginning */
    int step;
    unsigned digits;
    uint64_t left;
};

/* `bytes` are the next of the coded body; its own are moved to their front, *ret_decoded many. OK:
 * the body is complete, and *ret_rest bytes that came behind it lie right behind those. ERR_MORE:
 * all were used. Else ERR_BAD_HEAD. */
enum err chunks_decode(struct chunks *chunks, char *bytes, size_t len, size_t *ret_decoded,
                       size_t *ret_rest) MUST_USE;

#endif
