/* fake_origin.h - an origin for tests of the cache, linked in place of the real one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One thread delivers all calls, a chunk at a time, in a seeded order. Objects: bytes are a
 * function of version and offset. What goes wrong is set in `fake`. */
#ifndef FAKE_ORIGIN_H
#define FAKE_ORIGIN_H

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "cache/inside.h"
#include "unit.h"

struct origin {
    int unused;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    struct list calls;
    bool stopping;

    atomic_ullong size;
    atomic_uint version;
    atomic_uint cut_every;        /* a transfer breaks off after so many bytes, 0: never */
    atomic_uint slow_us;          /* before each piece of a body, of at most 64 KiB */
    atomic_bool queued;           /* no request is sent while set */
    atomic_bool held;             /* no answer comes while set */
    atomic_bool ends_held;        /* nor the end of a body that has all come */
    atomic_bool crowded;          /* who spares its connection loses it */
    atomic_bool down;
    atomic_int status;            /* of an answer that makes no sense; 0: those that do */
    atomic_bool ignore_if_match;
    atomic_bool hold_plain;       /* requests without a range get no further byte */
    atomic_bool ignore_range;     /* every answer is a 200 with everything */
    atomic_uint fail_next;        /* so many more requests get `fail_status` */
    atomic_int fail_status;
    atomic_bool no_store;         /* what it says of every object */
    atomic_bool knows_identities;
    atomic_ullong owner_changed_ms;
    atomic_bool encrypts;         /* with a key whose right a HEAD does not take */
    _Atomic(const char *) denies; /* the access key it refuses; "": unsigned and its own */
    _Atomic(const char *) etag;   /* how it names a version; NULL: by a strong ETag */

    atomic_uint gets, heads, lists;
    atomic_uint sent;             /* of those: on their way, or answered */
    atomic_uint most_at_once;     /* GETs in progress at a time */
    atomic_uint unsent;           /* ended before they were sent */
    atomic_uint late_cancels;     /* of answers that had all come: each costs a connection */
    atomic_ullong bytes;

