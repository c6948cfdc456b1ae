/* buffer.c - registered memory. SPDX-License-Identifier: Apache-2.0
 *
 *   register ─ quotas ─ kind's take ─ [mail] ─ reply ─ fills ... unregister ─ last fill ends
 *                                                    ─ kind's release ─ [mail] ─ reply
 *
 * [mail]: only if a GPU's copier thread does the work, and then sends a message to the keeper.
 *
 * A buffer is a capability: a client that holds the memory's descriptor, or its handle, may
 * register it. Penstock never looks memory up by a name. The memory's kind maps or opens the
 * memory, and releases it (memory.h). A buffer is released when no fill into it is in progress;
 * then Penstock replies to unregister, and the memory belongs to its owner alone again.
 * Threads: the session's keeper (its worker, inside.h) calls these functions; any worker writes
 * the bytes of a fill into the buffer. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/guard.h"
#include "base/metric.h"
#include "local/inside.h"

/* ---- register ---- */

static struct buffer *buffer_new(struct session *session, const struct message *message)
{
    struct buffer *buffer = must_alloc(sizeof(*buffer));
    buffer->session = session;
    buffer->kind = memory_kind(message->memory.kind);
    buffer->bytes = message->memory.bytes;
    buffer->message = *message;
    check(getrandom(buffer->id, sizeof(buffer->id), 0) == sizeof(buffer->id));
    list_init(&buffer->busy);
    session->taking++;
    return buffer;
}

static void taken(struct buffer *buffer, const struct trouble *why)
{
    struct session *session = buffer->session;
    session->taking--;
    if (why) {
        users_give_bytes(session->worker->local->users, session->client.user, buffer->bytes);
        session_refuse(session, &buffer->message, why);
        free(buffer);
        return;
    }
    check(!buffer->base == (buffer->device && buffer->gpu));
    list_add(&session->buffers, &buffer->link);
    session->buffer_count++;
    metric_gauge_add(M_FILL_BUFFERS, 1);
    if (session->dead)
        buffer_release(buffer);
    else
        session_answer(session, &buffer->message,
                       json_pack("{s:o, s:I, s:s}", "buffer", id_json(buffer->id), "bytes",
                                 (json_int_t)buffer->bytes, "path",
                                 buffer->device ? "ring" : "direct"));
}

void buffer_taken(struct buffer *buffer, const struct trouble *why)
{
    struct session *session = buffer->session;
    taken(buffer, why);
    session_settle(session);
}

static bool may_register(struct session *session, uint64_t bytes, struct trouble *ret_why)
{
    const struct local_options *options = &session->worker->local->options;
    struct users *users = session->worker->local->users;
    if (bytes == 0)
        return refused(ret_why, 400, "bad_message", S("\"bytes\" must be at least 1"));
    if (session->buffer_count + session->taking >= options->buffers_max) {
        metric_add(M_FILL_BUFFERS_MAX, 1);
        return refused(ret_why, 429, "quota", S("this session has registered as many buffers as "
                       "one session may have (\"buffers\" in the limits of the reply to hello): "
                       "unregister a buffer"));
    }
    if (!users_take_bytes(users, session->client.user, bytes, options->user_bytes_max)) {
        metric_add(M_FILL_USER_MEMORY, 1);
        return refused(ret_why, 429, "quota", S("with this buffer, this user would have registered "
                       "more bytes than fill_user_memory allows: register a smaller buffer, or "
                       "unregister one"));
    }
    return true;
}

void buffer_register(struct session *session, const struct message *message, int *fds,
                     size_t fd_count)
{
    struct trouble why;
    if (!may_register(session, message->memory.bytes, &why)) {
        session_refuse(session, message, &why);
        return;
    }
    struct buffer *buffer = buffer_new(session, message);
    enum err err = buffer->kind->take(buffer, &message->memory, fds, fd_count, &why);
    if (err != ERR_WAIT)
        taken(buffer, err ? &why : NULL);
}

struct buffer *buffer_find(struct session *session, const uint8_t id[ID_BYTES])
{
    list_each(struct buffer, buffer, &session->buffers, link)
        if (!buffer->leaving && memcmp(buffer->id, id, ID_BYTES) == 0)
            return buffer;
    return NULL;
}

/* ---- release ---- */

static void buffer_free(struct buffer *buffer)
{
    struct session *session = buffer->session;
    check(session->buffer_count > 0);
    users_give_bytes(session->worker->local->users, session->client.user, buffer->bytes);
    list_del(&buffer->link);
    session->buffer_count--;
    metric_gauge_add(M_FILL_BUFFERS, -1);
    if (buffer->unregistered)
        session_answer(session, &buffer->message, json_object());
    free(buffer);
}

void buffer_released(struct buffer *buffer)
{
    struct session *session = buffer->session;
    buffer_free(buffer);
    session_settle(session);
}

void buffer_settle(struct buffer *buffer)
{
    if (!buffer->leaving || buffer->released ||
        (buffer->fills && guard_on(GUARD_FILL_DRAIN)))
        return;
    buffer->released = true;
    if (buffer->kind->release(buffer) != ERR_WAIT)
        buffer_free(buffer);
}

void buffer_release(struct buffer *buffer)
{
    buffer->leaving = true;
    buffer_settle(buffer);
}

void buffer_unregister(struct buffer *buffer, const struct message *message)
{
    buffer->message = *message;
    buffer->unregistered = true;
    buffer_release(buffer);
}
