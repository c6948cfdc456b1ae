/* get.c - one GET or HEAD: decides the version, its freshness, and whether the cache may answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A get is a state machine: each phase is a function that ends in the next phase (OK) or waits
 * (ERR_WAIT). validate.c asks the origin about a version, and plan.c brings the bytes. Rules such
 * as H6 are in src/README.md. */
#include "cache/getting.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/metric.h"
#include "cache/missing.h"
#include "cache/parts.h"
#include "cache/read_trace.h"

#define RESTARTS_MAX 3
#define PART_TRIES_MAX 3

static const char *const source_names[] = {
    "HIT", "STALE", "STALE-IF-ERROR", "REVALIDATED", "PARTIAL", "MISS", "NEGATIVE-HIT",
};

static_assert(countof(source_names) == GET_NEGATIVE + 1, "each source has its name");

const char *get_source_name(enum get_source source)
{
    return source_names[source];
}

/* ---- helpers ---- */

static void woken(void *arg)
{
    struct get *get = arg;
    get->of.changed(get->of.changed_arg);
}

enum err get_go(struct get *get, enum get_phase phase)
{
    check(get->phase != GET_READY || phase == GET_READY);    /* a decision is final */
    get->phase = phase;
    return OK;
}

enum err get_refuse(struct get *get, const struct refusal *refusal)
{
    struct refusal *old = get->refusal;    /* perhaps the same */
    get->refusal = refusal_ref((struct refusal *)refusal);
    refusal_unref(&old);
    get->answer.err = refusal->err;
    get->answer.refusal = get->refusal;
    return get_go(get, GET_READY);
}

enum err get_fail(struct get *get, enum err err)
{
    struct refusal *refusal = refusal_new(err, 0, S(""), S(""), S(""));
    enum err result = get_refuse(get, refusal);
    refusal_unref(&refusal);
    return result;
}

/* Begins again before the answer is decided, without the stored metadata: the origin has another
 * version, or the fetch that the get joined brought nothing for it. */
enum err get_restart(struct get *get)
{
    if (++get->search.restarts > RESTARTS_MAX)
        return get_fail(get, ERR_SLOW_DOWN);
    get_let_go(get);
    metadata_unref(&get->metadata);
    get->search.distrust = true;
    return get_go(get, GET_UNKNOWN);
}

void get_let_go(struct get *get)
{
    store_op_drop(&get->search.op);
    fresh_leave(&get->pages.page, &get->plan.sources.waiter);
    plan_let_go(&get->plan);
}

/* ---- is there metadata? ---- */

static void metadata_came(void *arg, enum err err, struct metadata *metadata)
{
    struct get *get = arg;
    get->search.op = NULL;
    get->metadata = metadata;
    get->phase = err ? GET_UNKNOWN : get->search.found;
    get->of.changed(get->of.changed_arg);
}

enum err get_find(struct get *get, enum get_phase found)
{
    check(!get->metadata && !get->search.op);
    get->search.found = found;
    enum err err = store_metadata(get->of.loop->io, &get->of.id, &get->of.name, metadata_came, get,
                                  &get->metadata, &get->search.op);
    return err == ERR_WAIT ? err : get_go(get, err ? GET_UNKNOWN : found);
}

enum err get_look(struct get *get)
{
    if (!flights_idle(get->of.flights, &get->of.id)) {
        flights_lock(get->of.flights, &get->of.id);
        struct inflight *inflight = inflight_find(get->of.flights, &get->of.id);
        if (inflight && inflight->metadata)
            get->metadata = metadata_ref(inflight->metadata);
        inflight_unref(&inflight);
        flights_unlock(get->of.flights, &get->of.id);
    }
    return get->metadata ? get_go(get, GET_FRESH) : get_find(get, GET_FRESH);
}

