/* plan.c - where the next bytes of a get come from. SPDX-License-Identifier: Apache-2.0
 *
 * The sources, in this order:
 *   - the flight (bytes that are being fetched, flight.h) from which the plan reads already;
 *   - another flight that has the bytes; a flight can be joined until the store has committed it,
 *     so a byte cannot leave the flights before it is in the store;
 *   - the store;
 *   - a fetch that will bring the bytes soon;
 *   - a fetch of the plan's own, for the run of units (128 KiB each) that is missing.
 * For a large read, window.c begins further fetches, for bytes behind these. */
#include "cache/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/metric.h"

#define COPY_BYTES 65536u         /* a reader's own copy while slots are scarce */
#define SHORT_COPY_BYTES 16384u   /* the same while read buffers are scarce */
/* A read with a window has given up the one connection that would have brought all of it. So it
 * asks so many times more before its client is cut. */
#define TRIES_MAX 3
#define MISSING_UNITS ((uint64_t)131072)    /* 16 GiB */

void plan_init(struct plan *plan, const struct reading *of, struct ticket *ticket)
{
    plan->of = of;
    plan->sources.waiter.ticket = ticket;
    list_init(&plan->sources.waiter.link);
}

void plan_hook_in(struct plan *plan)
{
    const struct reading *of = plan->of;
    if (!plan->sources.inflight)
        plan->sources.inflight = inflight_get(of->flights, &of->id, &of->name, of->rules);
}

void plan_begin(struct plan *plan, struct metadata *metadata, uint64_t first, uint64_t end,
                void *to)
{
    check(!plan->metadata && first < end && end <= metadata->size);
    plan->metadata = metadata;
    plan->first = plan->pos = first;
    plan->end = end;
    plan->to = to;
    streams_begin(plan->of->loop->cache->streams, plan);
}

static void leave_sources(struct plan *plan)
{
    struct sources *sources = &plan->sources;
    flights_lock(plan->of->flights, &plan->of->id);
    list_del(&sources->waiter.link);
    flight_unref(&sources->flight);
    streams_end(plan->of->loop->cache->streams, plan);
    window_close(plan);
    fetch_leave(&sources->fetch);
    inflight_unref(&sources->inflight);
    flights_unlock(plan->of->flights, &plan->of->id);
}

void plan_let_go(struct plan *plan)
{
    struct sources *sources = &plan->sources;
    read_ahead_drop(plan);
    if (sources->inflight || sources->fetch || sources->flight)    /* a hit needs no lock */
        leave_sources(plan);
    plan->metadata = NULL;
}

void plan_close(struct plan *plan)
{
    check(!plan->metadata && !plan->sources.inflight && !plan->ahead.count);
    object_bytes_release(&plan->run.held);
    free(plan->run.copy);
    refusal_unref(&plan->refusal);
}

static void copy_run(struct plan *plan, size_t bytes_max)
{
    plan->run.bytes.len = MIN(plan->run.bytes.len, bytes_max);
    free(plan->run.copy);
    plan->run.copy = must_alloc(plan->run.bytes.len);
    memcpy(plan->run.copy, plan->run.bytes.ptr, plan->run.bytes.len);
    plan->run.bytes.ptr = plan->run.copy;
}

/* A client that stops reading holds its run until its connection is cut. A copy of the run costs
 * less than a slot, for which all fetches wait. */
static void take_copy(struct plan *plan)
{
    copy_run(plan, COPY_BYTES);
    flights_lock(plan->of->flights, &plan->of->id);
    flight_unref(&plan->sources.flight);
    flights_unlock(plan->of->flights, &plan->of->id);
}

/* Sets the run to the next bytes of the plan's flight. ERR_MORE: the caller looks again, in this
 * flight or elsewhere. */
