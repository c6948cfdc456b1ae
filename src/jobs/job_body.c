/* job_body.c - the body of a request for a job. SPDX-License-Identifier: Apache-2.0
 *
 * Types are strict, and an unknown member is an error: if a misspelt "prefix" were ignored, a job
 * might read a whole bucket. */
#include "jobs/job_body.h"

#include <jansson.h>

#include "base/json.h"
#include "s3/request.h"

#define NAME_BYTES_MAX 40             /* limit of a name in a message */
#define HEAD_ITEMS_MAX 16384u         /* most items in "keys", as in a batch; more come as lines */

static enum err bad(slice *ret_why, slice why)
{
    *ret_why = why;
    return ERR_BAD_ARGUMENT;
}

/* A job reads the present version of each key, whatever that is. */
static enum err judge_item(const struct item *item, slice *ret_why)
{
    if (item->kind == ITEM_SPAN && !item->length)
        return bad(ret_why, S("the \"length\" of an item of a job can't be 0"));
    if (!item->version.len && !item->if_match.ptr)
        return OK;
    return bad(ret_why, S("an item of a job can't have \"if_match\" or \"version_id\": leave them "
                          "out"));
}

/* ---- the members ---- */

static enum err read_prefix(struct arena *keep, const json_t *value, struct job_spec *ret,
                            slice *ret_why)
{
    slice prefix = json_text(value);
    ret->prefix = arena_copy(keep, prefix);
    return json_is_string(value) && prefix.len <= S3_KEY_BYTES_MAX && !slice_has(prefix, '\0')
         ? OK : bad(ret_why, S("\"prefix\" must be text of at most 1024 bytes, without a NUL"));
}

static enum err read_mode(struct arena *keep, const json_t *value, struct job_spec *ret,
                          slice *ret_why)
{
    (void)keep;
    for (ret->mode = 0; ret->mode < JOB_MODES; ret->mode++)
        if (json_is_string(value) &&
            slice_eq(json_text(value), slice_of(job_mode_name(ret->mode))))
            return OK;
    return bad(ret_why, S("\"mode\" must be \"warm\" or \"follow\""));
}

static enum err read_window(struct arena *keep, const json_t *value, struct job_spec *ret,
                            slice *ret_why)
{
    json_int_t bytes = json_integer_value(value);
    (void)keep;
    ret->window = (uint64_t)bytes;
    return bytes > 0 ? OK : bad(ret_why, S("\"window\" must be a whole number of bytes, at "
                                          "least 1, as in 2147483648"));
}

static enum err read_pin(struct arena *keep, const json_t *value, struct job_spec *ret,
                         slice *ret_why)
{
    (void)keep;
    ret->pins = json_is_true(value);
    return json_is_boolean(value) ? OK : bad(ret_why, S("\"pin\" must be true or false"));
}

static enum err read_ranges(struct arena *keep, const json_t *value, struct job_spec *ret,
                            slice *ret_why)
{
    size_t count = json_array_size(value);
    (void)keep;
    if (!json_is_array(value) || count > JOB_RANGES_MAX)
        return bad(ret_why, S("\"ranges\" must be an array of at most 16 ranges"));
    for (size_t i = 0; i < count; i++) {
        ret->ranges[i] = s3_range_read(json_text(json_array_get(value, i)));
        if (ret->ranges[i].kind == RANGE_NONE)
            return bad(ret_why, S("each of \"ranges\" must be one range, as \"bytes=0-1023\", "
                                  "\"bytes=1024-\" or \"bytes=-1024\""));
    }
    ret->range_count = count;
    return OK;
}

/* "keys" is read last, because its items do not fit into struct job_spec. */
static enum err skip(struct arena *keep, const json_t *value, struct job_spec *ret, slice *ret_why)
{
    (void)keep;
    (void)value;
    (void)ret_why;
    ret->by_list = true;
    return OK;
}

static const struct {
    const char *name;
    enum err (*read)(struct arena *keep, const json_t *value, struct job_spec *ret,
                     slice *ret_why);
} members[] = {
    { "prefix", read_prefix }, { "keys", skip }, { "ranges", read_ranges }, { "mode", read_mode },
    { "pin", read_pin }, { "window", read_window },
};

static enum err unknown(struct arena *keep, slice name, slice *ret_why)
{
    return bad(ret_why, arena_printf(keep, "no such member: \"%.*s\" (the members are \"prefix\", "
                                     "\"keys\", \"ranges\", \"mode\", \"pin\" and \"window\")",
                                     SLICE_ARG(slice_sub(name, 0, NAME_BYTES_MAX))));
}

