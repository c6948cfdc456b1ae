/* session.c - a connection, its buffers and its fills. SPDX-License-Identifier: Apache-2.0
 *
 * A session is one connection to the fill socket (local.h). The kernel reports which user is at the
 * other end (SO_PEERCRED). The client's first message, "hello", proves which objects the session
 * may read. When the connection ends, for whatever reason, its fills are cancelled. Each of its
 * buffers is released when the last fill into it has ended; after that nothing of the client is
 * left. Replies are sent at once, or wait for room in the socket. A client that does not receive
 * its replies is cut off.
 * Threads: a session belongs to one worker thread, its keeper (inside.h). Only the keeper calls
 * these functions. */
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
#define LARGE_HEAD_BYTES 65536        /* the padding in send_large: three messages fill a socket */
#define MESSAGES_A_TURN 16u           /* of one session, before the worker handles other events */
#define LOGGED_BYTES 200u             /* bytes of a refusal's sentence that are logged */

struct reply {
    struct list link;
    slice text;
};

/* ---- replies ---- */

/* A reply that is too large for one message is sent in a memfd, as clients send large messages. No
 * limit counts the memory of such memfds. So the message that announces the memfd is padded: then
 * the socket of a client that does not read has room for only a few such messages. */
static ssize_t send_large(struct session *session, slice text)
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
    ssize_t sent = sendmsg(session->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    int why = errno;
    if (sent < 0)
        close(carrier);
    else
        carriers_keep(&session->outbox.carriers, carrier, mono_ms());
    arena_free(&keep);
    errno = why;
    return sent;
}

static ssize_t send_now(struct session *session, slice text)
{
    if (text.len > MESSAGE_BYTES_MAX)
        return send_large(session, text);
    return send(session->fd, text.ptr, text.len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void watch(struct session *session, bool out)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | (out ? EPOLLOUT : 0),
                                 .data.ptr = session };
    if (session->outbox.wants_room != out)
        epoll_ctl(session->worker->epoll, EPOLL_CTL_MOD, session->fd, &event);
    session->outbox.wants_room = out;
}

static void drop_replies(struct outbox *outbox)
{
    list_each_safe(struct reply, reply, &outbox->replies, link)
        free(reply);
    list_init(&outbox->replies);
    outbox->bytes = 0;
}

static void wait_for_room(struct session *session, slice text)
{
    struct reply *reply = must_alloc(sizeof(*reply) + text.len);
    reply->text = (slice){ (char *)(reply + 1), slice_put((char *)(reply + 1), text) };
    list_add(&session->outbox.replies, &reply->link);
    session->outbox.bytes += text.len;
    watch(session, true);
}

/* Ends a session without a reply, because the client sent no hello, or does not receive its
 * replies. */
static void cut(struct session *session, enum metric counter, const char *limit)
{
    char id[IDS_TEXT];
    hex_write(session->id, ID_BYTES, id);
    metric_add(counter, 1);
    if (atomic_load(&session->worker->local->access_log))
        log_access("fill_cut", "session=%.8s uid=%u pid=%d limit=%s", id, session->client.peer.uid,
                   session->client.peer.pid, limit);
    session_end(session);
}

void session_send(struct session *session, slice text)
{
    const struct local_options *options = &session->worker->local->options;
    const struct outbox *outbox = &session->outbox;
    if (session->fd < 0)
        return;
    if (list_empty(&outbox->replies) && send_now(session, text) >= 0)
        return;
    bool full = !list_empty(&outbox->replies) || errno == EAGAIN || errno == ENOBUFS;
    if (full && outbox->bytes + text.len <= options->replies_bytes_max) {
        wait_for_room(session, text);
        return;
    }
    if (full)
        cut(session, M_FILL_REPLIES, "fill_replies");
    else
        session_end(session);
}

