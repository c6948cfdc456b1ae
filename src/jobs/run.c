/* run.c - a job in progress. SPDX-License-Identifier: Apache-2.0
 *
 * The run takes items from its source and begins them, as long as the limit of gets and the
 * ring of items allow it. The items at the front of the ring that are done are *settled*: they go
 * into the sums and the cursor that the state file has.
 *
 * If the origin fails, or a limit of Penstock refuses an item, the run pauses for a second, then 2,
 * 4 and up to 30 s. After each pause, one item is tried alone. Thus a job outlives an origin that
 * is down for hours, and sends it few calls. Threads: the thread `jobs`. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "jobs/inside.h"
#include "s3/error.h"

#define PAUSE_MS 1000u
#define PAUSE_MS_MAX 30000u
#define RUN_S (7 * 24 * 3600)          /* H8: a job may take so long */
#define LOOK_MS 50u                   /* between two looks at the items that land */
#define NOT_KEPT_MAX 64u                /* after so many items in a row that the cache did not
                                         * keep, the cache counts as full */

#define FOLLOW_LOOK_MS 20u             /* between two looks at what was read */

static struct job_item *item_at(const struct job_run *run, size_t i)
{
    return &run->ring[(run->first + i) % RUN_ITEMS];
}

void job_run_new(struct jobs *jobs, struct job *job)
{
    struct job_run *run = must_alloc(sizeof(*run));
    run->jobs = jobs;
    run->job = job;
    run->ring = must_alloc(RUN_ITEMS * sizeof(*run->ring));
    list_init(&run->link);
    list_add(&jobs->runs, &run->link);
    job_source_begin(&run->source, run);
    if (job->spec.mode == JOB_FOLLOW)
        run_follow_begin(run);
}

void job_run_free(struct job_run **run)
{
    struct job_run *mine = *run;
    *run = NULL;
    for (size_t i = 0; i < mine->count; i++)
        job_item_free(item_at(mine, i));
    job_source_end(&mine->source);
    prefix_size_end(&mine->size);
    run_follow_end(mine);
    list_del(&mine->link);
    free(mine->ring);
    free(mine);
}

void job_run_stop(struct job_run *run, enum job_state state, slice why)
{
    struct jobs *jobs = run->jobs;
    check(state != JOB_RUNNING);
    if (run->state != JOB_RUNNING)
        return;
    run->state = state;
    pthread_mutex_lock(&jobs->lock);
    run->why = arena_copy(&run->job->keep, why);
    pthread_mutex_unlock(&jobs->lock);
    job_run_wake(run);
}

void job_run_wake(struct job_run *run)
{
    ticket_wake(run->jobs->look);
}

void job_run_first_page(struct job_run *run, const struct listing *page)
{
    prefix_size_begin(&run->size, run, page);
}

/* ---- outages ---- */

static void tell_waits(struct job_run *run, const char *why)
{
    pthread_mutex_lock(&run->jobs->lock);
    run->job->report.waits = why;
    pthread_mutex_unlock(&run->jobs->lock);
}

void job_run_succeeds(struct job_run *run)
{
    run->successes++;
    if (run->outage.tries)
        tell_waits(run, NULL);
    run->outage = (struct job_outage){ .tries = 0 };
}

void job_run_meets_outage(struct job_run *run, const char *why)
{
    struct job_outage *outage = &run->outage;
    uint64_t now_ms = mono_ms();
    if (outage->tries && now_ms < outage->until_ms)    /* a try from before the pause */
        return;
    uint64_t pause_ms = (uint64_t)PAUSE_MS << MIN(outage->tries, 5u);
    outage->tries++;
    outage->until_ms = now_ms + MIN(pause_ms, (uint64_t)PAUSE_MS_MAX);
    tell_waits(run, why);
}

bool job_run_may_ask(const struct job_run *run)
{
    return run->state == JOB_RUNNING && !cache_is_stopping(run->jobs->options.cache) &&
           (!run->outage.tries || (mono_ms() >= run->outage.until_ms && !run->reading));
}

/* ---- beginning ---- */

/* Returns the item that has waited longest to begin again, or NULL. */
static struct job_item *waiting_item(struct job_run *run)
{
    struct job_item *found = NULL;
    for (size_t i = 0; i < run->count && run->waiting; i++) {
        struct job_item *job_item = item_at(run, i);
        if (job_item->phase == JOB_ITEM_WAITS &&
            (!found || job_item->outage.last_ms < found->outage.last_ms))
            found = job_item;
    }
    run->waiting -= found != NULL;
    return found;
}

