/* request.c - one request, from its scanned head to the end of its answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A request lies in its own arena, together with a copy of the bytes of its head. */
#include "http/inside.h"

#include <string.h>

#include "base/clock.h"

/* Copies a head and its bytes. The slices of the copy point into the copied bytes. */
static void copy_head(struct http_request *request, const struct request_head *from)
{
    struct request_head *head = &request->head;
    const char *base = from->method.ptr;    /* a head begins with its method */
    const char *copy = arena_copy(&request->arena, (slice){ base, from->bytes }).ptr;
    memcpy(head, from, offsetof(struct request_head, fields));
    slice *moved[] = { &head->method, &head->path, &head->query, &head->host };
    for (size_t i = 0; i < countof(moved); i++)
        if (moved[i]->ptr)
            moved[i]->ptr = copy + (moved[i]->ptr - base);
    for (size_t i = 0; i < from->field_count; i++) {
        struct http_field field = from->fields[i];
        head->fields[i].name = (slice){ copy + (field.name.ptr - base), field.name.len };
        head->fields[i].value = (slice){ copy + (field.value.ptr - base), field.value.len };
    }
}

struct http_request *request_new(struct conn *conn, const struct request_head *head)
{
    struct arena arena = { 0 };
    size_t bytes = offsetof(struct http_request, head.fields) +
                   head->field_count * sizeof(*head->fields);
    struct http_request *request = arena_alloc(&arena, bytes);
    request->magic = REQUEST_MAGIC;
    request->arena = arena;
    request->conn = conn;
    request->began_ns = mono_ns();
    copy_head(request, head);
    return request;
}

void request_handle(struct http_request *request)
{
    struct conn *conn = request->conn;
    const struct http_app *app = &conn->listener->bound->app;
    check(request->magic == REQUEST_MAGIC && !request->handled);
    request->handled = true;
    request->close = request->head.close;
    atomic_fetch_add(&conn->loop->http->requests, 1);
    app->handle(app->arg, request);
}

void request_end(struct http_request **ended, bool complete)
{
    struct http_request *request = *ended;
    *ended = NULL;
    check(request->magic == REQUEST_MAGIC);
    if (request->handled)
        atomic_fetch_sub(&request->conn->loop->http->requests, 1);
    const struct http_source *source = request->reply.source;
    request->reply.source = NULL;
    if (source && !complete && source->stop)
        source->stop(request->reply.source_arg);
    if (request->ended) {
        struct http_outcome outcome = {
            .status = request->reply.status,
            .body_bytes_sent = request->reply.sent_bytes,
            .complete = complete,
            .took_ns = mono_ns() - request->began_ns,
        };
        request->ended(request->ended_arg, &outcome);
    }
    http_body_release(&request->body.content);
    request->magic = 0;
    struct arena arena = request->arena;    /* a copy, because the request lies in the arena */
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

const struct request_head *http_request_head(const struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    return &request->head;
}

void *http_request_judged(const struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    return request->judged;
}

bool http_request_is_tls(const struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    return request->conn->session != NULL;
}

void http_request_on_end(struct http_request *request,
                         void (*ended)(void *arg, const struct http_outcome *outcome), void *arg)
{
    check(request->magic == REQUEST_MAGIC);
    request->ended = ended;
    request->ended_arg = arg;
}
