/* window.c - fetches that a plan begins ahead of its reader. SPDX-License-Identifier: Apache-2.0
 *
 *     reader                     window.next
 *       |                             |
 *     ==+=====--- ====---- ===------ .....................   = fetched   - will be   . no fetch yet
 *       own fetch  span     span
 *
 * A read begins with one fetch, as any other: so its first byte is as early as on one connection,
 * and a client that wants a few bytes costs no more. The window opens when the reader has taken
 * START_BYTES and waits, and its connection has had START_NS to show that it is slow. The window
 * doubles each time that the reader waits and all its fetches have their answers, which is once for
 * each round trip. A reader that is slower than one connection never opens it. A reader that is
 * slower than the window waits no more, so the window stays as it is.
 *
 * The fetch that the reader is in goes on until it meets a flight of the first span (deliver.c). If
 * the origin never answers for that span, this fetch brings its bytes, too. The bytes that its
 * connection has brought beyond this place are lost.
 *
 * A failed fetch halves the window, because an origin that refuses requests has too many of
 * them. The failure is not the reader's: it asks for the missing bytes itself, when it comes to
 * them. */
#include "cache/window.h"

#include <assert.h>

#include "base/clock.h"
#include "base/metric.h"
#include "cache/plan.h"

#define START_BYTES (1 * MIB)         /* a reader of less may want only the head of a file */
#define START_NS 20000000u
#define FAST_BYTES_PER_MS 500000u     /* 4 Gbit/s: more connections would not help much */
#define SPLIT_BYTES (8 * MIB)         /* fewer bytes than that come on one connection */
/* The bytes of one fetch: a tenth of the rest, so that all connections end at the same time. Bytes
 * that the store does not take lie in slots until the reader has them, so there are fewer. */
#define SPAN_LEAST (4 * MIB)
#define SPAN_MOST (8 * MIB)
#define SPAN_UNSTORED UNSTORED_AHEAD_BYTES
/* A fetch is cut short only if at least so many of its bytes lie behind the place: the bytes
 * that were on their way are lost, and these are some megabytes if the connection is fast and
 * long. */
#define CUT_LEAST (48 * MIB)
#define LEAD_MOST (2 * WINDOW_FETCHES * SPAN_MOST)    /* from the reader to the end of the window */

static_assert(SPAN_LEAST % GROUP_BYTES == 0 && SPAN_MOST % GROUP_BYTES == 0 &&
              SPAN_UNSTORED % GROUP_BYTES == 0, "a span ends with a record");
static_assert(SPAN_UNSTORED <= UNSTORED_KEPT * GROUP_BYTES, "a fetch keeps all of such a span");

static struct window_span *span_at(struct window *window, unsigned i)
{
    return &window->spans[(window->first + i) % WINDOW_SPANS];
}

static bool is_same_version(const struct plan *plan, const struct fetch *fetch)
{
    return fetch->metadata && fetch->metadata->etag_hash == plan->metadata->etag_hash;
}

static bool is_in_progress(const struct plan *plan, const struct fetch *fetch)
{
    return !fetch->over && !fetch->canceled && is_same_version(plan, fetch);
}

/* Readers of one object share its fetches, so they share the limit of their number, too. */
static unsigned in_progress(const struct plan *plan)
{
    unsigned count = 0;
    list_each(struct fetch, fetch, &plan->sources.inflight->fetches, link)
        count += is_in_progress(plan, fetch);
    return count;
}

static bool all_answered(const struct plan *plan)
{
    bool all = true;
    list_each(struct fetch, fetch, &plan->sources.inflight->fetches, link)
        all &= fetch->answered || !is_in_progress(plan, fetch);
    return all;
}

/* ---- the next span ---- */

/* Finds a fetch in progress that will bring the byte. A fetch ends where the next one has begun, so
 * only the nearest counts, and none that began before the window did. */
static struct fetch *claimant(const struct plan *plan, uint64_t pos)
{
    struct fetch *nearest = NULL;
    uint64_t nearest_first = pos < plan->window.cut ? 0 : plan->window.cut, nearest_end = 0;
    list_each(struct fetch, fetch, &plan->sources.inflight->fetches, link) {
        uint64_t first = fetch->answered ? fetch->next : fetch->asked.span.first;
        if (!is_in_progress(plan, fetch) || first > pos || first < nearest_first)
            continue;
        nearest = fetch;
        nearest_first = first;
        nearest_end = fetch->answered ? fetch->end : fetch->asked.span.end;
    }
    return nearest && pos < nearest_end ? nearest : NULL;
}

