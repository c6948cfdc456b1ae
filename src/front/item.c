/* item.c - one item of a list, judged as a GetObject of its object.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The list is that of a batch (batch.c), or of a fill request (reader.c). The same functions judge
 * an item and a GetObject request, in the same order: first the client's policy (right.c), then the
 * rules of the bucket (rules.c). After that, the read (a get, cache/get.h) needs a grant: the proof
 * that the origin lets this client read the object. Without a grant, the read asks the origin. So a
 * list never gives a client an object that a GetObject request would not give it. A struct call
 * stands for the item's GetObject request. Any thread; each call belongs to one thread. */
#include "base/guard.h"

#include "front/inside.h"

void item_call(struct call *ret, struct front *front, const struct client *client, slice bucket,
               struct arena *keep)
{
    static const struct request_head no_head;
    *ret = (struct call){
        .front = front,
        .head = &no_head,
        .keep = keep,
        .s3 = { .op = S3_GET_OBJECT, .bucket = bucket },
        .id = S("-"),
        .access_key = client->key.access_key,
        .client = client,
        .access.cache_result = "-",
    };
}

/* Returns the range of an item. A whole object needs no range. An item of zero bytes has none,
 * either, because no Range header can ask for zero bytes. */
static struct s3_range range_of(const struct item *item)
{
    bool open = item->length == ITEM_OPEN;
    if (item->kind == ITEM_RANGE)
        return item->range;
    if (item->kind == ITEM_WHOLE || item->length == 0 || (open && item->first == 0))
        return (struct s3_range){ .kind = RANGE_NONE };
    return (struct s3_range){ .kind = RANGE_SPAN, .first = item->first,
                              .last = open ? UINT64_MAX : item->first + item->length - 1 };
}

static bool asks_nothing(const struct item *item)
{
    return item->kind == ITEM_SPAN && item->length == 0;
}

enum err item_ask(struct call *as, const struct item *item, struct get_ask *ret)
{
    slice detail;
    as->s3.key = item->key;
    as->rules = NULL;
    enum err err = guard_on(GUARD_ITEM_RIGHTS) ? right_judge(as) : OK;
    if (!err)
        err = rules_judge(as, &detail);
    if (err)
        return err;
    check(as->rules);
    as->s3.range = range_of(item);
    as->s3.conditions = (struct s3_conditions){
        .if_match = item->if_match, .if_modified_since = -1, .if_unmodified_since = -1 };
    *ret = object_ask(as, item->version);
    ret->head_only = asks_nothing(item);
    return OK;
}

enum err item_span(const struct item *item, const struct get_answer *answer, uint64_t *ret_first,
                   uint64_t *ret_length)
{
    check(!answer->err && answer->first <= answer->end);
    *ret_first = answer->first;
    *ret_length = answer->end - answer->first;
    if (asks_nothing(item)) {
        *ret_first = item->first;
        *ret_length = 0;
        return item->first <= answer->metadata->size ? OK : ERR_BAD_RANGE;
    }
    bool exact = item->kind == ITEM_SPAN && item->length != ITEM_OPEN;
    return exact && *ret_length != item->length ? ERR_BAD_RANGE : OK;
}
