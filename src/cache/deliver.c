/* deliver.c - brings an origin's answer from a fetch to its flights.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A fetch is one request to an origin (fetch.h). A flight is memory for the next bytes of the
 * object, which readers share (flight.h). learn.c reads the response head. The bytes go into one
 * flight after another, until the fetch is over. If the origin cuts the body, the fetch asks again
 * for the bytes after the last one, with If-Match, up to RESTARTS_MAX times without progress. The
 * first answer may come from another node of the fleet (peers.h), and then its bytes count apart.
 *
 * Threads: the callbacks of a call come from one origin thread at a time. Only the callbacks use
 * `taken`, `skip` and the text of an error. Only they set `current` and `err`, under the lock, so
 * they read these two without the lock. They also write a flight's bytes without the lock; the
 * bytes become visible with `filled`. Rules such as H6 are in src/README.md. */
#include "cache/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metric.h"
#include "cache/forget.h"
#include "cache/inside.h"

#define RESTARTS_MAX 3
#define ERROR_BODY_MAX 65536u
#define WAKE_BYTES 131072u
#define WAKE_NS 2000000u
#define SKIP_BYTES_MAX UNIT_BYTES     /* to read so much costs less than another connection */

static void lock(struct fetch *fetch)
{
    flights_lock(fetch->inflight->flights, &fetch->inflight->id);
}

static void unlock(struct fetch *fetch)
{
    flights_unlock(fetch->inflight->flights, &fetch->inflight->id);
}

static bool good_status(const struct fetch *fetch)
{
    return fetch->request.status == 200 || fetch->request.status == 206;
}

/* Slots are kept for slow readers only as long as no fetch waits for a slot. */
static void spare_kept(struct fetch *fetch)
{
    if (!slots_spare(fetch->inflight->flights, fetch))
        fetch_drop_kept(fetch);
}

/* ---- the answer ---- */

/* True for a header that a client gets with a refusal, such as that of a delete marker. */
static bool is_of_refusal(slice name)
{
    return slice_eq(name, S("last-modified")) || slice_eq(name, S("allow")) ||
           slice_eq(name, S("content-range")) ||
           (slice_starts(name, S("x-amz-")) && !slice_eq(name, S("x-amz-request-id")));
}

static void note_refusal(struct fetch *fetch, const struct origin_reply *reply)
{
    fetch->error.type = arena_copy(&fetch->request.arena,
                                   origin_reply_get(reply, S("content-type")));
    for (size_t i = 0; i < reply->field_count; i++)
        if (is_of_refusal(reply->fields[i].name))
            text_printf(&fetch->error.fields, "%.*s: %.*s\r\n", SLICE_ARG(reply->fields[i].name),
                        SLICE_ARG(reply->fields[i].value));
    /* As for answers that are passed on. */
    slice id = origin_reply_get(reply, S("x-amz-request-id"));
    if (id.len && !origin_reply_get(reply, S("x-amz-id-2")).len)
        text_printf(&fetch->error.fields, "x-amz-id-2: %.*s\r\n", SLICE_ARG(id));
}

static void on_head(struct origin_call *call, const struct origin_reply *reply)
{
    struct fetch *fetch = container_of(call, struct fetch, request.call);
    lock(fetch);
    fetch->request.status = reply->status;
    fetch->request.from_peer = reply->from_peer;
    bool good = good_status(fetch);
    enum err err = good ? learn_answer(fetch, reply) : OK;
    if (err) {
        fetch->err = err;
        origin_cancel(call);
    } else if (good && !fetch->answered) {
        fetch->answered = true;
        waiters_wake(&fetch->readers.waiters);
    }
    unlock(fetch);
    if (!good)
        note_refusal(fetch, reply);
}

/* Returns the length of the next record. It ends with its group, or with the wanted bytes. */
static uint64_t record_length(const struct fetch *fetch)
{
    uint64_t group_end = (fetch->next / GROUP_BYTES + 1) * GROUP_BYTES;
    return MIN(group_end, fetch->end) - fetch->next;
}

/* True if another fetch brings the next bytes, or the store has them. */
static bool already_here(struct fetch *fetch)
{
    struct flight *other = flight_find(fetch->inflight, fetch->metadata->etag_hash, fetch->next);
    if (other) {
        flight_unref(&other);
        return true;
    }
    return store_has_units(cache_store(fetch->inflight->cache), fetch->metadata,
                           fetch->next / UNIT_BYTES, 1, fetch->asked.as.among) > 0;
}