static enum err from_flight(struct plan *plan)
{
    struct flight *flight = plan->sources.flight;
    check(plan->pos >= flight->start);
    uint64_t at = plan->pos - flight->start;
    uint64_t filled = atomic_load(&flight->filled);
    if (at < filled) {
        uint64_t bytes = MIN(filled - at, plan->end - plan->pos);
        plan->run.bytes = (slice){ flight->bytes + at, MIN(bytes, (uint64_t)READ_BYTES_MAX) };
        plan->run.is_cached = false;
        plan->run.peer_end = atomic_load(&flight->peer_end);
        if (slots_scarce(plan->of->flights))
            take_copy(plan);
        return OK;
    }
    enum err err = ERR_MORE;
    flights_lock(plan->of->flights, &plan->of->id);
    filled = atomic_load(&flight->filled);
    if (at >= filled && flight->fetch) {
        waiter_add(&flight->waiters, &plan->sources.waiter);
        window_widen(plan);
        err = ERR_WAIT;
    } else if (at >= filled) {    /* the flight has ended before the byte */
        flight_unref(&plan->sources.flight);
    }
    flights_unlock(plan->of->flights, &plan->of->id);
    return err;
}

static void read_fetch(struct plan *plan, struct fetch *fetch)    /* under the lock */
{
    if (!fetch || fetch == plan->sources.fetch)
        return;
    struct fetch *joined = fetch_join_this(fetch);
    fetch_joined(fetch, &plan->of->asker);
    fetch_leave(&plan->sources.fetch);
    plan->sources.fetch = joined;
}

/* A paused stream that is not stored may be behind its reader, if the first span of the window has
 * brought the next bytes and is over. Then no reader needs the rest of the stream. */
static void leave_passed(struct plan *plan)    /* under the lock */
{
    const struct fetch *fetch = plan->sources.fetch;
    if (fetch && fetch->answered && !fetch->ahead.began && !fetch->admission.stores &&
        fetch->next <= plan->pos && plan->window.cut && plan->pos >= plan->window.cut)
        fetch_leave(&plan->sources.fetch);
}

static bool brings_the_rest(const struct plan *plan, const struct fetch *fetch)
{
    bool reads = fetch && fetch == plan->sources.fetch;    /* its bytes stay, even if it is over */
    return fetch && (reads || (!fetch->over && !fetch->canceled)) && fetch->end >= plan->end &&
           fetch->metadata && fetch->metadata->etag_hash == plan->metadata->etag_hash;
}

/* Without a strong ETag, no other answer can continue the one whose bytes the plan finds. So a plan
 * begins to read one only if all of its bytes will come from there. */
static bool may_begin(const struct plan *plan, uint64_t end, const struct fetch *fetch)
{
    return plan->pos > plan->first || end >= plan->end || brings_the_rest(plan, fetch) ||
           brings_the_rest(plan, plan->sources.fetch) || learn_has_strong_etag(plan->metadata);
}

/* Finds a flight that has the byte, or will have it, and makes it the plan's flight. */
static bool board(struct plan *plan)    /* under the lock */
{
    struct sources *sources = &plan->sources;
    check(!sources->flight);
    if (!sources->inflight)
        sources->inflight = inflight_find(plan->of->flights, &plan->of->id);
    if (!sources->inflight)
        return false;
    sources->flight = flight_find(sources->inflight, plan->metadata->etag_hash, plan->pos);
    const struct flight *found = sources->flight;
    if (found && !may_begin(plan, found->start + found->length, found->fetch))
        flight_unref(&sources->flight);
    if (sources->flight) {
        read_fetch(plan, sources->flight->fetch);
        leave_passed(plan);
        plan->tries = 0;
    }
    if (sources->fetch)
        fetch_progress(sources->fetch, plan->pos);
    window_fill(plan);
    return sources->flight != NULL;
}

/* True if a small object whose metadata was missing or bad is being fetched with all its bytes. The
 * plan then does not read from the store: otherwise the fetch would end without a reader, and the
 * metadata would not be stored. */
static bool comes_whole(const struct plan *plan)    /* under the lock */
{
    const struct fetch *fetch = plan->sources.fetch;
    return fetch && fetch->answered && !fetch->asked.known_metadata && !fetch->over &&
           !fetch->canceled &&
           fetch->metadata->size <= WHOLE_BYTES_MAX && plan->pos >= fetch->next &&
           plan->pos < fetch->end;
}

