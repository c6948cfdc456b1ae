/* draft.c - makes a new job. SPDX-License-Identifier: Apache-2.0
 *
 * The list goes to its file block by block, so a list of any length needs the memory of one block.
 * The state file is written after the list. If the process ends between the two, the next process
 * finds a list without a job, and removes the list. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metric.h"
#include "jobs/inside.h"
#include "store/job_folder.h"

struct job_draft {
    struct jobs *jobs;
    uint64_t id;
    size_t folder;
    int dir, file;                    /* the folder jobs/; the list, or -1 */
    bool started;
    uint64_t items, bytes;            /* items of the list; bytes of its written blocks */
    struct job_block block;
};

/* Of the places for jobs in progress, an owner may have half of those that other owners leave free.
 * If the table is full, an owner of half of its entries or more gets no place until the thread
 * `job-files` has removed a report. Under the lock. */
static bool has_place(struct jobs *jobs, slice owner)
{
    unsigned own = 0, own_running = 0, running = 0;
    list_each(struct job, job, &jobs->all, link) {
        bool is_own = slice_eq(job->spec.owner, owner), runs = job->report.state == JOB_RUNNING;
        own += is_own;
        own_running += is_own && runs;
        running += runs;
    }
    unsigned others = running - own_running;
    return running < JOBS_RUN_MAX && own_running < MAX((JOBS_RUN_MAX - others) / 2, 1u) &&
           (jobs->count < JOBS_MAX || (own < JOBS_MAX / 2 && jobs->count < JOBS_MAX_HARD));
}

static bool judge_place(struct jobs *jobs, slice owner)
{
    pthread_mutex_lock(&jobs->lock);
    bool may = has_place(jobs, owner);
    pthread_mutex_unlock(&jobs->lock);
    metric_add(M_JOBS_LIMITED, !may);
    return may;
}

/* The files go to the first cache folder that is in service and in which the thread `job-files` has
 * looked for jobs. In any other folder, that thread might take the new job for one of an earlier
 * process. */
static enum err open_folder(struct job_draft *draft)
{
    struct store *store = jobs_store(draft->jobs);
    enum err err = ERR_IO;
    for (size_t i = 0; i < store_folder_count(store) && err; i++) {
        draft->folder = i;
        if (atomic_load(&draft->jobs->files.read[i]))
            err = store_job_folder(store, i, &draft->dir);
    }
    return err;
}

enum err job_draft_new(struct jobs *jobs, slice owner, struct job_draft **ret)
{
    *ret = NULL;
    if (!jobs_are_known(jobs))
        return ERR_BUSY;
    if (!judge_place(jobs, owner))
        return ERR_LIMIT;
    struct job_draft *draft = must_alloc(sizeof(*draft));
    draft->jobs = jobs;
    draft->dir = draft->file = -1;
    job_block_begin(&draft->block);
    if (getrandom(&draft->id, sizeof(draft->id), 0) != sizeof(draft->id))
        draft->id = mono_ns();
    enum err err = open_folder(draft);
    if (err)
        job_draft_free(&draft);
    *ret = draft;
    return err;
}

void job_draft_free(struct job_draft **draft)
{
    struct job_draft *mine = *draft;
    char name[JOB_NAME_BYTES];
    *draft = NULL;
    if (!mine)
        return;
    if (mine->file >= 0)
        close(mine->file);
    if (mine->file >= 0 && !mine->started)
        unlinkat(mine->dir, job_name(mine->id, true, name), 0);
    if (mine->dir >= 0)
        close(mine->dir);
    free(mine);
}

static enum err write_block(struct job_draft *draft)
{
    char name[JOB_NAME_BYTES];
    slice bytes = job_block_end(&draft->block);
    draft->bytes += bytes.len;
    if (draft->bytes > JOB_LIST_MAX) {
        metric_add(M_JOBS_LIMITED, 1);
        return ERR_TOO_LARGE;
    }
    if (draft->file < 0)
        draft->file = file_make_new(draft->dir, job_name(draft->id, true, name));
    if (draft->file < 0)
        return file_err(errno);
    errno = ENOSPC;    /* the error if only a part of the block is written */
    bool whole = write(draft->file, bytes.ptr, bytes.len) == (ssize_t)bytes.len;
    job_block_begin(&draft->block);
    return whole ? OK : file_err(errno);
}

enum err job_draft_add(struct job_draft *draft, const struct item *item)
{
    draft->items++;
    if (job_block_add(&draft->block, item))
        return OK;
    enum err err = write_block(draft);
    check(err || job_block_add(&draft->block, item));
    return err;
}

static enum err end_list(struct job_draft *draft)
{
    enum err err = draft->block.count || draft->file < 0 ? write_block(draft) : OK;
    return !err && fsync(draft->file) != 0 ? file_err(errno) : err;
}

static enum err write_state(struct job_draft *draft, const struct job_file *file)
{
    struct arena keep = { 0 };
    slice bytes = job_file_encode(file, &keep);
    enum err err = files_write(draft->jobs, draft->dir, draft->id, bytes);
    arena_free(&keep);
    return err;
}

/* Adds the job to the table, if there is still a place for it. */
static enum err add(struct job_draft *draft, const struct job_file *file)
{
    struct jobs *jobs = draft->jobs;
    pthread_mutex_lock(&jobs->lock);
    bool may = has_place(jobs, file->spec.owner);
    if (may)
        (void)jobs_add(jobs, file, draft->folder);
    pthread_mutex_unlock(&jobs->lock);
    metric_add(M_JOBS_LIMITED, !may);
    return may ? OK : ERR_LIMIT;
}

static enum err start(struct job_draft *draft, const struct job_spec *spec)
{
    char name[JOB_NAME_BYTES];
    struct job_file file = { .id = draft->id, .spec = *spec, .began_s = wall_s() };
    file.spec.listed = draft->items;
    if (spec->by_list && !draft->items)
        return ERR_BAD_ARGUMENT;
    enum err err = spec->by_list ? end_list(draft) : OK;
    if (!err)
        err = write_state(draft, &file);
    if (err)
        return err;
    err = add(draft, &file);
    if (err)
        unlinkat(draft->dir, job_name(draft->id, false, name), 0);
    draft->started = !err;
    if (!err)
        job_log("job_started", &file);
    return err;
}

enum err job_draft_start(struct job_draft **draft, const struct job_spec *spec, uint64_t *ret_id)
{
    enum err err = start(*draft, spec);
    if (!err) {
        *ret_id = (*draft)->id;
        metric_add(M_JOBS_STARTED, 1);
    }
    job_draft_free(draft);
    return err;
}
