/* run_follow.c - the readers of a job of mode follow. SPDX-License-Identifier: Apache-2.0
 *
 *   cache/read_trace.h: reads ──> follow.h: how far the readers are ──> which items run.c may begin
 *   scout: the next items ─────────┘
 *
 * The job keeps a window of bytes ahead of its readers. The windows of all jobs take at most 3/8 of
 * the cache together, so that an item is not evicted before it is read. What the cache does not
 * admit is staged (store/stage.c). The *scout* is a second source. It runs ahead of
 * the source that the run takes its items from, so that a read of any of the next FOLLOW_ITEMS
 * items counts. A job that is late thus jumps to its readers: it skips the items behind them.
 *
 * A list may be wrong, or its readers may be gone. If the readers have passed a window of bytes and
 * have read less than half of it, the job goes on with SLOW_GETS gets. If this happens twice in a
 * row, or if nothing is read for IDLE_MS, the job ends. So such a list costs the bandwidth of about
 * three windows and FOLLOW_BEHIND items. Threads: the thread `jobs`. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "cache/read_trace.h"
#include "jobs/inside.h"

#define SLOW_GETS 8u
#define WASTED_MAX 2u                 /* judgements of follow_judge */
#define IDLE_MS (3600 * 1000u)        /* a list of which nothing is read for so long is abandoned */
#define LINGER_MS (600 * 1000u)       /* the same, if there is nothing left to bring */
#define ITEM_BYTES_GUESS (1 * MIB)    /* of items in progress, before any is done */
#define LOOK_ITEMS_MAX 4096u          /* of one look ahead */
#define READS 256u                    /* that are taken at once */

struct run_follow {
    struct follow *items;
    struct job_source scout;
    uint64_t taken;                   /* number of items that the run has taken from its source */
    uint64_t window;                  /* bytes */
    uint64_t read_ms;                 /* ageing time of the latest read of an item */
    struct job_readers before;        /* in earlier processes */
    unsigned wasted;                  /* what follow_judge returned */
};

/* ---- begin and end ---- */

void run_follow_expect(struct jobs *jobs)
{
    read_trace_watch(cache_trace(jobs->options.cache), true);
}

uint64_t run_follow_window(const struct jobs *jobs, const struct job_spec *spec)
{
    uint64_t most = store_capacity(jobs_store(jobs)) / 8 * 3 / MAX(atomic_load(&jobs->follows), 1u);
    return MIN(spec->window, MAX(most, 1u));
}

static void set_window(struct job_run *run)
{
    run->follow->window = run_follow_window(run->jobs, &run->job->spec);
}

void run_follow_begin(struct job_run *run)
{
    struct run_follow *follow = must_alloc(sizeof(*follow));
    follow->items = follow_new();
    follow->read_ms = ageing_ms();
    follow->before = run->job->report.readers;
    run->follow = follow;
    atomic_fetch_add(&run->jobs->follows, 1);
    set_window(run);
    job_source_begin(&follow->scout, run);
}

void run_follow_end(struct job_run *run)
{
    if (!run->follow)
        return;
    read_trace_watch(cache_trace(run->jobs->options.cache), false);
    atomic_fetch_sub(&run->jobs->follows, 1);
    job_source_end(&run->follow->scout);
    follow_free(&run->follow->items);
    free(run->follow);
    run->follow = NULL;
}

void run_follow_note_windows(struct jobs *jobs)
{
    uint64_t bytes = 0;
    list_each(struct job_run, run, &jobs->runs, link)
        bytes += run->follow ? run->follow->window : 0;
    store_keep_ahead(jobs_store(jobs), bytes);
}

/* ---- what is read ---- */

static void take_read(struct job_run *run, uint64_t hash)
{
    if (run->follow && follow_read(run->follow->items, hash))
        run->follow->read_ms = ageing_ms();
}

uint64_t run_follow_reads(const struct jobs *jobs)
{
    return read_trace_head(cache_trace(jobs->options.cache));
}

void run_follow_take_reads(struct jobs *jobs, uint64_t until)
{
    struct read_trace *trace = cache_trace(jobs->options.cache);
    uint64_t hashes[READS];
    size_t count;
    list_each(struct job_run, run, &jobs->runs, link)
        if (run->follow && job_run_may_ask(run))
            run_follow_look_ahead(run);
    while ((count = read_trace_take(trace, until, hashes, READS)) > 0)
        list_each(struct job_run, run, &jobs->runs, link)
            for (size_t i = 0; i < count; i++)
                take_read(run, hashes[i]);
}

/* ---- which item may begin ---- */

