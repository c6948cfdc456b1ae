/* mutation.c - the keys that a write may change, and its steps in the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   keys found ─ (rules and rights judged) ─ begin: removal committed ─ (origin call) ─ end
 *
 * The keys stand in the request head, in a form, or in the body of a DeleteObjects. Before the
 * origin is called, the metadata of all keys that the write may change is removed from the cache
 * (cache/write.h, rule H7 in src/README.md). A write may also change the metadata of objects whose
 * keys it does not name, or the grants of a bucket: who may read its objects. Threads: the loop. */
#include "front/mutation.h"

#include "base/clock.h"
#include "cache/alias.h"
#include "s3/xml.h"

#define KEYS_GIVEN_MAX 3    /* the most keys in a request head, or in a form */

/* ---- the keys ---- */

static void add_key(struct mutation *mutation, struct arena *keep, slice key, slice version)
{
    mutation->keys[mutation->key_count++] =
        (struct write_key){ arena_copy(keep, key), arena_copy(keep, version) };
}

static void add_given(struct mutation *mutation, struct arena *keep, const struct s3_request *s3)
{
    const struct s3_param *version = s3_param_get(s3, S("versionId"));
    const struct s3_source *source = &s3->source;
    add_key(mutation, keep, s3->key, version ? version->value : S(""));
    if (s3->op != S3_RENAME_OBJECT)
        return;
    if (source->key.len)
        add_key(mutation, keep, source->key, S(""));
    if (source->inner.len)
        add_key(mutation, keep, source->inner, S(""));
}

static void add_of_form(struct mutation *mutation, struct arena *keep, const struct form *form)
{
    slice key = form_get(form, S("key")), trimmed = alias_trimmed(key);
    add_key(mutation, keep, key, S(""));
    if (trimmed.len != key.len)
        add_key(mutation, keep, trimmed, S(""));
}

void mutation_find_keys(struct mutation *mutation, struct arena *keep, const struct call *call,
                        const struct intake_keys *listed)
{
    enum s3_mutates mutates = s3_operation(call->s3.op)->mutates;
    check(!mutation->keys);
    mutation->keys = arena_alloc(keep, (listed->count + KEYS_GIVEN_MAX) * sizeof(*mutation->keys));
    if (mutates == S3_MUTATES_FORM)
        add_of_form(mutation, keep, call->form);
    else if (call->s3.key.len && mutates != S3_MUTATES_NOTHING)
        add_given(mutation, keep, &call->s3);
    check(mutation->key_count <= KEYS_GIVEN_MAX);
    for (size_t i = 0; i < listed->count; i++)
        mutation->keys[mutation->key_count++] = (struct write_key){ listed->list[i].key,
                                                                    listed->list[i].version };
}

/* ---- the steps in the cache ---- */

/* True if the write changes metadata of a key and names no version. It then changes the version
 * that is the current one at the origin. */
static bool changes_metadata(const struct s3_request *s3)
{
    enum s3_mutates mutates = s3_operation(s3->op)->mutates;
    return (mutates == S3_MUTATES_PROPERTY || mutates == S3_MUTATES_GRANTS) && s3->key.len &&
           !s3_param_get(s3, S("versionId"));
}

/* True if the write may change who can read objects of the bucket. */
static bool regrants(const struct s3_request *s3)
{
    enum s3_mutates mutates = s3_operation(s3->op)->mutates;
    return mutates == S3_MUTATES_BUCKET || (mutates == S3_MUTATES_GRANTS && !s3->key.len);
}

/* True if the write may change the metadata of any object in its bucket. A write with an unknown
 * header counts as such a write. */
static bool changes_bucket(const struct s3_request *s3)
{
    enum s3_mutates mutates = s3_operation(s3->op)->mutates;
    return mutates == S3_MUTATES_HEADS || mutates == S3_MUTATES_BUCKET || s3->foreign.ptr;
}

/* Returns what the other nodes must know of the write; 0: nothing. */
static unsigned hint_of(const struct s3_request *s3)
{
    bool changes = s3_operation(s3->op)->mutates != S3_MUTATES_NOTHING || changes_bucket(s3);
    return !changes ? 0
         : HINT_WRITE | (changes_metadata(s3) ? HINT_PROPERTY : 0u) |
           (changes_bucket(s3) ? HINT_BUCKET : 0u) | (regrants(s3) ? HINT_RIGHTS : 0u);
}

void mutation_begin(struct mutation *mutation, struct arena *keep, const struct call *call,
                    slice bucket, void (*changed)(void *arg), void *arg)
{
    check(!mutation->write && mutation->keys);
    mutation->bucket = bucket;
    mutation->regrants = regrants(&call->s3);
    mutation->peers = cache_peers(call->loop->cache->cache);
    mutation->hint = (struct hint){ .what = hint_of(&call->s3), .bucket = bucket,
                                    .endpoint = origin_endpoint(call->rules->origin) };
    if (mutation->hint.what)
        peers_will_hint(mutation->peers);
    if (mutation->regrants)
        grants_change_begins(bucket, ageing_ms());
    mutation->write = write_begin(call->loop->cache, call->rules, bucket, mutation->keys,
                                  mutation->key_count, changed, arg);
    mutation->order = write_order(mutation->write, keep);
    if (changes_metadata(&call->s3))
        write_restates_key(mutation->write);
    if (changes_bucket(&call->s3))
        write_restates_bucket(mutation->write);
}

bool mutation_may_go(const struct mutation *mutation)
{
    return mutation->write && write_may_go(mutation->write);
}

/* The other nodes hear of it after this node has done the same (front/peer_hints.c). */
static void tell_peers(struct mutation *mutation)
{
    struct hint hint = mutation->hint;
    mutation->hint.what = 0;
    if (!hint.what || !mutation->peers)
        return;
    for (size_t i = 0; i < mutation->key_count; i++) {
        hint.key = mutation->keys[i].key;
        hint.version = mutation->keys[i].version;
        peers_hint(mutation->peers, &hint);
    }
    if (!mutation->key_count)
        peers_hint(mutation->peers, &hint);
}

void mutation_end(struct mutation *mutation)
{
    write_end(&mutation->write);
    if (mutation->regrants)
        grants_change_ends(mutation->bucket, ageing_ms());
    mutation->regrants = false;
    tell_peers(mutation);
}
