/* lease.c - a connection, and what hangs on it. SPDX-License-Identifier: Apache-2.0
 *
 * The kernel names the user at the other end (SO_PEERCRED); the hello proves whose objects it may
 * read. When the connection ends, for whatever reason, its fills are cancelled. Its buffers are let
 * go when the last of those fills has ended, and nothing of the client outlives that. Replies go
 * out at once, or wait for room; a client that receives none is cut. Threads: the keeper's. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "local/inside.h"

#define FDS_IN_ONE 253u               /* the kernel's limit for one message (SCM_MAX_FD) */
#define LARGE_HEAD_BYTES 65536        /* the socket has room for three of those */
#define MESSAGES_A_TURN 16u           /* of one lease, before other leases have a turn */
#define LOGGED_BYTES 200u             /* of the sentence of a refusal */

struct reply {
    struct list link;
    slice text;
};

/* ---- replies ---- */

/* A reply that is too large for the socket goes in a memfd, as a large message comes. The memory of
 * such memfds is not counted anywhere. So the message that announces one is padded: then few fit
 * into the socket of a client that does not read. */
static ssize_t send_large(struct lease *lease, slice text)
{
    struct arena keep = { 0 };
    int carrier = carrier_new(text);
    if (carrier < 0) {
        errno = ENOMEM;
        return -1;
    }
    struct text head = text_in(&keep);
    text_printf(&head, "{\"message_bytes\":%zu%*s}", text.len, LARGE_HEAD_BYTES, "");
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec bytes = { head.ptr, head.len };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control,
                              .msg_controllen = sizeof(control) };
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    *rights = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
                                .cmsg_len = CMSG_LEN(sizeof(int)) };
    memcpy(CMSG_DATA(rights), &carrier, sizeof(carrier));
    ssize_t sent = sendmsg(lease->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    int why = errno;
    if (sent < 0)
        close(carrier);
    else
        carriers_keep(&lease->carriers, carrier, mono_ms());
    arena_free(&keep);
    errno = why;
    return sent;
}

static ssize_t send_now(struct lease *lease, slice text)
{
    if (text.len > MESSAGE_BYTES_MAX)
        return send_large(lease, text);
    return send(lease->fd, text.ptr, text.len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void watch(struct lease *lease, bool out)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | (out ? EPOLLOUT : 0),
                                 .data.ptr = lease };
    if (lease->wants_out != out)
        epoll_ctl(lease->worker->epoll, EPOLL_CTL_MOD, lease->fd, &event);
    lease->wants_out = out;
}

static void drop_replies(struct lease *lease)
{
    list_each_safe(struct reply, reply, &lease->out, link)
        free(reply);
    list_init(&lease->out);
    lease->out_bytes = 0;
}

static void wait_for_room(struct lease *lease, slice text)
{
    struct reply *reply = must_alloc(sizeof(*reply) + text.len);
    reply->text = (slice){ (char *)(reply + 1), slice_put((char *)(reply + 1), text) };
    list_add(&lease->out, &reply->link);
    lease->out_bytes += text.len;
    watch(lease, true);
}

/* Ends a lease without a word: it has said no hello, or receives no replies. */
static void cut(struct lease *lease, enum metric counter, const char *limit)
{
    char session[IDS_TEXT];
    hex_write(lease->id, ID_BYTES, session);
    metric_add(counter, 1);
    if (atomic_load(&lease->worker->local->access_log))
        log_access("fill_cut", "session=%.8s uid=%u pid=%d limit=%s", session, lease->uid,
                   lease->pid, limit);
    lease_end(lease);
}

void lease_send(struct lease *lease, slice text)
{
    const struct local_options *options = &lease->worker->local->options;
    if (lease->fd < 0)
        return;
    if (list_empty(&lease->out) && send_now(lease, text) >= 0)
        return;
    bool full = !list_empty(&lease->out) || errno == EAGAIN || errno == ENOBUFS;
    if (full && lease->out_bytes + text.len <= options->replies_bytes_max) {
        wait_for_room(lease, text);
        return;
    }
    if (full)
        cut(lease, M_FILL_REPLIES, "fill_replies");
    else
        lease_end(lease);
}

