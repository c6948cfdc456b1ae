/* job.c - penstock-job: starts jobs, reports about them, and cancels them.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   POST:   intake of the body ──> thread of POOL_JOB: reads it, writes the list ──> 202
 *   GET:    from memory
 *   DELETE: thread of POOL_JOB: waits until the job's end is on the disk ──> 204
 *
 * A job belongs to the client that starts it, and each of its objects is judged as a GetObject of
 * this client (jobs/item.c). A client sees and cancels its own jobs. A client with the right
 * "cache" on the prefix of a job sees and cancels the jobs of others, too. For a job with a list of
 * keys, the right on any part of the bucket is enough. An anonymous client has no jobs, because
 * they could not be told from those of other anonymous clients. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "front/inside.h"
#include "jobs/job_body.h"
#include "jobs/jobs.h"

#define READ_BYTES (256 * KIB)

struct job_task {
    struct pool_task task;
    struct http_body *hold;
    struct job_spec spec;
    struct job_draft *draft;
    uint64_t id;
    struct audit audit;
    enum err err;
    slice why;
};

/* ---- whose job it is ---- */

static bool is_anonymous(const struct call *call)
{
    return !call->client->key.access_key.len && call->client->number != CLIENT_LENT;
}

/* The owner of a job that this client starts: its access key. All lent keys are one owner. */
static slice owner_of(const struct call *call)
{
    return call->client->key.access_key;
}

/* If several clients have this access key, with different session tokens, nobody knows which of
 * them started the job. Then none of them is its owner. */
static bool is_owner(const struct call *call, const struct job_spec *spec)
{
    const struct client *only;
    return slice_eq(spec->owner, owner_of(call)) &&
           (!spec->owner.len ||
            clients_find_only(call->front->options.clients, spec->owner, &only) == OK);
}

static bool may_see(const struct call *call, const struct job_spec *spec)
{
    const struct front_key *key = &call->client->key;
    struct right_ask ask = { RIGHT_CACHE, spec->bucket, spec->prefix, spec->by_list };
    return is_owner(call, spec) ||
           (!key->own && right_allows(key->policy, key->policy_count, &ask));
}

/* ---- reports ---- */

static void add_failures(struct text *to, const struct job_file *file)
{
    text_add(to, S(",\"failures\":["));
    for (size_t i = 0; i < file->failure_count; i++) {
        text_add(to, i ? S(",{") : S("{"));
        line_add_name(to, "key", file->failures[i].key);
        text_printf(to, ",\"code\":\"%.*s\",\"status\":%d}", SLICE_ARG(file->failures[i].code),
                    file->failures[i].status);
    }
    text_char(to, ']');
}

static void add_sums(struct text *to, const struct job_sums *sums)
{
    text_printf(to, ",\"objects\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"hits\":%" PRIu64
                ",\"fetched\":%" PRIu64 ",\"peers_bytes\":%" PRIu64
                ",\"origin_bytes\":%" PRIu64 ",\"not_kept\":%" PRIu64 ",\"failed\":%" PRIu64,
                sums->objects, sums->bytes, sums->hits, sums->fetched, sums->peers_bytes,
                sums->origin_bytes, sums->not_kept, sums->failed);
}

static void add_report(struct text *to, const struct job_view *view, bool with_failures)
{
    const struct job_file *file = &view->file;
    text_printf(to, "{\"id\":\"%016" PRIx64 "\",", file->id);
    line_add_name(to, "bucket", file->spec.bucket);
    text_char(to, ',');
    if (file->spec.by_list)
        text_printf(to, "\"listed\":%" PRIu64, file->spec.listed);
    else
        line_add_name(to, "prefix", file->spec.prefix);
    text_char(to, ',');
    line_add_name(to, "access_key", file->spec.owner);
    text_printf(to, ",\"mode\":\"%s\",\"state\":\"%s\"", job_mode_name(file->spec.mode),
                job_state_name(file->state));
    add_sums(to, &file->sums);
    if (file->spec.mode == JOB_FOLLOW)
        text_printf(to, ",\"skipped\":%" PRIu64 ",\"read\":%" PRIu64 ",\"unread_bytes\":%" PRIu64
                    ",\"window\":%" PRIu64, file->sums.skipped, file->readers.read,
                    file->readers.unread_bytes, file->spec.window);
    if (view->total.known)
        text_printf(to, ",\"total_objects\":%" PRIu64, view->total.objects);
    if (view->total.known && !file->spec.by_list)
        text_printf(to, ",\"total_bytes\":%" PRIu64, view->total.bytes);
    text_printf(to, ",\"rate\":%" PRIu64 ",\"began\":%" PRId64, view->rate, file->began_s);
    if (file->ended_s)
        text_printf(to, ",\"ended\":%" PRId64, file->ended_s);
    if (file->why.len || view->waits.len) {
        text_char(to, ',');
        line_add_name(to, file->why.len ? "why" : "waits",
                      file->why.len ? file->why : view->waits);
    }
    if (with_failures)
        add_failures(to, file);
    text_add(to, S("}\n"));
}

