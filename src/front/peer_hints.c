/* peer_hints.c - follows the hints of another node. SPDX-License-Identifier: Apache-2.0
 *
 *   batch read ─┬─ write_begin for each write ── removals committed ──┬─ write_end for each ── 200
 *               ├─ grants_change_begins for each change of rights ────┤
 *               ├─ one store_purge for all purges, on a thread ───────┤
 *               └─ write_begin_doubt, if the sender has lost hints ───┘
 *
 * A hint has the effect of the same write or purge through this node (mutation.c, purge.c), except
 * that this node calls no origin and tells no other node. The origin answered the write before the
 * hint was sent, so all that this node requests after these steps is newer than the write. The 200
 * tells the sender that the steps are over, and that a restart does not undo them.
 *
 * A peer may send anything. The batch has limits (hint.h), is read as a whole before anything is
 * done, and can only make this node ask an origin of its settings sooner. Hints for other endpoints
 * are not for this node: they count, and are skipped. If the sender leaves, the steps end at once,
 * and it sends the batch again. Threads: the loop; a purge also has a thread of server->purgers. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/workers.h"
#include "cache/alias.h"
#include "front/peering.h"
#include "store/purge.h"

#define BODY_BYTES_MAX (FRAME_BYTES + HINT_BATCH_BYTES_MAX)
#define BATCHES_MAX 64u               /* in progress, over all loops */

/* The purges of a batch. Outlives its request. */
struct purging {
    struct list link;                 /* in the queue of server->purgers */
    struct mail mail;
    struct mailbox *box;
    struct store *store;
    struct following *of;             /* NULL: its request has ended. For the loop alone */
    struct peer_server *server;
    atomic_bool left;                 /* the sender has: it will send the batch again */
    struct arena keep;
    slice *prefixes;
    struct audit *audits;             /* of each prefix */
    size_t count;
    enum err err;
};

/* A batch that is being followed. Lies in the arena of its request. */
struct following {
    struct peer_server *server;
    struct http_request *http;
    struct arena *keep;
    struct front_loop *loop;
    struct hint_batch batch;
    struct write **writes;
    size_t write_count;
    slice *rights;                    /* buckets whose change of rights has begun */
    size_t rights_count;
    struct purging *purging;          /* NULL: no purge is in progress */
    bool begun, over;
    enum err err;                     /* of the purge */
};

/* ---- purges ---- */

static void purging_free(struct purging **purging)
{
    struct purging *mine = *purging;
    *purging = NULL;
    mailbox_unref(&mine->box);
    arena_free(&mine->keep);
    free(mine);
}

static void step(void *arg);

static void purged(struct mail *mail)    /* on the loop */
{
    struct purging *purging = container_of(mail, struct purging, mail);
    struct following *following = purging->of;
    if (following) {
        following->err = purging->err;
        following->purging = NULL;
    } else {
        atomic_fetch_sub(&purging->server->batches, 1);    /* ended() has left it to the purge */
    }
    purging_free(&purging);
    if (following)
        step(following);
}

/* On a thread of server->purgers. */
bool peer_hints_purge(struct list *link)
{
    struct purging *purging = list_of(link, struct purging, link);
    struct purge_result result;
    if (!atomic_load(&purging->left)) {    /* else a stop would wait for what nobody waits for */
        purging->err = store_purge(purging->store, purging->prefixes, purging->count, &result);
        for (size_t i = 0; i < purging->count; i++)
            audit_end(&purging->audits[i], purging->err, S(""));
    }
    purging->mail.deliver = purged;
    if (!mailbox_post(purging->box, &purging->mail))
        purging_free(&purging);    /* the loop is gone */
    return true;
}

static struct purging *purging_new(struct following *following)
{
    struct purging *purging = must_alloc(sizeof(*purging));
    size_t count = following->batch.count;
    purging->box = mailbox_ref(http_loop_mailbox(http_request_loop(following->http)));
    purging->store = cache_store(following->server->options.front->options.cache);
    purging->of = following;
    purging->server = following->server;
    purging->prefixes = arena_alloc(&purging->keep, count * sizeof(*purging->prefixes));
    purging->audits = arena_alloc(&purging->keep, count * sizeof(*purging->audits));
    return purging;
}