/* The first byte that is not wanted: for a stream, it lies beyond the end of the range. */
static uint64_t wanted_end(const struct plan *plan)
{
    return MIN(plan->end + plan->window.ahead, plan->metadata->size);
}

static uint64_t span_bytes(const struct plan *plan, uint64_t pos)
{
    uint64_t bytes = (wanted_end(plan) - pos) / WINDOW_FETCHES / GROUP_BYTES * GROUP_BYTES;
    if (!plan->window.stored)
        return SPAN_UNSTORED;
    return MIN(MAX(bytes, (uint64_t)SPAN_LEAST), (uint64_t)SPAN_MOST);
}

/* Moves window->next to the next byte that is neither stored nor being fetched. A fetch in
 * progress that goes on for much longer may end there: then *ret_cut is true. Returns false if
 * there is no such byte now. */
static bool find_gap(struct plan *plan, uint64_t limit, bool *ret_cut)
{
    struct window *window = &plan->window;
    struct store *store = cache_store(plan->of->loop->cache);
    *ret_cut = false;
    while (window->next < limit) {
        struct flight *flight =
            flight_find(plan->sources.inflight, plan->metadata->etag_hash, window->next);
        if (flight && !flight->fetch) {    /* all of it is here */
            window->next = flight->start + flight->length;
            flight_unref(&flight);
            continue;
        }
        struct fetch *fetch = flight ? flight->fetch : claimant(plan, window->next);
        flight_unref(&flight);
        if (fetch) {
            uint64_t span = span_bytes(plan, window->next);
            uint64_t least = (fetch->next + span + GROUP_BYTES - 1) / GROUP_BYTES * GROUP_BYTES;
            if (!fetch->answered)
                return false;    /* its end is not known yet */
            uint64_t place = MAX(window->next, least);
            *ret_cut = place + CUT_LEAST <= fetch->end;
            window->next = *ret_cut ? place : fetch->end;
            if (*ret_cut)
                return window->next < limit;
            continue;
        }
        uint64_t first = window->next / UNIT_BYTES;
        uint64_t units = store_has_units(store, plan->metadata, first, SPAN_LEAST / UNIT_BYTES,
                                         plan->of->asker.among);
        if (!units)
            return true;
        window->next = (first + units) * UNIT_BYTES;
    }
    return false;
}

static bool may_begin(struct plan *plan, unsigned busy)
{
    const struct window *window = &plan->window;
    struct cache *cache = plan->of->loop->cache;
    return busy < window->fetches_max && window->count < WINDOW_SPANS &&
           !cache_fetches_scarce(cache) && !origin_is_busy(plan->of->rules->origin) &&
           inflight_is_current(plan->sources.inflight) &&
           (!window->stored || store_keeps_up(cache_store(cache), &plan->of->id));
}

/* Returns false if no further span can begin now. */
static bool begin_span(struct plan *plan, uint64_t limit)
{
    struct window *window = &plan->window;
    bool cut;
    if (!find_gap(plan, limit, &cut))
        return false;
    uint64_t end = MIN(window->next + span_bytes(plan, window->next), wanted_end(plan));
    struct fetch_span span = plan_gap(plan, window->next, end);
    struct asker asker = plan->of->asker;
    asker.rank = MAX(asker.rank, ORIGIN_AHEAD);
    if (!asker.list_id)
        asker.list_id = (uintptr_t)window;    /* all fetches of a window take turns as one */
    struct fetch *fetch =
        fetch_start_ahead(plan->sources.inflight, &asker, plan->metadata, &span);
    if (!fetch)
        return false;
    struct store *store = cache_store(plan->of->loop->cache);
    fetch->admission.may_stage = plan->end - plan->first <= store_staged_max(store);
    if (cut && !window->cut)
        window->cut = span.first;
    check(window->count < WINDOW_SPANS);
    check(!window->count || span_at(window, window->count - 1)->end <= span.first);
    *span_at(window, window->count++) =
        (struct window_span){ .first = span.first, .end = span.end, .fetch = fetch };
    window->next = span.end;
    metric_add(M_CACHE_WINDOW_FETCHES, 1);
    return true;
}

/* ---- keeping it full ---- */

/* A fetch whose bytes are not stored has them in slots. The plan stays its reader until it has
 * passed them, because they go with the last reader. */