    atomic_bool peers;            /* other nodes answer: they have what the origin has ... */
    atomic_ullong peer_age_ms;    /* ... and had it proved so long ago */
    atomic_bool peers_held;       /* their answers wait */
    atomic_uint peer_version;     /* the version that they have; 0: that of the origin */
    atomic_uint questions;        /* to them */
    atomic_uint unnamed;          /* of those: that named no version */
    atomic_ullong peer_bytes;     /* of `bytes`: those that they sent */
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

struct fake_call {
    struct list link;
    struct origin_call *call;
    bool sending, asked, headed, paused, resumed, at_peer;
    atomic_bool canceled;
    unsigned version;
    int status;
    uint64_t next, end, sent;
    uint64_t segment_end;         /* of a peer's answer */
};

/* Bytes from `offset` on. Eight bytes are made at a time, because a sanitizer slows down each store
 * to memory. */
static void fake_fill(unsigned version, uint64_t offset, char *to, size_t len)
{
    for (size_t done = 0, some; done < len; done += some) {
        size_t skip = (offset + done) % 8;
        uint64_t mix = ((offset + done) / 8 + 1) * 0x9e3779b97f4a7c15u +
                       version * 0xd1b54a32d192ed03u;
        some = MIN(8 - skip, len - done);
        memcpy(to + done, (const char *)&mix + skip, some);
    }
}

/* Returns true if the bytes from `offset` on are right. */
__attribute__((unused)) static bool fake_is(unsigned version, uint64_t offset, slice bytes)
{
    char want[4096];
    for (size_t some; bytes.len; bytes = slice_from(bytes, some), offset += some) {
        some = MIN(sizeof(want), bytes.len);
        fake_fill(version, offset, want, some);
        if (memcmp(want, bytes.ptr, some) != 0)
            return false;
    }
    return true;
}

static slice fake_field(const struct origin_call *call, slice name)
{
    for (size_t i = 0; i < call->field_count; i++)
        if (slice_eq(call->fields[i].name, name))
            return call->fields[i].value;
    return (slice){ 0 };
}

static void fake_range(struct fake_call *mine)
{
    slice range = fake_field(mine->call, S("range"));
    uint64_t size = atomic_load(&fake.size), last;
    mine->next = 0;
    mine->end = size;
    if (!range.ptr)
        return;
    slice rest = slice_from(range, 6), first = slice_cut(&rest, '-');
    if (!first.len) {
        ok(slice_u64(rest, &last));
        mine->next = size - MIN(size, last);
        return;
    }
    ok(slice_u64(first, &mine->next));
    if (slice_u64(rest, &last))
        mine->end = MIN(size, last + 1);
}

static void fake_head(struct fake_call *mine)
{
    char etag[32], length[32], range[96];
    struct origin_call *call = mine->call;
    fake_range(mine);
    bool whole = atomic_load(&fake.ignore_range);
    if (whole)
        mine->next = 0, mine->end = atomic_load(&fake.size);
    const char *form = atomic_load(&fake.etag);
    bool weak = form && *form;
    snprintf(etag, sizeof(etag), "%s\"v%u\"", weak ? form : "", mine->version);
    bool partial = !whole && fake_field(call, S("range")).ptr != NULL;
    if (mine->at_peer && mine->end > mine->segment_end) {
        mine->end = mine->segment_end;
        partial = true;
    }
    slice if_match = fake_field(call, S("if-match"));
    bool refused = if_match.ptr && (weak || !slice_eq(if_match, slice_of(etag))) &&
                   !atomic_load(&fake.ignore_if_match);    /* RFC 9110: a weak one never matches */
    if (refused)
        mine->next = mine->end = 0;
    snprintf(length, sizeof(length), "%" PRIu64, mine->end - mine->next);
    snprintf(range, sizeof(range), "bytes %" PRIu64 "-%" PRIu64 "/%llu", mine->next, mine->end - 1,
             (unsigned long long)atomic_load(&fake.size));
    struct http_field fields[] = {
        { S("cache-control"), atomic_load(&fake.no_store) ? S("no-store") : S("private") },
        form && !weak ? (struct http_field){ S("x-none"), S("none") }
                      : (struct http_field){ S("etag"), slice_of(etag) },
        { S("x-amz-server-side-encryption"),
          atomic_load(&fake.encrypts) ? S("aws:kms") : S("AES256") },
        { S("last-modified"), S("Sun, 06 Nov 1994 08:49:37 GMT") },
        { S("content-length"), slice_of(length) },
        { S("content-range"), slice_of(range) },
    };
    struct origin_reply reply = {
        .status = refused ? 412 : partial ? 206 : 200,
        .has_length = true,
        .length = mine->end - mine->next,
        .fields = fields,
        .field_count = partial && !refused ? 6 : 5,
        .from_peer = mine->at_peer, .age_ms = atomic_load(&fake.peer_age_ms),
        .all_fields = mine->at_peer,
    };
    const char *denied = atomic_load(&fake.denies);
    bool bytes_only = atomic_load(&fake.encrypts) && call->op == S3_HEAD_OBJECT;
    if (denied && !bytes_only && slice_eq(call->as ? call->as->access_key : S(""), slice_of(denied))) {
        reply.status = 403;
        mine->next = mine->end = 0;
    }
    if (mine->status) {
        reply.status = mine->status;
        mine->next = mine->end = 0;
    }
    call->events->head(call, &reply);
    if (call->op == S3_HEAD_OBJECT)
        mine->next = mine->end;
}

/* One step of one call; true when it is over, with *ret_err. */
static bool fake_step(struct fake_call *mine, unsigned chance, enum err *ret_err)
{
    char chunk[65536];
    *ret_err = OK;
    if (mine->canceled) {
        atomic_fetch_add(&fake.late_cancels, mine->headed && mine->next == mine->end);
        *ret_err = ERR_CANCELED;
        return true;
    }
    if (!mine->sending) {
        *ret_err = mine->call->may_send ? mine->call->may_send(mine->call, false) : OK;
        mine->sending = !*ret_err && !atomic_load(&fake.queued);
        atomic_fetch_add(&fake.sent, mine->sending);
        atomic_fetch_add(&fake.unsent, *ret_err != OK);
        return *ret_err != OK;
    }
    if (!mine->headed) {
        if (atomic_load(&fake.down)) {
            *ret_err = ERR_ORIGIN_CONNECT;
            return true;
        }
        mine->headed = true;
        fake_head(mine);
        return false;
    }
    unsigned cut = atomic_load(&fake.cut_every);
    if (cut && mine->sent >= cut && mine->next < mine->end) {
        *ret_err = ERR_ORIGIN_CUT;
        return true;
    }
    size_t bytes = MIN(mine->end - mine->next, 1 + chance % sizeof(chunk));
    if (!bytes)
        return true;
    if (atomic_load(&fake.slow_us))
        usleep(atomic_load(&fake.slow_us));
    fake_fill(mine->version, mine->next, chunk, bytes);
    atomic_fetch_add(&fake.bytes, bytes);
    atomic_fetch_add(&fake.peer_bytes, mine->at_peer ? bytes : 0);
    enum origin_take take = mine->call->events->body(mine->call, (slice){ chunk, bytes });
    if (take != ORIGIN_TAKEN) {
        atomic_fetch_sub(&fake.bytes, bytes);
        atomic_fetch_sub(&fake.peer_bytes, mine->at_peer ? bytes : 0);
        mine->paused = true;
        *ret_err = ERR_YIELDED;
        return take == ORIGIN_SPARE && atomic_load(&fake.crowded);
    }
    mine->next += bytes;
    mine->sent += bytes;
    return false;
}

static bool fake_waits(const struct fake_call *mine)
{
    bool sent = mine->headed && mine->next == mine->end;
    if (!mine->sending)
        return atomic_load(&fake.queued) && !mine->asked;
    return mine->paused || atomic_load(&fake.held) ||
           (mine->at_peer && atomic_load(&fake.peers_held)) ||
           (mine->headed && atomic_load(&fake.hold_plain) && !fake_field(mine->call, S("range")).ptr) || (sent && atomic_load(&fake.ends_held));
}

/* The first call that can move; it goes to the end of the list. */
static struct fake_call *fake_pick(void)
{
    list_each(struct fake_call, mine, &fake.calls, link) {
        if (mine->paused && (mine->resumed || mine->canceled))
            mine->paused = mine->resumed = false;
        if (!fake_waits(mine) || mine->canceled) {
            list_del(&mine->link);
            list_add(&fake.calls, &mine->link);
            mine->resumed = mine->asked = false;
            return mine;
        }
    }
    return NULL;
}

static void *fake_run(void *arg)
{
    unsigned chance = 12345;
    pthread_mutex_lock(&fake.lock);
    while (!fake.stopping || !list_empty(&fake.calls)) {
        struct fake_call *mine = fake_pick();
        if (!mine) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 2000000;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_cond_timedwait(&fake.wake, &fake.lock, &until);
            continue;
        }
        bool canceled = mine->canceled;
        pthread_mutex_unlock(&fake.lock);
        chance = chance * 1103515245u + 12345u;
        enum err err;
        (void)canceled;
        bool over = fake_step(mine, chance >> 8, &err);
        pthread_mutex_lock(&fake.lock);
        if (!over)
            continue;
        struct origin_call *call = mine->call;
        list_del(&mine->link);
        call->priv = NULL;
        free(mine);
        pthread_mutex_unlock(&fake.lock);
        call->events->done(call, err);
        pthread_mutex_lock(&fake.lock);
    }
    pthread_mutex_unlock(&fake.lock);
    return arg;
}