static void send_more(struct lease *lease)
{
    while (!list_empty(&lease->out)) {
        struct reply *reply = list_of(lease->out.next, struct reply, link);
        if (send_now(lease, reply->text) < 0)
            break;
        list_del(&reply->link);
        lease->out_bytes -= reply->text.len;
        free(reply);
    }
    if (list_empty(&lease->out))
        watch(lease, false);
    else if (errno != EAGAIN && errno != ENOBUFS)
        lease_end(lease);
}

static void count_refusal(int status)
{
    if (status == 401 || status == 403)
        metric_add(M_FILL_REFUSED_RIGHTS, 1);
    else if (status == 413 || status == 429)
        metric_add(M_FILL_REFUSED_LIMIT, 1);
    else
        metric_add(M_FILL_REFUSED_REQUEST, 1);
}

void lease_note_refusal(const struct local *local, const struct lease *lease, int fd,
                        const struct trouble *why)
{
    char session[IDS_TEXT] = "-";
    struct arena keep = { 0 };
    struct ucred peer = { .uid = UINT32_MAX };
    socklen_t len = sizeof(peer);
    count_refusal(why->status);
    if (!atomic_load(&local->access_log))
        return;
    if (lease) {
        hex_write(lease->id, ID_BYTES, session);
        peer.uid = lease->uid;
        peer.pid = lease->pid;
    } else {
        (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    }
    slice sentence = log_sentence(&keep, slice_sub(why->message, 0, LOGGED_BYTES));
    log_access("fill_refused", "session=%.8s uid=%u pid=%d error=%s status=%d why=\"%.*s\"",
               session, peer.uid, peer.pid, why->code, why->status, SLICE_ARG(sentence));
    arena_free(&keep);
}

void lease_refuse(struct lease *lease, const struct message *to, const struct trouble *why)
{
    char *reply = trouble_reply(why, to && to->has_number ? &to->number : NULL);
    lease_note_refusal(lease->worker->local, lease, lease->fd, why);
    lease_send(lease, slice_of(reply));
    free(reply);
}

/* ---- messages ---- */

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static size_t take_fds(struct msghdr *message, int *fds)
{
    size_t count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds + count, CMSG_DATA(part), here * sizeof(int));
        count += here;
    }
    return count;
}

static enum err read_text(const struct lease *lease, slice text, struct arena *keep,
                          struct message *ret, struct trouble *ret_why)
{
    enum err err = message_read(keep, text, lease->worker->local->options.items_max, ret, ret_why);
    metric_add(M_FILL_ITEMS_MAX, err == ERR_LIMIT);
    return err;
}

/* A message that lies in a memfd is copied before it is looked at. */
static bool read_large(struct lease *lease, const struct message *announced, struct arena *keep,
                       int *fds, size_t fd_count, struct message *ret, struct trouble *ret_why)
{
    const struct local_options *options = &lease->worker->local->options;
    uint64_t bytes = announced->large_bytes;
    *ret_why = (struct trouble){ 413, "message_too_large",
                                 arena_printf(keep, "a message in a memfd may have %ju bytes: "
                                              "ask for less at once",
                                              (uintmax_t)options->list_bytes_max) };
    metric_add(M_FILL_LIST, bytes > options->list_bytes_max);
    if (bytes > options->list_bytes_max)
        return false;
    *ret_why = (struct trouble){ 422, "bad_descriptor", S("\"message_bytes\" must come with "
                                 "exactly one memfd, which holds the message from its first byte "
                                 "on") };
    struct stat file;
    if (fd_count != 1 || fstat(fds[0], &file) != 0 || !S_ISREG(file.st_mode))
        return false;
    int seals = fcntl(fds[0], F_GET_SEALS);
    char *text = arena_alloc(keep, bytes + 1);
    if (seals < 0 || pread(fds[0], text, bytes, 0) != (ssize_t)bytes)    /* a memfd: no waiting */
        return false;
    close(fds[0]);
    fds[0] = -1;
    enum err err = read_text(lease, (slice){ text, bytes }, keep, ret, ret_why);
    if (!err && ret->op == OP_LARGE)
        *ret_why = (struct trouble){ 400, "bad_message", S("a message in a memfd must not "
                                     "announce another memfd") };
    return !err && ret->op != OP_LARGE;
}