/* Judges whether this metadata may answer without a call to the origin. */
static enum err judge_freshness(struct get *get)
{
    static const enum get_phase next[] = {
        [JUDGED_CONFIRMED] = GET_DECIDE, [JUDGED_FRESH] = GET_DECIDE,
        [JUDGED_IMMUTABLE] = GET_DECIDE, [JUDGED_STALE] = GET_DECIDE,
        [JUDGED_EXPIRED] = GET_PAGE, [JUDGED_UNPROVED] = GET_PAGE,
        [JUDGED_NOT_PERMITTED] = GET_PROBE, [JUDGED_NEWEST] = GET_PROBE,
        [JUDGED_RESTATED] = GET_PROBE, [JUDGED_INCOMPLETE] = GET_PROBE,
        [JUDGED_VERSION_EXPIRED] = GET_PROBE,
    };
    static_assert(countof(next) == JUDGEMENTS, "each judgement has its next phase");
    enum judgement judged = get_judge(get);
    if (judged == JUDGED_NOT_PERMITTED)    /* the right to read comes first */
        metric_add(M_GRANT_CHECKS, 1);
    else if (judged != JUDGED_CONFIRMED && get->permit.ages && !get->ask.background &&
             !get_wants_newest(get))
        background_start(get, true);    /* so a client that reads often never waits for a HEAD */
    get->search.upgrade |= judged == JUDGED_INCOMPLETE;
    if (judged == JUDGED_STALE) {
        get->answer.source = GET_STALE;
        background_start(get, false);
    }
    return get_go(get, next[judged]);
}

/* ---- no metadata: the answer to a GET brings it ---- */

/* Returns the whole units that hold the wanted bytes. */
static struct fetch_span span_of_range(const struct s3_range *range)
{
    struct fetch_span span = { .end = NO_END };
    if (range->kind == RANGE_NONE)
        span.plain = true;
    if (range->kind == RANGE_SUFFIX)
        span.suffix = MIN(MAX(range->suffix, (uint64_t)1), NO_END - UNIT_BYTES) + UNIT_BYTES - 1;
    if (range->kind == RANGE_SPAN) {
        span.first = range->first / UNIT_BYTES * UNIT_BYTES;
        if (range->last < NO_END - UNIT_BYTES)
            span.end = (range->last / UNIT_BYTES + 1) * UNIT_BYTES;
    }
    return span;
}

static struct fetch *same_suffix(struct inflight *inflight, uint64_t suffix)
{
    list_each(struct fetch, fetch, &inflight->fetches, link)
        if (!fetch->over && !fetch->canceled && !fetch->answered &&
            fetch->asked.span.suffix == suffix)
            return fetch_join_this(fetch);
    return NULL;
}

/* True if a HEAD comes first: the request wants no bytes, or a part, or its conditions may make
 * the bytes unnecessary, or other nodes may have the bytes of the version that the HEAD names. If
 * the object changed between such a HEAD and the GET, conditions do not count. */
static bool should_probe(const struct get *get)
{
    const struct s3_conditions *conditions = &get->ask.conditions;
    bool conditional = conditions->if_none_match.ptr || conditions->if_modified_since >= 0;
    return get->ask.head_only || get->ask.part ||
           ((conditional || share_must_name(get)) && !get->search.distrust);
}

/* Without a strong ETag, the bytes of one answer can't be continued by those of another. */
static struct fetch *join(struct get *get, const struct fetch_span *span)    /* under the lock */
{
    struct inflight *inflight = get->plan.sources.inflight;
    const struct metadata *known = inflight->metadata;
    if (get->search.alone || get_wants_newest(get) || (known && !learn_has_strong_etag(known)))
        return NULL;
    return span->suffix ? same_suffix(inflight, span->suffix)
                        : fetch_join(inflight, 0, span->first, get->of.asker.for_peer);
}

static struct fetch *start(struct get *get, struct fetch_span *span)    /* under the lock */
{
    struct inflight *inflight = get->plan.sources.inflight;
    const struct metadata *known = inflight->metadata;
    bool provable = !known || learn_has_strong_etag(known);
    share_span(get, span);
    if (provable && !get->search.alone && !span->suffix && !span->plain)
        span->end = MIN(span->end, fetch_next_claim(inflight, 0, span->first));
    return fetch_start(inflight, FETCH_GET, &get->of.asker, NULL, span);
}

/* If the origin has another version than If-Range names, the client gets all of it. The first try
 * asks for the range alone. A later one asks for all, because without a strong ETag no other answer
 * could continue it. */
static struct s3_range range_to_fetch(const struct get *get)
{
    bool may_need_all = get->search.distrust && get->ask.conditions.if_range.ptr;
    return may_need_all ? (struct s3_range){ .kind = RANGE_NONE } : get->ask.range;
}

