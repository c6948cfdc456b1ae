/* validate.c - asks the origin whether a cached version is current.
 * SPDX-License-Identifier: Apache-2.0
 *
 * These are phases of a get (get.c). First a listing page may renew the object together with its
 * neighbours. If it does not, the get sends a HEAD, or joins one that is in progress. If the origin
 * fails, a copy that is not too old is served. */
#include "cache/getting.h"

#include "base/clock.h"
#include "cache/missing.h"

enum err get_wait_for_page(struct get *get)
{
    if (!get->pages.page) {
        get->pages.seen_s = atomic_load(&get->metadata->validated_s);
        get->pages.page = fresh_list_page(get->of.loop->cache->fresh, get->ask.rules, get->of.asker.who,
                                    &get->of.name, get->pages.count > 0);
    }
    if (!get->pages.page)
        return get_go(get, GET_PROBE);
    enum list_page_state state = fresh_look(get->pages.page, get->of.name.key, &get->plan.sources.waiter);
    if (state == PAGE_RUNNING)
        return ERR_WAIT;
    fresh_leave(&get->pages.page, &get->plan.sources.waiter);
    get->pages.count++;
    /* renewals reach the metadata in the store, which may have left RAM meanwhile: look it up
     * anew */
    metadata_unref(&get->metadata);
    get->pages.state = state;
    return get_find(get, GET_PAGE_OVER);
}

enum err get_judge_page(struct get *get)
{
    bool renewed = atomic_load(&get->metadata->validated_s) > get->pages.seen_s;
    if (get->pages.state != PAGE_MISSES)    /* one that has changed is not missing */
        fresh_missing(get->of.loop->cache->fresh, get->ask.rules, get->pages.state == PAGE_LACKS);
    if (renewed) {
        get->validated = true;
        get->answer.source = GET_REVALIDATED;
        return get_go(get, GET_FRESH);
    }
    return get_go(get, get->pages.state != PAGE_MISSES || get->pages.count > 1 ? GET_PROBE : GET_PAGE);
}

static unsigned part_of(const struct get *get)
{
    return get->part.asked ? get->ask.part : 0;
}

/* A probe already under way will do, unless it was sent before a client asked for the newest, or is
 * no proof that this one may have it. */
static struct fetch *shared_probe(struct get *get)    /* under the lock */
{
    struct fetch *probe = get_wants_newest(get) || get->search.upgrade
                              ? NULL : fetch_probe(get->plan.sources.inflight, get->of.asker.who, part_of(get));
    return probe && permit_shares(get, probe) ? fetch_join_this(probe) : NULL;
}

enum err get_probe_start(struct get *get)
{
    flights_lock(get->of.flights, &get->of.id);
    plan_hook_in(&get->plan);
    get->plan.sources.fetch = shared_probe(get);
    fetch_joined(get->plan.sources.fetch, &get->of.asker);
    if (!get->plan.sources.fetch) {
        get->plan.sources.fetch = fetch_start(get->plan.sources.inflight, FETCH_HEAD, &get->of.asker,
                                 get->part.asked ? get->metadata : NULL,
                                 &(struct fetch_span){ .part = part_of(get) });
        if (get->plan.sources.fetch)
            get->plan.sources.fetch->asked.upgrade = get->search.upgrade;
    }
    flights_unlock(get->of.flights, &get->of.id);
    return get->plan.sources.fetch ? get_go(get, GET_ANSWER) : get_fail(get, ERR_SLOW_DOWN);
}

/* The HEAD does not say whether the bytes may be had: the first of them do. */
enum err get_prove(struct get *get)
{
    struct fetch_span span = { .end = MIN((uint64_t)UNIT_BYTES, get->metadata->size) };
    flights_lock(get->of.flights, &get->of.id);
    plan_hook_in(&get->plan);
    get->plan.sources.fetch = fetch_start(get->plan.sources.inflight, FETCH_GET, &get->of.asker, get->metadata, &span);
    if (get->plan.sources.fetch)
        get->plan.sources.fetch->asked.proof = true;
    flights_unlock(get->of.flights, &get->of.id);
    metadata_unref(&get->metadata);    /* it comes back with the answer */
    return get->plan.sources.fetch ? get_go(get, GET_ANSWER) : get_fail(get, ERR_SLOW_DOWN);
}

enum err get_judge_probe(struct get *get)
{
    struct fetch *probe = get->plan.sources.fetch;
    if (probe->err == OK) {
        struct metadata *old = get->metadata;
        get->answer.source = old && old->etag_hash == probe->metadata->etag_hash ? GET_REVALIDATED
                                                                              : GET_MISS;
        get->metadata = metadata_ref(probe->metadata);
        metadata_unref(&old);
        get->validated = true;
        if (!get->ask.head_only && !permit_has(get) && !permit_proves(probe, get->metadata))
            return get_go(get, GET_PROVE);
        permit_let(get);
        return get_go(get, GET_FRESH);
    }
    if (probe->err == ERR_CHANGED)
        return ERR_CHANGED;
    if (get->metadata && refusal_is_outage(probe->refusal) && get_serves_outage(get)) {
        const struct rules *rules = get->ask.rules;
        int64_t age_s = ageing_s() - atomic_load(&get->metadata->validated_s);
        get->validated = true;
        bool young = rules->freshness == FRESH_IMMUTABLE ||
                     age_s <= rules->ttl_s + rules->grace_s;
        get->answer.source = young ? GET_STALE : GET_STALE_IF_ERROR;
        return get_go(get, GET_FRESH);
    }
    missing_note(get, probe);
    return get_refuse(get, probe->refusal);
}
