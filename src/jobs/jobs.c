/* jobs.c - the table of jobs, and the thread that runs them. SPDX-License-Identifier: Apache-2.0
 *
 * The table has the jobs in progress, and the reports of earlier ones. The thread `jobs` runs all
 * gets of all jobs. It gives the jobs turns, and each turn begins one item. No item begins while
 * gets_max gets are in progress, or while memory for readers is scarce. So the jobs share gets_max
 * gets, and leave the rest to clients. */
#include "jobs/inside.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/thread.h"

#define SCARCE_MS 100u                /* until the next look, while memory is scarce */
#define PACE_MS 5000u                 /* between two samples of the rate */
#define REST_MS 1000u

/* ---- the table, under the lock ---- */

struct job *jobs_get(struct jobs *jobs, uint64_t id)
{
    list_each(struct job, job, &jobs->all, link)
        if (job->id == id)
            return job;
    return NULL;
}

static struct job_spec copy_spec(const struct job_spec *spec, struct arena *keep)
{
    struct job_spec copy = *spec;
    copy.owner = arena_copy(keep, spec->owner);
    copy.bucket = arena_copy(keep, spec->bucket);
    copy.prefix = arena_copy(keep, spec->prefix);
    return copy;
}

static void copy_failures(struct job_failure *to, const struct job_failure *from, size_t count,
                          struct arena *keep)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (struct job_failure){ arena_copy(keep, from[i].key),
                                      arena_copy(keep, from[i].code), from[i].status };
}

/* Puts the job behind all jobs that began earlier. */
static void put_in_order(struct jobs *jobs, struct job *job)
{
    struct list *before = &jobs->all;
    list_each(struct job, other, &jobs->all, link)
        if (before == &jobs->all && other->began_s > job->began_s)
            before = &other->link;
    list_add(before, &job->link);
    jobs->count++;
}

static void wake_files(struct jobs *jobs)
{
    jobs->files.urgent = true;
    pthread_cond_signal(&jobs->files.wake);
}

struct job *jobs_add(struct jobs *jobs, const struct job_file *file, size_t folder)
{
    struct job *job = must_alloc(sizeof(*job));
    struct job_report *report = &job->report;
    check(file->cursor.after.len <= sizeof(report->after) && !jobs_get(jobs, file->id));
    job->id = file->id;
    job->began_s = file->began_s;
    job->folder = folder;
    job->spec = copy_spec(&file->spec, &job->keep);
    copy_failures(report->failures, file->failures, file->failure_count, &job->keep);
    report->failure_count = file->failure_count;
    report->state = file->state;
    report->why = arena_copy(&job->keep, file->why);
    report->ended_s = file->ended_s;
    report->done = report->settled = file->sums;
    report->readers = file->readers;
    report->cursor = file->cursor;
    if (file->spec.by_list)
        report->total = (struct job_total){ .objects = file->spec.listed, .known = true };
    report->cursor.after = (slice){ report->after, slice_put(report->after, file->cursor.after) };
    put_in_order(jobs, job);
    if (jobs->count >= JOBS_MAX)
        wake_files(jobs);    /* which removes a report */
    if (report->state == JOB_RUNNING) {
        metric_gauge_add(M_JOBS, 1);
        if (file->spec.mode == JOB_FOLLOW)
            run_follow_expect(jobs);
        ticket_wake(jobs->look);
    }
    return job;
}

void jobs_remove(struct jobs *jobs, struct job *job)
{
    check(!job->has_run && jobs->count > 0);
    list_del(&job->link);
    jobs->count--;
    arena_free(&job->keep);
    free(job);
}

void job_changed(struct jobs *jobs, struct job *job, bool urgent)
{
    job->version++;
    if (urgent)
        wake_files(jobs);
}

struct job_file job_file_of(const struct job *job, bool with_failures, struct arena *keep)
{
    const struct job_report *report = &job->report;
    struct job_file file = {
        .id = job->id, .spec = copy_spec(&job->spec, keep), .state = report->state,
        .began_s = job->began_s, .ended_s = report->ended_s, .sums = report->settled,
        .readers = report->readers, .cursor = report->cursor,
        .failure_count = with_failures ? report->failure_count : 0 };
    file.failures = arena_alloc(keep, (file.failure_count + 1) * sizeof(*file.failures));
    file.cursor.after = arena_copy(keep, report->cursor.after);
    file.why = arena_copy(keep, report->why);
    copy_failures(file.failures, report->failures, file.failure_count, keep);
    return file;
}

