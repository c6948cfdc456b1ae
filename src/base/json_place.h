/* json_place.h - line and column of a value in a JSON text. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_PLACE_H
#define BASE_JSON_PLACE_H

#include "base/slice.h"

struct json_step {
    slice name;      /* of a member; if ptr is NULL, the step is the element at `index` */
    size_t index;
};
struct text_place {
    unsigned line, column;    /* both start at 1; columns count characters */
};

/* Follows the path. Returns false if a step is missing; then both places are those of the last
 * step that was found. In a text that is no valid JSON the places are wrong, but there is no
 * other harm. */
bool json_place(slice text, const struct json_step *path, size_t depth, struct text_place *ret_key,
                struct text_place *ret_value);

#endif
