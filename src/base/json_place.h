/* json_place.h - line and column of a value in a JSON text. SPDX-License-Identifier: Apache-2.0 */
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

/* Follows the path. False: a step is missing, and both places are those of the last step that was
 * found. In a text that is no valid JSON the places are wrong, but nothing worse happens. */
bool json_place(slice text, const struct json_step *path, size_t depth, struct text_place *ret_key,
                struct text_place *ret_value);

#endif