static void fake_start(struct origin_call *call, uint64_t segment_end)
{
    struct fake_call *mine = calloc(1, sizeof(*mine));
    mine->call = call;
    mine->at_peer = segment_end > 0;
    mine->segment_end = segment_end;
    mine->version = atomic_load(&fake.version);    /* what there is when the request arrives */
    if (mine->at_peer && atomic_load(&fake.peer_version))
        mine->version = atomic_load(&fake.peer_version);
    mine->status = atomic_load(&fake.status);
    if (atomic_load(&fake.fail_next)) {
        atomic_fetch_sub(&fake.fail_next, 1);
        mine->status = atomic_load(&fake.fail_status);
    }
    if (slice_starts(call->query, S("versionId=v")))    /* one that is named stays */
        mine->version = (unsigned)(call->query.ptr[11] - '0');
    atomic_fetch_add(call->op == S3_HEAD_OBJECT ? &fake.heads
                     : call->op == S3_GET_OBJECT ? &fake.gets : &fake.lists, 1);
    pthread_mutex_lock(&fake.lock);
    call->priv = mine;
    list_init(&mine->link);
    list_add(&fake.calls, &mine->link);
    unsigned count = 0;
    for (struct list *at = fake.calls.next; at != &fake.calls; at = at->next)
        count++;
    if (count > atomic_load(&fake.most_at_once))
        atomic_store(&fake.most_at_once, count);
    pthread_cond_signal(&fake.wake);
    pthread_mutex_unlock(&fake.lock);
}

void origin_start(struct origin *origin, struct origin_call *call)
{
    (void)origin;
    fake_start(call, 0);
}

bool peers_answer(const struct peers *peers)
{
    (void)peers;
    return atomic_load(&fake.peers);
}

