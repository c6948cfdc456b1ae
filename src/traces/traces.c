/* traces.c - exports the spans of recorded requests. SPDX-License-Identifier: Apache-2.0
 *
 *     queue of spans ──> thread "traces": a batch at a time ──POST──> collector
 *
 * A batch that fails is sent again if OTLP says so (429, 502, 503, 504, or no answer), after a
 * pause that doubles, or that Retry-After gives. After KEEP_MS it is given up. Meanwhile the queue
 * fills, and further spans are dropped. So a collector that is down, hangs or sends nonsense costs
 * the memory of the queue and of one batch. Trouble is logged at once, and then at most once a
 * minute. */
#include "traces/traces.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/span.h"
#include "base/thread.h"
#include "origin/retry.h"
#include "origin/web.h"
#include "traces/encode.h"

#define BATCH_SPANS 256u
#define POST_MS 10000u                /* for one request, as OpenTelemetry's exporters wait */
#define KEEP_MS 60000u                /* a batch is sent again for so long */
#define PAUSE_MS 1000u                /* before the second try; doubles up to PAUSE_MS_MAX */
#define PAUSE_MS_MAX 16000u
#define AFTER_MS_MAX 300000u          /* for a longer Retry-After, the exporter waits this long */
#define STOP_MS ((uint64_t)3000)
#define LOG_MS 60000u
#define INSTANCE_BYTES 16

static struct {
    bool runs;
    pthread_t thread;
    pthread_mutex_t lock;             /* guards `over` */
    pthread_cond_t ended;
    bool over;                        /* the thread has sent what it could */
    struct traces_options options;
    struct encode_source source;
    char host[64], instance[2 * INSTANCE_BYTES + 1];
    slice shown_url;                  /* without its query, which may have a key */
    struct span *batch;               /* for options.queue_spans spans */
    atomic_bool abort;                /* the time to stop is over */
    uint64_t logged_ms;               /* 0: no trouble was logged since the last success */
    uint64_t lost, dropped_before;    /* spans lost since the last line; dropped up to that line */
} traces = { .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };

/* ---- the log ---- */

static void report_trouble(uint64_t lost, slice why)
{
    struct arena keep = { 0 };
    uint64_t now_ms = mono_ms(), dropped = metric_read(M_SPANS_DROPPED);
    traces.lost += lost;
    if (!traces.logged_ms || now_ms - traces.logged_ms >= LOG_MS) {
        log_warn("traces_lost", "url=%.*s lost=%" PRIu64 " dropped=%" PRIu64 " why=\"%.*s\"",
                 SLICE_ARG(log_word(&keep, traces.shown_url)), traces.lost,
                 dropped - traces.dropped_before, SLICE_ARG(log_sentence(&keep, why)));
        traces.logged_ms = now_ms;
        traces.lost = 0;
        traces.dropped_before = dropped;
    }
    arena_free(&keep);
}

static void report_success(void)
{
    struct arena keep = { 0 };
    if (traces.logged_ms)
        log_info("traces_exported_again", "url=%.*s", SLICE_ARG(log_word(&keep, traces.shown_url)));
    traces.logged_ms = 0;
    arena_free(&keep);
}

/* ---- one request ---- */

enum outcome { SENT, AGAIN, REFUSED };

static slice refusal_why(int status, struct arena *keep)
{
    const char *advice =
        status == 401 || status == 403 ? "check traces_headers_file"
        : status == 404 || status == 405 ? "check the path of traces_url: collectors usually take "
                                           "spans at /v1/traces"
        : status >= 300 && status < 400 ? "Penstock follows no redirect: set traces_url to the URL "
                                          "that it leads to"
        : status == 415 ? "traces_url must take OTLP as JSON" : "see the log of the collector";
    return arena_printf(keep, "the collector answered %d: %s", status, advice);
}