static void leave_if_over(struct plan *plan, struct window_span *span)
{
    const struct fetch *fetch = span->fetch;
    if (fetch && fetch->answered && fetch->request.status == 200)    /* and not 206 */
        plan->window.over = true;
    if (!fetch || !fetch->over || (fetch_keeps_bytes(fetch) && plan->pos < span->end))
        return;
    if (fetch->err && fetch->err != ERR_CANCELED)
        plan->window.fetches_max /= 2;
    span->peer_end = fetch->stream.peer_end;
    fetch_leave(&span->fetch);
}

void window_fill(struct plan *plan)
{
    struct window *window = &plan->window;
    if (!window->fetches_max && !window->count)
        return;
    for (unsigned i = 0; i < window->count; i++)
        leave_if_over(plan, span_at(window, i));
    for (; window->count && span_at(window, 0)->end <= plan->pos; window->count--) {
        fetch_leave(&span_at(window, 0)->fetch);
        window->first = (window->first + 1) % WINDOW_SPANS;
    }
    if (window->over) {
        window_close(plan);
        window->over = true;
        return;
    }
    uint64_t lead = window->stored ? LEAD_MOST : WINDOW_FETCHES * SPAN_UNSTORED;
    lead = MIN(lead, cache_ahead_max(plan->of->loop->cache));
    uint64_t limit = MIN(wanted_end(plan), plan->pos + lead);
    unsigned busy = in_progress(plan);
    window->next = MAX(window->next, plan->pos / GROUP_BYTES * GROUP_BYTES);
    while (may_begin(plan, busy) && begin_span(plan, limit))
        busy++;
}

/* True if one connection alone is too slow for this reader. */
static bool needs_more(struct plan *plan)
{
    struct window *window = &plan->window;
    uint64_t now_ns = mono_ns();
    if (!window->waited_ns) {
        window->waited_ns = now_ns;
        window->waited_pos = plan->pos;
    }
    uint64_t for_ns = now_ns - window->waited_ns, bytes = plan->pos - window->waited_pos;
    return bytes >= START_BYTES && for_ns >= START_NS &&
           bytes < for_ns / 1000000 * FAST_BYTES_PER_MS;
}

void window_widen(struct plan *plan)
{
    struct window *window = &plan->window;
    const struct fetch *own = plan->sources.fetch;
    bool is_large = wanted_end(plan) - plan->pos > SPLIT_BYTES || window->count;
    if (!is_large || !own || !own->answered || own->over || plan->sources.slow || window->over ||
        (!own->admission.stores && own->readers.count > 1) ||
        !learn_has_strong_etag(plan->metadata) || !needs_more(plan))
        return;
    if (all_answered(plan) && in_progress(plan) >= window->fetches_max)
        window->fetches_max = MIN(MAX(window->fetches_max, 1u) * 2, WINDOW_FETCHES);
    window->stored = own->admission.stores;
    window_fill(plan);
}

void window_go_on(struct plan *plan, unsigned fetches_max, uint64_t ahead)
{
    check(!plan->window.count && fetches_max <= WINDOW_FETCHES && ahead <= WINDOW_AHEAD_MOST);
    plan->window.fetches_max = fetches_max;
    plan->window.ahead = ahead;
    plan->window.stored = true;
    window_fill(plan);
}

void window_detach(struct plan *plan)
{
    struct window *window = &plan->window;
    for (unsigned i = 0; i < window->count; i++) {
        struct fetch *fetch = span_at(window, i)->fetch;
        if (fetch && !fetch->stream.pacing)    /* only a reader ends its pause */
            fetch->ahead.detached = true;
    }
}

void window_close(struct plan *plan)
{
    struct window *window = &plan->window;
    for (unsigned i = 0; i < window->count; i++)
        fetch_leave(&span_at(window, i)->fetch);
    *window = (struct window){ 0 };
}

bool window_brought(struct plan *plan, struct run_source *ret)
{
    struct window *window = &plan->window;
    for (unsigned i = 0; i < window->count; i++) {
        const struct window_span *span = span_at(window, i);
        if (plan->pos < span->first)
            return false;
        if (plan->pos < span->end) {
            uint64_t peer_end = span->fetch ? span->fetch->stream.peer_end : span->peer_end;
            *ret = (struct run_source){ peer_end, span->end };
            return true;
        }
    }
    return false;
}