static struct job_item *next_item(struct job_run *run)
{
    struct item item;
    struct item_position position;
    if (run->count == RUN_ITEMS || (run->follow && !run_follow_may_take(run)) ||
        job_source_next(&run->source, &item, &position) != OK)
        return NULL;
    struct job_item *job_item = item_at(run, run->count++);
    job_item_init(job_item, run, &item, &position);
    if (run->follow)
        job_item->follow_index = run_follow_took(run);
    return job_item;
}

/* Begins or skips an item of JOB_FOLLOW. Returns false if there is none. */
static bool follow_one(struct job_run *run)
{
    run_follow_look_ahead(run);
    while (next_item(run))
        run->waiting++;
    struct job_item *job_item = run_follow_may_begin(run) ? waiting_item(run) : NULL;
    if (!job_item)
        return false;
    if (run_follow_is_past(run, job_item))
        job_item_skip(job_item);
    else
        job_item_begin(job_item);
    return true;
}

bool job_run_begin_one(struct job_run *run)
{
    if (!job_run_may_ask(run))
        return false;
    if (run->follow)
        return follow_one(run);
    /* During an outage, a new item comes first: one item that always fails must not be the only
     * one that is tried. */
    struct job_item *job_item = run->outage.tries ? next_item(run) : waiting_item(run);
    if (!job_item)
        job_item = run->outage.tries ? waiting_item(run) : next_item(run);
    if (!job_item)
        return false;
    job_item_begin(job_item);
    return true;
}

/* ---- settling ---- */

static void add_sums(struct job_sums *sums, const struct job_item_result *result)
{
    sums->objects++;
    sums->bytes += result->err ? 0 : result->bytes;
    sums->hits += !result->err && !result->fetched && !result->skipped;
    sums->fetched += !result->err && result->fetched;
    sums->peers_bytes += result->peers_bytes;
    sums->origin_bytes += result->origin_bytes;
    sums->not_kept += result->not_kept;
    sums->failed += result->err != OK;
    sums->skipped += result->skipped;
}

static void add_failure(struct job *job, const struct job_item *job_item)
{
    struct job_report *report = &job->report;
    if (report->failure_count == JOB_FAILURES_MAX)
        return;
    report->failures[report->failure_count++] = (struct job_failure){
        .key = arena_copy(&job->keep, job_item->item.key),
        .code = slice_of(s3_error_of(job_item->result.err)->code),
        .status = job_item->result.status };
}

/* Moves the cursor behind the first item of the ring. */
static void settle(struct job_run *run, struct job_item *job_item)
{
    struct job *job = run->job;
    struct job_report *report = &job->report;
    pthread_mutex_lock(&run->jobs->lock);
    add_sums(&report->settled, &job_item->result);
    if (job_item->result.err)
        add_failure(job, job_item);
    report->cursor.block = job_item->position.block;
    report->cursor.row = job_item->position.row;
    if (!job->spec.by_list)
        report->cursor.after =
            (slice){ report->after, slice_put(report->after, job_item->item.key) };
    job_changed(run->jobs, job, false);
    pthread_mutex_unlock(&run->jobs->lock);
    if (job_item->result.fetched && !job_item->result.err)
        run->not_kept_row = job_item->result.not_kept ? run->not_kept_row + 1 : 0;
    job_item_free(job_item);
    run->first = (run->first + 1) % RUN_ITEMS;
    run->count--;
}

static void count(struct job_run *run, struct job_item *job_item)
{
    const struct job_item_result *result = &job_item->result;
    pthread_mutex_lock(&run->jobs->lock);
    add_sums(&run->job->report.done, result);
    pthread_mutex_unlock(&run->jobs->lock);
    if (!result->skipped)
        metric_add(result->err ? M_JOB_FAILED : result->fetched ? M_JOB_FETCHED : M_JOB_HITS, 1);
    if (run->follow)
        run_follow_brought(run, job_item);
    metric_add(M_JOB_NOT_KEPT, result->not_kept);
    job_item->counted = true;
}

/* ---- the end ---- */

static void log_end(const struct job *job)
{
    const struct job_sums *sums = &job->report.settled;
    struct arena keep = { 0 };
    log_info("job_ended", "job=%016" PRIx64 " state=%s objects=%" PRIu64 " bytes=%" PRIu64
             " hits=%" PRIu64 " fetched=%" PRIu64 " peers_bytes=%" PRIu64
             " origin_bytes=%" PRIu64 " not_kept=%" PRIu64 " failed=%" PRIu64 " why=\"%.*s\"",
             job->id, job_state_name(job->report.state), sums->objects, sums->bytes, sums->hits,
             sums->fetched, sums->peers_bytes, sums->origin_bytes, sums->not_kept, sums->failed,
             SLICE_ARG(log_sentence(&keep, job->report.why)));
    arena_free(&keep);
}

