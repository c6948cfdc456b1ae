/* worker.c - a thread that keeps sessions and reads items. SPDX-License-Identifier: Apache-2.0
 *
 * A session is a connection of a client; the client's lists of items are cut into shares. The
 * thread waits for messages of its clients, for mail of other threads, and for the disk. After each
 * event it takes one share, and goes on as long as shares wait. No function in it blocks. The first
 * worker also accepts connections and gives them to the workers in turn.
 * Threads: the worker's own, except for init, start and stop. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "base/thread.h"
#include "local/inside.h"

#define EVENTS 64
#define ACCEPT_REST_MS 100u

/* ---- new connections ---- */

struct newcomer {
    struct mail mail;
    struct worker *worker;
    int fd;
};

static void adopt(struct mail *mail)
{
    struct newcomer *newcomer = container_of(mail, struct newcomer, mail);
    session_begin(newcomer->worker, newcomer->fd);
    free(newcomer);
}

/* Gives each new session to the next worker. */
static void hand_over(struct local *local, int fd)
{
    struct newcomer *newcomer = must_alloc(sizeof(*newcomer));
    unsigned turn = atomic_fetch_add(&local->next_worker, 1) % local->worker_count;
    *newcomer = (struct newcomer){ { .deliver = adopt }, &local->workers[turn], fd };
    check(mailbox_post(newcomer->worker->box, &newcomer->mail));
}

static void listen_for(struct worker *worker, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = worker->local };
    check(epoll_ctl(worker->epoll, EPOLL_CTL_MOD, worker->local->listen_fd, &event) == 0);
}

/* Refuses a new client, and sends the reason to it. The client can still read the reason after the
 * connection was closed. */
static void turn_away(struct local *local, int fd)
{
    bool draining = atomic_load(&local->draining);
    const struct trouble full = { 429, "quota", S("Penstock has as many sessions as "
                                                  "fill_sessions and the limit of open files "
                                                  "allow: close a session, or try again "
                                                  "later") };
    const struct trouble why = draining ? trouble_of(ERR_STOPPING) : full;
    json_t *reply = trouble_reply(&why);
    char *text = json_dumps(reply, JSON_COMPACT);
    atomic_fetch_sub(&local->sessions, 1);
    metric_add(M_FILL_SESSIONS_MAX, !draining);
    session_note_refusal(local, NULL, fd, &why);
    (void)send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
    free(text);
    json_decref(reply);
}

/* True if new connections wait for the next process. */
static bool leaves_newcomers(const struct local *local)
{
    return local->options.inherited_fd && atomic_load(&local->draining);
}

/* When no descriptor is left, this accepts no connections for a moment: otherwise a waiting
 * connection would wake this thread again and again. */
static void accept_all(struct worker *worker)
{
    struct local *local = worker->local;
    for (;;) {
        if (leaves_newcomers(local)) {
            listen_for(worker, 0);
            return;
        }
        int fd = accept4(local->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                metric_add(M_FILL_OPEN_FILES, 1);
                listen_for(worker, 0);
                worker->accept_ms = mono_ms() + ACCEPT_REST_MS;
            }
            return;
        }
        if (atomic_fetch_add(&local->sessions, 1) < local->options.sessions_max &&
            !atomic_load(&local->draining)) {
            carriers_socket(fd);
            hand_over(local, fd);
        } else {
            turn_away(local, fd);
        }
    }
}

/* ---- the thread ---- */

static void look(void *arg)
{
    struct worker *worker = arg;
    if (atomic_load(&worker->local->ending))
        list_each_safe(struct session, session, &worker->sessions, link) {
            session_end(session);
            session_settle(session);
        }
    run_look(worker);
}

static void add(struct worker *worker, int fd, void *what)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = what };
    check(epoll_ctl(worker->epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

static int time_left(const struct worker *worker, bool more)
{
    uint64_t next_ms = more ? 0 : session_next_deadline(worker), now_ms = mono_ms();
    if (worker->accept_ms)
        next_ms = MIN(next_ms, worker->accept_ms);
    if (next_ms == UINT64_MAX)
        return -1;
    return next_ms <= now_ms ? 0 : (int)MIN(next_ms - now_ms + 1, (uint64_t)60000);
}

/* Handles the events of sessions before mail, because mail may free a session that has an event. */
static void turn(struct worker *worker, const struct epoll_event *events, int count)
{
    bool mail = false;
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == worker)
            mail = true;
        else if (events[i].data.ptr == worker->local)
            accept_all(worker);
        else
            session_ready(events[i].data.ptr, events[i].events);
    }
    if (mail) {
        mailbox_deliver(worker->box);
        cache_loop_turn(worker->cache);
    }
}

static void *run(void *arg)
{
    struct worker *worker = arg;
    struct epoll_event events[EVENTS];
    bool more = false;
    while (!atomic_load(&worker->ending)) {
        int count = epoll_wait(worker->epoll, events, EVENTS, time_left(worker, more));
        turn(worker, events, MAX(count, 0));
        session_deadlines(worker, mono_ms());
        if (worker->accept_ms && mono_ms() >= worker->accept_ms) {
            worker->accept_ms = 0;
            listen_for(worker, EPOLLIN);
        }
        more = run_turn(worker);
    }
    cache_loop_free(&worker->cache);
    return NULL;
}

void worker_init(struct local *local, unsigned number)
{
    struct worker *worker = &local->workers[number];
    worker->local = local;
    worker->number = number;
    worker->box = mailbox_new();
    worker->look = ticket_new(worker->box, look, worker);
    worker->inbox = must_alloc(MESSAGE_BYTES_MAX + 1);
    worker->cache = cache_loop_new(local->options.cache, worker->box);
    list_init(&worker->sessions);
    list_init(&worker->runs);
    list_init(&worker->ready);
    list_init(&worker->starved);
    worker->epoll = epoll_create1(EPOLL_CLOEXEC);
    check(worker->epoll >= 0);
    add(worker, mailbox_fd(worker->box), worker);
    if (number == 0)
        add(worker, local->listen_fd, local);
}

bool worker_start(struct worker *worker)
{
    worker->started = thread_start(&worker->thread, run, worker, "fill-%u", worker->number);
    return worker->started;
}

void worker_stop(struct worker *worker)
{
    if (worker->started) {
        atomic_store(&worker->ending, true);
        ticket_wake(worker->look);
        pthread_join(worker->thread, NULL);
    }
    cache_loop_free(&worker->cache);    /* if the thread ran, it has freed this */
    ticket_end(&worker->look);
    mailbox_free(&worker->box);
    arena_free(&worker->scratch);
    if (worker->epoll > 0)
        close(worker->epoll);
    free(worker->inbox);
}
