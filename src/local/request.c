/* request.c - the operations of the fill socket. SPDX-License-Identifier: Apache-2.0
 *
 * Each message of a client names an operation ("op"), and a table holds one function for each
 * operation. Before the operation "hello" has succeeded, all other operations are refused. "hello"
 * proves the client's identity, which is valid until the client's key is removed from the settings.
 * Threads: the session's keeper (its worker, inside.h) calls these functions. */
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/metric.h"
#include "local/inside.h"

struct request {
    struct session *session;
    const struct message *message;
    struct arena *keep;               /* NULL after an operation took it */
    int *fds;
    size_t fd_count;
};

static void answer(struct request *request, json_t *take_reply)
{
    session_answer(request->session, request->message, take_reply);
}

static void refuse(struct request *request, struct trouble why)
{
    session_refuse(request->session, request->message, &why);
}

/* ---- hello ---- */

static json_t *limits_of(const struct local *local)
{
    const struct local_options *options = &local->options;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "items", (json_int_t)options->items_max,
                     "buffers", (json_int_t)options->buffers_max, "bytes",
                     (json_int_t)MIN(options->user_bytes_max, (uint64_t)INT64_MAX), "fills",
                     (json_int_t)options->fills_max, "message_bytes", (json_int_t)MESSAGE_BYTES_MAX,
                     "list_bytes", (json_int_t)options->list_bytes_max,
                     "deadline_ms", (json_int_t)options->time_ms);
}

static json_t *gpus_of(const struct local *local)
{
    const struct gpu_probe *probe = devices_probe(local->devices);
    json_t *list = json_array();
    for (size_t i = 0; i < probe->count; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "uuid",
                                              probe->devices[i].uuid, "name",
                                              probe->devices[i].name, "copy",
                                              probe->devices[i].batch ? "batch" : "async", "direct",
                                              "no: not built in"));
    return list;
}

static void hello(struct request *request)
{
    struct session *session = request->session;
    struct session_client *client = &session->client;
    const struct hello *hello = &request->message->hello;
    const struct local *local = session->worker->local;
    const struct reader_judge *judge = &local->options.judge;
    slice why = S("");
    if (client->identified) {
        refuse(request, (struct trouble){ 400, "bad_message", S("a session may send only one "
                        "hello: open another connection for another identity") });
        return;
    }
    if (hello->version != 1) {
        refuse(request, (struct trouble){ 400, "bad_message", S("\"v\" must be 1, the only version "
                        "of the protocol that this Penstock speaks") });
        return;
    }
    enum err err = judge->prove(judge->arg, &client->keep, hello->presigned, &client->reader, &why);
    if (err) {
        struct trouble trouble = trouble_of(err);
        if (why.len)
            trouble.message = why;
        refuse(request, trouble);
        client->reader = (struct reader){ .client = NULL };
        arena_free(&client->keep);    /* else each further attempt would add to it */
        return;
    }
    client->identified = true;
    answer(request, json_pack("{s:i, s:o, s:i, s:o, s:o, s:o}", "v", 1, "session",
                              id_json(session->id), "uid", client->peer.uid, "kinds",
                              memory_kinds_page(local), "gpus", gpus_of(local), "limits",
                              limits_of(local)));
}

/* ---- buffers ---- */

static void do_register(struct request *request)
{
    buffer_register(request->session, request->message, request->fds, request->fd_count);
}

static void do_unregister(struct request *request)
{
    struct buffer *buffer = buffer_find(request->session, request->message->buffer);
    if (!buffer) {
        refuse(request, (struct trouble){ 404, "no_buffer", S(NO_BUFFER) });
        return;
    }
    buffer_unregister(buffer, request->message);
}

/* ---- fills ---- */

static void do_fill(struct request *request)
{
    struct arena *keep = request->keep;
    request->keep = NULL;
    fill_begin(request->session, request->message, keep);
}

static void do_status(struct request *request)
{
    const struct session *session = request->session;
    uint64_t bytes = 0;
    list_each(struct buffer, buffer, &session->buffers, link)
        bytes += buffer->bytes;
    answer(request, json_pack("{s:I, s:I, s:I, s:o, s:o}", "buffers",
                              (json_int_t)session->buffer_count, "bytes", (json_int_t)bytes,
                              "fills", (json_int_t)session->fill_count, "kinds",
                              memory_kinds_page(session->worker->local), "limits",
                              limits_of(session->worker->local)));
}

static void (*const ops[])(struct request *request) = {
    [OP_HELLO] = hello, [OP_REGISTER] = do_register, [OP_UNREGISTER] = do_unregister,
    [OP_FILL] = do_fill, [OP_PREFETCH] = do_fill, [OP_STATUS] = do_status,
};

static_assert(countof(ops) == OP_LARGE, "each op has a function, except OP_LARGE");

void request_do(struct session *session, const struct message *message, struct arena *take_keep,
                int *fds, size_t fd_count)
{
    struct request request = { session, message, take_keep, fds, fd_count };
    bool draining = atomic_load(&session->worker->local->draining);
    metric_add(M_FILL_MESSAGES, 1);
    if (!session->client.identified && message->op != OP_HELLO)
        refuse(&request, (struct trouble){ 401, "no_session",
                                           S("send hello before any other message") });
    else if (draining && message->op != OP_UNREGISTER)
        refuse(&request, trouble_of(ERR_STOPPING));
    else
        ops[message->op](&request);
    if (request.keep) {
        arena_free(request.keep);
        free(request.keep);
    }
}
