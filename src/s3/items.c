/* items.c - a list of items to read: objects, or byte ranges of them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The members of an item are rows of a table. An item in the form of a JSON array is short for a
 * JSON object. Types are strict, and an unknown member is an error: if a misspelt member were
 * ignored, the item would read the wrong bytes. Any thread may call these functions. */
#include "s3/items.h"

#include <jansson.h>

#include "base/json.h"
#include "base/setting.h"
#include "s3/request.h"

#define TEXT_BYTES_MAX 1024     /* limit of if_match and version_id */
#define NAME_BYTES_MAX 40       /* limit of a name in a message */
#define MARKS_AN_ITEM 20        /* commas, colons and brackets of an item with every member */

struct reading {
    struct arena *keep;
    const struct items_ask *ask;
    size_t index;
    struct item *item;
    unsigned given;             /* the members that the item has; bits of enum member_id */
    slice *ret_why;
};

static enum err bad(slice *ret_why, slice why)
{
    *ret_why = why;
    return ERR_BAD_ARGUMENT;
}

static enum err wrong(struct reading *r, const char *why)
{
    return bad(r->ret_why, arena_printf(r->keep, "items[%zu]: %s", r->index, why));
}

static enum err wrong_member(struct reading *r, const char *name, const char *why)
{
    return bad(r->ret_why, arena_printf(r->keep, "items[%zu]: \"%s\" %s", r->index, name, why));
}

/* ---- members ---- */

enum member_id {
    MEMBER_KEY, MEMBER_OFFSET, MEMBER_LENGTH, MEMBER_TO, MEMBER_MAX, MEMBER_RANGE, MEMBER_IF_MATCH,
    MEMBER_VERSION, MEMBER_COUNT
};

struct member {
    const char *name;
    enum err (*read)(struct reading *r, const struct member *member, const json_t *value);
    size_t at;                  /* the offset of the member's value in struct item */
};

static void *value_at(struct reading *r, const struct member *member)
{
    return (char *)r->item + member->at;
}

static enum err read_key(struct reading *r, const struct member *member, const json_t *value)
{
    slice prefix = r->ask->prefix, key = json_text(value);
    if (!json_is_string(value) || slice_has(key, '\0'))
        return wrong_member(r, member->name, "must be text without a NUL");
    size_t len = prefix.len + key.len;
    if (len == 0 || len > S3_KEY_BYTES_MAX)
        return prefix.len ? wrong(r, "\"prefix\" and \"key\" together must have 1 to 1024 bytes")
                          : wrong_member(r, member->name, "must have 1 to 1024 bytes");
    char *both = arena_alloc(r->keep, len);
    size_t at = slice_put(both, prefix);
    slice_put(both + at, key);
    *(slice *)value_at(r, member) = (slice){ both, len };
    return OK;
}

static enum err read_number(struct reading *r, const struct member *member, const json_t *value)
{
    bool is_length = member->at == offsetof(struct item, length);    /* may be -1: ITEM_OPEN */
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < (is_length ? -1 : 0))
        return wrong_member(r, member->name, is_length ? "must be a whole number of bytes, or -1"
                                                       : "must be a whole number of bytes");
    *(uint64_t *)value_at(r, member) = (uint64_t)number;
    return OK;
}

static enum err read_text(struct reading *r, const struct member *member, const json_t *value)
{
    slice text = json_text(value);
    if (!json_is_string(value) || !text.len || text.len > TEXT_BYTES_MAX || slice_has_control(text))
        return wrong_member(r, member->name, "must be text of 1 to 1024 bytes, without control "
                                             "characters");
    *(slice *)value_at(r, member) = arena_copy(r->keep, text);
    return OK;
}

static enum err read_range(struct reading *r, const struct member *member, const json_t *value)
{
    struct s3_range *range = value_at(r, member);
    *range = s3_range_read(json_text(value));
    return range->kind == RANGE_NONE
         ? wrong_member(r, member->name, "must be one range, as \"bytes=0-1023\", "
                        "\"bytes=1024-\" or \"bytes=-1024\"") : OK;
}

static const struct member members[MEMBER_COUNT] = {
    [MEMBER_KEY] = { "key", read_key, offsetof(struct item, key) },
    [MEMBER_OFFSET] = { "offset", read_number, offsetof(struct item, first) },
    [MEMBER_LENGTH] = { "length", read_number, offsetof(struct item, length) },
    [MEMBER_TO] = { "to", read_number, offsetof(struct item, to) },
    [MEMBER_MAX] = { "max", read_number, offsetof(struct item, max) },
    [MEMBER_RANGE] = { "range", read_range, offsetof(struct item, range) },
    [MEMBER_IF_MATCH] = { "if_match", read_text, offsetof(struct item, if_match) },
    [MEMBER_VERSION] = { "version_id", read_text, offsetof(struct item, version) },
};

