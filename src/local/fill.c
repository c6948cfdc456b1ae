/* fill.c - a list of items on their way into a buffer. SPDX-License-Identifier: Apache-2.0
 *
 *   message ─ may it begin? ─ where does each item lie? ─ shares ─ ... ─ all ended ─ reply
 *
 * No byte is read before the whole list was checked: every item lies inside the buffer, no two
 * overlap, and no item lies where another fill writes. Then the list is cut into shares of about a
 * mebibyte, and any worker may take a share. The reply is sent when all shares have ended, with or
 * without errors. Nothing is written to the buffer after the reply.
 * Threads: the session's keeper (its worker, inside.h) calls these functions. From queue_put until
 * the share's mail (a message to the keeper) arrives, the items of a share belong to a worker. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "local/inside.h"

/* ---- checks before the fill begins ---- */

static bool find_buffer(struct fill *fill, struct trouble *ret_why)
{
    fill->buffer = buffer_find(fill->session, fill->message->buffer);
    if (!fill->buffer)
        return refused(ret_why, 404, "no_buffer", S(NO_BUFFER));
    return fill_place(fill, ret_why);
}

static size_t hold_bytes(struct fill *fill, size_t bytes)
{
    fill->held_bytes += bytes;
    metric_gauge_add(M_FILL_LIST_BYTES, (int64_t)bytes);
    atomic_fetch_add(&fill->session->client.user->list_bytes, bytes);
    return atomic_fetch_add(&fill->session->worker->local->list_bytes, bytes) + bytes;
}

static void let_memory_go(struct fill *fill)
{
    size_t bytes = fill->held_bytes;
    check(atomic_fetch_sub(&fill->session->worker->local->list_bytes, bytes) >= bytes);
    check(atomic_fetch_sub(&fill->session->client.user->list_bytes, bytes) >= bytes);
    metric_gauge_add(M_FILL_LIST_BYTES, -(int64_t)bytes);
    fill->held_bytes = 0;
}

/* Counts the memory of this fill's list in the budget for lists. Afterwards, the rest of the budget
 * must be at least as large as all lists of this user together (this one included), so that another
 * user finds room. Exception: if no other list is in progress, only the limits of a single list
 * count. */
static bool hold_memory(struct fill *fill, struct trouble *ret_why)
{
    uint64_t most = fill->session->worker->local->options.lists_bytes_max;
    size_t bytes = fill->keep.used_bytes + fill->message->items.count * sizeof(*fill->results);
    size_t all = hold_bytes(fill, bytes);
    size_t mine = atomic_load(&fill->session->client.user->list_bytes);
    if (all == bytes || (all <= most && mine <= most - all))
        return true;
    let_memory_go(fill);
    metric_add(M_FILL_LISTS, 1);
    return refused(ret_why, 429, "quota", S("the budget memory_fills (a part of the setting "
                   "'memory') has no room for the items of this fill: fills in progress, of this "
                   "user or of other users, use that budget. Wait for a reply, ask for fewer "
                   "items, or raise 'memory'"));
}

static bool may_begin(struct fill *fill, struct trouble *ret_why)
{
    const struct session *session = fill->session;
    const struct local_options *options = &session->worker->local->options;
    if (session->fill_count >= options->fills_max) {
        metric_add(M_FILL_REQUESTS, 1);
        return refused(ret_why, 429, "quota", S("this session has as many fills in progress as "
                       "one session may have (\"fills\" in the limits of the reply to hello): wait "
                       "for a reply"));
    }
    fill->reader = session->client.reader;
    enum err err = options->judge.renew(options->judge.arg, &fill->keep, &fill->reader);
    if (err) {
        *ret_why = trouble_of(err);
        return false;
    }
    return (fill->message->op == OP_PREFETCH || find_buffer(fill, ret_why)) &&
           hold_memory(fill, ret_why);
}

/* ---- beginning ---- */

static void acknowledge(struct fill *fill)
{
    session_answer(fill->session, fill->message,
                   json_pack("{s:o, s:I}", "fill", id_json(fill->id), "items",
                             (json_int_t)fill->message->items.count));
}

static void end(struct fill *fill);

