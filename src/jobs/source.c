/* source.c - the items of a job, in their order. SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a prefix come from list calls to the origin, in the name of the client that started
 * the job, a page after another (s3/list_pages.h). The items of a list come from its file, a block
 * after another. In either case two pages are in memory at most: one that items are taken from, and
 * one ahead. A new process goes on behind the last key before the cursor, or in its block.
 *
 * The thread `jobs` reads the blocks itself. If the disk hangs, all jobs wait, and nothing else
 * does. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "jobs/inside.h"
#include "s3/error.h"
#include "store/job_folder.h"

#define PAGE_KEYS 1000u
#define PAGE_BYTES_MAX (8 * MIB)
#define EMPTY_MAX 1000u               /* H8: pages without a key in a row */

struct page {
    struct arena keep;
    struct items items;
    size_t next;
    uint64_t block;                   /* of a list: the offset of this block */
};

static void page_free(struct page **page)
{
    if (*page)
        arena_free(&(*page)->keep);
    free(*page);
    *page = NULL;
}

void source_begin(struct source *source, struct job_run *run)
{
    const struct job *job = run->job;
    const struct job_cursor *cursor = &job->report.cursor;
    *source = (struct source){ .run = run, .file = -1, .offset = cursor->block };
    if (!job->spec.by_list)
        list_pages_begin(&source->list.pages, job->spec.prefix, cursor->after);
}

void source_end(struct source *source)
{
    list_end(&source->list.get);
    list_pages_end(&source->list.pages);
    page_free(&source->page);
    page_free(&source->ahead);
    if (source->file >= 0)
        close(source->file);
}

/* ---- the keys of a prefix ---- */

static void changed(void *arg)
{
    struct source *source = arg;
    job_run_wake(source->run);
}

/* Judges the list as a request of the client that started the job, and asks the origin. */
static void ask(struct source *source)
{
    struct job_run *run = source->run;
    struct jobs *jobs = run->jobs;
    const struct reader_judge *judge = &jobs->judge;
    const struct job_spec *spec = &run->job->spec;
    struct arena scratch = { 0 };
    struct reader reader;
    struct list_ask list;
    enum err err = judge->find(judge->arg, spec->owner, &reader);
    if (!err)
        err = judge->may_list(judge->arg, &scratch, &reader, spec->bucket, spec->prefix, &list);
    if (err == ERR_UNKNOWN_KEY || err == ERR_POLICY) {
        job_run_ends(run, JOB_REFUSED, S("the client that started the job may not list this prefix "
                                         "any more, or is no longer in the settings"));
    } else if (err) {
        job_run_ends(run, JOB_FAILED, slice_of(s3_error_of(err)->message));
    } else {
        list.query = list_pages_query(&source->list.pages, PAGE_KEYS, &scratch);
        source->list.get = list_start(jobs->cache, &list, changed, source);
        if (!source->list.get)
            job_run_meets_outage(run, s3_error_of(ERR_SLOW_DOWN)->message);
    }
    arena_free(&scratch);
}

static const char *const faults[LIST_FAULTS] = {
    [LIST_ENDLESS] = LIST_ENDLESS_TEXT, [LIST_REPEATED] = LIST_REPEATED_TEXT,
    [LIST_BEFORE] = LIST_BEFORE_TEXT,
};

static void take_listing(struct source *source, slice body)
{
    struct job_run *run = source->run;
    struct listing listing = { .truncated = false };
    struct page *page = must_alloc(sizeof(*page));
    enum err err = xml_read_listing(&page->keep, body, &listing);
    const char *fault = err ? "The origin's list can't be read." : NULL;
    if (!fault)
        fault = faults[list_pages_take(&source->list.pages, &listing)];
    source->list.empty = listing.object_count ? 0 : source->list.empty + 1;
    if (!fault && source->list.empty == EMPTY_MAX)
        fault = "The origin's list has 1000 pages without a key, one after another.";
    source->list.began = true;
    if (fault)
        job_run_ends(run, JOB_FAILED, slice_of(fault));
    if (fault || !listing.object_count) {
        page_free(&page);
        return;
    }
    page->items.count = listing.object_count;
    page->items.list = arena_alloc(&page->keep, listing.object_count * sizeof(struct item));
    for (size_t i = 0; i < listing.object_count; i++)
        page->items.list[i] = (struct item){ .key = listing.objects[i].key, .kind = ITEM_WHOLE,
                                             .length = ITEM_OPEN };
    source->ahead = page;
}

