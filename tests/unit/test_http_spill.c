/* test_http_spill.c - bodies on their way to the disk, with a scripted disk and no socket.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <unistd.h>

#include "http/spill.c"

#define CONNS (SEGMENTS_A_LOOP + 3)

static atomic_uint writes;
static atomic_bool disk_goes_on;
static struct conn *woken[CONNS];
static size_t woken_count;

/* ---- what the rest of the room is to it ---- */

struct http_body {
    int refs;
};

bool body_spill(struct http_body *body, size_t at, char *bytes, size_t len)
{
    atomic_fetch_add(&writes, 1);
    while (!atomic_load(&disk_goes_on))
        usleep(1000);
    return true;
}

void body_spilled(struct http_body *body)
{
    (void)body;
}

size_t body_grow(struct http_body *body, size_t bytes)
{
    return 0;
}

struct http_body *http_body_ref(struct http_body *body)
{
    return body;
}

void http_body_unref(struct http_body **body)
{
    *body = NULL;
}

void conn_written(struct conn *conn, bool ok)
{
    list_del(&conn->line);
    woken[woken_count++] = conn;
}

/* ---- a loop and its connections ---- */

static struct http http;
static struct http_loop loop;
static struct conn conns[CONNS];
static struct http_request requests[CONNS];
static struct http_body bodies[CONNS];

static void set_up(void)
{
    woken_count = 0;
    atomic_store(&writes, 0);
    atomic_store(&disk_goes_on, true);
    http = (struct http){ .spill = spill_new() };
    loop = (struct http_loop){ .http = &http, .box = mailbox_new() };
    list_init(&loop.segments.line);
    list_init(&loop.segments.kept);
    for (size_t i = 0; i < CONNS; i++) {
        requests[i].body.content = &bodies[i];
        conns[i] = (struct conn){ .loop = &loop, .request = &requests[i] };
        list_init(&conns[i].line);
    }
}

static void tear_down(void)
{
    workers_free(&http.spill);
    mailbox_deliver(loop.box);
    segments_free(&loop);
    mailbox_free(&loop.box);
}

TEST(when_the_woken_client_leaves_the_next_in_line_is_woken)
{
    struct body_segment *segments[SEGMENTS_A_LOOP];
    set_up();
    for (size_t i = 0; i < SEGMENTS_A_LOOP; i++)
        ok((segments[i] = segment_take(&conns[i])) != NULL);
    struct conn *first = &conns[SEGMENTS_A_LOOP], *second = first + 1, *third = first + 2;
    ok(!segment_take(first) && !segment_take(second) && !segment_take(third));
    segment_give(segments[0]);
    ok(woken_count == 1 && woken[0] == first);
    segment_leave(first);    /* before it took the segment that it was woken for */
    ok(woken_count == 2 && woken[1] == second);
    ok((segments[0] = segment_take(second)) != NULL);
    segment_leave(third);    /* from the line itself */
    ok(woken_count == 2 && list_empty(&loop.segments.line));
    for (size_t i = 0; i < SEGMENTS_A_LOOP; i++)
        segment_give(segments[i]);
    ok(woken_count == 2 && loop.segments.out_count == 0);
    tear_down();
}

TEST(nothing_is_written_for_clients_that_have_gone)
{
    enum { BODIES = 16 };
    set_up();
    atomic_store(&disk_goes_on, false);
    for (size_t i = 0; i < BODIES; i++)
        segment_write(&conns[i], segment_take(&conns[i]), 1000);
    while (atomic_load(&writes) < SPILL_THREADS)
        usleep(1000);
    for (size_t i = 0; i < BODIES; i++)
        segment_leave(&conns[i]);
    atomic_store(&disk_goes_on, true);
    workers_free(&http.spill);
    ok(atomic_load(&writes) == SPILL_THREADS);
    mailbox_deliver(loop.box);
    ok(loop.segments.out_count == 0 && woken_count == 0);
    tear_down();
}

RUN(cmocka_unit_test(when_the_woken_client_leaves_the_next_in_line_is_woken),
    cmocka_unit_test(nothing_is_written_for_clients_that_have_gone))
