/* fetch.c - one origin GET or HEAD: starting, joining and leaving it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This file has the functions for readers, all under the object's lock. deliver.c has the functions
 * that run on an origin thread. */
#include "cache/fetch.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/metric.h"
#include "base/span.h"
#include "cache/inside.h"
#include "s3/encode.h"

void fetch_drop_kept(struct fetch *fetch)
{
    for (size_t i = 0; i < UNSTORED_KEPT; i++)
        flight_unref(&fetch->stream.kept[i]);
}

bool fetch_keeps_bytes(const struct fetch *fetch)
{
    for (size_t i = 0; i < UNSTORED_KEPT; i++)
        if (fetch->stream.kept[i])
            return true;
    return false;
}

void fetch_free(struct fetch *fetch)
{
    check(fetch->magic == FETCH_MAGIC && fetch->over);
    check(!fetch->readers.count && !fetch->stream.current);
    check(list_empty(&fetch->link) && list_empty(&fetch->readers.waiters));
    slots_forget(fetch->inflight->flights, fetch);
    fetch_drop_kept(fetch);
    fetch_give_back(fetch);
    metadata_unref(&fetch->metadata);
    refusal_unref(&fetch->refusal);
    arena_free(&fetch->request.arena);
    struct cache *cache = fetch->inflight->cache;
    inflight_unref(&fetch->inflight);
    fetch->magic = 0;
    free(fetch);
    cache_fetch_ended(cache);
}

/* ---- asking ---- */

static slice query_of(struct fetch *fetch)
{
    struct text query = text_in(&fetch->request.arena);
    if (fetch->inflight->name.version.len) {
        text_add(&query, S("versionId="));
        uri_encode(&query, fetch->inflight->name.version, true);
    }
    if (fetch->asked.span.part)
        text_printf(&query, "%spartNumber=%u", query.len ? "&" : "", fetch->asked.span.part);
    return text_slice(&query);
}

/* A fetch that has lost its readers before it is sent is not sent: the other calls in the origin's
 * queue then come sooner. From then on, no reader can join it. */
static enum err may_send(struct origin_call *call, bool again)
{
    (void)again;
    struct fetch *fetch = container_of(call, struct fetch, request.call);
    struct inflight *inflight = fetch->inflight;
    flights_lock(inflight->flights, &inflight->id);
    fetch->canceled |= !fetch->readers.count && !fetch->ahead.detached;
    enum err err = fetch->canceled ? ERR_CANCELED : OK;
    flights_unlock(inflight->flights, &inflight->id);
    return err;
}

static bool is_awaited(struct origin_call *call)
{
    struct fetch *fetch = container_of(call, struct fetch, request.call);
    struct inflight *inflight = fetch->inflight;
    flights_lock(inflight->flights, &inflight->id);
    bool awaited = fetch->readers.count && !fetch->canceled;
    flights_unlock(inflight->flights, &inflight->id);
    return awaited;
}

/* Asks other nodes before the origin. A fetch that asks again, because its answer was cut, asks the
 * origin. Returns false if the origin must be asked. */
static bool ask_peers(struct fetch *fetch, uint64_t first, uint64_t end)
{
    struct cache *cache = fetch->inflight->cache;
    struct origin *origin = fetch->inflight->rules->origin;
    struct peer_question question = { .place.version = fetch->inflight->name.version,
                                      .etag = S(""), .first = first, .end = end };
    fetch->request.at_peers = false;
    if (!share_question(fetch, &question))
        return false;
    fetch->request.at_peers = peers_start(cache->peers, origin, &fetch->request.call, &question);
    return fetch->request.at_peers;
}

static slice range_of(struct fetch *fetch, uint64_t first, uint64_t end)
{
    struct arena *keep = &fetch->request.arena;
    uint64_t suffix = fetch->answered ? 0 : fetch->asked.span.suffix;
    return suffix          ? arena_printf(keep, "bytes=-%" PRIu64, suffix)
         : end == NO_END   ? arena_printf(keep, "bytes=%" PRIu64 "-", first)
                           : arena_printf(keep, "bytes=%" PRIu64 "-%" PRIu64, first, end - 1);
}

