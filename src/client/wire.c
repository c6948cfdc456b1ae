/* wire.c - messages and errors of the C client. SPDX-License-Identifier: Apache-2.0
 *
 * A message is one JSON object in one packet. An object of more than 128 KiB lies in a memfd, and
 * the packet has the memfd's descriptor and the object's length. A reply has the id of its message.
 * Replies come in any order, so a wait for one reply keeps the replies to other fills.
 * penstock.h says which threads may call these functions. */
#include "inside.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGE_BYTES_MAX (16 << 20)      /* the longest reply in a memfd */

/* ---- errors ---- */

void penstock_check_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "libpenstock: %s:%d: the check \"%s\" failed: this program misuses "
            "the library, see penstock.h\n", file, line, cond);
    abort();
}

int penstock_fail(struct penstock_error *error, const char *code, const char *format, ...)
{
    va_list rest;
    if (!error)
        return -1;
    *error = (struct penstock_error){ .item = PENSTOCK_NO_ITEM };
    snprintf(error->code, sizeof(error->code), "%s", code);
    va_start(rest, format);
    vsnprintf(error->message, sizeof(error->message), format, rest);
    va_end(rest);
    return -1;
}

/* Ends the connection. All further calls will fail with this reason. */
static int lose(struct penstock *client, struct penstock_error *error, const char *what,
                const char *why)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    snprintf(client->why, sizeof(client->why), "%s%s%s; connect again", what, why ? ": " : "",
             why ? why : "");
    return penstock_fail(error, "disconnected", "%s", client->why);
}

int penstock_refused(const json_t *reply, struct penstock_error *error)
{
    const char *code = json_string_value(json_object_get(reply, "error"));
    const char *message = json_string_value(json_object_get(reply, "message"));
    const json_t *first = json_array_get(json_array_get(json_object_get(reply, "errors"), 0), 0);
    penstock_fail(error, code ? code : "bad_reply", "%s", message ? message : "");
    if (error) {
        error->status = (int)json_integer_value(json_object_get(reply, "status"));
        error->item = json_is_integer(first) ? (size_t)json_integer_value(first) : PENSTOCK_NO_ITEM;
    }
    return -1;
}

/* ---- messages ---- */

static int memfd_of(const char *text, size_t len)
{
    int fd = memfd_create("penstock-message", MFD_CLOEXEC);
    for (size_t at = 0; fd >= 0 && at < len;) {
        ssize_t put = write(fd, text + at, len - at);
        if (put < 0) {
            close(fd);
            return -1;
        }
        at += (size_t)put;
    }
    return fd;
}

static bool send_packet(int to, const char *text, size_t len, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec bytes = { (void *)(uintptr_t)text, len };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };
    if (fd >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        *rights = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
                                    .cmsg_len = CMSG_LEN(sizeof(fd)) };
        memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
    }
    ssize_t sent;
    do
        sent = sendmsg(to, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)len;
}

int penstock_ask(struct penstock *client, json_t *take_message, int fd, json_int_t *ret_id,
                 struct penstock_error *error)
{
    *ret_id = ++client->last;
    char *text = take_message && json_object_set_new(take_message, "id", json_integer(*ret_id)) == 0
               ? json_dumps(take_message, JSON_COMPACT) : NULL;
    json_decref(take_message);
    if (!text)
        return penstock_fail(error, "bad_message", "a bucket, key, prefix or other text is not "
                             "UTF-8, or this process is out of memory");
    size_t len = strlen(text);
    char head[64];
    int carrier = -1, lost = 0;
    bool sent;
    if (client->fd < 0) {
        free(text);
        return penstock_fail(error, "disconnected", "%s", client->why);
    }
    if (len <= MESSAGE_BYTES_MAX) {
        sent = send_packet(client->fd, text, len, fd);
    } else {
        carrier = memfd_of(text, len);
        snprintf(head, sizeof(head), "{\"message_bytes\":%zu}", len);
        sent = carrier >= 0 && send_packet(client->fd, head, strlen(head), carrier);
    }
    if (!sent && errno != EPIPE)    /* EPIPE: Penstock closed; its last reply says why */
        lost = lose(client, error, "a message to Penstock could not be sent", strerror(errno));
    if (carrier >= 0)
        close(carrier);
    free(text);
    return lost;
}

