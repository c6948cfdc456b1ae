/* relay.c - an answer on its way from an origin's thread to a client.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   origin's thread: put ──▶ pieces, at most RELAY_BYTES_MAX ──▶ loop: whole, or piece by piece
 *                     ◀── PAUSE, origin_resume ◀──
 *
 * What is short is answered whole, when all of it has come. What is not is streamed: a client that
 * reads slowly makes the origin wait, not us grow; or what comes next is asked for piece by piece,
 * when there is room here, so that no connection waits and little is fetched in vain. The last byte
 * that has come is kept until it is known that all has come well: then a write's epoch has risen,
 * too (H7). put comes from the origin's thread, all else from the loop. */
#include "front/relay.h"

#include <stdlib.h>
#include <string.h>

#define RELAY_LEAST_BYTES (128 * KIB)    /* between two looks: less is slow */

struct relay_piece {
    struct list link;
    size_t len, at;               /* bytes, and how many of them are out */
    char bytes[];
};

void relay_init(struct relay *relay, struct origin_call *origin)
{
    *relay = (struct relay){ .origin = origin };
    pthread_mutex_init(&relay->lock, NULL);
    list_init(&relay->pieces);
}

void relay_free(struct relay *relay)
{
    list_each_safe(struct relay_piece, piece, &relay->pieces, link)
        free(piece);
    pthread_mutex_destroy(&relay->lock);
}

enum origin_take relay_put(struct relay *relay, slice bytes)
{
    enum origin_take take = ORIGIN_TAKEN;
    pthread_mutex_lock(&relay->lock);
    relay->paused = !relay->discards && relay->bytes > RELAY_BYTES_MAX / 2 &&
                    relay->bytes + bytes.len > RELAY_BYTES_MAX;
    relay->holds = relay->holds && !relay->paused;
    relay->put += relay->paused ? 0 : bytes.len;
    if (relay->paused) {
        take = relay->spare ? ORIGIN_SPARE : ORIGIN_PAUSE;
    } else if (!relay->discards) {
        struct relay_piece *piece = must_alloc(sizeof(*piece) + bytes.len);
        memcpy(piece->bytes, bytes.ptr, bytes.len);
        piece->len = bytes.len;
        list_init(&piece->link);
        list_add(&relay->pieces, &piece->link);
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
    list_each(struct relay_piece, piece, &relay->pieces, link)
        text_add(&whole, (slice){ piece->bytes, piece->len });
    pthread_mutex_unlock(&relay->lock);
    return text_slice(&whole);
}

static bool resumes(struct relay *relay)    /* under lock */
{
    size_t few = relay->in_pieces ? RELAY_LOW_BYTES : RELAY_BYTES_MAX / 2;
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

uint64_t relay_put_bytes(struct relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    uint64_t put = relay->put;
    pthread_mutex_unlock(&relay->lock);
    return put;
}

static bool is_paused(struct relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    bool paused = relay->paused;
    pthread_mutex_unlock(&relay->lock);
    return paused;
}

bool relay_waits(struct relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    relay->in_pieces = true;
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
    bool slow = relay->sent - relay->looked < RELAY_LEAST_BYTES && is_paused(relay);
    relay->looked = relay->sent;
    return slow;
}

/* ---- piece by piece ---- */

/* Its declaration, and blanks. */
static size_t before_root(slice document)
{
    size_t at = 0;
    while (at < document.len && (document.ptr[at] != '<' ||
                                 (at + 1 < document.len && document.ptr[at + 1] == '?')))
        at++;
    return at;
}

/* What may go out next of the first piece; its last byte not, while it is the last of all. */
static slice next_bytes(struct relay *relay)
{
    slice bytes = S("");
    pthread_mutex_lock(&relay->lock);
    if (!list_empty(&relay->pieces)) {
        struct relay_piece *piece = list_of(relay->pieces.next, struct relay_piece, link);
        bool kept = relay->pieces.prev == &piece->link && !relay->ended;
        bytes = (slice){ piece->bytes + piece->at, piece->len - piece->at };
        bytes.len = MIN(bytes.len - kept, relay->holds ? before_root(bytes) : bytes.len);
    }
    pthread_mutex_unlock(&relay->lock);
    return bytes;
}

/* They are out. */
static void drop_bytes(struct relay *relay, size_t len)
{
    pthread_mutex_lock(&relay->lock);
    struct relay_piece *piece = list_of(relay->pieces.next, struct relay_piece, link);
    piece->at += len;
    relay->bytes -= len;
    if (piece->at == piece->len) {
        list_del(&piece->link);
        free(piece);
    }
    bool resume = resumes(relay);
    pthread_mutex_unlock(&relay->lock);
    if (resume)
        relay->wants(relay->arg);
}

static void finish(struct relay *relay)
{
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
    } else if (relay->ended && relay->is_open && !relay->closing) {
        relay->closing = true;
        http_reply_end(relay->http);
    }
}

void relay_hold(struct relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    relay->holds = true;
    pthread_mutex_unlock(&relay->lock);
}

slice relay_take_held(struct relay *relay, struct arena *keep)
{
    struct text held = text_in(keep);
    size_t out = relay->out;    /* stays where it is until it is out */
    pthread_mutex_lock(&relay->lock);
    list_each_safe(struct relay_piece, piece, &relay->pieces, link) {
        if (!relay->holds)
            break;
        size_t from = piece->at + out;
        text_add(&held, (slice){ piece->bytes + from, piece->len - from });
        relay->bytes -= piece->len - from;
        piece->len = from;
        if (!out) {
            list_del(&piece->link);
            free(piece);
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
    relay->sent += relay->out;
    relay->out = 0;
    if (relay->closing || relay->sent == relay->length)
        finish(relay);
    else
        relay_step(relay);
}

static void stop(void *arg)
{
    finish(arg);
}

static const struct http_source source = { proceed, stop };

void relay_start(struct relay *relay, struct http_request *http, int status,
                 const struct fields *fields, uint64_t length, void (*over)(void *arg),
                 void (*wants)(void *arg), void *arg)
{
    relay->http = http;
    relay->over = over;
    relay->wants = wants;
    relay->arg = arg;
    relay->length = length;
    relay->is_open = length == HTTP_OPEN;
    http_reply_start(http, status, fields->list, fields->count, length, &source, relay);
    relay_step(relay);
}

void relay_end(struct relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    relay->ended = true;
    pthread_mutex_unlock(&relay->lock);
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
