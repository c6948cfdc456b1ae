/* share.c - whether, and for what, other nodes may be asked. SPDX-License-Identifier: Apache-2.0
 *
 * A get that does not know the version does one of two things (peers/peers.h). It sends a HEAD to
 * the origin in its client's name, and then asks for the version that the answer names. Or it asks
 * for a segment of the current version, whichever that is. In both cases, the fetch that brings the
 * bytes makes the question. Threads: any; share_span and share_question under the lock of the
 * object. */
#include "cache/getting.h"
#include "cache/guess.h"
#include "cache/permit.h"

/* Nodes know the age of an answer only to a second. If the answer must be younger than this, the
 * origin is asked. */
#define AGE_MAX_LEAST_MS 2000u

const char *share_why_not(const struct cache *cache, const struct origin *origin,
                          const struct metadata *metadata, slice *ret_identity)
{
    *ret_identity = S("");
    if (!peers_answer(cache->peers))
        return "no other node answers";
    if (!origin_knows_identities(origin))
        return "the origin is a directory, whose objects nodes do not share";
    if (metadata && !learn_has_strong_etag(metadata))
        return "the object has no strong ETag, so nodes can't be sure that they mean the same version";
    *ret_identity = origin_owner(origin);
    if (!ret_identity->len)    /* the owner of a segment reads with these credentials */
        return "Penstock has no credentials of its own for this origin";
    return NULL;
}

/* ---- a get that does not know the version ---- */

/* True if other nodes share the object's bytes, segment by segment. */
static bool is_shared(const struct get *get)
{
    return (peers_answer(get->of.loop->cache->peers) || get->ask.for_peer.is) &&
           origin_knows_identities(get->ask.rules->origin);
}

bool share_must_name(const struct get *get)
{
    return is_shared(get) && !get->ask.for_peer.is &&
           (identity_id(get->of.asker.who) || get_wants_newest(get) ||
            get->ask.range.kind == RANGE_SUFFIX);
}

/* True if the fetch asks for the whole object, because only such an answer has all fields. If the
 * object is larger than a segment, the fetch is cut after the segment (guess.h). */
static bool asks_for_all(const struct get *get, const struct fetch_span *span)
{
    const struct get_for_peer *peer = &get->ask.for_peer;
    if (peer->is)
        return peer->all_fields && !span->first && span->end == peers_segment_end(0);
    return span->plain && (get->ask.want_checksums || !guess_is_larger(&get->of.name));
}

void share_span(const struct get *get, struct fetch_span *span)
{
    const struct inflight *inflight = get->plan.sources.inflight;
    /* No answer may have come meanwhile: those of other nodes may be older. */
    span->segment = is_shared(get) && !span->suffix && !get->search.distrust &&
                    !inflight->metadata && !inflight->learnt.answers;
    if (!span->segment)
        return;
    span->plain = asks_for_all(get, span);
    span->end = span->plain ? NO_END : MIN(span->end, peers_segment_end(span->first));
}

/* ---- a fetch ---- */

bool share_question(const struct fetch *fetch, struct peer_question *ret)
{
    const struct fetch_question *asked = &fetch->asked;
    if (asked->kind != FETCH_GET || asked->proof || asked->as.for_peer || fetch->answered ||
        share_why_not(fetch->inflight->cache, fetch->inflight->rules->origin, fetch->metadata,
                      &ret->identity))
        return false;
    if (!asked->known_metadata) {
        ret->end = MIN(ret->end, peers_segment_end(ret->first));
        ret->all_fields = asked->span.plain;
        ret->max_age_ms = asked->span.segment ? permit_age_max_ms(fetch) : 0;
        return !identity_id(asked->as.who) && ret->max_age_ms >= AGE_MAX_LEAST_MS;
    }
    ret->etag = fetch->metadata->etag;
    ret->size = fetch->metadata->size;
    return ret->end != NO_END && peers_segment_end(ret->first) >= ret->end;
}
