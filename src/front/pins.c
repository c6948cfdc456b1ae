/* pins.c - penstock-pin and penstock-unpin: keeps a prefix in the cache, and lists the pins.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The right `cache` lets a client pin (right.c); no origin is asked. A bucket may have prefixes at
 * other origins, and the names of cached objects begin with the origin's endpoint. So a pin becomes
 * one for each endpoint that has keys of the prefix by the rules in force.
 *
 * The work waits for disks, so threads of a pool do it. A pin goes on if its client leaves. After it,
 * a walk (store/walk.h) finds what is pinned now; the walk ends if the client leaves. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/metric.h"
#include "base/workers.h"
#include "cache/alias.h"
#include "front/inside.h"
#include "store/pin.h"
#include "store/walk.h"

#define THREADS_MAX 2u
#define PINS_MAX 16u                  /* H8: calls that run or wait */
#define KEY_BYTES_MAX 1024u

/* A line of the answer. */
struct pin_sum {
    slice prefix;
    uint64_t objects, cached_bytes, pinned_bytes;
};

struct pin_job {
    struct list link;
    struct mail mail;
    struct mailbox *box;
    struct front *front;
    struct call *call;                /* NULL: the client has gone. For the loop alone */
    atomic_bool gone;
    struct arena keep;
    enum s3_op op;
    slice bucket, prefix;
    const slice *endpoints;
    size_t endpoint_count;
    const struct pins_row *rows;      /* of the endpoint that is walked through */
    size_t row_count;
    struct pin_sum *sums;             /* of these rows */
    struct walk_gaps gaps;
    enum err err;
    slice body;
};

static void job_free(struct pin_job *job)
{
    atomic_fetch_sub(&job->front->pin_count, 1);
    mailbox_unref(&job->box);
    arena_free(&job->keep);
    free(job);
}

/* ---- on a thread of the pool: sums ---- */

static struct store *store_of(const struct pin_job *job)
{
    return cache_store(job->front->options.cache);
}

static bool is_over(void *arg)
{
    return atomic_load_explicit(&((struct pin_job *)arg)->gone, memory_order_relaxed);
}

static enum err visit(void *arg, const struct walk_object *object)
{
    struct pin_job *job = arg;
    size_t at = pins_find(job->rows, job->row_count, object->key);
    if (at == PINS_NONE)
        return OK;
    job->sums[at].objects++;
    job->sums[at].cached_bytes += object->cached_bytes;
    job->sums[at].pinned_bytes += object->pinned_bytes;
    return OK;
}

/* Sums up the objects of the rows, each under the longest prefix that its key has. */
static void walk(struct pin_job *job, slice endpoint)
{
    struct walk_gaps gaps;
    struct walk_ask ask = { .endpoint = endpoint, .bucket = job->bucket, .prefix = job->prefix,
                            .visit = visit, .is_over = is_over, .arg = job };
    enum err err = store_walk(store_of(job), &ask, &gaps);
    job->err = job->err ? job->err : err;
    for (size_t i = 0; i < countof(gaps.folders); i++)
        job->gaps.folders[i] |= gaps.folders[i];
    job->gaps.extents = MAX(job->gaps.extents, gaps.extents);
    job->gaps.any |= gaps.any;
}

static void add_sum(struct text *to, const struct pin_sum *sum)
{
    text_char(to, '{');
    cached_add_name(to, "prefix", sum->prefix);
    text_printf(to, ",\"pinned\":true,\"objects\":%" PRIu64 ",\"cached_bytes\":%" PRIu64
                ",\"pinned_bytes\":%" PRIu64 "}\n", sum->objects, sum->cached_bytes,
                sum->pinned_bytes);
}

/* The last line. A folder is out if it did not note the pins, or could not be read. */
static void add_summary(struct text *to, struct pin_job *job, size_t rows)
{
    bool missing[VOLUMES_MAX];
    struct pin_bytes bytes;
    store_pin_bytes(store_of(job), &bytes);
    store_pins_missing(store_of(job), missing);
    for (size_t i = 0; i < VOLUMES_MAX; i++) {
        job->gaps.folders[i] |= missing[i];
        job->gaps.any |= missing[i];
    }
    text_printf(to, "{\"rows\":%zu,\"complete\":%s,\"budget_bytes\":%" PRIu64
                ",\"budget_used_bytes\":%" PRIu64 ",\"folders_out\":", rows,
                job->gaps.any ? "false" : "true", bytes.budget, bytes.pinned);
    cached_add_folders(to, job->gaps.folders);
    text_printf(to, ",\"extents_unread\":%" PRIu32 "}\n", job->gaps.extents);
}

/* ---- what a call does ---- */

static bool change(struct pin_job *job)
{
    struct pin_name names[PIN_NAMES_MAX];
    bool changed = false;
    check(job->endpoint_count <= countof(names));
    for (size_t i = 0; i < job->endpoint_count; i++)
        names[i] = (struct pin_name){ job->endpoints[i], job->bucket, job->prefix };
    job->err = store_pin(store_of(job), names, job->endpoint_count, job->op == S3_PIN, &changed);
    return changed;
}

static void pin(struct pin_job *job, struct text *to)
{
    struct pins_row row = { job->prefix, PINS_NONE };
    struct pin_sum sum = { .prefix = job->prefix };
    (void)change(job);
    job->rows = &row;
    job->row_count = 1;
    job->sums = &sum;
    for (size_t i = 0; i < job->endpoint_count && !job->err; i++)
        walk(job, job->endpoints[i]);
    add_sum(to, &sum);
    add_summary(to, job, 1);
}