/* True if the readers get the next bytes without this fetch. A stream that is not stored does
 * not rely on the store, because the next write may remove these bytes. It ends where a fetch
 * ahead of it has begun, unless it has several readers: some may be too far behind for the
 * flights of that fetch. */
static bool comes_otherwise(struct fetch *fetch)
{
    if (fetch->admission.admitted)
        return already_here(fetch);
    struct flight *other = flight_find(fetch->inflight, fetch->metadata->etag_hash, fetch->next);
    bool found = other && other->ahead && fetch->readers.count <= 1;
    flight_unref(&other);
    return found;
}

/* The store is asked once for each record. */
static bool is_stored(struct fetch *fetch)
{
    if (fetch->admission.judged == fetch->next)
        return fetch->admission.stores;
    struct store *store = cache_store(fetch->inflight->cache);
    struct admission *admission = &fetch->admission;
    uint64_t unit = fetch->next / UNIT_BYTES;
    if (admission->judged == NO_END && !fetch->ahead.began)
        admission->may_stage = fetch->end - fetch->next <= store_staged_max(store);
    admission->judged = fetch->next;
    admission->staged = false;
    admission->ahead = fetch->asked.as.ahead && admission->may_stage;
    if (!admission->admitted)
        admission->stores = false;
    else if (fetch->asked.as.ahead)
        admission->stores = store_admits_ahead(store, fetch->metadata, unit, &admission->staged) &&
                            (!admission->staged || admission->may_stage);
    else
        admission->stores = store_admits(store, fetch->metadata, unit);
    return admission->stores;
}

/* True if the fetch is ahead of its reader, and the disk does not keep up. It then waits for its
 * reader as if its bytes were not stored: otherwise the store would refuse records. */
static bool outruns_disk(const struct fetch *fetch)
{
    const struct inflight *inflight = fetch->inflight;
    return fetch->ahead.began && !store_keeps_up(cache_store(inflight->cache), &inflight->id);
}

enum step { STEP_GO, STEP_PAUSE, STEP_NO_SLOT, STEP_ENOUGH };

/* Says whether the next byte may be taken, and makes a flight for it. Under the lock. */
static enum step next_step(struct fetch *fetch)
{
    check(fetch->answered && fetch->metadata);    /* the head comes before any body */
    if (fetch->next >= fetch->end)
        return STEP_ENOUGH;
    if (fetch->stream.current)
        return STEP_GO;
    bool may_go_on = fetch->ahead.detached && is_stored(fetch) && !outruns_disk(fetch);
    if (!fetch->readers.count && fetch->stream.began && !may_go_on) {
        fetch->end = fetch->next;    /* H6: ends with the record that was being filled */
        return STEP_ENOUGH;
    }
    /* The caller that began the fetch knew that its first record is missing. */
    if (fetch->stream.began && comes_otherwise(fetch)) {
        fetch->end = fetch->next;
        return STEP_ENOUGH;
    }
    uint64_t ahead = fetch->next - MIN(fetch->readers.wanted, fetch->next);
    if (is_stored(fetch) && ahead > cache_ahead_max(fetch->inflight->cache)) {
        fetch->end = fetch->next;    /* its readers ask for the rest when they come to it */
        fetch->stream.outran = true;
        return STEP_ENOUGH;
    }
    if (ahead > UNSTORED_AHEAD_BYTES && (!is_stored(fetch) || outruns_disk(fetch))) {
        fetch->stream.pacing = true;
        spare_kept(fetch);
        return STEP_PAUSE;
    }
    fetch->stream.began = true;
    fetch->stream.current =
        flight_new(fetch->inflight, fetch, fetch->metadata, fetch->next, record_length(fetch));
    if (!fetch->stream.current) {
        fetch_drop_kept(fetch);    /* the fetch must not wait for slots that it keeps itself */
        return STEP_NO_SLOT;
    }
    waiters_wake(&fetch->readers.waiters);
    return STEP_GO;
}

/* Keeps a flight that the store does not get, so that slower readers can join it for a while. */
static void keep(struct fetch *fetch, struct flight *flight)
{
    struct flight **kept = fetch->stream.kept;
    check(!flight->fetch);    /* it has landed, so its readers wait for nothing */
    flight_unref(&kept[0]);
    memmove(&kept[0], &kept[1], (UNSTORED_KEPT - 1) * sizeof(kept[0]));
    kept[UNSTORED_KEPT - 1] = flight_ref(flight);
}