void job_log(const char *event, const struct job_file *file)
{
    struct arena keep = { 0 };
    const struct job_spec *spec = &file->spec;
    log_info(event, "job=%016" PRIx64 " access_key=%.*s bucket=%.*s prefix=%.*s listed=%" PRIu64
             " objects=%" PRIu64, file->id, SLICE_ARG(log_word(&keep, spec->owner)),
             SLICE_ARG(log_word(&keep, spec->bucket)),
             SLICE_ARG(log_word(&keep, slice_sub(spec->prefix, 0, 200))), spec->listed,
             file->sums.objects);
    arena_free(&keep);
}

/* ---- reports ---- */

/* Returns the bytes a second since the older of the two samples (struct job_pace). */
static uint64_t rate_of(struct job *job)
{
    struct job_pace *pace = &job->pace;
    uint64_t now_ms = mono_ms(), bytes = job->report.done.bytes;
    if (job->report.state != JOB_RUNNING || !pace->old_ms || now_ms <= pace->old_ms)
        return 0;
    return (bytes - pace->old_bytes) * 1000 / (now_ms - pace->old_ms);
}

static void sample(struct job *job, uint64_t now_ms)
{
    struct job_pace *pace = &job->pace;
    if (pace->new_ms && now_ms < pace->new_ms + PACE_MS)
        return;
    bool first = !pace->new_ms;
    pace->old_ms = first ? now_ms : pace->new_ms;
    pace->old_bytes = first ? job->report.done.bytes : pace->new_bytes;
    pace->new_ms = now_ms;
    pace->new_bytes = job->report.done.bytes;
}

static struct job_view view_of(const struct jobs *jobs, struct job *job, bool with_failures,
                               struct arena *keep)
{
    struct job_view view = { .file = job_file_of(job, with_failures, keep), .rate = rate_of(job),
                             .waits = slice_of(job->report.waits) };
    view.file.sums = job->report.done;
    if (job->report.state == JOB_RUNNING)
        view.total = job->report.total;
    if (job->spec.mode == JOB_FOLLOW)
        view.file.spec.window = run_follow_window(jobs, &job->spec);
    return view;
}

bool jobs_are_known(const struct jobs *jobs)
{
    return atomic_load(&jobs->files.looked);
}

bool jobs_find(struct jobs *jobs, uint64_t id, struct arena *keep, struct job_view *ret)
{
    pthread_mutex_lock(&jobs->lock);
    struct job *job = jobs_get(jobs, id);
    if (job)
        *ret = view_of(jobs, job, true, keep);
    pthread_mutex_unlock(&jobs->lock);
    return job != NULL;
}

size_t jobs_list(struct jobs *jobs, slice bucket, struct arena *keep, struct job_view **ret)
{
    size_t count = 0;
    pthread_mutex_lock(&jobs->lock);
    *ret = arena_alloc(keep, (jobs->count + 1) * sizeof(**ret));
    list_each(struct job, job, &jobs->all, link)
        if (slice_eq(job->spec.bucket, bucket))
            (*ret)[count++] = view_of(jobs, job, false, keep);
    pthread_mutex_unlock(&jobs->lock);
    return count;
}

size_t jobs_latest(struct jobs *jobs, size_t ended_max, struct arena *keep, struct job_view **ret)
{
    size_t count = 0, ended = 0;
    pthread_mutex_lock(&jobs->lock);
    *ret = arena_alloc(keep, (jobs->count + 1) * sizeof(**ret));
    list_each(struct job, job, &jobs->all, link)
        ended += job->report.state != JOB_RUNNING;
    list_each(struct job, job, &jobs->all, link) {
        bool runs = job->report.state == JOB_RUNNING;
        if (runs || ended <= ended_max)
            (*ret)[count++] = view_of(jobs, job, false, keep);
        ended -= !runs;    /* of those behind this job */
    }
    pthread_mutex_unlock(&jobs->lock);
    return count;
}

/* ---- the thread ---- */

static void look(void *arg)
{
    (void)arg;    /* the thread looks at everything after each wake */
}

/* Begins the runs of new jobs. */
static void adopt(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    list_each(struct job, job, &jobs->all, link)
        if (job->report.state == JOB_RUNNING && !job->has_run) {
            job->has_run = true;
            job_run_new(jobs, job);
        }
    pthread_mutex_unlock(&jobs->lock);
}

static void go_on(struct jobs *jobs)
{
    struct list mine;
    list_init(&mine);
    list_move(&mine, &jobs->ready);
    while (!list_empty(&mine))
        job_item_go_on(list_of(list_take(&mine), struct job_item, link));
}

