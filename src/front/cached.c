/* cached.c - which keys of a bucket are cached: penstock-ls and penstock-du.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A client may see the names that it may list. So the call first asks the origin for a list of the
 * same prefix, in the name of the client, as an ordinary list call does (cache/lists.h). Without an
 * answer from the origin, no name is sent.
 *
 * Then a thread of a pool walks through the store (store/walk.h). It keeps the rows with the lowest
 * names after the marker, one page at most (page.h), so memory is bounded. The answer has a JSON
 * object on each line: the rows, then the summary. The loop writes it piece by piece. A client that
 * wants more sends the last name as marker. If the client leaves, the walk ends at the next row. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/metric.h"
#include "base/workers.h"
#include "front/inside.h"
#include "front/page.h"
#include "s3/encode.h"
#include "store/walk.h"

#define THREADS_MAX 2u
/* H8: the calls that are in progress, from the question about the right to the last byte of the
 * answer; and how many of them may want more than PAGE_ROWS rows. */
#define WALKS_MAX 16u
#define LARGE_MAX 2u
#define PAGE_ROWS 1000u
#define PAGE_ROWS_MAX 100000u
#define PAGE_BYTES_LEAST MIB          /* of memory, for the rows of a page */
#define PAGE_BYTES_MOST (16 * MIB)
#define PIECE_BYTES (64 * KIB)
#define DEPTH_MAX 1024u               /* a key has at most as many bytes */

struct walk_job {
    struct list link;
    struct mail mail;
    struct mailbox *box;
    struct front *front;
    struct call *call;                /* NULL: the client has gone. For the loop alone */
    struct list_right *right;         /* in the call: the question whether the client may list */
    bool is_walking;                  /* the pool has the job */
    atomic_bool gone;
    struct arena keep;
    struct walk_ask ask;
    struct walk_gaps gaps;
    bool sums;                        /* penstock-du */
    bool large;                       /* more than PAGE_ROWS rows */
    size_t depth;
    struct page *page;
    const struct page_row *rows;      /* of the page, after the walk */
    size_t count, sent;
    bool more;                        /* there are further pages */
    struct arena piece;               /* the part of the answer that is being sent */
};

static void job_free(struct walk_job *job)
{
    page_free(&job->page);
    atomic_fetch_sub(&job->front->walk_count, 1);
    if (job->large)
        atomic_fetch_sub(&job->front->large_count, 1);
    mailbox_unref(&job->box);
    arena_free(&job->keep);
    arena_free(&job->piece);
    free(job);
}

/* ---- the walk, on a thread of the pool ---- */

static bool is_over(void *arg)
{
    return atomic_load_explicit(&((struct walk_job *)arg)->gone, memory_order_relaxed);
}

/* Returns the beginning of a key that `depth` slashes after the prefix end, or as many as it
 * has. */
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

static enum err visit(void *arg, const struct walk_object *object)
{
    struct walk_job *job = arg;
    struct page_row *row = page_row(job->page, job->sums ? directory_of(job, object->key)
                                                         : object->key);
    if (!row)
        return OK;
    row->objects++;
    row->bytes += object->size;
    row->cached_bytes += object->cached_bytes;
    row->pinned_bytes += object->pinned_bytes;
    row->age = page_younger(row->age, object->age);
    return OK;
}

/* ---- the answer ---- */

static bool is_text(slice s)
{
    uint32_t code;
    for (size_t len; s.len; s = slice_from(s, len)) {
        len = utf8_read(s, &code);
        if (!len)
            return false;
    }
    return true;
}

void cached_add_name(struct text *to, const char *member, slice name)
{
    if (!is_text(name)) {
        text_printf(to, "\"%s_url\":\"", member);
        uri_encode(to, name, false);
        text_char(to, '"');
        return;
    }
    text_printf(to, "\"%s\":\"", member);
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (c < ' ' || c == '"' || c == '\\' || c == 0x7f)
            text_printf(to, "\\u%04x", c);
        else
            text_char(to, (char)c);
    }
    text_char(to, '"');
}

