/* list.c - lists of keys, shared by those who ask the same. SPDX-License-Identifier: Apache-2.0
 *
 * An answer is sent from where it is shared, so that any number who wait for it cost its bytes
 * once; each holds it until it has all. What is alike is one call to the origin (cache/lists.h);
 * what can't be held here, the origin answers to each for itself (pass.c). Either way it is
 * answered as the origin does. */
#include "base/metric.h"
#include "cache/lists.h"
#include "front/forward.h"

#define PIECE_BYTES (256 * KIB)

struct listed {
    struct call *call;
    struct list_get *get;
    slice left;                   /* of the body, to be sent */
};

static void gone(void *arg)
{
    struct listed *listed = arg;
    list_end(&listed->get);
}

static void send_next(struct listed *listed)
{
    slice piece = slice_sub(listed->left, 0, PIECE_BYTES);
    listed->left = slice_from(listed->left, piece.len);
    http_reply_send(listed->call->http, piece);
}

static void proceed(void *arg)
{
    struct listed *listed = arg;
    if (listed->left.len)
        send_next(listed);
    else
        list_end(&listed->get);
}

static const struct http_source source = { proceed, gone };

static void reply(struct listed *listed, const struct list_answer *answer)
{
    struct call *call = listed->call;
    struct fields fields = fields_in(call->keep);
    struct origin_reply said = { .fields = answer->fields, .field_count = answer->field_count };
    struct list_get *ending = NULL;    /* without a body no proceed comes */
    forward_answer(call->keep, &said, &fields);
    if (answer->reused) {
        call->cache_result = "HIT";
        fields_add(&fields, S("x-cache"), S("HIT"));
    }
    fields_add(&fields, S("x-amz-request-id"), call->id);
    listed->left = forward_document(call, answer->status, answer->body);
    if (!listed->left.len) {
        ending = listed->get;
        listed->get = NULL;
    }
    http_reply_start(call->http, answer->status, fields.list, fields.count, listed->left.len,
                     &source, listed);
    if (!ending)
        send_next(listed);
    list_end(&ending);
}

static void changed(void *arg)
{
    struct listed *listed = arg;
    struct call *call = listed->call;
    const struct list_answer *answer;
    if (!listed->get || list_answer(listed->get, &answer) == ERR_WAIT)
        return;
    call->gone = NULL;
    enum err err = answer->err;
    if (!err) {
        reply(listed, answer);
        return;
    }
    list_end(&listed->get);
    if (err == ERR_LIMIT)
        pass_read(call);
    else
        reply_error(call, err, S(""));
}

void list_read(struct call *call)
{
    struct list_ask ask = {
        .place = call->place,
        .who = &call->client->who,
        .op = call->s3.op,
        .bucket = call->s3.bucket,
        .query = forward_query(call->keep, &call->s3),
        .newest = call->s3.no_cache || call->place->freshness == FRESH_ALWAYS,
    };
    ask.fields = forward_fields(call->keep, call, &ask.field_count);
    struct listed *listed = arena_alloc(call->keep, sizeof(*listed));
    listed->call = call;
    listed->get = list_start(call->loop->cache, &ask, changed, listed);
    if (!listed->get) {
        pass_read(call);
        return;
    }
    call->gone = gone;
    call->gone_arg = listed;
    changed(listed);
}