static void add_purge(struct following *following, const struct hint *hint)
{
    slice node = request_head_get(http_request_head(following->http), S("x-penstock-node"));
    const slice *from = http_request_judged(following->http);
    if (!following->purging)
        following->purging = purging_new(following);
    struct purging *purging = following->purging;
    purging->audits[purging->count] = audit_begin_hint(hint, node, *from, &purging->keep);
    purging->prefixes[purging->count++] =
        purge_prefix(&purging->keep, hint->endpoint, alias_bucket(hint->bucket), hint->key,
                     hint->what == HINT_PURGE_KEY);
}

/* ---- writes ---- */

static void add_rights(struct following *following, slice bucket)
{
    grants_change_begins(bucket, ageing_ms());
    following->rights[following->rights_count++] = bucket;
}

/* True if both are parts of one write, as the keys of a DeleteObjects are. */
static bool is_same_write(const struct hint *a, const struct hint *b)
{
    return a->what == HINT_WRITE && b->what == HINT_WRITE && a->key.len && b->key.len &&
           slice_eq(a->endpoint, b->endpoint) && slice_eq(a->bucket, b->bucket);
}

/* Returns the number of hints that it has followed, at least one. */
static size_t add_write(struct following *following, size_t first, const struct rules *rules)
{
    const struct hint *hints = &following->batch.hints[first];
    size_t count = 1;
    while (first + count < following->batch.count && is_same_write(&hints[0], &hints[count]))
        count++;
    struct write_key *keys = arena_alloc(following->keep, count * sizeof(*keys));
    for (size_t i = 0; i < count; i++)
        keys[i] = (struct write_key){ hints[i].key, hints[i].version };
    if (hints->what & HINT_RIGHTS)
        add_rights(following, hints->bucket);
    struct write *write = write_begin(following->loop->cache, rules, hints->bucket, keys,
                                      hints->key.len ? count : 0, step, following);
    if (hints->what & HINT_PROPERTY)
        write_restates_key(write);
    if (hints->what & HINT_BUCKET)
        write_restates_bucket(write);
    following->writes[following->write_count++] = write;
    return count;
}

static void begin(struct following *following)
{
    const struct hint_batch *batch = &following->batch;
    for (size_t i = 0; i < batch->count;) {
        const struct hint *hint = &batch->hints[i];
        const struct rules *rules = rules_at(following->server->options.front, hint->endpoint);
        size_t done = 1;
        if (rules && hint->what & HINT_WRITE)
            done = add_write(following, i, rules);
        else if (rules)
            add_purge(following, hint);
        metric_add(rules ? M_PEER_HINT_FOLLOWED : M_PEER_HINT_OTHERS, done);
        i += done;
    }
    if (following->purging) {
        cache_purge_begins(following->loop->cache->cache);
        workers_put(following->server->purgers, &following->purging->link);
    }
}

/* ---- lost hints ---- */

static void begin_doubt(struct following *following)
{
    uint64_t age_ms = following->batch.age_ms, now_ms = ageing_ms();
    uint64_t before_ms = now_ms - MIN(age_ms, now_ms);
    const slice *peer = http_request_judged(following->http);
    if (age_ms == HINT_AGE_NONE || !cache_is_older(following->loop->cache->cache, before_ms))
        return;
    metric_add(M_PEER_HINT_DOUBTS, 1);
    if (peer_may_log(following->server))
        log_warn("peer_hints_lost", "peer=%.*s age_ms=%" PRIu64 " why=\"the node could not tell "
                 "this one of all writes through it, because it had restarted, or this one did not "
                 "answer for too long. Objects that were cached before the latest of these writes "
                 "are revalidated before they are served\"", SLICE_ARG(*peer), age_ms);
    following->writes[following->write_count++] =
        write_begin_doubt(following->loop->cache, before_ms, step, following);
}

/* ---- the end ---- */

static void end_steps(struct following *following)
{
    for (size_t i = 0; i < following->write_count; i++)
        write_end(&following->writes[i]);
    for (size_t i = 0; i < following->rights_count; i++)
        grants_change_ends(following->rights[i], ageing_ms());
    following->write_count = following->rights_count = 0;
    following->over = true;
}

static bool may_end(const struct following *following)
{
    bool may = following->begun && !following->over && !following->purging;
    for (size_t i = 0; i < following->write_count && may; i++)
        may = write_may_go(following->writes[i]);
    return may;
}

