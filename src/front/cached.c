/* cached.c - which keys of a bucket are cached: penstock-ls and penstock-du.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A client may see the names that it may list. So the call first asks the origin for a list of the
 * same prefix, in the name of the client, as an ordinary list call does (cache/lists.h). Without an
 * answer from the origin, no name is sent.
 *
 * Then a thread of a pool walks through the store (store/walk.h). It keeps the rows with the lowest
 * names after the marker, one page at most, so memory is bounded. The answer has a JSON object on
 * each line: the rows, then the summary. A client that wants more sends the last name as marker. If
 * the client leaves, the walk ends at the next row. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/metric.h"
#include "base/workers.h"
#include "front/inside.h"
#include "s3/encode.h"
#include "store/walk.h"

#define THREADS_MAX 2u
#define WALKS_MAX 16u                 /* H8: that run or wait */
#define PAGE_ROWS_MAX 1000u
#define DEPTH_MAX 1024u               /* a key has at most as many bytes */

/* A line of the answer: a key, or the keys that begin alike. */
struct row {
    char *name;
    size_t len;
    uint64_t objects, bytes, cached_bytes;
};

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
    slice marker;
    bool sums;                        /* penstock-du */
    size_t depth, rows_max, count;
    struct row rows[PAGE_ROWS_MAX + 1];
    bool more;
    slice body;
};

static void job_free(struct walk_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        free(job->rows[i].name);
    atomic_fetch_sub(&job->front->walk_count, 1);
    mailbox_unref(&job->box);
    arena_free(&job->keep);
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

static int compare(slice a, slice b)
{
    int order = memcmp(a.ptr, b.ptr, MIN(a.len, b.len));
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Returns the place of the first row whose name is not lower. */
static size_t place_of(const struct walk_job *job, slice name, bool *ret_found)
{
    size_t low = 0, high = job->count;
    *ret_found = false;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct row *row = &job->rows[middle];
        int order = compare((slice){ row->name, row->len }, name);
        if (order == 0) {
            *ret_found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A page keeps its lowest names: the highest row makes place for a lower one. A row that was
 * dropped never comes back, because the highest name of a full page only falls. */
static enum err visit(void *arg, const struct walk_object *object)
{
    struct walk_job *job = arg;
    slice name = job->sums ? directory_of(job, object->key) : object->key;
    bool found;
    if (job->marker.ptr && compare(name, job->marker) <= 0)
        return OK;
    size_t at = place_of(job, name, &found);
    if (!found) {
        if (at == job->rows_max) {
            job->more = true;
            return OK;
        }
        memmove(&job->rows[at + 1], &job->rows[at], (job->count - at) * sizeof(job->rows[0]));
        job->rows[at] = (struct row){ .name = must_strndup(name.ptr, name.len), .len = name.len };
        if (++job->count > job->rows_max) {
            free(job->rows[--job->count].name);
            job->more = true;
        }
    }
    job->rows[at].objects++;
    job->rows[at].bytes += object->size;
    job->rows[at].cached_bytes += object->cached_bytes;
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

/* Adds a member with a name. A name that is not UTF-8 cannot be a text of JSON: it is percent-
 * encoded, and its member is called NAME_url. */
static void add_name(struct text *to, const char *member, slice name)
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

static void add_row(struct text *to, const struct walk_job *job, const struct row *row)
{
    text_char(to, '{');
    add_name(to, job->sums ? "prefix" : "key", (slice){ row->name, row->len });
    text_printf(to, ",\"objects\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"cached_bytes\":%" PRIu64
                "}\n", row->objects, row->bytes, row->cached_bytes);
}

/* The last line: where the next page begins, and what could not be read. Folders are counted from 1
 * in the order of the settings; their paths are the operator's. */
static void add_summary(struct text *to, const struct walk_job *job)
{
    const char *comma = "";
    text_printf(to, "{\"rows\":%zu,\"complete\":%s", job->count,
                job->gaps.any ? "false" : "true");
    if (job->more && job->count) {
        text_char(to, ',');
        const struct row *last = &job->rows[job->count - 1];
        add_name(to, "next", (slice){ last->name, last->len });
    }
    text_add(to, S(",\"folders_out\":["));
    for (size_t i = 0; i < countof(job->gaps.folders); i++) {
        if (!job->gaps.folders[i])
            continue;
        text_printf(to, "%s%zu", comma, i + 1);
        comma = ",";
    }
    text_printf(to, "],\"extents_unread\":%" PRIu32 "}\n", job->gaps.extents);
}

static void deliver(struct mail *mail)    /* runs on the loop */
{
    struct walk_job *job = container_of(mail, struct walk_job, mail);
    struct call *call = job->call;
    if (call) {
        struct fields fields = { .keep = call->keep };
        call->gone = NULL;
        fields_add(&fields, S("content-type"), S("application/x-ndjson"));
        fields_add(&fields, S("x-amz-request-id"), call->id);
        reply_whole(call, 200, &fields, job->body);
    }
    job_free(job);
}

static bool work(struct list *link)
{
    struct walk_job *job = list_of(link, struct walk_job, link);
    struct text text = text_in(&job->keep);
    if (store_walk(cache_store(job->front->options.cache), &job->ask, &job->gaps) == OK) {
        for (size_t i = 0; i < job->count; i++)
            add_row(&text, job, &job->rows[i]);
        add_summary(&text, job);
    }
    job->body = text_slice(&text);
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

static void begin(struct call *call, size_t depth, size_t rows_max)
{
    struct walk_job *job = must_alloc(sizeof(*job));
    slice marker = param_of(call, S("marker"));
    job->front = call->front;
    job->call = call;
    job->box = mailbox_ref(http_loop_mailbox(http_request_loop(call->http)));
    job->sums = call->s3.op == S3_DU;
    job->depth = depth;
    job->rows_max = rows_max;
    job->marker = marker.len ? arena_copy(&job->keep, marker) : S("");
    job->marker.ptr = marker.len ? job->marker.ptr : NULL;
    job->ask = (struct walk_ask){
        .endpoint = arena_copy(&job->keep, origin_endpoint(call->rules->origin)),
        .bucket = arena_copy(&job->keep, call->s3.bucket),
        .prefix = arena_copy(&job->keep, param_of(call, S("prefix"))),
        .visit = visit, .is_over = is_over, .arg = job };
    call->gone = gone;
    call->gone_arg = job;
    enum err err = list_right_ask(call, job->ask.prefix, judged, job, &job->right);
    if (err != ERR_WAIT)
        judged(job, err);
}

void cached_read(struct call *call)
{
    size_t depth = 1, rows_max = PAGE_ROWS_MAX;
    if (!read_number(call, S("depth"), 0, DEPTH_MAX, &depth) ||
        !read_number(call, S("max-keys"), 1, PAGE_ROWS_MAX, &rows_max)) {
        reply_error(call, ERR_BAD_ARGUMENT, S("max-keys must be a number from 1 to 1000, and depth "
                                              "a number from 0 to 1024."));
        return;
    }
    if (atomic_fetch_add(&call->front->walk_count, 1) >= WALKS_MAX) {
        atomic_fetch_sub(&call->front->walk_count, 1);
        metric_add(M_WALKS_LIMITED, 1);
        reply_error(call, ERR_SLOW_DOWN, S(""));
        return;
    }
    begin(call, depth, rows_max);
}