static bool is_outage(const struct list_answer *answer)
{
    return answer->err || answer->status >= 500 || answer->status == 429;
}

static void take_answer(struct source *source)
{
    struct job_run *run = source->run;
    const struct list_answer *answer;
    if (list_answer(source->list.get, &answer) == ERR_WAIT)
        return;
    if (!is_outage(answer))
        job_run_succeeds(run);
    if (is_outage(answer))
        job_run_meets_outage(run, answer->err ? s3_error_of(answer->err)->message
                                          : s3_error_of(ERR_ORIGIN_STATUS)->message);
    else if (answer->status == 200 && answer->body.len <= PAGE_BYTES_MAX)
        take_listing(source, answer->body);
    else if (answer->status == 200)
        job_run_ends(run, JOB_FAILED, S("a page of the origin's list is too large"));
    else if (answer->status == 404)
        job_run_ends(run, JOB_FAILED, S("the bucket does not exist"));
    else
        job_run_ends(run, JOB_REFUSED, S("the origin refuses to list the prefix to the client that "
                                     "started the job"));
    list_end(&source->list.get);
}

static void list_more(struct source *source)
{
    if (source->list.get)
        take_answer(source);
    bool more = !source->list.began || source->list.pages.more;
    if (!source->list.get && !source->ahead && more && job_run_may_ask(source->run))
        ask(source);
}

/* ---- the items of a list ---- */

static void open_file(struct source *source)
{
    struct job_run *run = source->run;
    char name[JOB_NAME_BYTES];
    int folder;
    if (store_job_folder(jobs_store(run->jobs), run->job->folder, &folder) != OK) {
        job_run_meets_outage(run, "The cache folder with the job's list is out of service.");
        return;
    }
    source->file = file_open(folder, job_name(run->job->id, true, name), O_RDONLY);
    int error = errno;
    close(folder);
    if (source->file < 0 && file_err(error) == ERR_LIMIT)
        job_run_meets_outage(run, "Penstock has no file descriptor left for the job's list.");
    else if (source->file < 0)
        job_run_ends(run, JOB_FAILED, S("the file of the job's list can't be opened"));
}

static void read_block(struct source *source)
{
    const struct job_cursor *cursor = &source->run->job->report.cursor;
    struct page *page = must_alloc(sizeof(*page));
    char *bytes = arena_alloc(&page->keep, JOB_BLOCK_MAX);
    ssize_t len = pread(source->file, bytes, JOB_BLOCK_MAX, (off_t)source->offset);
    size_t size = 0;
    enum err err = len < 0 ? ERR_IO : len ? job_block_decode((slice){ bytes, (size_t)len },
                                                            &page->keep, &page->items, &size) : OK;
    page->block = source->offset;
    if (source->offset == cursor->block)    /* the first block of this process */
        page->next = MIN(cursor->row, page->items.count);
    source->offset += size;
    if (err)
        job_run_ends(source->run, JOB_FAILED, S("the file of the job's list is damaged"));
    if (err || !len) {
        page_free(&page);
        source->over = true;
        return;
    }
    source->ahead = page;
}

static void read_more(struct source *source)
{
    if (source->file < 0 && !source->ahead)
        open_file(source);
    if (source->file >= 0 && !source->ahead && !source->over)
        read_block(source);
}

/* ---- the next item ---- */

static bool is_exhausted(const struct page *page)
{
    return !page || page->next == page->items.count;
}

enum err source_next(struct source *source, struct item *ret, struct place *ret_place)
{
    bool by_list = source->run->job->spec.by_list;
    if (source->over && is_exhausted(source->page) && !source->ahead)
        return ERR_NOT_FOUND;
    if (is_exhausted(source->page) || !source->ahead)
        (by_list ? read_more : list_more)(source);
    while (is_exhausted(source->page) && source->ahead) {
        page_free(&source->page);
        source->page = source->ahead;
        source->ahead = NULL;
    }
    if (is_exhausted(source->page)) {
        bool more = by_list || source->list.get || !source->list.began || source->list.pages.more;
        source->over |= !more;
        return source->over || source->run->end != JOB_RUNS ? ERR_NOT_FOUND : ERR_WAIT;
    }
    struct page *page = source->page;
    *ret = page->items.list[page->next++];
    *ret_place = (struct place){ .block = page->block, .row = (uint32_t)page->next };
    return OK;
}
