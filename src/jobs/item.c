/* item.c - one item of a job. SPDX-License-Identifier: Apache-2.0
 *
 *   waits ──> reads: a get for each range ──┬──> lands: the store decides ──> done
 *     ^                │                    └──> done: a hit, or a failure
 *     └── an outage ───┘
 *
 * If the cached copy is fresh and complete, no byte is read. Otherwise a get reads the bytes and
 * drops them: a flight stores them (cache/flight.h). If bytes of an item had to be fetched, the
 * item is done when the store has all its bytes on the disk, or when no fetch of the object is
 * left. So a kill -9 loses no item that counts as done, and the job knows whether the cache keeps
 * the objects that it brings. Threads: the thread `jobs`. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/metric.h"
#include "jobs/inside.h"
#include "s3/error.h"

#define TURN_BYTES (4 * MIB)          /* of one item before other items have a turn */
#define TRIES_MAX 5u                  /* of an item, while the origin answers other calls */
#define LANDS_MS 30000u
#define NAMED_UNITS 8192u             /* get_answer.source tells only where the first 8,192 units
                                       * (1 GiB) of an answer come from */

void job_item_init(struct job_item *job_item, struct job_run *run, const struct item *item,
                   const struct item_position *position)
{
    *job_item = (struct job_item){ .run = run, .item = *item, .position = *position };
    job_item->key = must_strndup(item->key.ptr, item->key.len);
    job_item->item.key.ptr = job_item->key;
    list_init(&job_item->link);
}

static void end_get(struct job_item *job_item)
{
    if (!job_item->get)
        return;
    check(job_item->run->reading > 0 && job_item->run->jobs->gets > 0);
    list_del(&job_item->link);
    get_end(&job_item->get);
    job_item->run->reading--;
    job_item->run->jobs->gets--;
    job_item->foreseen = job_item->decided = false;
}

void job_item_free(struct job_item *job_item)
{
    end_get(job_item);
    metadata_unref(&job_item->metadata);
    free(job_item->key);
    job_item->key = NULL;
}

/* ---- ranges ---- */

/* The ranges of the job do not apply to an item with a span of its own. */
static size_t range_count(const struct job_item *job_item)
{
    size_t count = job_item->run->job->spec.range_count;
    return job_item->item.kind == ITEM_SPAN || !count ? 1 : count;
}

/* Returns the item for the get of this range. */
static struct item item_of(const struct job_item *job_item, size_t range)
{
    struct item item = job_item->item;
    if (item.kind == ITEM_WHOLE && job_item->run->job->spec.range_count) {
        item.kind = ITEM_RANGE;
        item.range = job_item->run->job->spec.ranges[range];
    }
    return item;
}

/* Finds the bytes of this range in the version that was read. Returns false if it has none of
 * them. */
static bool span_of(const struct job_item *job_item, size_t range, uint64_t *ret_first,
                    uint64_t *ret_end)
{
    const struct item item = item_of(job_item, range);
    struct s3_range span = item.range;
    bool partial;
    if (item.kind == ITEM_SPAN)
        span = (struct s3_range){ .kind = RANGE_SPAN, .first = item.first,
                                  .last = item.length == ITEM_OPEN
                                          ? UINT64_MAX : item.first + item.length - 1 };
    return s3_range_resolve(&span, job_item->metadata->size, ret_first, ret_end, &partial) == OK &&
           *ret_first < *ret_end && item.length;
}

/* Staged records go soon. So a job that does not follow treats them as not cached. */
static enum store_records among(const struct job_item *job_item)
{
    return job_item->run->follow ? RECORDS_ALL : RECORDS_NOT_STAGED;
}

static bool has_units(const struct job_item *job_item, uint64_t first, uint64_t end)
{
    uint64_t unit = first / UNIT_BYTES, count = (end - 1) / UNIT_BYTES - unit + 1;
    struct store *store = jobs_store(job_item->run->jobs);
    return store_has_units(store, job_item->metadata, unit, count, among(job_item)) == count;
}

/* ---- ends ---- */

static void finish(struct job_item *job_item)
{
    job_item->phase = JOB_ITEM_DONE;
    metadata_unref(&job_item->metadata);
    job_run_wake(job_item->run);
}

static void fail(struct job_item *job_item, enum err err, int status)
{
    end_get(job_item);
    job_item->result.err = err;
    job_item->result.status = status ? status : s3_error_of(err)->status;
    finish(job_item);
}

/* Notes an outage: the item begins again later, or fails for good after TRIES_MAX tries that count.
 * The first try counts. A later try counts only if the origin has answered other calls of the run
 * since the try before, or if no other item is left. So no item fails only because the origin is
 * down for a while, and an item that always fails stops no other item. While Penstock stops, no try
 * counts: the job goes on after the restart. */
