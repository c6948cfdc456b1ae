/* filled.c - a GetObject whose bytes go into memory that its client registered.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   GET /BUCKET/KEY, x-penstock-buffer: BUFFER:OFFSET -> 200 or 206, no body, x-penstock-filled: N
 *
 * All but the bytes is as for any GetObject: signature, rights, range, conditions, headers. Where
 * they can't go there, or the answer is an error, the answer is the ordinary one; who would rather
 * have none says x-penstock-required. Threads: the call's loop; in between, the fill socket's. */
#include <inttypes.h>
#include <stdlib.h>

#include "cache/filling.h"
#include "front/inside.h"

#define BUFFER_HEADER "x-penstock-buffer"

struct filled {
    struct filling filling;
    struct arena keep;            /* what the ask points at: it outlives the call */
    struct call *call;            /* NULL: its client has gone */
};

bool filled_is_asked(const struct call *call)
{
    return call->front->filler && call->s3.op == S3_GET_OBJECT &&
           http_head_get(call->head, S(BUFFER_HEADER)).ptr;
}

static void filled_free(struct filled *filled)
{
    struct head *head = (struct head *)(uintptr_t)filled->filling.answer.head;
    head_unref(&head);
    mailbox_unref(&filled->filling.box);
    arena_free(&filled->keep);
    free(filled);
}

static void lost(struct filling *filling)
{
    filled_free(container_of(filling, struct filled, filling));
}

static void gone(void *arg)
{
    struct filled *filled = arg;
    filled->call = NULL;
}

static bool is_required(const struct call *call)
{
    return slice_eq_nocase(http_head_get(call->head, S("x-penstock-required")), S("true"));
}

/* A checksum of the whole would be compared with the body, which is empty. */
static void answer(struct call *call, const struct filling *filling)
{
    const struct get_answer *answer = &filling->answer;
    struct fields fields = fields_in(call->keep);
    call->s3.checksum_mode = false;
    call->cost = filling->cost;
    fields_add(&fields, S("x-penstock-filled"),
               arena_printf(call->keep, "%" PRIu64, answer->end - answer->first));
    object_fields(call, answer, &filling->cost, &fields);
    http_reply(call->http, &(struct http_answer){ .status = answer->partial ? 206 : 200,
                                                  .fields = fields.list,
                                                  .field_count = fields.count });
}

/* Bytes may follow the ordinary answer, if it has been decided that there are some, or nothing has
 * been decided. */
static bool may_bring_a_body(const struct filling *filling)
{
    enum err err = filling->answer.err;
    return filling->declined || filling->answer.head || err == ERR_CANCELED ||
           err == ERR_TIMEOUT || err == ERR_STOPPING;
}

static void came_back(struct mail *mail)
{
    struct filled *filled = container_of(mail, struct filled, filling.mail);
    const struct filling *filling = &filled->filling;
    struct call *call = filled->call;
    if (call) {
        call->gone = NULL;
        if (!filling->declined && !filling->answer.err)
            answer(call, filling);
        else if (is_required(call) && may_bring_a_body(filling))
            reply_error(call, ERR_NOT_IMPLEMENTED, S("The bytes can't go into that buffer: it is "
                        "not this client's, it is busy, has no room for them, or went away."));
        else
            object_read(call);
    }
    filled_free(filled);
}

static slice kept(struct arena *keep, slice text)
{
    return text.ptr ? arena_copy(keep, text) : text;
}

static struct get_ask ask_of(const struct call *call, struct arena *keep)
{
    struct get_ask ask = object_ask(call);
    ask.bucket = kept(keep, ask.bucket);
    ask.key = kept(keep, ask.key);
    ask.version = kept(keep, ask.version);
    ask.conditions.if_match = kept(keep, ask.conditions.if_match);
    ask.conditions.if_none_match = kept(keep, ask.conditions.if_none_match);
    ask.conditions.if_range = kept(keep, ask.conditions.if_range);
    return ask;
}

/* "0123...:4096" */
static bool read_target(slice value, struct filling *ret)
{
    slice id = slice_cut(&value, ':');
    return slice_unhex(id, ret->buffer, sizeof(ret->buffer)) && slice_u64(value, &ret->offset);
}

void filled_read(struct call *call)
{
    struct filled *filled = must_alloc(sizeof(*filled));
    const struct front_filler *filler = call->front->filler;
    if (!read_target(http_head_get(call->head, S(BUFFER_HEADER)), &filled->filling)) {
        free(filled);
        reply_error(call, ERR_BAD_ARGUMENT, S(BUFFER_HEADER " must be BUFFER:OFFSET: 32 hex digits "
                    "and a number of bytes."));
        return;
    }
    filled->call = call;
    filled->filling.mail.deliver = came_back;
    filled->filling.lost = lost;
    filled->filling.box = mailbox_ref(call->loop->cache->box);
    filled->filling.client = call->client;
    filled->filling.ask = ask_of(call, &filled->keep);
    call->gone = gone;
    call->gone_arg = filled;
    filler->start(filler->arg, &filled->filling);
}