/* Gives each run a turn, again and again, until none can begin an item. */
static void begin(struct jobs *jobs)
{
    bool any = true;
    while (any && jobs->gets < jobs->options.gets_max && !gets_are_scarce(jobs->cache)) {
        any = false;
        cache_loop_plug(jobs->cache);
        list_each(struct job_run, run, &jobs->runs, link)
            if (jobs->gets < jobs->options.gets_max)
                any |= job_run_begin_one(run);
        cache_loop_unplug(jobs->cache);
    }
}

/* Returns how long the thread may wait. */
static int turn(struct jobs *jobs)
{
    uint64_t now_ms = mono_ms(), due_ms = now_ms + REST_MS;
    uint64_t reads = run_follow_reads(jobs);    /* the jobs of these are in the table */
    adopt(jobs);
    run_follow_take_reads(jobs, reads);
    go_on(jobs);
    list_each_safe(struct job_run, run, &jobs->runs, link)
        (void)job_run_turn(run);
    run_follow_note_windows(jobs);
    begin(jobs);
    pthread_mutex_lock(&jobs->lock);
    list_each(struct job_run, run, &jobs->runs, link) {
        due_ms = MIN(due_ms, job_run_due_ms(run, now_ms));
        sample(run->job, now_ms);
    }
    pthread_mutex_unlock(&jobs->lock);
    if (gets_are_scarce(jobs->cache))
        due_ms = MIN(due_ms, now_ms + SCARCE_MS);
    return list_empty(&jobs->ready) ? (int)(due_ms - now_ms) : 0;
}

static void *run(void *arg)
{
    struct jobs *jobs = arg;
    int wait_ms = 0;
    while (!atomic_load(&jobs->ending)) {
        struct pollfd fd = { .fd = mailbox_fd(jobs->box), .events = POLLIN };
        if (poll(&fd, 1, wait_ms) > 0)
            mailbox_deliver(jobs->box);
        cache_loop_turn(jobs->cache);
        wait_ms = turn(jobs);
    }
    while (!list_empty(&jobs->runs)) {
        struct job_run *mine = list_of(jobs->runs.next, struct job_run, link);
        job_run_free(&mine);
    }
    cache_loop_free(&jobs->cache);
    return NULL;
}

/* ---- life ---- */

struct jobs *jobs_new(const struct jobs_options *options)
{
    struct jobs *jobs = must_alloc(sizeof(*jobs));
    check(options->cache && options->gets_max > 0);
    jobs->options = *options;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_mutex_init(&jobs->files.writing, NULL);
    pthread_cond_init(&jobs->files.wake, NULL);
    pthread_cond_init(&jobs->files.saved, NULL);
    list_init(&jobs->all);
    list_init(&jobs->runs);
    list_init(&jobs->ready);
    jobs->box = mailbox_new();
    jobs->look = ticket_new(jobs->box, look, jobs);
    return jobs;
}

void jobs_free(struct jobs **jobs)
{
    struct jobs *mine = *jobs;
    *jobs = NULL;
    if (!mine)
        return;
    check(!mine->started);
    list_each_safe(struct job, job, &mine->all, link) {
        metric_gauge_add(M_JOBS, job->report.state == JOB_RUNNING ? -1 : 0);
        job->has_run = false;
        jobs_remove(mine, job);
    }
    ticket_end(&mine->look);
    mailbox_free(&mine->box);
    pthread_cond_destroy(&mine->files.wake);
    pthread_cond_destroy(&mine->files.saved);
    pthread_mutex_destroy(&mine->files.writing);
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}

static void stop_thread(struct jobs *jobs)
{
    atomic_store(&jobs->ending, true);
    ticket_wake(jobs->look);
    pthread_join(jobs->thread, NULL);
}

bool jobs_start(struct jobs *jobs, const struct reader_judge *judge)
{
    check(!jobs->started);
    jobs->judge = *judge;
    jobs->cache = cache_loop_new(jobs->options.cache, jobs->box);
    if (!thread_start(&jobs->thread, run, jobs, "jobs")) {
        cache_loop_free(&jobs->cache);
        return false;
    }
    jobs->started = files_start(jobs);
    if (!jobs->started)
        stop_thread(jobs);
    return jobs->started;
}

void jobs_stop(struct jobs *jobs)
{
    check(jobs->started);
    stop_thread(jobs);
    files_stop(jobs);
    jobs->started = false;
}
