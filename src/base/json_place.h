/* json_place.h - line and column of a value in a JSON text. SPDX-License-Identifier: Apache-2.0
 *
 * A message about a mistake in the settings file says where the wrong value is. */
#ifndef BASE_JSON_PLACE_H
#define BASE_JSON_PLACE_H

#include "base/arena.h"

struct json_step {
    slice name;      /* of a member; if ptr is NULL, the step is the element at `index` */
    size_t index;
};
struct text_place {
    unsigned line, column;    /* both start at 1; columns count characters */
};

#define JSON_PLACE_DEPTH 6u    /* the most steps of a path */

/* A name that an object has for a second time. */
struct json_repeat {
    struct json_repeat *next;     /* the one before it in the text, or NULL */
    slice name;
    struct text_place first, place;
};

/* The places of all names and values of a text, up to JSON_PLACE_DEPTH steps deep. */
struct json_place_row;
struct json_places {
    struct json_place_row *rows;
    size_t row_count;             /* a power of two */
    struct text_place top;        /* of the outermost value */
    struct json_repeat *repeats;
};

/* Reads the text once. If the text is no valid JSON, the places may be wrong, but no byte outside
 * the text is read. The memory lies in `keep`. */
void json_places_read(struct json_places *ret, slice text, struct arena *keep);
/* Follows the path, and returns the places of the last step's name and value. Returns false if a
 * step is missing; both results are then the place of the last name that was found. */
bool json_place(const struct json_places *places, const struct json_step *path, size_t depth,
                struct text_place *ret_key, struct text_place *ret_value);

#endif
