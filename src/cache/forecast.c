/* forecast.c - explains what the cache would do with a get. SPDX-License-Identifier: Apache-2.0
 *
 * The get goes through its first phase, which finds the metadata. Then it makes the judgement on
 * which the next phase would act. So the explanation comes from the code that decides, and neither
 * the origin nor the cache notices. */
#include "cache/getting.h"

#include "base/clock.h"

static bool is_in_flight(struct get *get)
{
    if (flights_idle(get->of.flights, &get->of.id))
        return false;
    flights_lock(get->of.flights, &get->of.id);
    struct inflight *inflight = inflight_find(get->of.flights, &get->of.id);
    bool found = inflight && !list_empty(&inflight->fetches);
    inflight_unref(&inflight);
    flights_unlock(get->of.flights, &get->of.id);
    return found;
}

static const char *why_no_peers(const struct get *get, const struct metadata *metadata)
{
    slice ignored;
    return share_why_not(get->of.loop->cache, get->ask.rules->origin, metadata, &ignored);
}

static void add_facts(const struct metadata *metadata, struct get_forecast *ret)
{
    uint32_t granted = atomic_load(&metadata->granted);
    ret->confirmed_s = atomic_load(&metadata->validated_s);
    ret->proved = ret->confirmed_s || !atomic_load(&metadata->unproved);
    ret->refused = granted & GRANTED_REFUSED;
    ret->unshared = !granted && metadata->unshared;
}

enum err get_forecast(struct get *get, struct get_forecast *ret)
{
    check(get->magic == GET_MAGIC && get->phase <= GET_UNKNOWN);
    while (get->phase == GET_LOOK) {
        if (get->search.op)    /* metadata_came will be called */
            return ERR_WAIT;
        enum err err = get_look(get);
        if (err)
            return err;
    }
    uint64_t now_ms = ageing_ms(), until_ms = permit_until_ms(get, now_ms);
    *ret = (struct get_forecast){
        .metadata = get->metadata,
        .all_permitted = !origin_knows_identities(get->ask.rules->origin),
        .permitted_s = until_ms > now_ms ? (int64_t)((until_ms - now_ms + 999) / 1000) : 0,
        .in_flight = is_in_flight(get),
        .peers = get->of.loop->cache->peers,
        .why_no_peers = why_no_peers(get, get->metadata), .why_no_fleet = why_no_peers(get, NULL),
    };
    if (!get->metadata)
        return OK;
    add_facts(get->metadata, ret);
    ret->judgement = get_judge(get);
    return OK;
}
