/* judge.c - the facts about one get, for a decision about its metadata (decision.h).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing changes here but the memory of the get about its permission (permit.c). So a decision can
 * also be made for a get that is only to be explained (get_forecast). */
#include "cache/decision.h"
#include "cache/getting.h"

#include "base/clock.h"

static bool is_whole(const struct get *get)
{
    return !get->ask.part && (get->ask.head_only || get->ask.range.kind == RANGE_NONE);
}

static struct epoch_restated later(struct epoch_restated a, struct epoch_restated b)
{
    return a.at_ms > b.at_ms ? a : b;
}

struct epoch_restated restated_of(struct cache *cache, const struct object_name *name)
{
    struct epoch_restated of_bucket = epoch_bucket_restated(name->bucket);
    struct object_name key = *name;
    struct object_id id;
    if (!key.version.len)
        return of_bucket;
    key.version = S("");
    store_object_id(cache_store(cache), &key, &id);
    return later(of_bucket, epoch_restated(&id));
}

struct epoch_restated get_restated(const struct get *get)
{
    uint64_t after_ms = get->ask.for_peer.proved_after_ms;
    struct epoch_restated asked = { after_ms, after_ms ? ageing_s_of(after_ms) : 0 };
    return later(restated_of(get->of.loop->cache, &get->of.name), asked);
}

/* The metadata may have changed since the origin last confirmed it, and listings do not show
 * metadata. */
static bool is_restated(const struct get *get, int64_t validated_s)
{
    struct epoch_restated restated = get_restated(get);
    return (get->metadata->restated && !validated_s) ||
           (restated.at_ms && validated_s <= restated.at_s);
}

/* True if another node asks for the bytes of this very version: it knows from the origin that the
 * version is current, and for whom. */
static bool is_named(const struct get *get)
{
    slice etag = get->ask.conditions.if_match;
    return get->ask.for_peer.is && etag.len && slice_eq(etag, get->metadata->etag);
}

static struct demand demand_of(const struct get *get)
{
    const struct rules *rules = get->ask.rules;
    slice version = get->of.name.version;
    return (struct demand){
        .freshness = rules->freshness, .ttl_s = rules->ttl_s, .grace_s = rules->grace_s,
        .stale_if_error_s = rules->stale_if_error_s,
        .newest = get_wants_newest(get),
        .checksums = get->ask.want_checksums && is_whole(get),
        .background = get->ask.background,
        .version = is_named(get) ? VERSION_NAMED
                 : !version.len ? VERSION_CURRENT
                 : slice_eq(version, S("null")) ? VERSION_NULL : VERSION_NAMED,
    };
}

static struct standing standing_of(struct get *get)
{
    const struct metadata *metadata = get->metadata;
    int64_t validated_s = atomic_load(&metadata->validated_s);
    return (struct standing){
        .permitted = permit_has(get),
        .confirmed = get->validated,
        .validated_s = validated_s,
        .unproved = atomic_load(&metadata->unproved) && !validated_s,
        .restated = is_restated(get, validated_s),
        .full = metadata->full,
    };
}

enum judgement get_judge(struct get *get)
{
    struct demand demand = demand_of(get);
    struct standing standing = standing_of(get);
    return decision_judge(&demand, &standing, ageing_s());
}

/* The wait for the origin may have been long. So the right to read is judged anew, and a purge that
 * came meanwhile counts. */
bool get_serves_outage(struct get *get)
{
    struct demand demand = demand_of(get);
    get->permit.has = false;
    if (store_is_purged(cache_store(get->of.loop->cache), &get->of.name,
                        atomic_load(&get->metadata->compared)))
        return false;
    struct standing standing = standing_of(get);
    return decision_serves_outage(&demand, &standing, ageing_s());
}