/* Returns the name of a read of this item. */
static uint64_t name_of(const struct job_run *run, const struct item *item)
{
    const struct job_spec *spec = &run->job->spec;
    return read_trace_hash(cache_trace(run->jobs->options.cache), spec->owner, spec->bucket,
                           item->key, item->kind == ITEM_SPAN ? item->first : 0);
}

void run_follow_look_ahead(struct job_run *run)
{
    struct run_follow *follow = run->follow;
    struct item item;
    struct item_position position;
    for (size_t i = 0; i < LOOK_ITEMS_MAX && !follow_is_full(follow->items); i++) {
        if (job_source_next(&follow->scout, &item, &position) != OK)
            return;
        (void)follow_add(follow->items, name_of(run, &item));
    }
}

bool run_follow_may_take(const struct job_run *run)
{
    const struct run_follow *follow = run->follow;
    return run->state == JOB_RUNNING &&    /* the scout may have found a damaged list */
           (follow->taken < follow_end(follow->items) || follow->scout.over);
}

uint64_t run_follow_took(struct job_run *run)
{
    check(run->follow->taken < follow_end(run->follow->items));
    return run->follow->taken++;
}

bool run_follow_is_past(const struct job_run *run, const struct job_item *job_item)
{
    return follow_is_past(run->follow->items, job_item->follow_index);
}

void run_follow_brought(struct job_run *run, const struct job_item *job_item)
{
    const struct job_item_result *result = &job_item->result;
    if (!result->err && !result->skipped)
        follow_brought(run->follow->items, job_item->follow_index,
                       result->not_kept ? 0 : result->bytes);
}

static bool is_full(const struct job_run *run)
{
    const struct job_sums *done = &run->job->report.done;
    uint64_t count = done->objects - done->failed - done->skipped;
    uint64_t each = count ? done->bytes / count : ITEM_BYTES_GUESS;
    return follow_use(run->follow->items)->ahead + (run->reading + run->landing) * each >=
           run->follow->window;
}

bool run_follow_may_begin(const struct job_run *run)
{
    return !is_full(run) && (!run->follow->wasted || run->reading < SLOW_GETS);
}

/* ---- reports, and the end ---- */

void run_follow_turn(struct job_run *run)
{
    struct run_follow *follow = run->follow;
    const struct follow_use *use = follow_use(follow->items);
    struct job_report *report = &run->job->report;
    set_window(run);
    follow->wasted = follow_judge(follow->items, follow->window);
    struct job_readers now = { follow->before.read + use->items_read,
                               follow->before.unread_bytes + use->passed };
    if (now.read == report->readers.read && now.unread_bytes == report->readers.unread_bytes)
        return;
    metric_add(M_JOB_UNREAD_BYTES, now.unread_bytes - report->readers.unread_bytes);
    pthread_mutex_lock(&run->jobs->lock);
    report->readers = now;
    job_changed(run->jobs, run->job, false);
    pthread_mutex_unlock(&run->jobs->lock);
}

const char *run_follow_waits(const struct job_run *run, bool all_brought)
{
    if (all_brought)
        return "All objects are there: the job ends when its readers have read them.";
    return is_full(run) ? "The window is full: the job goes on when its readers do." : NULL;
}

enum job_state run_follow_judge(const struct job_run *run, bool all_brought)
{
    const struct run_follow *follow = run->follow;
    const struct follow_use *use = follow_use(follow->items);
    uint64_t idle_ms = ageing_ms() - follow->read_ms;
    if (all_brought && follow_position(follow->items) == follow_end(follow->items))
        return JOB_DONE;
    if (follow->wasted >= WASTED_MAX)
        return JOB_UNREAD;
    if (all_brought && idle_ms >= LINGER_MS)
        return use->read >= use->ahead + use->behind + use->passed ? JOB_DONE : JOB_UNREAD;
    return !all_brought && is_full(run) && idle_ms >= IDLE_MS ? JOB_UNREAD : JOB_RUNNING;
}

slice run_follow_warn_unread(const struct job_run *run)
{
    const struct follow_use *use = follow_use(run->follow->items);
    bool idle = use->read >= use->ahead + use->behind + use->passed;
    slice why = idle
        ? S("the readers of this job have read nothing for an hour, and its window is full. "
            "Start the job again when they go on")
        : S("the readers of this job read less than half of what it brought. Check that the list "
            "has the order in which they read, and that they use the access key of the job");
    log_warn("job_follow_wasted", "job=%016" PRIx64 " items_read=%" PRIu64 " read_bytes=%" PRIu64
             " passed_bytes=%" PRIu64 " ahead_bytes=%" PRIu64 " why=\"%.*s\"",
             run->job->id, use->items_read, use->read, use->behind + use->passed, use->ahead,
             SLICE_ARG(why));
    return why;
}
