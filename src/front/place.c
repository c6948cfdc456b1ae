/* place.c - where a call goes, and whether it may be asked there.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What lies at which origin is said by the longest row of bucket and prefix that fits. A call is
 * judged once, by who needs it first: the judge of a large body, or the route (front.c);
 * call->place says that it may go there. What names its keys in its body (DeleteObjects, a form) is
 * placed by them, when that has been read. Any thread: rows never change, a call is one
 * thread's. */
#include "front/inside.h"

const struct place *place_of(const struct front *front, slice bucket, slice key)
{
    const struct front_place *best = NULL;
    for (size_t i = 0; i < front->options.place_count; i++) {
        const struct front_place *row = &front->options.places[i];
        bool fits = (!row->bucket.len || slice_eq(row->bucket, bucket)) &&
                    slice_starts(key, row->prefix);
        size_t weight = row->bucket.len ? 1 + row->prefix.len : 0;
        if (fits && (!best || weight > (best->bucket.len ? 1 + best->prefix.len : 0)))
            best = row;
    }
    return best ? &best->place : NULL;
}

/* A list is asked where its prefix lies: whole inside one that has an origin of its own, or not. Of
 * anything else a prefix says nothing: what it does was judged by its key. */
static const struct place *place_of_call(const struct call *call)
{
    const struct s3_operation *row = s3_operation(call->s3.op);
    const struct s3_param *prefix = s3_param_get(&call->s3, S("prefix"));
    bool by_prefix = prefix && row->level == S3_BUCKET && row->right == S3_LIST_KEYS;
    if (call->s3.op == S3_LIST_BUCKETS || call->s3.op == S3_HEAD_SERVICE)
        return call->front->options.service;
    return place_of(call->front, call->s3.bucket, by_prefix ? prefix->value : call->s3.key);
}

static enum err may_ask(const struct call *call, const struct place *place)
{
    if (!place)
        return ERR_NO_SUCH_BUCKET;
    enum err err = right_judge_origin(call, place->origin);
    if (err || s3_only_reads(call->s3.op))
        return err;
    return origin_is_read_only(place->origin) ? ERR_READ_ONLY : OK;
}

/* What is copied must lie where it is copied to: the origin copies it. A source that is not read
 * here, such as an access point's, is the origin's to judge. */
static enum err judge_source(const struct call *call, const struct place *place, slice *ret_detail)
{
    const struct s3_source *source = &call->s3.source;
    const struct place *from = place_of(call->front, source->bucket, source->key);
    if (!source->bucket.len || (from && from->origin == place->origin))
        return OK;
    *ret_detail = arena_printf(
        call->keep, "Penstock does not implement copies between origins, and \"%.*s/%.*s\" lies at "
        "another one than \"%.*s/%.*s\": read it and write it.", SLICE_ARG(source->bucket),
        SLICE_ARG(source->key), SLICE_ARG(call->s3.bucket), SLICE_ARG(call->s3.key));
    return ERR_NOT_IMPLEMENTED;
}

enum err place_judge(struct call *call, slice *ret_detail)
{
    enum s3_mutates mutates = s3_operation(call->s3.op)->mutates;
    bool form_off = mutates == S3_MUTATES_FORM;    /* one that is taken comes to place_judge_keys */
    *ret_detail = form_off ? S(FORMS_OFF) : S("");
    if (form_off)
        return ERR_NOT_IMPLEMENTED;
    if (mutates == S3_MUTATES_KEYS || call->place)
        return OK;
    const struct place *place = place_of_call(call);
    enum err err = may_ask(call, place);
    if (!err)
        err = judge_source(call, place, ret_detail);
    if (!err)
        call->place = place;
    return err;
}

enum err place_judge_keys(struct call *call, const struct write_key *keys, size_t count,
                          slice *ret_detail)
{
    const struct front *front = call->front;
    const struct place *place = place_of(front, call->s3.bucket, count ? keys[0].key : S(""));
    *ret_detail = S("");
    for (size_t i = 1; i < count; i++) {
        const struct place *other = place_of(front, call->s3.bucket, keys[i].key);
        if ((other ? other->origin : NULL) == (place ? place->origin : NULL))
            continue;
        *ret_detail = arena_printf(
            call->keep, "Penstock does not implement DeleteObjects of keys at several origins, and "
            "\"%.*s\" lies at another one than \"%.*s\": delete it by a request of its own "
            "(DeleteObject), or the keys of one origin at a time.", SLICE_ARG(keys[i].key),
            SLICE_ARG(keys[0].key));
        return ERR_NOT_IMPLEMENTED;
    }
    enum err err = may_ask(call, place);
    if (!err)
        call->place = place;
    return err;
}
