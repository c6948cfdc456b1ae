/* piece.c - one item of a job. SPDX-License-Identifier: Apache-2.0
 *
 *   waits ──> reads: a get for each range ──┬──> lands: the store decides ──> done
 *     ^                │                    └──> done: a hit, or a failure
 *     └── an outage ───┘
 *
 * If the cached copy is fresh and complete, no byte is read. Otherwise a get reads the bytes and
 * drops them: a flight stores them (cache/flight.h). An item of which bytes came from the origin is
 * done when the store has all of them on its disk, or when no fetch of the object is left. So an
 * item that counts as done is never lost by a kill -9, and the job knows whether the cache keeps
 * what it brings. Threads: the thread `jobs`. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/metric.h"
#include "jobs/inside.h"
#include "s3/error.h"

#define TURN_BYTES (4 * MIB)          /* of one item before other items have a turn */
#define TRIES_MAX 5u                  /* of an item, while the origin answers other calls */
#define LANDS_MS 30000u
#define NAMED_UNITS 8192u             /* get_answer.source knows of so many units (1 GiB) */

void piece_init(struct piece *piece, struct job_run *run, const struct item *item,
                const struct place *place)
{
    *piece = (struct piece){ .run = run, .item = *item, .place = *place };
    piece->key = must_strndup(item->key.ptr, item->key.len);
    piece->item.key.ptr = piece->key;
    list_init(&piece->link);
}

static void end_get(struct piece *piece)
{
    if (!piece->get)
        return;
    check(piece->run->reading > 0 && piece->run->jobs->gets > 0);
    list_del(&piece->link);
    get_end(&piece->get);
    piece->run->reading--;
    piece->run->jobs->gets--;
    piece->foreseen = piece->decided = false;
}

void piece_free(struct piece *piece)
{
    end_get(piece);
    metadata_unref(&piece->metadata);
    free(piece->key);
    piece->key = NULL;
}

/* ---- ranges ---- */

/* An item with a span of its own has no other range. */
static size_t range_count(const struct piece *piece)
{
    size_t count = piece->run->job->spec.range_count;
    return piece->item.kind == ITEM_SPAN || !count ? 1 : count;
}

/* Returns the item for the get of this range. */
static struct item item_of(const struct piece *piece, size_t range)
{
    struct item item = piece->item;
    if (item.kind == ITEM_WHOLE && piece->run->job->spec.range_count) {
        item.kind = ITEM_RANGE;
        item.range = piece->run->job->spec.ranges[range];
    }
    return item;
}

/* The bytes of this range in the version that was read. False: the range has none. */
static bool span_of(const struct piece *piece, size_t range, uint64_t *ret_first, uint64_t *ret_end)
{
    const struct item item = item_of(piece, range);
    struct s3_range span = item.range;
    bool partial;
    if (item.kind == ITEM_SPAN)
        span = (struct s3_range){ .kind = RANGE_SPAN, .first = item.first,
                                  .last = item.length == ITEM_OPEN
                                          ? UINT64_MAX : item.first + item.length - 1 };
    return s3_range_resolve(&span, piece->metadata->size, ret_first, ret_end, &partial) == OK &&
           *ret_first < *ret_end && item.length;
}

static bool has_units(const struct piece *piece, uint64_t first, uint64_t end)
{
    uint64_t unit = first / UNIT_BYTES, count = (end - 1) / UNIT_BYTES - unit + 1;
    return store_has_units(jobs_store(piece->run->jobs), piece->metadata, unit, count) == count;
}

/* ---- ends ---- */

static void finish(struct piece *piece)
{
    piece->phase = PIECE_DONE;
    metadata_unref(&piece->metadata);
    job_run_wake(piece->run);
}

static void fail(struct piece *piece, enum err err, int status)
{
    end_get(piece);
    piece->result.err = err;
    piece->result.status = status ? status : s3_error_of(err)->status;
    finish(piece);
}

/* Notes an outage: the piece begins again later, or fails for good. A try counts only if the origin
 * has answered other calls of the run since the try before, or if no other item is left. So an
 * origin that is down for a while costs no item, and an item that always fails stops no other. */