/* Returns the next phase. GET_ANSWER without a fetch: too many fetches are in progress. */
static enum get_phase join_or_start(struct get *get)    /* under the lock */
{
    struct sources *sources = &get->plan.sources;
    struct search *search = &get->search;
    struct s3_range range = range_to_fetch(get);
    struct fetch_span span = span_of_range(&range);
    bool fetching = !list_empty(&sources->inflight->fetches);
    check(!sources->fetch && !get->metadata);
    if (sources->inflight->metadata && !search->distrust) {    /* an answer has come meanwhile */
        get->metadata = metadata_ref(sources->inflight->metadata);
        return GET_FRESH;
    }
    if (!search->distrust && !search->looked_again && !fetching &&
        store_knows(cache_store(get->of.loop->cache), &get->of.id, &get->of.name)) {
        search->looked_again = true;    /* a fetch has ended meanwhile */
        return GET_LOOK;
    }
    if (get_wants_newest(get) && !search->distrust && fetching)
        return GET_PROBE;    /* the fetch is shared if the HEAD finds its version */
    sources->fetch = join(get, &span);
    if (sources->fetch && !permit_shares(get, sources->fetch)) {    /* H6: as for a hit */
        fetch_leave(&sources->fetch);
        return GET_PROBE;
    }
    fetch_joined(sources->fetch, &get->of.asker);
    if (!sources->fetch)
        sources->fetch = start(get, &span);
    return GET_ANSWER;
}

static enum err unknown(struct get *get)
{
    if (!get->search.distrust && missing_find(get))
        return get_go(get, GET_READY);
    get->part.asked += get->ask.part > 0;    /* a HEAD of the part brings the metadata, too */
    if (should_probe(get))
        return get_go(get, GET_PROBE);
    flights_lock(get->of.flights, &get->of.id);
    plan_hook_in(&get->plan);
    enum get_phase next = join_or_start(get);
    flights_unlock(get->of.flights, &get->of.id);
    bool refused = next == GET_ANSWER && !get->plan.sources.fetch;
    return refused ? get_fail(get, ERR_SLOW_DOWN) : get_go(get, next);
}

static enum err answer_judge(struct get *get)
{
    struct fetch *fetch = get->plan.sources.fetch;
    if (fetch->answered) {
        get->metadata = metadata_ref(fetch->metadata);
        get->validated = true;
        permit_let(get);    /* the fetch is the get's own, or permit_shares let the get join it */
        get->answer.source = GET_MISS;
        return get_go(get, GET_DECIDE);    /* the get stays a reader of the fetch */
    }
    if (!identity_same(fetch->asked.as.who, get->of.asker.who)) {
        get->search.alone = true;    /* another identity was refused */
        return ERR_CHANGED;
    }
    enum err err = ERR_CHANGED;
    /* A request for a segment, in the name of a client who wants all. The next one has no range. */
    bool is_empty = get->ask.range.kind == RANGE_NONE && fetch->request.status == 416 &&
                    !get->search.distrust;
    if (fetch->err != ERR_CHANGED && fetch->err != ERR_CANCELED && !is_empty) {
        missing_note(get, fetch);
        err = get_refuse(get, fetch->refusal);
    }
    fetch_leave(&get->plan.sources.fetch);
    return err;
}

static enum err answer(struct get *get)
{
    enum err err = ERR_WAIT;
    struct fetch *fetch = get->plan.sources.fetch;
    bool is_probe = fetch->asked.kind == FETCH_HEAD;
    flights_lock(get->of.flights, &get->of.id);
    if (!fetch->over && (is_probe || !fetch->answered)) {
        waiter_add(&fetch->readers.waiters, &get->plan.sources.waiter);
    } else if (is_probe) {
        err = get_judge_probe(get);
        fetch_leave(&get->plan.sources.fetch);
    } else {
        err = answer_judge(get);
    }
    flights_unlock(get->of.flights, &get->of.id);
    return err == ERR_CHANGED ? get_restart(get) : err;
}

/* ---- the bytes to send ---- */

/* Finds the place of the part that the client wants. Returns false if the origin must be asked. */
static bool find_part(struct get *get, struct s3_range *ret)
{
    struct part *part = &get->part.place;
    if (!parts_find(get->of.loop->cache->parts, get->metadata, get->ask.part, part))
        return false;
    check(part->first < part->end);
    get->answer.parts = part->count;
    get->answer.part_sums = slice_of(part->sums);
    *ret = (struct s3_range){ .kind = RANGE_SPAN, .first = part->first, .last = part->end - 1 };
    return true;
}