void fetch_send(struct fetch *fetch)
{
    size_t count = 0;
    const struct fetch_span *span = &fetch->asked.span;
    uint64_t first = fetch->answered ? fetch->next : span->first;
    uint64_t end = fetch->answered ? fetch->end : span->end;
    fetch->request.fields[count++] = (struct http_field){ S("x-amz-checksum-mode"), S("ENABLED") };
    if (fetch->asked.kind == FETCH_GET && (fetch->answered || !span->plain)) {
        check(first < end);
        slice range = range_of(fetch, first, end);
        fetch->request.fields[count++] = (struct http_field){ S("range"), range };
    }
    bool of_known = fetch->asked.kind == FETCH_GET || fetch->asked.span.part;
    if (fetch->metadata && of_known && learn_has_strong_etag(fetch->metadata) &&
        guard_on(GUARD_IF_MATCH))
        fetch->request.fields[count++] =
            (struct http_field){ S("if-match"), fetch->metadata->etag };
    check(count <= countof(fetch->request.fields));
    fetch->request.call = (struct origin_call){
        .events = &deliver_events,
        .may_send = may_send,
        .is_awaited = is_awaited,
        .op = fetch->asked.kind == FETCH_GET ? S3_GET_OBJECT : S3_HEAD_OBJECT,
        .bucket = fetch->inflight->name.bucket,
        .key = fetch->inflight->name.key,
        .query = query_of(fetch),
        .fields = fetch->request.fields,
        .field_count = count,
        .as = identity_as(fetch->asked.as.who),
        .list_id = fetch->asked.as.list_id,
        .rank = fetch->asked.as.rank,
        .trace = fetch->request.trace,
    };
    if (!ask_peers(fetch, first, end))
        origin_start(fetch->inflight->rules->origin, &fetch->request.call);
}

struct fetch *fetch_start(struct inflight *inflight, enum fetch_kind kind,
                          const struct asker *asker, struct metadata *metadata,
                          const struct fetch_span *span)
{
    if (!cache_fetch_may_begin(inflight->cache))
        return NULL;
    struct fetch *fetch = must_alloc(sizeof(*fetch));
    fetch->magic = FETCH_MAGIC;
    fetch->asked.kind = kind;
    fetch->inflight = inflight_ref(inflight);
    check(kind == FETCH_HEAD || span->first < span->end || span->suffix || span->plain);
    check(!span->suffix || !span->first);
    check(!span->part || kind == FETCH_HEAD);
    fetch->asked.span = *span;
    /* The inflight may be one that later gets do not join, because its note does not hold. Its
     * fills are not published: no answer in another inflight is compared with this one. */
    fetch->sent.epoch = inflight->epoch;
    fetch->sent.compared = store_compared(cache_store(inflight->cache));
    fetch->sent.at_ms = ageing_ms();
    fetch->sent.answers = inflight->learnt.answers;
    fetch->asked.as = *asker;
    fetch->asked.as.trace = NULL;
    trace_copy(asker->trace, &fetch->request.arena, &fetch->request.trace);
    fetch->sent.rights = permit_note_now(&asker->grant, inflight->name.bucket);
    fetch->readers.count = 1;
    fetch->readers.client = !asker->ahead;
    fetch->admission.judged = NO_END;
    fetch->readers.wanted = span->first;
    fetch->error.body = text_in(&fetch->request.arena);
    fetch->error.fields = text_in(&fetch->request.arena);
    list_init(&fetch->link);
    list_init(&fetch->slot.link);
    list_init(&fetch->readers.waiters);
    if (metadata) {
        fetch->metadata = metadata_ref(metadata);
        fetch->asked.known_metadata = true;
    }
    list_add(kind == FETCH_HEAD ? &inflight->probes : &inflight->fetches, &fetch->link);
    metric_add(kind == FETCH_HEAD ? M_CACHE_HEADS : M_CACHE_FETCHES, 1);
    fetch_send(fetch);
    return fetch;
}

/* Slots for one fetch: all its bytes if they are not stored; else a record that fills, and one that
 * waits for the disk. */
#define AHEAD_SLOTS ((size_t)(2 * GROUP_BYTES))

static_assert(AHEAD_SLOTS >= UNSTORED_AHEAD_BYTES, "there are slots for all unstored bytes");

struct fetch *fetch_start_ahead(struct inflight *inflight, const struct asker *asker,
                                struct metadata *metadata, const struct fetch_span *span)
{
    check(metadata && learn_has_strong_etag(metadata));    /* it continues another answer */
    if (!slots_reserve(inflight->flights, AHEAD_SLOTS))
        return NULL;
    struct fetch *fetch = fetch_start(inflight, FETCH_GET, asker, metadata, span);
    if (fetch)
        fetch->ahead.began = fetch->ahead.holds_slots = true;
    else
        slots_unreserve(inflight->flights, AHEAD_SLOTS);
    return fetch;
}

void fetch_give_back(struct fetch *fetch)
{
    if (fetch->ahead.holds_slots)
        slots_unreserve(fetch->inflight->flights, AHEAD_SLOTS);
    fetch->ahead.holds_slots = false;
}

