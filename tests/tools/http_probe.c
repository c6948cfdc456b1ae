/* http_probe.c - a small server on the http room, for stories that look at that room alone.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   http_probe PORT ADMIN_PORT SPILL_FOLDER [loops=2 head_ms=... body_bytes_max=... ...]
 *
 * Byte i of every body is i % 251. GET /whole?n=, /direct?n= (one piece), /stream?n=&piece= (each
 * piece after a wake from another thread), /open?n=&piece= (of a length that is not told),
 * /abort?n=&after=, /later?ms=, /never; PUT /echo (length and sum), PUT /hold (the body read by
 * another thread, also when the client has gone); /stats on both addresses. A field x-deny is refused
 * by the judge; x-bytes is what a chunked body may come to, x-client whose it is. SIGTERM drains, then stops. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/metric.h"
#include "http/http.h"

#define POOL_BYTES (8 * MIB)

static char judged_mark[] = "what the judge leaves for the handler";
static char *pool;    /* bytes of the pattern, with room to start anywhere in it */
static struct http *http;
static struct http_tls *tls;
static atomic_uint complete, incomplete, stops, judged, handled, held_sum, loop_turns;

/* ---- a thread that wakes others a little later ---- */

struct chore {
    struct chore *next;
    struct ticket *ticket;
    struct http_body *body;
};

static pthread_mutex_t chores_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t chores_some = PTHREAD_COND_INITIALIZER;
static struct chore *chores, *chores_last;
static bool chores_over;

static void chore_add(struct chore *chore)
{
    pthread_mutex_lock(&chores_lock);
    if (chores)
        chores_last->next = chore;
    else
        chores = chore;
    chores_last = chore;
    pthread_cond_signal(&chores_some);
    pthread_mutex_unlock(&chores_lock);
}

/* 0: it can't be read. */
static unsigned sum_of(const struct http_body *body)
{
    static _Thread_local char buffer[65536];
    unsigned sum = 1;
    for (size_t at = 0, len; at < http_body_bytes(body); at += len) {
        len = sizeof(buffer);
        const char *piece = http_body_part(body, at, buffer, &len);
        if (!piece)
            return 0;
        for (size_t i = 0; i < len; i++)
            sum = sum * 31 + (unsigned char)piece[i];
    }
    return sum;
}

static void chore_do(struct chore *chore)
{
    if (chore->body) {
        usleep(300000);
        atomic_store(&held_sum, sum_of(chore->body));
        http_body_release(&chore->body);
    } else {
        usleep(200);
    }
    if (chore->ticket)
        ticket_wake(chore->ticket);
    ticket_unref(&chore->ticket);
    free(chore);
}

static void *chores_run(void *arg)
{
    (void)arg;
    for (;;) {
        pthread_mutex_lock(&chores_lock);
        while (!chores && !chores_over)
            pthread_cond_wait(&chores_some, &chores_lock);
        struct chore *chore = chores;
        if (chore)
            chores = chore->next;
        pthread_mutex_unlock(&chores_lock);
        if (!chore)
            return NULL;
        chore_do(chore);
    }
}

/* ---- one request ---- */

struct job {
    struct http_request *request;
    struct ticket *ticket;
    struct http_timer *timer;
    uint64_t length, sent, piece, abort_after;
    bool streaming, open, ended;
};

static void on_end(void *arg, const struct http_outcome *outcome)
{
    struct job *job = arg;
    atomic_fetch_add(outcome->complete ? &complete : &incomplete, 1);
    ticket_end(&job->ticket);
    http_timer_stop(&job->timer);
}

static void send_next(struct job *job)
{
    if (job->sent >= job->abort_after) {
        http_reply_abort(job->request);
        return;
    }
    uint64_t len = MIN(job->piece, MIN(job->length, job->abort_after) - job->sent);
    slice bytes = { pool + job->sent % 251, len };
    job->sent += len;
    http_reply_send(job->request, bytes);
}