static json_t *read_carrier(int fd, json_int_t bytes)
{
    char *text = bytes > 0 && bytes <= LARGE_BYTES_MAX ? malloc((size_t)bytes) : NULL;
    json_t *reply = NULL;
    if (text && pread(fd, text, (size_t)bytes, 0) == (ssize_t)bytes)
        reply = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    return reply;
}

static int rights_of(struct msghdr *message)
{
    int fd = -1;
    struct cmsghdr *part = CMSG_FIRSTHDR(message);
    if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
        part->cmsg_len == CMSG_LEN(sizeof(fd)))
        memcpy(&fd, CMSG_DATA(part), sizeof(fd));
    return fd;
}

/* Returns the next reply, whichever message it answers. On failure returns NULL and sets *error. */
static json_t *receive(struct penstock *client, struct penstock_error *error)
{
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec bytes = { client->inbox, sizeof(client->inbox) };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control,
                              .msg_controllen = sizeof(control) };
    struct pollfd wait = { .fd = client->fd, .events = POLLIN };
    int ready;
    do
        ready = poll(&wait, 1, (int)client->silence_ms);
    while (ready < 0 && errno == EINTR);
    if (ready == 0) {
        penstock_fail(error, "timeout", "Penstock did not answer within %u ms: see Penstock's log, "
                      "or raise silence_ms", client->silence_ms);
        return NULL;
    }
    ssize_t got = recvmsg(client->fd, &message, MSG_CMSG_CLOEXEC);
    if (got <= 0) {
        lose(client, error, "Penstock closed the connection, because it has stopped or a limit was "
             "reached (see Penstock's log)", got < 0 ? strerror(errno) : NULL);
        return NULL;
    }
    int fd = rights_of(&message);
    json_t *reply = message.msg_flags & MSG_TRUNC ? NULL
                  : json_loadb(client->inbox, (size_t)got, JSON_REJECT_DUPLICATES, NULL);
    const json_t *carried = json_object_get(reply, "message_bytes");
    if (carried) {
        json_t *head = reply;
        reply = read_carrier(fd, json_integer_value(carried));
        json_decref(head);
    }
    if (fd >= 0)
        close(fd);
    if (!reply || !json_is_boolean(json_object_get(reply, "ok"))) {
        json_decref(reply);
        lose(client, error, "a reply of Penstock can't be read: raise this process's limits of "
             "open files and memory, or install the libpenstock that has the same version as the "
             "Penstock service", NULL);
        return NULL;
    }
    return reply;
}

/* Keeps the reply of an open fill until the program waits for it. Drops any other reply. */
static void keep_reply(struct penstock *client, json_t *take_reply)
{
    json_int_t id = json_integer_value(json_object_get(take_reply, "id"));
    struct penstock_fill *fill = client->fills;
    while (fill && fill->id != id)
        fill = fill->next;
    if (fill && !fill->reply)
        fill->reply = take_reply;
    else
        json_decref(take_reply);
}

/* Reads until the reply to a message comes. A reply without an id says why the daemon closes the
 * connection. */
json_t *penstock_reply_to(struct penstock *client, json_int_t id, struct penstock_error *error)
{
    while (client->fd >= 0) {
        json_t *reply = receive(client, error);
        if (!reply)
            return NULL;
        const json_t *answered = json_object_get(reply, "id");
        if (!answered || json_integer_value(answered) == id)
            return reply;
        keep_reply(client, reply);
    }
    penstock_fail(error, "disconnected", "%s", client->why);
    return NULL;
}

json_t *penstock_say(struct penstock *client, json_t *take_message, int fd,
                     struct penstock_error *error)
{
    json_int_t id;
    if (penstock_ask(client, take_message, fd, &id, error))
        return NULL;
    json_t *reply = penstock_reply_to(client, id, error);
    if (reply && !json_is_true(json_object_get(reply, "ok"))) {
        penstock_refused(reply, error);
        json_decref(reply);
        return NULL;
    }
    return reply;
}
