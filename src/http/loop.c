/* loop.c - one thread with its event loop. SPDX-License-Identifier: Apache-2.0
 *
 * The mailbox's descriptor is a do-not-read socket of the event loop: libh2o reports that it is
 * readable, and mailbox_deliver reads it.
 *
 * Everything that may write to a socket runs in a callback of libh2o: between two calls of
 * h2o_evloop_run, libh2o 2.2 loses track of more than 256 writes, and then stops the process by an
 * assertion. So timers that are due, and connections with decrypted bytes, get their turn in the
 * callback of a write of 0 bytes to a socket that exists for this alone, and has no descriptor. */
#include "http/inside.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/thread.h"

#define IDLE_DRAIN_MS 200u

struct mailbox *http_loop_mailbox(struct http_loop *loop)
{
    return loop->box;
}

void *http_loop_local(struct http_loop *loop)
{
    return loop->local;
}

static void on_mail(h2o_socket_t *sock, const char *err)
{
    struct http_loop *loop = sock->data;
    const struct http_options *options = &loop->http->options;
    mailbox_deliver(loop->box);
    options->loop_turn(options->arg, loop->local);
}

static void on_turn(h2o_socket_t *sock, const char *err)
{
    struct http_loop *loop = sock->data;
    conns_read_on(loop);
    (void)timers_run(&loop->timers);
}

/* A client that is at work sends its next request within IDLE_DRAIN_MS, and learns from the answer
 * that the connection ends. A close at once would meet requests that are on their way. */
static void on_drain(struct mail *mail)
{
    struct http_loop *loop = container_of(mail, struct http_loop, drain);
    for (size_t app = 0; app < loop->http->options.app_count; app++)
        listener_drain(&loop->listeners[app]);
    timers_shorten(&loop->timers, ROW_NEW, IDLE_DRAIN_MS);
    timers_shorten(&loop->timers, ROW_IDLE, IDLE_DRAIN_MS);
    atomic_fetch_add(&loop->http->drained, 1);
}

static void on_end(struct mail *mail)
{
    container_of(mail, struct http_loop, end)->ending = true;
}

static void set_up(struct http_loop *loop)
{
    struct http *http = loop->http;
    const struct http_options *options = &http->options;
    loop->events = h2o_evloop_create();
    int fd = fcntl(mailbox_fd(loop->box), F_DUPFD_CLOEXEC, 0);    /* libh2o closes this copy */
    check(fd >= 0);
    loop->box_sock = h2o_evloop_socket_create(loop->events, fd, H2O_SOCKET_FLAG_DONT_READ);
    loop->box_sock->data = loop;
    h2o_socket_read_start(loop->box_sock, on_mail);
    loop->turn_sock = h2o_evloop_socket_create(loop->events, -1, H2O_SOCKET_FLAG_DONT_READ);
    loop->turn_sock->data = loop;
    loop->local = options->loop_begin(options->arg, loop);
    for (size_t app = 0; app < options->app_count; app++)
        listener_open(&loop->listeners[app], http->listen_fds[app * options->loops + loop->number]);
}

static void tear_down(struct http_loop *loop)
{
    const struct http_options *options = &loop->http->options;
    for (size_t app = 0; app < options->app_count; app++)
        listener_close(&loop->listeners[app]);
    while (!list_empty(&loop->conns)) {
        struct conn *conn = list_of(loop->conns.next, struct conn, link);
        conn_close(conn, conn->phase == PHASE_REQUEST);
    }
    options->loop_end(options->arg, loop->local);
    h2o_socket_close(loop->box_sock);
    h2o_socket_close(loop->turn_sock);
    h2o_evloop_run(loop->events, 0);    /* libh2o frees closed sockets in a turn */
    h2o_evloop_destroy(loop->events);
    timers_free(&loop->timers);
}

static void *run(void *arg)
{
    struct http_loop *loop = arg;
    set_up(loop);
    while (!loop->ending) {
        int due_ms = timers_end_turn(&loop->timers);
        int wait_ms = list_empty(&loop->unread) ? due_ms : 0;
        if (!wait_ms)
            h2o_socket_write(loop->turn_sock, NULL, 0, on_turn);    /* on_turn comes in this run */
        h2o_evloop_run(loop->events, wait_ms);
    }
    tear_down(loop);
    return NULL;
}

void loop_init(struct http_loop *loop, struct http *http, unsigned number)
{
    const struct http_options *options = &http->options;
    const struct http_timeouts *timeouts = &options->timeouts;
    unsigned row_ms[ROW_COUNT] = {
        [ROW_NEW] = timeouts->head_ms,
        [ROW_HEAD] = timeouts->head_ms,
        [ROW_BODY] = timeouts->body_progress_ms
                   ? MIN(timeouts->body_progress_ms, timeouts->request_ms) : timeouts->request_ms,
        [ROW_IDLE] = timeouts->idle_ms,
        [ROW_SEND] = MAX(timeouts->send_ms / 2, 1u),
        [ROW_LINGER] = 2000,
    };
    loop->http = http;
    loop->number = number;
    loop->box = mailbox_new();
    loop->drain.deliver = on_drain;
    loop->end.deliver = on_end;
    timers_init(&loop->timers, row_ms);
    list_init(&loop->conns);
    list_init(&loop->unread);
    list_init(&loop->segments.line);
    list_init(&loop->segments.kept);
    loop->listeners = must_alloc(options->app_count * sizeof(*loop->listeners));
    for (size_t app = 0; app < options->app_count; app++) {
        loop->listeners[app].bound = &http->bounds[app];
        loop->listeners[app].loop = loop;
    }
}

bool loop_start(struct http_loop *loop)
{
    loop->started = thread_start(&loop->thread, run, loop, "loop-%u", loop->number);
    return loop->started;
}

void loop_free(struct http_loop *loop)
{
    check(list_empty(&loop->conns) && list_empty(&loop->unread));
    check(list_empty(&loop->segments.line));
    mailbox_free(&loop->box);    /* delivers the last segments */
    segments_free(loop);
    free(loop->listeners);
}