static void start(struct fill *fill)
{
    struct session *session = fill->session;
    struct local *local = session->worker->local;
    const struct message *message = fill->message;
    uint64_t time_ms = local->options.time_ms;
    if (message->deadline_ms)
        time_ms = MIN(time_ms, message->deadline_ms);
    fill->until_ms = mono_ms() + time_ms;
    fill->results = arena_alloc(&fill->keep, (message->items.count + 1) * sizeof(*fill->results));
    check(getrandom(fill->id, sizeof(fill->id), 0) == sizeof(fill->id));
    list_add(&session->fills, &fill->link);
    session->fill_count++;
    atomic_fetch_add(&local->fills, 1);
    if (fill->buffer) {
        fill->buffer->fills++;
        list_add(&fill->buffer->busy, &fill->busy);
    }
    size_t uncut = fill->keep.used_bytes;
    fill_cut(fill);
    /* Counts the memory of the shares, too. */
    (void)hold_bytes(fill, fill->keep.used_bytes - uncut);
    if (fill->shares_left)
        queue_call(local, session->worker,
                   (unsigned)fill->shares_left - !run_is_full(session->worker));
    if (message->async)
        acknowledge(fill);
    if (!fill->shares_left)
        end(fill);
}

void fill_begin(struct session *session, const struct message *message, struct arena *take_keep)
{
    struct fill *fill = must_alloc(sizeof(*fill));
    struct trouble why;
    fill->session = session;
    fill->began_ns = mono_ns();
    fill->message = message;
    fill->keep = *take_keep;
    free(take_keep);
    list_init(&fill->link);
    list_init(&fill->busy);
    metric_add(M_FILLS, 1);
    if (may_begin(fill, &why)) {
        start(fill);
        return;
    }
    session_refuse(session, message, &why);
    arena_free(&fill->keep);
    free(fill);
}

/* ---- end ---- */

struct sum {
    uint64_t bytes;
    size_t hits, misses, failed;
    const struct result *first;       /* the first item that failed */
};

/* An item that was not read because its fill was cancelled does not count as failed. */
static bool failed(const struct result *result)
{
    return result->err && result->err != ERR_CANCELED;
}

static struct sum sum_of(const struct fill *fill)
{
    struct sum sum = { 0 };
    for (size_t i = 0; i < fill->message->items.count; i++) {
        const struct result *result = &fill->results[i];
        sum.bytes += result->bytes;
        sum.hits += !result->err && result->hit;
        sum.misses += !result->err && !result->hit;
        sum.failed += failed(result);
        if (failed(result) && !sum.first)
            sum.first = result;
    }
    return sum;
}

static int status_of(const struct result *result)
{
    return result->status ? result->status : trouble_of(result->err).status;
}

static void add_errors(struct fill *fill, struct text *reply)
{
    const char *before = ",\"errors\":[";
    for (size_t i = 0; i < fill->message->items.count; i++) {
        const struct result *result = &fill->results[i];
        if (!failed(result))
            continue;
        text_printf(reply, "%s[%zu,\"%s\",%d]", before, i, trouble_of(result->err).code,
                    status_of(result));
        before = ",";
    }
    text_char(reply, ']');
}

static void add_lengths(struct fill *fill, struct text *reply)
{
    bool open = false;
    for (size_t i = 0; i < fill->message->items.count && !open; i++)
        open = fill->message->items.list[i].length == ITEM_OPEN;
    for (size_t i = 0; i < fill->message->items.count && open; i++)
        text_printf(reply, "%s%" PRIu64, i ? "," : ",\"lengths\":[", fill->results[i].bytes);
    if (open)
        text_char(reply, ']');
}

/* Adds the members that describe the error. If status is 0, the status is the usual one of
 * `err`. */
static void add_error(struct text *reply, enum err err, int status)
{
    struct trouble why = trouble_of(err);
    why.status = status ? status : why.status;
    json_t *members = trouble_reply(&why);
    char *object = json_dumps(members, JSON_COMPACT);
    check(object != NULL);
    text_add(reply, slice_sub(slice_of(object), 1, strlen(object) - 2));    /* without its braces */
    free(object);
    json_decref(members);
}