/* True if the metadata must be stored with the bytes of a small object. Its record has the metadata
 * in front, so a bad record loses both, and a fetch that replaces its units brings both again. */
static bool comes_with_metadata(const struct fetch *fetch, const struct flight *flight)
{
    return flight->metadata->size <= WHOLE_BYTES_MAX &&
           (fetch->asked.known_metadata ||
            (flight->start == 0 && flight->length == flight->metadata->size));
}

/* True if the metadata must be stored with these bytes: the store may have refused it before. */
static bool needs_metadata(const struct fetch *fetch, const struct flight *flight)
{
    struct inflight *inflight = fetch->inflight;
    return fetch->admission.stores &&
           (comes_with_metadata(fetch, flight) ||
            !store_knows(cache_store(inflight->cache), &inflight->id, &inflight->name));
}

/* Gives the current flight, which is full, to the store, or keeps it for slower readers. */
static void land(struct fetch *fetch)
{
    struct flight *flight = fetch->stream.current;
    check(fetch->next <= fetch->end && fetch->next == flight->start + flight->length);
    fetch->stream.current = NULL;
    fetch->admission.read = fetch->asked.as.ahead && fetch->readers.client;
    if (!flight_land(flight, &fetch->admission, needs_metadata(fetch, flight))) {
        keep(fetch, flight);
        /* Its reader is not there yet: it must not bring more than it can keep. */
        fetch->admission.admitted &= !fetch->ahead.began;
    }
    flight_unref(&flight);
    if (!fetch->readers.count && !fetch->ahead.detached)
        fetch->end = fetch->next;
}

/* Bytes come in pieces of 16 KiB, and to wake many readers for each piece costs more than it
 * brings. Readers are woken for the first piece, then after 128 KiB or 2 ms. */
static void tell_readers(struct flight *flight, uint64_t filled)
{
    uint64_t now_ns = mono_ns();
    if (flight->woken_bytes && filled < flight->length &&
        filled - flight->woken_bytes < WAKE_BYTES && now_ns - flight->woken_ns < WAKE_NS)
        return;
    flight->woken_bytes = filled;
    flight->woken_ns = now_ns;
    waiters_wake(&flight->waiters);
}

static void take(struct fetch *fetch, slice bytes)
{
    struct flight *flight = fetch->stream.current;
    uint64_t filled = atomic_load(&flight->filled);
    check(fetch->next == flight->start + filled && filled + bytes.len <= flight->length);
    memcpy(flight->bytes + filled, bytes.ptr, bytes.len);
    lock(fetch);
    fetch->next += bytes.len;
    if (fetch->request.from_peer) {
        fetch->stream.peer_end = fetch->next;
        atomic_store(&flight->peer_end, fetch->next);
    }
    atomic_store(&flight->filled, filled + bytes.len);    /* after peer_end: readers take no lock */
    fetch->stream.tries = 0;
    tell_readers(flight, filled + bytes.len);
    if (filled + bytes.len == flight->length)
        land(fetch);
    unlock(fetch);
}

/* True if no byte of the answer is wanted, and too many of them would follow. The range then begins
 * at or after the end of the object, and the origin ignores ranges. */
static bool skips_in_vain(struct fetch *fetch)
{
    if (fetch->stream.skip <= SKIP_BYTES_MAX)
        return false;
    lock(fetch);
    bool in_vain = fetch->next >= fetch->end;
    unlock(fetch);
    return in_vain;
}

