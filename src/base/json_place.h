/* json_place.h - where in a JSON text something stands. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_PLACE_H
#define BASE_JSON_PLACE_H

#include "base/slice.h"

struct json_step {
    slice name;      /* of a member; ptr NULL: the element of that index */
    size_t index;
};
struct text_place {
    unsigned line, column;    /* from 1; columns count characters */
};

/* Follows the path as far as it goes: false if it ends early, and then both places are those of the
 * last step that was there. Of text that is no valid JSON the place is wrong, no more. */
bool json_place(slice text, const struct json_step *path, size_t depth, struct text_place *ret_key,
                struct text_place *ret_value);

#endif