static void reply_json(struct call *call, int status, slice body)
{
    struct fields fields = { .keep = call->keep };
    fields_add(&fields, S("content-type"), S("application/x-ndjson"));
    fields_add(&fields, S("x-amz-request-id"), call->id);
    reply_whole(call, status, &fields, body);
}

/* Finds the job that the query names. A job that the client may not see is no job of its bucket. */
static bool find(struct call *call, struct job_view *ret)
{
    const struct s3_param *param = s3_param_get(&call->s3, S("penstock-job"));
    uint64_t id;
    return param && job_id_read(param->value, &id) &&
           jobs_find(call->front->options.jobs, id, call->keep, ret) &&
           slice_eq(ret->file.spec.bucket, call->s3.bucket) && may_see(call, &ret->file.spec);
}

#define STARTING "Penstock has just started, and has not read its jobs from the disk yet. Try " \
                 "again in a few seconds."

/* Replies that there is no such job, or that Penstock has not read its jobs from the disk yet. */
static void reply_unknown(struct call *call)
{
    if (jobs_are_known(call->front->options.jobs))
        reply_error(call, ERR_NO_SUCH_JOB, S(""));
    else
        reply_error(call, ERR_SLOW_DOWN, S(STARTING));
}

static void report(struct call *call)
{
    struct text text = text_in(call->keep);
    const struct s3_param *param = s3_param_get(&call->s3, S("penstock-job"));
    struct job_view view, *all;
    bool one = param && param->value.len;
    if (one ? !find(call, &view) : !jobs_are_known(call->front->options.jobs)) {
        reply_unknown(call);
        return;
    }
    if (one) {
        add_report(&text, &view, true);
    } else {
        size_t count = jobs_list(call->front->options.jobs, call->s3.bucket, call->keep, &all);
        for (size_t i = 0; i < count; i++)
            if (may_see(call, &all[i].file.spec))
                add_report(&text, &all[i], false);
    }
    reply_json(call, 200, text_slice(&text));
}

/* ---- reading the body, on a thread of the pool ---- */

static enum err refuse(struct job_task *job, enum err err, slice why)
{
    job->why = why;
    return err;
}

static enum err add_items(struct job_task *job, const struct items *items)
{
    enum err err = OK;
    for (size_t i = 0; i < items->count && !err; i++)
        err = job_draft_add(job->draft, &items->list[i]);
    return err;
}

static enum err add_line(struct job_task *job, slice line, uint64_t number)
{
    struct arena scratch = { 0 };
    struct item item;
    slice why = S("");
    line = slice_trim(slice_without_line_end(line));
    if (!line.len)
        return OK;
    enum err err = line.len <= JOB_LINE_MAX ? job_body_read_line(&scratch, line, &item, &why)
                                            : ERR_BAD_ARGUMENT;
    if (err)
        job->why = arena_printf(&job->task.keep, "item %" PRIu64 " behind the JSON object: %.*s",
                                number, SLICE_ARG(why.len ? why : S("the line is too long")));
    else
        err = job_draft_add(job->draft, &item);
    arena_free(&scratch);
    return err;
}

/* Reads the lines behind the JSON object, which ends at `at`. */
static enum err read_lines(struct job_task *job, size_t at)
{
    size_t len = http_body_bytes(job->hold), have = 0;
    char *buffer = must_alloc(READ_BYTES);
    uint64_t number = 0;
    enum err err = OK;
    while (!err && (at < len || have)) {
        size_t more = MIN(len - at, READ_BYTES - have);
        if (!http_body_read(job->hold, at, buffer + have, more)) {
            err = refuse(job, ERR_LIMIT, S(INTAKE_DISK_FAILED));
            break;
        }
        at += more;
        slice rest = { buffer, have + more };
        while (!err && rest.len && (slice_has(rest, '\n') || at == len))
            err = add_line(job, slice_cut(&rest, '\n'), ++number);
        if (!err && rest.len == READ_BYTES)
            err = refuse(job, ERR_BAD_ARGUMENT, S("a line of the body is too long"));
        have = rest.len;
        memmove(buffer, rest.len ? rest.ptr : buffer, have);
    }
    free(buffer);
    return err;
}

