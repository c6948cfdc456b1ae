/* learn.c - reads the head of an origin's answer. SPDX-License-Identifier: Apache-2.0
 *
 * The head of a 200 or 206 response gives a struct metadata, and the range of the object that the
 * bytes belong to. An answer is refused if its range does not start at the right byte, if its size
 * differs, or if its ETag is not the one asked for. An answer without a strong ETag can't be proved
 * to be of the same version as any other answer. It goes to the readers that wait for it now, and
 * is not stored. Rules such as H10 are in src/README.md. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/metric.h"
#include "base/raise.h"
#include "cache/forget.h"
#include "cache/guess.h"
#include "cache/inside.h"
#include "cache/missing.h"
#include "cache/parts.h"
#include "s3/conditions.h"
#include "s3/encode.h"

/* Headers that a later hit repeats. A name that ends in '*' is a prefix. */
static const char *const echoed[] = {
    "content-type", "content-encoding", "content-language", "content-disposition", "cache-control",
    "expires", "x-amz-meta-*", "x-amz-version-id", "x-amz-storage-class",
    "x-amz-server-side-encryption*", "x-amz-tagging-count", "x-amz-website-redirect-location",
    "x-amz-mp-parts-count", "x-amz-replication-status", "x-amz-expiration", "x-amz-restore",
    "x-amz-object-lock-*", "x-amz-missing-meta",
};

static bool is_echoed(slice name, bool full)
{
    if (slice_starts(name, S("x-amz-checksum-")))
        return full;    /* the checksum in a 206 may be that of the range */
    for (size_t i = 0; i < countof(echoed); i++) {
        slice known = slice_of(echoed[i]);
        bool prefix = slice_ends(known, S("*"));
        if (prefix ? slice_starts(name, slice_sub(known, 0, known.len - 1)) : slice_eq(name, known))
            return true;
    }
    return false;
}

/* The sum of two offsets, rounded up, fits into 64 bits. */
#define SIZE_MAX_BYTES ((uint64_t)1 << 62)

static_assert(SIZE_MAX_BYTES <= (UINT64_MAX - GROUP_BYTES) / 2, "no sum of two offsets wraps");

struct facts {
    uint64_t first, end, size;    /* which bytes follow, of how many */
    slice etag;
    int64_t modified_s;
    bool full;
};

static enum err read_facts(const struct fetch *fetch, const struct origin_reply *reply,
                           struct facts *ret)
{
    *ret = (struct facts){ .full = reply->status == 200 || reply->all_fields };
    if (fetch->asked.span.part && reply->status != 206)
        return ERR_ORIGIN_REPLY;    /* the length may be that of the part, or of the object */
    if (reply->status == 206) {
        uint64_t last;
        if ((fetch->asked.kind == FETCH_HEAD && !fetch->asked.span.part) ||
            !s3_content_range_read(origin_reply_get(reply, S("content-range")), &ret->first, &last,
                                   &ret->size))
            return ERR_ORIGIN_REPLY;
        ret->end = last + 1;
        if (reply->has_length && reply->length != ret->end - ret->first)
            return ERR_ORIGIN_REPLY;
    } else {
        if (!reply->has_length)
            return ERR_ORIGIN_REPLY;    /* a client must be told how long it is (rule H10) */
        ret->size = ret->end = reply->length;
    }
    if (ret->size > SIZE_MAX_BYTES)
        return ERR_ORIGIN_REPLY;
    check(ret->first <= ret->end && ret->end <= ret->size);    /* other answers were refused */
    ret->etag = origin_reply_get(reply, S("etag"));
    ret->modified_s = MAX(http_date_read(origin_reply_get(reply, S("last-modified"))), (int64_t)0);
    return OK;
}

bool learn_has_strong_etag(const struct metadata *metadata)
{
    return s3_etag_is_strong(metadata->etag);
}

/* Returns a hash that no other answer has: without a strong ETag, each answer is a version. */
static uint64_t unique_hash(void)
{
    static atomic_uint_fast64_t last;
    return UINT64_MAX - atomic_fetch_add(&last, 1);
}

/* Adds a field of the answer as metadata keeps it, "name: value\r\n", if metadata keeps it. */
static void add_field(struct text *to, slice name, slice value, bool full)
{
    if (is_echoed(name, full))
        text_printf(to, "%.*s: %.*s\r\n", SLICE_ARG(name), SLICE_ARG(value));
}

