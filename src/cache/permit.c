/* permit.c - proofs that a get's identity may read. SPDX-License-Identifier: Apache-2.0
 *
 * A hit, a stale answer and a joined fetch each need a proof: within grant_time or permission_time,
 * the origin has let the same identity read the object (penstock-access(7)). Without a proof, a
 * HEAD in the identity's name brings the proof or the refusal. A miss needs no HEAD: its own GET
 * brings the proof. An answer to one identity proves nothing for another. An answer also proves
 * nothing if it was requested before a refusal of the identity, or before a change of rights,
 * because it may be older than that refusal or change.
 *
 * Identities of clients have grants (grant.h), each for a version. The shared identity (Penstock's
 * own credentials) would need a grant for each object of a large cache. So its proof is in the
 * metadata, in RAM, beside the time of the last revalidation: metadata->granted. After a restart,
 * the proofs of the process before count as if they were given at the start, so that a restart
 * costs no requests. The exception is unshared metadata, which is marked on disk, too: it came in
 * the name of a client, or the shared identity was refused since. It proves nothing until the
 * origin grants it to the shared identity. An answer that another node passes on (peers.h) counts
 * as one to a request of that age. Metadata from before a change of Penstock's own
 * credentials is treated likewise (store_names, origin_owner_changed_ms). Threads: the get's loop;
 * permit_granted and permit_refused on origin threads. */
#include "cache/permit.h"

#include <assert.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/raise.h"
#include "cache/getting.h"

/* metadata->granted has the time of the request whose answer it is: the ticks since a day before
 * the cache began, + 1, because other nodes may have got an answer earlier. Its lowest bit says
 * whether the answer was a refusal. So the answer to the latest request has the highest number, in
 * whatever order answers come; of two in one tick, the refusal has. 31 bits of ticks are six years. */
#define TICK_MS 100u
#define UNKNOWN 0u
#define DAY_MS (24u * 60 * 60 * 1000)

static_assert(GRANTED_REFUSED == 1, "the lowest bit says that the answer was a refusal");

static uint64_t first_tick_ms(const struct cache *cache)
{
    return cache->began_ms - MIN(cache->began_ms, (uint64_t)DAY_MS);
}

static uint32_t granted_of(const struct fetch *fetch, uint32_t refused)
{
    uint64_t first_ms = first_tick_ms(fetch->inflight->cache);
    check(fetch->sent.at_ms >= first_ms);
    uint64_t ticks = (fetch->sent.at_ms - first_ms) / TICK_MS;
    return (uint32_t)MIN(ticks + 1, (uint64_t)(UINT32_MAX >> 1)) << 1 | refused;
}

static uint64_t ttl_ms(const struct rules *rules, const struct identity *who)
{
    return identity_id(who) ? rules->grant_ms : rules->permission_ms;
}

/* Returns the time until which the proof of the shared identity counts; 0: there is none. */
static uint64_t shared_until_ms(const struct cache *cache, const struct metadata *metadata,
                                const struct rules *rules, slice bucket)
{
    uint32_t granted = atomic_load(&metadata->granted);
    if (granted & GRANTED_REFUSED || (granted == UNKNOWN && metadata->unshared))
        return 0;
    uint64_t since_ms = cache->began_ms;
    if (granted != UNKNOWN)
        since_ms = first_tick_ms(cache) + (uint64_t)((granted >> 1) - 1) * TICK_MS;
    if (since_ms <= grants_changed_ms(bucket) || since_ms <= origin_owner_changed_ms(rules->origin))
        return 0;
    return since_ms + rules->permission_ms;
}

/* The number of the metadata's version. Two versions differ in ETag, size or time. */
static uint64_t version_of(const struct metadata *metadata)
{
    return metadata ? metadata->etag_hash ^ metadata_mark(metadata->size, metadata->modified_s) : 0;
}

static grant_version granted_version(const struct grant_name *grant,
                                     const struct metadata *metadata)
{
    return grant->scope == GRANT_OBJECT ? version_of(metadata) : 0;
}

/* Until when the proof counts; 0: there is none. An object without metadata has no version, so a
 * grant for an object proves nothing. */
static uint64_t until_ms(const struct get *get, uint64_t now_ms)
{
    struct cache *cache = get->of.loop->cache;
    const struct grant_name *grant = &get->of.asker.grant;
    if (identity_id(get->of.asker.who) && (get->metadata || grant->scope != GRANT_OBJECT))
        return grants_find(cache->grants, grant, granted_version(grant, get->metadata),
                           get->of.name.bucket, now_ms);
    return get->metadata ?
           shared_until_ms(cache, get->metadata, get->ask.rules, get->of.name.bucket) : 0;
}