static void rest(struct piece *piece, enum err err, int status)
{
    struct piece_outage *outage = &piece->outage;
    struct job_run *run = piece->run;
    end_get(piece);
    bool alone = !run->waiting && !run->reading && run->source.over;
    outage->last_ms = mono_ms();
    if (!outage->tries || run->successes != outage->successes || alone)
        outage->tries++;
    outage->successes = run->successes;
    job_run_meets_outage(run, s3_error_of(err)->message);
    if (outage->tries >= TRIES_MAX) {
        fail(piece, err, status);
        return;
    }
    piece->result.bytes = 0;
    piece->range = 0;
    piece->phase = PIECE_WAITS;
    run->waiting++;
    job_run_wake(run);
}

/* ---- the get of a range ---- */

static void begin_range(struct piece *piece);
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

static void take_metadata(struct piece *piece, const struct metadata *metadata)
{
    metadata_unref(&piece->metadata);
    piece->metadata = metadata_ref((struct metadata *)metadata);
}

/* True if the store has all bytes of the answer. */
static bool is_here(struct piece *piece, const struct get_answer *answer)
{
    if (answer->source == GET_MISS || answer->source == GET_PARTIAL)
        return false;
    return piece->want <= (uint64_t)NAMED_UNITS * UNIT_BYTES ||
           has_units(piece, answer->first, answer->end);
}

