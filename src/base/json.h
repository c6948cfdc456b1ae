/* json.h - single members of a small JSON document. SPDX-License-Identifier: Apache-2.0
 *
 * For documents that consist of one flat object, such as credentials and tokens. Pure. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/arena.h"

struct json_want {
    const char *name;       /* the name of the member: "AccessKeyId" */
    slice *ret;  /* a text, or the digits of a number, in the arena; empty if it is missing */
};
/* Returns ERR_FORMAT if the document is no JSON object, or if one of the members is neither a text
 * nor a whole number. */
enum err json_read_members(struct arena *keep, slice document, const struct json_want *wants,
                           size_t want_count) MUST_USE;

#endif
