/* buffer.c - registered memory. SPDX-License-Identifier: Apache-2.0
 *
 *   register ─ quotas ─ kind's take ─ [mail] ─ reply ─ fills ... unregister ─ last fill ends
 *                                                    ─ kind's release ─ [mail] ─ reply
 *
 * A buffer is a capability: a client that holds the memory's descriptor, or its handle, may
 * register it, and no memory is found by a name. Its kind takes the memory and lets it go
 * (memory.h). A buffer is released when no fill into it is in progress; then the reply to
 * unregister says that the memory is its owner's again.
 * Threads: the keeper's; fills write into it from any. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/guard.h"
#include "base/metric.h"
#include "local/inside.h"

static void give_bytes(struct lease *lease, uint64_t bytes)
{
    users_give_bytes(lease->worker->local->users, lease->user, bytes);
}

static void tell(const struct buffer *buffer, bool registered)
{
    struct arena keep = { 0 };
    struct text reply = text_in(&keep);
    char id[IDS_TEXT];
    text_char(&reply, '{');
    if (buffer->asked.has_number)
        text_printf(&reply, "\"id\":%" PRId64 ",", buffer->asked.number);
    text_printf(&reply, "\"ok\":true");
    if (registered) {
        hex_write(buffer->id, ID_BYTES, id);
        text_printf(&reply, ",\"buffer\":\"%.*s\",\"bytes\":%" PRIu64 ",\"path\":\"%s\"", IDS_TEXT,
                    id, buffer->bytes, buffer->device ? "ring" : "direct");
    }
    text_char(&reply, '}');
    lease_send(buffer->lease, text_slice(&reply));
    arena_free(&keep);
}

/* ---- taken ---- */

static struct buffer *buffer_new(struct lease *lease, const struct message *message)
{
    struct buffer *buffer = must_alloc(sizeof(*buffer));
    buffer->lease = lease;
    buffer->kind = memory_kind(message->kind);
    buffer->bytes = message->bytes;
    buffer->asked = *message;
    check(getrandom(buffer->id, sizeof(buffer->id), 0) == sizeof(buffer->id));
    list_init(&buffer->busy);
    lease->taking++;
    return buffer;
}

static void taken(struct buffer *buffer, const struct trouble *why)
{
    struct lease *lease = buffer->lease;
    lease->taking--;
    if (why) {
        give_bytes(lease, buffer->bytes);
        lease_refuse(lease, &buffer->asked, why);
        free(buffer);
        return;
    }
    check(!buffer->base == (buffer->device && buffer->gpu));
    list_add(&lease->buffers, &buffer->link);
    lease->buffer_count++;
    metric_gauge_add(M_FILL_BUFFERS, 1);
    if (lease->dead)
        buffer_release(buffer);
    else
        tell(buffer, true);
}

void buffer_taken(struct buffer *buffer, const struct trouble *why)
{
    struct lease *lease = buffer->lease;
    taken(buffer, why);
    lease_settle(lease);
}

static bool may_register(struct lease *lease, const struct message *message,
                         struct trouble *ret_why)
{
    const struct local_options *options = &lease->worker->local->options;
    struct users *users = lease->worker->local->users;
    if (message->bytes == 0)
        return refused(ret_why, 400, "bad_message", S("\"bytes\" must be at least 1"));
    if (lease->buffer_count + lease->taking >= options->buffers_max) {
        metric_add(M_FILL_BUFFERS_MAX, 1);
        return refused(ret_why, 429, "quota", S("this session has as many buffers as one may "
                       "register: unregister one"));
    }
    if (!users_take_bytes(users, lease->user, message->bytes, options->user_bytes_max)) {
        metric_add(M_FILL_USER_MEMORY, 1);
        return refused(ret_why, 429, "quota", S("this user has as many bytes registered as "
                       "fill_user_memory allows: unregister a buffer"));
    }
    return true;
}

void buffer_register(struct lease *lease, const struct message *message, int *fds,
                     size_t fd_count)
{
    struct trouble why;
    if (!may_register(lease, message, &why)) {
        lease_refuse(lease, message, &why);
        return;
    }
    struct buffer *buffer = buffer_new(lease, message);
    enum err err = buffer->kind->take(buffer, message, fds, fd_count, &why);
    if (err != ERR_WAIT)
        taken(buffer, err ? &why : NULL);
}

struct buffer *buffer_find(struct lease *lease, const uint8_t id[ID_BYTES])
{
    list_each(struct buffer, buffer, &lease->buffers, link)
        if (!buffer->leaving && memcmp(buffer->id, id, ID_BYTES) == 0)
            return buffer;
    return NULL;
}

/* ---- let go ---- */

static void buffer_free(struct buffer *buffer)
{
    struct lease *lease = buffer->lease;
    give_bytes(lease, buffer->bytes);
    list_del(&buffer->link);
    lease->buffer_count--;
    metric_gauge_add(M_FILL_BUFFERS, -1);
    if (buffer->tell)
        tell(buffer, false);
    free(buffer);
}

void buffer_released(struct buffer *buffer)
{
    struct lease *lease = buffer->lease;
    buffer_free(buffer);
    lease_settle(lease);
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
    buffer->asked = *message;
    buffer->tell = true;
    buffer_release(buffer);
}
