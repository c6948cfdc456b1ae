/* validate.c - asks the origin whether a cached version is current.
 * SPDX-License-Identifier: Apache-2.0
 *
 * These are phases of a get (get.c). First a listing page may renew the object together with its
 * neighbours. If it does not, the get sends a HEAD, or joins one that is in progress. If the origin
 * is down, a copy that is not too old is served. */
#include "cache/getting.h"

#include "cache/missing.h"

enum err get_wait_for_page(struct get *get)
{
    if (!get->page) {
        get->seen_s = atomic_load(&get->metadata->validated_s);
        get->page = fresh_list_page(get->loop->cache->fresh, get->ask.rules, get->asker.who,
                                    &get->name, get->pages > 0);
    }
    if (!get->page)
        return get_go(get, GET_PROBE);
    enum list_page_state state = fresh_look(get->page, get->name.key, &get->waiter);
    if (state == PAGE_RUNNING)
        return ERR_WAIT;
    fresh_leave(&get->page, &get->waiter);
    get->pages++;
    /* renewals reach the metadata in the store, which may have left RAM meanwhile: look it up
     * anew */
    metadata_unref(&get->metadata);
    get->page_state = state;
    return get_find(get, GET_PAGE_OVER);
}

enum err get_judge_page(struct get *get)
{
    bool renewed = atomic_load(&get->metadata->validated_s) > get->seen_s;
    if (get->page_state != PAGE_MISSES)    /* one that has changed is not missing */
        fresh_missing(get->loop->cache->fresh, get->ask.rules, get->page_state == PAGE_LACKS);
    if (renewed) {
        get->validated = true;
        get->answer.source = GET_REVALIDATED;
        return get_go(get, GET_FRESH);
    }
    return get_go(get, get->page_state != PAGE_MISSES || get->pages > 1 ? GET_PROBE : GET_PAGE);
}

static unsigned part_of(const struct get *get)
{
    return get->part_asked ? get->ask.part : 0;
}

/* A probe already under way will do, unless it was sent before a client asked for the newest, or is
 * no proof that this one may have it. */
static struct fetch *shared_probe(struct get *get)    /* under the lock */
{
    struct fetch *probe = get_wants_newest(get) || get->upgrade
                              ? NULL : fetch_probe(get->inflight, get->asker.who, part_of(get));
    return probe && permit_shares(get, probe) ? fetch_join_this(probe) : NULL;
}

enum err get_probe_start(struct get *get)
{
    flights_lock(get->flights, &get->id);
    get_hook_in(get);
    get->fetch = shared_probe(get);
    fetch_joined(get->fetch, get->ask.list_id);
    if (!get->fetch) {
        get->fetch = fetch_start(get->inflight, FETCH_HEAD, &get->asker,
                                 get->part_asked ? get->metadata : NULL,
                                 &(struct fetch_span){ .part = part_of(get) });
        if (get->fetch)
            get->fetch->upgrade = get->upgrade;
    }
    flights_unlock(get->flights, &get->id);
    return get->fetch ? get_go(get, GET_ANSWER) : get_fail(get, ERR_SLOW_DOWN);
}

/* The HEAD does not say whether the bytes may be had: the first of them do. */
enum err get_prove(struct get *get)
{
    struct fetch_span span = { .end = MIN((uint64_t)UNIT_BYTES, get->metadata->size) };
    flights_lock(get->flights, &get->id);
    get_hook_in(get);
    get->fetch = fetch_start(get->inflight, FETCH_GET, &get->asker, get->metadata, &span);
    if (get->fetch)
        get->fetch->proof = true;
    flights_unlock(get->flights, &get->id);
    metadata_unref(&get->metadata);    /* it comes back with the answer */
    return get->fetch ? get_go(get, GET_ANSWER) : get_fail(get, ERR_SLOW_DOWN);
}

enum err get_judge_probe(struct get *get)
{
    struct fetch *probe = get->fetch;
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
        get->validated = true;
        get->answer.source = GET_STALE;
        return get_go(get, GET_FRESH);
    }
    missing_note(get, probe);
    return get_refuse(get, probe->refusal);
}
