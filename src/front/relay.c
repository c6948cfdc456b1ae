/* relay.c - an answer on its way from an origin's thread to a client.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   origin's thread: put ──▶ segments, at most RELAY_BYTES_MAX ──▶ loop: whole, or streamed
 *                     ◀── PAUSE, origin_resume ◀──
 *
 * A short answer is sent in one piece, after all of it has come. A longer or slower answer is
 * streamed. If the client reads slowly, the origin waits, so the memory used stays bounded. A
 * caller that does not want the origin to wait asks for one range at a time, each when the relay
 * has room for that range (relay_waits). Then no connection waits, and few bytes are fetched in
 * vain. The last byte is kept back until the origin call has ended well. If the call is a write,
 * the epochs of its keys rise before this byte is sent (rule H7 in src/README.md). An epoch is a
 * counter of a key that stops older fetches from storing their bytes (cache/epoch.h). Threads:
 * while the origin call runs, its thread calls relay_put and relay_spare. Everything else is for
 * the loop. The loop also calls relay_spare during the call, and relay_put after its end. */
#include "front/relay.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A client that takes fewer bytes between two calls of relay_is_slow is slow. */
#define RELAY_LEAST_BYTES (128 * KIB)

static_assert(RELAY_LOW_BYTES < RELAY_BYTES_MAX / 2,
              "after a resume, relay_put does not pause again at once");

struct relay_segment {
    struct list link;
    size_t len, at;               /* number of bytes; the client has taken the first `at` */
    char bytes[];
};

void relay_init(struct relay *relay, struct origin_call *origin)
{
    *relay = (struct relay){ .origin = origin };
    pthread_mutex_init(&relay->lock, NULL);
    list_init(&relay->segments);
}

void relay_free(struct relay *relay)
{
    list_each_safe(struct relay_segment, segment, &relay->segments, link)
        free(segment);
    pthread_mutex_destroy(&relay->lock);
}

enum origin_take relay_put(struct relay *relay, slice bytes)
{
    enum origin_take take = ORIGIN_TAKEN;
    check(bytes.len > 0);
    pthread_mutex_lock(&relay->lock);
    relay->paused = !relay->discards && relay->bytes > RELAY_BYTES_MAX / 2 &&
                    relay->bytes + bytes.len > RELAY_BYTES_MAX;
    relay->holds = relay->holds && !relay->paused;
    if (relay->paused) {
        take = relay->spare ? ORIGIN_SPARE : ORIGIN_PAUSE;
    } else if (!relay->discards) {
        struct relay_segment *segment = must_alloc(sizeof(*segment) + bytes.len);
        memcpy(segment->bytes, bytes.ptr, bytes.len);
        segment->len = bytes.len;
        list_add(&relay->segments, &segment->link);
        relay->bytes += bytes.len;
    }
    pthread_mutex_unlock(&relay->lock);
    return take;
}

bool relay_is_full(struct relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    bool full = relay->paused || relay->bytes > RELAY_BYTES_MAX / 4;
    pthread_mutex_unlock(&relay->lock);
    return full;
}

slice relay_whole(struct relay *relay, struct arena *keep)
{
    struct text whole = text_in(keep);
    pthread_mutex_lock(&relay->lock);
    list_each(struct relay_segment, segment, &relay->segments, link)
        text_add(&whole, (slice){ segment->bytes, segment->len });
    pthread_mutex_unlock(&relay->lock);
    return text_slice(&whole);
}

static bool resumes(struct relay *relay)    /* under lock */
{
    size_t few = relay->in_ranges ? RELAY_LOW_BYTES : RELAY_BYTES_MAX / 2;
    bool resume = relay->paused && (relay->discards || relay->bytes <= few);
    if (resume)
        relay->paused = false;
    return resume;
}

void relay_discard(struct relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    relay->discards = true;
    bool resume = resumes(relay);
    pthread_mutex_unlock(&relay->lock);
    if (resume)
        origin_resume(relay->origin);
}

uint64_t relay_received(struct relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    uint64_t received = relay->sent + relay->bytes;
    pthread_mutex_unlock(&relay->lock);
    return received;
}

bool relay_waits(struct relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    relay->in_ranges = true;
    bool waits = relay->paused = relay->bytes > RELAY_LOW_BYTES;
    pthread_mutex_unlock(&relay->lock);
    return waits;
}

void relay_spare(struct relay *relay, bool spare)
{
    pthread_mutex_lock(&relay->lock);
    relay->spare = spare;
    pthread_mutex_unlock(&relay->lock);
}