static enum err read_body(struct job_task *job)
{
    size_t len = MIN(http_body_bytes(job->hold), JOB_HEAD_MAX), bytes;
    char *head = arena_alloc(&job->task.keep, len + 1);
    struct items items;
    if (!http_body_read(job->hold, 0, head, len))
        return refuse(job, ERR_LIMIT, S(INTAKE_DISK_FAILED));
    enum err err = job_body_read(&job->task.keep, (slice){ head, len }, &job->spec, &items, &bytes,
                                 &job->why);
    if (!err)
        err = add_items(job, &items);
    if (err || job->spec.by_list)
        return err ? err : read_lines(job, bytes);
    return http_body_bytes(job->hold) == len &&
           !slice_trim(slice_without_line_end(slice_from((slice){ head, len }, bytes))).len
         ? OK : refuse(job, ERR_BAD_ARGUMENT, S("items on lines need \"keys\": [] in the JSON "
                                                "object"));
}

/* The right to list the prefix is judged before the job starts, so that the client gets a refusal
 * at once. The prefix is pinned before the first fetch, so that all objects are stored as pinned
 * ones. */
static enum err prepare(struct job_task *job)
{
    struct reader_judge judge = front_reader_judge(job->task.front);
    struct arena scratch = { 0 };
    struct reader reader;
    struct list_ask ask;
    struct call call;
    enum err err = judge.find(judge.arg, job->spec.owner, &reader);
    if (err)
        job->why = S("Several clients have this access key, with different session tokens. So "
                     "Penstock could not tell later which of them started the job: use another "
                     "access key.");
    if (!err && !job->spec.by_list)
        err = judge.may_list(judge.arg, &scratch, &reader, job->spec.bucket, job->spec.prefix,
                             &ask);
    if (!err && job->spec.pins) {
        item_call(&call, job->task.front, reader.client, job->spec.bucket, &scratch);
        err = pins_add(&call, job->spec.prefix);
    }
    arena_free(&scratch);
    return err == ERR_UNKNOWN_KEY ? ERR_DENIED : err;
}

static enum err make(struct job_task *job)
{
    struct jobs *jobs = job->task.front->options.jobs;
    enum err err = job_draft_new(jobs, job->spec.owner, &job->draft);
    if (!err)
        err = read_body(job);
    if (!err)
        err = prepare(job);
    return err ? err : job_draft_start(&job->draft, &job->spec, &job->id);
}

/* The body has named what the job fetches. */
static void audit_start(struct job_task *job)
{
    const struct job_spec *spec = &job->spec;
    struct text more = text_in(&job->task.keep);
    slice prefix = audit_word(&job->task.keep, spec->prefix);
    if (!job->err)
        text_printf(&more, " job=%016" PRIx64 " mode=%s", job->id, job_mode_name(spec->mode));
    if (!job->err && !spec->by_list)
        text_printf(&more, " pins=%d prefix=%.*s", spec->pins, SLICE_ARG(prefix));
    audit_end(&job->audit, job->err, text_slice(&more));
}

static void start(struct pool_task *task)
{
    struct job_task *job = container_of(task, struct job_task, task);
    job->err = make(job);
    audit_start(job);
}

static void end(struct pool_task *task)
{
    struct job_task *job = container_of(task, struct job_task, task);
    job->err = jobs_cancel(task->front->options.jobs, job->id);
    audit_end(&job->audit, job->err, S(""));
}

/* ---- on the loop ---- */

static void answer_failure(struct job_task *job)
{
    enum err err = job->err;
    slice why = job->why;
    if (err == ERR_IO && !why.len)
        why = S("No cache folder is in service, or its disk fails, so Penstock could not write the "
                "state of the job. Please try again when a cache folder is in service. The command "
                "penstock stat says why the folders are out of service.");
    else if (err == ERR_TOO_LARGE)
        why = S("The list of keys has more than 64 MiB: split it, and start several jobs.");
    else if (err == ERR_BAD_ARGUMENT && !why.len)
        why = S("The job has no keys.");
    else if (err == ERR_LIMIT && !why.len)
        why = S("Too many jobs are in progress, or this client has its share of them. Please try "
                "again when a job has ended, or cancel one.");
    else if (err == ERR_BUSY && !why.len)
        why = S(STARTING);
    pool_task_refuse(&job->task, err == ERR_IO ? ERR_BUSY : err == ERR_BUSY ? ERR_SLOW_DOWN : err,
                     why);
}

