/* permit.c - may who asks have what is here? SPDX-License-Identifier: Apache-2.0
 *
 * A hit, a stale answer, and a place beside others who wait for a fill: each needs the proof that
 * the origin has lately let this very identity read this (penstock-access(7)). Without it, a
 * HEAD in its name is the proof, or the refusal; a miss is its own. Nothing that was learnt or
 * brought in one name lets another read. Nor does a question under way let who asks after a refusal
 * to them, or after a change of who may read what: its answer may tell of before.
 *
 * Identities of clients have grants (grant.h), of the version that was shown. The shared identity,
 * in whose name all is asked that has no other, has no room there for each object of a large cache:
 * when the origin last showed it an object stands in the head, in RAM, beside when that was last
 * confirmed. What was lost with the last process counts from the beginning of this one, so that a
 * restart asks for nothing; but a head that was learnt in the name of a client, or refused to the
 * shared identity when that last asked, says so (unshared), on disk, too, and is not the shared
 * identity's before the origin has shown it to that; nor is any that was learnt under other
 * credentials of ours (store_names, origin_renamed_ms). Threads: the get's loop; permit_shown and
 * permit_refused on origin threads. */
#include "cache/getting.h"

#include "base/clock.h"
#include "base/guard.h"
#include "base/metric.h"

/* head->shown: when the question was asked that this answers, in ticks since the cache began, + 1;
 * and in its lowest bit, whether it was refused. So the answer to what was asked last is the
 * highest, whichever comes last, and of one tick's the refusal. 31 bits of ticks are six years. */
#define TICK_MS 100u
#define UNKNOWN 0u

static uint32_t shown_of(const struct fetch *fetch, uint32_t refused)
{
    uint64_t ticks = (fetch->sent_ms - cache_began_ms(fetch->inflight->cache)) / TICK_MS;
    return (uint32_t)MIN(ticks + 1, (uint64_t)(UINT32_MAX >> 1)) << 1 | refused;
}

static uint64_t ttl_ms(const struct place *place, const struct identity *who)
{
    return identity_id(who) ? place->grant_ms : place->permission_ms;
}

/* Until when the shared identity is believed to be allowed this; 0: it is not known to be. */
static uint64_t shared_until_ms(const struct cache *cache, const struct head *head,
                                const struct place *place, slice bucket)
{
    uint32_t shown = atomic_load(&head->shown);
    if (shown & SHOWN_REFUSED || (shown == UNKNOWN && head->unshared))
        return 0;
    uint64_t since_ms = cache_began_ms(cache);
    if (shown != UNKNOWN)
        since_ms += (uint64_t)((shown >> 1) - 1) * TICK_MS;
    if (since_ms <= grants_changed_ms(bucket) || since_ms <= origin_renamed_ms(place->origin))
        return 0;
    return since_ms + place->permission_ms;
}

/* Which version a head is of: of two that differ, ETag, size or time do. */
static uint64_t version_of(const struct head *head)
{
    return head ? head->etag_hash ^ head_mark(head->size, head->modified_s) : 0;
}

static grant_version granted(const struct grant_name *grant, const struct head *head)
{
    return grant->scope == GRANT_OBJECT ? version_of(head) : 0;
}

/* Of what is not known yet, nobody can say that it is what they were shown. */
static uint64_t until_ms(const struct get *get, uint64_t now_ms)
{
    struct cache *cache = get->loop->cache;
    const struct grant_name *grant = &get->asker.grant;
    if (identity_id(get->asker.who) && (get->head || grant->scope != GRANT_OBJECT))
        return grants_find(cache_grants(cache), grant, granted(grant, get->head), get->name.bucket,
                           now_ms);
    return get->head ? shared_until_ms(cache, get->head, get->ask.place, get->name.bucket) : 0;
}

void permit_ask_as(struct get *get, const struct identity *who)
{
    const struct place *place = get->ask.place;
    struct object_name name = get->name;
    get->asker = (struct asker){ who, { identity_id(who), get->id, place->grant_scope },
                                 get->ask.party };
    if (place->grant_scope == GRANT_OBJECT || !identity_id(who))
        return;
    name.key = place->grant_scope == GRANT_PREFIX ? place->grant_prefix : S("");
    if (name.version.len)    /* of any version: that is another right than to what is current */
        name.version = S("any");
    store_object_id(cache_store(get->loop->cache), &name, &get->asker.grant.id);
}

