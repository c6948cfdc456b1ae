/* right.c - judges whether a client may do an operation. SPDX-License-Identifier: Apache-2.0
 *
 * For a client with its own identity the origin decides: it answers the call itself, or it has
 * given a grant for the cached object (cache/permit.c). Any other client uses the shared identity
 * (Penstock's own credentials), and the rows of its policy decide here, before any look-up. A call
 * needs the right of its operation (op.def), on its key or on the prefix of a list request. Side
 * effects need rights, too: a copy reads its source. The right ADMIN is needed for:
 *   - a header that gives other users a right, or sets or bypasses a lock;
 *   - an unknown header or parameter;
 *   - a restore that writes to another bucket (pass_write.c).
 * The right CACHE allows changes of the cache, such as a purge. All clients share the cache, and no
 * origin can give this right, so a client with its own identity never has it.
 *
 * A row gives rights on a bucket, on a prefix of a bucket, or on everything. A prefix is compared
 * byte by byte: "logs" also allows "logs-of-others/x", and "logs/" does not. A row covers a list
 * request if the request's prefix begins with the row's prefix, because every listed key then
 * begins with it, too. If a row is for a bucket or prefix, it covers no key with "." or ".."
 * between its slashes: an origin that reads the key as a path would find another object. Any
 * thread may call these functions. */
#include <assert.h>

#include "base/log.h"
#include "base/metric.h"
#include "front/inside.h"

static_assert(1 << S3_READ == RIGHT_READ && 1 << S3_LIST_KEYS == RIGHT_LIST &&
              1 << S3_WRITE == RIGHT_WRITE && 1 << S3_ADMIN == RIGHT_ADMIN &&
              1 << S3_MANAGE_CACHE == RIGHT_CACHE,
              "op.def and the settings order the rights alike");

/* ---- the rows of a policy ---- */

const struct config_policy right_everything = { .rights = RIGHT_ALL };

/* True for a key with "." or ".." between its slashes. */
static bool has_steps(slice key)
{
    while (key.ptr) {
        slice segment = slice_cut(&key, '/');
        if (slice_eq(segment, S(".")) || slice_eq(segment, S("..")))
            return true;
    }
    return false;
}

static bool covers(const struct config_policy *row, const struct right_ask *ask)
{
    if (!row->bucket.len)
        return true;
    if (!slice_eq(row->bucket, ask->bucket))
        return false;
    return ask->of_bucket || (slice_starts(ask->key, row->prefix) && !has_steps(ask->key));
}

bool right_allows(const struct config_policy *rows, size_t count, const struct right_ask *ask)
{
    check(ask->right && (ask->right & (ask->right - 1)) == 0);
    for (size_t i = 0; i < count; i++)
        if ((rows[i].rights & ask->right) && covers(&rows[i], ask))
            return true;
    return false;
}

/* ---- a call that is judged ---- */

/* A call and the first right that the policy of its client lacks. */
struct trial {
    const struct call *call;
    unsigned missing;    /* the right that is missing; 0: none so far */
    slice bucket, key;   /* the object on which the right is missing */
};

static bool allows(struct trial *trial, unsigned right, slice bucket, slice key, bool of_bucket)
{
    struct right_ask ask = { right, bucket, key, of_bucket };
    const struct front_key *client = &trial->call->client->key;
    if (right_allows(client->policy, client->policy_count, &ask))
        return true;
    if (!trial->missing)
        *trial = (struct trial){ trial->call, right, bucket, key };
    return false;
}

/* Returns the part of a source's name that every origin reads alike. Penstock reads a raw '+' as a
 * plus, but some origins read it as a space. So only the text before the '+' is certain. A name
 * with "." or ".." steps is judged whole, because the steps are there in either reading. */
static slice certain(slice name, slice raw)
{
    return slice_has(raw, '+') && !has_steps(name) ? slice_cut(&name, '+') : name;
}

/* A copy reads its source; a rename also removes it. */
static bool may_take(struct trial *trial, slice key)
{
    const struct s3_source *source = &trial->call->s3.source;
    unsigned also = trial->call->s3.op == S3_RENAME_OBJECT ? RIGHT_WRITE : RIGHT_READ;
    key = certain(key, source->raw);
    return allows(trial, RIGHT_READ, source->bucket, key, false) &&
           allows(trial, also, source->bucket, key, false);
}

/* A source that Penstock cannot parse may be any object. Only a row for everything allows such a
 * copy; the origin then decides whether it makes the copy. A rename of such a source is refused,
 * because its old name could not be removed from the cache. */
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

/* Looks at the headers, and at the parameters of a presigned URL that are sent as headers. */
static bool is_privileged(const struct call *call)
{
    for (size_t i = 0; i < s3_header_count(call->head, &call->s3); i++) {
        struct http_field field = s3_header_at(call->head, &call->s3, i);
        if (!slice_eq_nocase(field.name, S("acl")) && right_is_privileged(field.name, field.value))
            return true;
    }
    return false;
}