static void send_more(struct session *session)
{
    struct outbox *outbox = &session->outbox;
    while (!list_empty(&outbox->replies)) {
        struct reply *reply = list_of(outbox->replies.next, struct reply, link);
        if (send_now(session, reply->text) < 0)
            break;
        list_del(&reply->link);
        outbox->bytes -= reply->text.len;
        free(reply);
    }
    if (list_empty(&outbox->replies))
        watch(session, false);
    else if (errno != EAGAIN && errno != ENOBUFS)
        session_end(session);
}

static struct ucred peer_of(int fd)
{
    struct ucred peer = { .uid = UINT32_MAX };
    socklen_t len = sizeof(peer);
    (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    return peer;
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

void session_note_refusal(const struct local *local, const struct session *session, int fd,
                          const struct trouble *why)
{
    char id[IDS_TEXT] = "-";
    struct arena keep = { 0 };
    count_refusal(why->status);
    if (!atomic_load(&local->access_log))
        return;
    struct ucred peer = session ? session->client.peer : peer_of(fd);
    if (session)
        hex_write(session->id, ID_BYTES, id);
    slice sentence = log_sentence(&keep, slice_sub(why->message, 0, LOGGED_BYTES));
    log_access("fill_refused", "session=%.8s uid=%u pid=%d error=%s status=%d why=\"%.*s\"",
               id, peer.uid, peer.pid, why->code, why->status, SLICE_ARG(sentence));
    arena_free(&keep);
}

void session_answer(struct session *session, const struct message *to, json_t *take_reply)
{
    check(take_reply != NULL);
    if (!json_object_get(take_reply, "ok"))
        json_object_set_new(take_reply, "ok", json_true());
    if (to && to->has_number)
        json_object_set_new(take_reply, "id", json_integer(to->number));
    char *text = json_dumps(take_reply, JSON_COMPACT);
    check(text != NULL);
    session_send(session, slice_of(text));
    free(text);
    json_decref(take_reply);
}

json_t *id_json(const uint8_t id[ID_BYTES])
{
    char text[IDS_TEXT];
    hex_write(id, ID_BYTES, text);
    return json_stringn(text, sizeof(text));
}

void session_refuse(struct session *session, const struct message *to, const struct trouble *why)
{
    session_note_refusal(session->worker->local, session, session->fd, why);
    session_answer(session, to, trouble_reply(why));
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

static enum err read_text(const struct session *session, slice text, struct arena *keep,
                          struct message *ret, struct trouble *ret_why)
{
    size_t items_max = session->worker->local->options.items_max;
    enum err err = message_read(keep, text, items_max, ret, ret_why);
    metric_add(M_FILL_ITEMS_MAX, err == ERR_LIMIT);
    return err;
}

/* A message that lies in a memfd is copied before it is read, so that the client can't change
 * it. */
static bool read_large(struct session *session, const struct message *announced, struct arena *keep,
                       int *fds, size_t fd_count, struct message *ret, struct trouble *ret_why)
{
    const struct local_options *options = &session->worker->local->options;
    uint64_t bytes = announced->large_bytes;
    *ret_why = (struct trouble){ 413, "message_too_large",
                                 arena_printf(keep, "a message in a memfd may have at most %ju "
                                              "bytes: ask for fewer items at once",
                                              (uintmax_t)options->list_bytes_max) };
    metric_add(M_FILL_LIST, bytes > options->list_bytes_max);
    if (bytes > options->list_bytes_max)
        return false;
    *ret_why = (struct trouble){ 422, "bad_descriptor", S("\"message_bytes\" must come with "
                                 "exactly one memfd, which has at least \"message_bytes\" bytes "
                                 "and begins with the message") };
    struct stat file;
    if (fd_count != 1 || fstat(fds[0], &file) != 0 || !S_ISREG(file.st_mode))
        return false;
    int seals = fcntl(fds[0], F_GET_SEALS);
    char *text = arena_alloc(keep, bytes + 1);
    /* A read from a memfd does not wait for a disk. */
    if (seals < 0 || pread(fds[0], text, bytes, 0) != (ssize_t)bytes)
        return false;
    close(fds[0]);
    fds[0] = -1;
    enum err err = read_text(session, (slice){ text, bytes }, keep, ret, ret_why);
    if (!err && ret->op == OP_LARGE)
        *ret_why = (struct trouble){ 400, "bad_message", S("the message in the memfd has the "
                                     "member \"message_bytes\", which only the message on the "
                                     "socket may have. Put the request itself into the memfd") };
    return !err && ret->op != OP_LARGE;
}

static void handle(struct session *session, slice text, int *fds, size_t fd_count)
{
    struct arena *keep = must_alloc(sizeof(*keep));
    struct message *message = arena_alloc(keep, sizeof(*message));
    struct trouble why;
    bool good = read_text(session, text, keep, message, &why) == OK;
    if (good && message->op == OP_LARGE) {
        struct message announced = *message;
        good = read_large(session, &announced, keep, fds, fd_count, message, &why);
        fd_count = fds[0] < 0 ? 0 : fd_count;
    }
    if (good) {
        request_do(session, message, keep, fds, fd_count);
    } else {
        session_refuse(session, message, &why);
        arena_free(keep);
        free(keep);
    }
}

/* Returns false if no further message is there for now, or the session has ended. */
static bool receive(struct session *session)
{
    int fds[FDS_IN_ONE];
    char control[CMSG_SPACE(sizeof(fds))];
    struct iovec bytes = { session->worker->inbox, MESSAGE_BYTES_MAX + 1 };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control,
                              .msg_controllen = sizeof(control) };
    ssize_t got = recvmsg(session->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) {
        session_end(session);
        return false;
    }
    size_t fd_count = take_fds(&message, fds);
    struct trouble why = { 413, "message_too_large",
                           S("a message may have at most 131072 bytes: put a longer message into "
                             "a memfd, and send {\"message_bytes\": N} with the file descriptor") };
    if (message.msg_flags & MSG_CTRUNC || fd_count > MESSAGE_FDS_MAX) {
        why = (struct trouble){ 413, "too_many_descriptors",
                                S("the message has more than 128 file descriptors, or Penstock has "
                                  "no descriptors left to receive them: send fewer descriptors at "
                                  "once, or raise Penstock's limit of open files (LimitNOFILE)") };
        metric_add(M_FILL_DESCRIPTORS, 1);
        session_refuse(session, NULL, &why);
    } else if (message.msg_flags & MSG_TRUNC || (size_t)got > MESSAGE_BYTES_MAX) {
        metric_add(M_FILL_MESSAGE, 1);
        session_refuse(session, NULL, &why);
    } else {
        handle(session, (slice){ session->worker->inbox, (size_t)got }, fds, fd_count);
    }
    close_all(fds, fd_count);
    return !session->dead;
}

void session_ready(struct session *session, uint32_t events)
{
    if (events & EPOLLOUT && session->fd >= 0)
        send_more(session);
    for (unsigned i = 0; i < MESSAGES_A_TURN && session->fd >= 0 && receive(session); i++)
        ;
    session_settle(session);
}

/* ---- beginning and end ---- */

/* Counts the session among those of its user. */
static bool may_stay(struct session *session, struct trouble *ret_why)
{
    struct local *local = session->worker->local;
    struct session_client *client = &session->client;
    if (!users_allow(local->users, client->peer.uid))
        return refused(ret_why, 403, "peer_denied", arena_printf(&client->keep, "the user with "
                       "uid %u may not connect here: add this user to the setting fill_users, and "
                       "restart Penstock", (unsigned)client->peer.uid));
    client->user = users_enter(local->users, client->peer.uid, local->options.user_sessions_max);
    if (client->user)
        return true;
    metric_add(M_FILL_USER_SESSIONS, 1);
    return refused(ret_why, 429, "quota", S("this user has as many sessions as one user may open "
                   "(a quarter of fill_sessions): close a session"));
}

void session_begin(struct worker *worker, int fd)
{
    struct local *local = worker->local;
    struct session *session = must_alloc(sizeof(*session));
    struct trouble why;
    session->worker = worker;
    session->fd = fd;
    session->client.peer = peer_of(fd);
    session->client.hello_ms = mono_ms() + local->options.hello_ms;
    list_init(&session->buffers);
    list_init(&session->fills);
    list_init(&session->outbox.replies);
    list_init(&session->turn);
    list_init(&session->shares);
    list_add(&worker->sessions, &session->link);
    check(getrandom(session->id, sizeof(session->id), 0) == sizeof(session->id));
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = session };
    epoll_ctl(worker->epoll, EPOLL_CTL_ADD, fd, &event);
    if (!may_stay(session, &why)) {
        session_refuse(session, NULL, &why);
        session_end(session);
    }
    metric_gauge_add(M_FILL_SESSIONS, 1);
    session_settle(session);
}

/* Empties the socket before the close. If a message were still unread at the close, the kernel
 * would report a reset to the client in place of the last reply. */
static void hang_up(struct session *session)
{
    shutdown(session->fd, SHUT_RDWR);
    while (recv(session->fd, session->worker->inbox, 1, MSG_DONTWAIT) > 0)
        ;
    close(session->fd);    /* this also removes it from the epoll */
}

void session_end(struct session *session)
{
    if (session->dead)
        return;
    session->dead = true;
    hang_up(session);
    session->fd = -1;
    drop_replies(&session->outbox);
    carriers_end(&session->outbox.carriers, !atomic_load(&session->worker->local->draining));
    list_each(struct fill, fill, &session->fills, link)
        fill_cancel(fill, ERR_CANCELED);
    list_each_safe(struct buffer, buffer, &session->buffers, link)
        buffer_release(buffer);
}

void session_settle(struct session *session)
{
    struct local *local = session->worker->local;
    if (!session->dead || session->taking || !list_empty(&session->fills) ||
        !list_empty(&session->buffers))
        return;
    check(session->fill_count == 0 && session->buffer_count == 0 && session->outbox.bytes == 0);
    check(list_empty(&session->shares) && atomic_load(&session->running) == 0);
    list_del(&session->link);
    users_leave(local->users, &session->client.user);
    metric_gauge_add(M_FILL_SESSIONS, -1);
    check(atomic_fetch_sub(&local->sessions, 1) > 0);
    arena_free(&session->client.keep);
    free(session);
}

/* ---- deadlines ---- */

uint64_t session_next_deadline(const struct worker *worker)
{
    uint64_t next_ms = UINT64_MAX;
    list_each(struct session, session, &worker->sessions, link) {
        const struct session_client *client = &session->client;
        if (!client->identified && !session->dead)
            next_ms = MIN(next_ms, client->hello_ms);
        next_ms = MIN(next_ms, carriers_next_ms(&session->outbox.carriers));
        list_each(struct fill, fill, &session->fills, link)
            if (!atomic_load(&fill->canceled))
                next_ms = MIN(next_ms, fill->until_ms);
    }
    return next_ms;
}

/* Counts the event only if the setting fill_time was the limit, not a shorter deadline of the
 * client. */
static void too_late(struct fill *fill)
{
    uint64_t asked_ms = fill->message->deadline_ms;
    uint64_t time_ms = fill->session->worker->local->options.time_ms;
    metric_add(M_FILL_TIME, !atomic_load(&fill->canceled) && (!asked_ms || asked_ms > time_ms));
    fill_cancel(fill, ERR_TIMEOUT);
}

void session_deadlines(struct worker *worker, uint64_t now_ms)
{
    list_each_safe(struct session, session, &worker->sessions, link) {
        const struct session_client *client = &session->client;
        list_each(struct fill, fill, &session->fills, link)
            if (now_ms >= fill->until_ms)
                too_late(fill);
        if (!client->identified && !session->dead && now_ms >= client->hello_ms)
            cut(session, M_FILL_HELLO, "head_time");
        carriers_expire(&session->outbox.carriers, session->fd, now_ms);
        session_settle(session);
    }
}
