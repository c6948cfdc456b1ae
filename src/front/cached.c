/* cached.c - which keys of a bucket are cached: penstock-ls and penstock-du.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A client may see the names that it may list. So the call first asks the origin for a list of the
 * same prefix, in the name of the client (own_list.h). Without an answer from the origin, no name
 * is sent. For some clients, the answer has only objects of that list. Then the page of penstock-ls
 * ends with the last key of the list at the latest, so that "next" is never the name of an object
 * that the client can't see. The origin sends its list in pages, too. The loop asks for each of
 * these pages, and a thread of a pool reads it. So the task (pool_task.h) starts once for each page
 * of the origin's list.
 *
 * Then a thread of another pool walks through the store (store/walk.h). It keeps the rows with the
 * lowest names after the parameter "marker" of the request, one page at most (page.h), so memory is
 * bounded. The number of calls that want a large page is limited, too (rule H8 in src/README.md).
 * The answer has a JSON object on each line: the rows, then the summary. The loop writes the answer
 * piece by piece. To get the next page, a client sends the last name as "marker". If the client
 * leaves, the walk ends at the next row. */
#include <inttypes.h>

#include "base/metric.h"
#include "front/own_list.h"
#include "front/page.h"
#include "store/explain.h"

#define LARGE_PLACES 4u               /* of calls that want more than PAGE_ROWS rows (places.h) */
#define PAGE_ROWS 1000u
#define PAGE_ROWS_MAX 100000u
#define PAGE_BYTES_LEAST MIB          /* of memory, for the rows of a page */
#define PAGE_BYTES_MOST (16 * MIB)
#define PIECE_BYTES (64 * KIB)
#define DEPTH_MAX 1024u               /* no key has more bytes, so none has more slashes */

struct walk_job {
    struct pool_task task;
    struct own_list *listed;          /* the objects that the client may see; NULL: all */
    struct walk_ask ask;
    struct walk_gaps gaps;
    enum err err;
    bool sums;                        /* penstock-du */
    bool large;                       /* more than PAGE_ROWS rows */
    bool listed_only, list_cut;       /* only objects of a list; the list was too long for sums */
    size_t depth;
    struct page *page;
    const struct page_row *rows;      /* of the page, after the walk */
    size_t count, sent;
    slice next;                       /* the name before the next page; ptr NULL: no next page */
    struct arena piece;               /* the part of the answer that is being sent */
};

static void job_free(struct pool_task *task)
{
    struct walk_job *job = container_of(task, struct walk_job, task);
    page_free(&job->page);
    own_list_free(&job->listed);
    arena_free(&job->piece);
    if (job->large)
        places_give_back(&task->front->large, task->client);
}

static void job_end(struct walk_job *job)
{
    struct pool_task *task = &job->task;
    pool_task_free(&task);
}

/* ---- the walk, on a thread of the pool ---- */

/* Returns the beginning of a key up to slash number `depth` after the prefix. If the key has fewer
 * slashes there, returns it up to the last one; if it has none, returns the prefix. */
static slice directory_of(const struct walk_job *job, slice key)
{
    size_t end = job->ask.prefix.len, slashes = 0;
    for (size_t i = end; i < key.len && slashes < job->depth; i++) {
        if (key.ptr[i] != '/')
            continue;
        end = i + 1;
        slashes++;
    }
    return slice_sub(key, 0, end);
}

/* A list has only current versions. So a version that was read by its id is left out. */
static bool is_listed(const struct walk_job *job, const struct walk_object *object)
{
    const struct listed *listed = own_list_find(job->listed, object->key);
    return listed && !object->version.len && listed->size == object->size &&
           metadata_etag_hash(listed->etag) == object->etag_hash;
}

static enum err visit(void *arg, const struct walk_object *object)
{
    struct walk_job *job = container_of((struct pool_task *)arg, struct walk_job, task);
    if (job->listed && !is_listed(job, object))
        return OK;
    struct page_row *row = page_row(job->page, job->sums ? directory_of(job, object->key)
                                                         : object->key);
    if (!row)
        return OK;
    row->objects++;
    row->bytes += object->size;
    row->cached_bytes += object->cached_bytes;
    row->pinned_bytes += object->pinned_bytes;
    row->age = explain_younger(row->age, object->age);
    return OK;
}