/* A row for any part of a bucket is enough for HeadBucket and GetBucketLocation, and for a call
 * whose keys are in the body: those keys are judged later. */
static bool may_begin(struct trial *trial)
{
    const struct call *call = trial->call;
    const struct s3_operation *row = s3_operation(call->s3.op);
    unsigned right = 1u << row->right;
    bool by_body = row->mutates == S3_MUTATES_KEYS || row->mutates == S3_MUTATES_FORM;
    bool of_bucket = by_body || call->s3.op == S3_HEAD_BUCKET || row->route == S3_ITEMS ||
                     row->route == S3_JOB ||
                     call->s3.op == S3_GET_BUCKET_LOCATION;
    slice key = rules_key(call);
    /* A client that manages the cache may see and end jobs, although it may read no object. */
    if (row->route == S3_JOB && call->s3.op != S3_JOB_START &&
        allows(trial, RIGHT_CACHE, call->s3.bucket, key, true))
        return true;
    trial->missing = 0;
    if (!allows(trial, right, call->s3.bucket, key, of_bucket) ||
        (call->s3.unknown && !allows(trial, RIGHT_ADMIN, call->s3.bucket, key, false)) ||
        (call->s3.foreign.ptr && !allows(trial, RIGHT_ADMIN, call->s3.bucket, S(""), false)))
        return false;    /* an unknown parameter or header may turn the call into any operation */
    if (row->right == S3_READ || row->right == S3_LIST_KEYS)
        return true;
    return may_take_source(trial) &&
           (!is_privileged(call) || allows(trial, RIGHT_ADMIN, call->s3.bucket, key, false));
}

static const char *const right_names[] = {
    [0] = "-", [RIGHT_READ] = "read", [RIGHT_LIST] = "list", [RIGHT_WRITE] = "write",
    [RIGHT_ADMIN] = "admin", [RIGHT_CACHE] = "cache",
};

/* Logs and counts a refusal. The bucket and key logged are those on which the right is missing; for
 * a copy this may be the source. */
static enum err refused(const struct trial *trial, const char *why)
{
    const struct call *call = trial->call;
    slice key = log_word(call->keep, slice_sub(trial->key, 0, 200));
    check(trial->missing < countof(right_names) && right_names[trial->missing]);
    metric_add(M_POLICY_REFUSED, 1);
    if (front_logs(call->front) && !call->quiet)
        log_access("policy_refused", "id=%.*s access_key=%.*s op=%s right=%s bucket=%.*s "
                   "key=%.*s why=\"%s\"", SLICE_ARG(call->id),
                   SLICE_ARG(log_word(call->keep, call->access_key)), s3_op_name(call->s3.op),
                   right_names[trial->missing], SLICE_ARG(log_word(call->keep, trial->bucket)),
                   SLICE_ARG(key), why);
    return ERR_POLICY;
}

static enum err outcome_of(const struct trial *trial, bool may)
{
    return may ? OK : refused(trial, "no row of the client's policy gives this right "
                                         "on this bucket and key: if the client should have the "
                                         "right, add the right to the policy");
}

enum err right_judge(const struct call *call)
{
    struct trial trial = { .call = call };
    if (call->client->key.own && s3_operation(call->s3.op)->right == S3_MANAGE_CACHE) {
        trial = (struct trial){ call, RIGHT_CACHE, call->s3.bucket, rules_key(call) };
        return refused(&trial, "a client with an origin identity of its own may not make, end or "
                               "list purges and pins, because other clients use the cache, too: "
                               "use a client that has a policy with the right 'cache'");
    }
    return outcome_of(&trial, call->client->key.own || may_begin(&trial));
}

enum err right_judge_origin(const struct call *call, const struct origin *origin)
{
    bool nobody_there = call->client->key.own && !origin_knows_identities(origin);
    struct trial trial = { call, 0, call->s3.bucket, call->s3.key };
    return nobody_there ? refused(&trial, "the origin of this bucket is a folder, which can't "
                                          "judge what a client may do: in the client's entry of "
                                          "the setting 'keys', remove origin_access_key, and set a "
                                          "policy for this bucket") : OK;
}

enum err right_judge_admin(const struct call *call, slice key)
{
    struct trial trial = { .call = call };
    return outcome_of(&trial, call->client->key.own ||
                allows(&trial, RIGHT_ADMIN, call->s3.bucket, key, false));
}

enum err right_judge_keys(const struct call *call, const struct write_key *keys, size_t count)
{
    const struct s3_operation *row = s3_operation(call->s3.op);
    struct trial trial = { .call = call };
    bool may = true;
    for (size_t i = 0; i < count && may && !call->client->key.own; i++)
        may = allows(&trial, 1u << row->right, call->s3.bucket, keys[i].key, false);
    return outcome_of(&trial, may);
}
