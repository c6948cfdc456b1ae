/* spill.c - bodies on their way to the disk, beside the loops. SPDX-License-Identifier: Apache-2.0
 *
 * A disk may stand still, or make those wait who write more than it takes, and a loop has other
 * clients. So a piece of a body that lies in a file is read into memory of its own, and a few
 * threads make the file, give it blocks and write the piece. Meanwhile nothing more of that body is
 * read: its client waits, nobody else. When the request ends, the piece forgets its connection; it
 * has a reference to the body.
 *
 * Each loop has so many pieces at once; who finds none waits in line for the next that comes back.
 * Threads: pieces and their line belong to a loop; one that is being written, to the workers. */
#include "http/inside.h"

#include <stdlib.h>

#define PIECES_A_LOOP 32u           /* at once: 8 MiB */
#define PIECES_KEPT 2u
#define SPILL_THREADS 2u

/* ---- the threads ---- */

static void piece_free(struct piece *piece)
{
    mailbox_unref(&piece->box);
    free(piece);
}

static bool work(struct list *link)
{
    struct piece *piece = list_of(link, struct piece, link);
    piece->failed = !body_spill(piece->body, piece->loop->http->options.spill_folder, piece->at,
                                piece->bytes, piece->len);
    if (!mailbox_post(piece->box, &piece->mail)) {    /* its loop has gone */
        body_unref(&piece->body);
        piece_free(piece);
    }
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
    bool failed = piece->failed;
    if (conn) {
        conn->piece = NULL;
        body_spilled(piece->body);
    }
    body_unref(&piece->body);
    piece_give(piece);
    if (conn)
        conn_written(conn, !failed);
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
    return piece;
}

void piece_write(struct conn *conn, struct piece *piece, size_t bytes)
{
    if (!bytes) {
        piece_give(piece);
        return;
    }
    struct http_body *body = conn->request->body;
    piece->conn = conn;
    conn->piece = piece;
    piece->body = body_ref(body);
    piece->at = body_grow(body, bytes);
    piece->len = bytes;
    workers_put(conn->loop->http->spill, &piece->link);
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
