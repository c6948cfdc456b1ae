/* send_file.c - writes bytes of a file to a connection. SPDX-License-Identifier: Apache-2.0
 *
 * sendfile gives pages of the page cache to the socket, so no byte is copied. */
#include <errno.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "http/inside.h"

static struct reply_file *file_of(struct conn *conn)
{
    return &conn->request->reply.file;
}

static void on_done(h2o_socket_t *sock, const char *err)
{
    struct reply_file *file = file_of(conn_of(sock));
    file->done(sock, file->failed ? file->failed : err);
}

static void on_room(h2o_socket_t *sock, const char *err);

/* Sends from memory, and cuts off what was sent. */
static ssize_t put_memory(int fd, slice *bytes, int flags)
{
    ssize_t sent = send(fd, bytes->ptr, bytes->len, MSG_DONTWAIT | MSG_NOSIGNAL | flags);
    *bytes = slice_from(*bytes, (size_t)MAX(sent, 0));
    return sent;
}

/* If the disk has failed, the bytes are still right in memory: locked pages outlive it. */
static ssize_t put_bytes(struct reply_file *file, int fd)
{
    ssize_t sent = sendfile(fd, file->fd, &file->at, file->left.len);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        sent = put_memory(fd, &file->left, 0);
        file->at += MAX(sent, 0);
        return sent;
    }
    file->left = slice_from(file->left, (size_t)MAX(sent, 0));
    return sent;
}

/* Returns false if the socket has no room now. */
static bool put(struct reply_file *file, int fd)
{
    while (file->left.len && !file->failed) {
        ssize_t sent = file->head.len ? put_memory(fd, &file->head, MSG_MORE) : put_bytes(file, fd);
        if (sent < 0 && errno == EAGAIN)
            return false;
        if (sent == 0 || (sent < 0 && errno != EINTR))
            file->failed = "sending a file failed";    /* sent 0: the file was truncated */
    }
    return true;
}

static void push(struct conn *conn)
{
    struct reply_file *file = file_of(conn);
    int fd = h2o_socket_get_fd(conn->sock);
    if (put(file, fd))
        h2o_socket_write(conn->sock, NULL, 0, on_done);    /* on_done comes next turn */
    else
        h2o_socket_notify_write(conn->sock, on_room);
}

static void on_room(h2o_socket_t *sock, const char *err)
{
    struct conn *conn = conn_of(sock);
    if (err)
        file_of(conn)->failed = err;
    push(conn);
}

void conn_write_file(struct conn *conn)
{
    check(conn->sock && !conn->session && conn->request);
    push(conn);
}