static void ask_for_wake(struct job *job)
{
    struct chore *chore = must_alloc(sizeof(*chore));
    chore->ticket = ticket_ref(job->ticket);
    chore_add(chore);
}

static void on_wake(void *arg)
{
    send_next(arg);
}

static void on_proceed(void *arg)
{
    struct job *job = arg;
    if (job->sent == job->length) {
        if (job->open && !job->ended) {
            job->ended = true;
            http_reply_end(job->request);
        }
        return;
    }
    if (job->streaming)
        ask_for_wake(job);
    else
        send_next(job);
}

static void on_stop(void *arg)
{
    struct job *job = arg;
    atomic_fetch_add(&stops, 1);
    ticket_end(&job->ticket);
}

static const struct http_source source = { on_proceed, on_stop };
static const struct http_field kind = { { "Content-Type", 12 }, { "text/plain", 10 } };

static void reply_text(struct http_request *request, slice text)
{
    struct http_answer answer = { .status = 200, .fields = &kind, .field_count = 1, .body = text };
    http_reply(request, &answer);
}

static void later(void *arg)
{
    struct job *job = arg;
    reply_text(job->request, S("later\n"));
}

static void held(void *arg)
{
    struct job *job = arg;
    reply_text(job->request, arena_printf(http_request_arena(job->request), "%u\n",
                                          atomic_load(&held_sum)));
}

static uint64_t argument(const struct request_head *head, slice name, uint64_t otherwise)
{
    slice rest = head->query;
    while (rest.ptr && rest.len) {
        slice value = slice_cut(&rest, '&'), key = slice_cut(&value, '=');
        if (slice_eq(key, name) && slice_u64(value, &otherwise))
            return otherwise;
    }
    return otherwise;
}

static slice stats(struct arena *keep)
{
    return arena_printf(keep,
                        "{\"complete\": %u, \"incomplete\": %u, \"stops\": %u, \"judged\": %u, "
                        "\"handled\": %u, \"held_sum\": %u, \"requests\": %zu, "
                        "\"connections\": %llu, \"turns\": %u, \"body_memory\": %llu, "
                        "\"body_disk\": %llu, "
                        "\"body_size\": %llu, \"no_room\": %llu, \"share\": %llu, "
                        "\"heads\": %llu, \"heads_refused\": %llu}\n",
                        complete, incomplete, stops, judged, handled, held_sum,
                        http_open_requests(http),
                        (unsigned long long)metric_read(M_HTTP_CONNECTIONS), loop_turns,
                        (unsigned long long)metric_read(M_HTTP_BODY_MEMORY),
                        (unsigned long long)metric_read(M_HTTP_BODY_DISK),
                        (unsigned long long)metric_read(M_HTTP_REFUSED_BODY),
                        (unsigned long long)metric_read(M_HTTP_REFUSED_SPILL),
                        (unsigned long long)metric_read(M_HTTP_REFUSED_SHARE),
                        (unsigned long long)metric_read(M_HTTP_HEADS),
                        (unsigned long long)metric_read(M_HTTP_REFUSED_HEADS));
}

static void hold_body(struct job *job)
{
    struct chore *chore = must_alloc(sizeof(*chore));
    job->ticket = ticket_new(http_loop_mailbox(http_request_loop(job->request)), held, job);
    chore->ticket = ticket_ref(job->ticket);
    chore->body = http_body_take(job->request);
    chore_add(chore);
}

static void echo(struct http_request *request)
{
    struct http_body *body = http_body_take(request);
    reply_text(request, arena_printf(http_request_arena(request), "%zu %u\n",
                                     http_body_bytes(body), sum_of(body)));
    http_body_release(&body);
}