static enum origin_take on_body(struct origin_call *call, slice bytes)
{
    struct fetch *fetch = container_of(call, struct fetch, request.call);
    if (!good_status(fetch) || fetch->err) {
        size_t room = ERROR_BODY_MAX - MIN(fetch->error.body.len, ERROR_BODY_MAX);
        text_add(&fetch->error.body, slice_sub(bytes, 0, room));
        return ORIGIN_TAKEN;
    }
    /* The origin sends bytes that were taken before the pause again, perhaps in other pieces. */
    size_t consumed = MIN(fetch->stream.taken, bytes.len);
    fetch->stream.taken -= consumed;
    bytes = slice_from(bytes, consumed);
    while (bytes.len) {
        size_t now = bytes.len;
        if (skips_in_vain(fetch)) {
            origin_cancel(call);
            break;
        } else if (fetch->stream.skip) {
            now = MIN(now, fetch->stream.skip);
            fetch->stream.skip -= now;
        } else {
            lock(fetch);
            enum step step = next_step(fetch);
            unlock(fetch);
            if (step == STEP_NO_SLOT)
                slots_press(fetch->inflight->flights);
            if (step == STEP_PAUSE || step == STEP_NO_SLOT) {
                fetch->stream.taken = consumed;
                bool spare = step == STEP_PAUSE && learn_has_strong_etag(fetch->metadata);
                return spare ? ORIGIN_SPARE : ORIGIN_PAUSE;
            }
            if (step == STEP_ENOUGH) {
                origin_cancel(call);
                break;
            }
            const struct flight *current = fetch->stream.current;
            now = MIN(now, current->length - atomic_load(&current->filled));
            take(fetch, slice_sub(bytes, 0, now));
        }
        consumed += now;
        bytes = slice_from(bytes, now);
        metric_add(M_CACHE_ORIGIN_BYTES, fetch->request.from_peer ? 0 : now);
    }
    return ORIGIN_TAKEN;
}

/* ---- the end ---- */

/* Ends the current flight of a fetch that broke off. Units that came whole go to the store. */
static void close_current(struct fetch *fetch)
{
    struct flight *flight = fetch->stream.current;
    fetch->stream.current = NULL;
    if (!flight)
        return;
    uint64_t filled = atomic_load(&flight->filled);
    uint64_t whole = filled / UNIT_BYTES * UNIT_BYTES;
    check(filled < flight->length);    /* land() has ended each flight that is full */
    if (fetch->admission.stores && whole) {
        flight->length = whole;
        atomic_store(&flight->filled, whole);
        if (!flight_land(flight, &fetch->admission, false))
            keep(fetch, flight);
        flight_unref(&flight);
    } else {
        flight_fail(&flight);
    }
}

static bool worth_another_try(const struct fetch *fetch, enum err err)
{
    return fetch->asked.kind == FETCH_GET && fetch->answered && !fetch->err &&
           fetch->readers.count &&
           learn_has_strong_etag(fetch->metadata) && fetch->stream.tries < RESTARTS_MAX &&
           !cache_is_stopping(fetch->inflight->cache) &&
           (err == ERR_ORIGIN_CUT || err == ERR_ORIGIN_CONNECT || err == ERR_ORIGIN_TIMEOUT);
}

/* Notes that no version is known to be current. */
static void learn_none(struct fetch *fetch)
{
    const struct learnt none = { .answers = fetch->sent.answers };
    (void)!inflight_learn(fetch->inflight, &none, &fetch->sent.epoch);
}

static void forget(struct fetch *fetch)
{
    learn_none(fetch);
    forget_object(cache_store(fetch->inflight->cache), &fetch->inflight->id);
}

/* Readers of the older version learn of the change one after the other, so a newer version that is
 * stored stays. */
void deliver_changed(struct fetch *fetch)
{
    uint64_t current = fetch->inflight->learnt.etag_hash;
    if (!current || current == fetch->metadata->etag_hash)
        learn_none(fetch);
    forget_version(cache_store(fetch->inflight->cache), fetch->metadata);
}

/* An origin may hide an object from one client, and show it to others. So only an answer to the
 * shared identity proves that there is no object. */
static bool is_gone(const struct fetch *fetch, enum err err)
{
    return identity_id(fetch->asked.as.who) == 0 &&
           (err == ERR_NO_SUCH_KEY || err == ERR_NO_SUCH_BUCKET ||
            (fetch->request.status == 404 && fetch->inflight->name.version.len));
}

/* True if the origin refused the client. The answer that an object is archived is no denial: only
 * clients that may read the object get this answer. */
static bool is_denial(const struct fetch *fetch, enum err err, slice code, bool answered)
{
    if (!answered)
        return err == ERR_ORIGIN_KEYS && identity_id(fetch->asked.as.who);
    return (fetch->request.status == 401 || fetch->request.status == 403) &&
           !slice_eq(code, S("InvalidObjectState"));
}

/* Every denial has the same document, which Penstock makes. The origin's document comes with a GET
 * alone, and the right to a cached object is asked for by a HEAD. So a document that was passed on
 * would show a refused client which objects are cached. */