/* While read buffers are scarce, a small copy costs less than a buffer for a whole piece. */
static void take_short_copy(struct plan *plan)
{
    copy_run(plan, SHORT_COPY_BYTES);
    object_bytes_release(&plan->run.held);
    read_ahead_drop(plan);    /* these reads begin behind the whole piece */
    metric_add(M_STORE_SHORT_PIECES, 1);
}

/* Returns the place in the caller's memory for the byte at pos. */
static struct store_to place_for(const struct plan *plan)
{
    return (struct store_to){ plan->to ? plan->to + (plan->pos - plan->first) : NULL,
                              plan->of->lends, plan->of->asker.ahead, plan->of->asker.among };
}

static enum err from_store(struct plan *plan)
{
    bool scarce = !plan->to && store_held_bytes_scarce(plan->of->loop->io);
    uint64_t end = scarce ? MIN(plan->end, plan->pos + SHORT_COPY_BYTES) : plan->end;
    enum err err = read_ahead_take(plan, end, place_for(plan), &plan->run.held);
    if (err == OK) {
        plan->run.bytes = plan->run.held.bytes;
        plan->run.is_cached = true;
        check(plan->run.bytes.len > 0 && plan->run.bytes.len <= plan->end - plan->pos);
        if (scarce && !object_bytes_are_lent(&plan->run.held))    /* lent bytes need no buffer */
            take_short_copy(plan);
    }
    return err;
}

/* One fetch asks for MISSING_UNITS at most, and the store's search ends after a limited number of
 * look-ups, because it holds the object's lock. */
struct fetch_span plan_gap(const struct plan *plan, uint64_t from, uint64_t to)
{
    struct inflight *inflight = plan->sources.inflight;
    check(from < to && to <= plan->metadata->size);
    uint64_t etag_hash = plan->metadata->etag_hash, first = from / UNIT_BYTES;
    uint64_t count = MIN((to - 1) / UNIT_BYTES - first + 1, MISSING_UNITS);
    uint64_t next = store_next_unit(cache_store(plan->of->loop->cache), plan->metadata, first + 1,
                                    count - 1, plan->of->asker.among);
    struct fetch_span span = {
        .first = first * UNIT_BYTES,
        .end = MIN(next * UNIT_BYTES, plan->metadata->size),
    };
    list_each(struct flight, flight, &inflight->flying, link)
        if (flight->metadata->etag_hash == etag_hash && flight->start > span.first)
            span.end = MIN(span.end, flight->start);
    span.end = MIN(span.end, fetch_next_claim(inflight, etag_hash, span.first));
    if (peers_answer(plan->of->loop->cache->peers))    /* each segment has an owner of its own */
        span.end = MIN(span.end, peers_segment_end(span.first));
    if (plan->sources.slow)    /* bytes that no reader comes to would cost bandwidth */
        span.end = MIN(span.end, span.first + cache_ahead_max(plan->of->loop->cache));
    return span;
}

/* Returns why the plan's fetch will not bring the byte, or OK if the plan may ask again. */
static enum err why_over(struct plan *plan)    /* under the lock */
{
    struct fetch *fetch = plan->sources.fetch;
    if (!fetch || !fetch->over || !fetch->err || fetch->err == ERR_CANCELED ||
        fetch->next > plan->pos)
        return OK;
    if (fetch->ahead.began && fetch->err != ERR_CHANGED)
        return OK;    /* no reader waited for it: now one does */
    if (fetch->err == ERR_CHANGED)
        return ERR_CHANGED;
    if (!identity_same(fetch->asked.as.who, plan->of->asker.who))
        return OK;    /* another identity was refused: the plan asks as its own */
    if (plan->window.next && refusal_is_outage(fetch->refusal) && plan->tries++ < TRIES_MAX)
        return OK;
    refusal_unref(&plan->refusal);
    plan->refusal = refusal_ref(fetch->refusal);
    return fetch->refusal->err ? fetch->refusal->err : ERR_ORIGIN_CUT;
}

