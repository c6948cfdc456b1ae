/* status_work.c - the document of /status: jobs, the fill socket, and what was logged.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The members of a job have the names and values that the report of a job has (front/job.c). Threads:
 * the loop that serves the request. */
#include <inttypes.h>

#include "base/log.h"
#include "base/metric.h"
#include "cli/serve.h"
#include "jobs/jobs.h"
#include "local/local.h"
#include "s3/encode.h"

#define JOBS_ENDED_SHOWN 20u

static void add_job_sums(struct status_document *to, const struct job_file *file)
{
    const struct job_sums *sums = &file->sums;
    const struct {
        const char *path;
        uint64_t value;
        bool left_out;
    } rows[] = {
        { "jobs.objects", sums->objects, false }, { "jobs.bytes", sums->bytes, false },
        { "jobs.hits", sums->hits, false },       { "jobs.fetched", sums->fetched, false },
        { "jobs.peers_bytes", sums->peers_bytes, false },
        { "jobs.origin_bytes", sums->origin_bytes, false },
        { "jobs.not_kept", sums->not_kept, false }, { "jobs.failed", sums->failed, false },
        { "jobs.skipped", sums->skipped, file->spec.mode != JOB_FOLLOW },
        { "jobs.read", file->readers.read, file->spec.mode != JOB_FOLLOW },
        { "jobs.unread_bytes", file->readers.unread_bytes, file->spec.mode != JOB_FOLLOW },
        { "jobs.window", file->spec.window, file->spec.mode != JOB_FOLLOW },
        { "jobs.began", (uint64_t)file->began_s, false },
        { "jobs.ended", (uint64_t)file->ended_s, !file->ended_s },
    };
    for (size_t i = 0; i < countof(rows); i++)
        if (!rows[i].left_out)
            document_number(to, rows[i].path, rows[i].value);
}

static void add_job(struct status_document *to, struct arena *keep, const struct job_view *view)
{
    const struct job_file *file = &view->file;
    document_item(to, "jobs");
    document_text(to, "jobs.id", arena_printf(keep, "%016" PRIx64, file->id));
    document_text(to, "jobs.bucket", file->spec.bucket);
    if (file->spec.by_list)
        document_number(to, "jobs.listed", file->spec.listed);
    else
        document_text(to, "jobs.prefix", file->spec.prefix);
    document_text(to, "jobs.access_key", file->spec.owner);
    document_text(to, "jobs.mode", slice_of(job_mode_name(file->spec.mode)));
    document_text(to, "jobs.state", slice_of(job_state_name(file->state)));
    add_job_sums(to, file);
    if (view->total.known)
        document_number(to, "jobs.total_objects", view->total.objects);
    if (view->total.known && !file->spec.by_list)
        document_number(to, "jobs.total_bytes", view->total.bytes);
    document_number(to, "jobs.rate", view->rate);
    if (file->why.len)
        document_text(to, "jobs.why", file->why);
    else if (view->waits.len)
        document_text(to, "jobs.waits", view->waits);
}

static void add_jobs(struct status_document *to, struct arena *keep, struct jobs *jobs)
{
    struct job_view *views;
    for (size_t i = jobs_latest(jobs, JOBS_ENDED_SHOWN, keep, &views); i > 0; i--)
        add_job(to, keep, &views[i - 1]);    /* the newest first */
}

static void add_fills(struct status_document *to, struct arena *keep, struct local *local)
{
    struct local_user *users;
    struct local_gpu *gpus;
    slice why;
    document_flag(to, "fill.on", local != NULL);
    if (!local)
        return;
    document_number(to, "fill.fills", local_fills(local));
    document_number(to, "fill.buffers", metric_read(M_FILL_BUFFERS));
    for (size_t i = 0, count = local_users(local, keep, &users); i < count; i++) {
        document_item(to, "fill.users");
        document_number(to, "fill.users.uid", users[i].uid);
        document_number(to, "fill.users.sessions", users[i].sessions);
        document_number(to, "fill.users.registered_bytes", users[i].bytes);
    }
    for (size_t i = 0, count = local_gpus(local, keep, &gpus, &why); i < count; i++) {
        document_item(to, "fill.gpus");
        document_text(to, "fill.gpus.uuid", gpus[i].uuid);
        document_text(to, "fill.gpus.name", gpus[i].name);
        document_flag(to, "fill.gpus.open", gpus[i].open);
        document_flag(to, "fill.gpus.lost", gpus[i].lost);
        document_number(to, "fill.gpus.buffers", gpus[i].buffers);
        document_number(to, "fill.gpus.pinned_bytes", gpus[i].pinned_bytes);
        document_number(to, "fill.gpus.pinned_used_bytes", gpus[i].pinned_used_bytes);
    }
    if (why.len)
        document_text(to, "fill.gpus_why", why);
}

static void add_warnings(struct status_document *to, struct arena *keep)
{
    struct log_kept *kept;
    uint64_t forgotten;
    size_t count = log_kept_read(keep, &kept, &forgotten);
    document_number(to, "warnings_forgotten", forgotten);
    for (size_t i = 0; i < count; i++) {
        document_item(to, "warnings");
        document_text(to, "warnings.event", slice_of(kept[i].event));
        document_text(to, "warnings.level", slice_of(log_level_name(kept[i].level)));
        document_text(to, "warnings.why", kept[i].why);
        document_text(to, "warnings.facts", kept[i].facts);
        document_number(to, "warnings.count", kept[i].count);
        document_text(to, "warnings.first", iso_date_text(keep, kept[i].first_s));
        document_text(to, "warnings.last", iso_date_text(keep, kept[i].last_s));
    }
}

void status_work_tell(const struct serve *serve, struct arena *keep, struct status_document *to)
{
    add_fills(to, keep, serve->local);
    add_jobs(to, keep, serve->jobs);
    add_warnings(to, keep);
}
