/* purge.c - penstock-purge: purges a prefix or a key, and lists the purges in force.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The right `cache` lets a client purge (right.c); no origin is asked. A bucket may have prefixes at
 * other origins, and the names of cached objects begin with the origin's endpoint. So a purge
 * becomes one for each endpoint that has keys of the prefix by the rules in force.
 *
 * The work waits for disks, so threads of a pool do it. A purge goes on if its client leaves. A dry
 * run walks through the store (store/walk.h), and ends then. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/metric.h"
#include "base/workers.h"
#include "cache/alias.h"
#include "front/inside.h"
#include "store/purge.h"
#include "store/walk.h"

#define THREADS_MAX 2u
#define PURGES_MAX 64u                /* H8: that run or wait */
#define KEY_BYTES_MAX 1024u

struct purge_job {
    struct list link;
    struct mail mail;
    struct mailbox *box;
    struct front *front;
    struct call *call;                /* NULL: the client has gone. For the loop alone */
    atomic_bool gone;
    struct arena keep;
    enum purge_what { PURGE_NOW, PURGE_DRY, PURGE_LIST } what;
    slice bucket, key;                /* the key, or the prefix */
    bool whole;                       /* a key */
    const slice *endpoints;
    size_t endpoint_count;
    uint64_t objects, cached_bytes;   /* of a dry run */
    enum err err;
    slice body;
};

static void job_free(struct purge_job *job)
{
    atomic_fetch_sub(&job->front->purge_count, 1);
    mailbox_unref(&job->box);
    arena_free(&job->keep);
    free(job);
}

/* ---- on a thread of the pool ---- */

static bool is_over(void *arg)
{
    return atomic_load_explicit(&((struct purge_job *)arg)->gone, memory_order_relaxed);
}

static enum err visit(void *arg, const struct walk_object *object)
{
    struct purge_job *job = arg;
    if (job->whole && !slice_eq(object->key, job->key))
        return OK;
    job->objects++;
    job->cached_bytes += object->cached_bytes;
    return OK;
}

static void dry_run(struct purge_job *job, struct text *to)
{
    struct walk_gaps gaps, all = { .any = false };
    for (size_t i = 0; i < job->endpoint_count && !job->err; i++) {
        struct walk_ask ask = { .endpoint = job->endpoints[i], .bucket = job->bucket,
                                .prefix = job->key, .visit = visit, .is_over = is_over,
                                .arg = job };
        job->err = store_walk(cache_store(job->front->options.cache), &ask, &gaps);
        for (size_t j = 0; j < countof(gaps.folders); j++)
            all.folders[j] |= gaps.folders[j];
        all.extents = MAX(all.extents, gaps.extents);
        all.any |= gaps.any;
    }
    text_printf(to, "{\"purged\":false,\"objects\":%" PRIu64 ",\"cached_bytes\":%" PRIu64
                ",\"complete\":%s,\"folders_out\":", job->objects, job->cached_bytes,
                all.any ? "false" : "true");
    cached_add_folders(to, all.folders);
    text_add(to, S("}\n"));
}

static void purge(struct purge_job *job, struct text *to)
{
    struct purge_result result;
    slice *prefixes = arena_alloc(&job->keep, job->endpoint_count * sizeof(*prefixes));
    for (size_t i = 0; i < job->endpoint_count; i++)
        prefixes[i] = purge_prefix(&job->keep, job->endpoints[i], job->bucket, job->key,
                                   job->whole);
    job->err = store_purge(cache_store(job->front->options.cache), prefixes, job->endpoint_count,
                           &result);
    if (!job->err)
        metric_add(M_PURGES, 1);
    text_printf(to, "{\"purged\":true,\"serial\":%" PRIu64 ",\"folders_out\":", result.serial);
    cached_add_folders(to, result.folders);
    text_add(to, S("}\n"));
}

/* Finds what a purge names: the beginning of a key, or a key. Returns false if it is not of this
 * bucket or has another prefix. */
static bool is_listed(const struct purge_job *job, slice prefix, slice *ret_key, bool *ret_whole)
{
    slice endpoint = slice_cut(&prefix, '\0'), bucket = slice_cut(&prefix, '\0');
    bool ours = false;
    for (size_t i = 0; i < job->endpoint_count && !ours; i++)
        ours = slice_eq(endpoint, job->endpoints[i]);
    *ret_key = slice_cut(&prefix, '\0');
    *ret_whole = prefix.ptr != NULL;
    return ours && slice_eq(bucket, job->bucket) && slice_starts(*ret_key, job->key);
}

