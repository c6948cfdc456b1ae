/* list.c - lists of keys, shared by those who ask the same. SPDX-License-Identifier: Apache-2.0
 *
 * What is alike is one call to the origin (cache/lists.h); what can't be held here, the origin
 * answers to each for itself (pass.c). Either way it is answered as the origin does. */
#include "base/metric.h"
#include "cache/lists.h"
#include "front/forward.h"

struct listed {
    struct call *call;
    struct list_get *get;
};

static void gone(void *arg)
{
    struct listed *listed = arg;
    list_end(&listed->get);
}

/* The answer's own bytes are copied: it may be gone before the client has taken them. */
static void reply(struct call *call, const struct list_answer *answer)
{
    struct fields *fields = arena_alloc(call->keep, sizeof(*fields));
    struct origin_reply said = { .fields = answer->fields, .field_count = answer->field_count };
    forward_answer(call->keep, &said, fields);
    if (answer->reused) {
        call->cache_result = "HIT";
        fields_add(fields, S("x-cache"), S("HIT"));
    }
    fields_add(fields, S("x-amz-request-id"), call->id);
    http_reply(call->http, &(struct http_answer){
        .status = answer->status,
        .fields = fields->list,
        .field_count = fields->count,
        .body = arena_copy(call->keep, answer->body),
    });
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
    if (!err)
        reply(call, answer);
    list_end(&listed->get);
    if (err == ERR_LIMIT)
        pass_read(call);
    else if (err)
        reply_error(call, err, S(""));
}

void list_read(struct call *call)
{
    struct list_ask ask = {
        .place = pass_place(call),
        .who = &call->client->who,
        .op = call->s3.op,
        .bucket = call->s3.bucket,
        .query = forward_query(call->keep, call->s3.raw_query),
    };
    enum err err = ask.place ? right_judge_place(call, ask.place) : ERR_NO_SUCH_BUCKET;
    if (err) {
        reply_error(call, err, S(""));
        return;
    }
    ask.newest = call->s3.no_cache || ask.place->freshness == FRESH_ALWAYS;
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