static void handle(void *arg, struct http_request *request)
{
    const struct request_head *head = http_request_head(request);
    struct arena *keep = http_request_arena(request);
    struct job *job = arena_alloc(keep, sizeof(*job));
    check(http_request_judged(request) == judged_mark);
    atomic_fetch_add(&handled, 1);
    job->request = request;
    job->length = argument(head, S("n"), 0);
    job->piece = MIN(argument(head, S("piece"), POOL_BYTES - 251), POOL_BYTES - 251);
    job->abort_after = argument(head, S("after"), UINT64_MAX);
    http_request_on_end(request, on_end, job);
    if (slice_eq(head->path, S("/echo"))) {
        echo(request);
    } else if (slice_eq(head->path, S("/hold"))) {
        hold_body(job);
    } else if (slice_eq(head->path, S("/later"))) {
        job->timer = http_timer_start(http_request_loop(request),
                                      (unsigned)argument(head, S("ms"), 50), later, job);
    } else if (slice_eq(head->path, S("/never"))) {
        return;
    } else if (slice_eq(head->path, S("/whole"))) {
        reply_text(request, (slice){ pool, MIN(job->length, POOL_BYTES) });
    } else if (slice_eq(head->path, S("/stats"))) {
        reply_text(request, stats(keep));
    } else if (slice_eq(head->path, S("/stream")) || slice_eq(head->path, S("/direct")) ||
               slice_eq(head->path, S("/abort"))) {
        http_reply_start(request, 206, &kind, 1, job->length, &source, job);
        job->streaming = slice_eq(head->path, S("/stream"));
        if (slice_eq(head->method, S("HEAD")) || job->length == 0)
            return;
        job->ticket = ticket_new(http_loop_mailbox(http_request_loop(request)), on_wake, job);
        on_proceed(job);
    } else if (slice_eq(head->path, S("/open"))) {
        job->open = true;
        http_reply_start(request, 200, &kind, 1, HTTP_OPEN, &source, job);
        if (!slice_eq(head->method, S("HEAD")))
            on_proceed(job);
    } else {
        reply_text(request, arena_printf(keep, "%.*s%s%.*s\n", SLICE_ARG(head->path),
                                         head->query.ptr ? "?" : "", SLICE_ARG(head->query)));
    }
}

static bool judge(void *arg, struct http_loop *loop, struct arena *keep, slice peer,
                  const struct request_head *head, struct http_answer *ret)
{
    atomic_fetch_add(&judged, 1);
    ret->judged = judged_mark;
    uint64_t client = 0;
    if (!slice_u64(request_head_get(head, S("x-bytes")), &ret->body_bytes))
        ret->body_bytes = 0;
    if (slice_u64(request_head_get(head, S("x-client")), &client))
        ret->client = (unsigned)client;
    if (!request_head_get(head, S("x-deny")).ptr)
        return true;
    ret->status = 403;
    ret->fields = &kind;
    ret->field_count = 1;
    ret->body = arena_printf(keep, "denied %.*s\n", SLICE_ARG(head->path));
    return false;
}

static void refuse(void *arg, struct arena *keep, const struct http_refused *what,
                   struct http_answer *ret)
{
    ret->status = what->err == ERR_TIMEOUT ? 408 : what->err == ERR_LIMIT ? 503 : 400;
    ret->body = arena_printf(keep, "%s: %s\n", err_name(what->err), what->why);
}

static void on_turn(void *arg, void *local)
{
    check(local != NULL);
    atomic_fetch_add(&loop_turns, 1);
}

static void *on_begin(void *arg, struct http_loop *loop)
{
    return loop;
}

static void on_loop_end(void *arg, void *local)
{
    check(http_loop_local(local) == local);
}

/* ---- the whole ---- */

static const char *text_setting(char **args, const char *name)
{
    for (size_t len = strlen(name); *args; args++)
        if (strncmp(*args, name, len) == 0 && (*args)[len] == '=')
            return *args + len + 1;
    return NULL;
}

