/* purge.c - penstock-purge: purges a prefix or a key, and lists the purges in force.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The right "cache" lets a client purge (right.c); no origin is asked. A bucket may have prefixes
 * at other origins, and the names of cached objects begin with the origin's endpoint. So a purge of
 * a prefix has one part for each endpoint that, by the rules in force, has keys of the prefix.
 *
 * The work waits for disks, so threads of a pool do it. A purge goes on if its client leaves. A dry
 * run only walks through the store (store/walk.h), and ends if its client leaves. */
#include <inttypes.h>

#include "base/log.h"
#include "base/metric.h"
#include "cache/alias.h"
#include "front/inside.h"
#include "store/purge.h"

#define KEY_BYTES_MAX 1024u

struct purge_job {
    struct pool_task task;
    enum purge_what { PURGE_NOW, PURGE_DRY, PURGE_LIST } what;
    slice bucket, key;                /* the key, or the prefix */
    bool whole;                       /* `key` is a whole key, not a prefix */
    const slice *endpoints;
    size_t endpoint_count;
    uint64_t objects, cached_bytes;   /* of a dry run */
    struct audit audit;               /* of a purge that is none */
    enum err err;
    slice body;
};

static struct store *store_of(const struct purge_job *job)
{
    return cache_store(job->task.front->options.cache);
}

/* ---- on a thread of the pool ---- */

static enum err visit(void *arg, const struct walk_object *object)
{
    struct purge_job *job = container_of((struct pool_task *)arg, struct purge_job, task);
    if (job->whole && !slice_eq(object->key, job->key))
        return OK;
    job->objects++;
    job->cached_bytes += object->cached_bytes;
    return OK;
}

static void dry_run(struct purge_job *job, struct text *to)
{
    struct walk_gaps gaps = { .any = false };
    for (size_t i = 0; i < job->endpoint_count && !job->err; i++) {
        struct walk_ask ask = { .endpoint = job->endpoints[i], .bucket = job->bucket,
                                .prefix = job->key, .visit = visit };
        job->err = pool_task_walk(&job->task, &ask, &gaps);
    }
    text_printf(to, "{\"purged\":false,\"objects\":%" PRIu64 ",\"cached_bytes\":%" PRIu64
                ",\"complete\":%s", job->objects, job->cached_bytes, gaps.any ? "false" : "true");
    line_add_gaps(to, &gaps);
}

/* Returns one prefix for each endpoint of the call. Each prefix has the bucket, and the key or
 * prefix, of the call. */
static const slice *prefixes_of(struct purge_job *job)
{
    slice *prefixes = arena_alloc(&job->task.keep, job->endpoint_count * sizeof(*prefixes));
    for (size_t i = 0; i < job->endpoint_count; i++)
        prefixes[i] = purge_prefix(&job->task.keep, job->endpoints[i], job->bucket, job->key,
                                   job->whole);
    return prefixes;
}

/* A purge is in force here, even if it may be lost at the end of this process. */
static void tell_peers(const struct purge_job *job)
{
    struct peers *peers = cache_peers(job->task.front->options.cache);
    bool in_force = !job->err || job->err == ERR_IO || job->err == ERR_BUSY;
    for (size_t i = 0; peers && in_force && i < job->endpoint_count; i++)
        peers_hint(peers, &(struct hint){
            .what = job->whole ? HINT_PURGE_KEY : HINT_PURGE, .endpoint = job->endpoints[i],
            .bucket = job->bucket, .key = job->key });
}

static void purge(struct purge_job *job, struct text *to)
{
    struct purge_result result;
    peers_will_hint(cache_peers(job->task.front->options.cache));
    cache_purge_begins(job->task.front->options.cache);
    job->err = store_purge(store_of(job), prefixes_of(job), job->endpoint_count, &result);
    audit_end(&job->audit, job->err, S(""));
    tell_peers(job);
    if (!job->err)
        metric_add(M_PURGES, 1);
    if (result.merged)
        log_warn("purges_merged", "count=%zu why=\"Penstock remembers at most 4095 purges, so it "
                 "merged some of them into purges of shorter prefixes. A merged purge may also "
                 "remove other objects that have the shorter prefix and were stored before the "
                 "merge. To avoid this, purge fewer prefixes at a time\"",
                 result.merged);
    text_printf(to, "{\"purged\":true,\"serial\":%" PRIu64 ",\"folders_out\":", result.serial);
    line_add_folders(to, result.folders);
    text_add(to, S("}\n"));
}

/* Returns true if a name may have both the prefix of this call and that of the purge. A purge of a
 * shorter prefix is listed, too, because it may have replaced one of a longer prefix. */
static bool is_listed(const struct purge_job *job, const slice *asked, slice prefix)
{
    bool is = false;
    for (size_t i = 0; i < job->endpoint_count && !is; i++)
        is = slice_starts(prefix, asked[i]) || slice_starts(asked[i], prefix);
    return is;
}

