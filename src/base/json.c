/* json.c - texts and single members of JSON documents. SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <jansson.h>

slice json_text(const json_t *value)
{
    return (slice){ json_string_value(value), json_string_length(value) };
}

static bool read_one(struct arena *keep, const json_t *value, slice *ret)
{
    *ret = S("");
    if (!value || json_is_null(value))
        return true;
    if (json_is_integer(value)) {
        *ret = arena_printf(keep, "%lld", (long long)json_integer_value(value));
        return true;
    }
    if (!json_is_string(value))
        return false;
    *ret = arena_copy(keep, json_text(value));
    return true;
}

enum err json_read_members(struct arena *keep, slice document, const struct json_want *wants,
                           size_t want_count)
{
    json_error_t error;
    json_t *object = json_loadb(document.ptr ? document.ptr : "", document.len,
                                JSON_REJECT_DUPLICATES, &error);
    enum err e = json_is_object(object) ? OK : ERR_FORMAT;
    for (size_t i = 0; i < want_count && !e; i++)
        e = read_one(keep, json_object_get(object, wants[i].name), wants[i].ret) ? OK : ERR_FORMAT;
    json_decref(object);
    return e;
}