static enum err decide(struct get *get)
{
    struct get_answer *answer = &get->answer;
    bool use_range = true;
    get->cost.decided_ns = mono_ns() - get->began_ns;
    answer->metadata = get->metadata;
    answer->validated_s = atomic_load(&get->metadata->validated_s);
    answer->err = s3_conditions_judge(&get->ask.conditions, get->metadata->etag,
                                      get->metadata->modified_s, &use_range);
    struct s3_range range = use_range ? get->ask.range : (struct s3_range){ .kind = RANGE_NONE };
    if (!answer->err && get->ask.part && !find_part(get, &range)) {
        get_let_go(get);    /* the get may still read from the GET that proved its right */
        return get->part.asked++ < PART_TRIES_MAX ? get_go(get, GET_PROBE)
                                                  : get_fail(get, ERR_NOT_IMPLEMENTED);
    }
    if (!answer->err)
        answer->err = s3_range_resolve(&range, get->metadata->size, &answer->first, &answer->end,
                                       &answer->partial);
    if (!answer->err && get->ask.to.at && !get->ask.head_only &&
        answer->end - answer->first > get->ask.to.bytes)
        return get_fail(get, ERR_TOO_LARGE);
    if (answer->err || get->ask.head_only || answer->first == answer->end) {
        get_let_go(get);
        return get_go(get, GET_READY);
    }
    plan_begin(&get->plan, get->metadata, answer->first, answer->end, get->ask.to.at);
    return get_go(get, GET_FIRST);
}

/* A GET of a huge object must not hold the loop: each 64 units cost a look-up of the index. */
#define NAMED_UNITS 8192u             /* 1 GiB */

/* Sets the source for X-Cache: all bytes come from the cache, some, or none. Bytes of another node
 * are as good as the origin's here: the client had to wait for them. Bytes behind the first
 * NAMED_UNITS do not count. */
static void name_source(struct get *get)
{
    struct get_answer *answer = &get->answer;
    const struct plan *plan = &get->plan;
    if (plan_run_source(&get->plan).origin_end > plan->pos) {
        answer->source = GET_MISS;
        return;
    }
    if (answer->source == GET_MISS)    /* the metadata came from the origin, the bytes did not */
        answer->source = GET_REVALIDATED;
    uint64_t from = plan->pos + plan->run.bytes.len;
    if (from >= plan->end)
        return;
    uint64_t first = from / UNIT_BYTES;
    uint64_t count = MIN((plan->end - 1) / UNIT_BYTES - first + 1, NAMED_UNITS);
    if (store_has_units(cache_store(get->of.loop->cache), get->metadata, first, count,
                        get->ask.among) < count)
        answer->source = GET_PARTIAL;
}

static enum err first(struct get *get)
{
    enum err err = plan_pull(&get->plan);
    if (err == ERR_WAIT)
        return ERR_WAIT;
    if (err == ERR_CHANGED)
        return get_restart(get);
    if (err) {
        enum err refused = get->plan.refusal ? get_refuse(get, get->plan.refusal)
                                             : get_fail(get, err);
        refusal_unref(&get->plan.refusal);
        return refused;
    }
    get->cost.first_ns = mono_ns() - get->began_ns;
    name_source(get);
    return get_go(get, GET_READY);
}

static enum err (*const phases[])(struct get *get) = {
    [GET_LOOK] = get_look,
    [GET_FRESH] = judge_freshness,
    [GET_PAGE] = get_wait_for_page,
    [GET_PAGE_OVER] = get_judge_page,
    [GET_PROBE] = get_probe_start,
    [GET_PROVE] = get_prove,
    [GET_UNKNOWN] = unknown,
    [GET_ANSWER] = answer,
    [GET_DECIDE] = decide,
    [GET_FIRST] = first,
};

static_assert(countof(phases) == GET_READY, "each phase but the last has its function");

/* ---- the functions of get.h ---- */

struct get *get_start(struct cache_loop *loop, const struct get_ask *ask,
                      void (*changed)(void *arg), void *arg)
{
    check(ask->rules && ask->bucket.len && changed);
    struct get *get = must_alloc(sizeof(*get));
    get->magic = GET_MAGIC;
    get->ask = *ask;
    get->of = (struct reading){
        .loop = loop, .flights = loop->cache->flights, .rules = ask->rules,
        .began_ms = ageing_ms(), .changed = changed, .changed_arg = arg, .lends = ask->to.lends,
        .name = { .endpoint = origin_endpoint(ask->rules->origin), .bucket = ask->bucket,
                  .key = ask->key, .version = ask->version },
    };
    get->began_ns = mono_ns();
    store_object_id(cache_store(loop->cache), &get->of.name, &get->of.id);
    permit_ask_as(get, ask->who);
    get->ticket = ticket_new(loop->box, woken, get);
    plan_init(&get->plan, &get->of, get->ticket);
    return get;
}