static struct metadata *make_metadata(struct fetch *fetch, const struct origin_reply *reply,
                                      const struct facts *facts)
{
    struct text fields = text_in(&fetch->request.arena);
    for (size_t i = 0; i < reply->field_count; i++)
        if (!fetch->asked.span.part || !slice_eq(reply->fields[i].name, S("x-amz-mp-parts-count")))
            add_field(&fields, reply->fields[i].name, reply->fields[i].value, facts->full);
    const struct inflight *inflight = fetch->inflight;
    struct metadata *metadata = metadata_new(&inflight->id, &inflight->name, facts->etag,
                                             text_slice(&fields), facts->size, facts->modified_s,
                                             facts->full);
    metadata->unshared = permit_is_unshared(fetch, metadata);
    atomic_store(&metadata->compared, fetch->sent.compared);
    if (!learn_has_strong_etag(metadata))
        metadata->etag_hash = unique_hash();
    return metadata;
}

/* The fields that metadata keeps if it was learnt from a 206. */
static slice fields_of_206(struct arena *keep, const struct metadata *metadata)
{
    struct text fields = text_in(keep);
    for (slice rest = metadata->fields; rest.len;) {
        slice line = slice_cut(&rest, '\n'), value = slice_cut(&line, '\r');
        slice name = slice_cut(&value, ':');
        add_field(&fields, name, slice_trim(value), false);
    }
    return text_slice(&fields);
}

/* True if the known metadata has all that the new one has. Fields can change without the ETag, and
 * within a second also without Last-Modified. */
static bool says_all(struct arena *keep, const struct metadata *known,
                     const struct metadata *metadata)
{
    if (!known || !learn_has_strong_etag(known) || !slice_eq(known->etag, metadata->etag) ||
        known->size != metadata->size || known->modified_s != metadata->modified_s)
        return false;
    if (known->full == metadata->full)
        return slice_eq(known->fields, metadata->fields);
    return known->full && slice_eq(fields_of_206(keep, known), metadata->fields);
}

/* ---- metadata on its own way to the store ---- */

/* Until this metadata is committed, the object keeps its inflight, where readers look first: the
 * store would still give them the older metadata. */
struct metadata_store {
    struct epoch_fill fill;
    struct inflight *inflight;
};

static void metadata_store_end(struct metadata_store *mine)    /* under the lock */
{
    metadata_unref(&mine->fill.append.metadata);
    inflight_unref(&mine->inflight);
    free(mine);
}

static void metadata_stored(struct store_append *append, enum err err)
{
    struct metadata_store *mine = container_of(append, struct metadata_store, fill.append);
    struct flights *flights = mine->inflight->flights;
    struct object_id id = mine->inflight->id;
    if (err)
        metric_add(M_CACHE_UNPUBLISHED, 1);
    flights_lock(flights, &id);
    inflight_fill_ended(mine->inflight, &mine->fill, err);
    metadata_store_end(mine);
    flights_unlock(flights, &id);
}

static void keep_metadata_alone(struct fetch *fetch)
{
    struct metadata_store *mine = must_alloc(sizeof(*mine));
    mine->fill.epoch = fetch->sent.epoch;
    mine->inflight = inflight_ref(fetch->inflight);
    mine->fill.append = (struct store_append){
        .metadata = metadata_ref(fetch->metadata),
        .must = true,
        .with_metadata = true,
        .may_publish = epoch_may_publish,
        .compared = fetch->sent.compared,
        .done = metadata_stored,
    };
    enum err e = store_append(cache_store(fetch->inflight->cache), &mine->fill.append);
    if (!e)
        return;
    metric_add(M_CACHE_UNPUBLISHED, 1);
    inflight_fill_ended(fetch->inflight, &mine->fill, e);
    metadata_store_end(mine);
}

/* ---- the bytes that follow ---- */

