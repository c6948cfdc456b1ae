/* accept.c - lets connections in, up to the cap. SPDX-License-Identifier: Apache-2.0
 *
 * libh2o has no cap on connections, so this file accepts connections itself. At the cap, a loop
 * closes its connection that has been idle for longest. If the loop has no idle connection, it asks
 * each other loop to close one, and stops reading the listener. New connections then wait in the
 * kernel's queue until a connection of any loop ends, or one of this loop becomes idle.
 *
 * A loop that accepts a connection hands it to the loop with the fewest ones. The kernel spreads
 * them at random: of 8 clients on 8 loops, two or three would share a loop, while three loops would
 * have none.
 *
 * An inherited socket is one queue for all loops. So one loop accepts its connections, and hands
 * them over: if all loops waited for them, each new connection would wake all loops.
 *
 * When file descriptors run out, a loop also closes its connection that has been idle for longest,
 * whatever its listener. But it does not ask other loops. If it has no idle connection, it stops
 * reading the listener. No event says when a descriptor is free, so the loop tries again after
 * RETRY_MS. */
#include "http/inside.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/metric.h"

#define TURN_ACCEPTS 16
#define RETRY_MS 100

/* A connection that another loop has accepted. */
struct newcomer {
    struct mail mail;
    struct listener *listener;          /* of the loop that gets the connection */
    int fd;
    struct sockaddr_storage peer;
};

static void on_newcomers(h2o_socket_t *sock, const char *err);

static bool take_place(struct bound *bound)
{
    if (atomic_fetch_add(bound->open, 1) < bound->connections_max)
        return true;
    atomic_fetch_sub(bound->open, 1);
    return false;
}

void listener_idle(struct listener *listener)
{
    if (atomic_load(&listener->paused) && atomic_exchange(&listener->paused, false))
        mailbox_post(listener->loop->box, &listener->resume);
}

void listener_left(struct listener *of)
{
    struct bound *bound = of->bound;
    struct http *http = bound->http;
    check(atomic_fetch_sub(&of->open, 1) > 0 && atomic_fetch_sub(bound->open, 1) > 0);
    for (unsigned i = 0; i < http->options.loops; i++) {
        for (size_t app = 0; app < http->options.app_count; app++) {
            struct listener *listener = &http->loops[i].listeners[app];
            if (listener->bound->open == bound->open)
                listener_idle(listener);
        }
    }
}

static bool newcomer_waits(h2o_socket_t *sock)
{
    struct pollfd waiting = { .fd = h2o_socket_get_fd(sock), .events = POLLIN };
    return poll(&waiting, 1, 0) > 0;
}

/* Closes the connection of this loop that has been idle for longest. If `cap` (the `open` of a
 * bound) is not NULL, considers only connections that this counter counts. */
static bool close_longest_idle(struct http_loop *loop, const atomic_size_t *cap)
{
    list_each(struct http_timer, timer, &loop->timers.rows[ROW_IDLE]->waiting, link) {
        struct conn *conn = timer->arg;
        if (cap && conn->listener->bound->open != cap)
            continue;
        metric_add(M_HTTP_CLOSED_IDLE, 1);
        conn_close(conn, false);
        return true;
    }
    return false;
}

static void on_shed(struct mail *mail)
{
    struct listener *listener = container_of(mail, struct listener, shed);
    const struct bound *bound = listener->bound;
    atomic_store(&listener->shedding, false);
    if (atomic_load(bound->open) >= bound->connections_max)    /* else a place is free already */
        close_longest_idle(listener->loop, bound->open);
}

static void ask_other_loops(struct listener *listener)
{
    struct http *http = listener->loop->http;
    size_t app = (size_t)(listener - listener->loop->listeners);
    for (unsigned i = 0; i < http->options.loops; i++) {
        struct listener *other = &http->loops[i].listeners[app];
        if (other != listener && !atomic_exchange(&other->shedding, true))
            mailbox_post(other->loop->box, &other->shed);
    }
}

static void resume(struct listener *listener)
{
    if (listener->sock)
        h2o_socket_read_start(listener->sock, on_newcomers);
}

static void on_resume(struct mail *mail)
{
    resume(container_of(mail, struct listener, resume));
}

