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
    struct page_wait *pages = &get->pages;
    struct waiter *waiter = &get->plan.sources.waiter;
    if (!pages->page) {
        pages->seen_s = atomic_load(&get->metadata->validated_s);
        pages->page = fresh_list_page(get->of.loop->cache->fresh, get->ask.rules,
                                      &get->of.asker, &get->of.name, pages->count > 0);
    }
    if (!pages->page)
        return get_go(get, GET_PROBE);
    enum list_page_state state = fresh_look(pages->page, get->of.name.key, waiter);
    if (state == PAGE_RUNNING)
        return ERR_WAIT;
    fresh_leave(&pages->page, waiter);
    pages->count++;
    /* The page renewed the metadata of the store. This get's metadata may have left the store's RAM
     * meanwhile, so it is looked up again. */
    metadata_unref(&get->metadata);
    pages->state = state;
    return get_find(get, GET_PAGE_OVER);
}

enum err get_judge_page(struct get *get)
{
    check(!get->pages.page && get->pages.state != PAGE_RUNNING);
    bool renewed = atomic_load(&get->metadata->validated_s) > get->pages.seen_s;
    if (get->pages.state != PAGE_MISSES)    /* a key that has changed is not missing */
        fresh_missing(get->of.loop->cache->fresh, get->ask.rules, get->pages.state == PAGE_LACKS);
    if (renewed) {
        get->validated = true;
        get->answer.source = GET_REVALIDATED;
        return get_go(get, GET_FRESH);
    }
    bool last = get->pages.state != PAGE_MISSES || get->pages.count > 1;
    return get_go(get, last ? GET_PROBE : GET_PAGE);
}

static unsigned part_of(const struct get *get)
{
    return get->part.asked ? get->ask.part : 0;
}

/* Joins a HEAD in progress. Returns NULL if the client wants the newest answer, or if the HEAD
 * would not prove the right of this get. */
static struct fetch *shared_probe(struct get *get)    /* under the lock */
{
    if (get_wants_newest(get) || get->search.upgrade)
        return NULL;
    struct fetch *probe =
        fetch_probe(get->plan.sources.inflight, get->of.asker.who, part_of(get));
    return probe && permit_shares(get, probe) ? fetch_join_this(probe) : NULL;
}

enum err get_probe_start(struct get *get)
{
    struct sources *sources = &get->plan.sources;
    struct fetch_span span = { .part = part_of(get) };
    flights_lock(get->of.flights, &get->of.id);
    check(!sources->fetch);
    plan_hook_in(&get->plan);
    sources->fetch = shared_probe(get);
    fetch_joined(sources->fetch, &get->of.asker);
    if (!sources->fetch) {
        sources->fetch = fetch_start(sources->inflight, FETCH_HEAD, &get->of.asker,
                                     get->part.asked ? get->metadata : NULL, &span);
        if (sources->fetch)
            sources->fetch->asked.upgrade = get->search.upgrade;
    }
    flights_unlock(get->of.flights, &get->of.id);
    return sources->fetch ? get_go(get, GET_ANSWER) : get_fail(get, ERR_SLOW_DOWN);
}

/* The HEAD does not prove the right to the bytes, so a GET asks for the first of them. */
enum err get_prove(struct get *get)
{
    struct sources *sources = &get->plan.sources;
    struct fetch_span span = { .end = MIN((uint64_t)UNIT_BYTES, get->metadata->size) };
    flights_lock(get->of.flights, &get->of.id);
    check(!sources->fetch);
    plan_hook_in(&get->plan);
    sources->fetch = fetch_start(sources->inflight, FETCH_GET, &get->of.asker, get->metadata,
                                 &span);
    if (sources->fetch)
        sources->fetch->asked.proof = true;
    flights_unlock(get->of.flights, &get->of.id);
    metadata_unref(&get->metadata);    /* the answer brings it again */
    return sources->fetch ? get_go(get, GET_ANSWER) : get_fail(get, ERR_SLOW_DOWN);
}

enum err get_judge_probe(struct get *get)
{
    struct fetch *probe = get->plan.sources.fetch;
    check(probe->over && probe->asked.kind == FETCH_HEAD);
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
