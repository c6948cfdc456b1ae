/* json_place.h - line and column of a value in a JSON text. SPDX-License-Identifier: Apache-2.0
 *
 * A message about a mistake in the settings file says where the wrong value is. */
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

/* Follows the path, and returns the places of the last step's name and value. Returns false if a
 * step is missing; both results are then the place of the last name that was found. If the text is
 * no valid JSON, the places may be wrong, but no byte outside the text is read. */
bool json_place(slice text, const struct json_step *path, size_t depth, struct text_place *ret_key,
                struct text_place *ret_value);

#endif