static bool is_allowed(const struct reading *r, enum member_id id)
{
    if (id == MEMBER_TO || id == MEMBER_MAX)
        return r->ask->places;
    return id != MEMBER_RANGE || r->ask->ranges;
}

static enum err unknown(struct reading *r, slice name)
{
    const char *near = NULL;
    unsigned best = 3;
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        unsigned distance = name_distance(slice_of(members[i].name), name);
        if (!is_allowed(r, i) || distance >= best)
            continue;
        near = members[i].name;
        best = distance;
    }
    slice begin = slice_sub(name, 0, NAME_BYTES_MAX);
    return bad(r->ret_why, arena_printf(r->keep, "items[%zu]: no such member: \"%.*s\"%s%s%s",
                                        r->index, SLICE_ARG(begin), near ? " (did you mean \"" : "",
                                        near ? near : "", near ? "\"?)" : ""));
}

static enum err read_member(struct reading *r, enum member_id id, const json_t *value)
{
    check((size_t)id < MEMBER_COUNT);
    if (!is_allowed(r, id))
        return wrong_member(r, members[id].name, id == MEMBER_RANGE
                            ? "is only for a batch: give \"offset\" and \"length\""
                            : "is only for a fill: leave it out");
    if (r->given & 1u << id)
        return wrong_member(r, members[id].name, "is given twice");
    r->given |= 1u << id;
    return members[id].read(r, &members[id], value);
}

static enum err read_object(struct reading *r, const json_t *object)
{
    enum err err = OK;
    /* jansson's iterators take a pointer without const, but do not change the object. */
    json_t *walked = (json_t *)(uintptr_t)object;
    for (void *at = json_object_iter(walked); at && !err; at = json_object_iter_next(walked, at)) {
        slice name = slice_of(json_object_iter_key(at));
        size_t id = 0;
        while (id < MEMBER_COUNT && !slice_eq(slice_of(members[id].name), name))
            id++;
        const json_t *value = json_object_iter_value(at);
        err = id == MEMBER_COUNT ? unknown(r, name) : read_member(r, id, value);
    }
    return err;
}

/* ---- items ---- */

static enum err read_array(struct reading *r, const json_t *array)
{
    static const enum member_id order[] = { MEMBER_KEY, MEMBER_OFFSET, MEMBER_LENGTH, MEMBER_TO };
    size_t count = json_array_size(array);
    enum err err = OK;
    if (count != 1 && (count < 3 || count > 5))
        return wrong(r, r->ask->places
                     ? "must be [KEY], [KEY, OFFSET, LENGTH], [KEY, OFFSET, LENGTH, TO] or [KEY, "
                       "OFFSET, LENGTH, TO, MORE]: TO is the place in the buffer, and MORE is an "
                       "object with other members of the item"
                     : "must be [KEY] or [KEY, OFFSET, LENGTH]");
    for (size_t i = 0; i < MIN(count, countof(order)) && !err; i++)
        err = read_member(r, order[i], json_array_get(array, i));
    if (err || count < 5)
        return err;
    const json_t *more = json_array_get(array, 4);
    return json_is_object(more) ? read_object(r, more)
                                : wrong(r, "the fifth element must be an object with other "
                                        "members of the item, as in {\"if_match\": ETAG}");
}

/* Judges whether the members of an item may occur together. */
static enum err judge(struct reading *r)
{
    struct item *item = r->item;
    bool span = r->given & (1u << MEMBER_OFFSET | 1u << MEMBER_LENGTH);
    bool range = r->given & 1u << MEMBER_RANGE;
    if (!(r->given & 1u << MEMBER_KEY))
        return wrong_member(r, "key", "is missing");
    if (range && span)
        return wrong_member(r, "range", "can't be given with \"offset\" or \"length\": give "
                            "either \"range\", or \"offset\" and \"length\"");
    if (item->length != ITEM_OPEN && item->first > INT64_MAX - item->length)
        return wrong(r, "the sum of \"offset\" and \"length\" is too large");
    item->kind = range ? ITEM_RANGE : span ? ITEM_SPAN : ITEM_WHOLE;
    return OK;
}

static enum err read_item(struct reading *r, const json_t *value)
{
    enum err err;
    *r->item = (struct item){ .length = ITEM_OPEN, .to = ITEM_OPEN, .max = ITEM_OPEN };
    r->given = 0;
    if (json_is_string(value))
        err = read_member(r, MEMBER_KEY, value);
    else if (json_is_array(value))
        err = read_array(r, value);
    else if (json_is_object(value))
        err = read_object(r, value);
    else
        err = wrong(r, "must be a key, an array or an object");
    return err ? err : judge(r);
}