static void rest(struct job_item *job_item, enum err err, int status)
{
    struct job_item_outage *outage = &job_item->outage;
    struct job_run *run = job_item->run;
    end_get(job_item);
    bool alone = !run->waiting && !run->reading && run->source.over;
    outage->last_ms = mono_ms();
    bool stopping = cache_is_stopping(run->jobs->options.cache);
    if (!stopping && (!outage->tries || run->successes != outage->successes || alone))
        outage->tries++;
    outage->successes = run->successes;
    job_run_meets_outage(run, s3_error_of(err)->message);
    if (outage->tries >= TRIES_MAX) {
        fail(job_item, err, status);
        return;
    }
    job_item->result.bytes = 0;
    job_item->range = 0;
    job_item->phase = JOB_ITEM_WAITS;
    run->waiting++;
    job_run_wake(run);
}

/* ---- the get of a range ---- */

static void begin_range(struct job_item *job_item);
static void step(void *arg);

/* Returns the error of an answer that may be better later, or OK. An expired copy is such an
 * answer, too: it must not count as an object that the job has brought up to date. */
static enum err outage_of(const struct get_answer *answer)
{
    const struct refusal *refusal = answer->refusal;
    if (answer->source == GET_STALE_IF_ERROR)
        return ERR_ORIGIN_DOWN;
    return refusal && (refusal_is_outage(refusal) || refusal->err == ERR_ORIGIN_KEYS) ? answer->err
                                                                                     : OK;
}

static void take_metadata(struct job_item *job_item, const struct metadata *metadata)
{
    metadata_unref(&job_item->metadata);
    job_item->metadata = metadata_ref((struct metadata *)metadata);
}

/* True if the store has all bytes of the answer. */
static bool is_here(struct job_item *job_item, const struct get_answer *answer)
{
    if (answer->source == GET_MISS || answer->source == GET_PARTIAL)
        return false;
    return job_item->want <= (uint64_t)NAMED_UNITS * UNIT_BYTES ||
           has_units(job_item, answer->first, answer->end);
}

static void end_range(struct job_item *job_item)
{
    struct get_cost cost = *get_cost(job_item->get);
    job_item->result.bytes += job_item->want;
    job_item->result.fetched |= cost.peers_bytes + cost.origin_bytes > 0;
    /* If even the metadata was missing, all bytes were fetched just now. Those that the get found
     * in the cache came by a fetch of another request, and count as the origin's. */
    if (job_item->unknown)
        cost.origin_bytes = job_item->want - MIN(cost.peers_bytes, job_item->want);
    job_item->result.peers_bytes += cost.peers_bytes;
    job_item->result.origin_bytes += cost.origin_bytes;
    end_get(job_item);
    if (++job_item->range < range_count(job_item)) {
        begin_range(job_item);
    } else if (job_item->result.fetched && job_item->metadata) {
        job_item->phase = JOB_ITEM_LANDS;
        job_item->lands_ms = mono_ms();
        job_run_wake(job_item->run);
    } else {
        finish(job_item);
    }
}

/* True if the origin has answered during this get. */
static bool was_asked(const struct get_answer *answer)
{
    return answer->refusal ? answer->refusal->status && answer->source != GET_NEGATIVE
                           : answer->source == GET_MISS || answer->source == GET_PARTIAL ||
                             answer->source == GET_REVALIDATED;
}

/* Takes the decision of the get. Returns true if bytes are to be read. */
static bool decided(struct job_item *job_item, const struct get_answer *answer)
{
    enum err outage = outage_of(answer);
    job_item->decided = true;
    if (outage) {
        rest(job_item, outage, answer->refusal ? answer->refusal->status : 0);
        return false;
    }
    if (was_asked(answer))
        job_run_succeeds(job_item->run);
    /* A short object may lack a range of the job: that is no failure. */
    bool beyond = answer->err == ERR_BAD_RANGE &&
                  item_of(job_item, job_item->range).kind == ITEM_RANGE;
    if (answer->err && !beyond) {
        fail(job_item, answer->err, answer->refusal ? answer->refusal->status : 0);
        return false;
    }
    job_item->want = beyond ? 0 : answer->end - answer->first;
    if (answer->metadata)
        take_metadata(job_item, answer->metadata);
    if (job_item->want && !is_here(job_item, answer))
        return true;
    end_range(job_item);
    return false;
}

/* Reads bytes of the range, until the item has to wait, or its turn is over (TURN_BYTES), or the
 * range ends. */
static void move(struct job_item *job_item)
{
    for (uint64_t until = job_item->at + TURN_BYTES; job_item->at < job_item->want;) {
        slice bytes;
        if (job_item->at >= until) {
            list_del(&job_item->link);
            list_add(&job_item->run->jobs->ready, &job_item->link);
            return;
        }
        enum err err = get_next(job_item->get, &bytes);
        if (err == ERR_WAIT)
            return;
        if (err) {
            job_item->result.peers_bytes += get_cost(job_item->get)->peers_bytes;
            job_item->result.origin_bytes += get_cost(job_item->get)->origin_bytes;
            rest(job_item, err, 0);
            return;
        }
        job_item->at += bytes.len;
    }
    end_range(job_item);
}

/* Notes what is missing. Returns true if the get would be a hit for all bytes of the range, without
 * a call to the origin. */