static void list_purges(struct purge_job *job, struct text *to)
{
    struct purge_state *states;
    size_t count = store_purges(cache_store(job->front->options.cache), &job->keep, &states);
    for (size_t i = 0; i < count; i++) {
        slice key;
        bool whole;
        if (!is_listed(job, states[i].prefix, &key, &whole))
            continue;
        text_printf(to, "{\"serial\":%" PRIu64 ",", states[i].serial);
        cached_add_name(to, whole ? "key" : "prefix", key);
        text_printf(to, ",\"extents\":%" PRIu32 ",\"extents_left\":%" PRIu32 "}\n",
                    states[i].extents, states[i].left);
    }
}

static void deliver(struct mail *mail)    /* runs on the loop */
{
    struct purge_job *job = container_of(mail, struct purge_job, mail);
    struct call *call = job->call;
    if (call) {
        struct fields fields = { .keep = call->keep };
        call->gone = NULL;
        fields_add(&fields, S("content-type"), S("application/x-ndjson"));
        fields_add(&fields, S("x-amz-request-id"), call->id);
        if (job->err == ERR_IO)
            reply_error(call, ERR_BUSY, S("No cache folder is in service, so the purge could not "
                                          "be stored. Please try again."));
        else if (job->err == ERR_LIMIT)
            reply_error(call, ERR_SLOW_DOWN, S("Too many purges are still needed: purge a shorter "
                                               "prefix, or try again later."));
        else if (job->err)
            reply_error(call, job->err, S(""));
        else
            reply_whole(call, 200, &fields, job->body);
    }
    job_free(job);
}

static bool work(struct list *link)
{
    static void (*const works[])(struct purge_job *job, struct text *to) = {
        [PURGE_NOW] = purge, [PURGE_DRY] = dry_run, [PURGE_LIST] = list_purges,
    };
    struct purge_job *job = list_of(link, struct purge_job, link);
    struct text text = text_in(&job->keep);
    works[job->what](job, &text);
    job->body = text_slice(&text);
    job->mail.deliver = deliver;
    if (!mailbox_post(job->box, &job->mail))
        job_free(job);    /* the loop is gone, and the request with it */
    return true;
}

struct workers *purgers_new(void)
{
    return workers_new(THREADS_MAX, "purge", work);
}

/* ---- the call, on its loop ---- */

static void gone(void *arg)
{
    struct purge_job *job = arg;
    job->call = NULL;
    atomic_store(&job->gone, true);
}

/* Reads what the query names. Returns false if that is not one prefix or one key. */
static bool read_query(const struct call *call, struct purge_job *job)
{
    const struct s3_param *prefix = s3_param_get(&call->s3, S("prefix"));
    const struct s3_param *key = s3_param_get(&call->s3, S("key"));
    bool lists = call->s3.op == S3_BANS;
    job->what = lists ? PURGE_LIST
              : s3_param_get(&call->s3, S("dry-run")) ? PURGE_DRY : PURGE_NOW;
    job->whole = key != NULL;
    job->key = arena_copy(&job->keep, key ? key->value : prefix ? prefix->value : S(""));
    return (lists ? !key : !key != !prefix) && job->key.len <= KEY_BYTES_MAX &&
           (!key || key->value.len);
}

void purge_call(struct call *call)
{
    struct front *front = call->front;
    if (atomic_fetch_add(&front->purge_count, 1) >= PURGES_MAX) {
        atomic_fetch_sub(&front->purge_count, 1);
        metric_add(M_PURGES_LIMITED, 1);
        reply_error(call, ERR_SLOW_DOWN, S(""));
        return;
    }
    struct purge_job *job = must_alloc(sizeof(*job));
    job->front = front;
    job->box = mailbox_ref(http_loop_mailbox(http_request_loop(call->http)));
    if (!read_query(call, job)) {
        job_free(job);
        reply_error(call, ERR_BAD_ARGUMENT, S("A purge needs either a prefix, which may be empty, "
                                              "or a key, of at most 1024 bytes."));
        return;
    }
    job->call = call;
    job->bucket = arena_copy(&job->keep, alias_bucket(call->s3.bucket));
    job->endpoint_count = rules_endpoints(call, job->key, job->whole, &job->keep, &job->endpoints);
    call->gone = gone;
    call->gone_arg = job;
    workers_put(front->purgers, &job->link);
}
