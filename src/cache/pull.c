/* pull.c - where a get's next bytes come from. SPDX-License-Identifier: Apache-2.0
 *
 * The sources, in this order:
 *   - the flight (bytes that are being fetched, flight.h) from which the get reads already;
 *   - another flight that has the bytes; a flight can be joined until the store has committed it,
 *     so a byte cannot leave the flights before it is in the store;
 *   - the store;
 *   - a fetch that will bring the bytes soon;
 *   - a fetch of the get's own, for the run of units (128 KiB each) that is missing. */
#include "cache/getting.h"

#include <stdlib.h>
#include <string.h>

#include "base/metric.h"

#define RUN_UNITS ((uint64_t)131072)    /* 16 GiB */

static void copy_ready(struct get *get, size_t bytes_max)
{
    get->ready.len = MIN(get->ready.len, bytes_max);
    free(get->copy);
    get->copy = must_alloc(get->ready.len);
    memcpy(get->copy, get->ready.ptr, get->ready.len);
    get->ready.ptr = get->copy;
}

/* A client that takes nothing holds what it was given until it is cut: a copy costs less than a
 * slot that everybody waits for. */
static void take_copy(struct get *get)
{
    copy_ready(get, COPY_BYTES);
    flights_lock(get->flights, &get->id);
    flight_unref(&get->flight);
    flights_unlock(get->flights, &get->id);
}

/* More of the flight it is in? ERR_MORE: the caller looks again, there or elsewhere. */
static enum err from_flight(struct get *get)
{
    struct flight *flight = get->flight;
    uint64_t at = get->pos - flight->start;
    uint64_t filled = atomic_load(&flight->filled);
    if (at < filled) {
        uint64_t bytes = MIN(filled - at, get->end - get->pos);
        get->ready = (slice){ flight->bytes + at, MIN(bytes, (uint64_t)READ_BYTES_MAX) };
        get->held_is_cached = false;
        if (slots_scarce(get->flights))
            take_copy(get);
        return OK;
    }
    enum err err = ERR_MORE;
    flights_lock(get->flights, &get->id);
    filled = atomic_load(&flight->filled);
    if (at >= filled && flight->fetch) {
        waiter_add(&flight->waiters, &get->waiter);
        err = ERR_WAIT;
    } else if (at >= filled) {    /* it has ended before the byte */
        flight_unref(&get->flight);
    }
    flights_unlock(get->flights, &get->id);
    return err;
}

static void read_fetch(struct get *get, struct fetch *fetch)    /* under the lock */
{
    if (!fetch || fetch == get->fetch)
        return;
    struct fetch *joined = fetch_join_this(fetch);
    fetch_leave(&get->fetch);
    get->fetch = joined;
}

/* A flight that has, or will have, the byte. */
static bool board(struct get *get)    /* under the lock */
{
    struct inflight *inflight =
        get->inflight ? get->inflight : inflight_find(get->flights, &get->id);
    if (!inflight)
        return false;
    get->inflight = inflight;
    if (get->fetch)
        fetch_progress(get->fetch, get->pos);
    get->flight = flight_find(inflight, get->metadata->etag_hash, get->pos);
    if (get->flight)
        read_fetch(get, get->flight->fetch);
    return get->flight != NULL;
}

/* True if a small object whose metadata was missing or bad is being fetched with all its bytes. The
 * get then does not read from the store: otherwise the fetch would end without a reader, and the
 * metadata would not be stored. */
static bool comes_whole(const struct get *get)    /* under the lock */
{
    const struct fetch *fetch = get->fetch;
    return fetch && fetch->answered && !fetch->known_metadata && !fetch->over && !fetch->canceled &&
           fetch->metadata->size <= WHOLE_BYTES_MAX && get->pos >= fetch->next &&
           get->pos < fetch->end;
}

/* And a small one costs less than a buffer that takes a whole piece. */
static void take_short_copy(struct get *get)
{
    copy_ready(get, SHORT_COPY_BYTES);
    object_bytes_release(&get->held);
    read_ahead_drop(get);    /* it lies behind the whole piece */
    metric_add(M_STORE_SHORT_PIECES, 1);
}

/* In the caller's memory, where the next byte belongs. */
static void *place_for(const struct get *get)
{
    return get->ask.to ? (char *)get->ask.to + (get->pos - get->answer.first) : NULL;
}

