/* spill.c - bodies on their way to the disk, beside the loops. SPDX-License-Identifier: Apache-2.0
 *
 * A disk may stand still, or make those wait who write more than it takes, and a loop has other
 * clients. So a piece of a body that lies in a file is read into memory of its own, and a few
 * threads make the file, give it blocks and write the piece. Meanwhile nothing more of that body is
 * read: its client waits, nobody else. A piece forgets its connection when the request ends.
 *
 * Each loop has so many pieces at once; who finds none waits in line for the next that comes back.
 * Threads: pieces and their line belong to a loop; one that is being written, to the workers. */
#include "http/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECES_A_LOOP 32u           /* at once: 8 MiB */
#define PIECES_KEPT 2u
#define SPILL_THREADS 2u
#define ALLOCATE_BYTES (8 * MIB)    /* of a file, ahead of what is written */

/* ---- a file: calls that may wait for the disk, and fail where its map would fault ---- */

static int open_file(const char *folder)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/body.XXXXXX", folder);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* Room on the disk for what comes next, ahead of it: a full one is seen here. */
static bool allocate(int fd, size_t until, size_t whole, size_t *allocated)
{
    if (until <= *allocated)
        return true;
    size_t to = MIN(whole, MAX(until, *allocated + ALLOCATE_BYTES));
    if (posix_fallocate(fd, (off_t)*allocated, (off_t)(to - *allocated)))
        return false;
    *allocated = to;
    return true;
}

static bool put_bytes(int fd, size_t at, slice bytes, size_t whole, size_t *allocated)
{
    if (!allocate(fd, at + bytes.len, whole, allocated))
        return false;
    while (bytes.len) {
        ssize_t put = pwrite(fd, bytes.ptr, bytes.len, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        bytes = slice_from(bytes, (size_t)put);
        at += (size_t)put;
    }
    return true;
}

/* ---- the threads ---- */

/* A descriptor is closed here: that, too, may wait for the disk. */
static void write_piece(struct piece *piece)
{
    if (!piece->data.len) {    /* the file that was made for it is nobody's any more */
        close(piece->made);
        piece->made = -1;
        return;
    }
    if (piece->fd < 0)
        piece->made = open_file(piece->loop->http->options.spill_folder);
    int fd = piece->fd < 0 ? piece->made : piece->fd;
    piece->failed =
        fd < 0 || !put_bytes(fd, piece->at, piece->data, piece->whole, &piece->allocated);
    if (piece->fd >= 0)
        close(piece->fd);
    piece->fd = -1;
}

static void piece_free(struct piece *piece)
{
    if (piece->made >= 0)
        close(piece->made);
    mailbox_unref(&piece->box);
    free(piece);
}

static bool work(struct list *link)
{
    struct piece *piece = list_of(link, struct piece, link);
    write_piece(piece);
    if (!mailbox_post(piece->box, &piece->mail))
        piece_free(piece);    /* its loop has gone */
    return true;
}

struct workers *spill_new(void)
{
    return workers_new(SPILL_THREADS, "spill", work);
}

/* ---- a loop's pieces ---- */

static void deliver(struct mail *mail)
{
    struct piece *piece = container_of(mail, struct piece, mail);
    struct conn *conn = piece->conn;
    bool written = conn && body_written(conn, piece);
    piece->conn = NULL;
    if (conn)
        conn->piece = NULL;
    piece->data.len = 0;
    if (piece->made >= 0)
        piece_write(piece);    /* nobody took it */
    else
        piece_give(piece);
    if (conn)
        conn_written(conn, written);
}

struct piece *piece_take(struct conn *conn)
{
    struct http_loop *loop = conn->loop;
    check(!conn->piece);
    list_del(&conn->line);
    if (loop->pieces_out == PIECES_A_LOOP) {
        list_add(&loop->line, &conn->line);
        return NULL;
    }
    loop->pieces_out++;
    struct piece *piece;
    if (list_empty(&loop->pieces)) {
        check((piece = malloc(sizeof(*piece))) != NULL);
        piece->box = mailbox_ref(loop->box);
    } else {
        piece = list_of(loop->pieces.next, struct piece, link);
        list_del(&piece->link);
        loop->pieces_kept--;
    }
    list_init(&piece->link);
    piece->mail.deliver = deliver;
    piece->loop = loop;
    piece->fd = piece->made = -1;
    piece->conn = NULL;
    return piece;
}

void piece_write(struct piece *piece)
{
    workers_put(piece->loop->http->spill, &piece->link);
}

void piece_give(struct piece *piece)
{
    struct http_loop *loop = piece->loop;
    loop->pieces_out--;
    if (loop->pieces_kept < PIECES_KEPT) {
        loop->pieces_kept++;
        list_add(&loop->pieces, &piece->link);
    } else {
        piece_free(piece);
    }
    if (!list_empty(&loop->line))
        conn_written(list_of(loop->line.next, struct conn, line), true);
}

void piece_leave(struct conn *conn)
{
    list_del(&conn->line);
    if (conn->piece)
        conn->piece->conn = NULL;
    conn->piece = NULL;
}

void pieces_free(struct http_loop *loop)
{
    list_each_safe(struct piece, piece, &loop->pieces, link)
        piece_free(piece);
    list_init(&loop->pieces);
}
