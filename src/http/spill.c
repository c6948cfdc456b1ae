/* spill.c - bodies on their way to the disk, beside the loops. SPDX-License-Identifier: Apache-2.0
 *
 * A disk may stand still, or make those wait who write more than it takes, and a loop has other
 * clients. So a piece of a body that lies in a file is read into memory of its own, and a few
 * threads make the file, give it blocks and write the piece. Meanwhile nothing more of that body is
 * read: its client waits, nobody else. A piece forgets its connection when the request ends.
 *
 * Each loop has so many pieces at once; who finds none waits in line for the next that comes back.
 * Threads: pieces and their line belong to a loop; the queue is locked. */
#include "http/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/thread.h"

#define PIECES_A_LOOP 32u           /* at once: 8 MiB */
#define PIECES_KEPT 2u
#define ALLOCATE_BYTES (8 * MIB)    /* of a file, ahead of what is written */

struct spill {                          /* the threads */
    const char *folder;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct list queue;                  /* of struct piece */
    bool stopping;
    unsigned count;
    pthread_t threads[2];
};

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
static void write_piece(const struct spill *spill, struct piece *piece)
{
    if (!piece->data.len) {    /* the file that was made for it is nobody's any more */
        close(piece->made);
        piece->made = -1;
        return;
    }
    if (piece->fd < 0)
        piece->made = open_file(spill->folder);
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

/* NULL: there is none, and there will be none. */
static struct piece *take(struct spill *spill)
{
    struct piece *piece = NULL;
    pthread_mutex_lock(&spill->lock);
    while (list_empty(&spill->queue) && !spill->stopping)
        pthread_cond_wait(&spill->wake, &spill->lock);
    if (!list_empty(&spill->queue)) {
        piece = list_of(spill->queue.next, struct piece, link);
        list_del(&piece->link);
    }
    pthread_mutex_unlock(&spill->lock);
    return piece;
}

static void *run(void *arg)
{
    struct spill *spill = arg;
    for (struct piece *piece; (piece = take(spill)) != NULL;) {
        write_piece(spill, piece);
        if (!mailbox_post(piece->box, &piece->mail))
            piece_free(piece);    /* its loop has gone */
    }
    return NULL;
}

struct spill *spill_new(const char *folder)
{
    struct spill *spill = must_alloc(sizeof(*spill));
    spill->folder = folder;
    check(pthread_mutex_init(&spill->lock, NULL) == 0);
    check(pthread_cond_init(&spill->wake, NULL) == 0);
    list_init(&spill->queue);
    while (spill->count < countof(spill->threads) &&
           thread_start(&spill->threads[spill->count], run, spill, "spill-%u", spill->count))
        spill->count++;
    if (spill->count < countof(spill->threads))
        spill_free(&spill);
    return spill;
}

void spill_free(struct spill **spill)
{
    if (!*spill)
        return;
    pthread_mutex_lock(&(*spill)->lock);
    (*spill)->stopping = true;
    pthread_cond_broadcast(&(*spill)->wake);
    pthread_mutex_unlock(&(*spill)->lock);
    for (unsigned i = 0; i < (*spill)->count; i++)
        pthread_join((*spill)->threads[i], NULL);
    pthread_cond_destroy(&(*spill)->wake);
    pthread_mutex_destroy(&(*spill)->lock);
    free(*spill);
    *spill = NULL;
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
    struct spill *spill = piece->loop->http->spill;
    pthread_mutex_lock(&spill->lock);
    list_add(&spill->queue, &piece->link);
    pthread_cond_signal(&spill->wake);
    pthread_mutex_unlock(&spill->lock);
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
