/* pins.c - penstock-pin and penstock-unpin: keeps a prefix in the cache, and lists the pins.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The right "cache" lets a client pin (right.c); no origin is asked. A bucket may have prefixes at
 * other origins, and the names of cached objects begin with the origin's endpoint. So a request to
 * pin a prefix makes one pin for each endpoint that, by the rules in force, has keys of the prefix.
 * The settings may change later. So a list also has the pins at endpoints that now have no key of
 * the prefix, marked as such, and an unpin ends these pins, too.
 *
 * The work waits for disks, so threads of a pool do it. A pin goes on if its client leaves. After
 * the pin, a walk through the cached objects (store/walk.h), on a thread for walks, sums up what is
 * pinned now. The walk ends if the client leaves. */
#include <inttypes.h>

#include "cache/alias.h"
#include "front/inside.h"
#include "store/pin.h"

#define KEY_BYTES_MAX 1024u

/* A line of the answer. */
struct pin_sum {
    slice prefix;
    uint64_t objects, cached_bytes, pinned_bytes;
};

struct pin_job {
    struct pool_task task;
    enum s3_op op;
    slice bucket, prefix;
    /* The first `by_rules` endpoints have keys of the prefix now; the others have pins. */
    const slice *endpoints;
    size_t endpoint_count, by_rules;
    const struct pins_row *rows;      /* of the endpoint that is walked through */
    size_t row_count;
    struct pin_sum *sums;             /* of these rows */
    struct walk_gaps gaps;
    struct audit audit;               /* of a pin or unpin */
    enum err err;
    slice body;
};

/* ---- on a thread of the pool: sums ---- */

static struct store *store_of(const struct pin_job *job)
{
    return cache_store(job->task.front->options.cache);
}

static enum err visit(void *arg, const struct walk_object *object)
{
    struct pin_job *job = container_of((struct pool_task *)arg, struct pin_job, task);
    size_t at = pins_find(job->rows, job->row_count, object->key);
    if (at == PINS_NONE)
        return OK;
    job->sums[at].objects++;
    job->sums[at].cached_bytes += object->cached_bytes;
    job->sums[at].pinned_bytes += object->pinned_bytes;
    return OK;
}

/* Sums up the objects. Each object counts for the row with the longest prefix of its key. */
static void walk(struct pin_job *job, slice endpoint)
{
    struct walk_ask ask = { .endpoint = endpoint, .bucket = job->bucket, .prefix = job->prefix,
                            .visit = visit };
    enum err err = pool_task_walk(&job->task, &ask, &job->gaps);
    job->err = job->err ? job->err : err;
}

/* `elsewhere`: the endpoint, if it has no key of the prefix by the rules; otherwise empty. */
static void add_sum(struct text *to, const struct pin_sum *sum, slice elsewhere)
{
    text_char(to, '{');
    line_add_name(to, "prefix", sum->prefix);
    text_printf(to, ",\"pinned\":true,\"objects\":%" PRIu64 ",\"cached_bytes\":%" PRIu64
                ",\"pinned_bytes\":%" PRIu64, sum->objects, sum->cached_bytes,
                sum->pinned_bytes);
    if (elsewhere.len) {
        text_add(to, S(",\"configured\":false,"));
        line_add_name(to, "origin", elsewhere);
    }
    text_add(to, S("}\n"));
}

/* The last line. It also names a cache folder as out of service if the folder did not note the
 * pins, or could not be read. */
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
                ",\"budget_used_bytes\":%" PRIu64, rows,
                job->gaps.any ? "false" : "true", bytes.budget, bytes.pinned);
    line_add_gaps(to, &job->gaps);
}

/* ---- what a call does ---- */

/* Appends the endpoints that have a pin of the prefix, although the rules give them no key of the
 * prefix now. For a list, a pin of a longer prefix counts, too. */