/* Adds the prefix of keys, or the key, that a purge covers. */
static void add_name(struct text *to, slice prefix)
{
    (void)slice_cut(&prefix, '\0');    /* the endpoint */
    (void)slice_cut(&prefix, '\0');    /* the bucket */
    slice key = slice_cut(&prefix, '\0');
    line_add_name(to, prefix.ptr ? "key" : "prefix", key);
}

static void list_purges(struct purge_job *job, struct text *to)
{
    const slice *asked = prefixes_of(job);
    struct purge_state *states;
    size_t count = store_purges(store_of(job), &job->task.keep, &states);
    for (size_t i = 0; i < count; i++) {
        if (!is_listed(job, asked, states[i].prefix))
            continue;
        text_printf(to, "{\"serial\":%" PRIu64 ",", states[i].serial);
        add_name(to, states[i].prefix);
        text_printf(to, ",\"extents\":%" PRIu32 ",\"extents_left\":%" PRIu32 ",\"folders\":",
                    states[i].extents, states[i].left);
        line_add_folders(to, states[i].folders);
        text_add(to, S(",\"folders_waiting\":"));
        line_add_folders(to, states[i].waiting);
        text_add(to, S(",\"folders_out\":"));
        line_add_folders(to, states[i].out);
        text_add(to, S(",\"folders_unread\":"));
        line_add_folders(to, states[i].unread);
        text_add(to, S("}\n"));
    }
}

static void work(struct pool_task *task)
{
    static void (*const works[])(struct purge_job *job, struct text *to) = {
        [PURGE_NOW] = purge, [PURGE_DRY] = dry_run, [PURGE_LIST] = list_purges,
    };
    struct purge_job *job = container_of(task, struct purge_job, task);
    struct text text = text_in(&task->keep);
    works[job->what](job, &text);
    job->body = text_slice(&text);
}

/* ---- on the loop ---- */

static void answer(struct pool_task *task)
{
    struct purge_job *job = container_of(task, struct purge_job, task);
    if (job->err == ERR_IO)
        pool_task_refuse(task, ERR_BUSY, S("No cache folder is in service, so Penstock could not "
                                           "store the purge, and a restart may undo it. Please try "
                                           "again when a cache folder is in service. The command "
                                           "penstock stat says why the folders are out of "
                                           "service."));
    else if (job->err == ERR_BUSY)
        pool_task_refuse(task, ERR_BUSY, S("Penstock has no file descriptor left to store the "
                                           "purge, so a restart may undo it. Please try again. The "
                                           "operator must raise the limit of open files "
                                           "(LimitNOFILE)."));
    else if (job->err == ERR_LIMIT)
        pool_task_refuse(task, ERR_BAD_REQUEST, S("The keys of this prefix lie at too many origins "
                                                  "for one purge. Name longer prefixes."));
    else if (job->err)
        pool_task_refuse(task, job->err, S(""));
    else
        pool_task_reply(task, job->body);
}

/* A disk that hangs may block all threads that walk. So purges have threads of their own. */
static const struct pool_task_kind kinds[] = {
    [PURGE_NOW] = { .pool = POOL_PURGE, .work = work, .answer = answer },
    [PURGE_DRY] = { .pool = POOL_WALK, .work = work, .answer = answer },
    [PURGE_LIST] = { .pool = POOL_PURGE, .work = work, .answer = answer },
};

static enum purge_what what_of(const struct call *call)
{
    return call->s3.op == S3_BANS ? PURGE_LIST
         : s3_param_get(&call->s3, S("dry-run")) ? PURGE_DRY : PURGE_NOW;
}

/* Reads what the query names. Returns false if that is not one prefix or one key. */
static bool read_query(const struct call *call, struct purge_job *job)
{
    const struct s3_param *prefix = s3_param_get(&call->s3, S("prefix"));
    const struct s3_param *key = s3_param_get(&call->s3, S("key"));
    bool lists = job->what == PURGE_LIST;
    job->whole = key != NULL;
    job->key = arena_copy(&job->task.keep, key ? key->value : prefix ? prefix->value : S(""));
    return (lists ? !key : !key != !prefix) && job->key.len <= KEY_BYTES_MAX &&
           (!key || key->value.len);
}

void purge_call(struct call *call)
{
    enum purge_what what = what_of(call);
    struct purge_job *job = pool_task_new(call, &kinds[what], sizeof(*job));
    if (!job)
        return;
    job->what = what;
    struct arena *keep = &job->task.keep;
    if (!read_query(call, job)) {
        pool_task_refuse(&job->task, ERR_BAD_ARGUMENT,
                         S("A purge needs a prefix or a key, but not both. Each of them has at "
                           "most 1024 bytes. The prefix may be empty, the key may not."));
        return;
    }
    job->bucket = arena_copy(keep, alias_bucket(call->s3.bucket));
    job->endpoint_count = rules_endpoints(call, job->key, job->whole, keep, &job->endpoints);
    if (what == PURGE_NOW)
        job->audit = audit_begin(call, keep);
    pool_task_start(&job->task);
}