/* ---- the answer ---- */

static void add_row(struct text *to, const struct walk_job *job, const struct page_row *row)
{
    text_char(to, '{');
    line_add_name(to, job->sums ? "prefix" : "key", row->name);
    text_printf(to, ",\"objects\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"cached_bytes\":%" PRIu64,
                row->objects, row->bytes, row->cached_bytes);
    if (row->pinned_bytes)
        text_printf(to, ",\"pinned_bytes\":%" PRIu64, row->pinned_bytes);
    if (!job->sums && row->pinned_bytes && row->pinned_bytes == row->cached_bytes)
        text_add(to, S(",\"pinned\":true"));
    if (row->age >= 0)
        text_printf(to, ",\"age\":%.2f", row->age);
    text_add(to, S("}\n"));
}

/* The last line: where the next page begins, and what could not be read. */
static void add_summary(struct text *to, const struct walk_job *job)
{
    text_printf(to, "{\"rows\":%zu,\"complete\":%s", job->count,
                job->gaps.any || job->list_cut ? "false" : "true");
    if (job->listed_only)
        text_add(to, S(",\"listed_only\":true"));
    if (job->list_cut)
        text_add(to, S(",\"list_cut\":true"));
    if (job->next.ptr) {
        text_char(to, ',');
        line_add_name(to, "next", job->next);
    }
    line_add_gaps(to, &job->gaps);
}

/* ---- sending, on the loop ---- */

/* Sends the next rows, or the summary, and then the end. */
static void proceed(void *arg)
{
    struct walk_job *job = arg;
    arena_free(&job->piece);
    struct text text = text_in(&job->piece);
    if (job->sent > job->count) {
        job_end(job);
        return;
    }
    while (job->sent < job->count && text.len < PIECE_BYTES)
        add_row(&text, job, &job->rows[job->sent++]);
    bool last = job->sent == job->count;
    if (last) {
        add_summary(&text, job);
        job->sent++;
    }
    slice piece = text_slice(&text);
    http_reply_send_runs(job->task.call->http, &piece, 1, last);
}

static void left(void *arg)    /* the client has left before it had the whole answer */
{
    job_end(arg);
}

static const struct http_source source = { proceed, left };

static void await(struct walk_job *job, enum err err);

static void refuse(struct walk_job *job, enum err err)
{
    slice why = own_list_why(job->listed);    /* static text */
    own_list_free(&job->listed);
    pool_task_refuse(&job->task, err, why);
}

static void answer(struct pool_task *task)
{
    struct walk_job *job = container_of(task, struct walk_job, task);
    struct call *call = task->call;
    struct fields fields = { .keep = call->keep };
    if (job->err == ERR_WAIT) {
        await(job, own_list_next(job->listed));
        return;
    }
    if (job->err) {
        refuse(job, job->err);
        return;
    }
    fields_add(&fields, S("content-type"), S("application/x-ndjson"));
    fields_add(&fields, S("x-amz-request-id"), call->id);
    http_reply_start(call->http, 200, fields.list, fields.count, HTTP_OPEN, &source, job);
    proceed(job);
}

/* Ends the page, and finds the name before the next one. Frees the origin's list before the answer
 * is sent, so its place among the long lists is free when the client asks for the next page. */
static void end_page(struct walk_job *job)
{
    bool more;
    slice last;
    bool list_has_more = job->listed && own_list_has_more(job->listed, &last);
    job->count = page_end(job->page, &job->rows, &more);
    job->listed_only = job->listed;
    job->list_cut = job->sums && list_has_more;
    if (more && job->count)
        job->next = job->rows[job->count - 1].name;
    else if (!job->sums && list_has_more)
        job->next = arena_copy(&job->task.keep, last);
    own_list_free(&job->listed);
}

static void read_list(struct pool_task *task)
{
    struct walk_job *job = container_of(task, struct walk_job, task);
    job->err = job->listed ? own_list_read(job->listed) : OK;
    task->walks = !job->err;
}

static void walk(struct pool_task *task)
{
    struct walk_job *job = container_of(task, struct walk_job, task);
    job->err = pool_task_walk(task, &job->ask, &job->gaps);
    if (!job->err)
        end_page(job);
}

