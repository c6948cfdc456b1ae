/* rules.c - the rules of a call: its origin, and whether the call may go to that origin.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The settings have a row of rules (origin, freshness) for a bucket, or for a prefix in it. If
 * several rows fit bucket and key, the row with the longest prefix has the rules. A call is judged
 * once, when its rules are first needed: in judge_large_body (judge.c) or in route (front.c).
 * call->rules is set if the call may go to that origin. A call that lists its keys in the body
 * (DeleteObjects, a form) gets its rules by those keys, after the body was read. Any thread: rows
 * never change, and each call belongs to one thread. */
#include "front/inside.h"

const struct rules *rules_of(const struct front *front, slice bucket, slice key)
{
    const struct bucket_rules *best = NULL;
    for (size_t i = 0; i < front->options.rules_count; i++) {
        const struct bucket_rules *row = &front->options.rules[i];
        bool fits = (!row->bucket.len || slice_eq(row->bucket, bucket)) &&
                    slice_starts(key, row->prefix);
        size_t weight = row->bucket.len ? 1 + row->prefix.len : 0;
        if (fits && (!best || weight > (best->bucket.len ? 1 + best->prefix.len : 0)))
            best = row;
    }
    return best ? &best->rules : NULL;
}

slice rules_key(const struct call *call)
{
    const struct s3_operation *row = s3_operation(call->s3.op);
    const struct s3_param *prefix = s3_param_get(&call->s3, S("prefix"));
    const struct s3_param *key = NULL;
    if (row->right == S3_MANAGE_CACHE)
        key = s3_param_get(&call->s3, S("key"));
    bool by_prefix = prefix && row->level == S3_BUCKET &&
                     (row->right == S3_LIST_KEYS || row->right == S3_MANAGE_CACHE);
    return key ? key->value : by_prefix ? prefix->value : call->s3.key;
}

static size_t add_endpoint(slice *list, size_t count, const struct rules *rules)
{
    slice endpoint = origin_endpoint(rules->origin);
    for (size_t i = 0; i < count; i++)
        if (slice_eq(list[i], endpoint))
            return count;
    list[count] = endpoint;
    return count + 1;
}

size_t rules_endpoints(const struct call *call, slice key, bool whole, struct arena *keep,
                       const slice **ret)
{
    const struct front_options *options = &call->front->options;
    slice *list = arena_alloc(keep, (options->rules_count + 1) * sizeof(*list));
    const struct rules *rules = rules_of(call->front, call->s3.bucket, key);
    size_t count = rules ? add_endpoint(list, 0, rules) : 0;
    for (size_t i = 0; i < options->rules_count && !whole; i++) {
        const struct bucket_rules *row = &options->rules[i];
        if (slice_eq(row->bucket, call->s3.bucket) && slice_starts(row->prefix, key))
            count = add_endpoint(list, count, &row->rules);
    }
    *ret = list;
    return count;
}

const struct rules *rules_at(const struct front *front, slice endpoint)
{
    for (size_t i = 0; i < front->options.rules_count; i++)
        if (slice_eq(origin_endpoint(front->options.rules[i].rules.origin), endpoint))
            return &front->options.rules[i].rules;
    return NULL;
}

/* A list request has the rules of a prefix only if it lists no key outside that prefix. Any other
 * list request has the rules of the bucket. */
static const struct rules *rules_of_call(const struct call *call)
{
    if (call->s3.op == S3_LIST_BUCKETS || call->s3.op == S3_HEAD_SERVICE)
        return call->front->options.service;
    return rules_of(call->front, call->s3.bucket, rules_key(call));
}

/* A pin may be older than the settings. So it can be listed and ended without rules. */
static bool outlives_rules(enum s3_op op)
{
    return op == S3_PINS || op == S3_UNPIN;
}

static enum err may_ask(const struct call *call, const struct rules *rules)
{
    if (!rules)
        return outlives_rules(call->s3.op) ? OK : ERR_NO_SUCH_BUCKET;
    enum err err = right_judge_origin(call, rules->origin);
    if (err || s3_only_reads(call->s3.op) || s3_operation(call->s3.op)->right == S3_MANAGE_CACHE)
        return err;
    return origin_is_read_only(rules->origin) ? ERR_READ_ONLY : OK;
}

/* The origin makes a copy, so source and target must lie at the same origin. A source that Penstock
 * cannot parse, such as an access point, is left to the origin. */
static enum err judge_source(const struct call *call, const struct rules *rules, slice *ret_detail)
{
    const struct s3_source *source = &call->s3.source;
    const struct rules *from = rules_of(call->front, source->bucket, source->key);
    if (!source->bucket.len || (from && from->origin == rules->origin))
        return OK;
    *ret_detail = arena_printf(
        call->keep, "Penstock does not implement copies between origins, and \"%.*s/%.*s\" does "
        "not lie at the origin of \"%.*s/%.*s\": get the source, and put it as a new object.",
        SLICE_ARG(source->bucket),
        SLICE_ARG(source->key), SLICE_ARG(call->s3.bucket), SLICE_ARG(call->s3.key));
    return ERR_NOT_IMPLEMENTED;
}

enum err rules_judge(struct call *call, slice *ret_detail)
{
    enum s3_mutates mutates = s3_operation(call->s3.op)->mutates;
    /* Forms that browser_uploads allows go to rules_judge_keys. So a form that arrives here is one
     * that the setting does not allow. */
    bool form_off = mutates == S3_MUTATES_FORM;
    check(call->client && !call->form);
    *ret_detail = form_off ? S(FORMS_OFF) : S("");
    if (form_off)
        return ERR_NOT_IMPLEMENTED;
    if (mutates == S3_MUTATES_KEYS || call->rules)
        return OK;
    const struct rules *rules = rules_of_call(call);
    enum err err = may_ask(call, rules);
    if (!err)
        err = judge_source(call, rules, ret_detail);
    if (!err)
        call->rules = rules;
    return err;
}

enum err rules_judge_keys(struct call *call, const struct write_key *keys, size_t count,
                          slice *ret_detail)
{
    const struct front *front = call->front;
    const struct rules *rules = rules_of(front, call->s3.bucket, count ? keys[0].key : S(""));
    *ret_detail = S("");
    check(!call->rules);
    for (size_t i = 1; i < count; i++) {
        const struct rules *other = rules_of(front, call->s3.bucket, keys[i].key);
        if ((other ? other->origin : NULL) == (rules ? rules->origin : NULL))
            continue;
        *ret_detail = arena_printf(
            call->keep, "Penstock does not implement DeleteObjects of keys at several origins, and "
            "\"%.*s\" does not lie at the origin of \"%.*s\": send one request for the keys of "
            "each origin.", SLICE_ARG(keys[i].key),
            SLICE_ARG(keys[0].key));
        return ERR_NOT_IMPLEMENTED;
    }
    enum err err = may_ask(call, rules);
    if (!err)
        call->rules = rules;
    return err;
}
