/* right.c - may this client do this? SPDX-License-Identifier: Apache-2.0
 *
 * A client with a name of its own may do what the origin lets that name: the origin is asked, by
 * the call itself or, for what the cache has, by a grant (cache/permit.c). For all others the rows
 * of their policy decide here, before anything is looked up: the right is the operation's (op.def),
 * its object the key, or a list's prefix. What an operation does besides counts, too: a copy reads
 * its source, and who gives others a right by a header of a write, or locks an object, does what
 * takes ADMIN. */
#include <assert.h>

#include "base/log.h"
#include "base/metric.h"
#include "front/inside.h"
#include "s3/encode.h"

static_assert(1 << S3_READ == RIGHT_READ && 1 << S3_LIST_KEYS == RIGHT_LIST &&
              1 << S3_WRITE == RIGHT_WRITE && 1 << S3_ADMIN == RIGHT_ADMIN, "one order of rights");

static bool allows(const struct call *call, unsigned right, slice bucket, slice key, bool of_bucket)
{
    struct allow_ask ask = { right, bucket, key, of_bucket };
    return allow_check(call->client->policy, call->client->policy_count, &ask);
}

/* A raw '+' is a plus here, and a space to some origins: then no more is certain of a name than
 * what comes before it. */
static slice certain(slice name, slice raw)
{
    return slice_has(raw, '+') ? slice_cut(&name, '+') : name;
}

/* As it was sent; ptr NULL if there is none. */
static slice raw_param(const struct call *call, slice wanted)
{
    slice rest = call->s3.raw_query, raw, value, name;
    while (query_next(&rest, &raw, &value))
        if (uri_decode(call->keep, raw, &name) == OK && slice_eq(name, wanted))
            return value;
    return (slice){ NULL, 0 };
}

/* A copy reads its source; what is renamed is gone from there, too. A source that can't be read
 * here may be anything. */
static bool may_take(const struct call *call, slice key)
{
    const struct s3_source *source = &call->s3.source;
    unsigned also = call->s3.op == S3_RENAME_OBJECT ? RIGHT_WRITE : RIGHT_READ;
    key = certain(key, source->raw);
    return allows(call, RIGHT_READ, source->bucket, key, false) &&
           allows(call, also, source->bucket, key, false);
}

static bool may_take_source(const struct call *call)
{
    const struct s3_source *source = &call->s3.source;
    if (!call->s3.sourced)
        return true;
    return source->key.len && may_take(call, source->key) &&
           (!source->inner.len || may_take(call, source->inner));
}

static bool begins(slice name, slice with)
{
    return slice_eq_nocase(slice_sub(name, 0, with.len), with);
}

bool right_is_privileged(slice name, slice value)
{
    if (slice_eq_nocase(name, S("x-amz-acl")) || slice_eq_nocase(name, S("acl")))
        return !slice_eq(value, S("private")) && !slice_eq(value, S("bucket-owner-full-control"));
    return begins(name, S("x-amz-grant-")) || begins(name, S("x-amz-object-lock-")) ||
           slice_eq_nocase(name, S("x-amz-bypass-governance-retention"));
}

/* Also by what a presigned URL says, which is sent as a header. */
static bool is_privileged(const struct call *call)
{
    for (size_t i = 0; i < s3_header_count(call->head, &call->s3); i++) {
        struct http_field field = s3_header_at(call->head, &call->s3, i);
        if (!slice_eq_nocase(field.name, S("acl")) && right_is_privileged(field.name, field.value))
            return true;
    }
    return false;
}

/* What a list names lies below its prefix; what tells of a bucket as such is no object's. */
static bool may_begin(const struct call *call)
{
    const struct s3_operation *row = s3_operation(call->s3.op);
    const struct s3_param *prefix = s3_param_get(&call->s3, S("prefix"));
    unsigned right = 1u << row->right;
    bool by_body = row->mutates == S3_MUTATES_KEYS || row->mutates == S3_MUTATES_FORM;
    bool of_bucket = by_body || call->s3.op == S3_HEAD_BUCKET ||
                     call->s3.op == S3_GET_BUCKET_LOCATION;
    bool by_prefix = row->level == S3_BUCKET && row->right == S3_LIST_KEYS;
    slice key = call->s3.key;
    if (by_prefix && prefix)
        key = certain(prefix->value, raw_param(call, S("prefix")));
    if (!allows(call, right, call->s3.bucket, key, of_bucket) ||
        (call->s3.unknown && !allows(call, RIGHT_ADMIN, call->s3.bucket, key, false)))
        return false;    /* nobody here knows what such a parameter makes of the operation */
    if (row->right == S3_READ || row->right == S3_LIST_KEYS)
        return true;
    return may_take_source(call) &&
           (!is_privileged(call) || allows(call, RIGHT_ADMIN, call->s3.bucket, key, false));
}

static enum err refused(const struct call *call)
{
    slice key = log_word(call->keep, slice_sub(call->s3.key, 0, 200));
    metric_add(M_POLICY_REFUSED, 1);
    if (atomic_load(&call->front->access_log))
        log_info("policy_refused", "id=%.*s access_key=%.*s op=%s bucket=%.*s key=%.*s",
                 SLICE_ARG(call->id), SLICE_ARG(log_word(call->keep, call->access_key)),
                 s3_op_name(call->s3.op), SLICE_ARG(log_word(call->keep, call->s3.bucket)),
                 SLICE_ARG(key));
    return ERR_POLICY;
}

enum err right_judge(const struct call *call)
{
    return call->client->own || may_begin(call) ? OK : refused(call);
}

enum err right_judge_place(const struct call *call, const struct place *place)
{
    bool nobody_there = call->client->own && place && !origin_knows_identities(place->origin);
    return nobody_there ? refused(call) : OK;
}

enum err right_judge_admin(const struct call *call, slice key)
{
    bool may = call->client->own || allows(call, RIGHT_ADMIN, call->s3.bucket, key, false);
    return may ? OK : refused(call);
}

enum err right_judge_keys(const struct call *call, const struct write_key *keys, size_t count)
{
    const struct s3_operation *row = s3_operation(call->s3.op);
    for (size_t i = 0; i < count && !call->client->own; i++)
        if (!allows(call, 1u << row->right, call->s3.bucket, keys[i].key, false))
            return refused(call);
    return OK;
}