static void handle(struct lease *lease, slice text, int *fds, size_t fd_count)
{
    struct arena *keep = must_alloc(sizeof(*keep));
    struct message *message = arena_alloc(keep, sizeof(*message));
    struct trouble why;
    bool good = read_text(lease, text, keep, message, &why) == OK;
    if (good && message->op == OP_LARGE) {
        struct message announced = *message;
        good = read_large(lease, &announced, keep, fds, fd_count, message, &why);
        fd_count = fds[0] < 0 ? 0 : fd_count;
    }
    if (good) {
        request_do(lease, message, keep, fds, fd_count);
    } else {
        lease_refuse(lease, message, &why);
        arena_free(keep);
        free(keep);
    }
}

/* False: no further message for now, or the lease has ended. */
static bool receive(struct lease *lease)
{
    int fds[FDS_IN_ONE];
    char control[CMSG_SPACE(sizeof(fds))];
    struct iovec bytes = { lease->worker->inbox, MESSAGE_BYTES_MAX + 1 };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control,
                              .msg_controllen = sizeof(control) };
    ssize_t got = recvmsg(lease->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) {
        lease_end(lease);
        return false;
    }
    size_t fd_count = take_fds(&message, fds);
    struct trouble why = { 413, "message_too_large",
                           S("a message has at most 131072 bytes: put a longer one in a memfd, and "
                             "send {\"message_bytes\": N} with its descriptor") };
    if (message.msg_flags & MSG_CTRUNC || fd_count > MESSAGE_FDS_MAX) {
        why = (struct trouble){ 413, "too_many_descriptors",
                                S("a message may bring at most 128 file descriptors, and Penstock "
                                  "may be out of descriptors of its own: send fewer at once") };
        metric_add(M_FILL_DESCRIPTORS, 1);
        lease_refuse(lease, NULL, &why);
    } else if (message.msg_flags & MSG_TRUNC || (size_t)got > MESSAGE_BYTES_MAX) {
        metric_add(M_FILL_MESSAGE, 1);
        lease_refuse(lease, NULL, &why);
    } else {
        handle(lease, (slice){ lease->worker->inbox, (size_t)got }, fds, fd_count);
    }
    close_all(fds, fd_count);
    return !lease->dead;
}

void lease_ready(struct lease *lease, uint32_t events)
{
    if (events & EPOLLOUT && lease->fd >= 0)
        send_more(lease);
    for (unsigned i = 0; i < MESSAGES_A_TURN && lease->fd >= 0 && receive(lease); i++)
        ;
    lease_settle(lease);
}

/* ---- its beginning and its end ---- */