/* If a job ends early, its items behind the cursor that are done count, too. */
static void add_last_failures(struct job_run *run)
{
    pthread_mutex_lock(&run->jobs->lock);
    for (size_t i = 0; i < run->count; i++)
        if (item_at(run, i)->phase == JOB_ITEM_DONE && item_at(run, i)->result.err)
            add_failure(run->job, item_at(run, i));
    pthread_mutex_unlock(&run->jobs->lock);
}

/* The run is freed first: once job->has_run is false, another thread may remove the job. */
static void end(struct job_run *run)
{
    struct jobs *jobs = run->jobs;
    struct job *job = run->job;
    struct job_report *report = &job->report;
    enum job_state state = run->state;
    slice why = run->why;
    add_last_failures(run);
    job_run_free(&run);
    pthread_mutex_lock(&jobs->lock);
    report->state = state;
    report->why = why;
    report->ended_s = wall_s();
    report->waits = NULL;
    report->settled = report->done;
    job->has_run = false;
    log_end(job);
    metric_gauge_add(M_JOBS, -1);
    job_changed(jobs, job, true);
    pthread_mutex_unlock(&jobs->lock);
}

static bool is_canceled(struct job_run *run)
{
    pthread_mutex_lock(&run->jobs->lock);
    bool canceled = run->job->canceled;
    pthread_mutex_unlock(&run->jobs->lock);
    return canceled;
}

/* A job of JOB_FOLLOW goes on until its readers have read what it brought. */
static void judge_follow_end(struct job_run *run, bool all_brought)
{
    enum job_state state = run_follow_judge(run, all_brought);
    if (state != JOB_RUNNING)
        job_run_stop(run, state, state == JOB_UNREAD ? run_follow_warn_unread(run) : S(""));
}

/* True if no item is left. */
static bool has_brought_all(const struct job_run *run)
{
    return !run->count && run->source.over;
}

static void judge_end(struct job_run *run)
{
    bool all_brought = has_brought_all(run);
    if (is_canceled(run))
        job_run_stop(run, run->follow && all_brought ? JOB_DONE : JOB_CANCELED, S(""));
    else if (run->not_kept_row >= NOT_KEPT_MAX)
        job_run_stop(run, JOB_FULL, S("the cache kept none of 64 objects that were fetched one "
                                      "after another, because it is full, or because a limit "
                                      "forbids it (quota, admit, max_object, a file of a dir: "
                                      "origin that has just changed)"));
    else if (wall_s() - run->job->began_s > RUN_S)
        job_run_stop(run, JOB_FAILED, S("the job was still in progress after 7 days: start it "
                                        "again, and it goes on with what is missing"));
    else if (run->follow)
        judge_follow_end(run, all_brought);
    else if (all_brought)
        job_run_stop(run, JOB_DONE, S(""));
}

/* Says in the report whether the job waits for its readers, unless the report has an outage. */
static void tell_window(struct job_run *run)
{
    const char *waits = run_follow_waits(run, has_brought_all(run));
    if (!run->outage.tries && waits != run->job->report.waits)
        tell_waits(run, waits);
}

bool job_run_turn(struct job_run *run)
{
    uint64_t now_ms = mono_ms();
    bool looks = now_ms >= run->looked_ms + LOOK_MS;
    run->waiting = 0;
    run->landing = 0;
    run->looked_ms = looks ? now_ms : run->looked_ms;
    for (size_t i = 0; i < run->count; i++) {
        struct job_item *job_item = item_at(run, i);
        if (job_item->phase == JOB_ITEM_LANDS && looks)
            job_item_look(job_item);
        if (job_item->phase == JOB_ITEM_DONE && !job_item->counted)
            count(run, job_item);
        run->waiting += job_item->phase == JOB_ITEM_WAITS;
        run->landing += job_item->phase == JOB_ITEM_LANDS;
    }
    while (run->count && item_at(run, 0)->phase == JOB_ITEM_DONE)
        settle(run, item_at(run, 0));
    prefix_size_go_on(&run->size);
    if (run->follow) {
        run_follow_turn(run);
        tell_window(run);
    }
    judge_end(run);
    if (run->state == JOB_RUNNING)
        return true;
    end(run);
    return false;
}

uint64_t job_run_due_ms(const struct job_run *run, uint64_t now_ms)
{
    uint64_t due_ms = run->follow  ? now_ms + FOLLOW_LOOK_MS
                      : run->landing ? now_ms + LOOK_MS : UINT64_MAX;
    return run->outage.tries ? MIN(due_ms, MAX(run->outage.until_ms, now_ms + LOOK_MS)) : due_ms;
}