static void add_elsewhere(struct pin_job *job)
{
    slice *pinned;
    size_t more = store_pin_endpoints(store_of(job), job->bucket, job->prefix, job->op == S3_UNPIN,
                                      &job->task.keep, &pinned);
    slice *all = arena_alloc(&job->task.keep, (job->by_rules + more + 1) * sizeof(*all));
    for (size_t i = 0; i < job->by_rules; i++)
        all[i] = job->endpoints[i];
    for (size_t i = 0; i < more; i++) {
        size_t at = 0;
        while (at < job->by_rules && !slice_eq(all[at], pinned[i]))
            at++;
        if (at == job->by_rules)
            all[job->endpoint_count++] = pinned[i];
    }
    job->endpoints = all;
    if (!job->endpoint_count)
        job->err = ERR_NO_SUCH_BUCKET;
}

/* A pin has a name for each endpoint, at most PIN_NAMES_MAX names (pins_call refuses more). So one
 * call of store_pin takes them all, and the pin is made whole or not at all. An unpin may have more
 * names, and then needs several calls. */
static bool change(struct pin_job *job)
{
    struct pin_name names[PIN_NAMES_MAX];
    bool changed = false;
    for (size_t first = 0; first < job->endpoint_count && !job->err; first += PIN_NAMES_MAX) {
        size_t count = MIN(job->endpoint_count - first, (size_t)PIN_NAMES_MAX);
        bool now = false;
        for (size_t i = 0; i < count; i++)
            names[i] = (struct pin_name){ job->endpoints[first + i], job->bucket, job->prefix };
        job->err = store_pin(store_of(job), names, count, job->op == S3_PIN, &now);
        changed |= now;
    }
    audit_end(&job->audit, job->err, S(""));
    return changed;
}

/* Pins the prefix. The sums of the answer then need a walk. */
static void pin(struct pin_job *job, struct text *to)
{
    (void)change(job);
    (void)to;
    job->task.walks = !job->err;
}

static void sum_up(struct pin_job *job, struct text *to)
{
    struct pins_row row = { .prefix = job->prefix, .up = PINS_NONE };
    struct pin_sum sum = { .prefix = job->prefix };
    job->rows = &row;
    job->row_count = 1;
    job->sums = &sum;
    for (size_t i = 0; i < job->endpoint_count && !job->err; i++)
        walk(job, job->endpoints[i]);
    add_sum(to, &sum, S(""));
    add_summary(to, job, 1);
}

static void unpin(struct pin_job *job, struct text *to)
{
    add_elsewhere(job);
    bool changed = change(job);
    text_char(to, '{');
    line_add_name(to, "prefix", job->prefix);
    text_printf(to, ",\"pinned\":false,\"was_pinned\":%s}\n", changed ? "true" : "false");
    add_summary(to, job, 1);
}

/* Adds the sums of one endpoint to the sums of all endpoints. */
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

/* Finds the pins at one endpoint, and walks through their objects. */
static void sum_endpoint(struct pin_job *job, slice endpoint)
{
    struct pin_name name = { endpoint, job->bucket, job->prefix };
    struct pins_row *rows;
    job->row_count = store_pins(store_of(job), &name, &job->task.keep, &rows);
    job->rows = rows;
    job->sums = arena_alloc(&job->task.keep, (job->row_count + 1) * sizeof(*job->sums));
    for (size_t k = 0; k < job->row_count; k++)
        job->sums[k].prefix = rows[k].prefix;
    if (job->row_count)
        walk(job, endpoint);
}

static void list_pins(struct pin_job *job, struct text *to)
{
    struct pin_sum *all = arena_alloc(&job->task.keep, PREFIX_ROWS_MAX * sizeof(*all));
    size_t count = 0;
    add_elsewhere(job);
    for (size_t i = 0; i < job->by_rules && !job->err; i++) {
        sum_endpoint(job, job->endpoints[i]);
        count = merge(all, count, job->sums, job->row_count);
    }
    for (size_t i = 0; i < count; i++)
        add_sum(to, &all[i], S(""));
    for (size_t i = job->by_rules; i < job->endpoint_count && !job->err; i++) {
        sum_endpoint(job, job->endpoints[i]);
        for (size_t k = 0; k < job->row_count; k++)
            add_sum(to, &job->sums[k], job->endpoints[i]);
        count += job->row_count;
    }
    add_summary(to, job, count);
}