/* `paused` is set before `open` is read again. So if a connection ends just now, either its thread
 * sees `paused` and resumes this listener, or the free place is seen here. */
static void pause_at_cap(struct listener *listener)
{
    struct bound *bound = listener->bound;
    metric_add(M_HTTP_AT_CAP, 1);
    h2o_socket_read_stop(listener->sock);
    atomic_store(&listener->paused, true);
    if (atomic_load(bound->open) < bound->connections_max &&
        atomic_exchange(&listener->paused, false))
        resume(listener);
    else
        ask_other_loops(listener);
}

static void on_retry(void *arg)
{
    struct listener *listener = arg;
    http_timer_stop(&listener->retry);
    resume(listener);
}

static void pause_without_descriptors(struct listener *listener)
{
    metric_add(M_HTTP_ACCEPT_FAILED, 1);
    h2o_socket_read_stop(listener->sock);
    listener->retry = http_timer_start(listener->loop, RETRY_MS, on_retry, listener);
}

/* ---- the loop with the fewest connections ---- */

static struct listener *with_fewest(struct listener *mine)
{
    const struct http *http = mine->loop->http;
    size_t app = (size_t)(mine - mine->loop->listeners);
    struct listener *found = mine;
    for (unsigned i = 0; i < http->options.loops; i++) {
        struct listener *other = &http->loops[i].listeners[app];
        if (atomic_load(&other->open) < atomic_load(&found->open))
            found = other;
    }
    return found;
}

static void on_handed_over(struct mail *mail)
{
    struct newcomer *newcomer = container_of(mail, struct newcomer, mail);
    struct listener *listener = newcomer->listener;
    if (!listener->loop->ending) {
        conn_open(listener, newcomer->fd, &newcomer->peer);
    } else {                            /* listeners of other loops may be gone */
        close(newcomer->fd);
        atomic_fetch_sub(&listener->open, 1);
        atomic_fetch_sub(listener->bound->open, 1);
    }
    free(newcomer);
}

static void open_or_hand_over(struct listener *mine, int fd, const struct sockaddr_storage *peer)
{
    struct listener *listener = with_fewest(mine);
    atomic_fetch_add(&listener->open, 1);
    if (listener == mine) {
        conn_open(mine, fd, peer);
        return;
    }
    struct newcomer *newcomer = must_alloc(sizeof(*newcomer));
    *newcomer = (struct newcomer){ { .deliver = on_handed_over }, listener, fd, *peer };
    check(mailbox_post(listener->loop->box, &newcomer->mail));
}

static void on_newcomers(h2o_socket_t *sock, const char *err)
{
    struct listener *listener = sock->data;
    for (int i = 0; i < TURN_ACCEPTS; i++) {
        if (!take_place(listener->bound)) {
            if (!newcomer_waits(sock))
                return;
            if (close_longest_idle(listener->loop, listener->bound->open))
                continue;
            pause_at_cap(listener);
            return;
        }
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        int fd = accept4(h2o_socket_get_fd(sock), (struct sockaddr *)&peer, &len,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            atomic_fetch_sub(listener->bound->open, 1);
            if (errno == EAGAIN)
                return;
            if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
                continue;    /* the client left while it waited in the queue */
            if (close_longest_idle(listener->loop, NULL))
                continue;
            pause_without_descriptors(listener);
            return;
        }
        open_or_hand_over(listener, fd, &peer);
    }
}

void listener_open(struct listener *listener, int fd)
{
    listener->resume.deliver = on_resume;
    listener->shed.deliver = on_shed;
    if (fd < 0)
        return;
    listener->sock = h2o_evloop_socket_create(listener->loop->events, fd,
                                              H2O_SOCKET_FLAG_DONT_READ);
    listener->sock->data = listener;
    h2o_socket_read_start(listener->sock, on_newcomers);
}

void listener_drain(struct listener *listener)
{
    bool accepts = !listener->bound->app.inherited_fd;
    if (accepts && listener->sock && !atomic_load(&listener->paused) && !listener->retry)
        on_newcomers(listener->sock, NULL);
    listener_close(listener);
}

void listener_close(struct listener *listener)
{
    http_timer_stop(&listener->retry);
    if (listener->sock)
        h2o_socket_close(listener->sock);
    listener->sock = NULL;
}