static void answer_start(struct pool_task *task)
{
    struct job_task *job = container_of(task, struct job_task, task);
    if (job->err) {
        answer_failure(job);
        return;
    }
    reply_json(task->call, 202, arena_printf(task->call->keep, "{\"id\":\"%016" PRIx64 "\"}\n",
                                             job->id));
    pool_task_free(&task);
}

static void answer_end(struct pool_task *task)
{
    struct job_task *job = container_of(task, struct job_task, task);
    struct fields fields = { .keep = task->call->keep };
    if (job->err && job->err != ERR_NOT_FOUND) {    /* ERR_NOT_FOUND: the report is gone */
        answer_failure(job);
        return;
    }
    fields_add(&fields, S("x-amz-request-id"), task->call->id);
    reply_whole(task->call, 204, &fields, S(""));
    pool_task_free(&task);
}

static void free_job(struct pool_task *task)
{
    struct job_task *job = container_of(task, struct job_task, task);
    job_draft_free(&job->draft);
    http_body_release(&job->hold);
}

static const struct pool_task_kind
    starts_kind = { .pool = POOL_JOB, .work = start, .answer = answer_start, .free = free_job },
    ends_kind = { .pool = POOL_JOB, .work = end, .answer = answer_end, .free = free_job };

/* ---- the intake of the body ---- */

static void taken_in(void *arg, const struct intake_outcome *outcome)
{
    struct job_task *job = arg;
    struct pool_task *task = &job->task;
    struct call *call = task->call;
    if (!call) {
        pool_task_free(&task);
    } else if (outcome->err) {
        struct s3_fault fault = outcome->fault;
        fault.message = arena_copy(call->keep, fault.message);
        call->gone = NULL;
        pool_task_free(&task);
        reply_fault(call, outcome->err, &fault);
    } else {
        pool_task_start(task);
    }
}

/* The loop is gone, and the request with it. */
static void lost(void *arg)
{
    struct job_task *job = arg;
    struct pool_task *task = &job->task;
    pool_task_free(&task);
}

static void gone(void *arg)    /* the client has left during the intake, which frees the task */
{
    struct job_task *job = arg;
    job->task.call = NULL;
}

/* Refuses a header that might change the answer to a GetObject, because a job would ignore it. The
 * headers x-amz-checksum-* are allowed: they describe the body. */
static bool has_foreign_header(struct call *call)
{
    slice unknown = form_find_header(call, S("x-amz-checksum-"));
    if (unknown.len)
        reply_error(call, ERR_NOT_IMPLEMENTED,
                    arena_printf(call->keep, "A job does not support the header %.*s: leave it "
                                 "out.", SLICE_ARG(unknown)));
    return unknown.len > 0;
}

static void take_in(struct call *call)
{
    const struct judged *judged = http_request_judged(call->http);
    struct job_task *job = pool_task_new(call, &starts_kind, sizeof(*job));
    if (!job)
        return;
    job->spec.owner = arena_copy(&job->task.keep, owner_of(call));
    job->spec.bucket = arena_copy(&job->task.keep, call->s3.bucket);
    job->hold = http_body_take(call->http);
    job->audit = audit_begin(call, &job->task.keep);
    call->gone = gone;
    call->gone_arg = job;
    intake_start(call->front->intakes, &(struct intake_ask){
        http_loop_mailbox(http_request_loop(call->http)), job->hold, call->head, &call->s3,
        &judged->claim, call->loop->sigv4, judged->secret, .done = taken_in, .lost = lost,
        .arg = job });
}

void job_call(struct call *call)
{
    struct job_view view;
    if (!call->front->options.jobs || is_anonymous(call)) {
        reply_error(call, call->front->options.jobs ? ERR_DENIED : ERR_NOT_IMPLEMENTED,
                    S("A job belongs to the client that starts it, so requests about jobs must be "
                      "signed."));
    } else if (call->s3.op == S3_JOB_START) {
        if (!has_foreign_header(call))
            take_in(call);
    } else if (call->s3.op == S3_JOB_REPORT) {
        report(call);
    } else if (!find(call, &view)) {
        reply_unknown(call);
    } else {
        struct job_task *job = pool_task_new(call, &ends_kind, sizeof(*job));
        if (!job)
            return;
        job->id = view.file.id;
        job->audit = audit_begin(call, &job->task.keep);
        pool_task_start(&job->task);
    }
}