static const struct pool_task_kind kind = {
    .pool = POOL_LIST, .work = read_list, .walk = walk, .answer = answer, .free = job_free,
};

/* ---- the call, on its loop ---- */

/* Called when the client leaves while the origin is asked. */
static void gone(void *arg)
{
    struct walk_job *job = arg;
    job_end(job);
}

/* Called when the origin has answered. */
static void answered(void *arg, enum err err)
{
    struct walk_job *job = arg;
    job->task.call->gone = NULL;
    if (err) {
        refuse(job, err);
        return;
    }
    if (!own_list_is_needed(job->task.call))
        own_list_free(&job->listed);
    pool_task_start(&job->task);
}

/* Goes on when the origin has answered. `err` is the result of the question to it. */
static void await(struct walk_job *job, enum err err)
{
    job->task.call->gone = gone;
    job->task.call->gone_arg = job;
    if (err != ERR_WAIT)
        answered(job, err);
}

static slice param_of(const struct call *call, slice name)
{
    const struct s3_param *param = s3_param_get(&call->s3, name);
    return param ? param->value : S("");
}

/* Reads a parameter of the query that is a number. If it is missing, *ret stays. Returns false if
 * the parameter is not a number, or is outside [least, most]. */
static bool read_number(const struct call *call, slice name, uint64_t least, uint64_t most,
                        size_t *ret)
{
    uint64_t value;
    slice text = param_of(call, name);
    if (!text.len)
        return true;
    if (!slice_u64(text, &value) || value < least || value > most)
        return false;
    *ret = (size_t)value;
    return true;
}

/* Returns the size of the memory for the rows of a page. */
static size_t page_bytes(const struct front *front)
{
    return MIN(MAX(front->options.memory_bytes / 64, PAGE_BYTES_LEAST), PAGE_BYTES_MOST);
}

static void begin(struct walk_job *job, size_t depth, size_t rows_max)
{
    struct call *call = job->task.call;
    struct arena *keep = &job->task.keep;
    slice marker = param_of(call, S("marker"));
    job->sums = call->s3.op == S3_DU;
    job->depth = depth;
    bool by_list = !job->sums && own_list_is_needed(call);    /* the list begins after the marker */
    job->page = page_new(marker.len && !by_list ? marker : (slice){ NULL, 0 }, rows_max,
                         page_bytes(call->front));
    job->ask = (struct walk_ask){
        .endpoint = arena_copy(keep, origin_endpoint(call->rules->origin)),
        .bucket = arena_copy(keep, call->s3.bucket),
        .prefix = arena_copy(keep, param_of(call, S("prefix"))),
        .wants_age = !job->sums, .visit = visit };
    struct own_list_ask ask = { .prefix = job->ask.prefix, .after = job->sums ? S("") : marker,
                                .keys_max = job->sums ? PAGE_ROWS_MAX : rows_max,
                                .bytes_max = page_bytes(call->front) };
    await(job, own_list_ask(call, &ask, answered, job, &job->listed));
}

/* Takes a place for a large page, which job_free gives back. Returns false if there is none. */
static bool take_large(struct walk_job *job)
{
    job->large = places_take(&job->task.front->large, LARGE_PLACES, job->task.client);
    metric_add(M_WALKS_LIMITED, job->large ? 0 : 1);
    return job->large;
}

void cached_read(struct call *call)
{
    size_t depth = 1, rows_max = PAGE_ROWS;
    if (!read_number(call, S("depth"), 0, DEPTH_MAX, &depth) ||
        !read_number(call, S("max-keys"), 1, PAGE_ROWS_MAX, &rows_max)) {
        reply_error(call, ERR_BAD_ARGUMENT, S("max-keys must be a number from 1 to 100000, and "
                                              "depth a number from 0 to 1024."));
        return;
    }
    struct walk_job *job = pool_task_new(call, &kind, sizeof(*job));
    if (!job)
        return;
    if (rows_max > PAGE_ROWS && !take_large(job))
        pool_task_refuse(&job->task, ERR_SLOW_DOWN, S(""));
    else
        begin(job, depth, rows_max);
}
