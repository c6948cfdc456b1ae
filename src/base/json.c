/* json.c - texts and single members of JSON documents. SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <jansson.h>

slice json_text(const json_t *value)
{
    return (slice){ json_string_value(value), json_string_length(value) };
}

slice json_unquoted(struct arena *keep, slice quoted)
{
    json_t *value = json_loadb(quoted.ptr, quoted.len, JSON_DECODE_ANY, NULL);
    slice text = arena_copy(keep, json_text(value));
    json_decref(value);
    return text;
}

/* ---- syntax errors ---- */

/* The first row applies with which a message of jansson begins. */
static const struct {
    const char *start, *why;
} reasons[] = {
    { "'[' or '{' expected", JSON_NO_OBJECT },
    { "string or '}' expected near '}'", "there is a comma too many before this }: remove it" },
    { "string or '}' expected near '/'", "JSON has no comments: remove this one" },
    { "string or '}' expected near '#'", "JSON has no comments: remove this one" },
    { "string or '}' expected", "a name in double quotes must come here" },
    { "':' expected", "a colon must come between a name and its value" },
    { "'}' expected near '/'", "JSON has no comments: remove this one" },
    { "'}' expected near '#'", "JSON has no comments: remove this one" },
    { "'}' expected", "a comma or a } must come before this. A text such as 64MiB needs double "
                      "quotes" },
    { "']' expected", "a comma or a ] must come before this" },
    { "unexpected token near ']'", "there is a comma too many before this ]: remove it" },
    { "unexpected token", "a value is missing before this" },
    { "invalid token", "this is no JSON value: write a text in double quotes, a number as in 60, or "
                       "true, false or null" },
    { "unexpected newline", "this text has no closing double quote in its line" },
    { "control character", "a text must not have control characters: write a tab as \\t" },
    { "invalid escape", "this backslash begins no escape: write it twice (\\\\)" },
    { "invalid Unicode", "this \\u escape stands for no character" },
    { "\\u0000 is not allowed", "a text must not have \\u0000: remove it" },
    { "NUL byte in object key", "a name must not have \\u0000: remove it" },
    { "too big", "this number is too large" },
    { "real number overflow", "this number is too large" },
    { "end of file expected", "the object ends before this: remove the rest" },
    { "unable to decode byte", "this byte is not UTF-8: save the text as UTF-8" },
    { "duplicate object key", "this name is given twice in one object: remove one of the two" },
    { "maximum parsing depth", "too many arrays or objects lie inside each other" },
};

const char *json_why(const json_error_t *error)
{
    slice text = slice_of(error->text);
    size_t i = 0;
    while (i < countof(reasons) && !slice_starts(text, slice_of(reasons[i].start)))
        i++;
    if (json_error_code(error) == json_error_premature_end_of_input && i > 0)
        return "the text ends too early: a }, a ] or a double quote is missing";
    return i < countof(reasons) ? reasons[i].why : "this is not JSON";
}

/* ---- single members ---- */

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
