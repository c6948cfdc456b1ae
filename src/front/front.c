/* front.c - the front, and the route of a request. SPDX-License-Identifier: Apache-2.0
 *
 * A request that the judge (judge.c) let pass comes here when its body was read. The route gives it
 * to the file that does its operation. When the request is over, it is counted, and its access line
 * is written. Threads: the loop of the request, except for the functions of front.h that say
 * otherwise. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/span.h"
#include "front/inside.h"
#include "store/pin.h"

struct front *front_new(const struct front_options *options)
{
    struct front *front = must_alloc(sizeof(*front));
    check(options->cache && options->clients && options->rules_count > 0);
    front->options = *options;
    front->intakes = intakes_new();
    pools_begin(front);
    places_init(&front->large);
    front->lend = options->lend ? lend_new(options->lend_token) : NULL;
    atomic_init(&front->access_log, options->access_log);
    if (getrandom(&front->boot, sizeof(front->boot), 0) != sizeof(front->boot))
        front->boot = mono_ns();
    return front;
}

void front_free(struct front **front)
{
    if (!*front)
        return;
    intakes_free(&(*front)->intakes);
    store_pin_end(cache_store((*front)->options.cache));    /* else a pool might wait for a disk */
    pools_end(*front);
    lend_free(&(*front)->lend);
    free(*front);
    *front = NULL;
}

void front_fill_page(struct front *front, slice (*page)(void *arg, struct arena *keep), void *arg)
{
    front->fill_page = page;
    front->fill_page_arg = arg;
}

void front_access_log(struct front *front, bool on)
{
    atomic_store(&front->access_log, on);
}

slice front_instance(const struct front *front, struct arena *keep)
{
    return arena_printf(keep, "%08" PRIX32, (uint32_t)front->boot);
}

bool front_logs(const struct front *front)
{
    return atomic_load_explicit(&front->access_log, memory_order_relaxed) &&
           log_enabled(LOG_LEVEL_INFO);
}

void front_drain(struct front *front)
{
    atomic_store(&front->draining, true);
}

void *front_loop_begin(void *arg, struct http_loop *loop)
{
    struct front *front = arg;
    struct front_loop *local = must_alloc(sizeof(*local));
    local->sigv4 = sigv4_new();
    local->cache = cache_loop_new(front->options.cache, http_loop_mailbox(loop));
    list_init(&local->passes);
    return local;
}

void front_loop_end(void *arg, void *local)
{
    struct front_loop *loop = local;
    passes_leave(loop);
    batch_buffers_free(loop);
    cache_loop_free(&loop->cache);
    sigv4_free(&loop->sigv4);
    free(loop);
}

void front_loop_turn(void *arg, void *local)
{
    cache_loop_turn(((struct front_loop *)local)->cache);
}

/* ---- the route ---- */

/* A form, a batch and a job get no rules here (rules.c: the origin and the freshness of a key). The
 * key of a form was not read yet, and each item of a batch or job has rules of its own. */
static void route(struct call *call)
{
    const struct s3_operation *row = s3_operation(call->s3.op);
    bool form = form_is_enabled(call), items = row->route == S3_ITEMS;
    bool job = row->route == S3_JOB;
    slice detail = S("");
    enum err err = form || items || job ? OK : rules_judge(call, &detail);
    metric_add(row->metric, 1);
    if (err)
        reply_error(call, err, detail);
    else if (items)
        batch_read(call);
    else if (form)
        pass_form(call);
    else if (row->route == S3_CACHED)
        (call->s3.op == S3_EXPLAIN ? explain_read : cached_read)(call);
    else if ((row->route == S3_MANAGE || (job && call->s3.op != S3_JOB_START)) &&
             call->head->length)    /* only the query is read */
        reply_error(call, ERR_BAD_REQUEST, S(NO_BODY));
    else if (job)
        job_call(call);
    else if (row->route == S3_MANAGE)
        (call->s3.op == S3_PURGE || call->s3.op == S3_BANS ? purge_call : pins_call)(call);
    else if (row->route == S3_CACHE && !call->s3.pass)
        object_read(call);
    else if (row->route == S3_LIST && !call->s3.pass)
        list_read(call);
    else if (s3_only_reads(call->s3.op))
        pass_read(call);
    else
        pass_write(call);
}

static enum metric class_of(int status)
{
    return status == 501 ? M_RES_501
         : status >= 500 ? M_RES_5XX
         : status >= 400 ? M_RES_4XX
         : status >= 300 ? M_RES_3XX : M_RES_2XX;
}

/* Counts the bytes of objects that the client got. An origin gave these bytes, now or earlier. So
 * their bucket exists, as metric_bucket requires. */
static void count_bytes(slice bucket, const struct get_cost *cost)
{
    metric_add(M_FRONT_FROM_CACHE, cost->cache_bytes);
    metric_add(M_FRONT_FROM_PEERS, cost->peers_bytes);
    metric_add(M_FRONT_FROM_ORIGIN, cost->origin_bytes);
    uint64_t all = cost->cache_bytes + cost->peers_bytes + cost->origin_bytes;
    if (all == 0)
        return;
    uint32_t number = metric_bucket(bucket);
    metric_bucket_add(number, BUCKET_BYTES, all);
    metric_bucket_add(number, BUCKET_CACHE_BYTES, cost->cache_bytes);
    metric_bucket_add(number, BUCKET_PEERS_BYTES, cost->peers_bytes);
}

static void ended(void *arg, const struct http_outcome *outcome)
{
    struct call *call = arg;
    if (call->gone)
        call->gone(call->gone_arg);
    metric_add(class_of(outcome->status), 1);
    metric_add(M_FRONT_SENT, outcome->body_bytes_sent);
    if (outcome->body_bytes_sent)
        count_bytes(call->s3.bucket, &call->access.cost);
    metric_time(M_FRONT_SECONDS, outcome->took_ns);
    if (!outcome->complete)
        metric_add(M_FRONT_INCOMPLETE, 1);
    if (front_logs(call->front))
        access_line_write(call, outcome);
    server_span_end(call, outcome);
}

static void reply_refused(struct call *call)
{
    const struct s3_request *s3 = &call->s3;
    struct s3_fault fault = { .message = s3->detail };
    if (call->err == ERR_BAD_METHOD) {
        s3_fault_add(&fault, S("Method"), call->head->method);
        s3_fault_add(&fault, S("ResourceType"), s3->key.len ? S("OBJECT")
                                              : s3->bucket.len ? S("BUCKET") : S("SERVICE"));
    }
    reply_fault(call, call->err, &fault);
}

void front_handle(void *arg, struct http_request *request)
{
    struct judged *judged = http_request_judged(request);
    struct call *call = &judged->call;
    call->http = request;
    http_request_on_end(request, ended, call);
    span_text(call->trace.span, "url.scheme",
              http_request_is_tls(request) ? S("https") : S("http"));
    if (call->s3.op == S3_OP_COUNT)
        metric_add(M_REQ_OTHER, 1);
    if (!call->err) {
        route(call);
        return;
    }
    audit_refused(call);
    reply_refused(call);
}