struct permit_note permit_note_now(const struct grant_name *name, slice bucket)
{
    return (struct permit_note){ grant_note_now(name, bucket), grant_refusals(name) };
}

void permit_ask_as(struct get *get, const struct identity *who)
{
    const struct rules *rules = get->ask.rules;
    struct object_name name = get->of.name;
    get->of.asker = (struct asker){ who, { identity_id(who), get->of.id, rules->grant_scope },
                                 get->ask.list_id, get->ask.ahead, get->ask.among, get->ask.rank,
                                 get->ask.for_peer.is, get->ask.trace };
    if (rules->grant_scope == GRANT_OBJECT || !identity_id(who))
        return;
    name.key = rules->grant_scope == GRANT_PREFIX ? rules->grant_prefix : S("");
    if (name.version.len)    /* the right to versions is another one (GetObjectVersion) */
        name.version = S("any");
    store_object_id(cache_store(get->of.loop->cache), &name, &get->of.asker.grant.id);
}

void permit_let(struct get *get)
{
    check(get->metadata);    /* the proof is for a version */
    get->permit.has = true;
    get->permit.version = version_of(get->metadata);
}

/* Returns 0 if the origin gave this proof before the latest restatement of the object. */
static uint64_t unless_restated(const struct get *get, uint64_t until)
{
    uint64_t restated_ms = get_restated(get).at_ms;
    bool before = restated_ms && until <= restated_ms + ttl_ms(get->ask.rules, get->of.asker.who);
    return before ? 0 : until;
}

uint64_t permit_until_ms(const struct get *get, uint64_t now_ms)
{
    return unless_restated(get, until_ms(get, now_ms));
}

bool permit_has(struct get *get)
{
    uint64_t version = version_of(get->metadata);
    if ((get->permit.has && get->permit.version == version) ||
        !origin_knows_identities(get->ask.rules->origin) ||
        !guard_on(GUARD_GRANTS))
        return true;
    uint64_t now_ms = ageing_ms(), until = permit_until_ms(get, now_ms);
    uint64_t ttl = ttl_ms(get->ask.rules, get->of.asker.who);
    get->permit.has = now_ms < until;    /* once a request, as version and freshness are */
    get->permit.version = version;
    get->permit.ages = get->permit.has && until - now_ms < ttl / 2;
    return get->permit.has;
}

uint64_t permit_age_ms(const struct get *get, uint64_t now_ms)
{
    uint64_t until = permit_until_ms(get, now_ms);
    int64_t validated_s = atomic_load(&get->metadata->validated_s);
    check(!identity_id(get->of.asker.who));
    if (!until || !validated_s)
        return UINT64_MAX;
    uint64_t granted_ms = until - get->ask.rules->permission_ms;
    uint64_t validated_ms = (uint64_t)(validated_s - 1) * 1000;    /* as ageing_s_of */
    return now_ms - MIN(MIN(granted_ms, validated_ms), now_ms);
}

uint64_t permit_age_max_ms(const struct fetch *fetch)
{
    const struct inflight *inflight = fetch->inflight;
    const struct rules *rules = inflight->rules;
    slice bucket = inflight->name.bucket;
    uint64_t sent_ms = fetch->sent.at_ms, age_max = rules->permission_ms;
    if (rules->freshness == FRESH_ALWAYS || !epoch_holds(&inflight->id, fetch->sent.epoch))
        return 0;
    if (rules->freshness == FRESH_TTL)
        age_max = MIN(age_max, (uint64_t)rules->ttl_s * 1000);
    const struct cache *cache = inflight->cache;
    const uint64_t since_ms[] = {    /* an answer from before one of these proves nothing */
        first_tick_ms(cache),
        /* There may have been writes through the process before. */
        atomic_load(&cache->knows_from_ms) ? 0 : cache->began_ms,
        epoch_moved_ms(&inflight->id),
        restated_of(inflight->cache, &inflight->name).at_ms,
        grants_changed_ms(bucket),
        grant_refused_ms(&fetch->asked.as.grant),
        origin_owner_changed_ms(rules->origin),
        atomic_load(&cache->purged_ms),
    };
    for (size_t i = 0; i < countof(since_ms); i++)
        age_max = MIN(age_max, sent_ms - MIN(sent_ms, since_ms[i] + 1));
    return age_max;
}

