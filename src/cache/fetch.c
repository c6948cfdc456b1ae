/* fetch.c - one origin GET or HEAD: starting, joining and leaving it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This file has the functions for readers, all under the object's lock. deliver.c has the functions
 * that run on an origin thread. */
#include "cache/fetch.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/metric.h"
#include "cache/inside.h"
#include "s3/encode.h"

void fetch_drop_kept(struct fetch *fetch)
{
    for (size_t i = 0; i < UNSTORED_KEPT; i++)
        flight_unref(&fetch->kept[i]);
}

void fetch_free(struct fetch *fetch)
{
    check(fetch->magic == FETCH_MAGIC && fetch->over && !fetch->readers && !fetch->current);
    slots_forget(fetch->inflight->flights, fetch);
    fetch_drop_kept(fetch);
    metadata_unref(&fetch->metadata);
    refusal_unref(&fetch->refusal);
    arena_free(&fetch->arena);
    struct cache *cache = fetch->inflight->cache;
    inflight_unref(&fetch->inflight);
    fetch->magic = 0;
    free(fetch);
    cache_fetch_ended(cache);
}

/* ---- asking ---- */

static slice query_of(struct fetch *fetch)
{
    struct text query = text_in(&fetch->arena);
    if (fetch->inflight->name.version.len) {
        text_add(&query, S("versionId="));
        uri_encode(&query, fetch->inflight->name.version, true);
    }
    if (fetch->asked.part)
        text_printf(&query, "%spartNumber=%u", query.len ? "&" : "", fetch->asked.part);
    return text_slice(&query);
}

/* Nobody waits for it any more, and nothing of it is on its way: the others in the origin's queue
 * come sooner without it. From then on nobody can join it. */
static enum err may_send(struct origin_call *call, bool again)
{
    (void)again;
    struct fetch *fetch = container_of(call, struct fetch, call);
    struct inflight *inflight = fetch->inflight;
    flights_lock(inflight->flights, &inflight->id);
    fetch->canceled |= !fetch->readers;
    enum err err = fetch->canceled ? ERR_CANCELED : OK;
    flights_unlock(inflight->flights, &inflight->id);
    return err;
}

void fetch_send(struct fetch *fetch)
{
    size_t count = 0;
    const struct fetch_span *span = &fetch->asked;
    uint64_t first = fetch->answered ? fetch->next : span->first;
    uint64_t end = fetch->answered ? fetch->end : span->end;
    fetch->fields[count++] = (struct http_field){ S("x-amz-checksum-mode"), S("ENABLED") };
    if (fetch->kind == FETCH_GET && (fetch->answered || !span->plain)) {
        slice range;
        if (span->suffix && !fetch->answered)
            range = arena_printf(&fetch->arena, "bytes=-%" PRIu64, span->suffix);
        else if (end == NO_END)
            range = arena_printf(&fetch->arena, "bytes=%" PRIu64 "-", first);
        else
            range = arena_printf(&fetch->arena, "bytes=%" PRIu64 "-%" PRIu64, first, end - 1);
        fetch->fields[count++] = (struct http_field){ S("range"), range };
    }
    bool of_known = fetch->kind == FETCH_GET || fetch->asked.part;
    if (fetch->metadata && of_known && learn_has_strong_etag(fetch->metadata) &&
        guard_on(GUARD_IF_MATCH))
        fetch->fields[count++] = (struct http_field){ S("if-match"), fetch->metadata->etag };
    fetch->call = (struct origin_call){
        .events = &deliver_events,
        .may_send = may_send,
        .op = fetch->kind == FETCH_GET ? S3_GET_OBJECT : S3_HEAD_OBJECT,
        .bucket = fetch->inflight->name.bucket,
        .key = fetch->inflight->name.key,
        .query = query_of(fetch),
        .fields = fetch->fields,
        .field_count = count,
        .as = identity_as(fetch->asker.who),
        .list_id = fetch->asker.list_id,
    };
    origin_start(fetch->inflight->rules->origin, &fetch->call);
}

struct fetch *fetch_start(struct inflight *inflight, enum fetch_kind kind,
                          const struct asker *asker, struct metadata *metadata,
                          const struct fetch_span *span)
{
    if (!cache_fetch_may_begin(inflight->cache))
        return NULL;
    struct fetch *fetch = must_alloc(sizeof(*fetch));
    fetch->magic = FETCH_MAGIC;
    fetch->kind = kind;
    fetch->inflight = inflight_ref(inflight);
    check(kind == FETCH_HEAD || span->first < span->end || span->suffix || span->plain);
    check(!span->suffix || !span->first);
    fetch->asked = *span;
    /* A get may go on in an inflight that newcomers do not join any more, because its note does not
     * hold. Its fills are not published: answers in another inflight are not compared with its. */
    fetch->epoch = inflight->epoch;
    fetch->compared = store_compared(cache_store(inflight->cache));
    fetch->sent_ms = ageing_ms();
    fetch->answers = inflight->learnt.answers;
    fetch->asker = *asker;
    fetch->granted = grant_note_now(&asker->grant, inflight->name.bucket);
    fetch->refusals = grant_refusals(&asker->grant);
    fetch->readers = 1;
    fetch->judged = NO_END;
    fetch->wanted = span->first;
    fetch->error_body = text_in(&fetch->arena);
    fetch->error_fields = text_in(&fetch->arena);
    list_init(&fetch->link);
    list_init(&fetch->slot_link);
    list_init(&fetch->waiters);
    if (metadata) {
        fetch->metadata = metadata_ref(metadata);
        fetch->known_metadata = true;
    }
    list_add(kind == FETCH_HEAD ? &inflight->probes : &inflight->fetches, &fetch->link);
    metric_add(kind == FETCH_HEAD ? M_CACHE_HEADS : M_CACHE_FETCHES, 1);
    fetch_send(fetch);
    return fetch;
}

