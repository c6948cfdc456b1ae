/* write.c - the steps around a write (rule H7 in src/README.md).
 * SPDX-License-Identifier: Apache-2.0
 *
 * A write begins with the removal of its keys' metadata from the index. The write and the committer
 * (the thread that writes the index) share this removal, which goes on if the client leaves. */
#include "cache/write.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cache/alias.h"
#include "cache/inside.h"

#define VERSIONS_MAX 3    /* versions of a key that one write may touch */
#define NAMES_MAX 2       /* names of a key (alias.h) */

struct removing {
    atomic_uint refs;             /* the write's and the committer's */
    atomic_bool over;
    struct ticket *ticket;
    struct store_removal removal;
    struct object_id ids[];
};

struct write {
    struct cache *cache;
    struct ticket *ticket;
    void (*changed)(void *arg);
    void *arg;
    uint64_t number;
    struct object_id *ids;        /* every version a write of these keys may touch */
    size_t id_count;
    bool restates_key;            /* it changes metadata of a version that it does not name */
    slice bucket;                 /* its name; owned */
    struct epoch_pair *pair;      /* of the bucket, for its lists; NULL: a doubt, of no bucket */
    struct object_id bucket_id;
    struct removing *removing;    /* of the metadata of its keys; NULL: the store has none */
    struct removing *restating;   /* not NULL: it may change all objects of its bucket */
};

static void removing_unref(struct removing *removing)
{
    unsigned before = atomic_fetch_sub(&removing->refs, 1);
    check(before > 0);
    if (before > 1)
        return;
    ticket_unref(&removing->ticket);
    free(removing);
}

static void removed(struct store_removal *removal, enum err err)
{
    (void)err;    /* a folder out of service serves nothing, and returns with unproved metadata */
    struct removing *removing = container_of(removal, struct removing, removal);
    atomic_store(&removing->over, true);
    ticket_wake(removing->ticket);
    removing_unref(removing);
}

static void woken(void *arg)
{
    struct write *write = arg;
    write->changed(write->arg);
}

/* Unhooks the fetches in progress for these keys: later readers do not find them, and their present
 * readers go on. */
static void unhook_all(const struct write *write)
{
    struct flights *flights = write->cache->flights;
    for (size_t i = 0; i < write->id_count; i++) {
        if (flights_idle(flights, &write->ids[i]))
            continue;
        flights_lock(flights, &write->ids[i]);
        inflight_unhook(flights, &write->ids[i]);
        flights_unlock(flights, &write->ids[i]);
    }
}

static struct removing *removing_new(const struct write *write, const struct object_id *ids,
                                     size_t count)
{
    struct removing *removing = must_alloc(sizeof(*removing) + count * sizeof(*ids));
    memcpy(removing->ids, ids, count * sizeof(*ids));
    atomic_init(&removing->refs, 2);
    removing->ticket = ticket_ref(write->ticket);
    removing->removal = (struct store_removal){
        .ids = removing->ids, .count = count, .done = removed
    };
    return removing;
}

static void remove_known(struct write *write)
{
    struct store *store = cache_store(write->cache);
    struct object_id *known = must_alloc((write->id_count + 1) * sizeof(*known));
    size_t count = 0;
    for (size_t i = 0; i < write->id_count; i++)
        if (store_knows(store, &write->ids[i], NULL))
            known[count++] = write->ids[i];
    if (count) {
        write->removing = removing_new(write, known, count);
        store_remove(store, &write->removing->removal);
    }
    free(known);
}

/* Adds the ids of a key without a version, of its version "null", and of the named version. */
static void add_ids(struct write *write, const struct rules *rules, slice bucket,
                    const struct write_key *key)
{
    const slice versions[VERSIONS_MAX] = { S(""), S("null"), key->version };
    bool names_another = key->version.len && !slice_eq(key->version, S("null"));
    for (size_t i = 0; i < (names_another ? 3 : 2); i++) {
        struct object_name name = {
            .endpoint = origin_endpoint(rules->origin),
            .bucket = bucket, .key = key->key, .version = versions[i],
        };
        store_object_id(cache_store(write->cache), &name, &write->ids[write->id_count++]);
    }
}

static void add_names(struct write *write, const struct rules *rules, slice bucket,
                      const struct write_key *key)
{
    struct arena keep = { 0 };
    struct write_key plain = { alias_key(&keep, key->key), key->version };
    add_ids(write, rules, bucket, key);
    if (plain.key.ptr != key->key.ptr)
        add_ids(write, rules, bucket, &plain);
    arena_free(&keep);
}

