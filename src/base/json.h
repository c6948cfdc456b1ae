/* json.h - texts and single members of JSON documents. SPDX-License-Identifier: Apache-2.0
 *
 * json_why puts the messages of jansson, the JSON library, into words for people. json_read_members
 * is for documents of one flat object, such as credentials and tokens. The functions do no I/O. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/arena.h"

struct json_t;
struct json_error_t;
slice json_text(const struct json_t *value);    /* empty with ptr NULL if the value is no text */
/* Returns the text that a string of a JSON document stands for. `quoted` has the quotes, too. */
slice json_unquoted(struct arena *keep, slice quoted);

/* Returns what is wrong at the place of a syntax error: a sentence without its end. It repeats
 * nothing of the document, which may have secrets. "This" in it is the character at the error's
 * column. */
const char *json_why(const struct json_error_t *error);
#define JSON_NO_OBJECT "the text must begin with { and end with }"

struct json_want {
    const char *name;       /* the name of the member: "AccessKeyId" */
    /* Gets the member's text, or its digits if it is a number, copied into the arena. Stays empty if
     * the member is missing or null. */
    slice *ret;
};
/* Returns ERR_FORMAT if the document is no JSON object or has a name twice, or if one of the wanted
 * members is neither a text, nor a whole number, nor null. */
enum err json_read_members(struct arena *keep, slice document, const struct json_want *wants,
                           size_t want_count) MUST_USE;

#endif
