/* files.c - the thread `job-files`, which keeps the states of jobs on the disk.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A state that has changed is written once a second, and at once when the job ends. The thread also
 * finds the jobs of earlier processes: in each cache folder as soon as it is in service. A report
 * is removed 7 days after the end of its job, or earlier if the table of jobs is full. A list is
 * removed when its job has ended. If a cache folder is out of service, its jobs go on, and their
 * states are written when it is back. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/thread.h"
#include "jobs/inside.h"
#include "store/folder_files.h"
#include "store/job_folder.h"

#define SAVE_MS 1000u
#define REPORT_S (7 * 24 * 3600)      /* a report is kept for so long */
#define END_NS 10000000000u           /* jobs_cancel waits for so long */

const char *job_name(uint64_t id, bool list, char ret[JOB_NAME_BYTES])
{
    snprintf(ret, JOB_NAME_BYTES, "%016" PRIx64 "%s", id, list ? ".list" : "");
    return ret;
}

static void remove_file(int folder, uint64_t id, bool list)
{
    char name[JOB_NAME_BYTES];
    unlinkat(folder, job_name(id, list, name), 0);
}

/* ---- saving ---- */

enum err files_write(struct jobs *jobs, int folder, uint64_t id, slice bytes)
{
    char name[JOB_NAME_BYTES];
    pthread_mutex_lock(&jobs->files.writing);
    enum err err = folder_write(folder, job_name(id, false, name), bytes.ptr, bytes.len);
    pthread_mutex_unlock(&jobs->files.writing);
    return err;
}

/* A job whose state is to be written. */
struct saving {
    uint64_t id, version;
    size_t folder;
    bool has_list, over;              /* the list is removed when the job is over */
    slice bytes;
};

/* Finds the next job that is not saved, from position *at on, and moves *at behind it. Returns
 * false if there is none. */
static bool find_unsaved(struct jobs *jobs, size_t *at, struct arena *keep, struct saving *ret)
{
    size_t i = 0;
    bool found = false;
    pthread_mutex_lock(&jobs->lock);
    list_each(struct job, job, &jobs->all, link) {
        if (i++ < *at || found || job->version == job->saved)
            continue;
        struct job_file file = job_file_of(job, true, keep);
        *ret = (struct saving){ .id = job->id, .version = job->version, .folder = job->folder,
                                .has_list = job->spec.by_list,
                                .over = job->report.state != JOB_RUNNING,
                                .bytes = job_file_encode(&file, keep) };
        *at = i;
        found = true;
    }
    pthread_mutex_unlock(&jobs->lock);
    return found;
}

static bool save(struct jobs *jobs, const struct saving *saving)
{
    int folder;
    if (store_job_folder(jobs_store(jobs), saving->folder, &folder) != OK)
        return false;
    bool good = files_write(jobs, folder, saving->id, saving->bytes) == OK;
    if (good && saving->over && saving->has_list)
        remove_file(folder, saving->id, true);
    close(folder);
    return good;
}

static void note_saved(struct jobs *jobs, const struct saving *saving)
{
    pthread_mutex_lock(&jobs->lock);
    struct job *job = jobs_get(jobs, saving->id);
    if (job)
        job->saved = saving->version;
    pthread_cond_broadcast(&jobs->files.saved);
    pthread_mutex_unlock(&jobs->lock);
}

static void save_all(struct jobs *jobs)
{
    struct arena keep = { 0 };
    struct saving saving;
    for (size_t at = 0; find_unsaved(jobs, &at, &keep, &saving); arena_free(&keep)) {
        if (save(jobs, &saving))
            note_saved(jobs, &saving);
        else
            metric_add(M_JOBS_UNSAVED, 1);
    }
    arena_free(&keep);
}

/* ---- reports that are old ---- */

static bool is_over(const struct job *job)
{
    return job->report.state != JOB_RUNNING && !job->has_run && job->saved == job->version;
}

static unsigned reports_of(struct jobs *jobs, slice owner)
{
    unsigned count = 0;
    list_each(struct job, job, &jobs->all, link)
        count += is_over(job) && slice_eq(job->spec.owner, owner);
    return count;
}

/* Returns a report that is older than REPORT_S. If there is none and the table is full, returns the
 * oldest report of the owner with the most reports: so a client that starts many jobs does not
 * remove the reports of others. Otherwise returns NULL. */
static struct job *find_old(struct jobs *jobs)
{
    struct job *found = NULL;
    unsigned most = 0;
    list_each(struct job, job, &jobs->all, link) {
        if (!is_over(job))
            continue;
        if (wall_s() - job->report.ended_s >= REPORT_S)
            return job;
        unsigned count = jobs->count >= JOBS_MAX ? reports_of(jobs, job->spec.owner) : 0;
        found = count > most ? job : found;
        most = MAX(most, count);
    }
    return found;
}

/* Takes the report that find_old returns out of the table. */
static bool take_old(struct jobs *jobs, uint64_t *ret_id, size_t *ret_folder)
{
    pthread_mutex_lock(&jobs->lock);
    struct job *job = find_old(jobs);
    bool found = job != NULL;
    if (job) {
        *ret_id = job->id;
        *ret_folder = job->folder;
        jobs_remove(jobs, job);
    }
    pthread_mutex_unlock(&jobs->lock);
    return found;
}

static void forget_old(struct jobs *jobs)
{
    uint64_t id;
    size_t folder;
    int dir;
    while (take_old(jobs, &id, &folder)) {
        if (store_job_folder(jobs_store(jobs), folder, &dir) != OK)
            continue;
        remove_file(dir, id, false);
        close(dir);
    }
}

/* ---- finding the jobs of earlier processes ---- */