static enum err from_store(struct get *get)
{
    bool scarce = !get->ask.to && store_held_bytes_scarce(get->loop->io);
    uint64_t end = scarce ? MIN(get->end, get->pos + SHORT_COPY_BYTES) : get->end;
    enum err err = read_ahead_take(get, end, place_for(get), &get->held);
    if (err == OK) {
        get->ready = get->held.bytes;
        get->held_is_cached = true;
        check(get->ready.len > 0 && get->ready.len <= get->end - get->pos);
        if (scarce)
            take_short_copy(get);
    }
    return err;
}

/* From the unit of pos to the next that is here, is coming, or is not wanted. One fetch asks for
 * RUN_UNITS at most, and the store's search ends after a limited number of look-ups, because it
 * holds the object's lock. */
static struct fetch_span missing_run(struct get *get)    /* under the lock */
{
    uint64_t first = get->pos / UNIT_BYTES;
    uint64_t count = MIN((get->end - 1) / UNIT_BYTES - first + 1, RUN_UNITS);
    uint64_t next = store_next_unit(cache_store(get->loop->cache), get->metadata, first + 1,
                                    count - 1);
    struct fetch_span span = {
        .first = first * UNIT_BYTES,
        .end = MIN(next * UNIT_BYTES, get->metadata->size),
    };
    list_each(struct flight, flight, &get->inflight->flying, link)
        if (flight->metadata->etag_hash == get->metadata->etag_hash && flight->start > span.first)
            span.end = MIN(span.end, flight->start);
    span.end = MIN(span.end, fetch_next_claim(get->inflight, get->metadata->etag_hash, span.first));
    if (get->slow)    /* bytes that are fetched in vain cost bandwidth, too */
        span.end = MIN(span.end, span.first + cache_ahead_max(get->loop->cache));
    return span;
}

/* Why the fetch we read from will not bring the byte. */
static enum err why_over(struct get *get)    /* under the lock */
{
    struct fetch *fetch = get->fetch;
    if (!fetch || !fetch->over || !fetch->err || fetch->err == ERR_CANCELED ||
        fetch->next > get->pos)
        return OK;
    if (fetch->err == ERR_CHANGED)
        return ERR_CHANGED;
    if (!identity_same(fetch->asker.who, get->asker.who))
        return OK;    /* refused to another, not to us: we ask in our own name */
    refusal_unref(&get->refusal);
    get->refusal = refusal_ref(fetch->refusal);
    return fetch->refusal->err ? fetch->refusal->err : ERR_ORIGIN_CUT;
}

static enum err from_origin(struct get *get)
{
    enum err err = ERR_WAIT;
    flights_lock(get->flights, &get->id);
    get_hook_in(get);
    if (board(get)) {
        err = ERR_MORE;
    } else if ((err = why_over(get)) == OK) {
        struct fetch *fetch = fetch_join(get->inflight, get->metadata->etag_hash, get->pos);
        bool provable = learn_has_strong_etag(get->metadata);    /* else nobody else can bring it */
        fetch_joined(fetch, get->ask.list_id);
        get->slow |= get->fetch && get->fetch->outran;
        if (!fetch && provable) {
            struct fetch_span span = missing_run(get);
            fetch = fetch_start(get->inflight, FETCH_GET, &get->asker, get->metadata, &span);
        }
        if (fetch) {
            fetch_leave(&get->fetch);
            get->fetch = fetch;
            fetch_progress(fetch, get->pos);    /* it may be paused for a slower reader */
            waiter_add(&fetch->waiters, &get->waiter);
            err = ERR_WAIT;
        } else {
            err = provable ? ERR_SLOW_DOWN : ERR_CHANGED;
        }
    }
    flights_unlock(get->flights, &get->id);
    return err;
}

enum err get_pull(struct get *get)
{
    if (get->ready.len)    /* pulled before, not handed out yet */
        return OK;
    object_bytes_release(&get->held);
    for (;;) {
        enum err err;
        bool coming = false;
        if (get->flight) {
            err = from_flight(get);
            if (err == OK || err == ERR_WAIT)
                return err;
            continue;
        }
        if (!get->ahead.count && (get->inflight || !flights_idle(get->flights, &get->id))) {
            flights_lock(get->flights, &get->id);
            bool boarded = board(get);
            coming = comes_whole(get);
            flights_unlock(get->flights, &get->id);
            if (boarded)
                continue;
        }
        err = coming ? ERR_NOT_FOUND : from_store(get);
        if (err == OK || err == ERR_WAIT || err == ERR_FAULT)
            return err;
        err = from_origin(get);
        if (err != ERR_MORE)
            return err;
    }
}
