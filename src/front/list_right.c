/* list_right.c - asks the origin whether a client may list a prefix.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Some answers contain names of cached objects. Only a client that may list these names at the
 * origin gets such an answer. To find out, this file sends the origin a list call for one key, as
 * the client's identity (cache/lists.h). */
#include "cache/lists.h"
#include "front/inside.h"
#include "s3/encode.h"

struct list_right {
    struct list_get *get;
    void (*done)(void *arg, enum err err);
    void *arg;
};

enum err list_verdict(const struct list_answer *answer)
{
    if (answer->err || answer->status == 200)
        return answer->err;
    return answer->status == 404 ? ERR_NO_SUCH_BUCKET : ERR_DENIED;
}

/* Returns ERR_WAIT while the list call has no answer. Otherwise ends the call and returns the
 * verdict. */
static enum err look(struct list_right *right)
{
    const struct list_answer *answer;
    if (list_answer(right->get, &answer) == ERR_WAIT)
        return ERR_WAIT;
    enum err err = list_verdict(answer);
    list_end(&right->get);
    return err;
}

static void changed(void *arg)
{
    struct list_right *right = arg;
    enum err err = right->get ? look(right) : ERR_WAIT;
    if (err != ERR_WAIT)
        right->done(right->arg, err);
}

enum err list_right_ask(struct call *call, slice prefix, void (*done)(void *arg, enum err err),
                        void *arg, struct list_right **ret)
{
    struct list_right *right = arena_alloc(call->keep, sizeof(*right));
    struct text query = text_in(call->keep);
    text_add(&query, S("list-type=2&max-keys=1&prefix="));
    uri_encode(&query, prefix, true);
    struct list_ask ask = { .rules = call->rules, .who = &call->client->who,
                            .op = S3_LIST_OBJECTS_V2, .bucket = call->s3.bucket,
                            .query = text_slice(&query), .newest = true };
    *right = (struct list_right){ .done = done, .arg = arg };
    right->get = list_start(call->loop->cache, &ask, changed, right);
    if (!right->get)
        return ERR_SLOW_DOWN;
    *ret = right;
    return look(right);
}

void list_right_drop(struct list_right **right)
{
    if (*right)
        list_end(&(*right)->get);
    *right = NULL;
}