struct write *write_begin(struct cache_loop *loop, const struct rules *rules, slice bucket,
                          const struct write_key *keys, size_t key_count,
                          void (*changed)(void *arg), void *arg)
{
    check(rules && rules->origin && bucket.len && changed);
    struct write *write = must_alloc(sizeof(*write));
    write->cache = loop->cache;
    write->changed = changed;
    write->arg = arg;
    write->ticket = ticket_new(loop->box, woken, write);
    write->ids = must_alloc((key_count * VERSIONS_MAX * NAMES_MAX + 1) * sizeof(*write->ids));
    bucket = alias_bucket(bucket);
    store_object_id(cache_store(loop->cache), &(struct object_name){
        .endpoint = origin_endpoint(rules->origin), .bucket = bucket }, &write->bucket_id);
    write->bucket = (slice){ must_strndup(bucket.ptr, bucket.len), bucket.len };
    for (size_t i = 0; i < key_count; i++)
        add_names(write, rules, bucket, &keys[i]);
    check(write->id_count <= key_count * VERSIONS_MAX * NAMES_MAX);
    write->pair = epoch_bucket_of(origin_endpoint(rules->origin), bucket);
    epoch_pair_begins(write->pair);
    write->number = epoch_write_number();
    for (size_t i = 0; i < write->id_count; i++)
        epoch_write_begins(&write->ids[i], write->number);
    unhook_all(write);
    remove_known(write);
    return write;
}

static struct epoch_restated now(void)
{
    return (struct epoch_restated){ ageing_ms(), ageing_s() };
}

/* The ids of the key's versions are not known here, so metadata of all of them is revalidated. The
 * first id is that of the key itself. */
void write_restates_key(struct write *write)
{
    check(write->id_count);
    write->restates_key = true;
    epoch_restate(&write->ids[0], now());
}

void write_restates_bucket(struct write *write)
{
    check(!write->restating);
    epoch_bucket_restate_begins(write->bucket, now());
    write->restating = removing_new(write, &write->bucket_id, 1);
    store_restate(cache_store(write->cache), &write->restating->removal);
}

/* The id of all zeros stands for every bucket (store_restate). */
struct write *write_begin_doubt(struct cache_loop *loop, uint64_t before_ms,
                                void (*changed)(void *arg), void *arg)
{
    struct write *write = must_alloc(sizeof(*write));
    uint64_t at_ms = MAX(before_ms, (uint64_t)1);
    check(changed);
    write->cache = loop->cache;
    write->changed = changed;
    write->arg = arg;
    write->ticket = ticket_new(loop->box, woken, write);
    epoch_doubt((struct epoch_restated){ at_ms, ageing_s_of(at_ms) });
    write->restating = removing_new(write, &write->bucket_id, 1);
    store_restate(cache_store(write->cache), &write->restating->removal);
    return write;
}

bool write_may_go(const struct write *write)
{
    return (!write->removing || atomic_load(&write->removing->over)) &&
           (!write->restating || atomic_load(&write->restating->over));
}

void write_end(struct write **write)
{
    struct write *mine = *write;
    *write = NULL;
    if (!mine)
        return;
    if (mine->restates_key)
        epoch_restate(&mine->ids[0], now());
    if (mine->restating && mine->pair)
        epoch_bucket_restate_ends(mine->bucket, now());
    for (size_t i = 0; i < mine->id_count; i++)
        epoch_write_ends(&mine->ids[i]);
    if (mine->pair)
        epoch_pair_ends(mine->pair);
    unhook_all(mine);
    if (mine->removing)
        removing_unref(mine->removing);
    if (mine->restating)
        removing_unref(mine->restating);
    ticket_end(&mine->ticket);
    free((char *)mine->bucket.ptr);
    free(mine->ids);
    free(mine);
}

struct write_order write_order(const struct write *write, struct arena *keep)
{
    size_t bytes = write->id_count * sizeof(*write->ids);
    struct object_id *ids = arena_alloc(keep, bytes);
    memcpy(ids, write->ids, bytes);
    return (struct write_order){ write->number, ids, write->id_count };
}

bool write_is_latest(const struct write_order *order)
{
    for (size_t i = 0; i < order->id_count; i++)
        if (!epoch_write_is_latest(&order->ids[i], order->number))
            return false;
    return true;
}