static void add_row(struct text *to, const struct walk_job *job, const struct page_row *row)
{
    text_char(to, '{');
    cached_add_name(to, job->sums ? "prefix" : "key", row->name);
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

void cached_add_folders(struct text *to, const bool folders[VOLUMES_MAX])
{
    const char *comma = "";
    text_char(to, '[');
    for (size_t i = 0; i < VOLUMES_MAX; i++) {
        if (!folders[i])
            continue;
        text_printf(to, "%s%zu", comma, i + 1);
        comma = ",";
    }
    text_char(to, ']');
}

/* The last line: where the next page begins, and what could not be read. */
static void add_summary(struct text *to, const struct walk_job *job)
{
    text_printf(to, "{\"rows\":%zu,\"complete\":%s", job->count,
                job->gaps.any ? "false" : "true");
    if (job->more && job->count) {
        text_char(to, ',');
        cached_add_name(to, "next", job->rows[job->count - 1].name);
    }
    text_add(to, S(",\"folders_out\":"));
    cached_add_folders(to, job->gaps.folders);
    text_printf(to, ",\"extents_unread\":%" PRIu32 "}\n", job->gaps.extents);
}

/* ---- sending, on the loop ---- */

/* Sends the next rows, or the summary, and then the end. */
static void proceed(void *arg)
{
    struct walk_job *job = arg;
    struct call *call = job->call;
    arena_free(&job->piece);
    struct text text = text_in(&job->piece);
    if (job->sent > job->count) {
        job_free(job);
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
    http_reply_send_runs(call->http, &piece, 1, last);
}

static void left(void *arg)    /* the client, while it got the answer */
{
    job_free(arg);
}

static const struct http_source source = { proceed, left };

static void deliver(struct mail *mail)    /* runs on the loop */
{
    struct walk_job *job = container_of(mail, struct walk_job, mail);
    struct call *call = job->call;
    if (!call) {
        job_free(job);
        return;
    }
    struct fields fields = { .keep = call->keep };
    call->gone = NULL;
    fields_add(&fields, S("content-type"), S("application/x-ndjson"));
    fields_add(&fields, S("x-amz-request-id"), call->id);
    http_reply_start(call->http, 200, fields.list, fields.count, HTTP_OPEN, &source, job);
    proceed(job);
}

static bool work(struct list *link)
{
    struct walk_job *job = list_of(link, struct walk_job, link);
    if (store_walk(cache_store(job->front->options.cache), &job->ask, &job->gaps) == OK)
        job->count = page_end(job->page, &job->rows, &job->more);
    job->mail.deliver = deliver;
    if (!mailbox_post(job->box, &job->mail))
        job_free(job);    /* the loop is gone, and the request with it */
    return true;
}

struct workers *cached_walkers_new(void)
{
    return workers_new(THREADS_MAX, "walk", work);
}

/* ---- the call, on its loop ---- */

static void gone(void *arg)
{
    struct walk_job *job = arg;
    job->call = NULL;
    atomic_store(&job->gone, true);
    list_right_drop(&job->right);
    if (!job->is_walking)    /* else the pool has the job */
        job_free(job);
}

/* Ends a call whose right is not proved. */
static void refuse(struct walk_job *job, enum err err)
{
    struct call *call = job->call;
    call->gone = NULL;
    job_free(job);
    reply_error(call, err, S(""));
}

static void judged(void *arg, enum err err)
{
    struct walk_job *job = arg;
    if (err) {
        refuse(job, err);
        return;
    }
    job->is_walking = true;
    workers_put(job->front->walkers, &job->link);
}

static slice param_of(const struct call *call, slice name)
{
    const struct s3_param *param = s3_param_get(&call->s3, name);
    return param ? param->value : S("");
}

/* Reads a number of the query. Returns false if it is none, or not in [least, most]. */
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

/* Memory for the rows of a page. */
static size_t page_bytes(const struct front *front)
{
    return MIN(MAX(front->options.memory_bytes / 64, PAGE_BYTES_LEAST), PAGE_BYTES_MOST);
}

static void begin(struct call *call, size_t depth, size_t rows_max)
{
    struct walk_job *job = must_alloc(sizeof(*job));
    slice marker = param_of(call, S("marker"));
    job->front = call->front;
    job->call = call;
    job->box = mailbox_ref(http_loop_mailbox(http_request_loop(call->http)));
    job->sums = call->s3.op == S3_DU;
    job->large = rows_max > PAGE_ROWS;
    job->depth = depth;
    job->page = page_new(marker.len ? marker : (slice){ NULL, 0 }, rows_max,
                         page_bytes(call->front));
    job->ask = (struct walk_ask){
        .endpoint = arena_copy(&job->keep, origin_endpoint(call->rules->origin)),
        .bucket = arena_copy(&job->keep, call->s3.bucket),
        .prefix = arena_copy(&job->keep, param_of(call, S("prefix"))),
        .wants_age = !job->sums, .visit = visit, .is_over = is_over, .arg = job };
    call->gone = gone;
    call->gone_arg = job;
    enum err err = list_right_ask(call, job->ask.prefix, judged, job, &job->right);
    if (err != ERR_WAIT)
        judged(job, err);
}

/* Counts a call, if there is a place for it. */
static bool take_place(struct front *front, bool large)
{
    if (atomic_fetch_add(&front->walk_count, 1) >= WALKS_MAX) {
        atomic_fetch_sub(&front->walk_count, 1);
        return false;
    }
    if (!large || atomic_fetch_add(&front->large_count, 1) < LARGE_MAX)
        return true;
    atomic_fetch_sub(&front->large_count, 1);
    atomic_fetch_sub(&front->walk_count, 1);
    return false;
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
    if (!take_place(call->front, rows_max > PAGE_ROWS)) {
        metric_add(M_WALKS_LIMITED, 1);
        reply_error(call, ERR_SLOW_DOWN, S(""));
        return;
    }
    begin(call, depth, rows_max);
}
