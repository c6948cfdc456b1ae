/* populate.c - the body of a PUT fills the cache. SPDX-License-Identifier: Apache-2.0
 *
 *     a get of the metadata alone (no-cache) ── the same ETag and size, epoch unchanged? ── records
 *
 * At most AHEAD records wait for the committer (the thread that writes the index) at a time; when
 * one is stored, the next one is handed in. The loop and each record in progress hold a reference;
 * the body is released with the last one. Threads: only the reference count and `failed` are for
 * any thread; all else is for the loop. Rules such as H8 are in src/README.md. */
#include "cache/populate.h"

#include <stdlib.h>

#include "base/metric.h"
#include "cache/epoch.h"
#include "cache/get.h"
#include "cache/inside.h"

#define POPULATES_MAX 64u             /* a loop (rule H8) */
#define AHEAD 4u

struct record {
    struct epoch_fill fill;
    struct populate *populate;
    char bytes[];                     /* a copy, because the disk of the body may fail */
};

struct populate {
    struct list link;                 /* loop->populates */
    struct cache_loop *loop;
    struct arena arena;
    struct populate_ask ask;
    struct get *get;
    struct metadata *metadata;
    struct epoch_note epoch;          /* when the write had ended */
    uint64_t compared;                /* store_compared() at that time */
    uint64_t next;                    /* where the next record begins */
    struct ticket *ticket;
    atomic_uint refs, pending;
    atomic_bool failed;
};

static void unref(struct populate *populate)
{
    unsigned before = atomic_fetch_sub(&populate->refs, 1);
    check(before > 0);
    if (before > 1)
        return;
    populate->ask.release(populate->ask.body.arg);
    metadata_unref(&populate->metadata);
    ticket_unref(&populate->ticket);
    arena_free(&populate->arena);
    free(populate);
}

static void leave(struct populate *populate)
{
    check(populate->loop->populate_count > 0);
    struct ticket *mine = ticket_ref(populate->ticket);
    list_del(&populate->link);
    populate->loop->populate_count--;
    get_end(&populate->get);
    ticket_end(&mine);
    unref(populate);
}

/* ---- records ---- */

static void landed(struct store_append *append, enum err err)
{
    struct record *record = container_of(append, struct record, fill.append);
    struct populate *populate = record->populate;
    if (err)
        atomic_store(&populate->failed, true);
    check(atomic_fetch_sub(&populate->pending, 1) > 0);
    ticket_wake(populate->ticket);
    free(record);
    unref(populate);
}

static bool send_record(struct populate *populate)
{
    const struct origin_body *body = &populate->ask.body;
    size_t bytes = MIN(body->length - populate->next, RECORD_BYTES_MAX);
    if (!store_admits(cache_store(populate->loop->cache), populate->metadata,
                      populate->next / UNIT_BYTES))
        return false;
    struct record *record = must_alloc(sizeof(*record) + bytes);
    if (body->read(body->arg, populate->next, record->bytes, bytes) != bytes) {
        free(record);
        return false;
    }
    record->populate = populate;
    record->fill.epoch = populate->epoch;
    record->fill.append = (struct store_append){
        .metadata = populate->metadata,
        .first_unit = (uint32_t)(populate->next / UNIT_BYTES),
        .bytes = { record->bytes, bytes },
        .with_metadata = populate->metadata->size <= WHOLE_BYTES_MAX,
        .may_publish = epoch_may_publish,
        .compared = populate->compared,
        .done = landed,
    };
    check(bytes % UNIT_BYTES == 0 || populate->next + bytes == body->length);
    atomic_fetch_add(&populate->refs, 1);
    atomic_fetch_add(&populate->pending, 1);
    if (store_append(cache_store(populate->loop->cache), &record->fill.append) != OK) {
        atomic_fetch_sub(&populate->pending, 1);
        atomic_fetch_sub(&populate->refs, 1);    /* the loop still has its reference */
        free(record);
        return false;
    }
    populate->next += bytes;
    return true;
}

/* Hands in records until it has to wait. Returns true if it is over. */
static bool send_records(struct populate *populate)
{
    while (populate->next < populate->ask.body.length) {
        if (atomic_load(&populate->failed))
            return true;
        if (atomic_load(&populate->pending) >= AHEAD)
            return false;
        if (!send_record(populate))
            atomic_store(&populate->failed, true);
    }
    return atomic_load(&populate->pending) == 0;
}

/* ---- what the origin has ---- */

static bool is_what_was_written(const struct populate *populate, const struct get_answer *answer)
{
    const struct metadata *metadata = answer->metadata;
    return !answer->err && metadata && learn_has_strong_etag(metadata) &&
           slice_eq(metadata->etag, populate->ask.etag) &&
           metadata->size == populate->ask.body.length &&
           !learn_says_no_store(metadata_field(metadata, S("cache-control"))) &&
           epoch_holds(&metadata->id, populate->epoch) &&
           store_allows(cache_store(populate->loop->cache), metadata) &&
           store_takes(cache_store(populate->loop->cache), &metadata->id);
}

static void step(void *arg)
{
    struct populate *populate = arg;
    const struct get_answer *answer;
    if (populate->get) {
        if (get_decide(populate->get, &answer) == ERR_WAIT)
            return;
        if (is_what_was_written(populate, answer))
            populate->metadata = metadata_ref((struct metadata *)answer->metadata);
        get_end(&populate->get);
    }
    if (populate->metadata && !send_records(populate))
        return;
    bool whole = populate->metadata && !atomic_load(&populate->failed);
    metric_add(whole ? M_POPULATED : M_POPULATE_DROPPED, 1);
    leave(populate);
}

static struct populate *populate_new(struct cache_loop *loop, const struct populate_ask *ask)
{
    struct populate *populate = must_alloc(sizeof(*populate));
    struct object_id id;
    populate->loop = loop;
    populate->ask = *ask;
    populate->ask.bucket = arena_copy(&populate->arena, ask->bucket);
    populate->ask.key = arena_copy(&populate->arena, ask->key);
    populate->ask.etag = arena_copy(&populate->arena, ask->etag);
    struct object_name name = { .endpoint = origin_endpoint(ask->rules->origin),
                                .bucket = ask->bucket, .key = ask->key };
    store_object_id(cache_store(loop->cache), &name, &id);
    populate->epoch = epoch_now(&id);
    populate->compared = store_compared(cache_store(loop->cache));
    populate->ticket = ticket_new(loop->box, step, populate);
    atomic_init(&populate->refs, 1);
    list_init(&populate->link);
    list_add(&loop->populates, &populate->link);
    loop->populate_count++;
    return populate;
}

void populate_start(struct cache_loop *loop, const struct populate_ask *ask)
{
    if (loop->populate_count >= POPULATES_MAX) {
        metric_add(M_POPULATE_DROPPED, 1);
        ask->release(ask->body.arg);
        return;
    }
    struct populate *populate = populate_new(loop, ask);
    struct get_ask get_ask = {
        .rules = ask->rules,
        .who = ask->who,
        .bucket = populate->ask.bucket,
        .key = populate->ask.key,
        .conditions = { .if_modified_since = -1, .if_unmodified_since = -1 },
        .head_only = true,
        .revalidate = true,
    };
    populate->get = get_start(loop, &get_ask, step, populate);
    step(populate);
}

void populate_end_all(struct cache_loop *loop)
{
    while (!list_empty(&loop->populates))
        leave(list_of(loop->populates.next, struct populate, link));
    check(loop->populate_count == 0);
}