static void unpin(struct pin_job *job, struct text *to)
{
    bool changed = change(job);
    text_char(to, '{');
    cached_add_name(to, "prefix", job->prefix);
    text_printf(to, ",\"pinned\":false,\"was_pinned\":%s}\n", changed ? "true" : "false");
    add_summary(to, job, 1);
}

/* Adds the sums of one endpoint to those of all. */
static size_t merge(struct pin_sum *all, size_t count, const struct pin_sum *sums, size_t more)
{
    for (size_t i = 0; i < more; i++) {
        size_t at = 0;
        while (at < count && !slice_eq(all[at].prefix, sums[i].prefix))
            at++;
        if (at == count)
            all[count++] = (struct pin_sum){ .prefix = sums[i].prefix };
        all[at].objects += sums[i].objects;
        all[at].cached_bytes += sums[i].cached_bytes;
        all[at].pinned_bytes += sums[i].pinned_bytes;
    }
    return count;
}

static void list_pins(struct pin_job *job, struct text *to)
{
    struct pin_sum *all = arena_alloc(&job->keep, PREFIX_ROWS_MAX * sizeof(*all));
    size_t count = 0;
    for (size_t i = 0; i < job->endpoint_count && !job->err; i++) {
        struct pin_name name = { job->endpoints[i], job->bucket, job->prefix };
        struct pins_row *rows;
        job->row_count = store_pins(store_of(job), &name, &job->keep, &rows);
        job->rows = rows;
        job->sums = arena_alloc(&job->keep, (job->row_count + 1) * sizeof(*job->sums));
        for (size_t k = 0; k < job->row_count; k++)
            job->sums[k].prefix = rows[k].prefix;
        if (job->row_count)
            walk(job, job->endpoints[i]);
        count = merge(all, count, job->sums, job->row_count);
    }
    for (size_t i = 0; i < count; i++)
        add_sum(to, &all[i]);
    add_summary(to, job, count);
}

static void reply(struct call *call, const struct pin_job *job)
{
    struct fields fields = { .keep = call->keep };
    fields_add(&fields, S("content-type"), S("application/x-ndjson"));
    fields_add(&fields, S("x-amz-request-id"), call->id);
    if (job->err == ERR_IO)
        reply_error(call, ERR_BUSY, S("No cache folder could note the pin: none is in service, or "
                                      "their disks are full. Please try again."));
    else if (job->err == ERR_LIMIT)
        reply_error(call, ERR_TOO_MANY, S("4096 prefixes are pinned, which is the limit. Unpin a "
                                          "prefix that is no longer needed. GET ?penstock-pin "
                                          "lists the pins of a bucket."));
    else if (job->err)
        reply_error(call, job->err, S(""));
    else
        reply_whole(call, 200, &fields, job->body);
}

static void deliver(struct mail *mail)    /* runs on the loop */
{
    struct pin_job *job = container_of(mail, struct pin_job, mail);
    if (job->call) {
        job->call->gone = NULL;
        reply(job->call, job);
    }
    job_free(job);
}

static bool work(struct list *link)
{
    struct pin_job *job = list_of(link, struct pin_job, link);
    struct text text = text_in(&job->keep);
    (job->op == S3_PIN ? pin : job->op == S3_UNPIN ? unpin : list_pins)(job, &text);
    job->body = text_slice(&text);
    job->mail.deliver = deliver;
    if (!mailbox_post(job->box, &job->mail))
        job_free(job);    /* the loop is gone, and the request with it */
    return true;
}

struct workers *pinners_new(void)
{
    return workers_new(THREADS_MAX, "pin", work);
}

/* ---- the call, on its loop ---- */

static void gone(void *arg)
{
    struct pin_job *job = arg;
    job->call = NULL;
    atomic_store(&job->gone, true);
}

void pins_call(struct call *call)
{
    struct front *front = call->front;
    const struct s3_param *prefix = s3_param_get(&call->s3, S("prefix"));
    if (prefix && prefix->value.len > KEY_BYTES_MAX) {
        reply_error(call, ERR_BAD_ARGUMENT, S("A prefix has at most 1024 bytes."));
        return;
    }
    if (atomic_fetch_add(&front->pin_count, 1) >= PINS_MAX) {
        atomic_fetch_sub(&front->pin_count, 1);
        metric_add(M_PINS_LIMITED, 1);
        reply_error(call, ERR_SLOW_DOWN, S(""));
        return;
    }
    struct pin_job *job = must_alloc(sizeof(*job));
    job->front = front;
    job->box = mailbox_ref(http_loop_mailbox(http_request_loop(call->http)));
    job->call = call;
    job->op = call->s3.op;
    job->bucket = arena_copy(&job->keep, alias_bucket(call->s3.bucket));
    job->prefix = arena_copy(&job->keep, prefix ? prefix->value : S(""));
    job->endpoint_count = rules_endpoints(call, job->prefix, false, &job->keep, &job->endpoints);
    if (job->endpoint_count > PIN_NAMES_MAX && job->op != S3_PINS) {
        job_free(job);
        reply_error(call, ERR_BAD_REQUEST, S("The keys of this prefix lie at more than 64 origins, "
                                             "and a pin allows no more. Name longer prefixes."));
        return;
    }
    call->gone = gone;
    call->gone_arg = job;
    workers_put(front->pinners, &job->link);
}