static void end_range(struct piece *piece)
{
    uint64_t origin_bytes = get_cost(piece->get)->origin_bytes;
    piece->result.bytes += piece->want;
    piece->result.fetched |= origin_bytes > 0;
    /* The bytes may be in the store before this thread reads them. They still came from the
     * origin. */
    piece->result.origin_bytes += piece->unknown ? piece->want : origin_bytes;
    end_get(piece);
    if (++piece->range < range_count(piece)) {
        begin_range(piece);
    } else if (piece->result.fetched && piece->metadata) {
        piece->phase = PIECE_LANDS;
        piece->lands_ms = mono_ms();
        job_run_wake(piece->run);
    } else {
        finish(piece);
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
static bool decided(struct piece *piece, const struct get_answer *answer)
{
    enum err outage = outage_of(answer);
    piece->decided = true;
    if (outage) {
        rest(piece, outage, answer->refusal ? answer->refusal->status : 0);
        return false;
    }
    if (was_asked(answer))
        job_run_succeeds(piece->run);
    /* A short object has not every range of the job. */
    bool beyond = answer->err == ERR_BAD_RANGE && item_of(piece, piece->range).kind == ITEM_RANGE;
    if (answer->err && !beyond) {
        fail(piece, answer->err, answer->refusal ? answer->refusal->status : 0);
        return false;
    }
    piece->want = beyond ? 0 : answer->end - answer->first;
    if (answer->metadata)
        take_metadata(piece, answer->metadata);
    if (piece->want && !is_here(piece, answer))
        return true;
    end_range(piece);
    return false;
}

/* Returns false if the piece waits, or has ended. */
static void move(struct piece *piece)
{
    for (uint64_t until = piece->at + TURN_BYTES; piece->at < piece->want;) {
        slice bytes;
        if (piece->at >= until) {
            list_del(&piece->link);
            list_add(&piece->run->jobs->ready, &piece->link);
            return;
        }
        enum err err = get_next(piece->get, &bytes);
        if (err == ERR_WAIT)
            return;
        if (err) {
            piece->result.origin_bytes += get_cost(piece->get)->origin_bytes;
            rest(piece, err, 0);
            return;
        }
        piece->at += bytes.len;
    }
    end_range(piece);
}

/* Notes what is missing. Returns true if the get would be a hit for all bytes of the range, without
 * a word from the origin. */
static bool is_hit(struct piece *piece, const struct get_forecast *forecast)
{
    uint64_t first = 0, end = 0;
    piece->unknown = !forecast->metadata;
    piece->want = 0;
    if (forecast->metadata) {
        take_metadata(piece, forecast->metadata);
        if (span_of(piece, piece->range, &first, &end))
            piece->want = end - first;
        else if (item_of(piece, piece->range).kind == ITEM_SPAN)
            return false;    /* the get says what is wrong with it */
    }
    bool missing = piece->unknown || (piece->want && !has_units(piece, first, end));
    piece->result.fetched |= missing;
    return !missing && (forecast->judgement == JUDGED_FRESH ||
                        forecast->judgement == JUDGED_IMMUTABLE ||
                        forecast->judgement == JUDGED_CONFIRMED);
}

/* A get that has made a forecast does nothing else, so another one follows it. Returns false if the
 * piece waits, or goes on with another range. */
static bool foresee(struct piece *piece)
{
    struct get_forecast forecast;
    if (get_forecast(piece->get, &forecast) == ERR_WAIT)
        return false;
    if (is_hit(piece, &forecast)) {
        end_range(piece);
        return false;
    }
    piece->foreseen = true;
    get_end(&piece->get);
    piece->get = get_start(piece->run->jobs->cache, &piece->ask, step, piece);
    return true;
}

static void step(void *arg)
{
    struct piece *piece = arg;
    const struct get_answer *answer;
    check(piece->get && piece->phase == PIECE_READS);
    if (!piece->foreseen && !foresee(piece))
        return;
    if (!piece->decided && (get_decide(piece->get, &answer) == ERR_WAIT || !decided(piece, answer)))
        return;
    move(piece);
}

/* Judges the item as a GetObject of the client that started the job, and starts the get. */
static void begin_range(struct piece *piece)
{
    struct job_run *run = piece->run;
    struct jobs *jobs = run->jobs;
    const struct reader_judge *judge = &jobs->judge;
    const struct item item = item_of(piece, piece->range);
    struct arena scratch = { 0 };
    struct reader reader;
    if (judge->find(judge->arg, run->job->spec.owner, &reader) != OK) {
        piece->phase = PIECE_WAITS;
        job_run_ends(run, JOB_REFUSED, S("Penstock's settings have no client of this access key "
                                         "any more, or several"));
        return;
    }
    reader.quiet = run->job->report.done.failed >= JOB_FAILURES_MAX;
    enum err err = judge->may_get(judge->arg, &scratch, &reader, run->job->spec.bucket, &item,
                                  &piece->ask);
    arena_free(&scratch);
    if (err) {
        fail(piece, err, 0);
        return;
    }
    piece->ask.list_id = (uintptr_t)jobs;    /* all jobs together take turns as one list */
    piece->at = piece->want = 0;
    run->reading++;
    jobs->gets++;
    piece->get = get_start(jobs->cache, &piece->ask, step, piece);
    step(piece);
}

void piece_begin(struct piece *piece)
{
    check(piece->phase == PIECE_WAITS && !piece->get);
    piece->phase = PIECE_READS;
    begin_range(piece);
}

void piece_go_on(struct piece *piece)
{
    move(piece);
}

/* ---- landing ---- */

/* True if the store has all bytes of the item. *ret_any: there is at least one byte. */
static bool is_kept(const struct piece *piece, bool *ret_any)
{
    bool kept = true;
    *ret_any = false;
    for (size_t i = 0; i < range_count(piece) && kept; i++) {
        uint64_t first, end;
        if (!span_of(piece, i, &first, &end))
            continue;
        kept = has_units(piece, first, end);
        *ret_any = true;
    }
    return kept;
}

/* True if the bytes would have come to the disk long ago. Clients that read an object again and
 * again, which the cache does not keep, would otherwise hold up the job for ever. */
static bool is_late(const struct piece *piece)
{
    return mono_ms() - piece->lands_ms >= LANDS_MS &&
           store_keeps_up(jobs_store(piece->run->jobs), &piece->metadata->id);
}

void piece_look(struct piece *piece)
{
    check(piece->phase == PIECE_LANDS && piece->metadata);
    /* In this order: a record that is written between the two looks must not be missed. */
    bool idle = cache_is_idle(piece->run->jobs->options.cache, &piece->metadata->id), any;
    bool kept = is_kept(piece, &any);
    if (!(kept && any) && !idle && !is_late(piece))
        return;
    piece->result.unkept = !kept;
    finish(piece);
}