static void set_refusal(struct fetch *fetch, enum err err)
{
    slice body = text_slice(&fetch->error.body), code = S(""), message;
    bool answered = fetch->err == OK && err == OK;
    check(!fetch->refusal);
    if (answered && xml_read_error(&fetch->request.arena, body, &code, &message) != OK)
        code = S("");
    err = answered ? s3_error_from(fetch->request.status, code) : fetch->err ? fetch->err : err;
    if (answered && is_gone(fetch, err))
        forget(fetch);
    if (is_denial(fetch, err, code, answered))
        fetch->refusal = refusal_new(ERR_DENIED, 403, S(""), S(""), S(""));
    else if (answered)
        fetch->refusal = refusal_new(err, fetch->request.status, fetch->error.type,
                                     text_slice(&fetch->error.fields), body);
    else
        fetch->refusal = refusal_new(err, 0, S(""), S(""), S(""));
    fetch->err = err;
}

/* Judges the end of the call, in *err and fetch->err. Returns true if all bytes came. Under the
 * lock. */
static bool judge_end(struct fetch *fetch, enum err *err)
{
    if (fetch->canceled && !fetch->err)
        fetch->err = ERR_CANCELED;
    bool complete = fetch->answered && !fetch->err &&
                    (fetch->asked.kind == FETCH_HEAD ? *err == OK : fetch->next >= fetch->end);
    if (complete)
        return true;
    if (fetch->answered && !fetch->err && *err == OK)
        *err = good_status(fetch) ? ERR_ORIGIN_CUT : ERR_ORIGIN_REPLY;
    bool no_such_part = fetch->asked.span.part && fetch->request.status == 416;
    int status = fetch->request.status;
    if (fetch->metadata && (status == 412 || status == 416) && !no_such_part) {
        fetch->err = ERR_CHANGED;
        deliver_changed(fetch);
    }
    return false;
}

/* Ends the fetch for its readers. The last reader that leaves frees it; without readers, it is
 * freed here. Under the lock. */
static void retire(struct fetch *fetch)
{
    check(!fetch->over && (fetch->refusal || (fetch->answered && !fetch->err)));
    close_current(fetch);
    fetch->over = true;
    if (!fetch_keeps_bytes(fetch))
        fetch_give_back(fetch);
    list_del(&fetch->link);
    waiters_wake(&fetch->readers.waiters);
    if (!fetch->readers.count)
        fetch_free(fetch);
    else
        spare_kept(fetch);
}

static void on_disk(struct store_removal *refusing, enum err err)
{
    (void)err;    /* when a folder returns to service, its metadata is revalidated */
    struct fetch *fetch = container_of(refusing, struct fetch, error.refusing);
    struct flights *flights = fetch->inflight->flights;
    struct object_id id = fetch->inflight->id;
    flights_lock(flights, &id);
    retire(fetch);
    flights_unlock(flights, &id);
}

/* If the shared identity was refused an object that is stored, stores the refusal first: after a
 * client has seen the refusal, a crash must not undo it. Returns true if the fetch is over only
 * when the refusal is on disk. Under the lock. */
static bool refuse_first(struct fetch *fetch)
{
    if (!permit_refused(fetch))
        return false;
    fetch->error.refusing = (struct store_removal){ .ids = &fetch->inflight->id, .count = 1,
                                              .done = on_disk };
    if (identity_id(fetch->asked.as.who) ||
        !store_refuse(cache_store(fetch->inflight->cache), &fetch->error.refusing))
        return false;
    close_current(fetch);
    fetch->stream.pacing = false;
    fetch->canceled = true;    /* not to be joined */
    return true;
}

static void on_done(struct origin_call *call, enum err err)
{
    struct fetch *fetch = container_of(call, struct fetch, request.call);
    struct flights *flights = fetch->inflight->flights;
    struct object_id id = fetch->inflight->id;
    flights_lock(flights, &id);
    slots_forget(flights, fetch);
    if (err == ERR_YIELDED)
        fetch->end = fetch->next;    /* its readers go on with another, when they need more */
    bool complete = judge_end(fetch, &err);
    if (!complete && worth_another_try(fetch, err)) {
        fetch->stream.tries++;
        fetch->stream.taken = 0;
        metric_add(M_CACHE_RESTARTS, 1);
        fetch_send(fetch);
    } else {
        if (!complete)
            set_refusal(fetch, err);
        if (complete || !refuse_first(fetch))
            retire(fetch);
    }
    flights_unlock(flights, &id);
}

const struct origin_events deliver_events = { on_head, on_body, on_done };