bool relay_is_slow(struct relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    bool slow = relay->paused && relay->sent - relay->looked < RELAY_LEAST_BYTES;
    pthread_mutex_unlock(&relay->lock);
    relay->looked = relay->sent;
    return slow;
}

/* ---- streaming ---- */

/* Returns the length of the XML declaration and the blanks around it. */
static size_t before_root(slice document)
{
    size_t at = 0;
    while (at < document.len && (document.ptr[at] != '<' ||
                                 (at + 1 < document.len && document.ptr[at + 1] == '?')))
        at++;
    return at;
}

/* Returns the bytes of the first segment that may be sent now. The last byte of the answer is kept
 * back until relay_end. */
static slice next_bytes(struct relay *relay)
{
    slice bytes = S("");
    pthread_mutex_lock(&relay->lock);
    if (!list_empty(&relay->segments)) {
        struct relay_segment *segment = list_of(relay->segments.next, struct relay_segment, link);
        bool kept = relay->segments.prev == &segment->link && !relay->ended;
        check(segment->at < segment->len);
        bytes = (slice){ segment->bytes + segment->at, segment->len - segment->at };
        bytes.len = MIN(bytes.len - kept, relay->holds ? before_root(bytes) : bytes.len);
    }
    pthread_mutex_unlock(&relay->lock);
    return bytes;
}

/* Drops the bytes that the client has taken. */
static void drop_bytes(struct relay *relay, size_t len)
{
    pthread_mutex_lock(&relay->lock);
    check(!list_empty(&relay->segments));
    struct relay_segment *segment = list_of(relay->segments.next, struct relay_segment, link);
    check(len <= segment->len - segment->at && len <= relay->bytes);
    segment->at += len;
    relay->bytes -= len;
    relay->sent += len;
    if (segment->at == segment->len) {
        list_del(&segment->link);
        free(segment);
    }
    bool resume = resumes(relay);
    pthread_mutex_unlock(&relay->lock);
    if (resume)
        relay->wants(relay->arg);
}

static void finish(void *arg)
{
    struct relay *relay = arg;
    relay->http = NULL;
    relay_discard(relay);
    relay->over(relay->arg);
}

void relay_step(struct relay *relay)
{
    if (!relay->http || relay->out)
        return;
    slice bytes = next_bytes(relay);
    if (bytes.len) {
        relay->out = bytes.len;
        http_reply_send(relay->http, bytes);
    } else if (relay->ended && relay->length == HTTP_OPEN && !relay->closing) {
        relay->closing = true;
        http_reply_end(relay->http);
    }
}

void relay_hold(struct relay *relay)
{
    check(!relay->http);
    pthread_mutex_lock(&relay->lock);
    relay->holds = true;
    pthread_mutex_unlock(&relay->lock);
}

slice relay_take_held(struct relay *relay, struct arena *keep)
{
    struct text held = text_in(keep);
    size_t out = relay->out;    /* bytes of the first segment that are being sent: they stay */
    pthread_mutex_lock(&relay->lock);
    list_each_safe(struct relay_segment, segment, &relay->segments, link) {
        if (!relay->holds)
            break;
        size_t from = segment->at + out;
        text_add(&held, (slice){ segment->bytes + from, segment->len - from });
        relay->bytes -= segment->len - from;
        segment->len = from;
        if (!out) {
            list_del(&segment->link);
            free(segment);
        }
        out = 0;
    }
    relay->holds = false;
    pthread_mutex_unlock(&relay->lock);
    return text_slice(&held);
}

static void proceed(void *arg)
{
    struct relay *relay = arg;
    if (relay->out)
        drop_bytes(relay, relay->out);
    relay->out = 0;
    if (relay->closing || relay->sent == relay->length)
        finish(relay);
    else
        relay_step(relay);
}

static const struct http_source source = { proceed, finish };

void relay_start(struct relay *relay, struct http_request *http, int status,
                 const struct fields *fields, uint64_t length, void (*over)(void *arg),
                 void (*wants)(void *arg), void *arg)
{
    check(!relay->http && over && wants);
    relay->http = http;
    relay->over = over;
    relay->wants = wants;
    relay->arg = arg;
    relay->length = length;
    http_reply_start(http, status, fields->list, fields->count, length, &source, relay);
    relay_step(relay);
}

void relay_end(struct relay *relay)
{
    check(!relay->ended);
    relay->ended = true;
    relay_step(relay);
}

void relay_fail(struct relay *relay)
{
    struct http_request *http = relay->http;
    relay->http = NULL;
    relay_discard(relay);
    if (http)
        http_reply_abort(http);
}
