/* message.c - reads one message of the fill socket. SPDX-License-Identifier: Apache-2.0
 *
 * On the fill socket, a Unix socket, clients ask Penstock to read objects into their memory. A
 * message is a JSON object. Each member of each kind of message is a row of one table, except "op"
 * and "id". A member that is not in the table is refused; the refusal suggests a similar name, if
 * there is one. Pure: no I/O. */
#include "local/message.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

#include "base/json.h"
#include "base/setting.h"
#include "s3/encode.h"

enum type { TEXT, NUMBER, FLAG, ID, KIND, SIZES, ITEMS, SKIP, AUTH, HANDLE };

#define IN(op) (1u << (op))
#define IN_LISTS (IN(OP_FILL) | IN(OP_PREFETCH))
#define MEMBER(ops, name, type, needed, member) \
    { ops, name, type, needed, offsetof(struct message, member) }

static const struct member {
    unsigned ops;
    const char *name;
    enum type type;
    bool needed;
    size_t offset;
} members[] = {
    MEMBER(IN(OP_HELLO), "v", NUMBER, true, hello.version),
    MEMBER(IN(OP_HELLO), "client", TEXT, false, hello.client),
    MEMBER(IN(OP_HELLO), "auth", AUTH, false, hello.presigned),
    MEMBER(IN(OP_REGISTER), "kind", KIND, true, memory.kind),
    MEMBER(IN(OP_REGISTER), "bytes", NUMBER, true, memory.bytes),
    MEMBER(IN(OP_REGISTER), "gpu", TEXT, false, memory.gpu),
    MEMBER(IN(OP_REGISTER), "chunks", SIZES, false, memory.chunks),
    MEMBER(IN(OP_REGISTER), "handle", HANDLE, false, memory.handle),
    MEMBER(IN(OP_REGISTER), "base_offset", NUMBER, false, memory.base_offset),
    MEMBER(IN(OP_UNREGISTER) | IN(OP_FILL), "buffer", ID, true, buffer),
    MEMBER(IN_LISTS, "bucket", TEXT, true, bucket),
    MEMBER(IN_LISTS, "prefix", TEXT, false, prefix),
    MEMBER(IN_LISTS, "items", ITEMS, true, items),
    MEMBER(IN_LISTS, "on_error", SKIP, false, skip),
    MEMBER(IN_LISTS, "deadline_ms", NUMBER, false, deadline_ms),
    MEMBER(IN_LISTS, "async", FLAG, false, async),
    MEMBER(IN(OP_LARGE), "message_bytes", NUMBER, true, large_bytes),
};

static const char *const op_names[] = {
    "hello", "register", "unregister", "fill", "prefetch", "status", NULL,
};
static const char *const kind_names[] = {
#define MEMORY(id, name, table) [id] = name,
#include "local/memory.def"
#undef MEMORY
};
static_assert(countof(op_names) == OP_COUNT, "each op has a name; that of OP_LARGE is NULL");
static_assert(countof(kind_names) == MEMORY_KINDS, "each kind has a name");

/* ---- values ---- */

struct reading {
    struct arena *keep;
    struct message *message;
    size_t items_max;
    struct trouble *why;
    enum err err;                     /* returned if the message is refused */
};

static bool wrong(struct reading *reading, slice sentence)
{
    *reading->why = (struct trouble){ 400, "bad_message", sentence };
    return false;
}

static bool read_number(struct reading *reading, const json_t *value, uint64_t *ret)
{
    (void)reading;
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *ret = (uint64_t)json_integer_value(value);
    return true;
}

static bool read_sizes(struct reading *reading, const json_t *value)
{
    size_t count = json_is_array(value) ? json_array_size(value) : 0;
    struct memory_offer *memory = &reading->message->memory;
    if (!count || count > MESSAGE_FDS_MAX)
        return false;
    memory->chunks = arena_alloc(reading->keep, count * sizeof(*memory->chunks));
    memory->chunk_count = count;
    for (size_t i = 0; i < count; i++)
        if (!read_number(reading, json_array_get(value, i), &memory->chunks[i]))
            return false;
    return true;
}