void lease_begin(struct worker *worker, int fd)
{
    struct local *local = worker->local;
    struct lease *lease = must_alloc(sizeof(*lease));
    struct ucred peer = { .uid = UINT32_MAX };
    socklen_t len = sizeof(peer);
    lease->worker = worker;
    lease->fd = fd;
    lease->hello_ms = mono_ms() + local->options.hello_ms;
    list_init(&lease->buffers);
    list_init(&lease->fills);
    list_init(&lease->out);
    list_init(&lease->turn);
    list_init(&lease->shares);
    list_add(&worker->leases, &lease->link);
    check(getrandom(lease->id, sizeof(lease->id), 0) == sizeof(lease->id));
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = lease };
    epoll_ctl(worker->epoll, EPOLL_CTL_ADD, fd, &event);
    (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    lease->uid = peer.uid;
    lease->pid = peer.pid;
    struct trouble why = { 403, "peer_denied", S("this user may not connect here: name it in the "
                           "setting fill_users") };
    if (!users_allow(local->users, peer.uid)) {
        lease_refuse(lease, NULL, &why);
        lease_end(lease);
    } else if (!(lease->user = users_enter(local->users, peer.uid,
                                           local->options.user_sessions_max))) {
        metric_add(M_FILL_USER_SESSIONS, 1);
        why = (struct trouble){ 429, "quota", S("this user has as many sessions as one user "
                                "may open (a quarter of fill_sessions): close one") };
        lease_refuse(lease, NULL, &why);
        lease_end(lease);
    }
    metric_gauge_add(M_FILL_SESSIONS, 1);
    lease_settle(lease);
}

/* Empties the socket first: if a message is unread at close, the kernel reports a reset to the
 * client in place of the last reply. */
static void hang_up(struct lease *lease)
{
    shutdown(lease->fd, SHUT_RDWR);
    while (recv(lease->fd, lease->worker->inbox, 1, MSG_DONTWAIT) > 0)
        ;
    close(lease->fd);    /* this takes it out of the epoll, too */
}

void lease_end(struct lease *lease)
{
    if (lease->dead)
        return;
    lease->dead = true;
    hang_up(lease);
    lease->fd = -1;
    drop_replies(lease);
    if (atomic_load(&lease->worker->local->draining))    /* the client may still be reading */
        carriers_leave(&lease->carriers);
    carriers_empty(&lease->carriers);
    list_each(struct fill, fill, &lease->fills, link)
        fill_cancel(fill, ERR_CANCELED);
    list_each_safe(struct buffer, buffer, &lease->buffers, link)
        buffer_release(buffer);
}

void lease_settle(struct lease *lease)
{
    struct local *local = lease->worker->local;
    if (!lease->dead || lease->taking || !list_empty(&lease->fills) ||
        !list_empty(&lease->buffers))
        return;
    list_del(&lease->link);
    users_leave(local->users, &lease->user);
    metric_gauge_add(M_FILL_SESSIONS, -1);
    atomic_fetch_sub(&local->sessions, 1);
    arena_free(&lease->keep);
    free(lease);
}

/* ---- deadlines ---- */

uint64_t lease_next_deadline(const struct worker *worker)
{
    uint64_t next_ms = UINT64_MAX;
    list_each(struct lease, lease, &worker->leases, link) {
        if (!lease->known && !lease->dead)
            next_ms = MIN(next_ms, lease->hello_ms);
        next_ms = MIN(next_ms, carriers_next_ms(&lease->carriers));
        list_each(struct fill, fill, &lease->fills, link)
            if (!atomic_load(&fill->canceled))
                next_ms = MIN(next_ms, fill->until_ms);
    }
    return next_ms;
}

/* Counted only where the setting fill_time is the limit, not a shorter deadline of the client. */
static void too_late(struct fill *fill)
{
    uint64_t asked_ms = fill->message->deadline_ms;
    uint64_t time_ms = fill->lease->worker->local->options.time_ms;
    metric_add(M_FILL_TIME, !atomic_load(&fill->canceled) && (!asked_ms || asked_ms > time_ms));
    fill_cancel(fill, ERR_TIMEOUT);
}

void lease_deadlines(struct worker *worker, uint64_t now_ms)
{
    list_each_safe(struct lease, lease, &worker->leases, link) {
        list_each(struct fill, fill, &lease->fills, link)
            if (now_ms >= fill->until_ms)
                too_late(fill);
        if (!lease->known && !lease->dead && now_ms >= lease->hello_ms)
            cut(lease, M_FILL_HELLO, "head_time");
        carriers_expire(&lease->carriers, lease->fd, now_ms);
        lease_settle(lease);
    }
}