struct fetch *fetch_probe(struct inflight *inflight, const struct identity *who, unsigned part)
{
    struct fetch *newest = NULL;
    list_each(struct fetch, probe, &inflight->probes, link)
        if (!probe->canceled && probe->asked.span.part == part &&
            identity_same(probe->asked.as.who, who) &&
            (!newest || probe->sent.at_ms >= newest->sent.at_ms))
            newest = probe;
    return newest;
}

/* ---- readers ---- */

static bool delivers(const struct fetch *fetch, uint64_t etag_hash, uint64_t offset)
{
    if (fetch->over || fetch->canceled)
        return false;
    if (fetch->asked.known_metadata && etag_hash && fetch->metadata->etag_hash != etag_hash)
        return false;
    if (!fetch->answered) {
        const struct fetch_span *span = &fetch->asked.span;
        if (fetch->asked.known_metadata && !etag_hash)
            return false;
        return !span->suffix && offset >= span->first && offset < span->end &&
               offset - span->first <= WAIT_AHEAD_BYTES;
    }
    return fetch->metadata->etag_hash == etag_hash && offset >= fetch->next &&
           offset < fetch->end && offset - fetch->next <= WAIT_AHEAD_BYTES;
}

struct fetch *fetch_join(struct inflight *inflight, uint64_t etag_hash, uint64_t offset,
                         bool for_peer)
{
    list_each(struct fetch, fetch, &inflight->fetches, link)
        if (delivers(fetch, etag_hash, offset) &&
            !(for_peer && fetch->request.at_peers && !fetch->answered))
            return fetch_join_this(fetch);
    return NULL;
}

uint64_t fetch_next_claim(struct inflight *inflight, uint64_t etag_hash, uint64_t from)
{
    uint64_t nearest = NO_END;
    list_each(struct fetch, fetch, &inflight->fetches, link) {
        bool other = fetch->metadata && etag_hash && fetch->metadata->etag_hash != etag_hash;
        if (fetch->over || fetch->canceled || other ||
            (fetch->asked.span.suffix && !fetch->answered))
            continue;
        uint64_t begin =
            fetch->answered ? fetch->next / UNIT_BYTES * UNIT_BYTES : fetch->asked.span.first;
        if (begin > from)
            nearest = MIN(nearest, begin);
    }
    return nearest;
}

struct fetch *fetch_join_this(struct fetch *fetch)
{
    check(fetch->magic == FETCH_MAGIC);
    fetch->readers.count++;
    return fetch;
}

void fetch_joined(struct fetch *fetch, const struct asker *asker)
{
    if (!fetch)
        return;
    fetch->readers.client |= !asker->ahead;
    if (asker->trace) {
        struct trace trace;
        origin_trace(&fetch->request.call, &trace);
        span_link(asker->trace->span, &trace);
    }
    if (fetch->answered || fetch->over)
        return;
    struct asker *as = &fetch->asked.as;
    bool sooner = asker->rank < as->rank ||
                  (asker->rank == as->rank && as->list_id && !asker->list_id);
    if (!sooner)
        return;
    as->rank = asker->rank;
    as->list_id = asker->list_id;
    atomic_store(&fetch->request.call.rank, as->rank);
    atomic_store(&fetch->request.call.list_id, as->list_id);
    origin_ask_again(&fetch->request.call);
}

void fetch_progress(struct fetch *fetch, uint64_t offset)
{
    fetch->readers.wanted = MAX(fetch->readers.wanted, offset);
    if (fetch->stream.pacing && fetch->next <= fetch->readers.wanted + UNSTORED_AHEAD_BYTES) {
        fetch->stream.pacing = false;
        origin_resume(&fetch->request.call);
    }
}

/* True if the call of a fetch without readers is to be canceled: no record is being filled, and
 * more bytes would come. An answer that has come whole ends by itself, and its connection can be
 * reused. */
static bool is_of_no_use(const struct fetch *fetch)
{
    bool in_record = fetch->admission.stores && fetch->stream.current;
    return fetch->asked.kind == FETCH_GET && fetch->answered && !in_record &&
           fetch->next < fetch->end;
}

void fetch_leave(struct fetch **fetch)
{
    struct fetch *mine = *fetch;
    *fetch = NULL;
    if (!mine)
        return;
    check(mine->magic == FETCH_MAGIC && mine->readers.count > 0);
    if (--mine->readers.count > 0)
        return;
    if (mine->over) {
        fetch_free(mine);
    } else if (is_of_no_use(mine) && (!mine->ahead.detached || mine->stream.pacing)) {
        if (!mine->canceled)
            origin_cancel(&mine->request.call);
        mine->canceled = true;    /* no reader may join it any more */
    } else if (!mine->answered || mine->stream.tries) {
        origin_ask_again(&mine->request.call);    /* it may not have been sent (again) yet */
    }
}

void fetch_slot_free(struct fetch *fetch)
{
    origin_resume(&fetch->request.call);
}