static bool is_hit(struct job_item *job_item, const struct get_forecast *forecast)
{
    uint64_t first = 0, end = 0;
    job_item->unknown = !forecast->metadata;
    job_item->want = 0;
    if (forecast->metadata) {
        take_metadata(job_item, forecast->metadata);
        if (span_of(job_item, job_item->range, &first, &end))
            job_item->want = end - first;
        else if (item_of(job_item, job_item->range).kind == ITEM_SPAN)
            return false;    /* the get will say what is wrong with the span */
    }
    bool missing = job_item->unknown || (job_item->want && !has_units(job_item, first, end));
    job_item->result.fetched |= missing;
    return !missing && (forecast->judgement == JUDGED_FRESH ||
                        forecast->judgement == JUDGED_IMMUTABLE ||
                        forecast->judgement == JUDGED_CONFIRMED);
}

/* A get that has made a forecast does nothing else. So if the forecast is no hit, a second get
 * follows. Returns false if the forecast has not come yet, or is a hit, which ends the range. */
static bool foresee(struct job_item *job_item)
{
    struct get_forecast forecast;
    if (get_forecast(job_item->get, &forecast) == ERR_WAIT)
        return false;
    if (is_hit(job_item, &forecast)) {
        end_range(job_item);
        return false;
    }
    job_item->foreseen = true;
    get_end(&job_item->get);
    job_item->get = get_start(job_item->run->jobs->cache, &job_item->ask, step, job_item);
    return true;
}

static void step(void *arg)
{
    struct job_item *job_item = arg;
    const struct get_answer *answer;
    check(job_item->get && job_item->phase == JOB_ITEM_READS);
    if (!job_item->foreseen && !foresee(job_item))
        return;
    if (!job_item->decided &&
        (get_decide(job_item->get, &answer) == ERR_WAIT || !decided(job_item, answer)))
        return;
    move(job_item);
}

/* Judges the item as a GetObject of the client that started the job, and starts the get. */
static void begin_range(struct job_item *job_item)
{
    struct job_run *run = job_item->run;
    struct jobs *jobs = run->jobs;
    const struct reader_judge *judge = &jobs->judge;
    const struct item item = item_of(job_item, job_item->range);
    struct arena scratch = { 0 };
    struct reader reader;
    if (judge->find(judge->arg, run->job->spec.owner, &reader) != OK) {
        job_item->phase = JOB_ITEM_WAITS;
        job_run_stop(run, JOB_REFUSED, S("Penstock's settings have no client of this access key "
                                         "any more, or several"));
        return;
    }
    reader.quiet = run->job->report.done.failed >= JOB_FAILURES_MAX;
    enum err err = judge->may_get(judge->arg, &scratch, &reader, run->job->spec.bucket, &item,
                                  &job_item->ask);
    arena_free(&scratch);
    if (err) {
        fail(job_item, err, 0);
        return;
    }
    job_item->ask.reader = (slice){ NULL, 0 };    /* a job does not read for anybody */
    job_item->ask.list_id = (uintptr_t)jobs;    /* all jobs together take turns as one list */
    job_item->ask.rank = ORIGIN_JOB;
    job_item->ask.ahead = run->follow != NULL;
    job_item->ask.among = among(job_item);
    job_item->at = job_item->want = 0;
    run->reading++;
    jobs->gets++;
    job_item->get = get_start(jobs->cache, &job_item->ask, step, job_item);
    step(job_item);
}

void job_item_begin(struct job_item *job_item)
{
    check(job_item->phase == JOB_ITEM_WAITS && !job_item->get);
    job_item->phase = JOB_ITEM_READS;
    begin_range(job_item);
}

void job_item_skip(struct job_item *job_item)
{
    check(job_item->phase == JOB_ITEM_WAITS && !job_item->get);
    job_item->result.skipped = true;
    finish(job_item);
}

void job_item_go_on(struct job_item *job_item)
{
    move(job_item);
}

/* ---- landing ---- */

/* True if the store has all bytes of the item. *ret_any: there is at least one byte. */
static bool is_kept(const struct job_item *job_item, bool *ret_any)
{
    bool kept = true;
    *ret_any = false;
    for (size_t i = 0; i < range_count(job_item) && kept; i++) {
        uint64_t first, end;
        if (!span_of(job_item, i, &first, &end))
            continue;
        kept = has_units(job_item, first, end);
        *ret_any = true;
    }
    return kept;
}

/* True if the item has waited so long that its bytes would be on the disk by now if the cache kept
 * them. The reason for this limit: while clients read an object again and again that the cache does
 * not keep, a fetch of the object is always in progress, and the job would never end. */
static bool is_late(const struct job_item *job_item)
{
    return mono_ms() - job_item->lands_ms >= LANDS_MS &&
           store_keeps_up(jobs_store(job_item->run->jobs), &job_item->metadata->id);
}

void job_item_look(struct job_item *job_item)
{
    check(job_item->phase == JOB_ITEM_LANDS && job_item->metadata);
    /* In this order: a record that is written between the two looks must not be missed. */
    bool idle = cache_is_idle(job_item->run->jobs->options.cache, &job_item->metadata->id), any;
    bool kept = is_kept(job_item, &any);
    if (!(kept && any) && !idle && !is_late(job_item))
        return;
    job_item->result.not_kept = !kept;
    finish(job_item);
}