static bool has_client(const struct get *get)
{
    return !get->ask.background && !get->ask.ahead && get->ask.rank == ORIGIN_READER;
}

/* Returns what the get waits for. */
static enum metric wait_of(const struct get *get)
{
    const struct fetch *fetch = get->plan.sources.fetch;
    if (get->search.op || get->plan.ahead.awaited)
        return M_WAIT_DISK;
    if (get->phase == GET_ANSWER)
        return fetch->asked.kind == FETCH_HEAD ? M_WAIT_ORIGIN : M_WAIT_MISS;
    return get->phase >= GET_DECIDE ? M_WAIT_MISS : M_WAIT_ORIGIN;
}

/* Passes on the result of a step. A get that does not wait pays for no clock. */
static enum err note_wait(struct get *get, enum err err)
{
    if (err == ERR_WAIT && has_client(get))
        get->wait = (struct get_wait){ mono_ns(), wait_of(get) };
    return err;
}

static void end_wait(struct get *get)
{
    if (get->wait.since_ns)
        metric_time(get->wait.what, mono_ns() - get->wait.since_ns);
    get->wait.since_ns = 0;
}

/* Adds the read to the trace of reads, for follow jobs. */
static void trace_read(const struct get *get)
{
    struct read_trace *trace = cache_trace(get->of.loop->cache);
    const struct get_ask *ask = &get->ask;
    if (ask->reader.ptr && !ask->head_only && !get->answer.err && read_trace_is_watched(trace))
        read_trace_add(trace, read_trace_hash(trace, ask->reader, ask->bucket, ask->key,
                                              get->answer.first));
}

enum err get_decide(struct get *get, const struct get_answer **ret)
{
    check(get->magic == GET_MAGIC);
    bool is_new = get->phase != GET_READY;
    end_wait(get);
    while (get->phase != GET_READY) {
        /* with an op, metadata_came will be called */
        enum err err = get->search.op ? ERR_WAIT : phases[get->phase](get);
        if (err)
            return note_wait(get, err);
    }
    check(get->answer.refusal || get->answer.metadata);
    if (is_new)
        trace_read(get);
    *ret = &get->answer;
    return OK;
}

enum err get_next(struct get *get, slice *ret)
{
    struct plan *plan = &get->plan;
    check(get->magic == GET_MAGIC && get->phase == GET_READY && plan->pos < plan->end);
    end_wait(get);
    enum err err = plan_pull(plan);
    if (err)
        return note_wait(get, err);
    *ret = plan->run.bytes;
    struct run_source source = plan_run_source(plan);
    get->cost.peers_bytes += source.peer_end - plan->pos;
    get->cost.origin_bytes += source.origin_end - source.peer_end;
    get->cost.cache_bytes += plan->pos + ret->len - source.origin_end;
    plan_advance(plan);
    return OK;
}

bool get_run_file(const struct get *get, int *ret_fd, uint64_t *ret_offset)
{
    return object_bytes_file(&get->plan.run.held, ret_fd, ret_offset);
}

enum err get_run_copy(const struct get *get, slice bytes, void *to, enum copy_use use)
{
    return object_bytes_copy(&get->plan.run.held, bytes, to, use);
}

bool gets_are_scarce(const struct cache_loop *loop)
{
    return store_held_bytes_scarce(loop->io) || slots_scarce(loop->cache->flights);
}

uint64_t get_age_ms(const struct get *get)
{
    check(get->phase == GET_READY && get->metadata && !get->answer.err);
    return permit_age_ms(get, ageing_ms());
}

const struct get_cost *get_cost(const struct get *get)
{
    return &get->cost;
}

bool get_writes(const struct get *get)
{
    const struct read_ahead *ahead = &get->plan.ahead;
    return ahead->count && store_op_writes(ahead->reads[ahead->first].op);
}

void get_end(struct get **get)
{
    struct get *mine = *get;
    *get = NULL;
    if (!mine)
        return;
    check(mine->magic == GET_MAGIC);
    end_wait(mine);
    get_let_go(mine);
    plan_close(&mine->plan);
    ticket_end(&mine->ticket);
    metadata_unref(&mine->metadata);
    refusal_unref(&mine->refusal);
    mine->magic = 0;
    free(mine);
}
