/* lister.c - the keys of a prefix, a page after another. SPDX-License-Identifier: Apache-2.0
 *
 * Each page is a list call to the origin, in the name of the client that started the job. The
 * client is judged anew for each call. The next page begins where the one before ended
 * (s3/list_pages.h). Threads: the thread `jobs`. */
#include <stdlib.h>

#include "jobs/inside.h"
#include "s3/error.h"

#define PAGE_KEYS 1000u
#define PAGE_BYTES_MAX (8 * MIB)
#define EMPTY_MAX 1000u               /* H8: pages without a key in a row */

void lister_begin(struct lister *lister, struct job_run *run, slice after)
{
    *lister = (struct lister){ .run = run };
    list_pages_begin(&lister->pages, run->job->spec.prefix, after);
}

void lister_begin_behind(struct lister *lister, const struct lister *from)
{
    *lister = (struct lister){ .run = from->run, .began = from->began };
    list_pages_copy(&lister->pages, &from->pages);
}

void lister_end(struct lister *lister)
{
    list_end(&lister->get);
    list_pages_end(&lister->pages);
}

bool lister_has_more(const struct lister *lister)
{
    return lister->get || !lister->began || lister->pages.more;
}

static void changed(void *arg)
{
    struct lister *lister = arg;
    job_run_wake(lister->run);
}

/* Judges the list as a request of the client that started the job, and asks the origin. */
static void ask(struct lister *lister)
{
    struct job_run *run = lister->run;
    const struct reader_judge *judge = &run->jobs->judge;
    const struct job_spec *spec = &run->job->spec;
    struct arena scratch = { 0 };
    struct reader reader;
    struct list_ask list;
    enum err err = judge->find(judge->arg, spec->owner, &reader);
    if (!err)
        err = judge->may_list(judge->arg, &scratch, &reader, spec->bucket, spec->prefix, &list);
    if (err == ERR_UNKNOWN_KEY || err == ERR_POLICY) {
        job_run_stop(run, JOB_REFUSED, S("the client that started the job may not list this prefix "
                                         "any more, or is no longer in the settings"));
    } else if (err) {
        job_run_stop(run, JOB_FAILED, slice_of(s3_error_of(err)->message));
    } else {
        list.query = list_pages_query(&lister->pages, PAGE_KEYS, &scratch);
        lister->get = list_start(run->jobs->cache, &list, changed, lister);
        if (!lister->get)
            job_run_meets_outage(run, s3_error_of(ERR_SLOW_DOWN)->message);
    }
    arena_free(&scratch);
}

static const char *const faults[LIST_FAULTS] = {
    [LIST_ENDLESS] = LIST_ENDLESS_TEXT, [LIST_REPEATED] = LIST_REPEATED_TEXT,
    [LIST_BEFORE] = LIST_BEFORE_TEXT,
};

/* Reads the body of a page. Returns a sentence if the list can't go on. */
static const char *read_page(struct lister *lister, slice body, struct arena *keep,
                             struct listing *ret)
{
    if (body.len > PAGE_BYTES_MAX)
        return "a page of the origin's list is too large";
    if (xml_read_listing(keep, body, ret) != OK)
        return "the origin's list can't be read";
    for (size_t i = 0; i < ret->object_count; i++) {
        if (ret->objects[i].key.len > S3_KEY_BYTES_MAX)
            return "the origin lists a key of more than 1024 bytes";
        if (!slice_starts(ret->objects[i].key, lister->pages.prefix))
            return "the origin lists a key outside of the job's prefix, so it seems to ignore the "
                   "parameter prefix. Start the job with a list of keys (penstock warm --list)";
    }
    const char *fault = faults[list_pages_take(&lister->pages, ret)];
    lister->began = true;
    lister->empty = ret->object_count ? 0 : lister->empty + 1;
    if (!fault && lister->empty == EMPTY_MAX)
        return "the origin's list has 1000 pages without a key, one after another";
    return fault;
}

static bool is_outage(const struct list_answer *answer)
{
    return answer->err || answer->status >= 500 || answer->status == 429;
}

static const char *why_out(const struct list_answer *answer)
{
    if (answer->err == ERR_LIMIT)
        return "the memory for lists (budget memory_lists) has no room for the origin's answer: if "
               "this does not end, give Penstock more memory (setting memory)";
    return s3_error_of(answer->err ? answer->err : ERR_ORIGIN_STATUS)->message;
}

/* Judges the answer. Returns OK with a page, or ERR_NOT_FOUND. */
static enum err judge(struct lister *lister, const struct list_answer *answer, struct arena *keep,
                      struct listing *ret)
{
    struct job_run *run = lister->run;
    if (is_outage(answer)) {
        job_run_meets_outage(run, why_out(answer));
        return ERR_NOT_FOUND;
    }
    job_run_succeeds(run);
    if (answer->status == 404)
        job_run_stop(run, JOB_FAILED, S("the bucket does not exist"));
    else if (answer->status != 200)
        job_run_stop(run, JOB_REFUSED, S("the origin refuses to list the prefix to the client that "
                                         "started the job"));
    if (answer->status != 200)
        return ERR_NOT_FOUND;
    const char *fault = read_page(lister, answer->body, keep, ret);
    if (fault)
        job_run_stop(run, JOB_FAILED, slice_of(fault));
    return fault ? ERR_NOT_FOUND : OK;
}

enum err lister_next(struct lister *lister, struct arena *keep, struct listing *ret)
{
    const struct list_answer *answer;
    enum err err = ERR_NOT_FOUND;
    if (lister->get) {
        if (list_answer(lister->get, &answer) == ERR_WAIT)
            return ERR_WAIT;
        err = judge(lister, answer, keep, ret);
        list_end(&lister->get);
    }
    if (err && lister_has_more(lister) && job_run_may_ask(lister->run))
        ask(lister);
    return err && lister->get ? ERR_WAIT : err;
}