/* Writes the reply as text, because there are many fills: a JSON tree took 2 us of the 35 us for an
 * item of 4 KiB. */
static slice compose(struct fill *fill, const struct sum *sum)
{
    struct text reply = text_in(&fill->keep);
    bool by_item = sum->first && !fill->message->skip;
    text_char(&reply, '{');
    if (fill->message->async) {
        char id[IDS_TEXT];
        hex_write(fill->id, ID_BYTES, id);
        text_printf(&reply, "\"event\":\"filled\",\"fill\":\"%.*s\",", IDS_TEXT, id);
    }
    if (fill->message->has_number)
        text_printf(&reply, "\"id\":%" PRId64 ",", fill->message->number);
    if (fill->why || by_item) {
        add_error(&reply, fill->why ? fill->why : sum->first->err,
                  fill->why ? 0 : status_of(sum->first));
    } else {
        text_printf(&reply, "\"ok\":true,\"bytes\":%" PRIu64 ",\"hits\":%zu,\"misses\":%zu",
                    sum->bytes, sum->hits, sum->misses);
        add_lengths(fill, &reply);
    }
    if (sum->failed)
        add_errors(fill, &reply);
    text_char(&reply, '}');
    return text_slice(&reply);
}

static void count(const struct fill *fill, const struct sum *sum)
{
    metric_add(M_FILL_ITEMS_HIT, sum->hits);
    metric_add(M_FILL_ITEMS_MISS, sum->misses);
    metric_add(M_FILL_ITEMS_FAILED, sum->failed);
    metric_add(M_FILL_BYTES, sum->bytes);
    metric_time(M_FILL_SECONDS, mono_ns() - fill->began_ns);
}

static void log_fill(struct fill *fill, const struct sum *sum)
{
    char id[IDS_TEXT];
    slice access_key = log_word(&fill->keep, fill->reader.access_key);
    slice bucket = log_word(&fill->keep, slice_sub(fill->message->bucket, 0, 200));
    hex_write(fill->session->id, ID_BYTES, id);
    enum err err = fill->why ? fill->why : sum->first ? sum->first->err : OK;
    slice key = sum->first ? fill->message->items.list[sum->first - fill->results].key : S("-");
    key = log_word(&fill->keep, slice_sub(key, 0, 200));
    log_access("fill", "session=%.8s uid=%u access_key=%.*s op=%s bucket=%.*s items=%zu "
               "failed=%zu first_failed=%.*s err=%s bytes=%" PRIu64 " hits=%zu misses=%zu "
               "took_us=%" PRIu64, id, fill->session->client.peer.uid, SLICE_ARG(access_key),
               fill->buffer ? "fill" : "prefetch", SLICE_ARG(bucket), fill->message->items.count,
               sum->failed, SLICE_ARG(key), err ? err_name(err) : "-", sum->bytes, sum->hits,
               sum->misses, (mono_ns() - fill->began_ns) / 1000);
}

static void end(struct fill *fill)
{
    struct session *session = fill->session;
    struct local *local = session->worker->local;
    struct buffer *buffer = fill->buffer;
    struct sum sum = sum_of(fill);
    list_del(&fill->link);
    list_del(&fill->busy);
    session->fill_count--;
    check(atomic_fetch_sub(&local->fills, 1) > 0);
    let_memory_go(fill);
    count(fill, &sum);
    session_send(session, compose(fill, &sum));
    if (atomic_load(&local->access_log))
        log_fill(fill, &sum);
    if (buffer) {
        check(buffer->fills-- > 0);
        buffer_settle(buffer);
    }
    arena_free(&fill->keep);
    free(fill);
}

void fill_settle(struct fill *fill)
{
    struct session *session = fill->session;
    check(fill->shares_left > 0);
    if (--fill->shares_left > 0)
        return;
    end(fill);
    session_settle(session);
}

void fill_cancel(struct fill *fill, enum err why)
{
    struct local *local = fill->session->worker->local;
    if (atomic_load(&fill->canceled))
        return;
    fill->why = why;
    atomic_store(&fill->canceled, true);
    queue_call(local, NULL, local->worker_count);
}