/* Returns the index of the text among `count` names, or `count` if it is none of them. */
static size_t find_name(const char *const *names, size_t count, const json_t *text)
{
    size_t at = 0;
    while (at < count && !(json_is_string(text) && strcmp(json_string_value(text), names[at]) == 0))
        at++;
    return at;
}

static bool read_kind(const json_t *value, enum memory *ret)
{
    *ret = (enum memory)find_name(kind_names, MEMORY_KINDS, value);
    return *ret < MEMORY_KINDS;
}

static bool read_auth(struct reading *reading, const json_t *value, slice *ret)
{
    const json_t *url = json_object_get(value, "presigned");
    if (json_object_size(value) != 1 || !json_is_string(url))
        return false;
    *ret = arena_copy(reading->keep, json_text(url));
    return true;
}

/* Reads the 64 bytes of an IPC handle, given in base64. */
static bool read_handle(struct reading *reading, const json_t *value, slice *ret)
{
    uint8_t *bytes = arena_alloc(reading->keep, IPC_HANDLE_BYTES);
    *ret = (slice){ (const char *)bytes, IPC_HANDLE_BYTES };
    return json_is_string(value) &&
           base64_read(json_text(value), bytes, IPC_HANDLE_BYTES);
}

static bool read_skip(const json_t *value, bool *ret)
{
    slice text = json_text(value);
    *ret = slice_eq(text, S("skip"));
    return *ret || slice_eq(text, S("fail"));
}

static const char any_kind[] =
#define MEMORY(id, name, table) " or \"" name "\""
#include "local/memory.def"
#undef MEMORY
    ;

static const char *const must_be[] = {
    [TEXT] = "text",
    [NUMBER] = "an integer of at least 0",
    [FLAG] = "true or false",
    [ID] = "32 hex digits, as in the reply to register",
    [KIND] = any_kind + sizeof(" or ") - 1,
    [SIZES] = "a list of 1 to 128 sizes in bytes",
    [ITEMS] = "a list of items",
    [SKIP] = "\"fail\" or \"skip\"",
    [AUTH] = "{\"presigned\": \"http://HOST/_/fill?X-Amz-...\"}",
    [HANDLE] = "64 bytes in base64",
};
static_assert(countof(must_be) == HANDLE + 1, "each type has its words for a refusal");
static_assert(MESSAGE_FDS_MAX == 128, "a text in must_be names this number");

/* Items are read later, when the member "prefix" is known. */
static bool read_value(struct reading *reading, const struct member *row, const json_t *value)
{
    void *to = (char *)reading->message + row->offset;
    switch (row->type) {
    case TEXT:
        if (json_is_string(value))
            *(slice *)to = arena_copy(reading->keep, json_text(value));
        return json_is_string(value);
    case NUMBER: return read_number(reading, value, to);
    case FLAG:
        *(bool *)to = json_is_true(value);
        return json_is_boolean(value);
    case ID:
        return slice_unhex(json_text(value), to, ID_BYTES);
    case KIND: return read_kind(value, to);
    case SIZES: return read_sizes(reading, value);
    case ITEMS: return json_is_array(value);
    case SKIP: return json_is_string(value) && read_skip(value, to);
    case AUTH: return read_auth(reading, value, to);
    case HANDLE: return read_handle(reading, value, to);
    }
    return false;
}

/* ---- members ---- */

static const struct member *find_member(enum message_op op, const char *name)
{
    for (size_t i = 0; i < countof(members); i++)
        if (members[i].ops & IN(op) && strcmp(members[i].name, name) == 0)
            return &members[i];
    return NULL;
}

static const char *nearest(enum message_op op, const char *name)
{
    const char *best = NULL;
    unsigned least = 3;
    for (size_t i = 0; i < countof(members); i++) {
        unsigned away = name_distance(slice_of(name), slice_of(members[i].name));
        if (members[i].ops & IN(op) && away < least) {
            least = away;
            best = members[i].name;
        }
    }
    return best;
}

static bool unknown(struct reading *reading, const char *op, const char *name)
{
    const char *near = nearest(reading->message->op, name);
    slice start = slice_sub(slice_of(name), 0, 64);
    return wrong(reading, arena_printf(reading->keep, "%s has no member \"%.*s\"%s%s%s", op,
                                       SLICE_ARG(start), near ? "; did you mean \"" : "",
                                       near ? near : "", near ? "\"?" : ""));
}

