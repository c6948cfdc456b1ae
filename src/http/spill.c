/* spill.c - writes request bodies to files, on threads of its own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A write to a file may block: the disk may hang, or be slower than its writer. A loop has other
 * clients, so it never writes to a file itself. It reads the next bytes of the body into a segment,
 * which has memory of its own. A spill thread creates the file, allocates its blocks and writes the
 * segment. Until the segment is written, the loop reads nothing more of that body: only the client
 * of that body waits. When the request ends, the segment forgets its connection, but keeps its
 * reference to the body.
 *
 * Each loop has a limited number of segments. A connection that finds no free segment waits in a
 * line. A segment that becomes free wakes the first connection of the line.
 * Threads: segments and the line belong to a loop. While a segment is written, it belongs to a
 * spill thread. */
#include "http/inside.h"

#include <stdlib.h>

#define SEGMENTS_A_LOOP 32u         /* in use at once: 8 MiB */
#define SEGMENTS_KEPT 2u
#define SPILL_THREADS 2u

/* ---- the threads ---- */

static bool work(struct list *link)
{
    struct body_segment *segment = list_of(link, struct body_segment, link);
    segment->failed = atomic_load(&segment->abandoned) ||
                      !body_spill(segment->body, segment->at, segment->bytes, segment->len);
    check(mailbox_post(segment->loop->box, &segment->mail));
    return true;
}

struct workers *spill_new(void)
{
    return workers_new(SPILL_THREADS, "spill", work);
}

/* ---- a loop's segments ---- */

static void deliver(struct mail *mail)
{
    struct body_segment *segment = container_of(mail, struct body_segment, mail);
    struct conn *conn = segment->conn;
    bool failed = segment->failed;
    check(!conn || conn->segment == segment);
    if (conn) {
        conn->segment = NULL;
        body_spilled(segment->body);
    }
    http_body_unref(&segment->body);
    segment_give(segment);
    if (conn)
        conn_written(conn, !failed);
}

/* If a segment is free, wakes the first connection of the line, which takes it in its next turn. */
static void wake_next(struct segment_pool *pool)
{
    if (!list_empty(&pool->line) && pool->out_count < SEGMENTS_A_LOOP)
        conn_written(list_of(pool->line.next, struct conn, line), true);
}

struct body_segment *segment_take(struct conn *conn)
{
    struct http_loop *loop = conn->loop;
    struct segment_pool *pool = &loop->segments;
    check(!conn->segment && pool->out_count <= SEGMENTS_A_LOOP);
    list_del(&conn->line);
    if (pool->out_count == SEGMENTS_A_LOOP) {
        list_add(&pool->line, &conn->line);
        return NULL;
    }
    pool->out_count++;
    struct body_segment *segment;
    if (list_empty(&pool->kept)) {
        check((segment = malloc(sizeof(*segment))) != NULL);
        segment->mail.deliver = deliver;
        segment->loop = loop;
    } else {
        segment = list_of(list_take(&pool->kept), struct body_segment, link);
        pool->kept_count--;
    }
    list_init(&segment->link);
    atomic_store(&segment->abandoned, false);
    return segment;
}

void segment_write(struct conn *conn, struct body_segment *segment, size_t bytes)
{
    if (!bytes) {
        segment_give(segment);
        return;
    }
    struct http_body *body = conn->request->body.content;
    check(bytes <= BODY_SEGMENT_BYTES && !conn->segment);
    segment->conn = conn;
    conn->segment = segment;
    segment->body = http_body_ref(body);
    segment->at = body_grow(body, bytes);
    segment->len = bytes;
    workers_put(conn->loop->http->spill, &segment->link);
}

void segment_give(struct body_segment *segment)
{
    struct segment_pool *pool = &segment->loop->segments;
    check(pool->out_count > 0 && list_empty(&segment->link));
    pool->out_count--;
    if (pool->kept_count < SEGMENTS_KEPT) {
        pool->kept_count++;
        list_add(&pool->kept, &segment->link);
    } else {
        free(segment);
    }
    wake_next(pool);
}

void segment_leave(struct conn *conn)
{
    list_del(&conn->line);
    if (conn->segment) {
        conn->segment->conn = NULL;
        atomic_store(&conn->segment->abandoned, true);
    }
    conn->segment = NULL;
    /* This connection may have been woken, and taken no segment. */
    wake_next(&conn->loop->segments);
}

void segments_free(struct http_loop *loop)
{
    list_each_safe(struct body_segment, segment, &loop->segments.kept, link)
        free(segment);
    list_init(&loop->segments.kept);
}
