/* fill.c - fills and prefetches of the C client: their messages, and their replies.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A fill is open until the program has received its reply with penstock_fill_wait. Several fills
 * may be open. Threads: penstock.h. */
#include "inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list ---- */

static_assert(PENSTOCK_TO_END == -1, "the length -1 stands for the rest of the object");

/* Returns the JSON of an item, with its place in the buffer if `placed` is set. Returns NULL if a
 * name is not UTF-8, or if there is no memory. */
static json_t *item_json(const struct penstock_item *item, bool placed)
{
    json_t *word = json_pack("{s:s, s:s*, s:s*}", "key", item->key, "if_match", item->if_match,
                             "version_id", item->version_id);
    if (item->offset || item->length >= 0) {
        json_object_set_new(word, "offset", json_integer((json_int_t)item->offset));
        json_object_set_new(word, "length", json_integer(item->length));
    }
    if (placed)
        json_object_set_new(word, "to", json_integer((json_int_t)item->to));
    if (placed && item->max)
        json_object_set_new(word, "max", json_integer((json_int_t)item->max));
    return word;
}

static json_t *message_of(const char *op, const char *bucket, const struct penstock_item *items,
                       size_t count, const struct penstock_fill_options *options, bool placed)
{
    json_t *message = json_pack("{s:s, s:s, s:[], s:s, s:s*}", "op", op, "bucket", bucket, "items",
                                "on_error", options && options->skip ? "skip" : "fail",
                                "prefix", options ? options->prefix : NULL);
    json_t *list = json_object_get(message, "items");
    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, item_json(&items[i], placed)) != 0) {
            json_decref(message);
            return NULL;
        }
    if (options && options->deadline_ms)
        json_object_set_new(message, "deadline_ms", json_integer(options->deadline_ms));
    return message;
}

/* ---- open fills ---- */

static int begin(struct penstock *client, json_t *take_message, const struct penstock_item *items,
                 size_t count, struct penstock_fill **ret, struct penstock_error *error)
{
    struct penstock_fill *fill = calloc(1, sizeof(*fill));
    uint64_t *lengths = calloc(count + 1, sizeof(*lengths));
    *ret = NULL;
    if (!fill || !lengths || penstock_ask(client, take_message, -1, &fill->id, error)) {
        if (!fill || !lengths) {
            json_decref(take_message);
            penstock_fail(error, "memory", "this process is out of memory");
        }
        free(fill);
        free(lengths);
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        lengths[i] = items[i].length < 0 ? UINT64_MAX : (uint64_t)items[i].length;
    fill->client = client;
    fill->count = count;
    fill->lengths = lengths;
    fill->next = client->fills;
    client->fills = fill;
    *ret = fill;
    return 0;
}

void penstock_fill_free(struct penstock_fill *fill)
{
    struct penstock_fill **at = &fill->client->fills;
    while (*at && *at != fill)
        at = &(*at)->next;
    check(*at);    /* true unless the fill was waited for twice, or its client was closed */
    *at = fill->next;
    json_decref(fill->reply);
    free(fill->lengths);
    free(fill);
}

int penstock_fill_begin(struct penstock *client, struct penstock_buffer *buffer, const char *bucket,
                        const struct penstock_item *items, size_t count,
                        const struct penstock_fill_options *options, struct penstock_fill **ret,
                        struct penstock_error *error)
{
    check(buffer->client == client);
    json_t *message = message_of("fill", bucket, items, count, options, true);
    if (message)
        json_object_set_new(message, "buffer", json_string(buffer->id));
    return begin(client, message, items, count, ret, error);
}

/* ---- the reply ---- */

/* The members of a reply are checked before they are used. */
static bool take_lengths(const struct penstock_fill *fill, const json_t *reply, uint64_t *to)
{
    const json_t *lengths = json_object_get(reply, "lengths");
    for (size_t i = 0; i < fill->count; i++) {
        const json_t *length = json_array_get(lengths, i);
        if (lengths && !json_is_integer(length))
            return false;
        to[i] = lengths ? (uint64_t)json_integer_value(length) : fill->lengths[i];
    }
    return true;
}

static bool take_errors(const struct penstock_fill *fill, const json_t *reply,
                        struct penstock_result *to)
{
    const json_t *errors = json_object_get(reply, "errors");
    to->failed = json_array_size(errors);
    for (size_t i = 0; i < to->failed; i++) {
        const json_t *error = json_array_get(errors, i), *index = json_array_get(error, 0);
        if (!json_is_integer(index) || json_integer_value(index) < 0 ||
            (size_t)json_integer_value(index) >= fill->count)
            return false;
        if (to->statuses)
            to->statuses[json_integer_value(index)] =
                (int)json_integer_value(json_array_get(error, 2));
        if (to->lengths)
            to->lengths[json_integer_value(index)] = 0;
    }
    return true;
}

static int take_reply(const struct penstock_fill *fill, struct penstock_result *to,
                      struct penstock_error *error)
{
    struct penstock_result none = { 0 };
    const json_t *reply = fill->reply;
    bool good = json_is_true(json_object_get(reply, "ok"));
    to = to ? to : &none;
    to->bytes = (uint64_t)json_integer_value(json_object_get(reply, "bytes"));
    to->hits = (size_t)json_integer_value(json_object_get(reply, "hits"));
    to->misses = (size_t)json_integer_value(json_object_get(reply, "misses"));
    if (to->statuses)
        memset(to->statuses, 0, fill->count * sizeof(*to->statuses));
    if ((to->lengths && !take_lengths(fill, reply, to->lengths)) || !take_errors(fill, reply, to))
        return penstock_fail(error, "bad_reply", "Penstock's reply does not match the items of "
                             "this fill: install the libpenstock that has the same version as "
                             "the Penstock service");
    return good ? 0 : penstock_refused(reply, error);
}

int penstock_fill_wait(struct penstock_fill **fill, struct penstock_result *result,
                       struct penstock_error *error)
{
    struct penstock_fill *ended = *fill;
    check(ended);
    if (!ended->reply)
        ended->reply = penstock_reply_to(ended->client, ended->id, error);
    if (!ended->reply && ended->client->fd >= 0)
        return -1;    /* no reply in time: the fill stays open, and may be waited for again */
    int status = ended->reply ? take_reply(ended, result, error) : -1;
    *fill = NULL;
    penstock_fill_free(ended);
    return status;
}

int penstock_fill(struct penstock *client, struct penstock_buffer *buffer, const char *bucket,
                  const struct penstock_item *items, size_t count,
                  const struct penstock_fill_options *options, struct penstock_result *result,
                  struct penstock_error *error)
{
    struct penstock_fill *fill;
    if (penstock_fill_begin(client, buffer, bucket, items, count, options, &fill, error))
        return -1;
    return penstock_fill_wait(&fill, result, error);
}

int penstock_prefetch(struct penstock *client, const char *bucket,
                      const struct penstock_item *items, size_t count,
                      const struct penstock_fill_options *options, struct penstock_result *result,
                      struct penstock_error *error)
{
    struct penstock_fill *fill;
    if (begin(client, message_of("prefetch", bucket, items, count, options, false), items, count,
              &fill, error))
        return -1;
    return penstock_fill_wait(&fill, result, error);
}