static bool is_temporary(int status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

/* Counts what a collector took of a batch. */
static void settle(size_t count, const struct web_reply *reply, struct arena *keep)
{
    slice why;
    uint64_t rejected = MIN(encode_read_rejected(reply->body, keep, &why), (uint64_t)count);
    metric_add(M_SPANS_EXPORTED, count - rejected);
    metric_add(M_SPANS_REJECTED, rejected);
    if (rejected)
        report_trouble(rejected, arena_printf(keep, "the collector rejected spans: %.*s",
                                              SLICE_ARG(slice_sub(why, 0, 200))));
    else
        report_success();
}

/* Sends a batch once. If it must be sent again, *ret_after_ms is the least pause before that. */
static enum outcome post(slice body, size_t count, struct arena *keep, uint64_t *ret_after_ms,
                         slice *ret_why)
{
    const struct traces_options *options = &traces.options;
    struct http_field fields[TRACES_HEADERS_MAX + 1] = {
        { S("Content-Type"), S("application/json") },
    };
    for (size_t i = 0; i < options->header_count; i++)
        fields[i + 1] = options->headers[i];
    struct web_ask ask = {
        .method = "POST", .url = slice_of(options->url), .body = body,
        .fields = fields, .field_count = options->header_count + 1,
        .ca_file = options->ca_file, .time_ms = POST_MS, .stop = &traces.abort,
    };
    struct web_reply reply;
    *ret_after_ms = 0;
    enum err err = web_get(&ask, keep, &reply, ret_why);
    if (err) {
        *ret_why = arena_printf(keep, "the collector did not take the spans: %.*s. Check that "
                                "traces_url is its address for OTLP over HTTP, and that it runs",
                                SLICE_ARG(*ret_why));
        return err == ERR_TOO_LARGE ? REFUSED : AGAIN;
    }
    if (reply.status >= 200 && reply.status < 300) {
        settle(count, &reply, keep);
        return SENT;
    }
    *ret_why = refusal_why(reply.status, keep);
    *ret_after_ms = MIN(retry_after_ms(reply.retry_after, wall_s()), (uint64_t)AFTER_MS_MAX);
    return is_temporary(reply.status) ? AGAIN : REFUSED;
}

/* A random part of the pause is left out, so that many nodes do not come back at once. */
static uint64_t pause_ms(unsigned tries, uint64_t after_ms)
{
    uint32_t random;
    uint64_t pause = MIN((uint64_t)PAUSE_MS << MIN(tries, 8u), (uint64_t)PAUSE_MS_MAX);
    check(getrandom(&random, sizeof(random), 0) == sizeof(random));
    return after_ms + pause / 2 + random % (pause / 2);
}

static void send_batch(const struct span *spans, size_t count)
{
    uint64_t until_ms = mono_ms() + KEEP_MS;
    char *text = encode_spans(&traces.source, spans, count);
    slice body = slice_of(text);
    for (unsigned tries = 0;; tries++) {
        struct arena keep = { 0 };
        uint64_t after_ms;
        slice why = S("");
        enum outcome outcome = post(body, count, &keep, &after_ms, &why);
        uint64_t wait_ms = pause_ms(tries, after_ms);
        bool over = outcome != AGAIN || atomic_load(&traces.abort) || spans_are_finished() ||
                    mono_ms() + wait_ms > until_ms;
        if (outcome != SENT) {
            metric_add(M_SPANS_FAILED, over ? count : 0);
            report_trouble(over ? count : 0, why);
        }
        arena_free(&keep);
        if (outcome == AGAIN)
            spans_pause(wait_ms);
        if (over)
            break;
    }
    free(text);
}

/* ---- the thread ---- */

static void *run(void *arg)
{
    (void)arg;
    for (size_t count; (count = spans_take(&traces.batch)) > 0;)
        for (size_t at = 0; at < count; at += BATCH_SPANS)
            send_batch(traces.batch + at, MIN(count - at, (size_t)BATCH_SPANS));
    pthread_mutex_lock(&traces.lock);
    traces.over = true;
    pthread_cond_signal(&traces.ended);
    pthread_mutex_unlock(&traces.lock);
    return NULL;
}

static void name_source(void)
{
    uint8_t random[INSTANCE_BYTES];
    check(getrandom(random, sizeof(random), 0) == sizeof(random));
    hex_write(random, sizeof(random), traces.instance);
    if (gethostname(traces.host, sizeof(traces.host) - 1) != 0)
        traces.host[0] = '\0';
    for (char *c = traces.host; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    traces.source = (struct encode_source){ traces.options.version, traces.instance, traces.host };
}

static void free_spans(void)
{
    spans_free();
    free(traces.batch);
    traces.batch = NULL;
}

bool traces_start(const struct traces_options *options)
{
    check(!traces.runs && options->header_count <= TRACES_HEADERS_MAX);
    traces.options = *options;
    slice rest = slice_of(options->url);
    traces.shown_url = slice_cut(&rest, '?');
    name_source();
    traces.batch = must_alloc(options->queue_spans * sizeof(*traces.batch));
    spans_begin(options->queue_spans);
    traces.runs = thread_start(&traces.thread, run, NULL, "traces");
    if (traces.runs)
        trace_sample(&options->sampling);
    else
        free_spans();
    return traces.runs;
}

void traces_stop(void)
{
    if (!traces.runs)
        return;
    trace_sample(&(struct trace_sampling){ .on = false });
    spans_finish();
    uint64_t until_ns = mono_ns() + STOP_MS * 1000000u;
    pthread_mutex_lock(&traces.lock);
    while (!traces.over && mono_ns() < until_ns)
        cond_wait_until(&traces.ended, &traces.lock, until_ns);
    pthread_mutex_unlock(&traces.lock);
    atomic_store(&traces.abort, true);
    pthread_join(traces.thread, NULL);
    free_spans();
    traces.runs = false;
}