/* Finds the place of the answer's bytes in the object, and the wanted ones among them. */
static enum err place_bytes(struct fetch *fetch, const struct facts *facts)
{
    uint64_t next = fetch->next;
    if (!fetch->answered) {
        next = fetch->asked.span.first;
        if (fetch->asked.span.suffix)    /* bytes before the first whole unit are dropped */
            next = (facts->first + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
        if (fetch->asked.span.suffix && next > facts->end)
            return ERR_ORIGIN_REPLY;
        fetch->stream.first = next;
        fetch->end = MIN(fetch->asked.span.end, facts->size);
        if (fetch->asked.span.segment) {
            fetch->end = MIN(fetch->end, peers_segment_end(next));
            guess_note(&fetch->inflight->name, facts->size > PEERS_SEGMENT_BYTES);
        }
    }
    if (facts->first > next || (next > facts->end && next < fetch->end))
        return ERR_ORIGIN_REPLY;
    fetch->stream.skip = MIN(next, facts->end) - facts->first;
    check(fetch->stream.skip <= facts->end - facts->first);
    fetch->next = next;
    fetch->readers.wanted = MAX(fetch->readers.wanted, next);
    return OK;
}

bool learn_says_no_store(slice control)
{
    return slice_list_has(control, ',', S("no-store"));
}

/* Counts each answer whose bytes are not stored, by the reason: an operator may ask why there are
 * no hits. */
static bool may_be_stored(const struct fetch *fetch, const struct origin_reply *reply)
{
    enum metric cause;
    if (learn_says_no_store(origin_reply_get(reply, S("cache-control"))))
        cause = M_NOT_STORED_NO_STORE;
    else if (!learn_has_strong_etag(fetch->metadata))
        cause = M_NOT_STORED_NO_ETAG;
    else if (!store_allows(cache_store(fetch->inflight->cache), fetch->metadata))
        cause = M_NOT_STORED_LIMITS;
    else if (!epoch_holds(&fetch->inflight->id, fetch->sent.epoch))
        cause = M_NOT_STORED_WRITTEN;
    else if (!store_takes(cache_store(fetch->inflight->cache), &fetch->inflight->id))
        cause = M_NOT_STORED_FOLDER;
    else
        return true;
    if (fetch->asked.kind == FETCH_GET)
        metric_add(cause, 1);
    return false;
}

/* Decides whether the answer is stored. `is_new`: its version may be another one than the store
 * has. */
static void admit(struct fetch *fetch, const struct origin_reply *reply, bool is_new,
                  enum learnt_how how)
{
    struct store *store = cache_store(fetch->inflight->cache);
    /* if neither version has a strong ETag, none of them is on its way into the store */
    bool late = how == LEARNT_LATE &&
                (fetch->inflight->learnt.strong || learn_has_strong_etag(fetch->metadata));
    check(!fetch->asked.proof || !is_new);    /* a proof asks for a version that is known */
    if (late)
        forget_object(store, &fetch->inflight->id);
    if (fetch->asked.proof || late)
        return;
    fetch->admission.admitted = may_be_stored(fetch, reply);
    if (fetch->admission.admitted || !is_new)
        return;
    if (how == LEARNT_OTHER)    /* that version may be on its way into the store */
        forget_object(store, &fetch->inflight->id);
    else
        forget_other_version(store, fetch->metadata);
}

static enum learnt_how note_version(struct fetch *fetch, const struct metadata *metadata)
{
    const struct learnt answer = { .etag_hash = metadata->etag_hash, .answers = fetch->sent.answers,
                                   .strong = learn_has_strong_etag(metadata) };
    check(answer.etag_hash);    /* 0: there is no object */
    return inflight_learn(fetch->inflight, &answer, &fetch->sent.epoch);
}

/* Makes the metadata of the answer. Later gets find it in the inflight, unless the answer is
 * late or brought nothing new. */
static enum learnt_how learn_metadata(struct fetch *fetch, const struct origin_reply *reply,
                                      const struct facts *facts)
{
    struct inflight *inflight = fetch->inflight;
    struct metadata *metadata = make_metadata(fetch, reply, facts);
    enum learnt_how how = note_version(fetch, metadata);
    bool known = says_all(&fetch->request.arena, inflight->metadata, metadata);
    if (!known && how != LEARNT_LATE)
        inflight_set_metadata(inflight, metadata);
    fetch->metadata = metadata_ref(known ? inflight->metadata : metadata);
    metadata_unref(&metadata);
    return how;
}

/* Renews the stored metadata, if a HEAD has found its version. Returns false if not. */
static bool renewed(struct fetch *fetch)
{
    const struct metadata *metadata = fetch->metadata;
    struct store_vouch vouch = { metadata->etag_hash, metadata->size, metadata->modified_s,
                                 metadata->fields, ageing_s_of(fetch->sent.at_ms), 0, NULL,
                                 &fetch->inflight->name };
    return epoch_holds(&metadata->id, fetch->sent.epoch) &&
           store_renew(cache_store(fetch->inflight->cache), &metadata->id, &vouch) == STORE_RENEWED;
}

/* Reads the checksums of a part, as lines. Some origins send the object's checksums with each part,
 * as a sum of sums, "...-N", or as in the metadata. These are not the part's, and are left out. */
static void read_part_sums(struct fetch *fetch, const struct origin_reply *reply, struct part *part)
{
    struct text sums = text_in(&fetch->request.arena);
    for (size_t i = 0; i < reply->field_count; i++) {
        struct http_field field = reply->fields[i];
        if (!slice_starts(field.name, S("x-amz-checksum-")))
            continue;
        bool is_type = slice_eq(field.name, S("x-amz-checksum-type"));
        bool is_known = slice_eq(metadata_field(fetch->metadata, field.name), field.value);
        if (slice_has(field.value, '-') || (is_known && !is_type))
            return;
        text_printf(&sums, "%.*s: %.*s\r\n", SLICE_ARG(field.name), SLICE_ARG(field.value));
    }
    if (sums.len < sizeof(part->sums))
        memcpy(part->sums, sums.ptr, sums.len);
}

static void learn_part(struct fetch *fetch, const struct origin_reply *reply,
                       const struct facts *facts)
{
    uint64_t count = 0;
    slice given = origin_reply_get(reply, S("x-amz-mp-parts-count"));
    if (!slice_u64(given, &count) || count > S3_PART_MAX)
        count = 0;
    struct part part = { facts->first, facts->end, (unsigned)count, "" };
    read_part_sums(fetch, reply, &part);
    parts_note(fetch->inflight->cache->parts, fetch->metadata, fetch->asked.span.part, &part);
}

static bool names_version(const struct metadata *metadata, const struct facts *facts)
{
    return learn_has_strong_etag(metadata) && slice_eq(metadata->etag, facts->etag) &&
           metadata->size == facts->size;
}

/* The answer of another node that is not the latest one in this object's inflight. It brings the
 * bytes of a version. Whether the version is current, it can't say: the latest answer does. */
static enum err learn_bytes(struct fetch *fetch, const struct origin_reply *reply,
                            const struct facts *facts)
{
    struct metadata *latest = fetch->inflight->metadata;
    if (!fetch->metadata && (!latest || !names_version(latest, facts) ||
                             latest->modified_s != facts->modified_s))    /* as a right has it */
        return ERR_CHANGED;
    if (!fetch->metadata) {
        fetch->metadata = metadata_ref(latest);
        permit_granted(fetch);
    }
    admit(fetch, reply, false, LEARNT_SAME);
    return OK;
}

enum err learn_answer(struct fetch *fetch, const struct origin_reply *reply)
{
    struct facts facts;
    check((reply->status == 200 || reply->status == 206) && !fetch->over);
    enum err err = read_facts(fetch, reply, &facts);
    if (err)
        return err;
    if (fetch->metadata && guard_on(GUARD_IF_MATCH) && !names_version(fetch->metadata, &facts)) {
        deliver_changed(fetch);
        return ERR_CHANGED;
    }
    if (fetch->asked.kind == FETCH_GET && (err = place_bytes(fetch, &facts)) != OK)
        return err;
    if (fetch->answered)
        return OK;
    if (reply->from_peer && !fetch->asked.known_metadata) {
        check(reply->age_ms <= fetch->sent.at_ms);    /* permit_age_max_ms */
        fetch->sent.at_ms -= reply->age_ms;
        lower_64(&fetch->inflight->cache->knows_from_ms, fetch->sent.at_ms);
    }
    if (reply->from_peer && (fetch->asked.known_metadata || fetch->inflight->learnt.answers))
        return learn_bytes(fetch, reply, &facts);
    missing_drop(fetch->inflight->cache->missing, &fetch->inflight->id);
    struct metadata *old = fetch->inflight->metadata;
    bool is_new = !fetch->metadata;
    enum learnt_how how = is_new ? learn_metadata(fetch, reply, &facts)
                                 : note_version(fetch, fetch->metadata);
    atomic_store(&fetch->metadata->validated_s, ageing_s_of(fetch->sent.at_ms));
    if (fetch->asked.span.part)
        learn_part(fetch, reply, &facts);
    permit_granted(fetch);
    admit(fetch, reply, is_new, how);
    bool comes_with_its_bytes = fetch->asked.kind == FETCH_GET && fetch->next == 0 &&
                                fetch->end == fetch->metadata->size && fetch->end > 0 &&
                                fetch->end <= WHOLE_BYTES_MAX;
    if (fetch->asked.kind == FETCH_HEAD && !fetch->asked.upgrade && renewed(fetch))
        return OK;
    if (fetch->admission.admitted && !fetch->asked.known_metadata && fetch->metadata != old &&
        !comes_with_its_bytes &&
        store_admits_metadata(cache_store(fetch->inflight->cache), fetch->metadata))
        keep_metadata_alone(fetch);
    return OK;
}