static bool read_name(const char *name, uint64_t *ret_id, bool *ret_list)
{
    slice text = slice_of(name);
    *ret_list = slice_ends(text, S(".list"));
    return job_id_read(slice_sub(text, 0, *ret_list ? text.len - 5 : text.len), ret_id);
}

static void take_state(struct jobs *jobs, int dir, size_t folder, const char *name, uint64_t id)
{
    struct arena keep = { 0 };
    struct job_file file;
    slice bytes;
    enum err err = folder_read(dir, name, JOB_FILE_MAX, &keep, &bytes);
    if (!err)
        err = job_file_decode(bytes, &keep, &file);
    if (!err && file.id != id)
        err = ERR_GONE;
    pthread_mutex_lock(&jobs->lock);
    bool adds = !err && !jobs_get(jobs, id);    /* two folders may have the same job */
    if (adds)
        (void)jobs_add(jobs, &file, folder);
    pthread_mutex_unlock(&jobs->lock);
    if (adds && file.state == JOB_RUNNING)
        job_log("job_goes_on", &file);
    if (err == ERR_FORMAT)
        log_warn("job_state_bad", "job=%016" PRIx64 " why=\"a later version of Penstock wrote the "
                 "file of this job's state, so this version can't go on with the job: start the "
                 "later version again, or start the job again\"", id);
    if (err == ERR_GONE) {
        log_warn("job_state_bad", "job=%016" PRIx64 " why=\"the file of this job's state is "
                 "damaged, so the job and its report are lost: start the job again\"", id);
        unlinkat(dir, name, 0);
    }
    arena_free(&keep);
}

/* True for a list that an earlier process wrote, for a job that never started. */
static bool is_left_over(struct jobs *jobs, int dir, const char *name, uint64_t id)
{
    char state[JOB_NAME_BYTES];
    struct stat st;
    return faccessat(dir, job_name(id, false, state), F_OK, 0) != 0 && errno == ENOENT &&
           fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_mtime < jobs->files.began_s;
}

/* Removes a list whose job never started, or has ended. */
static void judge_list(struct jobs *jobs, int dir, const char *name, uint64_t id)
{
    pthread_mutex_lock(&jobs->lock);
    struct job *job = jobs_get(jobs, id);
    bool known = job != NULL, over = job && job->report.state != JOB_RUNNING;
    pthread_mutex_unlock(&jobs->lock);
    if (over || (!known && is_left_over(jobs, dir, name, id)))
        unlinkat(dir, name, 0);
}

/* Reads the states in the folder, or, if `lists`, judges the lists. The states must be read first,
 * because judge_list looks for the job of a list in the table. */
static void read_names(struct jobs *jobs, int dir, size_t folder, bool lists)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *item;
    enum err e = OK;
    uint64_t id;
    bool is_list;
    if (!list)
        return;
    while ((item = file_next(list, &e))) {
        if (!read_name(item->d_name, &id, &is_list) || is_list != lists)
            continue;
        if (lists)
            judge_list(jobs, dir, item->d_name, id);
        else
            take_state(jobs, dir, folder, item->d_name, id);
        forget_old(jobs);
    }
    closedir(list);
}

static void find_jobs(struct jobs *jobs)
{
    for (size_t i = 0; i < store_folder_count(jobs_store(jobs)); i++) {
        int dir;
        if (atomic_load(&jobs->files.read[i]) || store_job_folder(jobs_store(jobs), i, &dir) != OK)
            continue;
        read_names(jobs, dir, i, false);
        read_names(jobs, dir, i, true);
        close(dir);
        atomic_store(&jobs->files.read[i], true);
    }
}

/* ---- the thread ---- */

static bool wait(struct jobs *jobs)
{
    struct files *files = &jobs->files;
    pthread_mutex_lock(&jobs->lock);
    if (!files->stopping && !files->urgent)
        cond_wait_until(&files->wake, &jobs->lock, mono_ns() + (uint64_t)SAVE_MS * 1000000u);
    files->urgent = false;
    bool goes_on = !files->stopping;
    pthread_mutex_unlock(&jobs->lock);
    return goes_on;
}

static void *run(void *arg)
{
    struct jobs *jobs = arg;
    do {
        find_jobs(jobs);
        atomic_store(&jobs->files.looked, true);
        save_all(jobs);
        forget_old(jobs);
    } while (wait(jobs));
    save_all(jobs);
    pthread_mutex_lock(&jobs->lock);
    pthread_cond_broadcast(&jobs->files.saved);    /* ends the waits in jobs_cancel */
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

bool files_start(struct jobs *jobs)
{
    jobs->files.began_s = wall_s();
    return thread_start(&jobs->files.thread, run, jobs, "job-files");
}

void files_stop(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    jobs->files.stopping = true;
    pthread_cond_signal(&jobs->files.wake);
    pthread_mutex_unlock(&jobs->lock);
    pthread_join(jobs->files.thread, NULL);
}

/* ---- ending a job ---- */

enum err jobs_cancel(struct jobs *jobs, uint64_t id)
{
    uint64_t until_ns = mono_ns() + END_NS;
    pthread_mutex_lock(&jobs->lock);
    struct job *job = jobs_get(jobs, id);
    enum err err = job ? OK : ERR_NOT_FOUND;
    if (job)
        job->canceled = true;
    ticket_wake(jobs->look);
    while (job && (job->report.state == JOB_RUNNING || job->saved != job->version) && !err) {
        if (mono_ns() >= until_ns || jobs->files.stopping)
            err = jobs->files.stopping ? ERR_STOPPING : ERR_IO;
        else
            cond_wait_until(&jobs->files.saved, &jobs->lock, until_ns);
        job = jobs_get(jobs, id);
    }
    pthread_mutex_unlock(&jobs->lock);
    return err;
}