struct fetch *fetch_probe(struct inflight *inflight, const struct identity *who, unsigned part)
{
    struct fetch *newest = NULL;
    list_each(struct fetch, probe, &inflight->probes, link)
        if (!probe->canceled && probe->asked.part == part && identity_same(probe->asker.who, who) &&
            (!newest || probe->sent_ms >= newest->sent_ms))
            newest = probe;
    return newest;
}

/* ---- readers ---- */

static bool delivers(const struct fetch *fetch, uint64_t etag_hash, uint64_t offset)
{
    if (fetch->over || fetch->canceled)
        return false;
    if (fetch->known_metadata && etag_hash && fetch->metadata->etag_hash != etag_hash)
        return false;
    if (!fetch->answered) {
        const struct fetch_span *span = &fetch->asked;
        if (fetch->known_metadata && !etag_hash)
            return false;
        return !span->suffix && offset >= span->first && offset < span->end &&
               offset - span->first <= WAIT_AHEAD_BYTES;
    }
    return fetch->metadata->etag_hash == etag_hash && offset >= fetch->next &&
           offset < fetch->end && offset - fetch->next <= WAIT_AHEAD_BYTES;
}

struct fetch *fetch_join(struct inflight *inflight, uint64_t etag_hash, uint64_t offset)
{
    list_each(struct fetch, fetch, &inflight->fetches, link)
        if (delivers(fetch, etag_hash, offset))
            return fetch_join_this(fetch);
    return NULL;
}

uint64_t fetch_next_claim(struct inflight *inflight, uint64_t etag_hash, uint64_t from)
{
    uint64_t nearest = NO_END;
    list_each(struct fetch, fetch, &inflight->fetches, link) {
        bool other = fetch->metadata && etag_hash && fetch->metadata->etag_hash != etag_hash;
        if (fetch->over || fetch->canceled || other || (fetch->asked.suffix && !fetch->answered))
            continue;
        uint64_t begin =
            fetch->answered ? fetch->next / UNIT_BYTES * UNIT_BYTES : fetch->asked.first;
        if (begin > from)
            nearest = MIN(nearest, begin);
    }
    return nearest;
}

struct fetch *fetch_join_this(struct fetch *fetch)
{
    check(fetch->magic == FETCH_MAGIC);
    fetch->readers++;
    return fetch;
}

void fetch_joined(struct fetch *fetch, uint64_t list_id)
{
    if (!fetch || list_id || !fetch->asker.list_id || fetch->answered || fetch->over)
        return;
    fetch->asker.list_id = 0;
    atomic_store(&fetch->call.list_id, 0);
    origin_ask_again(&fetch->call);
}

void fetch_progress(struct fetch *fetch, uint64_t offset)
{
    fetch->wanted = MAX(fetch->wanted, offset);
    if (fetch->pacing && fetch->next <= fetch->wanted + UNSTORED_AHEAD_BYTES) {
        fetch->pacing = false;
        origin_resume(&fetch->call);
    }
}

/* Nobody is there, no record is under way, and more would come: an answer that has all come ends by
 * itself, and its connection lives on. */
static bool is_of_no_use(const struct fetch *fetch)
{
    return fetch->kind == FETCH_GET && fetch->answered && (!fetch->stores || !fetch->current) &&
           fetch->next < fetch->end;
}

void fetch_leave(struct fetch **fetch)
{
    struct fetch *mine = *fetch;
    *fetch = NULL;
    if (!mine)
        return;
    check(mine->magic == FETCH_MAGIC && mine->readers > 0);
    if (--mine->readers > 0)
        return;
    if (mine->over) {
        fetch_free(mine);
    } else if (is_of_no_use(mine)) {
        if (!mine->canceled)
            origin_cancel(&mine->call);
        mine->canceled = true;    /* nobody joins it any more */
    } else if (!mine->answered || mine->tries) {
        origin_ask_again(&mine->call);    /* it may not have been sent (again) yet */
    }
}

void fetch_slot_free(struct fetch *fetch)
{
    origin_resume(&fetch->call);
}
