/* request.c - one request, from its judged head to the end of its answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It lives in its own arena, with a copy of the head as it was sent: the library lower-cases names
 * in place and hides five fields that clients sign. A body is taken out of the connection's buffer,
 * so that it can outlive the connection (http_body_hold). */
#include "http/inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Slices of `from` point into its bytes: made to point into the copy. */
static void copy_head(struct http_request *request, const struct http_head *from)
{
    struct http_head *head = &request->head;
    const char *base = from->method.ptr;    /* the first byte of a head is its method's */
    const char *copy = arena_copy(&request->arena, (slice){ base, from->bytes }).ptr;
    memcpy(head, from, offsetof(struct http_head, fields));
    slice *moved[] = { &head->method, &head->target, &head->path, &head->query, &head->host };
    for (size_t i = 0; i < countof(moved); i++)
        if (moved[i]->ptr)
            moved[i]->ptr = copy + (moved[i]->ptr - base);
    for (size_t i = 0; i < from->field_count; i++) {
        struct http_field field = from->fields[i];
        head->fields[i].name = (slice){ copy + (field.name.ptr - base), field.name.len };
        head->fields[i].value = (slice){ copy + (field.value.ptr - base), field.value.len };
    }
}

struct http_request *request_new(struct conn *conn, const struct http_head *head)
{
    struct arena arena = { 0 };
    struct http_request *request = arena_alloc(&arena, sizeof(*request));
    request->magic = REQUEST_MAGIC;
    request->arena = arena;
    request->conn = conn;
    request->began_ns = mono_ns();
    copy_head(request, head);
    return request;
}

/* The whole buffer goes to the body and the library keeps one that only has the right size: it
 * looks at nothing but that when it consumes the request, and frees it like any other. */
static void take_body(struct http_request *request, h2o_iovec_t entity)
{
    static h2o_buffer_prototype_t unpooled;    /* freed by any thread */
    h2o_socket_t *sock = request->conn->sock;
    h2o_buffer_t *buffer = sock->input;
    h2o_buffer_t *stand_in = h2o_mem_alloc(sizeof(*stand_in));
    *stand_in = (h2o_buffer_t){ .capacity = 1, .size = buffer->size, ._fd = -1 };
    stand_in->bytes = stand_in->_buf;
    stand_in->_prototype = &h2o_socket_buffer_prototype;
    sock->input = stand_in;

    struct http_body *body = must_alloc(sizeof(*body));
    body->magic = BODY_MAGIC;
    atomic_init(&body->holds, 1);
    body->buffer = buffer;
    h2o_buffer_set_prototype(&body->buffer, &unpooled);
    body->bytes = (slice){ entity.base, entity.len };
    request->body = body;
}

int request_handle(h2o_handler_t *self, h2o_req_t *library)
{
    struct conn *conn = conn_of(library->conn->callbacks->get_socket(library->conn));
    struct http_request *request = conn->request;
    const struct http_app *app = &conn->listener->bound->app;
    struct http *http = conn->loop->http;
    check(request && !request->library && conn->phase == PHASE_BODY);
    conn->phase = PHASE_REQUEST;
    timed_stop(&conn->timed);
    request->library = library;
    /* What comes behind a chunked body, a lenient parser found: nothing is read from there. */
    if (request->head.chunked || request->head.close || atomic_load(&http->draining))
        library->http1_is_persistent = 0;
    if (library->entity.len)
        take_body(request, library->entity);
    atomic_fetch_add(&http->requests, 1);
    app->handle(app->arg, request);
    return 0;
}

void request_end(struct http_request **ended, bool complete)
{
    struct http_request *request = *ended;
    *ended = NULL;
    check(request->magic == REQUEST_MAGIC);
    if (request->library)
        atomic_fetch_sub(&request->conn->loop->http->requests, 1);
    const struct http_source *source = request->source;
    request->source = NULL;
    if (source && !complete && source->stop)
        source->stop(request->source_arg);
    if (request->ended) {
        struct http_outcome outcome = {
            .status = request->status,
            .body_bytes_sent = request->sent_bytes,
            .complete = complete,
            .took_ns = mono_ns() - request->began_ns,
        };
        request->ended(request->ended_arg, &outcome);
    }
    http_body_release(&request->body);
    request->magic = 0;
    struct arena arena = request->arena;    /* the request lies in it */
    arena_free(&arena);
}

/* ---- what the apps see ---- */

struct http_loop *http_request_loop(struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    return request->conn->loop;
}

struct arena *http_request_arena(struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    return &request->arena;
}

const struct http_head *http_request_head(const struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    return &request->head;
}

slice http_request_body(const struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    return request->body ? request->body->bytes : (slice){ 0 };
}

void *http_request_judged(const struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    return request->judged;
}

slice http_request_peer(const struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    return slice_of(request->conn->peer);
}

void http_request_on_end(struct http_request *request,
                         void (*ended)(void *arg, const struct http_outcome *outcome), void *arg)
{
    check(request->magic == REQUEST_MAGIC);
    request->ended = ended;
    request->ended_arg = arg;
}

struct http_body *http_body_hold(struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    if (request->body)
        check(atomic_fetch_add(&request->body->holds, 1) > 0);
    return request->body;
}

void http_body_release(struct http_body **body)
{
    struct http_body *mine = *body;
    *body = NULL;
    if (!mine)
        return;
    check(mine->magic == BODY_MAGIC);
    if (atomic_fetch_sub(&mine->holds, 1) > 1)
        return;
    mine->magic = 0;
    h2o_buffer_dispose(&mine->buffer);
    free(mine);
}
