/* json.h - single members of a small JSON document. SPDX-License-Identifier: Apache-2.0
 *
 * For documents that are one flat object: credentials, tokens. Pure. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/arena.h"

struct json_want {
    const char *name;       /* as it is written: "AccessKeyId" */
    slice *ret;             /* its text, in the arena; a number's digits; empty if it isn't there */
};
/* ERR_FORMAT: the document is no JSON object, or one of the members is neither text nor a whole
 * number. */
enum err json_read_members(struct arena *keep, slice document, const struct json_want *wants,
                           size_t want_count) MUST_USE;

#endif
