/* prefix_size.c - how many objects and bytes a job has. SPDX-License-Identifier: Apache-2.0
 *
 * A lister of its own runs ahead of the job through all pages of the origin's list, counts, and
 * keeps nothing. So a report can say how much of the job is done. Threads: the thread `jobs`. */
#include "jobs/inside.h"

static void add(struct prefix_size *size, const struct listing *listing)
{
    size->total.objects += listing->object_count;
    for (size_t i = 0; i < listing->object_count; i++)
        size->total.bytes += listing->objects[i].size;
}

/* With the last page, the total is known: the objects before the cursor when this process began,
 * and those that were counted since. */
static void judge_total(struct prefix_size *size, struct job_run *run)
{
    size->total.known = !lister_has_more(&size->lister);
    if (!size->total.known)
        return;
    pthread_mutex_lock(&run->jobs->lock);
    run->job->report.total = size->total;
    pthread_mutex_unlock(&run->jobs->lock);
}

void prefix_size_begin(struct prefix_size *size, struct job_run *run, const struct listing *first)
{
    const struct job_sums *sums = &run->job->report.settled;
    lister_begin_behind(&size->lister, &run->source.lister);
    size->began = true;
    size->total = (struct job_total){ .objects = sums->objects, .bytes = sums->bytes };
    add(size, first);
    judge_total(size, run);
}

void prefix_size_go_on(struct prefix_size *size)
{
    struct arena scratch = { 0 };
    struct listing listing;
    if (!size->began || size->total.known)
        return;
    if (lister_next(&size->lister, &scratch, &listing) == OK) {
        add(size, &listing);
        judge_total(size, size->lister.run);
        job_run_wake(size->lister.run);
    }
    arena_free(&scratch);
}

void prefix_size_end(struct prefix_size *size)
{
    if (size->began)
        lister_end(&size->lister);
}