static void step(void *arg)
{
    struct following *following = arg;
    if (!may_end(following))
        return;
    end_steps(following);
    if (following->err)
        peer_reply(following->http, 503, S("disk"));
    else
        peer_reply(following->http, 200, S("followed"));
}

static void ended(void *arg, const struct http_outcome *outcome)
{
    struct following *following = arg;
    (void)outcome;    /* the sender knows what it has got */
    end_steps(following);
    if (!following->purging) {
        atomic_fetch_sub(&following->server->batches, 1);
        return;
    }
    following->purging->of = NULL;
    atomic_store(&following->purging->left, true);    /* it keeps the place of the batch */
}

/* ---- the beginning ---- */

bool peer_hints_fit(const struct request_head *head)
{
    return slice_eq(head->method, S("POST")) && slice_eq(head->path, S(HINTS_TARGET)) &&
           !head->chunked && head->length >= FRAME_BYTES && head->length <= BODY_BYTES_MAX;
}

static slice read_body(struct http_request *http)
{
    struct http_body *body = http_body_take(http);
    size_t bytes = http_body_bytes(body);
    char *copy = arena_alloc(http_request_arena(http), bytes + 1);
    bool read = body && http_body_read_now(body, 0, copy, bytes);
    http_body_release(&body);
    return (slice){ copy, read ? bytes : 0 };
}

static bool is_for_this_node(const struct peer_server *server, const struct request_head *head)
{
    uint8_t to[NODE_ID_BYTES], from[NODE_ID_BYTES];
    return slice_unhex(request_head_get(head, S("x-penstock-node")), from, sizeof(from)) &&
           slice_unhex(request_head_get(head, S("x-penstock-to")), to, sizeof(to)) &&
           memcmp(to, server->options.node, sizeof(to)) == 0;
}

static void refuse(struct peer_server *server, struct http_request *http, int status, slice why)
{
    const slice *peer = http_request_judged(http);
    metric_add(M_PEER_HINT_REFUSED, 1);
    if (status == 400 && peer_may_log(server))
        log_warn("peer_hints_damaged", "peer=%.*s why=\"a batch of hints of writes has %.*s, so "
                 "this node does not follow it. If this goes on, look for damaged memory or network "
                 "hardware, or for versions of Penstock that are too far apart\"",
                 SLICE_ARG(*peer), SLICE_ARG(why));
    peer_reply(http, status, why);
}

/* Returns the status of a refusal, or 0. */
static int read_batch(struct peer_server *server, struct http_request *http,
                      struct hint_batch *ret, slice *ret_why)
{
    slice body = read_body(http), payload;
    *ret_why = S("busy");
    if (!body.len)    /* it was written to a file, and memory has lost it again */
        return 503;
    enum err err = frame_open(FRAME_HINTS, body, &payload);
    *ret_why = err == ERR_BAD_DIGEST ? S("a wrong checksum") : S("a form that can't be read");
    if (!err)
        err = hint_batch_read(http_request_arena(http), payload, ret);
    if (err)
        return 400;
    *ret_why = S("another node");
    return is_for_this_node(server, http_request_head(http)) ? 0 : 404;
}

void peer_hints_follow(struct peer_server *server, struct http_request *http)
{
    struct arena *keep = http_request_arena(http);
    struct following *following = arena_alloc(keep, sizeof(*following));
    slice why;
    int status = read_batch(server, http, &following->batch, &why);
    if (status) {
        refuse(server, http, status, why);
        return;
    }
    if (atomic_fetch_add(&server->batches, 1) >= BATCHES_MAX) {
        atomic_fetch_sub(&server->batches, 1);
        refuse(server, http, 503, S("busy"));
        return;
    }
    following->server = server;
    following->http = http;
    following->keep = keep;
    following->loop = http_loop_local(http_request_loop(http));
    following->writes = arena_alloc(keep, (following->batch.count + 1) * sizeof(struct write *));
    following->rights = arena_alloc(keep, (following->batch.count + 1) * sizeof(slice));
    http_request_on_end(http, ended, following);
    if (guard_on(GUARD_HINTS)) {
        begin_doubt(following);
        begin(following);
    }
    following->begun = true;
    step(following);
}
