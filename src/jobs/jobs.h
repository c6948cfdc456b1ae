/* jobs.h - work that goes on without a client: objects are brought into the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A job has a prefix or a list of keys. It reads each object as a GetObject of the client that
 * started it, and throws the bytes away; so the object is in the cache afterwards. A job outlives a
 * restart and a kill -9: its list and its cursor lie in a cache folder. A report stays for 7 days
 * after the end. Any thread may call these functions, unless a comment says otherwise. */
#ifndef JOBS_JOBS_H
#define JOBS_JOBS_H

#include "cache/reader.h"
#include "jobs/job_state.h"

/* H8: at most JOBS_RUN_MAX jobs are in progress. The table has room for JOBS_MAX jobs: these, and
 * the reports of earlier ones. When it is full, the oldest report of the client that has most
 * reports is removed. */
#define JOBS_RUN_MAX 32u
#define JOBS_MAX 256u
#define JOBS_MAX_HARD (JOBS_MAX + 64)    /* while reports come faster than they are removed */

struct jobs;
struct jobs_options {
    struct cache *cache;
    unsigned gets_max;                /* H8: the most gets in progress, of all jobs together */
};

struct jobs *jobs_new(const struct jobs_options *options) MUST_USE;
/* To be called when no other call is in progress. */
void jobs_free(struct jobs **jobs);    /* accepts NULL */
/* Starts the threads, which find the jobs of earlier processes. `judge` decides what a job may
 * read. Returns false if no thread could be started. One thread calls start and stop. */
bool jobs_start(struct jobs *jobs, const struct reader_judge *judge) MUST_USE;
/* Ends the threads. Jobs in progress go on in the next process. */
void jobs_stop(struct jobs *jobs);

/* ---- a new job; these functions wait for the disk ---- */

/* A job before its start. It belongs to one thread. */
struct job_draft;
/* Returns OK; ERR_LIMIT if there are too many jobs, or this owner has its share of them; ERR_BUSY
 * if the jobs of earlier processes are still unknown; ERR_IO if no cache folder is in service. */
enum err job_draft_new(struct jobs *jobs, slice owner, struct job_draft **ret) MUST_USE;
/* Adds an item to the list. Returns OK; ERR_TOO_LARGE if the list has more than JOB_LIST_MAX bytes;
 * or ERR_FULL, ERR_LIMIT or ERR_IO (file_err). */
enum err job_draft_add(struct job_draft *draft, const struct item *item) MUST_USE;
/* Starts the job. If spec->by_list, it has the items of the draft. After OK the job is on the disk.
 * Errors: those of the two functions above, and ERR_BAD_ARGUMENT for a list without an item. Frees
 * the draft in any case. */
enum err job_draft_start(struct job_draft **draft, const struct job_spec *spec,
                         uint64_t *ret_id) MUST_USE;
void job_draft_free(struct job_draft **draft);    /* accepts NULL */

/* ---- reports ---- */

/* False right after the start: the jobs of earlier processes are still unknown. */
bool jobs_are_known(const struct jobs *jobs) MUST_USE;

/* The size of a job. */
struct job_total {
    uint64_t objects, bytes;          /* bytes: of the whole objects of a prefix; list: 0 */
    bool known;                       /* false: the keys of the prefix are still being counted */
};

/* A job as a client sees it. */
struct job_view {
    /* With the sums of all items that are done, and the window that the job has now. */
    struct job_file file;
    struct job_total total;           /* of a job in progress */
    uint64_t rate;                    /* bytes a second, lately; 0: it has ended, or just begun */
    slice waits;                      /* why it makes no progress; empty: it makes progress */
};
/* Returns false if there is no such job. *ret lies in keep. */
bool jobs_find(struct jobs *jobs, uint64_t id, struct arena *keep, struct job_view *ret) MUST_USE;
/* Returns the jobs of a bucket, the oldest first, without their failures. All in keep. */
size_t jobs_list(struct jobs *jobs, slice bucket, struct arena *keep, struct job_view **ret);
/* Returns the jobs in progress, and the `ended_max` latest others, of all buckets: as jobs_list. */
size_t jobs_latest(struct jobs *jobs, size_t ended_max, struct arena *keep, struct job_view **ret);
/* Ends a job; does nothing if it has ended. Waits until the end is on the disk. Returns OK or
 * ERR_NOT_FOUND. Returns ERR_IO if the end is not on the disk after 10 s, and ERR_STOPPING if
 * Penstock stops before that: a restart may then begin the job again. */
enum err jobs_cancel(struct jobs *jobs, uint64_t id) MUST_USE;

#endif