enum err items_read(struct arena *keep, const struct json_t *list, const struct items_ask *ask,
                    struct items *ret, slice *ret_why)
{
    size_t count = json_array_size(list);
    struct reading r = { .keep = keep, .ask = ask, .ret_why = ret_why };
    enum err err = OK;
    *ret = (struct items){ NULL, 0 };
    if (!json_is_array(list))
        return bad(ret_why, S("\"items\" must be an array"));
    if (count > ask->count_max) {
        *ret_why = arena_printf(keep, "\"items\" has %zu elements, and may have at most %zu",
                                count, ask->count_max);
        return ERR_LIMIT;
    }
    struct item *items = arena_alloc(keep, MAX(count, 1) * sizeof(*items));
    for (; r.index < count && !err; r.index++) {
        r.item = &items[r.index];
        err = read_item(&r, json_array_get(list, r.index));
    }
    if (!err)
        *ret = (struct items){ items, count };
    return err;
}

bool items_are_dense(slice document, size_t count_max)
{
    size_t marks = 0, most = (count_max + 2) * MARKS_AN_ITEM;
    bool text = false;
    for (size_t i = 0; i < document.len && marks <= most; i++) {
        char c = document.ptr[i];
        if (text && c == '\\')
            i++;
        else if (c == '"')
            text = !text;
        else if (!text)
            marks += c == ',' || c == ':' || c == '[' || c == '{';
    }
    return marks > most;
}

/* ---- the list of a batch ---- */

/* Reads one of two words. An absent value means the first. */
static enum err read_choice(struct arena *keep, const json_t *value, const char *name,
                            const char *const words[2], unsigned *ret, slice *ret_why)
{
    *ret = 0;
    if (!value)
        return OK;
    for (; *ret < 2; ++*ret)
        if (json_is_string(value) && slice_eq(json_text(value), slice_of(words[*ret])))
            return OK;
    return bad(ret_why, arena_printf(keep, "\"%s\" must be \"%s\" or \"%s\"", name,
                                     words[0], words[1]));
}

static enum err judge_names(struct arena *keep, json_t *object, slice *ret_why)
{
    static const char *const names[] = { "items", "prefix", "form", "on_error" };
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
        if (!slice_is_one_of(slice_of(name), names, countof(names)))
            return bad(ret_why, arena_printf(
                keep, "no such member: \"%.*s\" (the members are \"items\", \"prefix\", \"form\" "
                "and \"on_error\")", SLICE_ARG(slice_sub(slice_of(name), 0, NAME_BYTES_MAX))));
    return OK;
}

static enum err read_batch(struct arena *keep, json_t *object, size_t count_max,
                           struct items_batch *ret, slice *ret_why)
{
    static const char *const forms[] = { "tar", "frames" }, *const ends[] = { "continue", "end" };
    struct items_ask ask = { .count_max = count_max, .ranges = true };
    unsigned form = 0, end = 0;
    const json_t *prefix = json_object_get(object, "prefix");
    if (!json_is_object(object))
        return bad(ret_why, S("the body must be a JSON object with the member \"items\", as in "
                              "{\"items\": [\"KEY\"]}"));
    enum err err = judge_names(keep, object, ret_why);
    if (!err && prefix && !json_is_string(prefix))
        err = bad(ret_why, S("\"prefix\" must be text"));
    ask.prefix = json_text(prefix);
    if (!err)
        err = read_choice(keep, json_object_get(object, "form"), "form", forms, &form, ret_why);
    if (!err)
        err = read_choice(keep, json_object_get(object, "on_error"), "on_error", ends, &end,
                          ret_why);
    if (!err)
        err = items_read(keep, json_object_get(object, "items"), &ask, &ret->items, ret_why);
    ret->form = form;
    ret->end_on_error = end;
    return err;
}

enum err items_read_batch(struct arena *keep, slice document, size_t count_max,
                          struct items_batch *ret, slice *ret_why)
{
    json_error_t error;
    *ret = (struct items_batch){ .form = BATCH_TAR };
    if (items_are_dense(document, count_max)) {
        *ret_why = arena_printf(keep, "the body has too many JSON values. A list may have at most "
                                "%zu items", count_max);
        return ERR_LIMIT;
    }
    json_t *object = json_loadb(document.len ? document.ptr : "", document.len,
                                JSON_REJECT_DUPLICATES, &error);
    if (!object)
        return bad(ret_why, arena_printf(keep, "Penstock can't read the body as JSON: line %d, "
                                         "column %d: %s", error.line, error.column,
                                         json_why(&error)));
    enum err err = read_batch(keep, object, count_max, ret, ret_why);
    json_decref(object);
    return err;
}