static enum err read_members(struct arena *keep, json_t *object, struct job_spec *ret,
                             slice *ret_why)
{
    const char *name;
    json_t *value;
    enum err err = OK;
    json_object_foreach(object, name, value) {
        size_t i = 0;
        while (i < countof(members) && !slice_eq(slice_of(members[i].name), slice_of(name)))
            i++;
        err = i < countof(members) ? members[i].read(keep, value, ret, ret_why)
                                   : unknown(keep, slice_of(name), ret_why);
        if (err)
            return err;
    }
    return OK;
}

static enum err read_keys(struct arena *keep, const json_t *list, struct items *ret, slice *ret_why)
{
    struct items_ask ask = { .count_max = HEAD_ITEMS_MAX };
    enum err err = items_read(keep, list, &ask, ret, ret_why);
    for (size_t i = 0; i < ret->count && !err; i++)
        err = judge_item(&ret->list[i], ret_why);
    return err == ERR_LIMIT ? bad(ret_why, S("\"keys\" has more than 16384 items: put \"keys\": [] "
                                             "there, and each item on a line behind the JSON "
                                             "object"))
                            : err;
}

/* The order of a follow job is that of its list. */
static enum err judge_mode(struct job_spec *spec, slice *ret_why)
{
    bool follows = spec->mode == JOB_FOLLOW;
    if (!follows && spec->window)
        return bad(ret_why, S("only a job with \"mode\": \"follow\" can have \"window\""));
    if (follows && !spec->by_list)
        return bad(ret_why, S("a job with \"mode\": \"follow\" needs \"keys\": the order in "
                              "which they will be read"));
    if (follows && spec->range_count)
        return bad(ret_why, S("a job with \"mode\": \"follow\" can't have \"ranges\": give each "
                              "item an offset and a length of its own"));
    if (follows && !spec->window)
        spec->window = JOB_WINDOW_DEFAULT;
    return OK;
}

static enum err read_head(struct arena *keep, json_t *object, struct job_spec *ret,
                          struct items *ret_items, slice *ret_why)
{
    const json_t *keys = json_object_get(object, "keys");
    if (!json_is_object(object))
        return bad(ret_why, S("the body must begin with a JSON object, as in {\"prefix\": "
                              "\"train/\"}"));
    enum err err = read_members(keep, object, ret, ret_why);
    if (!err && !keys == !json_object_get(object, "prefix"))
        err = bad(ret_why, S("a job needs \"prefix\" or \"keys\", but not both"));
    if (!err && keys && ret->pins)
        err = bad(ret_why, S("only a prefix can be pinned: leave \"pin\" out"));
    if (!err)
        err = judge_mode(ret, ret_why);
    if (!err && keys)
        err = read_keys(keep, keys, ret_items, ret_why);
    return err;
}

enum err job_body_read(struct arena *keep, slice bytes, struct job_spec *ret,
                       struct items *ret_items, size_t *ret_bytes, slice *ret_why)
{
    json_error_t error;
    *ret_items = (struct items){ NULL, 0 };
    json_t *object = json_loadb(bytes.len ? bytes.ptr : "", bytes.len,
                                JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &error);
    if (!object)
        return bad(ret_why, arena_printf(keep, "Penstock can't read the body as JSON: line %d, "
                                         "column %d: %s", error.line, error.column,
                                         json_why(&error)));
    *ret_bytes = (size_t)error.position;
    enum err err = read_head(keep, object, ret, ret_items, ret_why);
    json_decref(object);
    return err;
}

/* ---- a line ---- */

enum err job_body_read_line(struct arena *keep, slice line, struct item *ret, slice *ret_why)
{
    struct items_ask ask = { .count_max = 1 };
    struct items items = { NULL, 0 };
    json_error_t error;
    json_t *value = json_loadb(line.ptr, line.len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY,
                               &error);
    if (!value)
        return bad(ret_why, arena_printf(keep, "it is no JSON: column %d: %s", error.column,
                                         json_why(&error)));
    json_t *list = json_pack("[o]", value);
    enum err err = items_read(keep, list, &ask, &items, ret_why);
    json_decref(list);
    if (!err)
        err = judge_item(&items.list[0], ret_why);
    if (!err)
        *ret = items.list[0];
    return err;
}
