/* source.c - the items of a job, in their order. SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a prefix come from list calls to the origin, a page after another (lister.c). The
 * items of a list come from its file, a block after another. At most two pages are in memory: the
 * current one and the next one. A new process goes on at the cursor: for a prefix, behind the last
 * key before the cursor; for a list, in the block that the cursor names.
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

void job_source_begin(struct job_source *source, struct job_run *run)
{
    const struct job *job = run->job;
    const struct job_cursor *cursor = &job->report.cursor;
    *source = (struct job_source){ .run = run, .file = -1, .offset = cursor->block,
                                   .items = job->report.settled.objects };
    if (!job->spec.by_list)
        lister_begin(&source->lister, run, cursor->after);
}

void job_source_end(struct job_source *source)
{
    lister_end(&source->lister);
    page_free(&source->page);
    page_free(&source->ahead);
    if (source->file >= 0)
        close(source->file);
}

/* ---- the keys of a prefix ---- */

static void list_more(struct job_source *source)
{
    struct page *page = must_alloc(sizeof(*page));
    struct listing listing;
    bool first = !source->lister.began;
    if (lister_next(&source->lister, &page->keep, &listing) != OK) {
        page_free(&page);
        return;
    }
    page->items.count = listing.object_count;
    page->items.list = arena_alloc(&page->keep, listing.object_count * sizeof(struct item));
    for (size_t i = 0; i < listing.object_count; i++)
        page->items.list[i] = (struct item){ .key = listing.objects[i].key, .kind = ITEM_WHOLE,
                                             .length = ITEM_OPEN };
    source->ahead = page;
    if (first)
        job_run_first_page(source->run, &listing);
}

/* ---- the items of a list ---- */

static void open_file(struct job_source *source)
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
        job_run_stop(run, JOB_FAILED, S("the file of the job's list can't be opened"));
}

static void read_block(struct job_source *source)
{
    const struct job_cursor *cursor = &source->run->job->report.cursor;
    struct page *page = must_alloc(sizeof(*page));
    char *bytes = arena_alloc(&page->keep, JOB_BLOCK_MAX);
    ssize_t len = pread(source->file, bytes, JOB_BLOCK_MAX, (off_t)source->offset);
    size_t size = 0;
    if (len < 0) {
        page_free(&page);
        job_run_meets_outage(source->run, "The job's list can't be read from the disk.");
        return;
    }
    enum err err = len ? job_block_decode((slice){ bytes, (size_t)len },
                                                            &page->keep, &page->items, &size) : OK;
    page->block = source->offset;
    if (source->offset == cursor->block)    /* the first block of this process */
        page->next = MIN(cursor->row, page->items.count);
    source->offset += size;
    if (err)
        job_run_stop(source->run, JOB_FAILED, S("the file of the job's list is damaged"));
    if (err || !len) {
        page_free(&page);
        source->at_end = true;
        return;
    }
    source->ahead = page;
}

static void read_more(struct job_source *source)
{
    if (source->file < 0)
        open_file(source);
    if (source->file >= 0 && !source->at_end)
        read_block(source);
}

/* ---- the next item ---- */

static bool is_exhausted(const struct page *page)
{
    return !page || page->next == page->items.count;
}

enum err job_source_next(struct job_source *source, struct item *ret,
                         struct item_position *ret_position)
{
    bool by_list = source->run->job->spec.by_list;
    if (source->over)
        return ERR_NOT_FOUND;
    for (;;) {
        if (!source->ahead)
            (by_list ? read_more : list_more)(source);
        if (!is_exhausted(source->page) || !source->ahead)
            break;
        page_free(&source->page);
        source->page = source->ahead;
        source->ahead = NULL;
    }
    if (is_exhausted(source->page)) {
        bool more = by_list ? !source->at_end : lister_has_more(&source->lister);
        source->over |= !more;
        if (by_list && !more && source->items != source->run->job->spec.listed)
            job_run_stop(source->run, JOB_FAILED, S("the file of the job's list is damaged: "
                                                    "its end is missing"));
        return source->over || source->run->state != JOB_RUNNING ? ERR_NOT_FOUND : ERR_WAIT;
    }
    struct page *page = source->page;
    *ret = page->items.list[page->next++];
    source->items++;
    *ret_position = (struct item_position){ .block = page->block, .row = (uint32_t)page->next };
    return OK;
}
