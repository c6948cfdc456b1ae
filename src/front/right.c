/* right.c - may this client do this? SPDX-License-Identifier: Apache-2.0
 *
 * A client with a name of its own may do what the origin lets that name: the origin is asked, by
 * the call itself or, for what the cache has, by a grant (cache/permit.c). For all others the rows
 * of their policy decide here, before anything is looked up: the right is the operation's (op.def),
 * its object the key, or a list's prefix. What an operation does besides counts, too: a copy reads
 * its source, and who gives others a right by a header of a write, or locks an object, or has a
 * restore write elsewhere (pass_write.c), does what takes ADMIN. */
#include <assert.h>

#include "base/log.h"
#include "base/metric.h"
#include "front/inside.h"

static_assert(1 << S3_READ == RIGHT_READ && 1 << S3_LIST_KEYS == RIGHT_LIST &&
              1 << S3_WRITE == RIGHT_WRITE && 1 << S3_ADMIN == RIGHT_ADMIN, "one order of rights");

/* A call before its client's policy, and the first right that this does not give. */
struct trial {
    const struct call *call;
    unsigned missing;    /* 0: none so far */
    slice bucket, key;   /* where it is missing */
};

static bool allows(struct trial *trial, unsigned right, slice bucket, slice key, bool of_bucket)
{
    struct allow_ask ask = { right, bucket, key, of_bucket };
    const struct client *client = trial->call->client;
    if (allow_check(client->policy, client->policy_count, &ask))
        return true;
    if (!trial->missing)
        *trial = (struct trial){ trial->call, right, bucket, key };
    return false;
}

/* A raw '+' in a source is a plus here, and a space to some origins: then no more is certain of its
 * name than what comes before it, but for the steps in it, which both find. */
static slice certain(slice name, slice raw)
{
    return slice_has(raw, '+') && !allow_has_steps(name) ? slice_cut(&name, '+') : name;
}

/* A copy reads its source; what is renamed is gone from there, too. */
static bool may_take(struct trial *trial, slice key)
{
    const struct s3_source *source = &trial->call->s3.source;
    unsigned also = trial->call->s3.op == S3_RENAME_OBJECT ? RIGHT_WRITE : RIGHT_READ;
    key = certain(key, source->raw);
    return allows(trial, RIGHT_READ, source->bucket, key, false) &&
           allows(trial, also, source->bucket, key, false);
}

/* A source that can't be read here may be anything: it takes a row for everything, and then the
 * origin judges it. It is never renamed: nobody could take its old name out of the cache. */
static bool may_take_source(struct trial *trial)
{
    const struct s3_request *s3 = &trial->call->s3;
    if (!s3->sourced)
        return true;
    if (!s3->source.key.len && s3->op == S3_RENAME_OBJECT)
        return false;
    return may_take(trial, s3->source.key) &&
           (!s3->source.inner.len || may_take(trial, s3->source.inner));
}

bool right_is_privileged(slice name, slice value)
{
    if (slice_eq_nocase(name, S("x-amz-acl")) || slice_eq_nocase(name, S("acl")))
        return !slice_eq(value, S("private")) && !slice_eq(value, S("bucket-owner-full-control"));
    return header_judge(name, S("")).admin;
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
static bool may_begin(struct trial *trial)
{
    const struct call *call = trial->call;
    const struct s3_operation *row = s3_operation(call->s3.op);
    const struct s3_param *prefix = s3_param_get(&call->s3, S("prefix"));
    unsigned right = 1u << row->right;
    bool by_body = row->mutates == S3_MUTATES_KEYS || row->mutates == S3_MUTATES_FORM;
    bool of_bucket = by_body || call->s3.op == S3_HEAD_BUCKET || row->route == S3_ITEMS ||
                     call->s3.op == S3_GET_BUCKET_LOCATION;
    bool by_prefix = row->level == S3_BUCKET && row->right == S3_LIST_KEYS;
    slice key = call->s3.key;
    if (by_prefix && prefix)
        key = prefix->value;
    if (!allows(trial, right, call->s3.bucket, key, of_bucket) ||
        (call->s3.unknown && !allows(trial, RIGHT_ADMIN, call->s3.bucket, key, false)) ||
        (call->s3.foreign.ptr && !allows(trial, RIGHT_ADMIN, call->s3.bucket, S(""), false)))
        return false;    /* nobody here knows what such a parameter, or header, makes of it */
    if (row->right == S3_READ || row->right == S3_LIST_KEYS)
        return true;
    return may_take_source(trial) &&
           (!is_privileged(call) || allows(trial, RIGHT_ADMIN, call->s3.bucket, key, false));
}

static const char *name_of(unsigned right)
{
    switch (right) {
    case RIGHT_READ: return "read";
    case RIGHT_LIST: return "list";
    case RIGHT_WRITE: return "write";
    case RIGHT_ADMIN: return "admin";
    default: return "-";
    }
}

/* The bucket and the key are those where the right is missing: of a copy perhaps its source. */
static enum err refused(const struct trial *trial, const char *why)
{
    const struct call *call = trial->call;
    slice key = log_word(call->keep, slice_sub(trial->key, 0, 200));
    metric_add(M_POLICY_REFUSED, 1);
    if (front_logs(call->front) && !call->quiet)
        log_access("policy_refused", "id=%.*s access_key=%.*s op=%s right=%s bucket=%.*s "
                   "key=%.*s why=\"%s\"", SLICE_ARG(call->id),
                   SLICE_ARG(log_word(call->keep, call->access_key)), s3_op_name(call->s3.op),
                   name_of(trial->missing), SLICE_ARG(log_word(call->keep, trial->bucket)),
                   SLICE_ARG(key), why);
    return ERR_POLICY;
}

static enum err told(const struct trial *trial, bool may)
{
    return may ? OK : refused(trial, "no row of its policy gives this right here");
}

enum err right_judge(const struct call *call)
{
    struct trial trial = { .call = call };
    return told(&trial, call->client->own || may_begin(&trial));
}

enum err right_judge_origin(const struct call *call, const struct origin *origin)
{
    bool nobody_there = call->client->own && !origin_knows_identities(origin);
    struct trial trial = { call, 0, call->s3.bucket, call->s3.key };
    return nobody_there ? refused(&trial, "a folder does not know who asks: this client needs a "
                                          "policy") : OK;
}

enum err right_judge_admin(const struct call *call, slice key)
{
    struct trial trial = { .call = call };
    return told(&trial, call->client->own ||
                allows(&trial, RIGHT_ADMIN, call->s3.bucket, key, false));
}

enum err right_judge_keys(const struct call *call, const struct write_key *keys, size_t count)
{
    const struct s3_operation *row = s3_operation(call->s3.op);
    struct trial trial = { .call = call };
    bool may = true;
    for (size_t i = 0; i < count && may && !call->client->own; i++)
        may = allows(&trial, 1u << row->right, call->s3.bucket, keys[i].key, false);
    return told(&trial, may);
}