void permit_let(struct get *get)
{
    get->permitted = true;
    get->permitted_version = version_of(get->head);
}

bool permit_has(struct get *get)
{
    uint64_t version = version_of(get->head);
    if ((get->permitted && get->permitted_version == version) ||
        !origin_knows_identities(get->ask.place->origin) ||
        !guard_on(GUARD_GRANTS))
        return true;
    uint64_t now_ms = ageing_ms(), until = until_ms(get, now_ms);
    uint64_t ttl = ttl_ms(get->ask.place, get->asker.who), said_ms = get_said(get).at_ms;
    if (said_ms && until <= said_ms + ttl)
        until = 0;    /* asked before */
    get->permitted = now_ms < until;    /* once a request, as version and freshness are */
    get->permitted_version = version;
    get->permit_ages = get->permitted && until - now_ms < ttl / 2;
    return get->permitted;
}

/* Would its answer be a proof still, to who asks only now in the same name? */
static bool holds(const struct get *get, const struct fetch *fetch)
{
    const struct grant_name *name = &fetch->asker.grant;
    return ageing_ms() < fetch->sent_ms + ttl_ms(get->ask.place, get->asker.who) &&
           grant_note_holds(name, get->name.bucket, fetch->granted) &&
           grant_refusals(name) == fetch->refusals;
}

bool permit_shares(struct get *get, const struct fetch *fetch)
{
    if (fetch->sent_ms <= get_said(get).at_ms)
        return false;
    if (permit_has(get))
        return true;
    if (!identity_same(get->asker.who, fetch->asker.who))
        return false;
    if (!get_who(get) && fetch->sent_ms <= origin_renamed_ms(get->ask.place->origin))
        return false;
    return fetch->sent_ms > get->began_ms || holds(get, fetch);
}

bool permit_proves(const struct fetch *fetch, const struct head *head)
{
    slice encryption = head_field(head, S("x-amz-server-side-encryption"));
    return fetch->kind == FETCH_GET || !head->size || !slice_starts(encryption, S("aws:kms"));
}

static void raise(struct head *head, const struct head *only, uint32_t shown)
{
    if (head && (!only || head_is_same(only, head)))
        shown_raise(&head->shown, shown);
}

/* Of the shared name. Under the lock: what is learnt of a head that is not here yet, the next one
 * to come takes over. What was shown is a version: another that is here may be a client's alone. */
static void note(struct fetch *fetch, uint32_t shown)
{
    struct inflight *inflight = fetch->inflight;
    shown = MAX(shown, inflight->shown);
    const struct head *only = shown & SHOWN_REFUSED ? NULL : fetch->head;
    raise(inflight->head, only, shown);    /* first: so a commit sees it, or we the commit */
    /* under other credentials than the names file says, nothing is forgiven there */
    bool forgive = !origin_renamed_ms(inflight->place->origin);
    inflight->shown = store_shown(cache_store(inflight->cache), &inflight->id, only, shown,
                                  forgive);
    only = inflight->shown & SHOWN_REFUSED ? NULL : fetch->head;
    raise(inflight->head, only, inflight->shown);
    raise(fetch->head, only, inflight->shown);
}

void permit_shown(struct fetch *fetch)
{
    struct inflight *inflight = fetch->inflight;
    struct cache *cache = inflight->cache;
    if (!permit_proves(fetch, fetch->head))
        return;
    if (identity_id(fetch->asker.who)) {
        grants_give(cache_grants(cache), &fetch->asker.grant,
                    granted(&fetch->asker.grant, fetch->head), inflight->bucket, fetch->granted,
                    fetch->sent_ms, inflight->place->grant_ms, ageing_ms());
        return;
    }
    note(fetch, shown_of(fetch, 0));
}

void permit_refused(struct fetch *fetch)
{
    struct inflight *inflight = fetch->inflight;
    struct cache *cache = inflight->cache;
    grant_refusals_add(&fetch->asker.grant);
    if (identity_id(fetch->asker.who)) {
        grants_refuse(cache_grants(cache), &fetch->asker.grant, fetch->sent_ms,
                      inflight->place->grant_ms, ageing_ms());
        return;
    }
    note(fetch, shown_of(fetch, SHOWN_REFUSED));
}