static bool read_members(struct reading *reading, json_t *object, const char *op)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        const struct member *row = find_member(reading->message->op, name);
        if (strcmp(name, "op") == 0 || strcmp(name, "id") == 0)
            continue;
        if (!row)
            return unknown(reading, op, name);
        if (!read_value(reading, row, value))
            return wrong(reading, arena_printf(reading->keep, "%s: \"%s\" must be %s", op, name,
                                               must_be[row->type]));
    }
    for (size_t i = 0; i < countof(members); i++)
        if (members[i].ops & IN(reading->message->op) && members[i].needed &&
            !json_object_get(object, members[i].name))
            return wrong(reading, arena_printf(reading->keep, "%s needs \"%s\": %s", op,
                                               members[i].name,
                                               must_be[members[i].type]));
    return true;
}

static bool read_items(struct reading *reading, const json_t *object)
{
    struct message *message = reading->message;
    const struct items_ask ask = { .prefix = message->prefix, .count_max = reading->items_max,
                                   .places = message->op == OP_FILL };
    slice why;
    enum err err = items_read(reading->keep, json_object_get(object, "items"), &ask,
                              &message->items, &why);
    if (err == ERR_LIMIT)
        *reading->why = (struct trouble){ 413, "too_many_items", arena_printf(
            reading->keep, "%.*s: ask for fewer items at once", SLICE_ARG(why)) };
    else if (err)
        *reading->why = (struct trouble){ 400, "bad_item", why };
    reading->err = err == ERR_LIMIT ? err : reading->err;
    return err == OK;
}

/* ---- the message ---- */

static bool find_op(struct reading *reading, const json_t *object, const char **ret_name)
{
    const json_t *op = json_object_get(object, "op");
    if (!op && json_object_get(object, "message_bytes")) {
        reading->message->op = OP_LARGE;
        *ret_name = "a large message";
        return true;
    }
    size_t at = find_name(op_names, countof(op_names) - 1, op);
    if (at == countof(op_names) - 1)
        return wrong(reading, S("\"op\" must be hello, register, unregister, fill, prefetch or "
                                "status"));
    reading->message->op = (enum message_op)at;
    *ret_name = op_names[at];
    return true;
}

static bool read_number_of(struct reading *reading, const json_t *object)
{
    const json_t *id = json_object_get(object, "id");
    if (id && !json_is_integer(id))
        return wrong(reading, S("\"id\" must be an integer"));
    reading->message->has_number = id != NULL;
    reading->message->number = json_integer_value(id);
    return true;
}

static bool read_object(struct reading *reading, json_t *object)
{
    const char *op = "";
    if (!json_is_object(object))
        return wrong(reading, S("a message must be one JSON object"));
    if (!read_number_of(reading, object) || !find_op(reading, object, &op) ||
        !read_members(reading, object, op))
        return false;
    bool list = IN(reading->message->op) & IN_LISTS;
    return !list || read_items(reading, object);
}

enum err message_read(struct arena *keep, slice text, size_t items_max, struct message *ret,
                      struct trouble *ret_why)
{
    struct reading reading = { keep, ret, items_max, ret_why, ERR_FORMAT };
    json_error_t error;
    *ret = (struct message){ .op = OP_COUNT };
    if (items_are_dense(text, items_max + MESSAGE_FDS_MAX)) {
        *ret_why = (struct trouble){ 413, "too_many_items",
                                     arena_printf(keep, "the message has too many JSON values. A "
                                                  "message may have at most %zu items: send fewer",
                                                  items_max) };
        return ERR_LIMIT;
    }
    json_t *object = json_loadb(text.ptr ? text.ptr : "", text.len, JSON_REJECT_DUPLICATES, &error);
    bool good = object ? read_object(&reading, object)
                       : wrong(&reading, arena_printf(keep, "Penstock can't read the message as "
                                                      "JSON: at byte %d, %s", error.position,
                                                      json_why(&error)));
    json_decref(object);
    return good ? OK : reading.err;
}
