/* list.c - lists of keys; equal calls share an answer. SPDX-License-Identifier: Apache-2.0
 *
 * Equal calls of clients become one call to the origin (cache/lists.h). All these clients get the
 * same copy of the answer, so its bytes are in memory once. Each client holds a reference to the
 * copy until the client has all of it. If the answer is too large to hold, each client gets an
 * origin call of its own (pass.c). Either way the client gets the origin's answer. */
#include "cache/lists.h"
#include "front/forward.h"

#define PIECE_BYTES (256 * KIB)

struct list_reply {
    struct call *call;
    struct list_get *get;
    slice left;                   /* the rest of the body, still to be sent */
};

static void gone(void *arg)
{
    struct list_reply *list = arg;
    list_end(&list->get);
}

static void send_next(struct list_reply *list)
{
    slice piece = slice_sub(list->left, 0, PIECE_BYTES);
    list->left = slice_from(list->left, piece.len);
    http_reply_send(list->call->http, piece);
}

static void proceed(void *arg)
{
    struct list_reply *list = arg;
    if (list->left.len)
        send_next(list);
    else
        list_end(&list->get);
}

static const struct http_source source = { proceed, gone };

static void reply(struct list_reply *list, const struct list_answer *answer)
{
    struct call *call = list->call;
    struct fields fields = { .keep = call->keep };
    struct origin_reply from = { .fields = answer->fields, .field_count = answer->field_count };
    struct list_get *ending = NULL;    /* without a body, proceed() is not called */
    check(!answer->err);
    forward_answer(call->keep, &from, &fields);
    if (answer->reused) {
        call->access.cache_result = "HIT";
        fields_add(&fields, S("x-cache"), S("HIT"));
    }
    fields_add(&fields, S("x-amz-request-id"), call->id);
    list->left = forward_document(call, answer->status, answer->body);
    if (!list->left.len) {
        ending = list->get;
        list->get = NULL;
    }
    http_reply_start(call->http, answer->status, fields.list, fields.count, list->left.len,
                     &source, list);
    if (!ending)
        send_next(list);
    list_end(&ending);
}

static void changed(void *arg)
{
    struct list_reply *list = arg;
    struct call *call = list->call;
    const struct list_answer *answer;
    if (!list->get || list_answer(list->get, &answer) == ERR_WAIT)
        return;
    call->gone = NULL;
    enum err err = answer->err;
    if (!err) {
        reply(list, answer);
        return;
    }
    list_end(&list->get);
    if (err == ERR_LIMIT)
        pass_read(call);
    else
        reply_error(call, err, S(""));
}

void list_read(struct call *call)
{
    struct list_ask ask = {
        .rules = call->rules,
        .who = &call->client->who,
        .op = call->s3.op,
        .bucket = call->s3.bucket,
        .query = forward_query(call->keep, &call->s3),
        .newest = call->s3.no_cache || call->rules->freshness == FRESH_ALWAYS,
        .trace = call_trace(call),
    };
    ask.fields = forward_fields(call->keep, call, &ask.field_count);
    struct list_reply *list = arena_alloc(call->keep, sizeof(*list));
    list->call = call;
    list->get = list_start(call->loop->cache, &ask, changed, list);
    if (!list->get) {
        pass_read(call);
        return;
    }
    call->gone = gone;
    call->gone_arg = list;
    changed(list);
}
