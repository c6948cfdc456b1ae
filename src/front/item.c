/* item.c - one item of a list, judged as a GetObject of its object.
 * SPDX-License-Identifier: Apache-2.0
 *
 * By the rules that a request for it meets, asked in their order: the client's policy (right.c),
 * where it lies and whether it may be asked there (place.c); what the cache then asks of it, a
 * grant or the origin, is the get's business. So nobody reads by a list what they can't read by
 * itself. A call stands in for the request that it might have been. Any thread; a call is one
 * thread's. */
#include "base/guard.h"
#include "cache/alias.h"
#include "front/inside.h"

void item_call(struct call *ret, struct front *front, const struct client *client, slice bucket,
               struct arena *keep)
{
    static const struct http_head no_head;
    *ret = (struct call){
        .front = front,
        .head = &no_head,
        .keep = keep,
        .s3 = { .op = S3_GET_OBJECT, .bucket = bucket },
        .id = S("-"),
        .access_key = client->access_key,
        .client = client,
        .cache_result = "-",
    };
}

/* No range can say nothing, and all of an object is no part of it. */
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
    as->place = NULL;
    enum err err = guard_on(GUARD_ITEM_RIGHTS) ? right_judge(as) : OK;
    if (!err)
        err = place_judge(as, &detail);
    if (err)
        return err;
    *ret = (struct get_ask){
        .place = as->place,
        .who = &as->client->who,
        .bucket = as->s3.bucket,
        .key = item->key,
        .version = item->version,
        .range = range_of(item),
        .conditions = { .if_match = item->if_match, .if_modified_since = -1,
                        .if_unmodified_since = -1 },
        .head_only = asks_nothing(item),
        .revalidate = as->place->freshness == FRESH_TTL && !alias_is_plain(item->key),
    };
    return OK;
}

enum err item_span(const struct item *item, const struct get_answer *answer, uint64_t *ret_first,
                   uint64_t *ret_length)
{
    *ret_first = answer->first;
    *ret_length = answer->end - answer->first;
    if (asks_nothing(item)) {
        *ret_first = item->first;
        *ret_length = 0;
        return item->first <= answer->head->size ? OK : ERR_BAD_RANGE;
    }
    bool exact = item->kind == ITEM_SPAN && item->length != ITEM_OPEN;
    return exact && *ret_length != item->length ? ERR_BAD_RANGE : OK;
}