static enum err from_origin(struct plan *plan)
{
    struct sources *sources = &plan->sources;
    enum err err = ERR_WAIT;
    flights_lock(plan->of->flights, &plan->of->id);
    plan_hook_in(plan);
    if (board(plan)) {
        err = ERR_MORE;
    } else if ((err = why_over(plan)) == OK) {
        uint64_t etag_hash = plan->metadata->etag_hash;
        struct fetch *fetch = fetch_join(sources->inflight, etag_hash, plan->pos,
                                         plan->of->asker.for_peer);
        /* Without a strong ETag, no other fetch can bring the byte. */
        bool provable = learn_has_strong_etag(plan->metadata);
        if (fetch && !may_begin(plan, 0, fetch))
            fetch_leave(&fetch);
        fetch_joined(fetch, &plan->of->asker);
        sources->slow |= sources->fetch && sources->fetch->stream.outran;
        if (!fetch && provable) {
            struct fetch_span span = plan_gap(plan, plan->pos, plan->end);
            fetch = fetch_start(sources->inflight, FETCH_GET, &plan->of->asker, plan->metadata,
                                &span);
        }
        if (fetch) {
            fetch_leave(&sources->fetch);
            sources->fetch = fetch;
            fetch_progress(fetch, plan->pos);    /* it may be paused for a slower reader */
            waiter_add(&fetch->readers.waiters, &sources->waiter);
            err = ERR_WAIT;
        } else {
            err = provable ? ERR_SLOW_DOWN : ERR_CHANGED;
        }
    }
    flights_unlock(plan->of->flights, &plan->of->id);
    return err;
}

enum err plan_pull(struct plan *plan)
{
    if (plan->run.bytes.len)    /* pulled before, not handed out yet */
        return OK;
    object_bytes_release(&plan->run.held);
    const struct sources *sources = &plan->sources;
    for (;;) {
        enum err err;
        bool coming = false;
        if (sources->flight) {
            err = from_flight(plan);
            if (err == OK || err == ERR_WAIT)
                return err;
            continue;
        }
        if (!plan->ahead.count &&
            (sources->inflight || !flights_idle(plan->of->flights, &plan->of->id))) {
            flights_lock(plan->of->flights, &plan->of->id);
            bool boarded = board(plan);
            coming = comes_whole(plan);
            flights_unlock(plan->of->flights, &plan->of->id);
            if (boarded)
                continue;
        }
        err = coming ? ERR_NOT_FOUND : from_store(plan);
        if (err == OK || err == ERR_WAIT || err == ERR_FAULT)
            return err;
        err = from_origin(plan);
        if (err != ERR_MORE)
            return err;
    }
}

/* True if the fetch has brought this byte. A plan becomes the reader of a fetch only at a byte that
 * is not cached and that the fetch brings. So this byte and those behind it, which the fetch has
 * brought since then, are no hits, although they may be in the store by now. */
static bool brought(const struct fetch *fetch, uint64_t offset)
{
    return fetch && fetch->answered && fetch->stream.first <= offset && offset < fetch->next;
}

struct run_source plan_run_source(struct plan *plan)
{
    const struct fetch *fetch = plan->sources.fetch;
    uint64_t run_end = plan->pos + plan->run.bytes.len;
    struct run_source source = { plan->run.peer_end, run_end };
    if (plan->run.is_cached) {
        source = (struct run_source){ plan->pos, plan->pos };
        if (fetch || plan->window.count) {    /* a hit needs no lock */
            flights_lock(plan->of->flights, &plan->of->id);
            if (!window_brought(plan, &source) && brought(fetch, plan->pos))
                source = (struct run_source){ fetch->stream.peer_end, fetch->next };
            flights_unlock(plan->of->flights, &plan->of->id);
        }
    }
    source.origin_end = MIN(MAX(source.origin_end, plan->pos), run_end);
    source.peer_end = MIN(MAX(source.peer_end, plan->pos), source.origin_end);
    return source;
}

void plan_advance(struct plan *plan)
{
    plan->pos += plan->run.bytes.len;
    plan->run.bytes = (slice){ 0 };
    if (plan->run.is_cached && !plan->to)
        read_ahead_go_on(plan);
}