static void run(struct pool_task *task, void (*step)(struct pin_job *job, struct text *to))
{
    struct pin_job *job = container_of(task, struct pin_job, task);
    struct text text = text_in(&task->keep);
    step(job, &text);
    job->body = text_slice(&text);
}

static void work(struct pool_task *task)
{
    struct pin_job *job = container_of(task, struct pin_job, task);
    run(task, job->op == S3_PIN ? pin : job->op == S3_UNPIN ? unpin : list_pins);
}

static void walk_after(struct pool_task *task)
{
    run(task, sum_up);
}

/* ---- on the loop ---- */

static void answer(struct pool_task *task)
{
    struct pin_job *job = container_of(task, struct pin_job, task);
    if (job->err == ERR_IO)
        pool_task_refuse(task, ERR_BUSY,
                         S("No cache folder could store the change of the pins: none is in "
                           "service, their disks are full, or Penstock has no file descriptor "
                           "left. Please try again."));
    else if (job->err == ERR_LIMIT)
        pool_task_refuse(task, ERR_TOO_MANY, S("There may be at most 4096 pins; a prefix with keys "
                                               "at several origins counts once for each origin. "
                                               "Unpin a prefix that is no longer needed. GET "
                                               "?penstock-pin lists the pins of a bucket."));
    else if (job->err)
        pool_task_refuse(task, job->err, S(""));
    else
        pool_task_reply(task, job->body);
}

/* A disk that hangs may block all threads that walk. So changes have threads of their own. */
static const struct pool_task_kind
    pins_kind = { .pool = POOL_PIN, .work = work, .walk = walk_after, .answer = answer },
    unpins_kind = { .pool = POOL_PIN, .work = work, .answer = answer },
    lists_kind = { .pool = POOL_WALK, .work = work, .answer = answer };

enum err pins_add(struct call *as, slice prefix)
{
    struct s3_param param = { .name = S("prefix"), .value = prefix };
    struct pin_name names[PIN_NAMES_MAX];
    const slice *endpoints;
    bool changed;
    as->s3.op = S3_PIN;
    as->s3.params = &param;
    as->s3.param_count = 1;
    enum err err = right_judge(as);
    if (err)
        return err;
    size_t count = rules_endpoints(as, prefix, false, as->keep, &endpoints);
    if (!count || count > PIN_NAMES_MAX)
        return count ? ERR_BAD_REQUEST : ERR_NO_SUCH_BUCKET;
    for (size_t i = 0; i < count; i++)
        names[i] = (struct pin_name){ endpoints[i], alias_bucket(as->s3.bucket), prefix };
    err = store_pin(cache_store(as->front->options.cache), names, count, true, &changed);
    return err == ERR_LIMIT ? ERR_TOO_MANY : err;
}

void pins_call(struct call *call)
{
    const struct s3_param *prefix = s3_param_get(&call->s3, S("prefix"));
    if (prefix && prefix->value.len > KEY_BYTES_MAX) {
        reply_error(call, ERR_BAD_ARGUMENT,
                    S("A prefix has at most 1024 bytes: send a shorter one."));
        return;
    }
    const struct pool_task_kind *kind = call->s3.op == S3_PIN ? &pins_kind
                                      : call->s3.op == S3_UNPIN ? &unpins_kind : &lists_kind;
    struct pin_job *job = pool_task_new(call, kind, sizeof(*job));
    if (!job)
        return;
    struct arena *keep = &job->task.keep;
    job->op = call->s3.op;
    job->bucket = arena_copy(keep, alias_bucket(call->s3.bucket));
    job->prefix = arena_copy(keep, prefix ? prefix->value : S(""));
    job->by_rules = rules_endpoints(call, job->prefix, false, keep, &job->endpoints);
    job->endpoint_count = job->by_rules;
    if (job->op != S3_PINS)
        job->audit = audit_begin(call, keep);
    if (job->endpoint_count > PIN_NAMES_MAX && job->op == S3_PIN)
        pool_task_refuse(&job->task, ERR_BAD_REQUEST,
                         S("The keys of this prefix lie at more than 64 origins, and a pin allows "
                           "no more. Name longer prefixes."));
    else
        pool_task_start(&job->task);
}