static unsigned setting(char **args, const char *name, unsigned otherwise)
{
    const char *text = text_setting(args, name);
    return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

/* The S3 address again, with TLS: tls_port=N tls_cert=FILE tls_key=FILE. */
static size_t add_tls(char **args, struct http_app *ret, const struct http_app *plain,
                      struct arena *keep)
{
    slice why;
    unsigned port = setting(args, "tls_port", 0);
    if (!port)
        return 0;
    *ret = *plain;
    ret->listen = arena_printf(keep, "127.0.0.1:%u", port).ptr;
    struct http_tls_files files = { .settings = "tls", .cert = text_setting(args, "tls_cert"),
                                    .key = text_setting(args, "tls_key") };
    check(http_tls_open(&files, keep, &ret->tls, &why) == OK);
    return 1;
}

static const char *spill_folder(void *folder, const char *in, uint64_t bytes)
{
    return bytes > 0 && access(folder, W_OK) == 0 ? folder : NULL;
}

static void serve(char **args)
{
    static char listen_on[2][64];
    static struct arena keep;
    struct http_app apps[3];
    for (int i = 0; i < 2; i++) {
        snprintf(listen_on[i], sizeof(listen_on[i]), "127.0.0.1:%s", args[1 + i]);
        apps[i] = (struct http_app){ .setting = i ? "admin_listen" : "listen", .listen = listen_on[i],
                                     .connections_max = i ? 4 : 0, .judge = judge,
                                     .refuse = refuse, .handle = handle };
    }
    size_t count = 2 + add_tls(args, &apps[2], &apps[0], &keep);
    tls = count > 2 ? apps[2].tls : NULL;
    struct http_options options = {
        .apps = apps, .app_count = count, .loops = setting(args, "loops", 2),
        .timeouts = {
            .head_ms = setting(args, "head_ms", 2000),
            .request_ms = setting(args, "request_ms", 20000),
            .idle_ms = setting(args, "idle_ms", 20000), .send_ms = setting(args, "send_ms", 20000),
            .send_progress_bytes = setting(args, "send_progress", 0),
            .body_progress_ms = setting(args, "body_progress_ms", 0),
            .body_progress_bytes = setting(args, "body_progress_bytes", 0),
        },
        .bodies = {
            .body_bytes_max = setting(args, "body_bytes_max", 64 << 20),
            .body_memory_bytes = setting(args, "body_memory_bytes", 1 << 20),
            .memory_bytes = setting(args, "bodies_memory_bytes", 256 << 20),
            .disk_bytes = setting(args, "bodies_disk_bytes", 0),
            .files_max = setting(args, "spill_files_max", 0),
            .spill_folder = spill_folder, .spill_arg = args[3],
        },
        .heads_bytes = setting(args, "heads_bytes", 8 << 20),
        .connections_max = setting(args, "connections_max", 1000),
        .loop_begin = on_begin, .loop_end = on_loop_end, .loop_turn = on_turn,
    };
    slice why = { 0 };
    enum err err = http_start(&options, &keep, &http, &why);
    if (err) {
        printf("%s: %.*s\n", err_name(err), SLICE_ARG(why));
        exit(2);
    }
    printf("ready\n");
    fflush(stdout);
    arena_free(&keep);
}

int main(int count, char **args)
{
    if (count < 4) {
        fprintf(stderr, "usage: http_probe PORT ADMIN_PORT SPILL_FOLDER [setting=value ...]\n");
        return 2;
    }
    pool = malloc(POOL_BYTES);
    for (size_t i = 0; i < POOL_BYTES; i++)
        pool[i] = (char)(i % 251);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, chores_run, NULL);
    serve(args);
    int got;
    sigwait(&ends, &got);
    http_drain(http);
    for (int i = 0; i < 300 && http_open_requests(http); i++)
        usleep(10000);
    pthread_mutex_lock(&chores_lock);
    chores_over = true;
    pthread_cond_signal(&chores_some);
    pthread_mutex_unlock(&chores_lock);
    pthread_join(thread, NULL);
    http_stop(&http);
    http_tls_free(&tls);
    free(pool);
    return 0;
}