/* True if the fetch's answer will still prove the right of a joining get of the same identity. */
static bool holds(const struct get *get, const struct fetch *fetch)
{
    const struct grant_name *name = &fetch->asked.as.grant;
    return ageing_ms() < fetch->sent.at_ms + ttl_ms(get->ask.rules, get->of.asker.who) &&
           grant_note_holds(name, get->of.name.bucket, fetch->sent.rights.granted) &&
           grant_refusals(name) == fetch->sent.rights.refusals;
}

bool permit_shares(struct get *get, const struct fetch *fetch)
{
    if (fetch->sent.at_ms <= get_restated(get).at_ms)
        return false;
    if (permit_has(get))
        return true;
    if (!identity_same(get->of.asker.who, fetch->asked.as.who))
        return false;
    if (!reading_who(&get->of) &&
        fetch->sent.at_ms <= origin_owner_changed_ms(get->ask.rules->origin))
        return false;
    return fetch->sent.at_ms > get->of.began_ms || holds(get, fetch);
}

bool permit_proves(const struct fetch *fetch, const struct metadata *metadata)
{
    slice encryption = metadata_field(metadata, S("x-amz-server-side-encryption"));
    return fetch->asked.kind == FETCH_GET || !metadata->size ||
           !slice_starts(encryption, S("aws:kms"));
}

bool permit_is_unshared(const struct fetch *fetch, const struct metadata *metadata)
{
    return identity_id(fetch->asked.as.who) || !permit_proves(fetch, metadata) ||
           origin_owner_changed_ms(fetch->inflight->rules->origin);
}

static void raise(struct metadata *metadata, const struct metadata *only, uint32_t granted)
{
    if (metadata && (!only || metadata_is_same(only, metadata)))
        raise_32(&metadata->granted, granted);
}

/* Notes an answer to the shared identity. If there is no metadata yet, the next metadata gets it. A
 * grant is for one version: other metadata may be from an answer to a client. So a refusal that
 * comes after the answer to a later request changes nothing: that answer may be a grant of another
 * version. Under the lock. */
static void note(struct fetch *fetch, uint32_t granted)
{
    struct inflight *inflight = fetch->inflight;
    check(granted & GRANTED_REFUSED || fetch->metadata);
    if (granted & GRANTED_REFUSED && granted < inflight->granted)
        return;
    granted = MAX(granted, inflight->granted);
    const struct metadata *only = granted & GRANTED_REFUSED ? NULL : fetch->metadata;
    /* This comes first: then a commit sees the value, or store_grant sees the commit. */
    raise(inflight->metadata, only, granted);
    /* If the credentials are not those of the names file, the mark on disk stays. */
    bool forgive = !origin_owner_changed_ms(inflight->rules->origin);
    inflight->granted = store_grant(cache_store(inflight->cache), &inflight->id, only, granted,
                                    forgive);
    only = inflight->granted & GRANTED_REFUSED ? NULL : fetch->metadata;
    raise(inflight->metadata, only, inflight->granted);
    raise(fetch->metadata, only, inflight->granted);
}

void permit_granted(struct fetch *fetch)
{
    struct inflight *inflight = fetch->inflight;
    struct cache *cache = inflight->cache;
    if (!permit_proves(fetch, fetch->metadata))
        return;
    if (identity_id(fetch->asked.as.who)) {
        grants_give(cache->grants, &fetch->asked.as.grant,
                    granted_version(&fetch->asked.as.grant, fetch->metadata), inflight->name.bucket,
                    fetch->sent.rights.granted, fetch->sent.at_ms, inflight->rules->grant_ms,
                    ageing_ms());
        return;
    }
    note(fetch, granted_of(fetch, 0));
}

bool permit_refused(struct fetch *fetch)
{
    if (!grant_is_refusal(fetch->request.status, fetch->err))
        return false;
    struct inflight *inflight = fetch->inflight;
    struct cache *cache = inflight->cache;
    grant_refusals_add(&fetch->asked.as.grant, ageing_ms());
    if (identity_id(fetch->asked.as.who)) {
        grants_refuse(cache->grants, &fetch->asked.as.grant, fetch->sent.at_ms,
                      inflight->rules->grant_ms, ageing_ms());
        return true;
    }
    note(fetch, granted_of(fetch, GRANTED_REFUSED));
    return true;
}
