/* judge.c - whether stored metadata may answer without the origin. SPDX-License-Identifier: Apache-2.0
 *
 * A judgement changes nothing but the memory of the get about its permission (permit.c). So it can
 * also be made for a get that is only to be explained (get_forecast). The order of the questions is
 * the rule: first the right to read, then what the client demands, then the age. */
#include "cache/getting.h"

#include "base/clock.h"

static bool is_whole(const struct get *get)
{
    return !get->ask.part && (get->ask.head_only || get->ask.range.kind == RANGE_NONE);
}

struct epoch_restated get_restated(const struct get *get)
{
    struct epoch_restated restated = epoch_bucket_restated(get->name.bucket);
    struct object_name key = get->name;
    struct object_id id;
    if (!key.version.len)
        return restated;
    key.version = S("");
    store_object_id(cache_store(get->loop->cache), &key, &id);
    struct epoch_restated of_key = epoch_restated(&id);
    return of_key.at_ms > restated.at_ms ? of_key : restated;
}

/* The metadata may have changed since the origin last confirmed it, and listings do not show
 * metadata. */
static bool is_restated(const struct get *get, int64_t validated_s)
{
    struct epoch_restated restated = get_restated(get);
    return (get->metadata->restated && !validated_s) ||
           (restated.at_ms && validated_s <= restated.at_s);
}

/* A version that the client names never becomes another one. The exception is "null": it is the
 * latest object that was written while the bucket had no versions, and no listing of current
 * objects shows it. */
static enum judgement judge_version(const struct get *get, bool unproved, int64_t validated_s,
                                    int64_t age_s)
{
    const struct rules *rules = get->ask.rules;
    if (rules->freshness == FRESH_IMMUTABLE || !slice_eq(get->name.version, S("null")))
        return unproved ? JUDGED_VERSION_EXPIRED : JUDGED_IMMUTABLE;
    return validated_s && age_s <= rules->ttl_s ? JUDGED_FRESH : JUDGED_VERSION_EXPIRED;
}

static enum judgement judge_age(const struct get *get, int64_t validated_s, int64_t age_s)
{
    const struct rules *rules = get->ask.rules;
    if (!validated_s)
        return JUDGED_UNPROVED;
    if (age_s <= rules->ttl_s)
        return JUDGED_FRESH;
    return age_s <= rules->ttl_s + rules->grace_s && !get->ask.background ? JUDGED_STALE
                                                                          : JUDGED_EXPIRED;
}

enum judgement get_judge(struct get *get)
{
    int64_t validated_s = atomic_load(&get->metadata->validated_s);
    bool unproved = atomic_load(&get->metadata->unproved) && !validated_s;
    int64_t age_s = ageing_s() - validated_s;
    if (!permit_has(get))
        return JUDGED_NOT_PERMITTED;
    if (get->validated)
        return JUDGED_CONFIRMED;
    if (get->ask.want_checksums && is_whole(get) && !get->metadata->full)
        return JUDGED_INCOMPLETE;
    if (get_wants_newest(get))
        return JUDGED_NEWEST;
    if (is_restated(get, validated_s))
        return JUDGED_RESTATED;
    if (get->name.version.len)
        return judge_version(get, unproved, validated_s, age_s);
    if (get->ask.rules->freshness == FRESH_IMMUTABLE)
        return unproved ? JUDGED_UNPROVED : JUDGED_IMMUTABLE;
    return judge_age(get, validated_s, age_s);
}