bool peers_start(struct peers *peers, struct origin *origin, struct origin_call *call,
                 const struct peer_question *question)
{
    (void)peers;
    (void)origin;
    ok(question->identity.len && (question->etag.len > 0) != (question->max_age_ms > 0));
    ok(question->end <= peers_segment_end(question->first));
    ok(!question->etag.len || question->size >= question->end);
    atomic_fetch_add(&fake.questions, 1);
    atomic_fetch_add(&fake.unnamed, !question->etag.len);
    bool old = !question->etag.len && atomic_load(&fake.peer_age_ms) > question->max_age_ms;
    fake_start(call, old ? 0 : peers_segment_end(question->first));    /* as the real one does */
    return true;
}

slice origin_owner(const struct origin *origin)
{
    (void)origin;
    return S("shared");
}

enum fake_told { CANCEL, RESUME, ASK };

static void fake_tell(struct origin_call *call, enum fake_told what)
{
    pthread_mutex_lock(&fake.lock);
    struct fake_call *mine = call->priv;
    if (mine && what == CANCEL)
        mine->canceled = true;
    else if (mine && what == RESUME)
        mine->resumed = true;
    else if (mine)
        mine->asked = true;
    pthread_cond_signal(&fake.wake);
    pthread_mutex_unlock(&fake.lock);
}

void origin_resume(struct origin_call *call)
{
    fake_tell(call, RESUME);
}

void origin_cancel(struct origin_call *call)
{
    fake_tell(call, CANCEL);
}

void origin_ask_again(struct origin_call *call)
{
    fake_tell(call, ASK);
}

void origin_trace(const struct origin_call *call, struct trace *ret)
{
    *ret = call->trace;
}

slice origin_endpoint(const struct origin *origin)
{
    (void)origin;
    return S("http://fake");
}

uint64_t origin_owner_changed_ms(const struct origin *origin)
{
    (void)origin;
    return atomic_load(&fake.owner_changed_ms);
}

bool origin_is_busy(const struct origin *origin)
{
    (void)origin;
    return false;
}

bool origin_knows_identities(const struct origin *origin)
{
    (void)origin;
    return atomic_load(&fake.knows_identities);
}

slice origin_reply_get(const struct origin_reply *reply, slice name)
{
    for (size_t i = 0; i < reply->field_count; i++)
        if (slice_eq(reply->fields[i].name, name))
            return reply->fields[i].value;
    return (slice){ 0 };
}

static void fake_begin(uint64_t size)
{
    list_init(&fake.calls);
    fake.stopping = false;
    atomic_store(&fake.size, size);
    atomic_store(&fake.version, 1);
    atomic_store(&fake.cut_every, 0);
    atomic_store(&fake.slow_us, 0);
    atomic_store(&fake.most_at_once, 0);
    atomic_store(&fake.queued, false);
    atomic_store(&fake.sent, 0);
    atomic_store(&fake.unsent, 0);
    atomic_store(&fake.held, false);
    atomic_store(&fake.ends_held, false);
    atomic_store(&fake.crowded, false);
    atomic_store(&fake.down, false);
    atomic_store(&fake.status, 0);
    atomic_store(&fake.ignore_if_match, false);
    atomic_store(&fake.ignore_range, false);
    atomic_store(&fake.hold_plain, false);
    atomic_store(&fake.fail_next, 0);
    atomic_store(&fake.fail_status, 503);
    atomic_store(&fake.no_store, false);
    atomic_store(&fake.etag, NULL);
    atomic_store(&fake.knows_identities, false);
    atomic_store(&fake.owner_changed_ms, 0);
    atomic_store(&fake.denies, NULL);
    atomic_store(&fake.encrypts, false);
    atomic_store(&fake.gets, 0);
    atomic_store(&fake.questions, 0);
    atomic_store(&fake.unnamed, 0);
    atomic_store(&fake.peer_bytes, 0);
    atomic_store(&fake.peer_age_ms, 0);
    atomic_store(&fake.peers_held, false);
    atomic_store(&fake.peer_version, 0);
    atomic_store(&fake.peers, false);
    atomic_store(&fake.heads, 0);
    atomic_store(&fake.lists, 0);
    atomic_store(&fake.late_cancels, 0);
    atomic_store(&fake.bytes, 0);
    ok(pthread_create(&fake.thread, NULL, fake_run, NULL) == 0);
}

static void fake_end(void)
{
    pthread_mutex_lock(&fake.lock);
    fake.stopping = true;
    pthread_cond_signal(&fake.wake);
    pthread_mutex_unlock(&fake.lock);
    pthread_join(fake.thread, NULL);
}

#endif
