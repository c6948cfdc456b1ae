/* cache.c - the cache as a whole, its loops, and refusals. SPDX-License-Identifier: Apache-2.0
 *
 * This file makes and frees what the other files of the cache share: the cache itself, its part on
 * each loop, and refusals, which are counted references to an error answer of an origin. It also
 * counts the fetches in progress. */
#include "cache/cache.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/metric.h"
#include "base/raise.h"
#include "cache/fresh.h"
#include "cache/inside.h"
#include "cache/lists.h"
#include "cache/missing.h"
#include "cache/parts.h"
#include "cache/read_trace.h"
#include "cache/streams.h"

#define AHEAD_LEAST (2 * GROUP_BYTES)

static bool is_empty(struct store *store)
{
    bool empty = true;
    for (size_t i = 0; i < store_folder_count(store) && empty; i++) {
        struct store_status status;
        store_folder_status(store, i, &status);
        empty = status.serving && !status.entries;
    }
    return empty;
}

struct cache *cache_new(const struct cache_options *options)
{
    check(options->store && options->fetches_max > 0);
    struct cache *cache = must_alloc(sizeof(*cache));
    cache->store = options->store;
    cache->fetches_max = options->fetches_max;
    cache->flights = flights_new(cache, options->slots_bytes);
    cache->fresh = fresh_new(cache);
    cache->missing = missing_new(options->missing_ms);
    cache->parts = parts_new();
    cache->streams = streams_new();
    cache->grants = grants_new(options->grants_bytes);
    cache->began_ms = ageing_ms();
    atomic_init(&cache->knows_from_ms, is_empty(cache->store) ? cache->began_ms : 0);
    cache->trace = read_trace_new();
    cache->lists = lists_new(cache, options->lists_ms, options->lists_bytes);
    return cache;
}

void cache_share(struct cache *cache, struct peers *peers)
{
    cache->peers = peers;
}

struct peers *cache_peers(struct cache *cache)
{
    return cache->peers;
}

bool cache_is_older(const struct cache *cache, uint64_t at_ms)
{
    return at_ms >= atomic_load(&cache->knows_from_ms);
}

void cache_purge_begins(struct cache *cache)
{
    raise_64(&cache->purged_ms, ageing_ms());
}

void cache_stop(struct cache *cache)
{
    atomic_store(&cache->stopping, true);
}

void cache_free(struct cache **cache)
{
    struct cache *mine = *cache;
    *cache = NULL;
    if (!mine)
        return;
    cache_stop(mine);
    while (flights_objects(mine->flights) > 0)    /* the committer has them for a moment yet */
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    lists_free(&mine->lists);
    read_trace_free(&mine->trace);
    missing_free(&mine->missing);
    parts_free(&mine->parts);
    streams_free(&mine->streams);
    fresh_free(&mine->fresh);
    grants_free(&mine->grants);
    flights_free(&mine->flights);
    check(atomic_load(&mine->fetches) == 0);    /* the origins are gone before us */
    free(mine);
}

struct read_trace *cache_trace(struct cache *cache)
{
    return cache->trace;
}

struct store *cache_store(struct cache *cache)
{
    return cache->store;
}

bool cache_is_idle(struct cache *cache, const struct object_id *id)
{
    if (flights_idle(cache->flights, id))
        return true;
    flights_lock(cache->flights, id);
    struct inflight *inflight = inflight_find(cache->flights, id);
    bool idle = !inflight;
    inflight_unref(&inflight);
    flights_unlock(cache->flights, id);
    return idle;
}

uint64_t cache_ahead_max(struct cache *cache)
{
    size_t objects = MAX(flights_objects(cache->flights), (size_t)1);
    uint64_t share = store_capacity(cache->store) / 2 / objects;
    return MAX(share / GROUP_BYTES * GROUP_BYTES, (uint64_t)AHEAD_LEAST);
}

bool cache_fetch_may_begin(struct cache *cache)
{
    if (cache_is_stopping(cache))
        return false;
    if (atomic_fetch_add(&cache->fetches, 1) >= cache->fetches_max) {
        atomic_fetch_sub(&cache->fetches, 1);
        metric_add(M_CACHE_FETCHES_REFUSED, 1);
        return false;
    }
    return true;
}

void cache_fetch_ended(struct cache *cache)
{
    check(atomic_fetch_sub(&cache->fetches, 1) > 0);
}

bool cache_fetches_scarce(struct cache *cache)
{
    return atomic_load(&cache->fetches) >= cache->fetches_max / 2;
}

bool cache_is_stopping(struct cache *cache)
{
    return atomic_load_explicit(&cache->stopping, memory_order_relaxed);
}

struct cache_loop *cache_loop_new(struct cache *cache, struct mailbox *box)
{
    struct cache_loop *loop = must_alloc(sizeof(*loop));
    loop->cache = cache;
    loop->box = box;
    loop->io = store_io_new(cache->store, box);
    list_init(&loop->background);
    list_init(&loop->populates);
    return loop;
}

void cache_loop_free(struct cache_loop **loop)
{
    if (!*loop)
        return;
    background_end_all(*loop);
    populate_end_all(*loop);
    store_io_free(&(*loop)->io);
    free(*loop);
    *loop = NULL;
}

void cache_loop_turn(struct cache_loop *loop)
{
    store_io_reap(loop->io);
}

void cache_loop_plug(struct cache_loop *loop)
{
    store_io_plug(loop->io);
}

void cache_loop_unplug(struct cache_loop *loop)
{
    store_io_unplug(loop->io);
}

/* ---- refusals ---- */

/* A fetch never asks for "if it has changed", and a success without an object is none: such answers
 * make no sense. */
static bool may_be_handed_on(int status)
{
    return status == 0 || (status >= 300 && status != 304);
}

struct refusal *refusal_new(enum err err, int status, slice content_type, slice fields, slice body)
{
    if (!may_be_handed_on(status)) {
        err = ERR_ORIGIN_REPLY;
        status = 0;
    }
    check(err != OK);
    struct refusal *refusal =
        must_alloc(sizeof(*refusal) + content_type.len + fields.len + body.len);
    char *text = (char *)(refusal + 1);
    atomic_init(&refusal->refs, 1);
    refusal->err = err;
    refusal->status = status;
    refusal->content_type = (slice){ text, slice_put(text, content_type) };
    text += content_type.len;
    refusal->fields = (slice){ text, slice_put(text, fields) };
    text += fields.len;
    refusal->body = (slice){ text, slice_put(text, body) };
    return refusal;
}

struct refusal *refusal_ref(struct refusal *refusal)
{
    check(atomic_fetch_add(&refusal->refs, 1) > 0);
    return refusal;
}

void refusal_unref(struct refusal **refusal)
{
    struct refusal *mine = *refusal;
    *refusal = NULL;
    if (!mine)
        return;
    unsigned before = atomic_fetch_sub(&mine->refs, 1);
    check(before > 0);
    if (before == 1)
        free(mine);
}

bool refusal_is_outage(const struct refusal *refusal)
{
    if (refusal->err == ERR_ORIGIN_KEYS)    /* somebody revoked the credentials on purpose */
        return false;
    return refusal->status == 0 || refusal->status >= 500 || refusal->status == 429;
}
