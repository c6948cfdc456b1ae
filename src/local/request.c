/* request.c - what each message of the fill socket does. SPDX-License-Identifier: Apache-2.0
 *
 * A table of functions, one for each op. Before hello every other op is refused. What the hello
 * proved is good until the client's key is taken away. Threads: the keeper's. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/metric.h"
#include "local/inside.h"

struct request {
    struct lease *lease;
    const struct message *message;
    struct arena *keep;               /* NULL once it was taken */
    int *fds;
    size_t fd_count;
};

static void answer(struct request *request, json_t *take_reply)
{
    check(take_reply != NULL);
    json_object_set_new(take_reply, "ok", json_true());
    if (request->message->has_number)
        json_object_set_new(take_reply, "id", json_integer(request->message->number));
    char *text = json_dumps(take_reply, JSON_COMPACT);
    check(text != NULL);
    lease_send(request->lease, slice_of(text));
    free(text);
    json_decref(take_reply);
}

static void refuse(struct request *request, struct trouble why)
{
    lease_refuse(request->lease, request->message, &why);
}

static json_t *hex(const uint8_t id[ID_BYTES])
{
    char text[IDS_TEXT];
    hex_write(id, ID_BYTES, text);
    return json_stringn(text, sizeof(text));
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
    struct lease *lease = request->lease;
    const struct local *local = lease->worker->local;
    const struct reader_judge *judge = &local->options.judge;
    slice why = S("");
    if (lease->known) {
        refuse(request, (struct trouble){ 400, "bad_message", S("hello was said already: for "
                        "another identity open another connection") });
        return;
    }
    if (request->message->version != 1) {
        refuse(request, (struct trouble){ 400, "bad_message", S("\"v\" must be 1, the only version "
                        "of the protocol that this Penstock speaks") });
        return;
    }
    enum err err = judge->prove(judge->arg, &lease->keep, request->message->presigned,
                                &lease->reader, &why);
    if (err) {
        struct trouble trouble = trouble_of(err);
        if (why.len)
            trouble.message = why;
        refuse(request, trouble);
        lease->reader = (struct reader){ .client = NULL };
        arena_free(&lease->keep);    /* else each further try would add to it */
        return;
    }
    lease->known = true;
    answer(request, json_pack("{s:i, s:o, s:i, s:o, s:o, s:o}", "v", 1, "session", hex(lease->id),
                              "uid", lease->uid, "kinds", memory_kinds_page(local), "gpus",
                              gpus_of(local), "limits", limits_of(local)));
}

/* ---- buffers ---- */

static void do_register(struct request *request)
{
    buffer_register(request->lease, request->message, request->fds, request->fd_count);
}

static void do_unregister(struct request *request)
{
    struct buffer *buffer = buffer_find(request->lease, request->message->buffer);
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
    fill_begin(request->lease, request->message, keep);
}

static void do_status(struct request *request)
{
    const struct lease *lease = request->lease;
    uint64_t bytes = 0;
    list_each(struct buffer, buffer, &lease->buffers, link)
        bytes += buffer->bytes;
    answer(request, json_pack("{s:I, s:I, s:I, s:o, s:o}", "buffers",
                              (json_int_t)lease->buffer_count, "bytes", (json_int_t)bytes, "fills",
                              (json_int_t)lease->fill_count, "kinds",
                              memory_kinds_page(lease->worker->local), "limits",
                              limits_of(lease->worker->local)));
}

static void (*const ops[])(struct request *request) = {
    [OP_HELLO] = hello, [OP_REGISTER] = do_register, [OP_UNREGISTER] = do_unregister,
    [OP_FILL] = do_fill, [OP_PREFETCH] = do_fill, [OP_STATUS] = do_status,
};

void request_do(struct lease *lease, const struct message *message, struct arena *take_keep,
                int *fds, size_t fd_count)
{
    struct request request = { lease, message, take_keep, fds, fd_count };
    bool draining = atomic_load(&lease->worker->local->draining);
    metric_add(M_FILL_MESSAGES, 1);
    if (!lease->known && message->op != OP_HELLO)
        refuse(&request, (struct trouble){ 401, "no_session",
                                           S("the first message must be hello") });
    else if (draining && message->op != OP_UNREGISTER)
        refuse(&request, trouble_of(ERR_STOPPING));
    else
        ops[message->op](&request);
    if (request.keep) {
        arena_free(request.keep);
        free(request.keep);
    }
}
